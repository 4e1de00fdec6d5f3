"""The Spark job against plain Python, on segments that the real writer sealed."""

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from broker.events import LifecycleEvent
from spark_sink import pipeline as pipeline_module
from spark_sink.errors import BadFolder, SinkError
from spark_sink.events import ARROW_SCHEMAS, FLOWS, LIFECYCLES, SPARK_SCHEMAS
from spark_sink.pipeline import BatchWriter, Pipeline, check_folders, is_every, read_segments, remove_leftovers
from spark_sink.segments import Disk
from spark_sink.tables import CALLERS, LIFECYCLE, TRAFFIC, read_table
from spark_sink.writing.state import Settings
from spark_sink.writing.writer import Writer
from tests.spark_sink.records import HEADER, NOON_MS, Event, events, rows_frame, sealed
from tests.spark_sink.reference import CALLER_KEYS, TRAFFIC_KEYS, of_records, of_table

BEFORE_MIDNIGHT_MS = NOON_MS + 12 * 3_600_000 - 100_000  # records of 200 s around it fall on two days


def seal(folder: Path, records: list[Event], each: int = 100) -> None:
    """Segments of `each` records, as the writer makes them."""
    writer = Writer(folder, HEADER, disk=Disk(), say=print, settings=Settings())
    for start in range(0, len(records), each):
        writer.take(rows_frame(records[start : start + each]), 0.0, NOON_MS / 1000)
        assert writer.seal_all(0.0, NOON_MS / 1000)
    writer.end()


def run_once(spark: Any, folder: Path, tables: Path) -> None:
    check_folders(folder, tables, is_once=True)
    Pipeline(folder, tables, "local[2]", None).run_queries(spark)


def assert_tables_tell(tables: Path, records: list[Event]) -> None:
    """Every count, byte, bucket and event, once."""
    expected = of_records(records, TRAFFIC_KEYS, with_histogram=True)
    assert of_table(read_table(tables, TRAFFIC), TRAFFIC_KEYS) == expected
    assert of_table(read_table(tables, CALLERS), CALLER_KEYS) == of_records(records, CALLER_KEYS, with_histogram=False)
    lifecycle = sorted(read_table(tables, LIFECYCLE).to_pylist(), key=lambda row: row["seq"])
    assert [(row["seq"], row["event"], dict(row["tags"])) for row in lifecycle] == [
        (event.seq, event.name, dict(event.tags)) for event in records if isinstance(event, LifecycleEvent)
    ]


@pytest.mark.spark
def test_tables_equal_what_the_records_say_however_often_the_pipeline_runs(spark: Any, tmp_path: Path) -> None:
    folder, tables = tmp_path / "the events", tmp_path / "the tables"
    first = events(1, 500, BEFORE_MIDNIGHT_MS)
    seal(folder, first)
    run_once(spark, folder, tables)
    assert_tables_tell(tables, first)
    second = events(2, 300, BEFORE_MIDNIGHT_MS - 3_600_000, first_seq=501)  # late ones too
    seal(folder, second)
    run_once(spark, folder, tables)
    run_once(spark, folder, tables)
    assert_tables_tell(tables, [*first, *second])
    days = sorted(path.name for path in (tables / TRAFFIC).iterdir())
    assert days == ["date=2023-11-15", "date=2023-11-16"]


class BrokenDisk(Disk):
    """Fails at its third rename, when one table of a batch is there and another is not."""

    renames = 0

    def rename(self, old: Path, new: Path) -> None:
        BrokenDisk.renames += 1
        if BrokenDisk.renames == 3:
            raise OSError("the disk is gone")
        super().rename(old, new)


