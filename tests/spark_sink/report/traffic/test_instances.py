"""Routes beside their service, and by a tag, against plain Python."""

from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

from spark_sink.report.facts import read_facts
from spark_sink.report.traffic.instances import MAX_INSTANCES
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import Row, event_row, histogram, session_row, traffic_row, write


def test_instances_equal_plain_python(case: Case) -> None:
    rows = [row for row in case.rows["traffic"] if row["route_id"] and row["requests"]]
    answered = [row for row in reference.timed(rows) if row["model"] == "request_response"]
    told = case.facts.instances
    routes = defaultdict(set)
    for row in rows:
        routes[row["service"]].add(row["route_id"])
    keys = {(row["service"], row["route_id"]) for row in answered if len(routes[row["service"]]) > 1}
    assert (len(told.rows), told.count) == (min(MAX_INSTANCES, len(keys)), len(keys))
    for one in told.rows:
        its = [row for row in rows if row["service"] == one.service]
        mine = [row for row in its if row["route_id"] == one.route_id]
        assert (one.requests, one.errors) == (sum(map(reference.requests, mine)), sum(map(reference.errors, mine)))
        assert one.service_requests == sum(map(reference.requests, its))
        assert one.service_errors == sum(map(reference.errors, its))
        by_route: dict[str, list[int]] = defaultdict(list)
        for row in answered:
            if row["service"] == one.service:
                by_route[row["route_id"]] += row["latencies"]
        for fraction, own_us, median_us in (
            (0.5, one.p50_us, one.median_p50_us),
            (0.99, one.p99_us, one.median_p99_us),
        ):
            assert reference.is_close(own_us, by_route[one.route_id], fraction)
            ranked = sorted(by_route.values(), key=partial(reference.percentile, fraction=fraction))
            assert reference.is_close(median_us, ranked[(len(ranked) - 1) // 2], fraction)


def test_the_slowest_beside_its_service_is_first_and_rare_ones_are_last(tmp_path: Path) -> None:
    def row(service: str, route_id: str, us: int, count: int) -> Row:
        return traffic_row(service, count, route_id=route_id) | histogram([us] * count)

    rows = [row("slow", "a", 90_000, 500), row("slow", "b", 90_000, 500), row("even", "c", 1000, 900)]
    rows += [row("even", "other", 1000, 1000), row("even", "bad", 30_000, 100)]
    rows += [row("even", "rare", 900_000, 2), row("alone", "d", 500_000, 900)]
    write(tmp_path, {"traffic": rows})
    told = read_facts(tmp_path).instances
    assert [one.route_id for one in told.rows] == ["bad", "other", "c", "a", "b", "rare"]
    bad = told.rows[0]
    assert [*vars(bad).values()][:6] == ["even", "bad", 100, 0, 2002, 0]
    assert bad.p50_us == bad.p99_us == pytest.approx(30_000, rel=1 / 32)
    assert bad.median_p50_us == bad.median_p99_us == pytest.approx(1000, rel=1 / 32)


def test_requests_by_a_tag_of_their_routes(tmp_path: Path) -> None:
    joined = event_row("RouteJoined", route_id="a", service="orders", tags=[("region", "eu"), ("zone", "z'1")])
    left = session_row("b", joined["event_time"], 1000, tags=[("region", "us")])
    seen = joined | {"seen_at": joined["event_time"], "route_id": "c", "tags": [("region", "eu")], "peer": "tcp 1"}
    traffic = [
        traffic_row(requests=5, route_id="a"), traffic_row(requests=2, route_id="b", outcome="error"),
        traffic_row(requests=3, route_id="c"), traffic_row(requests=4, route_id="none"),
        traffic_row(requests=9, outcome="rejected"),
    ]  # fmt: skip
    write(tmp_path, {"traffic": traffic, "lifecycle": [joined], "sessions": [left], "routes": [seen]})
    told = read_facts(tmp_path).by_tag
    thousand = [1000] * 4
    assert (told.tag, told.count) == ("region", 3)
    assert [tuple(vars(row).values()) for row in told.rows] == [
        ("eu", 2, 8, 0, thousand), ("", 0, 4, 0, thousand), ("us", 1, 2, 2, thousand)
    ]  # fmt: skip
    assert [row.value for row in read_facts(tmp_path, tag="zone").by_tag.rows] == ["", "z'1"]
    assert read_facts(tmp_path, tag="'; --").by_tag.rows == []
