"""Copies of segments under another number (D-71) are not counted again."""

import shutil
from pathlib import Path

import pytest

from broker.events import ROUTE_JOINED, LifecycleEvent
from spark_sink.errors import SinkError
from spark_sink.event_files.layout import ARCHIVE
from spark_sink.schema import FLOWS
from spark_sink.tables import GAPS, LIFECYCLE, read_table
from tests.spark_sink.pipeline.batches import OTHER, seal_requests, told
from tests.spark_sink.pipeline.folders import EventSource, assert_tables_tell, request_seqs, seal
from tests.spark_sink.records import HEADER, Event, copied, events, header_with


def filled(tmp_path: Path) -> tuple[EventSource, list[Event]]:
    """Flows and lifecycle in number 1, requests in number 2."""
    source = EventSource(tmp_path / "events", tmp_path / "tables")
    records = events(8, 40)
    seal(source.events, records)
    seal_requests(source.events, range(1000, 1050))
    return source, records


@pytest.mark.parametrize("when", ["same batch", "later batch", "archive gone"])
def test_copy_of_a_segment_under_another_number_is_not_counted_again(tmp_path: Path, when: str) -> None:
    source, records = filled(tmp_path)
    numbers = {int(path.stem[-10:]) for path in source.events.glob("*/*.parquet")}
    copies = [(number, copied(source.events, number)) for number in numbers]
    if when != "same batch":
        away = {path: tmp_path / f"{path.parent.name}-{path.name}" for _, paths in copies for path in paths}
        for path, elsewhere in away.items():
            path.rename(elsewhere)
        source.run()
        for path, elsewhere in away.items():
            elsewhere.rename(path)
    if when == "archive gone":  # retention has removed it
        shutil.rmtree(source.events / ARCHIVE)
    source.run()
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1050))
    told = [row["detail"] for row in read_table(source.tables, GAPS).to_pylist() if row["reason"] == "bad-file"]
    assert sorted(told) == sorted(
        f"{path}: its records are those of number {number}, which was read: it is a copy and is not counted"
        for number, paths in copies
        for path in paths
    )


def test_vanished_segment_is_read_when_it_comes_back_under_another_number_and_its_copy_is_not(tmp_path: Path) -> None:
    source, records = filled(tmp_path)
    [path] = source.events.glob(f"{FLOWS}/*.parquet")
    path.rename(tmp_path / "away")
    source.run()
    shutil.copy(tmp_path / "away", path.with_name(path.name.replace("-0000000001", "-0000000007")))
    source.run()
    assert_tables_tell(source.tables, records)
    shutil.copy(tmp_path / "away", path.with_name(path.name.replace("-0000000001", "-0000000008")))
    source.run()
    assert_tables_tell(source.tables, records)


def test_batch_that_is_repeated_takes_its_own_segments_for_no_copies(tmp_path: Path) -> None:
    source, records = filled(tmp_path)
    copied(source.events, 1)
    source.run_undone()
    source.run()
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1050))


def test_segments_with_the_same_numbers_of_records_of_other_runs_and_brokers_are_no_copies(source: EventSource) -> None:
    records = events(8, 40)
    again = header_with(epoch=HEADER.epoch + 1)
    for header in (HEADER, OTHER, again):
        seal(source.events, records, header=header)
    source.run()
    rows = read_table(source.tables, LIFECYCLE).to_pylist()
    assert len(rows) == 3 * sum(isinstance(record, LifecycleEvent) for record in records)


def test_segment_with_more_records_behind_the_same_first_one_is_no_copy(source: EventSource) -> None:
    """A writer that took frames again which another one had: better some twice than the others never."""
    records = [told(seq, ROUTE_JOINED) for seq in (1, 2, 3)]
    seal(source.events, records[:2])
    source.run()
    seal(source.events, records, header=header_with(first_number=1002))
    source.run()
    assert sorted(read_table(source.tables, LIFECYCLE)["seq"].to_pylist()) == [1, 1, 2, 2, 3]


def test_torn_memory_of_segments_ends_the_pipeline_in_a_sentence(tmp_path: Path) -> None:
    source, records = filled(tmp_path)
    source.run()
    for path in source.tables.glob("_checkpoints/known/*"):
        path.write_bytes(b"torn")
    seal(source.events, events(9, 20), header=header_with(first_number=50))
    with pytest.raises(SinkError, match=r"_checkpoints/known/2023-11-15T12 cannot be read: .*; remove it, and copies"):
        source.run()
    assert_tables_tell(source.tables, records)