@pytest.mark.spark
def test_batch_that_broke_halfway_is_repeated_without_counting_twice(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = events(5, 200, BEFORE_MIDNIGHT_MS)
    seal(tmp_path / "events", records)
    monkeypatch.setattr(pipeline_module, "Disk", BrokenDisk)
    with pytest.raises(SinkError, match="the pipeline ended: the disk is gone"):
        run_once(spark, tmp_path / "events", tmp_path / "tables")
    assert list((tmp_path / "tables").glob("*/date=*/*.parquet"))
    monkeypatch.undo()
    run_once(spark, tmp_path / "events", tmp_path / "tables")
    assert_tables_tell(tmp_path / "tables", records)


@pytest.mark.spark
def test_repeated_batch_writes_the_same_files(spark: Any, tmp_path: Path) -> None:
    seal(tmp_path / "events", events(6, 100, BEFORE_MIDNIGHT_MS))
    batch = spark.read.schema(SPARK_SCHEMAS[FLOWS]).parquet(str(tmp_path / "events" / FLOWS))
    for _ in range(2):
        BatchWriter(tmp_path / "tables", FLOWS)(batch, 7)
    assert sorted(path.name for path in (tmp_path / "tables").glob("*/*/*")) == ["flows-0000000007.parquet"] * 4
    assert_traffic = of_records(events(6, 100, BEFORE_MIDNIGHT_MS), TRAFFIC_KEYS, with_histogram=True)
    assert of_table(read_table(tmp_path / "tables", TRAFFIC), TRAFFIC_KEYS) == assert_traffic


@pytest.mark.spark
@pytest.mark.parametrize("source", [FLOWS, LIFECYCLES])
def test_spark_reads_segments_as_arrow_does(spark: Any, tmp_path: Path, source: str) -> None:
    seal(tmp_path, events(7, 60))
    table = spark.read.schema(SPARK_SCHEMAS[source]).parquet(str(tmp_path / source)).toArrow()
    rows = sorted(table.cast(ARROW_SCHEMAS[source]).to_pylist(), key=lambda row: row["seq"])
    assert rows == sorted(sealed(tmp_path, source), key=lambda row: row["seq"])
    inferred = spark.read.parquet(str(tmp_path / source))
    assert inferred.schema.simpleString() == read_schema(spark, tmp_path, source)


def read_schema(spark: Any, folder: Path, source: str) -> str:
    text: str = read_segments(spark, folder, source).schema.simpleString()
    return text


@pytest.mark.spark
def test_file_that_is_no_segment_ends_the_pipeline_with_one_sentence(spark: Any, tmp_path: Path) -> None:
    seal(tmp_path / "events", events(8, 20))
    (tmp_path / "events" / FLOWS / "foreign.parquet").write_text("no parquet")
    with pytest.raises(SinkError) as raised:
        run_once(spark, tmp_path / "events", tmp_path / "tables")
    assert "\n" not in str(raised.value)
    assert "foreign.parquet" in str(raised.value)


def test_missing_events_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match="there is no events folder"):
        check_folders(tmp_path / "events", tmp_path / "tables", is_once=True)


def test_folder_without_segments_is_refused_once_and_awaited_otherwise(tmp_path: Path) -> None:
    (tmp_path / "events" / FLOWS).mkdir(parents=True)
    (tmp_path / "events" / FLOWS / ".half.parquet").touch()
    with pytest.raises(BadFolder, match="holds no segments yet"):
        check_folders(tmp_path / "events", tmp_path / "tables", is_once=True)
    check_folders(tmp_path / "events", tmp_path / "tables", is_once=False)
    assert (tmp_path / "events" / LIFECYCLES).is_dir()


def test_tables_without_their_checkpoint_are_refused(tmp_path: Path) -> None:
    seal(tmp_path / "events", events(9, 10))
    day = tmp_path / "tables" / TRAFFIC / "date=2026-11-20"
    day.mkdir(parents=True)
    (day / "flows-0000000000.parquet").touch()
    with pytest.raises(BadFolder, match="without their checkpoint"):
        check_folders(tmp_path / "events", tmp_path / "tables", is_once=True)


def test_tables_of_another_events_folder_are_refused(tmp_path: Path) -> None:
    for name in ("events", "others"):
        seal(tmp_path / name, events(9, 10))
    check_folders(tmp_path / "events", tmp_path / "tables", is_once=True)
    check_folders(tmp_path / "events", tmp_path / "tables", is_once=True)
    with pytest.raises(BadFolder, match=r"is made of .*events and not of .*others"):
        check_folders(tmp_path / "others", tmp_path / "tables", is_once=True)


def test_leftovers_of_a_killed_pipeline_are_removed(tmp_path: Path) -> None:
    day = tmp_path / TRAFFIC / "date=2026-11-20"
    day.mkdir(parents=True)
    for name in (".flows-0000000001.parquet", "flows-0000000000.parquet"):
        (day / name).touch()
    remove_leftovers(tmp_path)
    assert os.listdir(day) == ["flows-0000000000.parquet"]


@pytest.mark.parametrize(
    "text, is_good",
    [("5 seconds", True), ("1 minute", True), ("1 second", True), ("5s", False), ("0 seconds", False), ("", False)],
)
def test_interval_is_what_spark_takes(text: str, is_good: bool) -> None:
    assert is_every(text) == is_good


def test_segments_of_the_helper_are_real(tmp_path: Path) -> None:
    seal(tmp_path, events(1, 150))
    assert [pq.read_metadata(path).num_rows for path in sorted((tmp_path / FLOWS).iterdir())] == [90, 45]
