from collections import Counter
from pathlib import Path

from spark_sink.report.facts import read_facts
from spark_sink.report.traffic.fanout import MAX_FANOUTS, routes_at
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, origin, traffic_row, write

SINGLE = origin(1) | {"event_time": NOON, "service": "orders", "routing": "multicast"}
SINGLE |= {"branches": 3, "outcome": "completed"}


def test_fanout_equals_plain_python(case: Case) -> None:
    rows = [row for row in reference.reached(case.rows["traffic"]) if row["routing"] == "multicast"]
    singles = [row for row in reference.reached(case.rows["requests"]) if row["routing"] == "multicast"]
    counts = reference.sums(rows, ["service"], reference.requests)
    branches = reference.sums(rows, ["service"], lambda row: int(row["branches"]))
    expected = []
    for [service] in reference.top(counts, MAX_FANOUTS):
        found: Counter[int] = Counter()
        mine = [row for row in rows if row["service"] == service and row["model"] == "request_stream"]
        streams = [row for row in singles if row["service"] == service and row["model"] == "request_stream"]
        asked, answers = (sum(row[name] for row in mine) for name in ("branches", "items_out"))
        incomplete = sum(row["weight"] for row in streams if row.get("items_out", 0) < row["branches"])
        for row in singles:
            if row["service"] == service:
                found[row["branches"]] += row["weight"]
        pairs = [[routes, count] for routes, count in sorted(found.items())]
        expected.append((service, counts[service,], branches[service,], pairs, asked, answers, incomplete))
    assert [tuple(vars(row).values()) for row in case.facts.fanouts.rows] == expected
    assert case.facts.fanouts.count == sum(1 for count in counts.values() if count)
    for told in case.facts.fanouts.rows:
        values = [routes for routes, count in told.counts for _ in range(count)]
        median = reference.percentile(values, 0.5) if values else None
        expected_routes = [min(values, default=None), median, max(values, default=None)]
        assert [routes_at(fraction, told.counts) for fraction in (0.0, 0.5, 1.0)] == expected_routes


def test_multicasts_that_no_route_matched_are_left_out(tmp_path: Path) -> None:
    refused = traffic_row(requests=9, branches=0, routing="multicast", outcome="rejected")
    single = SINGLE | {"branches": 0, "outcome": "rejected"}
    sent = traffic_row(requests=2, branches=6, routing="multicast")
    write(tmp_path, {"traffic": [refused, sent], "requests": [single]})
    [told] = read_facts(tmp_path).fanouts.rows
    assert (told.service, told.multicasts, told.branches, told.counts) == ("orders", 2, 6, [])


def test_a_single_request_without_a_weight_stands_for_itself(tmp_path: Path) -> None:
    write(tmp_path, {"traffic": [traffic_row(routing="multicast", branches=3)], "requests": [SINGLE]})
    assert read_facts(tmp_path).fanouts.rows[0].counts == [[3, 1]]
