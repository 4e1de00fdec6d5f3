"""The REST API, `ctl`, the page and /metrics: what is between brokers, and redirects."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner

from admin_api.app import make_app
from admin_api.ctl.commands import ctl
from admin_api.errors import PROBLEMS
from admin_api.metrics import HOP_BOUNDS
from broker.cluster.redirects import MAX_REDIRECTS
from broker.config.options import Config
from broker.config.sections.process import AdminOptions
from broker.forwarding.interbroker.annotations import MAX_PATHS
from broker.views.schemas import DialView
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE
from rsocket_wire.wire.annotations import Annotations
from rsocket_wire.wire.frames import MAX_NAME_BYTES
from tests.admin_api.fakes import FakeAdmin, islands
from tests.admin_api.test_metrics import samples
from tests.fakes import START_MS, address
from tests.topology import Net

ORDERS_3 = "00000000-0000-0000-0000-000000000003"
B = "00000000-0000-0000-0000-0000000000b"


@pytest.fixture
def net() -> Net:
    return islands()


@asynccontextmanager
async def at(net: Net, name: str) -> AsyncIterator[TestClient[Any, Any]]:
    """The admin API of one broker."""
    async with TestClient(TestServer(make_app(FakeAdmin(net.worlds[name])))) as client:
        yield client


async def get(net: Net, name: str, path: str) -> Any:
    """The JSON of a success."""
    async with at(net, name) as client, client.get(path) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json"), await answer.text()
        return await answer.json()


async def change(net: Net, name: str, method: str, path: str, data: bytes | None = None) -> tuple[int, Any]:
    """Status and JSON; of a refusal code and detail."""
    async with at(net, name) as client, client.request(method, path, data=data) as answer:
        body = json.loads(await answer.read())
        if answer.status == 200:
            net.pump()
            return 200, body
        assert (body["status"], body["title"]) == (answer.status, PROBLEMS[body["code"]][1])
        return answer.status, (body["code"], body["detail"])


async def say(net: Net, name: str, *arguments: str) -> list[str]:
    """The lines of a `ctl` command, blanks squeezed; lines of a table's frame left out."""
    async with TestServer(make_app(FakeAdmin(net.worlds[name]))) as server:
        asked = [*arguments, "--admin", str(server.make_url(""))]
        result = await asyncio.to_thread(CliRunner(env={"COLUMNS": "200"}).invoke, ctl, asked)
    assert (result.exit_code, result.stderr) == (0, "")
    return [" ".join(line.split()) for line in result.stdout.splitlines() if line.strip(" ─")]


def came(net: Net, name: str, *trace: str, times: int = 1) -> None:
    """Requests came by way of these brokers."""
    world = net.worlds[name]
    hops = world.core.engine.annotations
    section = hops.read(Annotations(0, None, trace[0], list(trace)).encode())
    for _ in range(times):
        section.path.requests += 1
        section.path.last_at = world.now
        hops.arrived(section.hops_n)


# Brokers and links


async def test_brokers_are_listed_with_the_way_to_each(net: Net) -> None:
    shown = {
        "name": "b1",
        "broker_id": f"{B}1",
        "is_self": True,
        "state": "reachable",
        "urls": ["tcp://b1:7000"],
        "client_urls": ["tcp://b1.example:7000"],
        "hops": 0,
        "cost": 0,
        "next_hop": "",
        "routes": 1,
        "annotations_version": 1,
        "info_at_ms": net.worlds["b1"].core.cluster.members[net.worlds["b1"].core.broker_id].timestamp_ms,
    }
    body = await get(net, "b1", "/api/v1/brokers")
    assert (body["items"][0], body["total"], body["offset"], body["limit"]) == (shown, 3, 0, 100)
    assert [(each["name"], each["hops"], each["cost"], each["next_hop"]) for each in body["items"]] == [
        ("b1", 0, 0, ""),
        ("b2", 1, 10, "b2"),
        ("b3", 2, 20, "b2"),
    ]
    assert await say(net, "b1", "brokers") == [
        "broker state hops cost next hop routes broker id urls",
        f"b1 reachable 0 0 this one 1 {B}1 tcp://b1:7000",
        f"b2 reachable 1 10 b2 1 {B}2 tcp://b2:7000",
        f"b3 reachable 2 20 b2 1 {B}3 tcp://b3:7000",
    ]


