"""Which exchange is which service: what the configuration says, and what callers have declared.

    configured ──► declared by exchange.declare, kept in a file ──► any other name: the service of that name, direct

As with RabbitMQ an exchange can be declared again as it is, and deleted when it is not there; one that the
configuration makes is neither changed nor deleted by callers. Knows no services.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.config.folders import sync_folder
from rsocket_wire.wire.tags import MAX_VALUE_BYTES

DIRECT: Final = "direct"  # one route of the service gets a message
FANOUT: Final = "fanout"  # all routes get it
TYPES: Final = (DIRECT, FANOUT)
MAX_DECLARED: Final = 10_000  # exchanges; one more is refused


@dataclass(frozen=True, slots=True)
class Exchange:
    """Where messages to an exchange go."""

    service: str
    type: str = DIRECT  # one of TYPES


class Impossible(Exception):
    """An exchange cannot be declared or deleted; the text says why."""


class Exchanges:
    """All exchanges of a gateway."""

    def __init__(self, configured: Mapping[str, Exchange], path: Path) -> None:
        """`path`: the file of those that callers declare, in a folder that is there. ValueError when it is broken."""
        self._configured: Final = dict(configured)
        self._path: Final = path
        self._declared: dict[str, str] = _read(path)  # type by name
        self._lock: Final = asyncio.Lock()  # one change at a time

    def find(self, name: str) -> Exchange:
        """What the exchange is; one of which nobody has said anything is the service of its name."""
        return self._configured.get(name) or Exchange(name, self._declared.get(name, DIRECT))

    async def declare(self, name: str, type: str) -> None:
        """Impossible; otherwise it is on the disk when this returns."""
        if type not in TYPES:
            raise Impossible(f"exchange type {type[:40]!r} is not one of services, which have: {', '.join(TYPES)}")
        size = len(name.encode())
        if not 1 <= size <= MAX_VALUE_BYTES:
            raise Impossible(f"exchange {name[:40]!r} has {size} bytes, the name of a service has 1..{MAX_VALUE_BYTES}")
        async with self._lock:
            configured = self._configured.get(name)
            known = self._declared.get(name) if configured is None else configured.type
            if known not in (None, type):
                raise Impossible(f"exchange {name!r} is {known}, it cannot be declared as {type}")
            if known is not None:
                return
            if len(self._declared) >= MAX_DECLARED:
                raise Impossible(f"{MAX_DECLARED} exchanges are declared, delete one first")
            await self._keep({**self._declared, name: type})

    async def delete(self, name: str) -> None:
        """Impossible; otherwise it is gone from the disk when this returns."""
        async with self._lock:
            if name in self._configured:
                raise Impossible(f"exchange {name!r} is made by the configuration")
            if name in self._declared:
                await self._keep({other: type for other, type in self._declared.items() if other != name})

    async def _keep(self, declared: dict[str, str]) -> None:
        try:
            await asyncio.to_thread(_write, self._path, declared)
        except OSError as error:
            raise Impossible(f"it cannot be kept: {error.strerror}") from None
        self._declared = declared


def _read(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(found, dict) or not all(type in TYPES for type in found.values()):
        raise ValueError(f"{path}: it must be an object of exchanges and their types, {' or '.join(TYPES)}")
    return found


def _write(path: Path, declared: Mapping[str, str]) -> None:
    """The file as it is, or as it was, whatever happens meanwhile."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        json.dump(declared, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)
