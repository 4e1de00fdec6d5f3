"""The REST API: what it changes, who may, and how it refuses."""

import asyncio
from typing import Literal

import pytest
from aiohttp.test_utils import make_mocked_request

from admin_api.bodies import MAX_BODY_BYTES
from admin_api.changes import CHANGES, check_allowed
from admin_api.errors import AdminError
from broker.config.hosts import is_local
from broker.config.options import Config
from broker.config.sections.process import AdminOptions, ServerOptions
from broker.connections.drains import MAX_DRAINS
from broker.routing.table import Route
from rsocket_wire.errors import CONNECTION_CLOSE
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import Tag
from tests.admin_api.asking import Api, change, refusal
from tests.admin_api.fakes import FakeAdmin, shop
from tests.fakes import START_MS, composite, error, route_id

ORDERS_EU = "00000000-0000-0000-0000-000000000001"
NOBODY = "00000000-0000-0000-0000-0000000000ff"
ROUTE = f"/api/v1/routes/{ORDERS_EU}/drain"
EU = "/api/v1/drains/tags/region/eu"
BROKER = "/api/v1/drains/broker"


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin(shop())


async def drained(client: Api) -> list[tuple[str, str]]:
    """Kind and name of what is drained."""
    async with client.get("/api/v1/drains") as answer:
        return [(each["kind"], each["name"]) for each in (await answer.json())["items"]]


def draining(admin: FakeAdmin) -> list[int]:
    """The numbers of the routes that get no new requests."""
    table = admin.core.table
    return [table.route_at(slot).id[-1] for slot in table.masks.draining.to_list()]


# Drains


async def test_a_drained_route_gets_no_new_requests_until_it_is_undrained(admin: FakeAdmin, client: Api) -> None:
    shown = await change(client, "PUT", ROUTE, grace_s=1.5, spread_s=60)
    keys = ("kind", "name", "began_at_ms", "grace_s", "spread_s", "close", "routes", "connections_left")
    assert [shown[key] for key in keys] == ["route", ORDERS_EU, START_MS + 7000, 1.5, 60.0, True, 1, 1]
    assert draining(admin) == [1]
    admin.world.now += 2
    assert await change(client, "DELETE", ROUTE) == {**shown, "age_s": 2.0}
    assert (draining(admin), await drained(client)) == ([], [])


async def test_a_drain_is_as_configured_unless_it_is_said_otherwise(admin: FakeAdmin, client: Api) -> None:
    admin.config = Config(server=ServerOptions(drain_grace_s=3, drain_spread_s=4))
    body = await change(client, "PUT", ROUTE)
    assert (body["grace_s"], body["spread_s"], body["close"]) == (3.0, 4.0, True)
    body = await change(client, "PUT", ROUTE, close=False)
    assert (body["grace_s"], body["spread_s"], body["close"], body["connections_left"]) == (3.0, 4.0, False, 0)
    assert await drained(client) == [("route", ORDERS_EU)]


async def test_a_drained_tag_concerns_routes_that_write_its_key_as_a_text_too(admin: FakeAdmin, client: Api) -> None:
    """As the filters of /api/v1/routes find them."""
    raw = RouteSetup(route_id(4), "orders", [Tag(Key.text("region"), b"eu")]).encode()
    admin.world.caller().push(composite((MIME_TYPE, raw)))
    assert (await change(client, "PUT", EU))["routes"] == 3
    assert draining(admin) == [1, 3, 4]
    await change(client, "DELETE", "/api/v1/drains/tags/io.rsocket.routing.Region/eu")
    assert draining(admin) == []


@pytest.mark.parametrize(
    "path, name, routes",
    [
        ("Region/eu", "region=eu", 2),
        ("io.rsocket.routing.Region/eu", "region=eu", 2),
        ("service/billing", "service=billing", 1),
        (f"route_id/Id%7B{ORDERS_EU}%7D", f"route_id={ORDERS_EU}", 1),
        ("canary/", "canary", 1),
        ("path/a%2Fb", "path=a/b", 0),
        ("path/a/b", "path=a/b", 0),
        ("gr%C3%BC%C3%9Fe/=%20", "grüße== ", 0),
    ],
)
async def test_a_tag_may_have_any_key_and_value(client: Api, path: str, name: str, routes: int) -> None:
    body = await change(client, "PUT", f"/api/v1/drains/tags/{path}")
    assert (body["name"], body["routes"]) == (name, routes)
    assert await change(client, "DELETE", f"/api/v1/drains/tags/{path}") == body


