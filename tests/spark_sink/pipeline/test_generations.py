"""Generations of checkpoints: nothing is lost or twice when one gives way to the next."""

import importlib
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from spark_sink.errors import SinkError
from spark_sink.event_files.layout import ARCHIVE
from spark_sink.pipeline import batch
from spark_sink.pipeline.batch import ROLL_WORD, STOP_WORD
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.generations import archive_done, current_generation, next_generation
from spark_sink.pipeline.segment_files import archived
from spark_sink.schema import REQUESTS
from tests.broker.test_limits import number, rows
from tests.spark_sink.disks import killed
from tests.spark_sink.pipeline.batches import files, seal_requests
from tests.spark_sink.pipeline.folders import ArrowReading, FakeSource, assert_tables_tell, request_seqs, seal
from tests.spark_sink.records import Event, events, header_with


def run_until_full(source: FakeSource, records: list[Event]) -> None:
    while True:
        more = events(len(records), 30, first_seq=len(records) + 1)
        seal(source.events, more, header=header_with(first_number=len(records) + 1))
        records += more
        batch_id = source.find()
        try:
            source.writer(roll_files=4).write(None, batch_id)
        except SinkError as error:
            if ROLL_WORD in str(error) and batch_id > 0:
                return
            raise
        source.commit(batch_id)


def test_checkpoint_that_knows_enough_files_gives_way_to_a_new_one_and_nothing_is_twice(source: FakeSource) -> None:
    records: list[Event] = []
    for generation in (1, 2, 3):
        assert current_generation(source.places[1]) == generation
        source = FakeSource(source.events, source.tables, generation)
        run_until_full(source, records)
        assert next_generation(*source.places, generation) == generation + 1
        assert not source.folder.exists()
    FakeSource(source.events, source.tables, 4).run()
    assert_tables_tell(source.tables, records)


def test_generation_that_ends_in_a_broken_batch_keeps_requests_of_a_segment_that_came_back(source: FakeSource) -> None:
    seal_requests(source.events, range(1, 50))
    source.run()
    archive_done(*source.places, 1)
    [path] = (source.events / ARCHIVE).rglob("*.parquet")
    (source.events / REQUESTS / path.name).write_bytes(path.read_bytes())
    assert next_generation(*source.places, 1) == 2  # a new checkpoint does not know it
    source = FakeSource(source.events, source.tables, 2)
    source.writer().write(None, source.find())
    next_generation(*source.places, 2)
    assert request_seqs(source.tables) == list(range(1, 50))


def test_killed_at_any_step_between_two_generations_nothing_is_lost_or_twice(tmp_path: Path) -> None:
    steps, was_killed = 0, True
    while was_killed:
        steps += 1
        source = FakeSource(tmp_path / f"events{steps}", tmp_path / f"tables{steps}")
        records = events(1, 40)
        seal(source.events, records[:20])
        source.run()
        seal(source.events, records[20:], header=header_with(first_number=2))
        source.writer().write(None, source.find())
        events_place = source.events
        was_killed = killed(
            steps,
            lambda disk, s=source: next_generation(LocalFileSystem(s.events, disk), LocalFileSystem(s.tables, disk), 1),  # type: ignore[misc]
        )
        generation = current_generation(LocalFileSystem(source.tables))
        if generation == 1:
            generation = next_generation(LocalFileSystem(events_place), LocalFileSystem(source.tables), 1)
        FakeSource(source.events, source.tables, generation).run()
        assert_tables_tell(source.tables, records)
    assert steps > 5


def test_no_new_batch_is_begun_when_the_pipeline_is_to_stop(source: FakeSource) -> None:
    seal(source.events, events(1, 30))
    writer = source.writer()
    writer.is_stopping = True
    with pytest.raises(SinkError, match=STOP_WORD):
        writer.write(None, source.find())
    assert files(source.tables) == []


def test_writer_of_events_is_told_that_the_pipeline_archives(source: FakeSource) -> None:
    seal(source.events, events(1, 30))
    source.run()
    [reader] = (source.events / "_readers").iterdir()
    assert msgspec.json.decode(reader.read_bytes())["archives"] is True


def test_archive_is_where_spark_puts_files() -> None:
    assert archived("/data/events/flows/x.parquet") == f"{ARCHIVE}/data/events/flows/x.parquet"
    assert archived("hdfs://host:8020/data/x.parquet") == f"{ARCHIVE}/data/x.parquet"
    assert archived("hdfs:///data/x.parquet") == f"{ARCHIVE}/data/x.parquet"


def test_bounds_of_the_document_are_those_of_the_code() -> None:
    said = {name.strip("`"): number(value) for name, value, *_ in rows("Bounds of the pipeline")}
    limits = (*("batch.ROLL_FILES", "batch.CHUNK_ROWS", "runs.MAX_RUNS", "runs.MAX_BROKERS"), "compaction.FILE_ROWS")
    assert set(said) == {*limits, "pipeline.MAX_FILES_PER_BATCH"}
    for name, value in said.items():
        module, _, constant = name.partition(".")
        assert getattr(importlib.import_module(f"spark_sink.pipeline.{module}"), constant) == value


def test_many_records_are_read_in_parts(source: FakeSource, monkeypatch: pytest.MonkeyPatch) -> None:
    records = events(1, 300)
    seal(source.events, records, each=50)
    monkeypatch.setattr(batch, "CHUNK_ROWS", 100)
    reading, parts = ArrowReading.flows, list[int]()

    def counted(self: ArrowReading, files: list[str]) -> pa.Table:
        parts.append(len(files))
        return reading(self, files)

    monkeypatch.setattr(ArrowReading, "flows", counted)
    source.run()
    assert parts == [2, 2, 2]
    assert_tables_tell(source.tables, records)
