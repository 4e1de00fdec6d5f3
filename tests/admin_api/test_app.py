"""The REST API: what each path answers, and how it refuses."""

import base64
import hashlib
import json
import logging
import socket

import pytest
from aiohttp import ClientSession

from admin_api.app import make_app, start_admin
from admin_api.endpoints import ENDPOINTS, EVENTS
from admin_api.errors import READ_ONLY
from admin_api.parameters import Word
from broker.config.options import Config
from broker.config.sections.limits import LimitOptions
from broker.config.sections.process import BrokerOptions, ServerOptions
from rsocket_wire.wire.tags import Tag
from tests.admin_api.asking import Api, api_of, get, problem
from tests.admin_api.fakes import FakeAdmin
from tests.admin_api.feed import FakeFeed
from tests.admin_api.gateway import FakeGateway
from tests.fakes import World

ORDERS_EU = "00000000-0000-0000-0000-000000000001"
NOBODY = "00000000-0000-0000-0000-0000000000ff"


# Health


@pytest.mark.parametrize("host", ["127.0.0.1:7070", "localhost", "broker:7070", "[::1]:7070", "a.shop.example"])
async def test_a_broker_is_asked_by_its_names(admin: FakeAdmin, host: str) -> None:
    admin.config = Config(server=ServerOptions(names=("a.shop.example", "broker")))
    async with api_of(admin) as client, client.get("/livez", headers={"Host": host}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1/status", "/nothing/is/here"])
async def test_who_asks_for_another_host_is_told_nothing(client: Api, path: str) -> None:
    async with client.get(path, headers={"Host": "evil.example:7070"}) as answer:
        body = await answer.json()
    assert (answer.status, body["code"]) == (421, "wrong-host")
    assert body["detail"] == "evil.example:7070 is not a name of this broker; add it to server.names"


@pytest.mark.parametrize(
    "is_ready, is_stopping, state", [(False, False, "starting"), (True, True, "stopping"), (False, True, "stopping")]
)
async def test_readyz_is_503_with_the_reason_while_starting_or_stopping(
    admin: FakeAdmin, client: Api, is_ready: bool, is_stopping: bool, state: str
) -> None:
    admin.is_ready, admin.is_stopping = is_ready, is_stopping
    body = await problem(client, "/readyz")
    assert (body["status"], body["code"], body["detail"]) == (503, "not-ready", f"the broker is {state}")
    assert [reason.partition(":")[0] for reason in body["reasons"]] == [state]
    assert await get(client, "/livez") == {"status": "live"}


# Routes


@pytest.mark.parametrize(
    "query, found",
    [
        ("tag.region=eu&service=orders&tag.zone=a", [1]),
        ("service=orders", [1, 2]),
        ("tag.service=orders", [1, 2]),
        ("tag.io.rsocket.routing.ServiceName=billing", [3]),
        ("tag.Region=eu", [1, 3]),
        ("tag.io.rsocket.broker.Region=us", [2]),
        ("service=orders&service=billing&tag.region=eu", [1, 3]),
        ("tag.region=eu&tag.region=us", [1, 2, 3]),
        (f"tag.route_id=Id{{{ORDERS_EU}}}", [1]),
        ("tag.canary", [3]),
        ("tag.region=mars", []),
        ("service=%C3%A4%20%2F", []),
        ("limit=1&offset=1", [2]),
        ("service=orders&offset=5", []),
    ],
)
async def test_routes_are_filtered_by_any_tags(client: Api, query: str, found: list[int]) -> None:
    body = await get(client, f"/api/v1/routes?{query}")
    assert [int(route["route_id"][-2:], 16) for route in body["items"]] == found


@pytest.mark.parametrize(
    "id", [ORDERS_EU, f"Id{{{ORDERS_EU}}}", f"Id%7B{ORDERS_EU}%7D", ORDERS_EU.replace("-", ""), ORDERS_EU.upper()]
)
async def test_a_route_by_its_id_as_any_program_writes_it(client: Api, id: str) -> None:
    assert (await get(client, f"/api/v1/routes/{id}"))["route_id"] == ORDERS_EU


@pytest.mark.parametrize("id", [NOBODY, "orders", "%00"])
async def test_an_unknown_route_is_404(client: Api, id: str) -> None:
    body = await problem(client, f"/api/v1/routes/{id}")
    assert (body["status"], body["code"]) == (404, "no-such-route")
    assert "\0" not in body["detail"]


# Services, connections, traffic


@pytest.mark.parametrize("name, path", [("a/b", "a%2Fb"), ("a/b", "a/b"), ("grüße ?", "gr%C3%BC%C3%9Fe%20%3F")])
async def test_a_service_may_have_any_name(admin: FakeAdmin, client: Api, name: str, path: str) -> None:
    admin.world.service(name, 9)
    assert (await get(client, f"/api/v1/services/{path}"))["service"]["service"] == name


async def test_an_unknown_service_is_404(client: Api) -> None:
    body = await problem(client, "/api/v1/services/shipping")
    assert (body["status"], body["code"]) == (404, "no-such-service")
    assert body["detail"] == "no route offers the service 'shipping'; /api/v1/services lists all"


async def test_a_service_with_a_slip_in_its_name_is_404_and_proposed(admin: FakeAdmin, client: Api) -> None:
    admin.world.service("orders", 9)
    body = await problem(client, "/api/v1/services/order")
    assert body["detail"] == "no route offers the service 'order'; did you mean 'orders'?"


async def test_a_service_where_a_route_id_should_be_is_404_and_its_routes_are_shown(client: Api) -> None:
    body = await problem(client, "/api/v1/routes/orders")
    text = "orders is not a Route Id; /api/v1/routes?service=orders lists the routes of a service"
    assert (body["code"], body["detail"]) == ("no-such-route", text)


async def test_a_connection_that_is_not_there_is_404_with_the_list_of_all(client: Api) -> None:
    for number in ("999", "abc"):
        body = await problem(client, f"/api/v1/connections/{number}")
        text = f"no connection has the number {number}; /api/v1/connections lists all"
        assert (body["code"], body["detail"]) == ("no-such-connection", text)


async def test_a_tag_with_an_equals_sign_in_a_path_is_404_and_mended(client: Api) -> None:
    body = await problem(client, "/api/v1/drains/tags/region=eu")
    text = "did you mean /api/v1/drains/tags/region/eu? / lists all paths"
    assert body["detail"] == f"there is no path /api/v1/drains/tags/region=eu; {text}"


@pytest.mark.parametrize(
    "query, found",
    [
        ("service=orders", ["orders"]),
        ("service=orders&service=billing&service=nobody", ["billing", "orders"]),
        ("sort=-service", ["orders", "billing"]),
        ("sort=-requests", ["orders", "billing"]),
        ("sort=requests&limit=1", ["billing"]),
        ("sort=-in_flight&limit=1&offset=1", ["billing"]),
    ],
)
async def test_services_are_searched_and_sorted(client: Api, query: str, found: list[str]) -> None:
    body = await get(client, f"/api/v1/services?{query}")
    assert [each["service"] for each in body["items"]] == found


@pytest.mark.parametrize(
    "query, found",
    [
        ("service=orders", [1, 2]),
        ("transport=tcp", [1, 2, 3, 4]),
        ("state=suspended", []),
        ("principal=jwt:orders-7", []),
        ("service=orders&service=billing&state=open", [1, 2, 3]),
        ("sort=-requests&limit=1", [4]),
        ("sort=-streams_served&service=orders", [1, 2]),
        ("sort=-age_s", [1, 2, 3, 4]),
        ("sort=service&limit=2", [4, 3]),
    ],
)
async def test_connections_are_searched_and_sorted(client: Api, query: str, found: list[int]) -> None:
    body = await get(client, f"/api/v1/connections?{query}")
    assert [each["connection_id"] for each in body["items"]] == found


@pytest.mark.parametrize(
    "query, found",
    [
        ("service=orders", ["orders"]),
        ("outcome=rejected", ["shipping"]),
        ("code=no-route", ["shipping"]),
        ("model=fire_and_forget&routing=unicast", ["billing"]),
        ("sort=-latency_max_us&limit=1", ["orders"]),
        ("sort=service", ["billing", "orders", "shipping"]),
    ],
)
async def test_traffic_is_searched_and_sorted(client: Api, query: str, found: list[str]) -> None:
    body = await get(client, f"/api/v1/traffic?{query}")
    assert [each["service"] for each in body["items"]] == found


@pytest.mark.parametrize("path", ["/api/v1/services", "/api/v1/connections", "/api/v1/traffic"])
async def test_a_list_can_be_sorted_by_each_field_that_it_names(client: Api, path: str) -> None:
    endpoint = next(each for each in ENDPOINTS if each.path == path)
    orders = next(each for each in endpoint.operation.parameters if isinstance(each, Word)).words
    for order in orders:
        items = (await get(client, f"{path}?sort={order}"))["items"]
        values = [each[order.removeprefix("-")] for each in items]
        assert values == sorted(values, reverse=order.startswith("-")), order


@pytest.mark.parametrize(
    "path, detail",
    [
        ("connections?state=opn", "state must be one of connecting, open, suspended, ending, not 'opn'"),
        ("services?sort=age", "sort must be one of service, -service, routes, -routes, "),
        ("traffic?sort=requests&sort=code", "sort must be one of service, "),
        (
            "connections?tag.region=eu",
            "unknown parameter 'tag.region'; routes have tags: /api/v1/routes?tag.region=eu; ",
        ),
        (
            "connections?tag.region:eu",
            "unknown parameter 'tag.region:eu'; routes have tags: /api/v1/routes?tag.region=eu; ",
        ),
        ("redirects?sort=service", "unknown parameter 'sort'; allowed: limit, offset"),
    ],
)
async def test_a_wrong_search_is_400_and_says_what_there_is(client: Api, path: str, detail: str) -> None:
    body = await problem(client, f"/api/v1/{path}")
    assert (body["status"], body["code"]) == (400, "bad-parameter")
    assert body["detail"].startswith(detail)


async def test_a_connection_by_its_number(client: Api) -> None:
    for each in (await get(client, "/api/v1/connections"))["items"]:
        assert await get(client, f"/api/v1/connections/{each['connection_id']}") == each
    for id in ("99", "x", "1e3", "9" * 30):
        body = await problem(client, f"/api/v1/connections/{id}")
        assert (body["status"], body["code"]) == (404, "no-such-connection")


async def test_limits_are_told_with_unit_and_reason(admin: FakeAdmin, client: Api) -> None:
    admin.config = Config(limits=LimitOptions(max_connections=7))
    items = {each["name"]: each for each in (await get(client, "/api/v1/limits"))["items"]}
    assert {name.partition(".")[0] for name in items} == {"protection", "limits"}
    shown = items["limits.max_connections"]
    assert (shown["value"], shown["default"], shown["unit"]) == (7, 50_000, "connections")
    assert shown["takes"] == "a whole number from 1 to 1000000"
    assert all(each["why"].endswith(".") for each in items.values())


# The page


async def test_the_page_has_the_state_and_links_that_work(client: Api) -> None:
    async with client.get("/") as answer:
        assert (answer.status, answer.content_type, answer.charset) == (200, "text/html", "utf-8")
        page = await answer.text()
    assert "eu-1" in page
    assert "3 for 2 services" in page
    links = [part.partition('"')[0] for part in page.split('href="')[1:]]
    assert len(links) == 21
    assert links[:2] == ["/api/v1/services/orders", "/api/v1/services/billing"]  # the busiest first
    for link in links:
        async with client.get(link) as answer:
            assert answer.status == 200, link


async def test_the_page_says_which_routes_are_kept_away_from(admin: FakeAdmin, client: Api) -> None:
    async with client.get("/") as answer:
        assert "<tr><th>excluded</th><td>none</td></tr>" in await answer.text()
    admin.core.lifecycle.drains.drain_tag(Tag.of("region", "eu"), 1, 1, False, admin.world.now)
    admin.core.congested(admin.world.wires[1].peer)
    async with client.get("/") as answer:
        assert "<td>2 draining, 1 congested</td>" in await answer.text()


async def test_the_page_escapes_names(admin: FakeAdmin, client: Api) -> None:
    admin.config = Config(broker=BrokerOptions(name="<script>alert(1)</script>{}"))
    async with client.get("/") as answer:
        page = await answer.text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1/status", "/nothing/is/here"])
async def test_no_script_runs_in_an_answer_and_none_stands_in_a_frame(client: Api, path: str) -> None:
    async with client.get(path) as answer:
        policy, page = answer.headers["Content-Security-Policy"].split("; "), await answer.text()
    styles = [part.partition("</style>")[0] for part in page.split("<style>")[1:]]
    hashes = [base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in styles]
    assert policy[0] == "default-src 'none'"
    assert policy[2:] == ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]
    assert all(policy[1] == f"style-src 'sha256-{each}'" for each in hashes)
    assert len(hashes) == (path == "/")
    assert "style=" not in page


