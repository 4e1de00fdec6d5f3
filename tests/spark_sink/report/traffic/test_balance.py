from collections import Counter
from pathlib import Path

import pytest

from spark_sink.report.facts import read_facts
from spark_sink.report.traffic.balance import MAX_BALANCES, MAX_LOADS
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, event_row, origin, session_row, traffic_row, write


def test_balance_equals_plain_python(case: Case) -> None:
    rows = [row for row in case.rows["traffic"] if row["route_id"] and row["routing"] != "multicast"]
    counts = reference.sums(rows, ["service", "routing"], reference.requests)
    balances = case.facts.balances
    assert [(row.service, row.routing) for row in balances.rows] == reference.top(counts, MAX_BALANCES)
    assert balances.count == sum(1 for count in counts.values() if count)
    sessions = [row for row in case.rows["sessions"] if row["is_local"]]
    for told in balances.rows:
        loads: Counter[str] = Counter()
        joined = [row for row in case.rows["lifecycle"] if row["event"] == "RouteJoined"]
        for row in [*case.rows["routes"], *sessions, *joined]:
            if row["service"] == told.service:
                loads[row["route_id"]] += 0
        for row in rows:
            if (row["service"], row["routing"]) == (told.service, told.routing):
                loads[row["route_id"]] += row["requests"]
        values = sorted(loads.values())
        assert (told.routes, told.requests, told.max) == (len(values), sum(values), values[-1])
        assert told.idle == values.count(0)
        assert told.max_per_mean == pytest.approx(values[-1] / (sum(values) / len(values)))
        assert told.gini == pytest.approx(reference.gini(values))
        assert loads[told.busiest] == values[-1]
        assert told.loads == values


def test_of_many_routes_some_stand_for_all(tmp_path: Path) -> None:
    write(tmp_path, {"traffic": [traffic_row(requests=n, route_id=f"r{n}") for n in range(1, 1001)]})
    [told] = read_facts(tmp_path).balances.rows
    assert (len(told.loads), told.loads[0], told.loads[-1], told.routes) == (MAX_LOADS, 1, 1000, 1000)
    assert told.loads == sorted(told.loads)


def test_a_route_that_another_service_offers_does_not_count(tmp_path: Path) -> None:
    seen = origin(1) | {"seen_at": NOON, "epoch": 1, "peer": "tcp 1", "route_id": "idle"}
    sessions = [session_row("left", NOON, 1000), session_row("elsewhere", NOON, 1000, service="carts")]
    rows = {"traffic": [traffic_row(route_id="a", requests=2)], "sessions": sessions}
    write(tmp_path, rows | {"routes": [seen | {"service": "orders"}, seen | {"service": "carts", "route_id": "b"}]})
    [told] = read_facts(tmp_path).balances.rows
    assert (told.routes, told.idle, told.max_per_mean) == (3, 2, 3.0)
    assert told.gini == pytest.approx(2 / 3)


def test_a_route_that_joined_since_the_last_snapshot_counts(tmp_path: Path) -> None:
    joined = event_row("RouteJoined", route_id="idle", service="orders")
    write(tmp_path, {"traffic": [traffic_row(route_id="a", requests=2)], "lifecycle": [joined]})
    [told] = read_facts(tmp_path).balances.rows
    assert (told.routes, told.idle, told.loads) == (2, 1, [0, 2])
