"""Several workers as one: pages over all of them, items that are one, numbers that are sums and those that are not."""

from __future__ import annotations

import msgspec
import pytest

from admin_api.backends.merge import (
    GATHERED,
    Answer,
    Body,
    PagePlan,
    gathered,
    inner_id,
    outer_id,
    placed,
    plan_pages,
    service_detail,
    status,
)
from broker.views import queries, schemas
from broker.views.schemas import Part
from tests.fakes import World


def gather(path: str, *bodies: tuple[int, Body], part: Part | None = None) -> Body:
    """The list at this path, of items by worker."""
    return gathered(GATHERED[path], [Answer(*each) for each in bodies], part if part is not None else Part())


@pytest.mark.parametrize(
    "offset, limit, plans",
    [
        (0, 100, [(1, 0, 3), (2, 0, 5)]),
        (0, 2, [(1, 0, 2)]),
        (2, 2, [(1, 2, 1), (2, 0, 1)]),
        (3, 100, [(2, 0, 5)]),
        (7, 1, [(2, 4, 1)]),
        (8, 1, []),
    ],
)
def test_a_page_is_cut_over_the_items_of_all_workers(
    offset: int, limit: int, plans: list[tuple[int, int, int]]
) -> None:
    assert plan_pages({1: 3, 2: 5, 3: 0}, Part(offset, limit)) == [PagePlan(*plan) for plan in plans]


def test_pages_of_any_size_put_together_are_the_whole() -> None:
    totals = {1: 4, 2: 0, 3: 7, 4: 1}
    whole = [(worker, at) for worker, total in totals.items() for at in range(total)]
    for limit in range(1, 14):
        found = [
            (plan.at, at)
            for offset in range(0, 12, limit)
            for plan in plan_pages(totals, Part(offset, limit))
            for at in range(plan.offset, plan.offset + plan.limit)
        ]
        assert found == whole, limit


def test_connections_of_two_workers_never_have_one_number() -> None:
    assert (outer_id(3, 42), inner_id("42003")) == (42003, (3, 42))
    assert placed(Answer(3, {"connection_id": 42, "peer": "tcp 10.0.0.4:5123"})) == {
        "connection_id": 42003,
        "peer": "tcp 10.0.0.4:5123",
        "worker": 3,
    }
    assert placed(Answer(2, {"connection_id": None})) == {"connection_id": None, "worker": 2}


@pytest.mark.parametrize("text", ["", "-1", "4x", "٣", "1" * 19])
def test_what_is_no_number_is_no_connection(text: str) -> None:
    assert inner_id(text) is None


def service(name: str, routes: int, remote: int, requests: int, is_refusing: bool = False) -> Body:
    view = schemas.ServiceView(name, routes, remote, requests, 1, 1, 1, is_refusing, 2)
    body: Body = msgspec.to_builtins(view)
    return body


def test_services_are_there_once_with_the_requests_of_all_workers_and_routes_that_all_know() -> None:
    """Of 5 routes 2 are at worker 1, 2 at worker 2, and 1 at a broker elsewhere."""
    found = gather(
        "/api/v1/services",
        (1, service("orders", 5, 3, 10)),
        (1, service("billing", 1, 0, 4)),
        (2, service("orders", 5, 3, 7, True)),
    )
    orders = schemas.ServiceView("orders", 5, 1, 17, 2, 2, 1, True, 4)
    assert found == {
        "items": [service("billing", 1, 0, 4), msgspec.to_builtins(orders)],
        "total": 2,
        "offset": 0,
        "limit": 100,
    }


def traffic(service: str, requests: int, mean_us: int, p99_us: int) -> Body:
    view = schemas.TrafficView(
        service,
        "request_response",
        "unicast",
        "completed",
        "",
        requests,
        1,
        2,
        3,
        4,
        mean_us,
        10,
        20,
        p99_us,
        p99_us + 1,
    )
    body: Body = msgspec.to_builtins(view)
    return body


def test_traffic_is_added_up_and_percentiles_are_the_largest() -> None:
    found = gather("/api/v1/traffic", (1, traffic("orders", 30, 100, 400)), (2, traffic("orders", 10, 300, 350)))
    assert found["items"] == [
        traffic("orders", 40, 150, 400) | {"items_in": 2, "items_out": 4, "bytes_in": 6, "bytes_out": 8}
    ]


def test_traffic_of_no_requests_has_no_mean() -> None:
    assert gather("/api/v1/traffic", (1, traffic("orders", 0, 0, 0)))["items"] == [traffic("orders", 0, 0, 0)]


def test_closed_connections_of_all_workers_are_latest_first_and_none_is_lost() -> None:
    closed = [(1, {"connection_id": 1001, "closed_at_ms": at}) for at in (30, 10)]
    closed += [(2, {"connection_id": 1002, "closed_at_ms": at}) for at in (30, 20)]
    found = gather("/api/v1/connections/closed", *closed, part=Part(1, 2))
    assert found == {
        "items": [{"connection_id": 1002, "closed_at_ms": 30}, {"connection_id": 1002, "closed_at_ms": 20}],
        "total": 4,
        "offset": 1,
        "limit": 2,
    }


def drain(began_at_ms: int, routes: int, left: int) -> Body:
    body: Body = msgspec.to_builtins(
        schemas.DrainView("tag", "region=eu", began_at_ms, 5.0, 10.0, 30.0, True, routes, left)
    )
    return body


def test_a_drain_of_all_workers_is_one_and_has_the_connections_of_all() -> None:
    assert gather("/api/v1/drains", (1, drain(1000, 4, 2)), (2, drain(1003, 4, 1)))["items"] == [drain(1000, 4, 3)]