# Refusals


UNKNOWN = "unknown parameter '{}'; write {}; allowed: broker, limit, offset, service, and tag.NAME=VALUE for a tag"


@pytest.mark.parametrize(
    "query, detail",
    [
        ("limit=0", "limit must be one whole number from 1 to 1000, not '0'"),
        ("limit=1001", "limit must be one whole number from 1 to 1000, not '1001'"),
        ("limit=ten", "limit must be one whole number from 1 to 1000, not 'ten'"),
        ("limit=", "limit must be one whole number from 1 to 1000, not ''"),
        ("limit=1&limit=2", "limit must be one whole number from 1 to 1000, not '1' and '2'"),
        ("limit=%D9%A1", "limit must be one whole number from 1 to 1000, not '١'"),
        ("offset=-1", "offset must be one whole number from 0 to 2147483647, not '-1'"),
        ("offset=" + "9" * 5000, f"offset must be one whole number from 0 to 2147483647, not '{'9' * 199}…'"),
        ("region=eu", UNKNOWN.format("region", "tag.region=eu")),
        ("tag=region=eu", UNKNOWN.format("tag", "tag.region=eu")),
        ("tag=region:eu", UNKNOWN.format("tag", "tag.region=eu")),
        ("tags=region:eu", UNKNOWN.format("tags", "tag.region=eu")),
        ("tag.region:eu", UNKNOWN.format("tag.region:eu", "tag.region=eu")),
        ("region:eu", UNKNOWN.format("region:eu", "tag.region=eu")),
        ("service:orders", UNKNOWN.format("service:orders", "service=orders")),
        ("tags.region=eu", UNKNOWN.format("tags.region", "tag.region=eu")),
        ("tag[region]=eu", UNKNOWN.format("tag[region]", "tag.region=eu")),
        ("label=region", UNKNOWN.format("label", "tag.NAME=VALUE")),
        ("Service=x", UNKNOWN.format("Service", "service=x")),
        ("page_size=5", UNKNOWN.format("page_size", "").replace("write ", "did you mean limit?")),
        ("offest=5", UNKNOWN.format("offest", "").replace("write ", "did you mean offset?")),
        ("a%0Ab=x", UNKNOWN.format("a\N{REPLACEMENT CHARACTER}b", "tag.a\N{REPLACEMENT CHARACTER}b=x")),
    ],
)
async def test_a_wrong_parameter_is_400_and_named(client: Api, query: str, detail: str) -> None:
    body = await problem(client, f"/api/v1/routes?{query}")
    assert (body["status"], body["code"], body["detail"]) == (400, "bad-parameter", detail)
    assert body["instance"] == "/api/v1/routes"


