"""Batches without Spark: each record once whatever breaks."""

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.events import (
    EVENTS_DROPPED,
    MAX_BUCKET,
    ROUTE_JOINED,
    ROUTE_LEFT,
    ROUTE_REMOVED,
    ROUTE_SEEN,
    bucket_low_us,
)
from spark_sink.pipeline import DELTA, FORMATS, PARQUET
from spark_sink.pipeline.batch import BatchWriter
from spark_sink.pipeline.local import LocalEngine
from spark_sink.schema import FLOWS, REQUESTS
from spark_sink.tables import GAPS, LIFECYCLE, REJECTIONS, ROUTES, SESSIONS, TRAFFIC, read_table
from tests.spark_sink.disks import StoppingDisk, killed
from tests.spark_sink.pipeline.batches import DAY_MS, OTHER, files, gaps, seal_requests, told, two_days
from tests.spark_sink.pipeline.folders import (
    BEFORE_MIDNIGHT_MS,
    EventSource,
    assert_tables_tell,
    bucket_sql,
    request_seqs,
    seal,
)
from tests.spark_sink.records import HEADER, NOON_MS, events, header_with


@pytest.mark.parametrize(
    "stride, table_format",  # of the four moments of a file
    [(11, PARQUET), (17, DELTA)]
    + [pytest.param(stride, kind, marks=pytest.mark.long) for stride, kind in ((7, PARQUET), (13, DELTA))],
)
def test_killed_at_any_step_each_record_is_there_once_after_the_repetition(
    tmp_path: Path, stride: int, table_format: str
) -> None:
    steps, was_killed = 1 - stride, True
    while was_killed:
        steps += stride
        source = EventSource(tmp_path / f"events{steps}", tmp_path / f"tables{steps}", table_format)
        records = two_days(source.events)
        was_killed = killed(steps, lambda disk, s=source: s.run(s.writer(disk)))  # type: ignore[misc]
        source.run()
        assert_tables_tell(source.tables, records)
        assert request_seqs(source.tables) == list(range(1000, 1100))
        assert not [name for name in files(source.tables) if name.rpartition("/")[2].startswith(".") and not was_killed]
    assert steps > 45


@pytest.mark.parametrize("source", FORMATS, indirect=True)
def test_full_disk_ends_the_batch_and_the_repetition_has_each_record_once(source: EventSource) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    records = two_days(source.events)
    for stop_at in (5, 11, 24, 37):  # the first four are of the file for the writer of events, which may be missing
        with pytest.raises(OSError, match="No space left"):
            source.run(source.writer(StoppingDisk(stop_at, full)))
    source.run()
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1100))


def test_repetition_leaves_no_file_of_a_day_that_only_the_first_try_had(source: EventSource) -> None:
    today, tomorrow = events(1, 20), events(2, 20, NOON_MS + DAY_MS, first_seq=21)
    seal(source.events, today)
    seal(source.events, tomorrow, header=header_with(first_number=2))
    source.run_undone()
    assert {path.parent.name for path in source.tables.glob("traffic/*/*")} == {"date=2023-11-15", "date=2023-11-16"}
    [gone] = (source.events / FLOWS).glob("*2.parquet")
    gone.unlink()
    source.run()
    assert {path.parent.name for path in source.tables.glob("traffic/*/*")} == {"date=2023-11-15"}
    [gap] = [row for row in read_table(source.tables, GAPS).to_pylist() if row["reason"] == "bad-file"]
    assert "it vanished while it was read" in gap["detail"]


def test_requests_are_links_to_their_segments_and_one_of_two_days_is_split(source: EventSource) -> None:
    seal_requests(source.events, range(1, 50))
    [segment] = (source.events / REQUESTS).iterdir()
    number = segment.stat().st_ino
    seal_requests(source.events, range(50, 250), BEFORE_MIDNIGHT_MS)
    source.run()
    [link] = (source.tables / "requests" / "date=2023-11-15").glob("*0001.parquet")
    assert link.stat().st_ino == number
    split = sorted(path.parent.name for path in source.tables.glob("requests/*/*0002.parquet"))
    assert split == ["date=2023-11-15", "date=2023-11-16"]
    assert request_seqs(source.tables) == list(range(1, 250))


