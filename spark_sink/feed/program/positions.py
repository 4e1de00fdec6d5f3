"""Where sources by RSocket were at each poster, kept in a file over restarts."""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from spark_sink.event_files.layout import Disk, seal


class FilePositions:
    """Those of one mirror: see `spark_sink.feed.transports.rsocket.Positions`."""

    def __init__(self, path: Path) -> None:
        """`path`: of the file; it need not be there."""
        self._path: Final = path
        self._lock: Final = asyncio.Lock()

    async def load(self, source: str) -> dict[str, int]:
        """By origin: the number up to which all is acknowledged. OSError, msgspec.MsgspecError."""
        async with self._lock:
            return (await asyncio.to_thread(self._read)).get(source, {})

    async def save(self, source: str, positions: dict[str, int]) -> None:
        """Keeps these beside those of other origins. OSError, msgspec.MsgspecError."""
        async with self._lock:
            kept = await asyncio.to_thread(self._read)
            kept[source] = kept.get(source, {}) | positions
            data = msgspec.json.encode(kept)
            await asyncio.to_thread(seal, self._path.parent, self._path.name, data, Disk())

    def _read(self) -> dict[str, dict[str, int]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, dict[str, int]])
        except FileNotFoundError:
            return {}
