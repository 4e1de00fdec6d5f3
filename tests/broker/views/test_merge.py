"""broker.views.merge: values of several workers become one, by the rules beside the fields of the views."""

import json
from collections.abc import Mapping
from typing import Annotated

import msgspec
import pytest
from msgspec.structs import replace

from broker.edge.event_pipe import PipeState
from broker.views import queries, schemas
from broker.views.merge import BY_NAME, KEY, MAX, SUM, merge, merge_items, rules_of
from tests.fakes import World


def service(name: str, routes: int, remote: int, requests: int, is_refusing: bool = False) -> schemas.ServiceView:
    return schemas.ServiceView(name, routes, remote, requests, 1, 1, 1, is_refusing, 2)


def test_services_are_there_once_with_the_requests_of_all_workers_and_routes_that_all_know() -> None:
    """Of 5 routes 2 are at worker 1, 2 at worker 2, and 1 at a broker elsewhere."""
    found = merge_items([service("orders", 5, 3, 10), service("billing", 1, 0, 4), service("orders", 5, 3, 7, True)])
    assert found == [schemas.ServiceView("orders", 5, 1, 17, 2, 2, 1, True, 4), service("billing", 1, 0, 4)]


def traffic(requests: int, mean_us: int, p99_us: int, items: int = 1) -> schemas.TrafficView:
    kind = ("orders", "request_response", "unicast", "completed", "")
    volumes = (items, 2 * items, 3 * items, 4 * items)
    return schemas.TrafficView(*kind, requests, *volumes, mean_us, 10, 20, p99_us, p99_us + 1)


def test_traffic_is_added_up_and_percentiles_are_the_largest() -> None:
    assert merge_items([traffic(30, 100, 400), traffic(10, 300, 350)]) == [traffic(40, 150, 400, items=2)]


def test_traffic_of_no_requests_has_no_mean() -> None:
    assert merge([traffic(0, 0, 0)]) == traffic(0, 0, 0)


def drain(began_at_ms: int, routes: int, left: int) -> schemas.DrainView:
    return schemas.DrainView("tag", "region=eu", began_at_ms, 5.0, 10.0, 30.0, True, routes, left)


def test_a_drain_of_all_workers_is_one_and_has_the_connections_of_all() -> None:
    assert merge_items([drain(1000, 4, 2), drain(1003, 4, 1)]) == [drain(1000, 4, 3)]


def broker(name: str, id: str, is_self: bool, hops: int | None) -> schemas.BrokerView:
    return schemas.BrokerView(name, id, is_self, "reachable", [], [], hops, hops, "", 3, 1, 5)


def test_a_broker_is_shown_as_the_nearest_worker_sees_it() -> None:
    seen = [
        broker("eu-1.1", "a", True, 0),
        broker("eu-1.2", "b", False, 1),
        broker("us-1", "c", False, None),
        broker("eu-1.2", "b", True, 0),
        broker("eu-1.1", "a", False, 1),
        broker("us-1", "c", False, 2),
    ]
    assert merge_items(seen) == [seen[0], seen[3], seen[5]]


def path(way: list[str], requests: int, idle_s: float) -> schemas.PathView:
    return schemas.PathView(way[0], way, len(way) - 1, requests, idle_s)


def test_paths_that_two_workers_count_alike_are_one() -> None:
    found = merge_items([path(["a", "b"], 3, 7.0), path(["a", "b"], 4, 2.0), path(["b", "a"], 1, 1.0)])
    assert found == [path(["a", "b"], 7, 2.0), path(["b", "a"], 1, 1.0)]


def test_a_redirect_that_all_know_is_one() -> None:
    redirect = schemas.RedirectView("orders", "orders-2", 1000, 5.0, "a", "eu-1")
    assert merge_items([redirect, replace(redirect, age_s=6.0)]) == [redirect]


