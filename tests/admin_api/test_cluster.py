"""The REST API, `ctl`, the page and /metrics: what is between brokers, and redirects."""

import json
from typing import Any

import pytest

from broker.cluster.redirects import MAX_REDIRECTS
from broker.forwarding.interbroker.annotations import MAX_PATHS
from broker.views.schemas import DialView
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE
from rsocket_wire.wire.frames import MAX_NAME_BYTES
from tests.admin_api import asking
from tests.admin_api.asking import Api, api_of, squeezed
from tests.admin_api.fakes import FakeAdmin, came, islands
from tests.admin_api.test_metrics import samples
from tests.fakes import address
from tests.topology import Net

ORDERS_3 = "00000000-0000-0000-0000-000000000003"
B = "00000000-0000-0000-0000-0000000000b"


@pytest.fixture
def net() -> Net:
    return islands()


def at(net: Net, name: str) -> Api:
    """The admin API of one broker."""
    return api_of(FakeAdmin(net.worlds[name]))


async def get(net: Net, name: str, path: str) -> Any:
    async with at(net, name) as api:
        return await asking.get(api, path)


async def change(net: Net, name: str, method: str, path: str, **said: object) -> Any:
    async with at(net, name) as api:
        body = await asking.change(api, method, path, **said)
    net.pump()
    return body


async def refusal(net: Net, method: str, path: str, data: bytes | None = None) -> tuple[int, str, str]:
    """Of b1."""
    async with at(net, "b1") as api:
        return await asking.refusal(api, method, path, data=data)


async def say(net: Net, name: str, *arguments: str) -> list[str]:
    """The lines of a `ctl` command."""
    async with at(net, name) as api:
        return squeezed(await asking.said(*arguments, "--admin", str(api.make_url(""))))


# Brokers and links


async def test_a_part_of_the_brokers(net: Net) -> None:
    body = await get(net, "b2", "/api/v1/brokers?limit=1&offset=1")
    assert ([each["name"] for each in body["items"]], body["total"], body["offset"], body["limit"]) == (["b1"], 3, 1, 1)


async def test_a_broker_that_is_gone_has_no_way_and_no_routes(net: Net) -> None:
    net.kill("b3")
    body = await get(net, "b1", "/api/v1/brokers?offset=2")
    gone = body["items"][0]
    shown = (gone["name"], gone["state"], gone["hops"], gone["cost"], gone["next_hop"], gone["routes"])
    assert shown == ("b3", "unreachable", None, None, "", 0)
    assert (await say(net, "b1", "brokers"))[-1] == f"b3 unreachable - - - 0 {B}3 tcp://b3:7878"
    assert (await samples(FakeAdmin(net.worlds["b1"]), "broker_cluster_brokers")) == {
        'broker_cluster_brokers{state="reachable"}': 2,
        'broker_cluster_brokers{state="draining"}': 0,
        'broker_cluster_brokers{state="unreachable"}': 1,
    }


async def test_a_broker_that_is_about_to_leave_is_draining(net: Net) -> None:
    net.worlds["b2"].core.lifecycle.drains.drain_broker(10, 10, False, net.now)
    net.advance(0.5)
    body = await get(net, "b1", "/api/v1/brokers")
    assert [each["state"] for each in body["items"]] == ["reachable", "draining", "reachable"]


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


async def test_the_page_shows_brokers_links_and_dials_that_fail(net: Net) -> None:
    link = net.link("b2", "b1").peer.link
    assert link is not None
    link.lag_us = 2_500
    admin = FakeAdmin(net.worlds["b2"])
    admin.unknown = [DialView("dns+tcp://brokers:7878", 3, "name or service not known", 0.7)]
    async with api_of(admin) as client, client.get("/") as answer:
        page = await answer.text()
    assert "<td>b2, 3 of 3 brokers reachable, 2 of 2 links up</td>" in page
    assert "<tr><td>b3</td><td>reachable</td><td>1 hop by way of b3</td><td>1 route</td></tr>" in page
    assert "<tr><td>b1</td><td>up</td><td>3 s</td><td>2.5 ms round trip</td></tr>" in page
    assert "<tr><td>tcp://b9:7878</td><td>4 times</td><td>connection refused</td></tr>" in page
    assert "<tr><td>dns+tcp://brokers:7878</td><td>3 times</td><td>name or service not known</td></tr>" in page


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


async def test_a_route_of_another_broker_is_drained_for_the_requests_of_this_one(net: Net) -> None:
    assert await say(net, "b1", "drain", "route", ORDERS_3) == [
        f"the route {ORDERS_3} is drained: 1 routes; 0 connections are closed within 40 s"
    ]
    assert (await get(net, "b1", f"/api/v1/routes/{ORDERS_3}"))["states"] == ["draining"]
    assert (await get(net, "b1", "/api/v1/drains"))["items"][0]["routes"] == 1
    assert len(await say(net, "b1", "undrain", "route", ORDERS_3)) == 1


async def test_a_drain_of_the_broker_concerns_its_own_routes(net: Net) -> None:
    assert (await change(net, "b1", "PUT", "/api/v1/drains/broker"))["routes"] == 1


# Paths


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
        came(net.worlds["b3"], f"x{number}")
    body = await get(net, "b3", f"/api/v1/paths?limit=10&offset={MAX_PATHS}")
    assert (body["items"], body["total"]) == (
        [{"ingress": "", "way": [], "hops": 0, "requests": 2, "idle_s": 0.0}],
        MAX_PATHS + 1,
    )
    assert (await say(net, "b3", "paths"))[-1] == "(other) - 2 0.0 s ago"