async def test_a_part_of_the_brokers(net: Net) -> None:
    body = await get(net, "b2", "/api/v1/brokers?limit=1&offset=1")
    assert ([each["name"] for each in body["items"]], body["total"], body["offset"], body["limit"]) == (["b1"], 3, 1, 1)


async def test_a_broker_that_is_gone_has_no_way_and_no_routes(net: Net) -> None:
    net.kill("b3")
    body = await get(net, "b1", "/api/v1/brokers?offset=2")
    gone = body["items"][0]
    shown = (gone["name"], gone["state"], gone["hops"], gone["cost"], gone["next_hop"], gone["routes"])
    assert shown == ("b3", "unreachable", None, None, "", 0)
    assert (await say(net, "b1", "brokers"))[-1] == f"b3 unreachable - - - 0 {B}3 tcp://b3:7000"
    assert (await samples(FakeAdmin(net.worlds["b1"]), "broker_cluster_brokers")) == {
        'broker_cluster_brokers{state="reachable"}': 2,
        'broker_cluster_brokers{state="draining"}': 0,
        'broker_cluster_brokers{state="unreachable"}': 1,
    }


async def test_a_broker_that_is_about_to_leave_is_draining(net: Net) -> None:
    net.worlds["b2"].core.drains.drain_broker(10, 10, False, net.now)
    net.advance(0.5)
    body = await get(net, "b1", "/api/v1/brokers")
    assert [each["state"] for each in body["items"]] == ["reachable", "draining", "reachable"]


async def test_links_are_listed_with_their_state_and_dials_that_fail(net: Net) -> None:
    to_b1, to_b3 = net.link("b2", "b1").peer, net.link("b2", "b3").peer
    shown = {
        "name": "b1",
        "broker_id": f"{B}1",
        "connection_id": to_b1.id,
        "peer": to_b1.name,
        "url": "",
        "direction": "accepted",
        "state": "up",
        "since_s": 2.95,
        "lag_us": 2_500,
        "is_agreed": True,
        "mismatches": 0,
        "annotations_version": 1,
        "pending_bytes": 0,
        "streams": 0,
    }
    dialled = {
        **shown,
        "name": "b3",
        "broker_id": f"{B}3",
        "connection_id": to_b3.id,
        "peer": "tcp b3:7000",
        "url": "tcp://b3:7000",
        "direction": "dialled",
        "lag_us": None,
    }
    assert to_b1.link is not None
    assert to_b3.link is not None
    to_b1.link.lag_us, to_b3.link.lag_us = 2_500, -1
    body = await get(net, "b2", "/api/v1/links")
    assert sorted(body["items"], key=lambda each: str(each["name"])) == [shown, dialled]
    assert {**body, "items": []} == {
        "items": [],
        "total": 2,
        "offset": 0,
        "limit": 100,
        "dials": [{"url": "tcp://b9:7000", "attempts": 4, "error": "connection refused", "next_s": 0.25}],
    }
    lines = await say(net, "b2", "links")
    assert (lines[0], sorted(lines[1:3]), lines[3:]) == (
        "id broker peer direction state since lag agreed mismatches streams pending",
        [
            f"{to_b1.id} b1 {to_b1.name} accepted up 3.0 s 2.5 ms yes 0 0 0",
            f"{to_b3.id} b3 tcp b3:7000 dialled up 3.0 s - yes 0 0 0",
        ],
        ["failed dials attempts next in error", "tcp://b9:7000 4 0.2 s connection refused"],
    )
    assert len(json.loads("".join(await say(net, "b2", "links", "--json")))["dials"]) == 1


async def test_a_connection_that_has_not_proved_who_it_is_is_in_the_handshake() -> None:
    net = Net(["b1", "b2"], [("b1", "b2")])
    net.holds = lambda who, to, frame: who == "b2"  # what b2 says does not arrive
    net.advance(1)
    link = (await get(net, "b1", "/api/v1/links"))["items"][0]
    assert (link["name"], link["broker_id"], link["state"], link["direction"]) == ("", "", "handshake", "dialled")
    assert (link["annotations_version"], link["lag_us"], link["is_agreed"]) == (0, None, False)
    assert await samples(FakeAdmin(net.worlds["b1"]), "broker_link") == {
        'broker_links{state="handshake"}': 1,
        'broker_links{state="up"}': 0,
    }


