"""Segments as the writer makes them, Spark's logs as its file source writes them, and batches without Spark."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from broker.events import LifecycleEvent
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import Disk
from spark_sink.event_files.renamed import renamed
from spark_sink.pipeline.batch import BatchWriter, generation_folder
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.folders import check_folders
from spark_sink.pipeline.merging import merged
from spark_sink.pipeline.pipeline import Pipeline
from spark_sink.pipeline.rows import with_minute
from spark_sink.schema import COLUMNS as SOURCE_COLUMNS
from spark_sink.tables import CALLERS, FINEST, LIFECYCLE, REQUESTS, TRAFFIC, read_table
from tests.spark_sink.records import HEADER, NOON_MS, WALL_S, Event, rows_frame, writer_of
from tests.spark_sink.reference import CALLER_KEYS, TRAFFIC_KEYS, of_records, of_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "spark" / "events.md"  # the compiled copy of the packages has none
BEFORE_MIDNIGHT_MS = NOON_MS + 12 * 3_600_000 - 100_000  # records of 200 s around it fall on two days


def seal(folder: Path, records: Sequence[Event], each: int = 100, header: Header = HEADER) -> None:
    """Segments of `each` records, as the writer makes them."""
    seal_frames(folder, [rows_frame(records[at : at + each]) for at in range(0, len(records), each)], header)


def seal_frames(folder: Path, frames: Sequence[bytes], header: Header = HEADER) -> None:
    """One segment per frame and source."""
    writer = writer_of(folder, header)
    for frame in frames:
        writer.take(frame, 0.0, WALL_S)
        assert writer.seal_all(0.0, WALL_S)
    writer.end()


def bucket_sql(engine: str) -> str:
    """What docs/spark/events.md says of a bucket's lower end: the line below the name of the engine."""
    lines = [line.strip() for line in DOCUMENT.read_text().splitlines()]
    return lines[lines.index(f"-- {engine}") + 1]


def run_once(spark: Any, folder: Path, tables: Path, **options: Any) -> None:
    Pipeline(str(folder), str(tables), "local[2]", None, **options).run_queries(spark)


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


class ArrowReading:
    """Segments without Spark."""

    def flows(self, files: Sequence[str]) -> pa.Table:
        rows = pa.concat_tables([renamed(pq.read_table(file)) for file in files])
        return merged(FINEST, with_minute(rows))

    def lifecycle(self, files: Sequence[str]) -> pa.Table:
        return pa.concat_tables([renamed(pq.read_table(file)) for file in files])


class ArrowBatchWriter(BatchWriter):
    def reading(self, session: Any) -> Any:
        return ArrowReading()


class FakeSource:
    """Spark's file source and its query, with their logs: finds files, gives them to a batch writer, archives."""

    def __init__(self, events: Path, tables: Path, generation: int = 1) -> None:
        self.events, self.tables = events, tables
        events.mkdir(exist_ok=True)
        check_folders(*self.places, is_once=False)
        self.folder = tables / generation_folder(generation)
        for name in ("offsets", "commits", "sources/0"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def places(self) -> tuple[LocalFileSystem, LocalFileSystem]:
        """The folders of events and of tables."""
        return LocalFileSystem(self.events), LocalFileSystem(self.tables)

    def find(self) -> int:
        """A batch of all files that no batch has; gives its number."""
        batch_id = len(list((self.folder / "offsets").iterdir()))
        seen = "".join(path.read_text() for path in (self.folder / "sources/0").iterdir())
        lines = ["v1"]
        for path in sorted(path for source in SOURCE_COLUMNS for path in (self.events / source).glob("[!._]*.parquet")):
            entry = {"path": f"file://{quote(str(path))}", "timestamp": 1_795_377_636_303, "batchId": batch_id}
            if json.dumps(entry["path"]) not in seen:
                lines.append(json.dumps(entry))
        (self.folder / "sources/0" / str(batch_id)).write_text("\n".join(lines))
        (self.folder / "offsets" / str(batch_id)).write_text(f'v1\n{{"conf":{{}}}}\n{{"logOffset":{batch_id}}}')
        return batch_id

    def commit(self, batch_id: int) -> None:
        (self.folder / "commits" / str(batch_id)).write_text("v1\n{}")

    def writer(self, disk: Disk | None = None, **options: Any) -> BatchWriter:
        generation = int(self.folder.name)
        return ArrowBatchWriter(str(self.events), str(self.tables), generation, disk=disk, **options)

    def run(self, writer: BatchWriter | None = None) -> int:
        """One batch, from the finding to the commit."""
        batch_id = self.find()
        (writer or self.writer()).write(None, batch_id)
        self.commit(batch_id)
        return batch_id
