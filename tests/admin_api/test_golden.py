"""What every view, every list of `ctl` and every metric says of one broker in the middle of a cluster.

The golden files beside this one are the law for names, order and values of fields, columns and metrics;
`pytest --write-golden tests/admin_api/test_golden.py` writes them anew.
"""

from __future__ import annotations

import pytest

from admin_api.ctl.commands import ctl
from admin_api.endpoints import ENDPOINTS, EVENTS
from admin_api.openapi import ROOT
from broker import VERSION
from broker.views import queries
from broker.views.schemas import DialView
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.wire.tags import Tag
from tests.admin_api.asking import api_of, get, said
from tests.admin_api.fakes import PIPE_STATE, FakeAdmin, came, islands
from tests.admin_api.feed import FakeFeed
from tests.admin_api.gateway import FakeGateway
from tests.fakes import address, route_id
from tests.golden import Golden

ORDERS = "00000000-0000-0000-0000-000000000004"
FAR = "00000000-0000-0000-0000-000000000003"  # at b3
# What is asked for, of paths with a part to fill in and of lists that are long.
ASKED = {
    "/api/v1/routes": "/api/v1/routes?broker=b2&broker=b3&service=orders",
    "/api/v1/routes/{id:[^/]+}": f"/api/v1/routes/{FAR}",
    "/api/v1/services/{name:.+}": "/api/v1/services/orders?limit=1&offset=3",
    "/api/v1/connections": "/api/v1/connections?limit=2&offset=3",
    "/api/v1/connections/{id:[^/]+}": "/api/v1/connections/1",
    "/api/v1/samwise/messages": "/api/v1/samwise/messages?state=dead&limit=1",
    "/api/v1/feed/{folder:[^/]+}/posts": "/api/v1/feed/data/posts",
}
LIMITS = "/api/v1/limits"  # long: see `test_app`
DOCUMENT = "/api/v1/openapi.json"  # made of what other tests hold: see `test_openapi`
VIEWS = [
    endpoint.path
    for endpoint in ENDPOINTS
    if endpoint.path.startswith(f"{ROOT}/") and not endpoint.path.startswith((EVENTS, LIMITS, DOCUMENT))
]
CHANGES = {"drain", "undrain", "redirect", "unredirect", "revoke", "unrevoke", "close"}
GROUPS = {"samwise", "feed"}
OF_ONE = {"route", "service", "limits"}  # the limits are long: see `test_commands`
LISTS = [[name] for name in sorted(ctl.commands.keys() - CHANGES - GROUPS - OF_ONE)]
LISTS += [["route", FAR], ["service", "orders"], ["traffic", "--service", "orders"]]
LISTS += [["connections", "--closed"], ["samwise", "status"], ["samwise", "messages", "--dead"]]
LISTS += [["feed", "status"], ["feed", "posts", "data"]]


@pytest.fixture
def middle(gateway: FakeGateway, feed: FakeFeed) -> FakeAdmin:
    """Broker b2 of the islands, of which everything can be told: its routes are drained, eaten up by a slow peer or
    gone; requests were answered, wait for an answer, or found no route; some came from other brokers. A Samwise gateway
    and a feed are beside it."""
    net = islands()
    world = net.worlds["b2"]
    orders = world.service("orders", 4, region="eu", canary=None)
    world.service("orders", 5, region="us").lose()
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu"), b"a book")
    asked = next(frame for frame in orders.received() if frame.kind == REQUEST_RESPONSE)
    world.now += 0.003
    orders.answer(asked.stream_id, b"yes")
    caller.request(REQUEST_FNF, 3, address(service="billing"))
    caller.request(REQUEST_RESPONSE, 5, address(service="shipping"))
    caller.request(REQUEST_RESPONSE, 7, address(service="orders", region="eu", canary=None))
    world.core.lifecycle.drains.drain_tag(Tag.of("region", "eu"), 10.0, 30.0, False, world.now)
    world.core.lifecycle.drains.drain_route(route_id(2), 1.5, 0.0, True, world.now)
    world.core.congested(orders.peer)
    world.core.cluster.set_redirect("bills", "billing", world.now)
    world.core.cluster.set_revocation("jwt:orders-7", world.at_ms, world.now)
    world.core.set_revocations({"user:ada": world.at_ms - 1000})
    net.advance(1)
    came(world, "b1", times=3)
    came(world, *(f"x{number}" for number in range(20)))
    hops = world.core.engine.annotations
    hops.refuse("loop", "tcp b3:7878", "b3>b2>b3")
    hops.retried_n = 7
    world.core.cluster.refused["bad-broker"] = 5
    link = net.link("b2", "b1").peer.link
    assert link is not None
    link.lag_us = 2_500
    admin = FakeAdmin(world)
    admin.unknown = [DialView("dns+tcp://brokers:7878", 3, "name or service not known", 0.7)]
    admin.files = PIPE_STATE
    admin.keep(gateway)
    admin.keep_feed(feed)
    return admin


def named(path: str) -> str:
    """`/api/v1/services/{name:.+}`: services-one"""
    return (
        path.removeprefix("/api/v1/")
        .replace("/{id:[^/]+}", "-one")
        .replace("/{name:.+}", "-one")
        .replace("/{folder:[^/]+}", "")
        .replace("/", "-")
    )


@pytest.mark.parametrize("path", VIEWS)
async def test_a_view_is_as_it_was(golden: Golden, middle: FakeAdmin, path: str) -> None:
    async with api_of(middle) as client:
        body = await get(client, ASKED.get(path, path))
    if "config" in body:
        assert (body.pop("version"), body.pop("core")) == (VERSION, queries.CORE)
        assert body.pop("config")["server"]["listen"] == ["tcp://127.0.0.1:7878", "ws://127.0.0.1:7879"]
    golden.check_json(f"{named(path)}.json", body)


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
async def test_a_list_of_ctl_is_as_it_was(golden: Golden, middle: FakeAdmin, command: list[str]) -> None:
    async with api_of(middle) as client:
        shown = await said(*command, "--admin", str(client.make_url("")), columns=160)
    text = shown.replace(f"{VERSION}, core: {queries.CORE}", "(version), core: (core)")
    name = "-".join(["ctl", *(word.strip("-") for word in command)])
    golden.check(f"{name}.txt", "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


async def test_metrics_are_as_they_were(golden: Golden, middle: FakeAdmin) -> None:
    """Without the buckets of durations, which other tests hold."""
    async with api_of(middle) as client, client.get("/metrics") as answer:
        text = (await answer.text()).replace(VERSION, "(version)").replace(queries.CORE, "(core)")
    lines = [
        line
        for line in text.splitlines()
        if line.startswith(("broker_", "samwise_", "feed_")) and "_seconds_bucket" not in line
    ]
    golden.check("metrics.txt", "\n".join([*lines, ""]))
