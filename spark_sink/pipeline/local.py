"""The engine without Spark and Java: lists folders of this machine, reads with pyarrow, adds up in this process."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_sink.errors import NoFile
from spark_sink.event_files.layout import open_file
from spark_sink.pipeline.batch import BatchWriter, Work, is_found
from spark_sink.pipeline.compaction import merged_bytes
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem
from spark_sink.pipeline.work import done_here
from spark_sink.schema import COLUMNS as SOURCE_COLUMNS

MAX_FILES_PER_BATCH: Final = 200  # one after another is in memory, and the sums of all


class LocalEngine:
    """Finds segments and counts them, in this process."""

    session: Final[Any] = None

    def work_on(self, events: FileSystem, files: Sequence[str]) -> Work:
        """The tasks of a batch."""
        return lambda without: done_here(_contents(files), events.root, without)

    def start(self, events: FileSystem, writer: BatchWriter, every: str | None) -> "LocalQuery":
        """A query that gives batches to the writer. `every`: "5 seconds"; None: what is there, once."""
        assert isinstance(events, LocalFileSystem), "`Pipeline` refuses folders that are elsewhere"
        return LocalQuery(events, lambda files: writer.write(None, self.work_on(events, files)), every)

    def merged(self, tables: FileSystem, folder: str, groups: Sequence[Sequence[str]]) -> Iterator[Any]:
        """Of the files of each group in a folder of tables, the bytes of one."""
        table = folder.partition("/")[0]
        for names in groups:
            yield merged_bytes(table, (pa.py_buffer(tables.read(f"{folder}/{name}")) for name in names))


class LocalQuery:
    """A query that does its batches in `wait`."""

    is_busy: Final = False

    def __init__(self, events: LocalFileSystem, write: Callable[[list[str]], None], every: str | None) -> None:
        self._events: Final = events
        self._write: Final = write
        self._every_s: Final = None if every is None else seconds_of(every)
        self._due_s = 0.0
        self._waiting: list[str] = []  # files that were found and are in no batch yet, the oldest last
        self._given: set[str] = set()  # in batches, and lie there still: what is never read is not archived
        self._look()

    def wait(self, seconds: float) -> bool:
        """Has it read everything that is there? Does the batch that is due."""
        if self._every_s is None:
            return not self._batch()
        now_s = time.monotonic()
        if now_s < self._due_s:
            time.sleep(min(seconds, self._due_s - now_s))
            return False
        if not self._waiting:  # a writer may seal as quickly as this reads
            self._look()
        self._due_s = now_s if self._batch() else now_s + self._every_s
        return False

    def stop(self) -> None:
        """Nothing runs by itself."""

    def _look(self) -> None:
        there = found(self._events)
        self._given.intersection_update(there)
        self._waiting = [file for file in reversed(there) if file not in self._given]

    def _batch(self) -> bool:
        files = [self._waiting.pop() for _ in range(min(MAX_FILES_PER_BATCH, len(self._waiting)))]
        self._given.update(files)
        if files:
            self._write(files)
        return bool(files)


def found(events: LocalFileSystem) -> list[str]:
    """All files with content that are called like segments, oldest first, as Spark's source takes them."""
    files = []
    for source in SOURCE_COLUMNS:
        for name in events.names(source):
            file = events.file(f"{source}/{name}")
            if is_found(name) and not events.why_bad(file):
                with contextlib.suppress(FileNotFoundError):
                    files.append((os.path.getmtime(file), file))
    return [file for _, file in sorted(files)]


def seconds_of(every: str) -> float:
    """Of an interval as Spark spells it, "5 seconds"."""
    count, unit = every.split(" ")
    return int(count) * {"second": 1.0, "minute": 60.0, "hour": 3600.0}[unit.removesuffix("s")]


def _contents(files: Sequence[str]) -> Iterator[tuple[str, float, pa.Buffer]]:
    for file in files:
        try:
            with open_file(file) as opened:
                yield file, os.fstat(opened.fileno()).st_mtime, pa.py_buffer(opened.read())
        except (FileNotFoundError, NoFile):  # it is gone, or something else has taken its place
            continue
