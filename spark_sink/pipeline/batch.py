"""What is done with each batch: its files looked into, their rows made and published, so that a repetition changes
nothing.

Files of tables are named after generation and batch, and Spark repeats a batch with the same segments, so the second
try replaces the files of the first; one of a day that only the first try had is removed. Requests keep the names of
their segments. A file that cannot be read is passed over, told in a sentence and in `gaps`; everything else goes on.
"""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from broker.events import BROKER_DIED, BROKER_STOPPED
from spark_sink.columns import TEXT
from spark_sink.errors import NoFile, SinkError, first_line
from spark_sink.event_files.layout import Disk, origin_of, parts_of
from spark_sink.event_files.renamed import renamed
from spark_sink.pipeline.compaction import publishing
from spark_sink.pipeline.filesystems import FileSystem, HadoopFileSystem, LocalFileSystem, filesystem_of
from spark_sink.pipeline.known import Known
from spark_sink.pipeline.rows import SparkReading, ended_runs, gap_row, tables_of_events, tables_of_flows
from spark_sink.pipeline.runs import Runs
from spark_sink.pipeline.segment_files import BadFile, GoodFile, is_of_disk, look_into
from spark_sink.pipeline.source_log import SourceLog
from spark_sink.publishing import by_day, table_bytes
from spark_sink.schema import FLOWS, LIFECYCLES
from spark_sink.schema import REQUESTS as REQUEST_SOURCE
from spark_sink.tables import BAD_FILE, CHECKPOINTS, COLUMNS, GAPS, LIFECYCLE, REQUESTS, table_schema
from spark_sink.writer.retention import READER_SUFFIX, READERS, Reading, declare

# Spark's file source never forgets a file that it has seen, in memory and in a log that it writes anew every ten
# batches. So after so many files a new checkpoint begins.
ROLL_FILES: Final = 10_000
ROLL_WORD: Final = "this checkpoint lists enough files"  # in what ends a query that is to begin with a new one
STOP_WORD: Final = "no new batch: the pipeline is to stop"
CHUNK_ROWS: Final = 250_000  # records that the driver holds as they are: 100 MB, and Spark hands over 1 GB at most
SAY_EVERY_S: Final = 10.0  # how often the writer of events is told that somebody reads
_TEXTS: Final = [column.name for column in COLUMNS[REQUESTS] if column.kind == TEXT]


