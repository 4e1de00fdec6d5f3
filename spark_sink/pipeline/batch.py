"""What is done with each batch: its files judged, their rows made and published, so that a repetition changes nothing.

The tasks of `work` do all that grows with records; here are names, counts and the order of writing. Files of tables
are named after the batch, so the second try of one replaces what the first one has written; what only the first try
had is removed. Requests keep the names of their segments. A file that cannot be read is passed over, told in a sentence
and in `gaps`; everything else goes on.
"""

import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
import pyarrow as pa

from spark_sink.errors import NoFile, SinkError
from spark_sink.event_files.layout import ARCHIVE, SUFFIX, Disk, origin_of, parts_of
from spark_sink.pipeline.compaction import publishing
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem, filesystem_of
from spark_sink.pipeline.formats.choice import TableFormat, format_of
from spark_sink.pipeline.formats.plain import batch_name
from spark_sink.pipeline.known import Known
from spark_sink.pipeline.progress import Progress, read_progress, write_progress
from spark_sink.pipeline.rows import gap_row
from spark_sink.pipeline.runs import Runs
from spark_sink.pipeline.segments import BadFile, GoodFile
from spark_sink.pipeline.work import Output, Result
from spark_sink.publishing import table_bytes
from spark_sink.schema import COLUMNS as SOURCE_COLUMNS
from spark_sink.tables import BAD_FILE, GAPS, REQUESTS, table_schema
from spark_sink.writer.retention import READER_SUFFIX, READERS, Reading

SAY_EVERY_S: Final = 10.0  # how often the writer of events hears of this reader, at most
VANISHED: Final = "it vanished while it was read"
STOP_WORD: Final = "no new batch: the pipeline is to stop"

Work = Callable[[frozenset[str]], Result]  # the tasks of a batch, on all of its files but these


class BatchWriter:
    """Publishes one batch after another. Plain values only, so that Spark Connect can send it to the server."""

    def __init__(self, events: str, tables: str, *, disk: Disk | None = None) -> None:
        """`events`, `tables`: folders as somebody typed them. `disk`: of both, where they are local, for tests."""
        self._events: Final = events
        self._tables: Final = tables
        self._disk: Final = disk
        self._heard_s = 0.0  # when the writer of events was told last
        self.files = 0  # done since the start, bad ones among them
        self.bad_files = 0
        self.is_stopping = False  # no new batch is begun
        self.failure: Exception | None = None  # what ended the query, if it was raised here

    def write(self, session: Any, work: Work) -> None:
        """Publish the rows of the next batch and archive its files. OSError: not all of it, so it is to be repeated;
        SinkError."""
        try:
            if self.is_stopping:
                raise SinkError(STOP_WORD)
            events, tables = self._places(session)
            self.tell_writer(events)
            self._do(Batch(events, tables), work, [])
        except Exception as error:
            self.failure = error
            raise

    def resume(self, session: Any, work_on: Callable[[list[str]], Work]) -> None:
        """What is to be done before the first batch: the one that was begun and is not done is done again, and what no
        engine finds, because there is no content to read, is passed over. OSError; SinkError.

        `work_on`: the tasks on these files."""
        events, tables = self._places(session)
        progress = read_progress(tables)
        if not progress.is_done:
            there = [file for file in progress.files if events.exists(_place_of(events, file))]
            lost = [BadFile(file, VANISHED) for file in progress.files if file not in there]
            self._do(Batch(events, tables, progress), work_on(there), lost)
        archive(events, progress)
        odd = [
            BadFile(file, why)
            for source in SOURCE_COLUMNS
            for file, why in events.odd_files(source)
            if not _why_never(events, file)
        ]
        self._do(Batch(events, tables), lambda _without: Result([], []), odd)

    def tell_writer(self, events: FileSystem) -> None:
        """That somebody reads its segments, so that its retention keeps them until then."""
        if time.monotonic() - self._heard_s < SAY_EVERY_S and self._heard_s:
            return
        self._heard_s = time.monotonic()
        try:
            name = f"pipeline-{hashlib.sha256(self._tables.encode()).hexdigest()[:12]}{READER_SUFFIX}"
            events.write(READERS, name, msgspec.json.encode(Reading(archives=True)))
        except OSError as error:  # a full disk becomes free only when we go on: then old segments may be removed
            say(f"the progress of this reader cannot be reported to the event writer: {error}")

    def _places(self, session: Any) -> tuple[FileSystem, FileSystem]:
        return filesystem_of(self._events, session, self._disk), filesystem_of(self._tables, session, self._disk)

    def _do(self, batch: "Batch", work: Work, lost: list[BadFile]) -> None:
        began_s = time.monotonic()
        batch.count(work, lost)
        files = len(batch.good) + len(batch.bad)
        if not files:
            return
        batch.publish()
        self.files += files
        self.bad_files += len(batch.bad)
        self._say(batch, files, time.monotonic() - began_s)

    def _say(self, batch: "Batch", files: int, took_s: float) -> None:
        for bad in batch.bad:
            say(f"{bad.file} is passed over: {bad.why}")
        rows = sum(file.rows for file in batch.good)
        oldest_s = min((file.changed_s for file in batch.good), default=time.time())
        text = f"batch {batch.number}: {rows} records of {files} files in {took_s:.1f} s, "
        text += f"{max(0.0, time.time() - oldest_s):.1f} s after the oldest file was sealed"
        say(f"{text}, {self.bad_files} bad files so far" if self.bad_files else text)