@pytest.mark.parametrize("query", ["tag.=x", f"tag.{'k' * 128}=x"])
async def test_a_filter_for_a_tag_that_cannot_be_is_400(client: Api, query: str) -> None:
    body = await problem(client, f"/api/v1/routes?{query}")
    assert (body["status"], body["code"]) == (400, "bad-filter")
    assert body["detail"].startswith(query.partition("=")[0])


PATHS = [endpoint.path for endpoint in ENDPOINTS]


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_refuses_unknown_parameters(client: Api, path: str) -> None:
    path = path.replace("{id:[^/]+}", ORDERS_EU).replace("{name:.+}", "orders").replace(r"{path:[\s\S]*}", "a")
    for name, value in (("stream", "b-1"), ("source", "flows"), ("number", "1"), ("folder", "data")):
        path = path.replace(f"{{{name}:[^/]+}}", value)
    body = await problem(client, f"{path}?verbose=1")
    assert (body["status"], body["code"]) == (400, "bad-parameter")


@pytest.mark.parametrize("path", ["/api", "/api/v1/rutes", "/api/v1/routes/", "/api/v1/routes/a/b", "/%2e%2e/etc"])
async def test_an_unknown_path_is_404(client: Api, path: str) -> None:
    body = await problem(client, path)
    assert (body["status"], body["code"]) == (404, "no-such-path")