async def test_a_broker_alone_has_no_links() -> None:
    alone = Net(["b1"], [])
    body = await get(alone, "b1", "/api/v1/links")
    assert body == {"items": [], "total": 0, "offset": 0, "limit": 100, "dials": []}
    assert await say(alone, "b1", "links") == ["no links"]


async def test_the_status_tells_of_the_cluster(net: Net) -> None:
    assert (await get(net, "b2", "/api/v1/status"))["cluster"] == {
        "name": "b2",
        "brokers": 3,
        "reachable": 3,
        "links": 2,
        "links_up": 2,
        "remote_routes": 2,
        "redirects": 0,
    }
    assert "cluster b2, 3 of 3 brokers reachable, 2 of 2 links up" in await say(net, "b2", "status")


async def test_names_that_stand_for_no_broker_are_listed_among_the_dials_that_fail(net: Net) -> None:
    admin = FakeAdmin(net.worlds["b1"])
    admin.unknown = [DialView("dns+tcp://brokers:7000", 3, "name or service not known", 0.7)]
    async with TestClient(TestServer(make_app(admin))) as client:
        async with client.get("/api/v1/links") as answer:
            assert (await answer.json())["dials"] == [
                {"url": "dns+tcp://brokers:7000", "attempts": 3, "error": "name or service not known", "next_s": 0.7}
            ]
        async with client.get("/") as answer:
            assert "dns+tcp://brokers:7000" in await answer.text()


async def test_the_page_shows_brokers_links_and_dials_that_fail(net: Net) -> None:
    link = net.link("b2", "b1").peer.link
    assert link is not None
    link.lag_us = 2_500
    async with at(net, "b2") as client, client.get("/") as answer:
        page = await answer.text()
    assert "<td>b2, 3 of 3 brokers reachable, 2 of 2 links up</td>" in page
    assert "<tr><td>b3</td><td>reachable</td><td>1 hops by way of b3</td><td>1 routes</td></tr>" in page
    assert "<tr><td>b1</td><td>up</td><td>3 s</td><td>2.5 ms there and back</td></tr>" in page
    assert "<tr><td>tcp://b9:7000</td><td>4 times</td><td>connection refused</td></tr>" in page


async def test_the_page_shows_twenty_links_and_counts_the_rest() -> None:
    names = [f"b{number}" for number in range(1, 25)]
    net = Net(names, [(name, "b1") for name in names[1:]])
    net.advance(1)
    async with at(net, "b1") as client, client.get("/") as answer:
        page = await answer.text()
    assert page.count("<td>up</td>") == 20
    assert [f"<td>and {number} more</td>" in page for number in (3, 4)] == [True, True]


async def test_the_page_of_a_broker_that_is_alone_shows_no_links() -> None:
    async with at(Net(["b1"], []), "b1") as client, client.get("/") as answer:
        page = await answer.text()
    assert "<h2>Brokers</h2>" not in page
    assert "<h2>API</h2>" in page


# Routes of other brokers


async def test_a_route_says_which_broker_has_it(net: Net) -> None:
    found = await get(net, "b1", f"/api/v1/routes/{ORDERS_3}")
    assert found == {
        "route_id": ORDERS_3,
        "service": "orders",
        "tags": [
            {"key": "io.rsocket.routing.Region", "name": "region", "value": "us"},
            {"key": "io.rsocket.routing.ServiceName", "name": "service", "value": "orders"},
            {"key": "io.rsocket.routing.RouteId", "name": "route_id", "value": ORDERS_3},
        ],
        "broker": "b3",
        "is_local": False,
        "connection_id": None,
        "peer": "",
        "joined_at_ms": found["joined_at_ms"],
        "age_s": found["age_s"],
        "requests": 0,
        "in_flight": 0,
        "awaited": 0,
        "weight": 1,
        "states": [],
        "errors_in_a_row": 0,
        "ejections": 0,
        "ejected_s": 0.0,
        "grants": None,
    }
    assert found["joined_at_ms"] + found["age_s"] * 1000 == pytest.approx(START_MS + 3000, abs=2)


