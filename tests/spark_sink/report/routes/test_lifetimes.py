"""Stays, open and ended, and flapping, against plain Python on random histories, and at their borders."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_sink.report.facts import read_facts
from spark_sink.report.reading import Record
from spark_sink.report.routes import lifetimes as lifetimes_module
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, Row, event_row, origin, session_row, traffic_row, write

Told = tuple[str, str, str, int, int, str]


def all_stays(rows: dict[str, list[Row]]) -> list[Told]:
    found: list[Told] = []
    for row in rows["sessions"]:
        if row["is_local"]:
            joined = row["joined_at"] or row["left_at"] - timedelta(milliseconds=row["uptime_ms"])
            found.append(told(row, joined, row["left_at"]))
    for row in reference.open_stays(rows, reference.Runs(rows)):
        found.append(told(row, row["since"], row["until"]))
    return found


def told(row: Row, since: datetime, until: datetime) -> Told:
    return row["broker_id"], row["route_id"], row["service"], reference.us(since), reference.us(until), row["ended_as"]


def test_stays_equal_plain_python(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes_module, "MAX_SHOWN_ROUTES", 10**6)
    lifetimes = read_facts(case.folder).lifetimes
    expected = all_stays(case.rows)
    shown = [
        (lifetime.broker_id, lifetime.route_id, lifetime.service, lifetime.from_us, lifetime.to_us, lifetime.ended_as)
        for route in lifetimes.shown
        for lifetime in route.lifetimes
    ]
    assert sorted(shown) == sorted(expected)
    ended = sum(1 for row in case.rows["sessions"] if row["is_local"])
    assert (lifetimes.ended, lifetimes.open, lifetimes.left_out) == (ended, len(expected) - ended, 0)
    assert lifetimes.route_count == len({lifetime[1] for lifetime in expected})
    assert all(
        route.lifetimes == sorted(route.lifetimes, key=lambda lifetime: lifetime.from_us) for route in lifetimes.shown
    )
    sizes = [
        (-len(route.lifetimes), -sum(lifetime.to_us - lifetime.from_us for lifetime in route.lifetimes))
        for route in lifetimes.shown
    ]
    assert sizes == sorted(sizes)


def test_services_equal_plain_python(case: Case) -> None:
    expected = all_stays(case.rows)
    ended = [row for row in case.rows["sessions"] if row["is_local"]]
    names = {lifetime[2] for lifetime in expected}
    lifetimes = case.facts.lifetimes
    assert (lifetimes.service_count, {row.service for row in lifetimes.services}) == (len(names), names)
    for row in lifetimes.services:
        uptimes = [one["uptime_ms"] for one in ended if one["service"] == row.service]
        mine = [lifetime for lifetime in expected if lifetime[2] == row.service]
        assert row.routes == len({lifetime[1] for lifetime in mine})
        assert (row.open, row.ended) == (len(mine) - len(uptimes), len(uptimes))
        assert row.short == sum(1 for uptime_ms in uptimes if uptime_ms < 60_000)
        assert row.median_ms == (reference.percentile(uptimes, 0.5) if uptimes else None)


def test_flapping_equals_plain_python(case: Case) -> None:
    ends: dict[str, list[int]] = {}
    services: dict[str, str] = {}
    for row in case.rows["sessions"]:
        if row["is_local"] and row["uptime_ms"] < 60_000:
            ends.setdefault(row["route_id"], []).append(reference.us(row["left_at"]))
            services[row["route_id"]] = row["service"]
    expected = []
    for route_id, mine in ends.items():
        mine.sort()
        if any(third - first <= 600_000_000 for first, third in zip(mine, mine[2:], strict=False)):
            expected.append(Record(route_id=route_id, service=services[route_id], ends_us=mine))
    expected.sort(key=lambda one: (-len(one.ends_us), one.route_id))
    assert case.facts.lifetimes.flapping_count == len(expected) > 0
    assert case.facts.lifetimes.flapping == expected[: lifetimes_module.MAX_FLAPPING]


@pytest.mark.parametrize(
    "gaps_s, uptime_ms, is_flapping",
    [((300, 300), 59_999, True), ((300, 301), 59_999, False), ((300, 300), 60_000, False), ((300,), 1, False)],
)
def test_flapping_is_three_short_stays_within_ten_minutes(
    tmp_path: Path, gaps_s: tuple[int, ...], uptime_ms: int, is_flapping: bool
) -> None:
    ends = [NOON + timedelta(seconds=sum(gaps_s[:place])) for place in range(len(gaps_s) + 1)]
    write(tmp_path, {"sessions": [session_row("r", at, uptime_ms, place) for place, at in enumerate(ends)]})
    assert read_facts(tmp_path).lifetimes.flapping_count == is_flapping


def lifetimes_of(folder: Path, rows: dict[str, list[Row]]) -> Any:
    write(folder, rows)
    return read_facts(folder).lifetimes


def joined(seconds: int, seq: int, **values: object) -> Row:
    return event_row(
        "RouteJoined", seq, event_time=NOON + timedelta(seconds=seconds), route_id="r", service="orders", **values
    )


def test_a_route_that_came_back_under_its_id_is_still_there(tmp_path: Path) -> None:
    replaced = session_row("r", NOON + timedelta(seconds=5), 5000, 2, ended_as="replaced")
    end = event_row("RouteReplaced", 2, event_time=NOON + timedelta(seconds=5), route_id="r")
    lifetimes = lifetimes_of(tmp_path, {"lifecycle": [joined(0, 1), end, joined(5, 3)], "sessions": [replaced]})
    assert [lifetime.ended_as for lifetime in lifetimes.shown[0].lifetimes] == ["replaced", "still there"]


def test_a_broker_that_died_leaves_its_routes_at_the_last_it_was_heard_of(tmp_path: Path) -> None:
    heard = event_row("PeerConnected", 2, event_time=NOON + timedelta(seconds=30))
    later = event_row("BrokerStarted", 1, epoch=2, event_time=NOON + timedelta(seconds=90))
    lifetimes = lifetimes_of(tmp_path, {"lifecycle": [joined(0, 1), heard, later]})
    [lifetime] = lifetimes.shown[0].lifetimes
    assert (lifetime.ended_as, lifetime.to_us - lifetime.from_us) == ("broker died", 30_000_000)


def test_a_snapshot_that_was_cut_is_no_table(tmp_path: Path) -> None:
    """The routes of the one before are told."""
    seen = origin(1) | {"epoch": 1, "service": "orders", "peer": "tcp 1", "uptime_ms": 1000}
    minute = timedelta(minutes=1)
    routes = [seen | {"seen_at": NOON, "seq": n, "route_id": f"r{n}"} for n in (1, 2)]
    routes.append(seen | {"seen_at": NOON + minute, "seq": 4, "route_id": "r1"})
    digest = event_row("TableDigest", 3, tags=[("routes", "2"), ("local", "2")])
    assert lifetimes_of(tmp_path / "cut", {"routes": routes, "lifecycle": [digest]}).open == 2
    whole = event_row("TableDigest", 5, event_time=NOON + minute, tags=[("routes", "1"), ("local", "1")])
    assert lifetimes_of(tmp_path / "whole", {"routes": routes, "lifecycle": [digest, whole]}).open == 1


def test_stays_of_other_brokers_routes_are_told_by_those(tmp_path: Path) -> None:
    remote = session_row("r", NOON, 1000, is_local=0, ended_as="removed")
    seen = origin(2) | {"epoch": 1, "seen_at": NOON, "seq": 1, "route_id": "r", "peer": "broker 1"}
    assert lifetimes_of(tmp_path, {"sessions": [remote], "routes": [seen], "traffic": [traffic_row()]}).route_count == 0


def test_stays_beyond_what_a_browser_draws_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetimes_module, "MAX_SHOWN_STAYS", 5)
    rows = [session_row("a", NOON + timedelta(seconds=second), 1000, second) for second in range(9)]
    lifetimes = lifetimes_of(tmp_path, {"sessions": [*rows, session_row("b", NOON, 1000)]})
    assert [(route.route_id, len(route.lifetimes)) for route in lifetimes.shown] == [("a", 5), ("b", 1)]
    assert lifetimes.left_out == 4
    assert lifetimes.shown[0].lifetimes[-1].to_us == reference.us(NOON + timedelta(seconds=8))