async def test_an_unknown_path_is_told_the_one_that_is_like_it(client: Api) -> None:
    hint = (await problem(client, "/api/v1/rutes"))["detail"]
    assert hint == "there is no path /api/v1/rutes; did you mean /api/v1/routes? / lists all paths"
    hint = (await problem(client, "/api/v1/service/orders"))["detail"]
    assert hint == "there is no path /api/v1/service/orders; did you mean /api/v1/services/orders? / lists all paths"


async def test_who_takes_the_api_for_a_gateway_is_told_how_services_are_asked(client: Api) -> None:
    hint = (await problem(client, "/api/v1/orders/create", method="POST"))["detail"]
    how = "services are asked over RSocket, as rsocket-broker call does, and not here"
    assert hint == f"there is no path /api/v1/orders/create; {how}; / lists all paths"
    hint = (await problem(client, "/api/v1/orders/", method="POST"))["detail"]
    assert hint.endswith(f"? {how}; / lists all paths")


async def test_a_change_at_an_unknown_path_is_told_the_method_and_path_of_the_one_like_it(client: Api) -> None:
    hint = (await problem(client, "/api/v1/drain?service=orders", method="POST"))["detail"]
    how = "write PUT /api/v1/drains/tags/{key}/{value} or /api/v1/drains/broker"
    assert hint == f"there is no path /api/v1/drain; {how}; / lists all paths"
    hint = (await problem(client, "/api/v1/redirect/orders", method="DELETE"))["detail"]
    assert hint == "there is no path /api/v1/redirect/orders; did you mean /api/v1/redirects/orders? / lists all paths"
    assert (await problem(client, f"/{'x' * 2000}"))["detail"].endswith("…; / lists all paths")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/api/v1/drains/tags/region", "/api/v1/drains/tags/region/VALUE"),
        ("/api/v1/drains/tags/region:eu", "/api/v1/drains/tags/region/eu"),
        ("/api/v1/routes/", "/api/v1/routes"),
        ("/API/V1/Routes", "/api/v1/routes"),
        ("/routes", "/api/v1/routes"),
        ("/health", "/readyz or /livez"),
        ("/api/v1/drains/services/demo", "/api/v1/drains/tags/service/demo"),
    ],
)
async def test_a_path_that_is_nearly_one_is_told_that(client: Api, path: str, meant: str) -> None:
    said = (await problem(client, path))["detail"]
    assert said == f"there is no path {path}; did you mean {meant}? / lists all paths"


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("POST", "/api/v1/redirects", "PUT /api/v1/redirects/{service}"),
        ("DELETE", "/api/v1/connections", "DELETE /api/v1/connections/{id}"),
    ],
)
async def test_what_is_changed_one_by_one_is_told_with_its_path(
    client: Api, method: str, path: str, meant: str
) -> None:
    said = (await problem(client, path, method))["detail"]
    assert said == f"{method} is not allowed here; allowed: GET, HEAD; write {meant}"


