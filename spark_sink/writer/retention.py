"""How long segments are kept, and the readers that must have read them before.

    <events>/_readers/<name>.json     {"archives": true}                          it has read what lies in the archive
                                      {"read": {"flows/<broker>-<epoch>": 41}}    or each stream up to this number,
                                                                                  also of what another one has archived
                                      {"sources": ["flows"], "read": {…}}         and wants nothing of other sources

A reader declares itself with such a file and writes it again as it goes on; when it was written last is when the reader
was heard last. A segment is removed when it is too old, or the oldest while all together are too large; never while a
declared reader has not read it. Where nobody declares himself, age and size alone decide.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from broker.events import WriterState
from spark_sink.errors import NoFile
from spark_sink.event_files.folder import SOURCES, EventFile, list_written
from spark_sink.event_files.layout import Disk, open_file, seal
from spark_sink.writer.settings import Settings

READERS: Final = "_readers"
READER_SUFFIX: Final = ".json"


class Reading(msgspec.Struct, forbid_unknown_fields=True):
    """What a reader says of itself, in its file."""

    archives: bool = False  # it moves what it has read into the archive
    read: dict[str, int] = {}  # "<source>/<broker>-<epoch>" -> all segments up to this number
    sources: tuple[str, ...] = ()  # that it reads; empty: all


class DeclaredReader(NamedTuple):
    """A declared reader."""

    name: str
    reading: Reading
    heard_s: float  # wall time, seconds since the epoch

    def has_read(self, file: EventFile) -> bool:
        """Will it never want this segment again?"""
        reading = self.reading
        if reading.sources and file.source not in reading.sources:
            return True
        if reading.archives and file.is_archived:
            return True
        return reading.read.get(f"{file.source}/{file.stream}", 0) >= file.number


class Segment(NamedTuple):
    """A sealed file."""

    sealed_s: float  # wall time, seconds since the epoch
    size: int  # bytes
    file: EventFile


def declare(events: Path, name: str, reading: Reading) -> None:
    """Say, as a reader, what is read; also when nothing is new, as a sign of life. OSError: it is not said."""
    seal(events / READERS, f"{name}{READER_SUFFIX}", msgspec.json.encode(reading), Disk())


class Retention:
    """Looks through the folders when it is told to, and removes what need not be kept."""

    def __init__(
        self, events: Path, keep: Settings, disk: Disk, say: Callable[[str], None], say_well: Callable[[str], None]
    ) -> None:
        """`say` and `say_well` as of the Writer."""
        self._events: Final = events
        self._keep: Final = keep
        self._disk: Final = disk
        self._say: Final = say
        self._say_well: Final = say_well
        self._silent: set[str] = set()  # readers that were told of
        self._bad: set[str] = set()  # files that were told of

    def look(self, wall_s: float, state: WriterState) -> None:
        """Remove what is due; `state` gets the counts. `wall_s`: seconds since the epoch."""
        readers = self._respected(wall_s)
        segments = sorted(self._segments(), key=lambda segment: (segment.sealed_s, segment.file.name))
        total = sum(segment.size for segment in segments)
        state.unread_bytes = 0
        for segment in segments:
            is_old = self._keep.keep_s > 0 and wall_s - segment.sealed_s > self._keep.keep_s
            if not is_old and not 0 < self._keep.keep_bytes < total:
                break  # those that follow are younger
            if all(reader.has_read(segment.file) for reader in readers):
                path = self._events / segment.file.place
                try:
                    self._disk.remove(path)
                except OSError as error:
                    if path.name not in self._bad:
                        self._say(f"{path} is to be removed and cannot be: {error}")
                        self._bad.add(path.name)
                    continue
                total -= segment.size
                state.removed += 1
            else:
                state.unread_bytes += segment.size
        state.silent_readers = len(self._silent)

    def _respected(self, wall_s: float) -> list[DeclaredReader]:
        readers = list(self._readers())
        silent = {one.name for one in readers if wall_s - one.heard_s > self._keep.reader_timeout_s}
        for name in sorted(silent - self._silent):
            does = f"its unread files are {'no longer ' if self._keep.ignore_silent_readers else ''}kept"
            self._say(f"the reader {name} has reported nothing for {self._keep.reader_timeout_s:.0f} s; {does}")
        for name in sorted(self._silent - silent):
            self._say_well(f"the reader {name} reports again, or was removed")
        self._silent = silent
        return [one for one in readers if not (self._keep.ignore_silent_readers and one.name in silent)]

    def _readers(self) -> Iterator[DeclaredReader]:
        for path in sorted((self._events / READERS).glob(f"[!.]*{READER_SUFFIX}")):
            try:
                with open_file(path) as opened:
                    heard_s = os.fstat(opened.fileno()).st_mtime
                    reading = msgspec.json.decode(opened.read(), type=Reading)
            except FileNotFoundError:
                continue
            except (OSError, NoFile, msgspec.MsgspecError, UnicodeDecodeError) as error:
                reading, heard_s = Reading(), 0.0  # somebody wants something: nothing of it is read
                if path.name not in self._bad:
                    self._say(f"{path} is no valid reader report; all files are kept for it: {error}")
                    self._bad.add(path.name)
            yield DeclaredReader(path.stem, reading, heard_s)

    def _segments(self) -> Iterator[Segment]:
        for file in list_written(self._events, has_archive=True).places(*SOURCES):
            with contextlib.suppress(OSError):  # a reader has moved it meanwhile
                found = os.lstat(f"{self._events}/{file.place}")
                yield Segment(found.st_mtime, found.st_size, file)
