"""Minutes, hours and days tell of the same requests: whichever is read, the numbers are those of all minutes."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sink.report.facts import Facts, read_facts
from spark_sink.report.traffic import grains
from spark_sink.tables import GRAINS, TIMES
from tests.spark_sink.report import reference
from tests.spark_sink.report.tables import NOON, Made, Row, Rows, rolled_up, traffic_row, write

HOURS = 24 * 20  # of the tables
MINUTE_US = 60_000_000


@given(st.integers(0, 9000), st.integers(0, 9000), st.sampled_from([GRAINS, GRAINS[:2], GRAINS[:1]]))
def test_pieces_hold_each_minute_once(begin: int, end: int, usable: tuple[str, ...]) -> None:
    pieces = grains._pieces(usable, begin * MINUTE_US, end * MINUTE_US)
    edges = [edge for _, low_us, high_us in pieces for edge in (low_us, high_us)]
    assert edges == sorted(edges)
    assert edges[1:-1:2] == edges[2::2]
    assert edges[:1] + edges[-1:] == ([begin * MINUTE_US, end * MINUTE_US] if begin < end else [])
    for grain, low_us, high_us in pieces:
        size_us = grains.GRAIN_S[grain] * 1_000_000
        assert low_us % size_us == high_us % size_us == 0
    assert len(pieces) <= 5


@pytest.fixture(scope="module")
def rows() -> Rows:
    made = Made(11, rows=400, hours=HOURS).rows
    return {table: made[table] for table in ("traffic", "callers", "rejections")}


@pytest.fixture(scope="module")
def of_minutes(rows: Rows, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """What all minutes tell."""
    folder = tmp_path_factory.mktemp("minutes")
    write(folder, rows)
    return read_facts(folder)


def keep_days(rows: Rows, days: int) -> Rows:
    """What retention leaves."""
    last = NOON + timedelta(hours=HOURS)
    return {
        table: [row for row in mine if row[TIMES[table]].date() > (last - timedelta(days=days)).date()]
        for table, mine in rows.items()
    }


def assert_same(told: Facts, expected: Facts) -> None:
    assert told.traffic.requests == sum(told.traffic.all_over_time)
    for name in ("requests", "errors", "services", "service_requests", "rows", "outcomes"):
        assert getattr(told.traffic, name) == getattr(expected.traffic, name)
    assert told.traffic.latencies.of_services == expected.traffic.latencies.of_services
    assert (told.balances, told.callers, told.rejections) == (expected.balances, expected.callers, expected.rejections)
    assert (told.fanouts, told.traffic.latencies.all_us) == (expected.fanouts, expected.traffic.latencies.all_us)


@pytest.mark.parametrize("minutes_d, hours_d, max_rows, grain_s", [
    (99, 99, 10**6, 3600), (7, 99, 10**6, 3600), (7, 15, 10**6, 86_400), (7, 99, 10, 86_400),
])  # fmt: skip
def test_roll_ups_tell_the_same_as_minutes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: Rows,
    of_minutes: Facts,
    minutes_d: int,
    hours_d: int,
    max_rows: int,
    grain_s: int,
) -> None:
    monkeypatch.setattr(grains, "MAX_ROWS", max_rows)
    made = rolled_up(rows)
    write(tmp_path, keep_days(rows, minutes_d))
    write(tmp_path, keep_days({table: mine for table, mine in made.items() if "hour" in table}, hours_d))
    write(tmp_path, {table: mine for table, mine in made.items() if "day" in table})
    told = read_facts(tmp_path)
    assert told.traffic.bins.step_s == (6 * 3600 if grain_s == 3600 else grain_s)
    assert_same(told, of_minutes)


@pytest.mark.parametrize("since", [
    NOON + timedelta(days=18, hours=3, minutes=17, seconds=5), NOON + timedelta(days=4, minutes=17),
    datetime.fromisoformat("2026-11-25T00:00:00+00:00"),
])  # fmt: skip
def test_since_is_rounded_down_to_the_grain_and_exact_from_there(tmp_path: Path, rows: Rows, since: datetime) -> None:
    write(tmp_path, keep_days(rows, 7) | rolled_up(rows))
    told = read_facts(tmp_path, since)
    assert told.since is not None
    assert since - timedelta(hours=1) < told.since <= since
    assert told.since.minute == (0 if told.traffic.bins.step_s >= 3600 else since.minute)
    write(tmp_path / "kept", {t: [row for row in mine if row["minute"] >= told.since] for t, mine in rows.items()})
    assert_same(told, read_facts(tmp_path / "kept"))


def test_a_grain_that_does_not_reach_back_is_not_read(tmp_path: Path) -> None:
    days = [traffic_row(minute=NOON + timedelta(days=day), requests=day + 1) for day in range(3)]
    write(tmp_path, {"traffic": days[2:]} | rolled_up({"traffic": days}))
    told = read_facts(tmp_path).traffic
    assert (told.requests, told.bins.step_s, sum(told.all_over_time)) == (6, 3600, 6)
    since = read_facts(tmp_path, NOON + timedelta(days=2)).traffic
    assert (since.requests, since.bins.step_s) == (3, 60)


def single(second: float, service: str = "orders", **values: object) -> Row:
    at = NOON + timedelta(seconds=second)
    row = traffic_row(service) | {"event_time": at, "started_at": at, "epoch": 1, "duration_us": 1000, "weight": 1}
    return row | values


def test_a_short_span_with_single_requests_is_told_by_the_second(tmp_path: Path) -> None:
    singles = [single(second, "a" if second < 3 else "b", outcome="error" if second == 2 else "completed")
               for second in range(6)]  # fmt: skip
    traffic = [traffic_row("a", 3), traffic_row("b", 3)]
    write(tmp_path, {"traffic": traffic, "requests": singles})
    told = read_facts(tmp_path).traffic
    assert (told.bins.step_s, told.bins.count, told.seconds) == (1, 6, 6)
    assert told.over_time == [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0] * 6]
    assert told.latencies.over_time == [[1000] * 4] * 6
    assert reference.per_bin(
        [{"minute": row["event_time"]} for row in singles], told.bins.starts(), 1, lambda row: 1
    ) == (told.all_over_time)


@pytest.mark.parametrize("traffic, singles", [
    ([traffic_row(requests=20)], [single(1)]),  # of one broker of many
    ([traffic_row(), traffic_row(minute=NOON + timedelta(minutes=5))], [single(1), single(302)]),  # a long span
    ([traffic_row(requests=2)], []),
])  # fmt: skip
def test_otherwise_it_is_told_by_the_minute(tmp_path: Path, traffic: list[Row], singles: list[Row]) -> None:
    write(tmp_path, {"traffic": traffic, "requests": singles})
    assert read_facts(tmp_path).traffic.bins.step_s == 60