def test_a_service_in_detail() -> None:
    routes = schemas.Listed[object]([], 0, 0, 100)
    details = [
        schemas.ServiceDetailView(service("orders", 2, 1, 3), {"chooser": "random"}, routes, [traffic(3, 10, 5)]),  # type: ignore[arg-type]
        schemas.ServiceDetailView(service("orders", 2, 1, 4), {"chooser": "random"}, routes, [traffic(1, 10, 6)]),  # type: ignore[arg-type]
    ]
    found = merge(details)
    assert found.service == schemas.ServiceView("orders", 2, 0, 7, 2, 2, 1, False, 4)
    assert (found.policy, found.traffic) == ({"chooser": "random"}, [traffic(4, 10, 6, items=2)])


def worker_status(
    connections: int, requests: int, p99_us: int, routes: int, sealed: int, error: str
) -> schemas.StatusView:
    """A status as a worker gives it: written as JSON, and read."""
    world = World()
    files = PipeState(
        pid=7,
        backlog_bytes=1,
        held_bytes=2,
        written=3,
        sealed=sealed,
        dropped=4,
        segments=5,
        restarts=6,
        error=error,
        free_bytes=1000 + sealed,
        single_requests=0,
        defined_flows=0,
    )
    moment = schemas.Moment(world.now, world.at_ms)
    status = queries.status(world.core, moment, name="eu-1.1", state="ready", event_files=files)
    status = msgspec.json.decode(msgspec.json.encode(status), type=schemas.StatusView)
    states = dict.fromkeys(status.route_states, 2)
    latency = schemas.DurationsView(10, 5, p99_us, p99_us)
    return replace(
        status,
        connections=connections,
        requests=requests,
        routes=routes,
        route_states=states,
        added_latency=latency,
        bytes=schemas.BytesView(1, 2, 3),
    )


def test_the_status_of_all_workers() -> None:
    one, two = worker_status(3, 100, 40, 6, 5, ""), worker_status(4, 50, 30, 6, 7, "the disk is full")
    expected = replace(
        one,
        connections=7,
        requests=150,
        # of routes: brokers tell each other which are draining, unhealthy or congested
        route_states={"draining": 2, "full": 4, "unleased": 4, "ejected": 4, "unhealthy": 2, "congested": 2},
        added_latency=schemas.DurationsView(20, 5, 40, 40),
        bytes=schemas.BytesView(2, 4, 6),
        event_files=schemas.EventFilesView(
            7, 2, 4, 6, 12, 8, 10, 12, "the disk is full", 0, 0, 0, 1007, 0, 0, 0, 0, 0
        ),
    )  # fmt: skip
    assert merge([one, two]) == expected


def test_a_status_without_event_files() -> None:
    one = replace(worker_status(1, 1, 1, 0, 0, ""), event_files=None)
    assert merge([one, one]).event_files is None


def test_a_view_of_one_broker_has_no_worker_in_its_json() -> None:
    status = json.loads(msgspec.json.encode(worker_status(1, 1, 1, 0, 0, "")))
    assert "workers" not in status


class Sizes(msgspec.Struct):
    """Mappings and keys."""

    name: Annotated[str, KEY]
    sizes: Annotated[Mapping[str, int], BY_NAME({"files": SUM, "disk": MAX})]
    label: str = ""


def test_a_mapping_has_a_rule_for_each_key_and_what_is_no_number_is_the_first_ones() -> None:
    found = merge([Sizes("a", {"files": 1, "disk": 7}, "x"), Sizes("a", {"files": 2, "disk": 5}, "y")])
    assert found == Sizes("a", {"files": 3, "disk": 7}, "x")


class Forgotten(msgspec.Struct):
    """A number that nobody has thought of."""

    name: str
    number: float | None


def test_a_number_without_a_rule_is_found_out() -> None:
    with pytest.raises(TypeError, match="numbers of Forgotten without a rule: number"):
        rules_of(Forgotten)


class Alone(msgspec.Struct):
    """Each is one of its own."""

    label: str


def test_items_without_a_key_are_never_merged() -> None:
    assert merge_items([Alone("a"), Alone("a")]) == [Alone("a"), Alone("a")]
