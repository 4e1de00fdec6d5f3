"""Which files an events folder holds, by the names alone: segments, those in the archive, logs without segments.

    <events>/<source>/<broker>-<epoch>-<number>.parquet
    <events>/_archive/…/<source>/<same>
    <events>/_tmp/<broker>-<epoch>-<number>.wal

A name is kept as its number, eight bytes: a day of segments is some megabytes. Files come and go meanwhile, so the
order of looking matters: a log before the segments that are made of it, a source before the archive that takes it in.
"""

import os
from array import array
from pathlib import Path
from typing import Any, Final

import numpy as np

from spark_sink.errors import BadFolder
from spark_sink.event_files.layout import (
    LOG_FOLDER,
    LOG_SUFFIX,
    SUFFIX,
    archived_folders,
    is_file,
    log_parts_of,
    parts_of,
)
from spark_sink.schema import COLUMNS

MAX_NAMED: Final = 5  # foreign files that are named


class Listing:
    """The files of one folder at one moment."""

    def __init__(self, events: Path) -> None:
        """BadFolder: there is none, or nothing was ever written to it."""
        if not events.is_dir():
            raise BadFolder(f"there is no events folder {events}")
        self._events: Final = events
        self.foreign: Final[list[Path]] = []  # no segments or logs, though called like files of ours; the first of them
        self.foreign_n = 0
        self.logs: Final[dict[str, dict[int, Path]]] = {}  # stream -> number -> path
        # (source, stream) -> folders with their numbers, ascending
        self._numbers: Final[dict[tuple[str, str], list[tuple[Path, Any]]]] = {}
        for path in sorted((events / LOG_FOLDER).glob(f"[!.]*{LOG_SUFFIX}")):
            stream, number = log_parts_of(path.name)
            if not number:
                continue
            if is_file(path):
                self.logs.setdefault(stream, {})[number] = path
            elif os.path.lexists(path):  # else it is segments by now
                self._tell_foreign(path)
        for source in COLUMNS:
            self._look_into(events / source, source)
        for folder in archived_folders(events, COLUMNS):
            self._look_into(folder, folder.name)
        if not self.logs and not self._numbers:
            raise BadFolder(f"the events folder {events} holds no events yet: is a broker writing to it?")

    def streams(self) -> list[str]:
        """`<broker>-<epoch>` of every run of which something is there."""
        return sorted({stream for _, stream in self._numbers} | set(self.logs))

    def numbers(self, source: str, stream: str) -> Any:
        """Of the sealed segments, ascending; an int64 array."""
        found = [numbers for _, numbers in self._numbers.get((source, stream), ())]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def find(self, source: str, stream: str, number: int) -> Path | None:
        """Where the segment is, or was when the folder was listed."""
        for folder, numbers in self._numbers.get((source, stream), ()):
            place = int(np.searchsorted(numbers, number))
            if place < len(numbers) and numbers[place] == number:
                return folder / f"{stream}-{number:010d}{SUFFIX}"
        return None

    def find_again(self, source: str, name: str) -> Path | None:
        """Where a segment is that is not where it was: its reader has moved it to the archive."""
        folders = archived_folders(self._events, (source,))
        return next((folder / name for folder in folders if is_file(folder / name)), None)

    def folders(self, source: str) -> list[Path]:
        """That hold segments of the source."""
        return sorted({folder for (of, _), found in self._numbers.items() if of == source for folder, _ in found})

    def sealed_at(self, source: str, stream: str) -> tuple[Any, Any]:
        """Numbers of the segments, ascending, and when their files were last changed; two arrays."""
        numbers, times = array("q"), array("d")
        for folder, some in self._numbers.get((source, stream), ()):
            for number in some.tolist():
                try:
                    changed = os.stat(f"{folder}/{stream}-{number:010d}{SUFFIX}").st_mtime
                except OSError:
                    continue  # moved meanwhile; its neighbours tell enough
                numbers.append(number)
                times.append(changed)
        found = np.frombuffer(numbers, np.int64) if numbers else np.empty(0, np.int64)
        changed_at = np.frombuffer(times, np.float64) if times else np.empty(0)
        order = np.argsort(found, kind="stable")
        return found[order], changed_at[order]

    def _tell_foreign(self, path: Path) -> None:
        self.foreign_n += 1
        if len(self.foreign) < MAX_NAMED:
            self.foreign.append(path)

    def _look_into(self, folder: Path, source: str) -> None:
        found: dict[str, array[int]] = {}
        try:
            entries = os.scandir(folder)
        except OSError:
            return  # there is none
        with entries:
            for entry in entries:
                name = entry.name
                if name[0] in "._" or not name.endswith(SUFFIX):
                    continue
                stream, number = parts_of(name)
                if number and entry.is_file(follow_symlinks=False):
                    found.setdefault(stream, array("q")).append(number)
                else:
                    self._tell_foreign(folder / name)
        for stream, numbers in found.items():
            self._numbers.setdefault((source, stream), []).append((folder, np.unique(np.frombuffer(numbers, np.int64))))
