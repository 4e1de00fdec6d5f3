"""Runs of brokers: those that ended without BrokerStopped are gaps."""

import msgspec
import pytest

from broker.events import BROKER_DIED, BROKER_STARTED, BROKER_STOPPED, ROUTE_JOINED
from spark_sink.delta_log import table_paths
from spark_sink.errors import SinkError
from spark_sink.pipeline import FORMATS, runs
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.runs import MAX_RUNS, Runs
from spark_sink.tables import GAPS, read_table
from tests.spark_sink.pipeline.batches import DAY_MS, OTHER, gaps, told
from tests.spark_sink.pipeline.folders import EventSource, seal
from tests.spark_sink.records import HEADER, NOON_MS, header_with

both_formats = pytest.mark.parametrize("source", FORMATS, indirect=True)


@both_formats
def test_epoch_after_one_without_brokerstopped_is_a_gap_and_one_after_a_stop_is_none(source: EventSource) -> None:
    runs = [header_with(epoch=epoch) for epoch in (100, 200, 300)]
    seal(source.events, [told(1, BROKER_STARTED), told(2, BROKER_STOPPED)], header=runs[0])
    seal(source.events, [told(1, BROKER_STARTED), told(2, ROUTE_JOINED)], header=runs[1])
    source.run()
    assert gaps(source.tables) == []
    seal(source.events, [told(1, BROKER_STARTED, NOON_MS - 3_600_000)], header=runs[2])  # its clock went back
    source.run()
    assert gaps(source.tables) == [("broker-died", HEADER.broker_id, 200, 3, 0)]


@both_formats
def test_records_and_a_stop_that_come_after_the_next_epoch_change_the_gap(source: EventSource) -> None:
    old, new = (header_with(epoch=epoch) for epoch in (100, 200))
    seal(source.events, [told(1, BROKER_STARTED)], header=old)
    seal(source.events, [told(1, BROKER_STARTED)], header=new)
    source.run()
    seal(source.events, [told(2, ROUTE_JOINED, NOON_MS + DAY_MS)], header=msgspec.structs.replace(old, first_number=2))
    source.run()
    assert gaps(source.tables) == [("broker-died", HEADER.broker_id, 100, 3, 0)]
    assert [path.parent.name for path in table_paths(source.tables / GAPS)] == ["date=2023-11-16"]
    seal(source.events, [told(3, BROKER_STOPPED)], header=msgspec.structs.replace(old, first_number=3))
    source.run()
    assert gaps(source.tables) == []


@both_formats
def test_broker_whose_writer_says_that_it_died_is_a_gap_though_it_never_begins_again(source: EventSource) -> None:
    seal(source.events, [told(1, BROKER_STARTED), told(2, ROUTE_JOINED), told(3, BROKER_DIED)])
    source.run()
    assert gaps(source.tables) == [("broker-died", HEADER.broker_id, HEADER.epoch, 3, 0)]
    assert "its last record is 2," in read_table(source.tables, GAPS)["detail"][0].as_py()
    again = header_with(epoch=HEADER.epoch + 1)
    seal(source.events, [told(1, BROKER_STARTED)], header=again)  # it does after all: that changes nothing
    source.run()
    assert gaps(source.tables) == [("broker-died", HEADER.broker_id, HEADER.epoch, 3, 0)]


@both_formats
def test_broker_that_was_said_to_be_dead_and_tells_more_is_no_gap(source: EventSource) -> None:
    seal(source.events, [told(1, BROKER_STARTED), told(2, BROKER_DIED)])
    source.run()
    assert len(gaps(source.tables)) == 1
    seal(source.events, [told(2, ROUTE_JOINED), told(3, ROUTE_JOINED)], header=header_with(first_number=2))
    source.run()
    assert gaps(source.tables) == []


@both_formats
def test_runs_of_a_broker_that_starts_again_and_again_are_forgotten_and_their_gaps_stay(source: EventSource) -> None:
    for epoch in range(1, MAX_RUNS + 4):
        seal(source.events, [told(1, BROKER_STARTED)], header=header_with(epoch=epoch))
    source.run()
    assert [gap[2] for gap in gaps(source.tables)] == list(range(1, MAX_RUNS + 3))
    assert len(vars(Runs(LocalFileSystem(source.tables)))["_brokers"][HEADER.broker_id].runs) == MAX_RUNS


def test_records_of_a_run_that_is_forgotten_tell_no_death(source: EventSource) -> None:
    for epoch in range(1, MAX_RUNS + 4):
        header = header_with(epoch=epoch)
        seal(source.events, [told(1, BROKER_STARTED), told(2, BROKER_STOPPED)], header=header)
    source.run()
    late = header_with(epoch=2, first_number=2)
    seal(source.events, [told(3, ROUTE_JOINED, NOON_MS + DAY_MS)], header=late)
    source.run()
    assert gaps(source.tables) == []


def test_runs_that_nobody_can_read_are_told(source: EventSource) -> None:
    seal(source.events, [told(1, BROKER_STARTED)])
    (source.tables / "_checkpoints" / "runs.json").write_text("[]")
    with pytest.raises(SinkError, match=r"runs.json cannot be read: .*; remove it"):
        source.run()


def test_brokers_beyond_the_bound_are_forgotten_the_silent_ones_first(
    source: EventSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal(source.events, [told(1, BROKER_STARTED, NOON_MS)])
    seal(source.events, [told(1, BROKER_STARTED, NOON_MS - DAY_MS)], header=OTHER)
    monkeypatch.setattr(runs, "MAX_BROKERS", 1)
    source.run()
    assert list(vars(Runs(LocalFileSystem(source.tables)))["_brokers"]) == [HEADER.broker_id]