# Redirects

GREEN = "/api/v1/redirects/orders"


async def test_a_redirect_is_set_at_one_broker_and_holds_at_all_of_them(net: Net) -> None:
    body = await change(net, "b1", "PUT", GREEN, to="green")
    assert (body["service"], body["to"], body["broker"]) == ("orders", "green", "b1")
    net.advance(0.5)
    (listed,) = (await get(net, "b3", "/api/v1/redirects"))["items"]
    assert listed == {**body, "age_s": listed["age_s"]}
    assert await say(net, "b3", "redirects") == ["service to age set at", "orders green 0.5 s b1"]
    assert (await change(net, "b3", "DELETE", GREEN))["to"] == "green"
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
        (b"", "bad-body", 'the body is not JSON, such as {"to": "orders-2"}: '),
        (b"[]", "bad-body", "the body must be a JSON object, not []"),
        (b"{}", "bad-body", 'the body needs the field "to"'),
        (b'{"to": 7}', "bad-body", "to must be the name of a service, not 7"),
        (b'{"to": "green", "weight": 1}', "bad-body", "unknown field 'weight'; allowed: to"),
        (b'{"to": "orders"}', "bad-redirect", "'orders' cannot be redirected to itself"),
        (b'{"to": ""}', "bad-redirect", f"a service's name of 0 bytes, 1..{MAX_NAME_BYTES} are allowed"),
    ],
)
async def test_a_redirect_that_cannot_be_is_400(net: Net, data: bytes, code: str, detail: str) -> None:
    status, said, why = await refusal(net, "PUT", GREEN, data)
    assert (status, said, why[: len(detail)]) == (400, code, detail)
    assert net.worlds["b1"].core.cluster.redirects == {}


async def test_a_service_that_is_not_redirected_is_404(net: Net) -> None:
    told = (404, "no-such-redirect", "the service 'orders' is not redirected; /api/v1/redirects lists all")
    assert await refusal(net, "DELETE", GREEN) == told


async def test_one_redirect_too_many_is_409(net: Net) -> None:
    for number in range(MAX_REDIRECTS):
        net.worlds["b1"].core.cluster.set_redirect(f"s{number}", "green", net.now)
    detail = f"{MAX_REDIRECTS} redirects are set, the limit is {MAX_REDIRECTS}"
    assert await refusal(net, "PUT", GREEN, b'{"to": "green"}') == (409, "over-limit", detail)


# Revocations

ORDERS = "/api/v1/revocations/certificate:spiffe%3A%2F%2Facme%2Forders%207"


async def test_credentials_are_revoked_at_one_broker_and_hold_at_none(net: Net) -> None:
    body = await change(net, "b1", "PUT", ORDERS, before_ms=1_700_000_000_000)
    set_at_ms, broker_id = body.pop("set_at_ms"), body.pop("broker_id")
    who = "certificate:spiffe://acme/orders 7"
    assert body == {"principal": who, "is_of_file": False, "before_ms": 1_700_000_000_000, "broker": "b1"}
    net.worlds["b3"].core.set_revocations({"jwt:ada": 1_800_000_000_000})
    net.advance(0.5)
    listed = (await get(net, "b3", "/api/v1/revocations"))["items"]
    assert [(each["principal"], each["is_of_file"], each["broker"]) for each in listed] == [
        (who, False, "b1"),
        ("jwt:ada", True, ""),
    ]
    assert (listed[0]["set_at_ms"], listed[0]["broker_id"]) == (set_at_ms, broker_id)
    assert await say(net, "b3", "revocations") == [
        "identity issued before set at",
        f"{who} 2023-11-14 22:13:20 b1",
        "jwt:ada 2027-01-15 08:00:00 the file",
    ]
    assert (await change(net, "b3", "DELETE", ORDERS))["principal"] == who
    net.advance(0.5)
    assert await say(net, "b1", "revocations") == ["nothing is revoked"]


async def test_credentials_are_revoked_from_the_terminal(net: Net) -> None:
    before = ("--before", "2026-03-01T08:30:00Z")
    said = "credentials of jwt:ada issued before 2026-03-01 08:30:00 are revoked"
    assert await say(net, "b1", "revoke", "jwt:ada", *before) == [said]
    assert json.loads("".join(await say(net, "b1", "revoke", "user:bob", "--json")))["before_ms"] > 1_700_000_000_000
    assert await say(net, "b1", "unrevoke", "jwt:ada") == ["credentials of jwt:ada hold again"]
    assert list(net.worlds["b1"].core.cluster.revocations.by_principal) == ["user:bob"]


async def test_what_cannot_be_revoked_is_400_and_what_is_not_404(net: Net) -> None:
    path = "/api/v1/revocations/ada"
    told = "'ada' is no identity of at most 1024 bytes, as user:ada or jwt:orders-7"
    assert await refusal(net, "PUT", path) == (400, "bad-revocation", told)
    told = 'before_ms must be milliseconds since the epoch, not "now"'
    assert await refusal(net, "PUT", path, b'{"before_ms": "now"}') == (400, "bad-body", told)
    assert await refusal(net, "DELETE", path) == (404, "no-such-revocation", "nothing of 'ada' is revoked here")