@pytest.mark.parametrize(
    "query, found",
    [
        ("", [("b1", True), ("b2", False), ("b3", False)]),
        ("broker=b1", [("b1", True)]),
        ("broker=b3&broker=b2", [("b2", False), ("b3", False)]),
        ("service=orders&broker=b3", [("b3", False)]),
        ("broker=b9", []),
        ("broker=", []),
        ("broker=b2&broker=b3&limit=1&offset=1", [("b3", False)]),
    ],
)
async def test_routes_are_filtered_by_the_broker_that_has_them(
    net: Net, query: str, found: list[tuple[str, bool]]
) -> None:
    body = await get(net, "b1", f"/api/v1/routes?{query}")
    assert sorted((each["broker"], each["is_local"]) for each in body["items"]) == found


async def test_the_terminal_shows_the_broker_of_each_route(net: Net) -> None:
    lines = await say(net, "b1", "routes", "--broker", "b3")
    assert lines[0] == "service route id tags state broker peer age in flight requests"
    assert lines[1].startswith(f"orders {ORDERS_3} region=us ready b3 - ")
    assert len(lines) == 2


async def test_services_count_the_routes_of_other_brokers(net: Net) -> None:
    body = await get(net, "b1", "/api/v1/services")
    assert [(each["service"], each["routes"], each["remote"]) for each in body["items"]] == [
        ("billing", 1, 1),
        ("orders", 2, 1),
    ]
    assert (await get(net, "b1", "/api/v1/services/orders"))["routes"]["total"] == 2


async def test_a_route_of_another_broker_is_drained_for_the_requests_of_this_one(net: Net) -> None:
    assert await say(net, "b1", "drain", "route", ORDERS_3) == [
        f"the route {ORDERS_3} is drained: 1 routes; 0 connections are closed within 40 s"
    ]
    assert (await get(net, "b1", f"/api/v1/routes/{ORDERS_3}"))["states"] == ["draining"]
    assert (await get(net, "b1", "/api/v1/drains"))["items"][0]["routes"] == 1
    assert len(await say(net, "b1", "undrain", "route", ORDERS_3)) == 1


async def test_a_drain_of_the_broker_concerns_its_own_routes(net: Net) -> None:
    status, body = await change(net, "b1", "PUT", "/api/v1/drains/broker")
    assert (status, body["routes"]) == (200, 1)


# Paths


async def test_ways_that_requests_took_are_listed(net: Net) -> None:
    came(net, "b3", "b1", "b2", times=3)
    net.advance(1)
    came(net, "b3", "b2")
    net.advance(0.5)
    body = await get(net, "b3", "/api/v1/paths")
    assert body == {
        "items": [
            {"ingress": "b1", "way": ["b1", "b2", "b3"], "hops": 2, "requests": 3, "idle_s": 1.5},
            {"ingress": "b2", "way": ["b2", "b3"], "hops": 1, "requests": 1, "idle_s": 0.5},
        ],
        "total": 2,
        "offset": 0,
        "limit": 100,
    }
    assert await say(net, "b3", "paths") == [
        "ingress way hops requests last seen",
        "b1 b1 > b2 > b3 2 3 1.5 s ago",
        "b2 b2 > b3 1 1 0.5 s ago",
    ]
    assert await say(net, "b1", "paths") == ["no request came from another broker"]


async def test_a_request_to_another_broker_is_seen_at_all_brokers_on_its_way(net: Net) -> None:
    caller = net.worlds["b1"].caller()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="us"))
    net.pump()
    asked = await get(net, "b1", f"/api/v1/routes/{ORDERS_3}")
    assert (asked["requests"], asked["in_flight"], asked["awaited"]) == (1, 1, 1)
    assert [each["streams"] for each in (await get(net, "b2", "/api/v1/links"))["items"]] == [1, 1]
    ways = [(await get(net, name, "/api/v1/paths"))["items"] for name in ("b1", "b2", "b3")]
    assert [[each["way"] for each in way] for way in ways] == [[], [["b1", "b2"]], [["b1", "b2", "b3"]]]
    hops = await samples(FakeAdmin(net.worlds["b3"]), "broker_request_hops_")
    assert (hops["broker_request_hops_count"], hops["broker_request_hops_sum"]) == (1, 2)