async def test_a_drained_broker_is_not_ready(client: Api) -> None:
    await change(client, "PUT", BROKER)
    assert await refusal(client, "GET", "/readyz") == (503, "not-ready", "the broker is draining")
    async with client.get("/api/v1/status") as answer:
        assert (await answer.json())["state"] == "draining"
    async with client.get("/metrics") as answer:
        assert "broker_ready 0.0\n" in await answer.text()
    await change(client, "DELETE", BROKER)
    assert await change(client, "GET", "/readyz") == {"status": "ready"}


async def test_what_is_not_drained_cannot_be_undrained(client: Api) -> None:
    await change(client, "PUT", EU)
    for path in (ROUTE, BROKER, "/api/v1/drains/tags/region/us"):
        assert (await refusal(client, "DELETE", path))[:2] == (404, "no-such-drain")
    assert await drained(client) == [("tag", "region=eu")]


async def test_a_route_id_that_is_none_is_404(client: Api) -> None:
    for method in ("PUT", "DELETE"):
        refused = await refusal(client, method, "/api/v1/routes/orders/drain")
        text = "orders is not a Route Id; /api/v1/routes?service=orders lists the routes of a service"
        assert refused == (404, "no-such-route", text)


async def test_a_tag_that_cannot_be_is_400(client: Api) -> None:
    status, code, detail = await refusal(client, "PUT", f"/api/v1/drains/tags/{'k' * 128}/x")
    assert (status, code, detail.partition(":")[0]) == (400, "bad-filter", "k" * 128)


async def test_there_are_not_more_drains_than_the_limit(admin: FakeAdmin, client: Api) -> None:
    for number in range(MAX_DRAINS):
        admin.core.lifecycle.drains.drain_tag(Tag.of("n", str(number)), 0, 0, False, admin.world.now)
    assert await change(client, "PUT", "/api/v1/drains/tags/n/0")  # is drained already
    detail = f"{MAX_DRAINS} drains are there already, end some of them first"
    assert await refusal(client, "PUT", EU) == (409, "over-limit", detail)


# Bodies


@pytest.mark.parametrize(
    "body, detail",
    [
        (b"[1]", "the body must be a JSON object, not [1]"),
        (b"7", "the body must be a JSON object, not 7"),
        (b'{"grace": 1}', "unknown field 'grace'; allowed: grace_s, spread_s, close"),
        (b'{"grace_s": "1"}', 'grace_s must be a number from 0 to 3600, not "1"'),
        (b'{"grace_s": true}', "grace_s must be a number from 0 to 3600, not true"),
        (b'{"grace_s": null}', "grace_s must be a number from 0 to 3600, not null"),
        (b'{"spread_s": -0.1}', "spread_s must be a number from 0 to 3600, not -0.1"),
        (b'{"spread_s": 3601}', "spread_s must be a number from 0 to 3600, not 3601"),
        (b'{"close": 1}', "close must be true or false, not 1"),
    ],
)
async def test_a_wrong_body_is_400_and_says_what_is_wrong(client: Api, body: bytes, detail: str) -> None:
    for path in (ROUTE, EU, BROKER):
        assert await refusal(client, "PUT", path, data=body) == (400, "bad-body", detail)
    assert await drained(client) == []


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"grace_s": NaN}', b'{"grace_s": 1e999}'])
async def test_a_body_that_is_no_json_is_400(client: Api, body: bytes) -> None:
    status, code, detail = await refusal(client, "PUT", EU, data=body)
    assert (status, code, detail.partition(":")[0]) == (
        400,
        "bad-body",
        'the body is not JSON, such as {"spread_s"',
    )


async def test_a_body_has_a_largest_size(client: Api) -> None:
    def body(size: int) -> bytes:
        return b"{" + b" " * (size - 2) + b"}"

    too_large = (413, "bad-request", f"the body is too large: at most {MAX_BODY_BYTES} bytes")
    assert await refusal(client, "PUT", EU, data=body(MAX_BODY_BYTES + 1)) == too_large
    async with client.put(EU, data=body(MAX_BODY_BYTES)) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("seconds", [0, 3600])
async def test_both_ends_of_a_range_are_in_it(client: Api, seconds: int) -> None:
    body = await change(client, "PUT", EU, grace_s=seconds, spread_s=seconds)
    assert (body["grace_s"], body["spread_s"]) == (seconds, seconds)


# Connections