def test_requests_are_copied_where_no_links_can_be(source: EventSource, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    seal_requests(source.events, range(1, 50))
    source.run()
    assert request_seqs(source.tables) == list(range(1, 50))
    files = [path for path in source.tables.rglob("*.parquet") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o640}, "as those that they tell the same as"


def test_brokers_in_one_folder_and_clocks_that_differ_by_hours_add_up(source: EventSource) -> None:
    seal(source.events, events(1, 100))
    seal(source.events, events(2, 100, NOON_MS - 7 * 3_600_000), header=OTHER)
    source.run()
    seal(source.events, events(3, 100, NOON_MS - DAY_MS, 101), header=header_with(first_number=9))
    source.run()
    rows = read_table(source.tables, TRAFFIC, ["broker_name", "requests"]).group_by("broker_name")
    sums = {row["broker_name"]: row["requests_sum"] for row in rows.aggregate([("requests", "sum")]).to_pylist()}
    expected = {"one": [*events(1, 100), *events(3, 100, NOON_MS - DAY_MS, 101)], "two": events(2, 100)}
    assert sums == {name: sum(one.requests for one in of if one.seq % 10) for name, of in expected.items()}


def test_events_become_routes_sessions_and_gaps(source: EventSource) -> None:
    route: dict[str, Any] = {"route_id": "r", "service": "orders", "tags": [("zone", "a")], "peer": "tcp 1"}
    lost = [("records", "3"), ("first_seq", "7"), ("last_seq", "9")]
    told_events = [
        told(1, ROUTE_JOINED, **route),
        told(2, ROUTE_SEEN, **route, uptime_ms=10, requests=4, detail="0"),
        told(3, ROUTE_LEFT, NOON_MS + 5000, **route, uptime_ms=5000, requests=9, reason="keepalive-timeout"),
        told(4, ROUTE_REMOVED, NOON_MS + 7000, **route, uptime_ms=1000, requests=0, reason="broker-left"),
        told(9, EVENTS_DROPPED, tags=lost, reason="backlog-full", detail="3 records are missing", requests=5),
    ]
    seal(source.events, told_events)
    source.run()
    assert sorted(read_table(source.tables, LIFECYCLE)["seq"].to_pylist()) == [1, 3, 4, 9]
    [seen] = read_table(source.tables, ROUTES).to_pylist()
    assert (seen["seq"], seen["route_id"], dict(seen["tags"]), seen["requests"]) == (2, "r", {"zone": "a"}, 4)
    noon = datetime.fromtimestamp(NOON_MS / 1000, UTC)
    assert [
        (
            row["ended_as"],
            row["is_local"],
            row["joined_at"],
            row["left_at"],
            row["uptime_ms"],
            row["requests"],
            row["reason"],
        )
        for row in sorted(read_table(source.tables, SESSIONS).to_pylist(), key=lambda row: row["seq"])
    ] == [
        ("left", 1, noon, noon + timedelta(seconds=5), 5000, 9, "keepalive-timeout"),
        ("removed", 0, noon + timedelta(seconds=6), noon + timedelta(seconds=7), 1000, 0, "broker-left"),
    ]
    assert gaps(source.tables) == [("backlog-full", HEADER.broker_id, HEADER.epoch, 7, 3)]


def test_rejections_count_what_the_broker_refused(source: EventSource) -> None:
    records = events(4, 200)
    seal(source.events, records)
    source.run()
    rejected = sum(one.requests for one in records if getattr(one, "outcome", "") == "rejected")
    table = read_table(source.tables, REJECTIONS)
    assert sum(table["requests"].to_pylist()) == rejected > 0
    assert set(table["word"].to_pylist()) == {"no-route"}


def test_duckdb_says_the_range_of_a_bucket_as_the_document_shows() -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.sql(f"SELECT {bucket_sql('DuckDB')} FROM range({MAX_BUCKET + 1}) AS buckets(bucket)").fetchall()
    assert [low for (low,) in rows] == [bucket_low_us(bucket) for bucket in range(MAX_BUCKET + 1)]


def test_one_run_reads_what_was_there_when_it_began_and_ends_beside_a_busy_writer(source: EventSource) -> None:
    class BusyWriter(BatchWriter):
        batches = 0

        def write(self, session: Any, work: Any) -> None:
            super().write(session, work)
            self.batches += 1
            seal(source.events, events(1, 10), header=header_with(first_number=10 * self.batches))

    seal(source.events, events(1, 40), each=10)
    writer = BusyWriter(str(source.events), str(source.tables))
    query = LocalEngine().start(source.places[0], writer, None)
    assert not query.wait(0.0)
    assert query.wait(0.0)
    assert writer.batches == 1