class BatchWriter:
    """Spark's foreachBatch of one query. Plain values only, so that Spark Connect can send it to the server."""

    def __init__(
        self, events: str, tables: str, generation: int, *, roll_files: int = ROLL_FILES, disk: Disk | None = None
    ) -> None:
        """`events`, `tables`: folders as somebody typed them. `disk`: of local tables, for tests."""
        self._events: Final = events
        self._tables: Final = tables
        self.generation: Final = generation
        self._roll_files: Final = roll_files
        self._disk: Final = disk
        self._seen = -1  # files of the generation before this batch; -1: not counted yet
        self._is_repetition = True  # the next batch may have been tried before
        self._heard_s = 0.0  # when the writer of events was told last
        self.bad_files = 0  # since the start
        self.is_stopping = False  # no new batch is begun
        self.failure: Exception | None = None  # what ended the query, if it was raised here

    def __call__(self, batch: Any, batch_id: int) -> None:
        """The batch itself is not looked at: see `source_log`."""
        try:
            self.write(batch.sparkSession, batch_id)
        except Exception as error:
            self.failure = error
            raise

    def write(self, session: Any, batch_id: int) -> None:
        """Publish the rows of a batch. OSError: not all of them; SinkError: `ROLL_WORD` or `STOP_WORD`, nothing was
        done."""
        events, tables = filesystem_of(self._events, session), self._tables_place(session)
        log = SourceLog(tables, generation_folder(self.generation))
        if self._seen < 0:
            self._seen = len(log.up_to(batch_id - 1)) if batch_id > 0 else 0
        if self.is_stopping:
            raise SinkError(STOP_WORD)
        if self._seen >= self._roll_files:
            raise SinkError(f"{ROLL_WORD}: {self._seen}")
        began_s = time.monotonic()
        found = log.batch(batch_id)
        self.tell_writer(events)
        done = Batch(self.reading(session), events, tables, batch_name(self.generation, batch_id))
        known = Known(tables)
        done.read(known.judge([look_into(events, one) for one in found]))
        with publishing(tables):
            done.publish(is_repetition=self._is_repetition)
            known.learn(done.good)
        self._is_repetition = False
        self._seen += len(found)
        self.bad_files += len(done.bad)
        self._say(batch_id, done, len(found), time.monotonic() - began_s)

    def reading(self, session: Any) -> SparkReading:
        """What reads the segments."""
        return SparkReading(session)

    def tell_writer(self, events: FileSystem) -> None:
        """That somebody reads its segments, so that its retention keeps them until then."""
        if time.monotonic() - self._heard_s < SAY_EVERY_S and self._heard_s:
            return
        name, reading = reader_name(self._tables), Reading(archives=True)
        self._heard_s = time.monotonic()
        try:
            if isinstance(events, LocalFileSystem):
                declare(Path(events.root), name, reading)
            else:
                events.write(READERS, f"{name}{READER_SUFFIX}", msgspec.json.encode(reading))
        except OSError as error:  # a full disk becomes free only when we go on: then old segments may be removed
            say(f"the progress of this reader cannot be reported to the event writer: {error}")

    def _tables_place(self, session: Any) -> FileSystem:
        place = filesystem_of(self._tables, session)
        if self._disk is not None and not isinstance(place, HadoopFileSystem):
            return LocalFileSystem(Path(place.root), self._disk)
        return place

    def _say(self, batch_id: int, done: "Batch", files: int, took_s: float) -> None:
        for bad in done.bad:
            say(f"{bad.file} is passed over: {bad.why}")
        rows = sum(file.rows for file in done.good)
        oldest_s = min((file.changed_s for file in done.good), default=time.time())
        text = f"batch {self.generation}.{batch_id}: {rows} records of {files} files in {took_s:.1f} s, "
        text += f"{max(0.0, time.time() - oldest_s):.1f} s after the oldest file was sealed"
        say(f"{text}, {self.bad_files} bad files so far" if self.bad_files else text)