async def test_ways_beyond_the_limit_are_listed_together(net: Net) -> None:
    for number in range(MAX_PATHS + 2):
        came(net, "b3", f"x{number}")
    body = await get(net, "b3", f"/api/v1/paths?limit=10&offset={MAX_PATHS}")
    assert (body["items"], body["total"]) == (
        [{"ingress": "", "way": [], "hops": 0, "requests": 2, "idle_s": 0.0}],
        MAX_PATHS + 1,
    )
    assert (await say(net, "b3", "paths"))[-1] == "(other) - 2 0.0 s ago"


# Redirects

GREEN = "/api/v1/redirects/orders"


async def test_a_redirect_is_set_at_one_broker_and_holds_at_all_of_them(net: Net) -> None:
    shown = {
        "service": "orders",
        "to": "green",
        "set_at_ms": START_MS + 3000,
        "age_s": 0.0,
        "broker_id": f"{B}1",
        "broker": "b1",
    }
    status, body = await change(net, "b1", "PUT", GREEN, b'{"to": "green"}')
    assert (status, body) == (200, {**shown, "set_at_ms": body["set_at_ms"], "age_s": body["age_s"]})
    assert body["set_at_ms"] == pytest.approx(START_MS + 3000, abs=1)
    net.advance(0.5)
    listed = await get(net, "b3", "/api/v1/redirects")
    assert listed["items"] == [{**body, "age_s": listed["items"][0]["age_s"]}]
    assert (listed["total"], listed["offset"], listed["limit"]) == (1, 0, 100)
    assert await say(net, "b3", "redirects") == ["service to age set at", "orders green 0.5 s b1"]
    status, body = await change(net, "b3", "DELETE", GREEN)
    assert (status, body["to"]) == (200, "green")
    net.advance(0.5)
    assert (await get(net, "b1", "/api/v1/redirects"))["items"] == []
    assert await say(net, "b1", "redirects") == ["nothing is redirected"]


async def test_redirects_are_set_and_removed_from_the_terminal(net: Net) -> None:
    assert await say(net, "b1", "redirect", "a/b ?", "green") == ["requests for a/b ? go to green"]
    assert json.loads("".join(await say(net, "b1", "redirect", "orders", "blue", "--json")))["to"] == "blue"
    assert list(net.worlds["b1"].core.cluster.redirects) == ["a/b ?", "orders"]
    net.advance(2)
    assert await say(net, "b1", "unredirect", "a/b ?") == ["requests for a/b ? go there again, after 2.0 s to green"]
    assert json.loads("".join(await say(net, "b1", "unredirect", "orders", "--json")))["to"] == "blue"
    assert net.worlds["b1"].core.cluster.redirects == {}


@pytest.mark.parametrize(
    "data, code, detail",
    [
        (b"", "bad-body", "the body is not JSON: "),
        (b"[]", "bad-body", "the body must be a JSON object, not []"),
        (b"{}", "bad-body", 'the body must say where to: {"to": "NAME"}'),
        (b'{"to": 7}', "bad-body", "to must be the name of a service, not 7"),
        (b'{"to": "green", "weight": 1}', "bad-body", "unknown field 'weight'; allowed: to"),
        (b'{"to": "orders"}', "bad-redirect", "'orders' cannot be redirected to itself"),
        (b'{"to": ""}', "bad-redirect", f"a service's name of 0 bytes, 1..{MAX_NAME_BYTES} are allowed"),
    ],
)
async def test_a_redirect_that_cannot_be_is_400(net: Net, data: bytes, code: str, detail: str) -> None:
    status, said = await change(net, "b1", "PUT", GREEN, data)
    assert (status, said[0], said[1][: len(detail)]) == (400, code, detail)
    assert net.worlds["b1"].core.cluster.redirects == {}


async def test_a_service_that_is_not_redirected_is_404(net: Net) -> None:
    problem = ("no-such-redirect", "the service 'orders' is not redirected")
    assert await change(net, "b1", "DELETE", GREEN) == (404, problem)