def broker(name: str, id: str, is_self: bool, hops: int | None) -> Body:
    view = schemas.BrokerView(name, id, is_self, "reachable", [], [], hops, hops, "", 3, 1, 5)
    body: Body = msgspec.to_builtins(view)
    return body


def test_a_broker_is_shown_as_the_nearest_worker_sees_it() -> None:
    seen = [
        (1, broker("eu-1.1", "a", True, 0)),
        (1, broker("eu-1.2", "b", False, 1)),
        (1, broker("us-1", "c", False, None)),
        (2, broker("eu-1.2", "b", True, 0)),
        (2, broker("eu-1.1", "a", False, 1)),
        (2, broker("us-1", "c", False, 2)),
    ]
    assert gather("/api/v1/brokers", *seen)["items"] == [
        broker("eu-1.1", "a", True, 0),
        broker("eu-1.2", "b", True, 0),
        broker("us-1", "c", False, 2),
    ]


def path(way: list[str], requests: int, idle_s: float) -> Body:
    body: Body = msgspec.to_builtins(schemas.PathView(way[0], way, len(way) - 1, requests, idle_s))
    return body


def test_ways_that_two_workers_count_alike_are_one() -> None:
    found = gather(
        "/api/v1/paths", (1, path(["a", "b"], 3, 7.0)), (2, path(["a", "b"], 4, 2.0)), (2, path(["b", "a"], 1, 1.0))
    )
    assert found["items"] == [path(["a", "b"], 7, 2.0), path(["b", "a"], 1, 1.0)]


def test_a_redirect_that_all_know_is_one() -> None:
    redirect = {"service": "orders", "to": "orders-2"}
    assert gather("/api/v1/redirects", (1, redirect), (2, redirect))["items"] == [redirect]


def test_a_service_in_detail() -> None:
    bodies = [
        {
            "service": service("orders", 2, 1, 3),
            "policy": {"chooser": "random"},
            "routes": {},
            "traffic": [traffic("orders", 3, 10, 5)],
        },
        {
            "service": service("orders", 2, 1, 4),
            "policy": {"chooser": "random"},
            "routes": {},
            "traffic": [traffic("orders", 1, 10, 6)],
        },
    ]
    found = service_detail([Answer(number, body) for number, body in enumerate(bodies, 1)], {"items": ["r1", "r2"]})
    assert found["service"] == msgspec.to_builtins(schemas.ServiceView("orders", 2, 0, 7, 2, 2, 1, False, 4))
    assert (found["policy"], found["routes"]) == ({"chooser": "random"}, {"items": ["r1", "r2"]})
    assert [row["requests"] for row in found["traffic"]] == [4]


def worker_status(connections: int, requests: int, p99_us: int, routes: int, remote: int, sealed: int) -> Body:
    """A status as a worker gives it."""
    world = World()
    body: Body = msgspec.to_builtins(
        queries.status(world.core, schemas.Moment(world.now, world.at_ms), name="eu-1.1", state="ready")
    )
    body["connections"], body["requests"], body["routes"] = connections, requests, routes
    body["cluster"]["remote_routes"] = remote
    body["added_latency"] = {"number": 10, "p50_us": 5, "p99_us": p99_us, "max_us": p99_us}
    body["event_files"] = {"pid": 7, "sealed": sealed, "error": ""}
    return body


def test_the_status_of_all_workers() -> None:
    """6 routes, of which worker 1 has 3 and worker 2 has 1; the others are elsewhere."""
    one, two = worker_status(3, 100, 40, 6, 3, 5), worker_status(4, 50, 30, 6, 5, 7)
    two["event_files"]["error"] = "the disk is full"
    found = status([one, two], {"name": "eu-1", "listeners": ["tcp://127.0.0.1:7000"]})
    whole = worker_status(7, 150, 40, 6, 2, 12)
    whole["added_latency"]["number"] = 20
    whole["event_files"] = {"pid": 7, "sealed": 12, "error": "the disk is full"}
    whole |= {"name": "eu-1", "listeners": ["tcp://127.0.0.1:7000"]}
    summed = ("uptime_s", "started_at_ms")  # which the supervisor knows better
    assert {key: value for key, value in found.items() if key not in summed} == {
        key: value for key, value in whole.items() if key not in summed
    }


def test_a_status_without_event_files() -> None:
    one = worker_status(1, 1, 1, 0, 0, 0) | {"event_files": None}
    assert status([one, one], {})["event_files"] is None


def test_every_view_that_is_put_together_has_the_fields_that_the_rules_name() -> None:
    """A field that is renamed in the views must be renamed here, too."""
    names = {
        schemas.ServiceView: {
            "service",
            "routes",
            "remote",
            "requests",
            "in_flight",
            "awaited",
            "ejected",
            "is_refusing",
            "refused",
        },
        schemas.DrainView: {"kind", "name", "began_at_ms", "age_s", "routes", "connections_left"},
        schemas.PathView: {"ingress", "way", "requests", "idle_s"},
        schemas.BrokerView: {"broker_id", "hops", "is_self", "name"},
        schemas.RedirectView: {"service"},
        schemas.ClosedConnectionView: {"connection_id", "closed_at_ms"},
        schemas.ConnectionView: {"connection_id"},
        schemas.RouteView: {"connection_id", "broker"},
    }
    assert {view: fields - set(view.__struct_fields__) for view, fields in names.items()} == {
        view: set() for view in names
    }
