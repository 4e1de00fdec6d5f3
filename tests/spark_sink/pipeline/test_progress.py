"""How far the pipeline is: what a start does about the batch before, and what is told of the bounds."""

import importlib
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from spark_sink.errors import SinkError
from spark_sink.event_files.layout import ARCHIVE
from spark_sink.pipeline.batch import STOP_WORD, archived
from spark_sink.pipeline.local import found
from spark_sink.pipeline.progress import Progress, read_progress
from spark_sink.pipeline.work import done_here
from tests.broker.test_limits import number, rows
from tests.spark_sink.pipeline.batches import files, seal_requests
from tests.spark_sink.pipeline.folders import EventSource, assert_tables_tell, request_seqs, seal
from tests.spark_sink.records import events, header_with


def test_batch_that_was_not_done_is_repeated_under_its_number_with_its_files_alone(source: EventSource) -> None:
    records = events(1, 40)
    seal(source.events, records[:20])
    seal_requests(source.events, range(1, 50))
    source.run_undone()
    begun = read_progress(source.places[1])
    assert (begun.number, begun.is_done, begun.done, len(begun.files)) == (1, False, 0, 3)
    seal(source.events, records[20:], header=header_with(first_number=2))
    source.run()
    assert read_progress(source.places[1]).done == 2
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1, 50))
    assert {name.rpartition("/")[2] for name in files(source.tables) if name.startswith("traffic/")} == {
        "batch-0000000001-0.parquet",
        "batch-0000000002-0.parquet",
    }


def test_batch_that_is_not_done_lets_no_other_one_begin(source: EventSource) -> None:
    seal(source.events, events(1, 30))
    source.run_undone()
    with pytest.raises(SinkError, match="batch 1 is not done"):
        source.write_found()


def test_progress_that_nobody_can_read_is_told(source: EventSource) -> None:
    seal(source.events, events(1, 30))
    (source.tables / "_checkpoints" / "batch.json").write_text("[1]")
    with pytest.raises(SinkError, match=r"_checkpoints/batch\.json cannot be read: Expected `object`"):
        source.run()
    assert Progress().done == 0


def test_no_new_batch_is_begun_when_the_pipeline_is_to_stop(source: EventSource) -> None:
    seal(source.events, events(1, 30))
    writer = source.writer()
    writer.is_stopping = True
    with pytest.raises(SinkError, match=STOP_WORD):
        source.run(writer)
    assert files(source.tables) == []


def test_writer_of_events_is_told_that_the_pipeline_archives(source: EventSource) -> None:
    seal(source.events, events(1, 30))
    source.run()
    [reader] = (source.events / "_readers").iterdir()
    assert msgspec.json.decode(reader.read_bytes())["archives"] is True


def test_archive_has_the_whole_name_of_a_file() -> None:
    assert archived("/data/events/flows/x.parquet") == f"{ARCHIVE}/data/events/flows/x.parquet"
    assert archived("hdfs://host:8020/data/x.parquet") == f"{ARCHIVE}/data/x.parquet"
    assert archived("hdfs:///data/x.parquet") == f"{ARCHIVE}/data/x.parquet"


def test_bounds_of_the_document_are_those_of_the_code() -> None:
    said = {name.strip("`"): number(value) for name, value, *_ in rows("Bounds of the pipeline")}
    limits = ("spark.ROLL_FILES", "work.FLOW_ROWS", "runs.MAX_RUNS", "runs.MAX_BROKERS", "compaction.FILE_ROWS")
    assert set(said) == {*limits, "spark.MAX_FILES_PER_BATCH", "local.MAX_FILES_PER_BATCH"}
    for name, value in said.items():
        module, _, constant = name.partition(".")
        assert getattr(importlib.import_module(f"spark_sink.pipeline.{module}"), constant) == value


def test_many_records_are_added_up_in_parts(source: EventSource, monkeypatch: pytest.MonkeyPatch) -> None:
    records = events(1, 300)
    seal(source.events, records, each=50)
    monkeypatch.setattr("spark_sink.pipeline.work.FLOW_ROWS", 100)
    monkeypatch.setattr("spark_sink.pipeline.work.BUCKET_RECORDS", 100)
    contents = [(file, 0.0, pa.py_buffer(Path(file).read_bytes())) for file in found(source.places[0])]
    source.writer().write(None, lambda without: done_here(iter(contents), str(source.events), without, buckets=8))
    assert len(list(source.tables.glob("traffic/*/*"))) > 1
    assert_tables_tell(source.tables, records)