async def test_a_connection_is_closed_and_told_why(admin: FakeAdmin, client: Api) -> None:
    wire = admin.world.wires[2]
    body = await change(client, "DELETE", "/api/v1/connections/2")
    assert (body["connection_id"], body["reason"], body["detail"], body["service"]) == (
        2,
        "closed-by-operator",
        "an operator closed the connection",
        "orders",
    )
    assert wire.received() == [error(0, CONNECTION_CLOSE, "closed-by-operator: an operator closed the connection")]
    assert wire.is_closed
    assert (await refusal(client, "DELETE", "/api/v1/connections/2"))[:2] == (404, "no-such-connection")


@pytest.mark.parametrize("id", ["99", "0", "-1", "two", "%D9%A1", "9" * 5000])
async def test_a_connection_that_is_not_there_is_404(client: Api, id: str) -> None:
    assert (await refusal(client, "DELETE", f"/api/v1/connections/{id}"))[:2] == (404, "no-such-connection")


# Who may


def paths() -> list[tuple[str, str]]:
    """Every change, of something that could be changed."""
    fitting = {"{id:[^/]+}": "1", "{key:[^/]+}": "region", "{value:.*}": "eu", "{service:.+}": "orders"}
    found = []
    for each in CHANGES:
        path = each.operation.path.replace("/routes/{id:[^/]+}", f"/routes/{ORDERS_EU}")
        for part, value in fitting.items():
            path = path.replace(part, value)
        found.append((each.operation.method, path))
    return found


async def refused_everywhere(
    admin: FakeAdmin, client: Api, headers: dict[str, str] | None = None
) -> set[tuple[int, str, str]]:
    """What each change is told; nothing has changed."""
    admin.core.lifecycle.drains.drain_route(route_id(1), 9, 9, False, admin.world.now)
    generation, drains = admin.core.table.masks.generation, await drained(client)
    told = {await refusal(client, method, path, headers=headers) for method, path in paths()}
    assert (admin.core.table.masks.generation, await drained(client)) == (generation, drains)
    assert (admin.core.lifecycle.limits.closed.latest, admin.core.cluster.redirects) == ([], {})
    return told


async def test_no_page_in_a_browser_may_change_anything(admin: FakeAdmin, client: Api) -> None:
    for origin in ("https://evil.example", f"http://127.0.0.1:{client.port}", "null"):
        assert await refused_everywhere(admin, client, {"Origin": origin}) == {
            (403, "not-allowed", "pages in a browser may not change anything")
        }


async def test_changes_can_be_switched_off(admin: FakeAdmin, client: Api) -> None:
    admin.config = Config(admin=AdminOptions(changes="off"))
    assert await refused_everywhere(admin, client) == {(403, "not-allowed", "changes are switched off (admin.changes)")}


@pytest.mark.parametrize(("who", "is_allowed"), [("local", False), ("all", True)])
def test_others_may_change_something_only_when_all_may(who: Literal["local", "all"], is_allowed: bool) -> None:
    """`refused_everywhere` shows that every change asks."""
    elsewhere = asyncio.Transport({"peername": ("10.0.0.4", 5123)})
    request = make_mocked_request("PUT", EU, transport=elsewhere)
    config = Config(admin=AdminOptions(changes=who))
    if is_allowed:
        check_allowed(request, config, is_stopping=False)
    else:
        with pytest.raises(AdminError, match="not-allowed: only programs on the broker's machine may change anything"):
            check_allowed(request, config, is_stopping=False)


@pytest.mark.parametrize(
    "remote, expected",
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.4", False),
        ("10.0.0.4", False),
        ("0.0.0.0", False),
        ("localhost", False),
        ("", False),
        (None, False),
    ],
)
def test_local_are_the_addresses_of_this_machine_alone(remote: str | None, expected: bool) -> None:
    assert is_local(remote) is expected


async def test_nothing_is_changed_while_the_broker_stops(admin: FakeAdmin, client: Api) -> None:
    """Above all, a broker that stops is not undrained."""
    admin.is_stopping = True
    assert await refused_everywhere(admin, client) == {(503, "not-ready", "the broker is stopping")}


async def test_changes_take_no_parameters(client: Api) -> None:
    for method, path in paths():
        assert (await refusal(client, method, f"{path}?grace_s=1"))[:2] == (400, "bad-parameter")


async def test_nothing_is_changed_by_a_method_that_any_page_can_use(admin: FakeAdmin, client: Api) -> None:
    for path in {path for _, path in paths()}:
        looked_at = {"GET", "HEAD"} if path.startswith("/api/v1/connections/") else set()
        allowed = ", ".join(sorted({method for method, each in paths() if each == path} | looked_at))
        for method in {"GET", "HEAD", "POST"} - looked_at:
            async with client.request(method, path) as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, allowed), (method, path)
    assert isinstance(admin.world.wires[1].peer.route, Route)
    assert await drained(client) == []