class Batch:
    """The files of one batch on their way into the tables."""

    def __init__(self, events: FileSystem, tables: FileSystem, begun: Progress | None = None) -> None:
        """`begun`: the batch that this one repeats; None: it is a new one."""
        self._events: Final = events
        self._tables: Final = tables
        self._begun: Final = begun
        self._known: Final = Known(tables)
        self._outputs: list[Output] = []
        self.number = 0 if begun is None else begun.number  # 0: it has not begun
        self.good: list[GoodFile] = []
        self.bad: list[BadFile] = []

    def count(self, work: Work, lost: list[BadFile]) -> None:
        """Let the tasks do their part, each record once. A copy of a segment is seen when all footers are known, so
        then they do it again, without that. `lost`: files that no task was given, and why."""
        result = work(frozenset())
        judged = self._known.judge(self._own(result.files))
        self.good = [file for file in judged if isinstance(file, GoodFile)]
        self.bad = [*lost, *(file for file in judged if isinstance(file, BadFile))]
        counted = {file.file for file in result.files if isinstance(file, GoodFile)}
        not_counted = counted.difference(file.file for file in self.good)
        self._outputs = (work(frozenset(not_counted)) if not_counted else result).outputs

    def _own(self, files: list[GoodFile | BadFile]) -> Iterator[GoodFile | BadFile]:
        """Those that are not told of by `never_read`; a link that Spark has followed is a bad one."""
        for file in files:
            if not _why_never(self._events, file.file):
                why = self._events.why_bad(file.file) if isinstance(self._events, LocalFileSystem) else ""
                yield BadFile(file.file, why) if why else file

    def publish(self) -> None:
        """OSError: not all is there, and what is there is replaced by the next try."""
        progress = self._begun or self._begin()
        self.number = progress.number
        with publishing(self._tables):
            place = format_of(self._tables)
            place.begin(self.number, is_again=self._begun is not None)
            self._take_requests(place)
            self._write_outputs(place)
            runs = Runs(self._tables)
            runs.learn(self.good, place)
            place.commit()
            runs.save()
            self._known.learn(self.good)
            write_progress(self._tables, Progress(progress.number, True, progress.files))
        archive(self._events, progress)

    def _begin(self) -> Progress:
        before = read_progress(self._tables)
        if not before.is_done:
            raise SinkError(f"batch {before.number} is not done, so it is to be repeated before another one")
        files = [*(file.file for file in self.good), *(file.file for file in self.bad)]
        progress = Progress(before.number + 1, False, files)
        write_progress(self._tables, progress)
        return progress

    def _write_outputs(self, place: TableFormat) -> None:
        if self.bad:
            rows = pa.Table.from_pylist([_bad_row(bad) for bad in self.bad], table_schema(GAPS))
            self._outputs.append(Output(GAPS, f"{datetime.now(UTC):%Y-%m-%d}", "", table_bytes(GAPS, rows)))
        parts: Counter[str] = Counter()
        for output in self._outputs:
            folder = f"{output.table}/date={output.day}"
            name = output.name or batch_name(self.number, parts[folder])
            parts[folder] += not output.name
            place.write(folder, name, output.content)

    def _take_requests(self, place: TableFormat) -> None:
        """A segment with the columns of the table, of one day, becomes a file of it as it is; a task has read it."""
        folders = set()
        for file in [file for file in self.good if file.is_linked]:
            folder = f"{REQUESTS}/date={file.first_at:%Y-%m-%d}"
            try:
                place.take(folder, file.name, self._events, file.file)
                folders.add(folder)
            except (FileNotFoundError, NoFile) as error:
                self.good.remove(file)
                self.bad.append(BadFile(file.file, str(error) if isinstance(error, NoFile) else VANISHED))
        for folder in sorted(folders):
            self._tables.sync(folder)  # a link is only a name in its folder


