"""Logs that a writer has locked: the one that it writes, and those that are to become segments, which it has closed or
which killed writers left behind.

A log becomes at most one segment of each source, of its number. Of one that was found the writer may have been killed
between two of them: what is there already is left alone.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from spark_sink.errors import BadFrame, NoFile
from spark_sink.event_files.batches import FrameRows, parquet_bytes, tables_of
from spark_sink.event_files.folder import LOG, list_written
from spark_sink.event_files.footer import segment_metadata
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import LOG_SUFFIX, Disk, find_segment, parts_of, seal, segment_name
from spark_sink.event_files.store import read_file
from spark_sink.event_files.wal import HEADLESS_BYTES, Ledger, WalContent, WalHead, encode_wal_frame


class Log:
    """A log and its lock."""

    def __init__(self, path: Path, handle: int, head: WalHead, disk: Disk) -> None:
        self.path: Final = path
        self.handle: Final = handle  # its lock
        self.header: Final = head.header
        self.before: Final = head.before  # counts in all logs before it
        self.stream, self.number = parts_of(path.name, LOG_SUFFIX)
        self.ledger = Ledger()  # of this log alone
        self.frames: list[FrameRows] = []  # in it; empty when it is closed: to be read from it
        self.bytes = 0
        self.torn_bytes = 0  # at the end of one that was found
        self.defined: Final[set[int]] = set()  # flow numbers, of one that is written
        self._disk: Final = disk
        self._is_found = False  # left behind by another process
        self._is_torn = False  # half a frame is at its end and could not be taken off

    @classmethod
    def create(cls, path: Path, head: WalHead, disk: Disk) -> "Log":
        """A new one. FileExistsError: there is one of this name; other OSError: it cannot be written."""
        log = cls(path, disk.create(path), head, disk)
        try:
            log.append(encode_wal_frame(0, 0, msgspec.msgpack.encode(head)))
        except OSError:
            log.remove()
            raise
        return log

    @classmethod
    def found(cls, path: Path, handle: int, disk: Disk) -> "Log":
        """One that a killed writer left behind. BadFrame: it has no whole head; NoFile, OSError: it cannot be read."""
        data = read_file(path)
        content = WalContent(data)
        log = cls(path, handle, content.head, disk)
        log.ledger, log.bytes, log.torn_bytes, log._is_found = content.ledger, len(data), content.torn_bytes, True
        return log

    def append(self, data: bytes) -> None:
        """All of it is in the log, or nothing. OSError."""
        if self._is_torn:
            self._cut()
        try:
            self._disk.append(self.handle, data)
        except OSError:
            self._is_torn = True
            self._cut()
            raise
        self.bytes += len(data)

    def seal(self, events: Path, known: Mapping[int, Any]) -> int:
        """Make its segments; their number. `known`: definitions for `frames`. OSError: one cannot be written."""
        frames = self.frames
        if not frames:
            content = WalContent(read_file(self.path))
            known, frames = content.known, content.frames
        name = segment_name(self.header.broker_id, self.header.epoch, self.number)
        tables = tables_of(self.header, frames, known)
        for source, table in tables.items():
            if self._is_found and find_segment(events, source, name) is not None:
                continue
            metadata = segment_metadata(self.header, source, self.before.rows.get(source, 0), self.number)
            seal(events / source, name, parquet_bytes(table, metadata), self._disk)
        return len(tables)

    def remove(self) -> None:
        """It is of no use any more. OSError: it stays, and is not locked any more."""
        try:
            self._disk.remove(self.path)
        finally:
            self._disk.close(self.handle)

    def _cut(self) -> None:
        self._disk.truncate(self.handle, self.bytes)
        self._is_torn = False


def foreign_logs(events: Path, header: Header) -> dict[Path, int]:
    """Those of all other runs, in the order of their names, and when each was changed last, in nanoseconds."""
    found = {}
    for file in list_written(events, ()).files(LOG):
        if file.stream != header.stream:
            with contextlib.suppress(OSError):  # it is gone
                found[events / file.place] = (events / file.place).stat().st_mtime_ns
    return found


def found_logs(paths: Iterable[Path], disk: Disk, say: Callable[[str], None]) -> Iterator[Log]:
    """Those without a living writer, in the order given, locked. What can be nothing is said."""
    for path in paths:
        handle = disk.lock(path)
        if handle is None:
            continue  # it is gone, or of a living writer
        with contextlib.suppress(OSError):
            os.utime(handle)  # should this writer die now, the log is not for others yet
        try:
            log = Log.found(path, handle, disk)
        except (OSError, BadFrame, NoFile) as error:
            say(f"{path} is left behind and nothing can be made of it: {error}")
            _discard(path, handle, disk, say)
            continue
        if log.torn_bytes:
            say(f"{path} ends with {log.torn_bytes} bytes that are no whole frame, all before them is kept")
        yield log


def _discard(path: Path, handle: int, disk: Disk, say: Callable[[str], None]) -> None:
    """A log without a whole head was being made when its writer was killed. Any other stays for people to look."""
    try:
        if path.stat().st_size < HEADLESS_BYTES:
            disk.remove(path)
    except OSError as error:
        say(f"{path} cannot be removed: {error}")
    disk.close(handle)