@pytest.mark.parametrize(
    ("method", "path", "allowed", "meant"),
    [
        ("POST", "/api/v1/routes", "GET, HEAD", READ_ONLY["routes"]),
        ("DELETE", "/api/v1/routes/7", "GET, HEAD", READ_ONLY["routes"]),
        ("POST", "/api/v1/services/orders/create", "GET, HEAD", READ_ONLY["services"]),
        ("PATCH", "/api/v1/limits", "GET, HEAD", READ_ONLY["limits"]),
        ("GET", "/api/v1/routes/7/drain", "DELETE, PUT", "write GET /api/v1/drains"),
        ("GET", "/api/v1/redirects/orders", "DELETE, PUT", "write GET /api/v1/redirects"),
        ("GET", "/api/v1/samwise/messages/7/requeue", "PUT", "write GET /api/v1/samwise"),
    ],
)
async def test_a_method_for_what_is_done_elsewhere_is_told_where(
    client: Api, method: str, path: str, allowed: str, meant: str
) -> None:
    said = (await problem(client, path, method))["detail"]
    assert said == f"{method} is not allowed here; allowed: {allowed}; {meant}"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_another_method_is_405_and_told_which_is_possible(client: Api, method: str) -> None:
    body = await problem(client, "/api/v1/status", method)
    assert (body["status"], body["code"]) == (405, "method-not-allowed")
    assert body["detail"] == f"{method} is not allowed here; allowed: GET, HEAD"
    async with client.request(method, "/api/v1/status") as answer:
        assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith(f"{EVENTS}/")])