def archive(events: FileSystem, progress: Progress) -> None:
    """Move the files of a batch that is done into the archive, as far as nobody did. OSError: do it again."""
    live = {f"{source}/{name}" for source in SOURCE_COLUMNS for name in events.names(source)}
    for file in progress.files:
        place = _place_of(events, file)
        if place in live and not events.exists(archived(file)):
            events.move(place, archived(file))


def archived(file: str) -> str:
    """Where a file is put, relative to the events folder, by its whole name."""
    path = file.split("://", 1)[-1]
    return f"{ARCHIVE}/{path.lstrip('/') if '://' not in file else path.split('/', 1)[-1]}"


def never_read(events: FileSystem) -> Iterator[str]:
    """Sentences about what lies among the segments and no batch reads. OSError."""
    for file, why in _lying(events):
        if why:
            yield f"{file.encode(errors='backslashreplace').decode()} is never read: {why}"


def is_found(name: str) -> bool:
    """Engines look at files of this name in a folder of segments."""
    return name[0] not in "._" and name.endswith(SUFFIX) and name.isprintable()  # bytes that are no UTF-8 are not


def say(text: str) -> None:
    """One line for people."""
    over = "\r\x1b[K" if sys.stderr.isatty() else ""  # a line of progress
    print(f"{over}{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _lying(events: FileSystem) -> Iterator[tuple[str, str]]:
    """Whole names of what lies among the segments and is not hidden, and why no batch reads or tells of it; empty: one
    does."""
    for source in SOURCE_COLUMNS:
        for name in events.names(source):
            if name[0] != ".":
                file = events.file(f"{source}/{name}")
                yield file, _why_never(events, file)


def _why_never(events: FileSystem, file: str) -> str:
    if not is_found(file.rpartition("/")[2]):
        return f"a segment is named <broker>-<epoch>-<number>{SUFFIX}"
    if isinstance(events, LocalFileSystem) and (
        os.path.isdir(file) or (os.path.islink(file) and not os.path.exists(file))
    ):
        return "it is a folder, or a link to one or to nothing"
    return f"a file of this name was read before and lies in {ARCHIVE}" if events.exists(archived(file)) else ""


def _place_of(events: FileSystem, file: str) -> str:
    return file.removeprefix(f"{events.root}/")


def _bad_row(bad: BadFile) -> dict[str, Any]:
    stream, number = parts_of(PurePosixPath(bad.file).name)
    broker_id, epoch = origin_of(stream) if number else ("", 0)
    broker = broker_id, "", epoch
    return gap_row(datetime.now(UTC), broker, (0, 0), BAD_FILE, f"{bad.file}: {bad.why}")