async def test_one_redirect_too_many_is_409(net: Net) -> None:
    for number in range(MAX_REDIRECTS):
        net.worlds["b1"].core.cluster.set_redirect(f"s{number}", "green", net.now)
    status, (code, detail) = await change(net, "b1", "PUT", GREEN, b'{"to": "green"}')
    assert (status, code, detail) == (
        409,
        "over-limit",
        f"{MAX_REDIRECTS} redirects are set, the limit is {MAX_REDIRECTS}",
    )


async def test_redirects_are_changes_and_guarded_as_these_are(net: Net) -> None:
    admin = FakeAdmin(net.worlds["b1"])
    admin.config = Config(admin=AdminOptions(changes="off"))
    async with TestClient(TestServer(make_app(admin))) as client:
        for method in ("PUT", "DELETE"):
            async with client.request(method, GREEN, data=b'{"to": "green"}') as answer:
                assert (answer.status, (await answer.json(content_type=None))["code"]) == (403, "not-allowed")
    async with at(net, "b1") as client:
        async with client.put(GREEN, data=b'{"to": "green"}', headers={"Origin": "http://127.0.0.1:7070"}) as answer:
            assert answer.status == 403
        async with client.put(f"{GREEN}?to=green") as answer:
            assert answer.status == 400
        async with client.get(GREEN) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "DELETE, PUT")
    assert net.worlds["b1"].core.cluster.redirects == {}


# Metrics


async def test_what_is_between_brokers_in_numbers(net: Net) -> None:
    world = net.worlds["b3"]
    cluster, hops = world.core.cluster, world.core.engine.annotations
    came(net, "b3", "b1", "b2", times=3)
    came(net, "b3", "b2", times=2)
    came(net, "b3", *(f"x{number}" for number in range(20)))
    hops.refuse("loop", "tcp b2:7000", "b1>b2>b1")
    hops.refuse("from-client", "tcp 127.0.0.1:1", "")
    hops.refuse("from-client", "tcp 127.0.0.1:1", "")
    hops.retried_n = 7
    cluster.digest_mismatches = 4
    cluster.replication.unsaid_n = 6
    cluster.refused["bad-broker"] = 5
    link = net.link("b3", "b2").peer.link
    assert link is not None
    link.lag_us = 2_500
    found = await samples(FakeAdmin(world), "broker_")
    bounds = [*HOP_BOUNDS, "+Inf"]
    assert [found[f'broker_request_hops_bucket{{le="{bound}"}}'] for bound in bounds] == [2, 5, 5, 5, 5, 5, 5, 5, 6]
    names = (
        "link",
        "cluster",
        "remote",
        "request_hops_",
        "loops",
        "annotations",
        "retries",
        "digest",
        "adverts",
        "handsh",
        "routes_unsaid",
    )
    shown = {name: value for name, value in found.items() if name.removeprefix("broker_").startswith(names)}
    assert {name: value for name, value in shown.items() if "_bucket" not in name} == {
        'broker_links{state="handshake"}': 0,
        'broker_links{state="up"}': 1,
        'broker_link_lag_seconds{broker="b2"}': 0.0025,
        'broker_cluster_brokers{state="reachable"}': 3,
        'broker_cluster_brokers{state="draining"}': 0,
        'broker_cluster_brokers{state="unreachable"}': 0,
        "broker_remote_routes": 2,
        "broker_request_hops_count": 6,
        "broker_request_hops_sum": 3 * 2 + 2 * 1 + 20,
        "broker_loops_refused_total": 1,
        'broker_annotations_refused_total{reason="loop"}': 1,
        'broker_annotations_refused_total{reason="from-client"}': 2,
        "broker_retries_total": 7,
        "broker_digest_mismatches_total": 4,
        'broker_adverts_total{result="applied"}': cluster.adverts_applied,
        'broker_adverts_total{result="ignored"}': cluster.adverts_ignored,
        "broker_routes_unsaid_total": 6,
        'broker_handshakes_refused_total{word="bad-broker"}': 5,
    }
    assert cluster.adverts_applied >= 2  # the routes of b1 and b2