async def test_head_has_the_headers_of_get_and_no_body(
    admin: FakeAdmin, gateway: FakeGateway, feed: FakeFeed, path: str
) -> None:
    admin.keep(gateway)
    admin.keep_feed(feed)
    path = path.replace("connections/{id:[^/]+}", "connections/1").replace("{id:[^/]+}", ORDERS_EU)
    path = path.replace("{name:.+}", "orders")
    path = path.replace("{folder:[^/]+}", "data").replace(r"{path:[\s\S]*}", "b%0Ac")
    async with api_of(admin) as client, client.head(path) as head, client.get(path) as answer:
        assert (head.status, await head.read()) == (200, b"")
        assert head.headers["Content-Type"] == answer.headers["Content-Type"]
        assert head.headers["Server"] == "rsocket-broker"
        assert head.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in head.headers


async def test_a_mistake_of_ours_is_500_without_internals_and_with_the_id_that_is_in_the_log(
    admin: FakeAdmin, client: Api, caplog: pytest.LogCaptureFixture
) -> None:
    admin.world = None  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR, logger="admin_api"):
        body = await problem(client, "/api/v1/status")
    assert (body["status"], body["code"]) == (500, "internal")
    assert body["id"] in caplog.text
    assert "NoneType" in caplog.text
    assert "NoneType" not in json.dumps(body)
    assert await get(client, "/livez") == {"status": "live"}


# Listening


async def test_start_admin_listens_on_a_free_port_and_ends() -> None:
    runner, port = await start_admin(make_app(FakeAdmin(World())), "127.0.0.1", 0)
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/livez") as answer:
        assert answer.status == 200
    await runner.cleanup()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_taken_port_is_an_os_error_and_leaves_nothing_open() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            await start_admin(make_app(FakeAdmin(World())), "127.0.0.1", other.getsockname()[1])