class Batch:
    """The files of one batch on their way into the tables."""

    def __init__(self, reading: SparkReading, events: FileSystem, tables: FileSystem, name: str) -> None:
        self._reading: Final = reading
        self._events: Final = events
        self._tables: Final = tables
        self._name: Final = name
        self._groups: pa.Table | None = None  # of flow records; None: there are none, or nothing was read yet
        self._lifecycle: pa.Table | None = None  # events; None: the same
        self._written: Final[set[str]] = set()  # files of tables, with their folders
        self.good: list[GoodFile] = []
        self.bad: list[BadFile] = []

    def read(self, files: Sequence[GoodFile | BadFile]) -> None:
        """All that Spark is needed for; nothing is written."""
        self.good = [file for file in files if isinstance(file, GoodFile)]
        self.bad = [file for file in files if isinstance(file, BadFile)]
        self._groups = self._read(FLOWS, self._reading.flows)
        self._lifecycle = self._read(LIFECYCLES, self._reading.lifecycle)

    def publish(self, *, is_repetition: bool) -> None:
        """OSError: not all is there."""
        self._take_all_requests()
        made = {} if self._groups is None else tables_of_flows(self._groups)
        made |= {} if self._lifecycle is None else tables_of_events(self._lifecycle)
        if self.bad:
            rows = pa.Table.from_pylist([_bad_row(bad) for bad in self.bad], table_schema(GAPS))
            made[GAPS] = pa.concat_tables([made[GAPS], rows]) if GAPS in made else rows
        for table, rows in made.items():
            for day, part in by_day(table, rows).items():
                self._tables.write(f"{table}/date={day}", self._name, table_bytes(table, part))
                self._written.add(f"{table}/date={day}/{self._name}")
        if is_repetition:
            remove_batch(self._tables, self._name, keep=self._written)
        told = table_schema(LIFECYCLE).empty_table() if self._lifecycle is None else self._lifecycle
        Runs(self._tables).learn(self.good, ended_runs(told, BROKER_STOPPED), ended_runs(told, BROKER_DIED))

    def _read(self, source: str, reading: Callable[[list[str]], pa.Table]) -> pa.Table | None:
        """What Spark makes of the segments of a source; those that it cannot read become bad ones."""
        files = [file for file in self.good if file.source == source]
        parts = []
        try:
            for some in _chunks(files):
                parts.append(reading([file.file for file in some]))
        except Exception:  # Spark's errors have no tree that tells a bad file from a bad machine
            if not self._judge(files):
                raise
            return self._read(source, reading)
        return pa.concat_tables(parts) if parts else None

    def _judge(self, files: Sequence[GoodFile]) -> int:
        """Read each file whole; those that cannot be are bad. Gives how many."""
        judged = []
        for file in files:
            try:
                with self._events.open(file.file) as stream:
                    pq.read_table(stream)
            except FileNotFoundError:
                judged.append((file, "it vanished while it was read"))
            except NoFile as error:
                judged.append((file, str(error)))
            except (pa.ArrowException, OSError) as error:
                if is_of_disk(error):
                    raise
                judged.append((file, f"its footer is good and its content is not: {first_line(error)}"))
        for file, why in judged:
            self._pass_over(file, why)
        return len(judged)

    def _take_all_requests(self) -> None:
        folders = set()
        for file in [file for file in self.good if file.source == REQUEST_SOURCE]:
            try:
                folders.update(self._take_requests(file))
            except FileNotFoundError:
                self._pass_over(file, "it vanished while it was read")
            except NoFile as error:
                self._pass_over(file, str(error))
            except (pa.ArrowException, OSError) as error:
                if is_of_disk(error):
                    raise
                self._pass_over(file, f"its footer is good and its content is not: {first_line(error)}")
        for folder in sorted(folders):
            self._tables.sync(folder)  # a link is only a name in its folder

    def _take_requests(self, file: GoodFile) -> list[str]:
        """A segment with the columns of the table, of one day, becomes a file of it as it is. It is read all the same,
        0.2 µs of CPU for a row: one torn page in there, and nobody could read the table. Gives where it was put."""
        with self._events.open(file.file) as stream:
            rows = renamed(pq.read_table(stream, read_dictionary=_TEXTS))
        if file.is_exact and file.first_at.date() == file.last_at.date():
            folder = f"{REQUESTS}/date={file.first_at:%Y-%m-%d}"
            self._tables.take(folder, file.name, self._events, file.file)
            return [folder]
        days = by_day(REQUESTS, rows)
        for day, part in days.items():
            self._tables.write(f"{REQUESTS}/date={day}", file.name, table_bytes(REQUESTS, part))
        return []

    def _pass_over(self, file: GoodFile, why: str) -> None:
        self.good.remove(file)
        self.bad.append(BadFile(file.file, why))


def _chunks(files: Sequence[GoodFile]) -> Iterator[list[GoodFile]]:
    """What is read at a time: as many files as have `CHUNK_ROWS`, at least one."""
    some: list[GoodFile] = []
    for file in files:
        if some and sum(one.rows for one in some) + file.rows > CHUNK_ROWS:
            yield some
            some = []
        some.append(file)
    if some:
        yield some


def remove_batch(tables: FileSystem, name: str, keep: set[str]) -> None:
    """Files of this name in all tables and days, but for those of `keep` ("traffic/date=…/name")."""
    for table in COLUMNS:
        for day in tables.names(table):
            file = f"{table}/{day}/{name}"
            if file not in keep and tables.exists(file):
                tables.remove(file)


def batch_name(generation: int, batch_id: int) -> str:
    """Of the files of a batch."""
    return f"{generation:06d}-{batch_id:010d}.parquet"


def generation_folder(generation: int) -> str:
    """Spark's checkpoint, in the place of the tables."""
    return f"{CHECKPOINTS}/{generation:06d}"


def reader_name(tables: str) -> str:
    """Of the pipeline of these tables, for the writer of events."""
    return f"pipeline-{hashlib.sha256(tables.encode()).hexdigest()[:12]}"


def say(text: str) -> None:
    """One line for people."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _bad_row(bad: BadFile) -> dict[str, Any]:
    stream, number = parts_of(PurePosixPath(bad.file).name)
    broker_id, epoch = origin_of(stream) if number else ("", 0)
    broker = broker_id, "", epoch
    return gap_row(datetime.now(UTC), broker, (0, 0), BAD_FILE, f"{bad.file}: {bad.why}")
