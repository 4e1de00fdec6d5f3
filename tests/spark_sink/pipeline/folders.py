"""Segments as the writer makes them, and batches of them without Spark."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker.events import FileRecord, LifecycleEvent, MessageRecord
from spark_sink.cli import pipeline
from spark_sink.errors import MissingPart
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import Disk
from spark_sink.pipeline.batch import BatchWriter
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.folders import check_folders
from spark_sink.pipeline.local import LocalEngine, found
from spark_sink.pipeline.pipeline import Pipeline
from spark_sink.pipeline.progress import BATCH
from spark_sink.pipeline.spark import ROLL_FILES, SparkEngine
from spark_sink.tables import CALLERS, LIFECYCLE, REQUESTS, TRAFFIC, read_table
from tests.conftest import missing
from tests.spark_sink.disks import Killed, QuickDisk
from tests.spark_sink.records import HEADER, NOON_MS, WALL_S, Event, begun, rows_frame
from tests.spark_sink.reference import CALLER_KEYS, TRAFFIC_KEYS, of_records, of_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "spark" / "events.md"  # the compiled copy of the packages has none
BEFORE_MIDNIGHT_MS = NOON_MS + 12 * 3_600_000 - 100_000  # records of 200 s around it fall on two days


def seal(
    folder: Path, records: Sequence[Event | MessageRecord | FileRecord], each: int = 100, header: Header = HEADER
) -> None:
    """Segments of `each` records, as the writer makes them."""
    seal_frames(folder, [rows_frame(records[at : at + each]) for at in range(0, len(records), each)], header)


def seal_frames(folder: Path, frames: Sequence[bytes], header: Header = HEADER) -> None:
    """One segment per frame and source."""
    writer = begun(folder, header)
    for frame in frames:
        writer.take(frame, 0.0, WALL_S)
        assert writer.seal_all(0.0, WALL_S)
    writer.end()


def bucket_sql(engine: str) -> str:
    """What docs/spark/events.md says of a bucket's lower end: the line below the name of the engine."""
    lines = [line.strip() for line in DOCUMENT.read_text().splitlines()]
    return lines[lines.index(f"-- {engine}") + 1]


def run_once(
    spark: Any, folder: Path, tables: Path, *, roll_files: int = ROLL_FILES, table_format: str | None = None
) -> None:
    """`spark`: a session, or None for the engine `local`."""
    engine = LocalEngine() if spark is None else SparkEngine(spark, roll_files=roll_files)
    with what_is_missing():
        Pipeline(str(folder), str(tables), "local[2]", None, table_format=table_format).run_queries(engine)


def run_command(folder: Path, *options: str) -> Result:
    """`pipeline run` of the folders `events` and `tables` in this one."""
    folders = ["--events", str(folder / "events"), "--tables", str(folder / "tables")]
    return CliRunner().invoke(pipeline, ["run", *folders, *options])


@contextlib.contextmanager
def what_is_missing() -> Iterator[None]:
    """A part that is not installed skips the test, with the line that installs it; CI has to have it."""
    try:
        yield
    except MissingPart as error:
        missing(str(error))


def assert_tables_tell(tables: Path, records: Sequence[Event]) -> None:
    """Every count, byte, bucket and event, once."""
    expected = of_records(records, TRAFFIC_KEYS, with_histogram=True)
    assert of_table(read_table(tables, TRAFFIC), TRAFFIC_KEYS) == expected
    assert of_table(read_table(tables, CALLERS), CALLER_KEYS) == of_records(records, CALLER_KEYS, with_histogram=False)
    told = [event for event in records if isinstance(event, LifecycleEvent)]
    rows = sorted(
        read_table(tables, LIFECYCLE).to_pylist(), key=lambda row: (row["broker_id"], row["epoch"], row["seq"])
    )
    assert [(row["seq"], row["event"], dict(row["tags"])) for row in rows] == [
        (event.seq, event.name, dict(event.tags)) for event in told if event.name != "RouteSeen"
    ]


def request_seqs(tables: Path) -> list[int]:
    return sorted(read_table(tables, REQUESTS, ["seq"])["seq"].to_pylist())


class UndoneDisk(QuickDisk):
    """The process is killed when all of a batch is written and only that it is done is not."""

    def write_synced(self, path: Path, data: bytes | memoryview) -> None:
        if path.name == f".{BATCH}" and b'"is_done":true' in bytes(data):
            raise Killed
        super().write_synced(path, data)


class EventSource:
    """A folder of events and one of tables, whose batches the engine `local` does."""

    def __init__(self, events: Path, tables: Path, table_format: str | None = None) -> None:
        self.events, self.tables = events, tables
        events.mkdir(exist_ok=True)
        self.places = LocalFileSystem(events), LocalFileSystem(tables)
        with what_is_missing():
            check_folders(*self.places, is_once=False, wanted=table_format)
        self._engine = LocalEngine()

    def writer(self, disk: Disk | None = None) -> BatchWriter:
        return BatchWriter(str(self.events), str(self.tables), disk=disk)

    def run(self, writer: BatchWriter | None = None) -> None:
        """A start that does what is there in one batch."""
        writer = writer or self.writer()
        writer.resume(None, lambda files: self._engine.work_on(self.places[0], files))
        if found(self.places[0]):
            self.write_found(writer)

    def write_found(self, writer: BatchWriter | None = None) -> None:
        """A batch of what is there."""
        (writer or self.writer()).write(None, self._engine.work_on(self.places[0], found(self.places[0])))

    def run_undone(self) -> None:
        """The same, killed at the end."""
        with pytest.raises(Killed):
            self.run(self.writer(UndoneDisk()))
