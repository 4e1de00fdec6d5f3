"""What the facts are read from: which rows, which days, which span; gaps and events."""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_sink.errors import BadFolder
from spark_sink.report.cluster.gaps import MAX_GAPS
from spark_sink.report.facts import read_facts
from spark_sink.report.reading import Record
from spark_sink.tables import ACCESS, CALLS, CHANGES, COLUMNS, DENIALS, FILES, MESSAGES, TIMES, TRAFFIC, table_schema
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, Made, event_row, origin, rolled_up, traffic_row, write


def test_gaps_equal_plain_python(case: Case) -> None:
    rows, told = case.rows["gaps"], case.facts.gaps
    assert (told.count, told.records) == (len(rows), sum(row["records"] for row in rows))
    assert told.requests == sum(row["requests"] for row in rows)
    counts = Counter(row["reason"] for row in rows)
    assert told.reasons == sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    latest = sorted(rows, key=lambda row: row["event_time"], reverse=True)
    assert [(gap.at_us, gap.reason) for gap in told.rows] == [
        (reference.us(row["event_time"]), row["reason"]) for row in latest
    ]


def test_gaps_are_whole_rows_and_the_latest_are_kept(tmp_path: Path) -> None:
    row = origin(1) | {"epoch": 7, "first_seq": 3, "last_seq": 5, "records": 3, "requests": 2, "reason": "x"}
    rows = [row | {"event_time": NOON + timedelta(seconds=second), "detail": "d"} for second in range(MAX_GAPS + 9)]
    write(tmp_path, {"gaps": rows})
    told = read_facts(tmp_path).gaps
    assert vars(told.rows[0]) == {key: row[key] for key in row if not key.startswith("broker")} | {
        "at_us": reference.us(rows[-1]["event_time"]), "broker": "broker-1", "detail": "d"
    }  # fmt: skip
    assert (len(told.rows), told.count) == (MAX_GAPS, MAX_GAPS + 9)


def test_events_are_counted(case: Case) -> None:
    expected = {}
    for event in {row["event"] for row in case.rows["lifecycle"]}:
        times = [reference.us(row["event_time"]) for row in case.rows["lifecycle"] if row["event"] == event]
        expected[event] = Record(event=event, count=len(times), first_us=min(times), last_us=max(times))
    assert {one.event: one for one in case.facts.events} == expected
    assert [one.event for one in case.facts.events][:2] == ["BrokerStarted", "BrokerStopped"][: len(expected)]


def test_span_is_of_all_tables(case: Case) -> None:
    times = [row[TIMES[table]] for table in ("lifecycle", "gaps", "routes") for row in case.rows[table]]
    times += [row["left_at"] for row in case.rows["sessions"] if row["is_local"]]
    started = {row["broker_id"]: row["event_time"] for row in case.rows["lifecycle"] if row["seq"] == row["epoch"] == 1}
    for broker_id in {row["broker_id"] for row in case.rows["traffic"]}:
        minutes = [row["minute"] for row in case.rows["traffic"] if row["broker_id"] == broker_id]
        begin = started.get(broker_id, NOON)
        times += [begin if begin.replace(second=0, microsecond=0) == min(minutes) else min(minutes), max(minutes)]
    assert (case.facts.first, case.facts.last) == (min(times), max(times))


def test_span_of_a_broker_of_seconds_is_not_a_minute(tmp_path: Path) -> None:
    """Traffic is told by the minute; nothing came before the broker started."""
    started = event_row("BrokerStarted", 1, event_time=NOON + timedelta(seconds=50))
    stopped = event_row("BrokerStopped", 2, event_time=NOON + timedelta(seconds=54))
    write(tmp_path, {"traffic": [traffic_row()], "lifecycle": [started, stopped]})
    facts = read_facts(tmp_path)
    assert (facts.first, facts.last) == (started["event_time"], stopped["event_time"])


def test_since_takes_the_rows_from_that_minute_on(tmp_path: Path) -> None:
    rows = Made(4, hours=40).rows
    write(tmp_path, rows)
    since = NOON + timedelta(hours=20, minutes=10, seconds=30)
    begin = since.replace(second=0)
    kept = {table: [row for row in mine if row[TIMES[table]] >= begin] for table, mine in rows.items()}
    write(tmp_path / "kept", kept)
    told, expected = read_facts(tmp_path, since), read_facts(tmp_path / "kept")
    assert 0 < len(kept["traffic"]) < len(rows["traffic"])
    assert (told.since, expected.since) == (begin, None)

    assert told.traffic.over_time == expected.traffic.over_time
    assert told.traffic.bins.starts() == expected.traffic.bins.starts()
    assert told.balances == expected.balances
    assert told.fanouts == expected.fanouts
    assert told.lifetimes == expected.lifetimes
    assert (told.callers, told.rejections) == (expected.callers, expected.rejections)
    assert (told.cluster.brokers, told.cluster.links) == (expected.cluster.brokers, expected.cluster.links)
    assert (told.events, told.gaps, told.first, told.last) == (
        expected.events,
        expected.gaps,
        expected.first,
        expected.last,
    )


def test_days_before_the_period_before_are_not_opened(tmp_path: Path) -> None:
    write(tmp_path, {"traffic": [traffic_row(minute=NOON + timedelta(days=2))]})
    for table in COLUMNS:
        folder = tmp_path / table / "date=2026-11-10"
        folder.mkdir(parents=True)
        (folder / "old.parquet").write_text("no parquet")
    assert read_facts(tmp_path, NOON + timedelta(days=1)).traffic.requests == 1
    with pytest.raises(BadFolder):
        read_facts(tmp_path, NOON - timedelta(days=10))


def test_since_in_another_zone_is_the_same_moment(tmp_path: Path) -> None:
    write(tmp_path, {"traffic": [traffic_row(), traffic_row(minute=NOON - timedelta(minutes=1))]})
    told = read_facts(tmp_path, datetime.fromisoformat("2026-11-20T23:00:00+11:00"))
    assert (told.since, told.traffic.requests) == (NOON, 1)


def test_empty_tables_are_no_records(tmp_path: Path) -> None:
    (tmp_path / TRAFFIC / "date=2026-11-20").mkdir(parents=True)
    pq.write_table(table_schema(TRAFFIC).empty_table(), tmp_path / TRAFFIC / "date=2026-11-20" / "a.parquet")
    facts = read_facts(tmp_path)
    assert (facts.is_empty, facts.traffic.requests, facts.lifetimes.shown, facts.cluster.brokers) == (True, 0, [], [])


READ = sorted(COLUMNS.keys() - {MESSAGES, FILES, ACCESS, DENIALS, CALLS, CHANGES})  # of these others tell


@pytest.mark.parametrize("table", READ)
def test_one_table_alone_is_enough(tmp_path: Path, table: str) -> None:
    rows = Made(5).rows
    write(tmp_path, {table: (rows | rolled_up(rows))[table]})
    assert read_facts(tmp_path).is_empty == table.startswith(("callers", "rejections", "requests"))


@pytest.mark.parametrize("table", READ)
def test_file_that_is_no_table_is_one_sentence(tmp_path: Path, table: str) -> None:
    write(tmp_path, {"lifecycle": [event_row("BrokerStarted")]})
    folder = tmp_path / table / "date=2026-11-20"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "foreign.parquet").write_text("no parquet")
    with pytest.raises(BadFolder, match=f"table {table}") as raised:
        read_facts(tmp_path)
    assert "\n" not in str(raised.value)
