"""Logs that are to become segments: those that the writer has closed, and those that killed writers left behind.

A log becomes at most one segment of each source, of its number. Of one that was found the writer may have been killed
between two of them: what is there already is left alone.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_sink.errors import BadFrame, NoFile
from spark_sink.event_files.batches import FrameRows, parquet_bytes, tables_of
from spark_sink.event_files.folder import LOG, list_written
from spark_sink.event_files.footer import segment_metadata
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import Disk, is_published, log_parts_of, seal, segment_name
from spark_sink.event_files.store import read_file
from spark_sink.event_files.wal import HEADLESS_BYTES, Ledger, WalContent


@dataclass
class ClosedLog:
    """A log that nobody writes any more."""

    path: Path
    handle: int  # its lock
    number: int
    header: Header
    before: dict[str, int]  # rows of each source in all logs before it
    ledger: Ledger  # of this log alone
    wal_bytes: int
    frames: list[FrameRows] | None  # None: to be read from it
    is_found: bool = False  # left behind by another process
    is_own: bool = True  # of this epoch of this broker
    torn_bytes: int = 0  # at its end

    def seal(self, events: Path, known: Mapping[int, Any], disk: Disk) -> int:
        """Make its segments; their number. `known`: definitions for `frames`. OSError: one cannot be written."""
        frames = self.frames
        if frames is None:
            content = WalContent(read_file(self.path))
            known, frames = content.known, content.frames
        name = segment_name(self.header.broker_id, self.header.epoch, self.number)
        tables = tables_of(self.header, frames, known)
        for source, table in tables.items():
            if self.is_found and is_published(events, source, name):
                continue
            metadata = segment_metadata(self.header, source, self.before.get(source, 0), self.number)
            seal(events / source, name, parquet_bytes(table, metadata), disk)
        return len(tables)


def own_logs(events: Path, header: Header) -> list[Path]:
    """Those of the broker of this header, of all its runs, in the order of their names."""
    return [events / file.place for file in list_written(events, ()).files(LOG) if file.origin[0] == header.broker_id]


def foreign_logs(events: Path, header: Header) -> dict[Path, int]:
    """Those of all other runs, in the order of their names, and when each was changed last, in nanoseconds."""
    found = {}
    for file in list_written(events, ()).files(LOG):
        if file.stream != header.stream:
            with contextlib.suppress(OSError):  # it is gone
                found[events / file.place] = (events / file.place).stat().st_mtime_ns
    return found


def found_logs(
    paths: Iterable[Path], header: Header, disk: Disk, say: Callable[[str], None]
) -> Iterator[tuple[ClosedLog, Ledger]]:
    """Those without a living writer, in the order given, locked; each with the counts of its epoch before it.
    `header`: of whoever asks. What can be nothing is said."""
    for path in paths:
        stream, number = log_parts_of(path.name)
        handle = disk.lock(path)
        if handle is None:
            continue  # it is gone, or of a living writer
        with contextlib.suppress(OSError):
            disk.touch(handle)  # should this writer die now, the log is not for others yet
        try:
            data = read_file(path)
            content = WalContent(data)
        except (OSError, BadFrame, NoFile) as error:
            say(f"{path} is left behind and nothing can be made of it: {error}")
            _discard(path, handle, disk, say)
            continue
        before = content.head.before
        log = ClosedLog(path, handle, number, content.head.header, before.rows, content.ledger, len(data), None)
        log.is_found, log.is_own = True, stream == header.stream
        log.torn_bytes = content.torn_bytes
        if log.torn_bytes:
            say(f"{path} ends with {log.torn_bytes} bytes that are no whole frame, all before them is kept")
        yield log, before


def _discard(path: Path, handle: int, disk: Disk, say: Callable[[str], None]) -> None:
    """A log without a whole head was being made when its writer was killed. Any other stays for people to look."""
    try:
        if path.stat().st_size < HEADLESS_BYTES:
            disk.remove(path)
    except OSError as error:
        say(f"{path} cannot be removed: {error}")
    disk.close(handle)
