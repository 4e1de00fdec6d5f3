"""The admin API of several workers: brokers of a fake net behind real Unix sockets, and one answer of all of them.

Workers `w1` and `w2` are linked to each other, and `far` is a broker elsewhere, linked to `w1`. A third worker does not
answer where a test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from admin_api.access.gate import Gate
from admin_api.access.local_token import LocalToken
from admin_api.app import app_of, make_worker_app, make_workers_app, start_unix
from admin_api.backends.workers import Workers as WorkersBackend
from admin_api.backends.workers import plan_pages
from admin_api.errors import MISSING
from broker.config.options import Config
from broker.config.sections.process import AdminOptions, BrokerOptions
from broker.events import CHANGED, LifecycleEvent
from broker.views.schemas import Part, WorkerView
from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE
from rsocket_wire.wire.tags import Tag
from tests.admin_api.asking import Api, api_of, change, get, refusal
from tests.admin_api.fakes import FakeAdmin
from tests.admin_api.gateway import FakeGateway
from tests.fakes import START_MS, address, route_id
from tests.system.support.waits import until
from tests.topology import Net

JSON = dict[str, Any]


class FakeSupervisor:
    """An `admin_api.processes.Supervisor` without processes."""

    def __init__(self, folder: Path) -> None:
        self.config = Config(broker=BrokerOptions(name="eu"))
        self.listeners = ["tcp://127.0.0.1:7878"]
        self.broker_id = "00000000-0000-0000-0000-0000000000aa"
        self.started_at_ms = START_MS
        self.is_stopping = False
        self.on_return: Callable[[int], None] | None = None
        self.names = {1: "w1", 2: "w2"}
        self.restarts = {1: 0, 2: 1}
        self._folder = folder

    def states(self) -> list[WorkerView]:
        return [
            WorkerView(number, name, 100 + number, "ready", self.restarts.get(number, 0), START_MS)
            for number, name in self.names.items()
        ]

    def admin_path(self, number: int, /) -> str:
        return str(self._folder / f"a{number}.sock")

    def now_ms(self) -> int:
        return START_MS + 9000


class Workers:
    """All of it."""

    def __init__(self, net: Net, supervisor: FakeSupervisor, client: Api) -> None:
        self.net = net
        self.supervisor = supervisor
        self.client = client

    async def get(self, path: str, missing: str = "") -> Any:
        return await get(self.client, path, missing)

    async def items(self, path: str, *keys: str) -> list[tuple[Any, ...]]:
        """These fields of all items."""
        return [tuple(item[key] for key in keys) for item in (await self.get(path))["items"]]

    async def problem(self, method: str, path: str, **said: object) -> tuple[int, str]:
        """Status and code of a refusal."""
        return (await refusal(self.client, method, path, json=said or None))[:2]

    async def change(self, method: str, path: str, **said: object) -> Any:
        return await change(self.client, method, path, **said)


@pytest.fixture
async def workers(socket_folder: Path) -> AsyncIterator[Workers]:
    """orders 1 and 2 at w1, orders 3 and billing 4 at w2, orders 5 far away; one caller at each worker."""
    net = Net(["w1", "w2", "far"], [("w2", "w1"), ("far", "w1")])
    net.pump()
    for name, service, number in (
        ("w1", "orders", 1),
        ("w1", "orders", 2),
        ("w2", "orders", 3),
        ("w2", "billing", 4),
        ("far", "orders", 5),
    ):
        net.worlds[name].service(service, number, region="eu")
    net.worlds["w1"].caller()
    net.worlds["w2"].caller()
    net.pump()
    net.advance(7)
    supervisor = FakeSupervisor(socket_folder)
    runners: list[web.AppRunner] = []
    for number, name in supervisor.names.items():
        admin = FakeAdmin(net.worlds[name])
        admin.config = Config(admin=AdminOptions(changes="all"))  # as of a worker
        runners.append(await start_unix(make_worker_app(admin), supervisor.admin_path(number)))
    async with api_of(make_workers_app(supervisor)) as client:
        yield Workers(net, supervisor, client)
    for runner in runners:
        await runner.cleanup()


def numbers(*routes: int) -> list[str]:
    """Route Ids as the API shows them."""
    return [f"00000000-0000-0000-0000-{number:012d}" for number in routes]


async def test_the_metrics_have_those_of_the_one_gateway_once(workers: Workers, gateway: FakeGateway) -> None:
    workers.supervisor.config = replace(workers.supervisor.config, samwise=gateway.options)
    async with api_of(make_workers_app(workers.supervisor, gateway)) as client, client.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    assert [line for line in lines if "samwise_messages_accepted" in line] == [
        "# HELP samwise_messages_accepted_total Messages that were stored",
        "# TYPE samwise_messages_accepted_total counter",
        "samwise_messages_accepted_total 40.0",
    ]
    assert 'broker_worker_up{worker="2"} 1.0' in lines


async def test_who_asks_for_another_host_is_told_nothing(workers: Workers) -> None:
    async with workers.client.get("/api/v1/status", headers={"Host": "evil.example"}) as answer:
        assert (answer.status, (await answer.json())["code"]) == (421, "wrong-host")


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


async def test_routes_are_shown_once_and_by_the_worker_that_has_them(workers: Workers) -> None:
    found = await workers.items("/api/v1/routes", "route_id", "broker", "worker")
    own = [(id, "w1", 1) for id in numbers(1, 2)] + [(id, "w2", 2) for id in numbers(3, 4)]
    assert found == [*own, (*numbers(5), "far", None)]


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_of_routes_go_on_over_all_workers(workers: Workers, limit: int) -> None:
    found: list[str] = []
    for offset in range(0, 6, limit):
        body = await workers.get(f"/api/v1/routes?limit={limit}&offset={offset}")
        assert (body["total"], body["offset"], body["limit"]) == (5, offset, limit)
        found += [item["route_id"] for item in body["items"]]
    assert found == numbers(1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "query, routes",
    [
        ("service=billing", (4,)),
        ("tag.region=eu", (1, 2, 3, 4, 5)),
        ("tag.region=us", ()),
        ("broker=w2", (3, 4)),
        ("broker=far&broker=w2&service=orders", (3, 5)),
        ("broker=nobody", ()),
    ],
)
async def test_routes_are_filtered_as_by_one_broker(workers: Workers, query: str, routes: tuple[int, ...]) -> None:
    assert [id for (id,) in await workers.items(f"/api/v1/routes?{query}", "route_id")] == numbers(*routes)


async def test_one_route_is_told_by_its_worker(workers: Workers) -> None:
    for number, worker in ((1, 1), (3, 2), (5, None)):
        body = await workers.get(f"/api/v1/routes/{numbers(number)[0]}")
        assert (body["route_id"], body["worker"]) == (numbers(number)[0], worker)
    assert await workers.problem("GET", f"/api/v1/routes/{numbers(9)[0]}") == (404, "no-such-route")


async def test_services_have_the_routes_of_the_whole_cluster(workers: Workers) -> None:
    found = await workers.items("/api/v1/services", "service", "routes", "remote")
    assert found == [("billing", 1, 0), ("orders", 4, 1)]
    body = await workers.get("/api/v1/services/orders?limit=2&offset=1")
    assert (body["service"]["routes"], body["routes"]["total"]) == (4, 4)
    assert [route["route_id"] for route in body["routes"]["items"]] == numbers(2, 3)
    assert await workers.problem("GET", "/api/v1/services/nobody") == (404, "no-such-service")


async def test_requests_of_all_workers_are_in_the_traffic(workers: Workers) -> None:
    for name in ("w1", "w2"):
        world = workers.net.worlds[name]
        caller = max(world.wires.values(), key=lambda wire: wire.peer.id)
        caller.request(REQUEST_RESPONSE, 1, address(service="nobody"))
    workers.net.advance(2)
    assert await workers.items("/api/v1/traffic", "service", "outcome", "requests") == [("nobody", "rejected", 2)]
    assert (await workers.get("/api/v1/status"))["requests"] == 2


async def test_connections_have_numbers_that_say_where_they_are(workers: Workers) -> None:
    found = await workers.items("/api/v1/connections", "connection_id", "worker")
    assert all(id % 1000 == worker for id, worker in found)
    assert len({id for id, _ in found}) == len(found)
    assert {worker for _, worker in found} == {1, 2}
    whole = [id for id, _ in found]
    pages = [
        id
        for offset in range(len(whole))
        for (id,) in await workers.items(f"/api/v1/connections?limit=1&offset={offset}", "connection_id")
    ]
    assert pages == whole


async def test_connections_of_all_workers_are_searched_and_sorted(workers: Workers) -> None:
    whole = await workers.items("/api/v1/connections", "connection_id", "bytes_in")
    for order, expected in (("bytes_in", sorted(each[1] for each in whole)), ("-bytes_in", None)):
        found = [
            size
            for offset in range(len(whole))
            for (size,) in await workers.items(f"/api/v1/connections?sort={order}&limit=1&offset={offset}", "bytes_in")
        ]
        assert found == (expected or sorted((each[1] for each in whole), reverse=True))
    body = await workers.get("/api/v1/connections?service=orders&sort=-age_s&limit=1")
    assert (body["total"], [each["service"] for each in body["items"]]) == (3, ["orders"])
    assert await workers.items("/api/v1/connections?service=orders", "worker") == [(1,), (1,), (2,)]
    assert await workers.problem("GET", "/api/v1/connections?state=opn") == (400, "bad-parameter")


async def test_services_and_traffic_of_all_workers_are_searched_and_sorted(workers: Workers) -> None:
    assert await workers.items("/api/v1/services?sort=-routes", "service", "routes") == [("orders", 4), ("billing", 1)]
    assert await workers.items("/api/v1/services?service=billing", "service", "routes") == [("billing", 1)]
    assert await workers.items("/api/v1/traffic?sort=-requests&outcome=completed", "service") == []


async def test_one_connection_is_told_by_its_worker(workers: Workers) -> None:
    for id, worker in await workers.items("/api/v1/connections", "connection_id", "worker"):
        body = await workers.get(f"/api/v1/connections/{id}")
        assert (body["connection_id"], body["worker"]) == (id, worker)
    for text in ("1", "x", "7003", "999001"):
        assert await workers.problem("GET", f"/api/v1/connections/{text}") == (404, "no-such-connection")


async def test_a_connection_is_closed_at_its_own_worker(workers: Workers) -> None:
    world = workers.net.worlds["w2"]
    caller = max(world.wires.values(), key=lambda wire: wire.peer.id)
    number = caller.peer.id * 1000 + 2
    body = await workers.change("DELETE", f"/api/v1/connections/{number}")
    assert (body["connection_id"], body["reason"], body["worker"]) == (number, "closed-by-operator", 2)
    assert await workers.items("/api/v1/connections/closed", "connection_id", "worker") == [(number, 2)]
    for text in (str(number), "1", "x", "7003"):
        assert await workers.problem("DELETE", f"/api/v1/connections/{text}") == (404, "no-such-connection")


async def test_a_drain_is_for_all_workers(workers: Workers) -> None:
    body = await workers.change("PUT", "/api/v1/drains/tags/region/eu", grace_s=60, spread_s=60)
    assert (body["name"], body["routes"], body["connections_left"]) == ("region=eu", 5, 4)
    for name in ("w1", "w2"):
        assert [drain.name for drain in workers.net.worlds[name].core.lifecycle.drains.all()] == ["region=eu"]
    assert await workers.items("/api/v1/drains", "kind", "name", "connections_left") == [("tag", "region=eu", 4)]
    assert (await workers.get("/api/v1/status"))["route_states"]["draining"] == 5
    async with workers.client.get("/metrics") as answer:
        assert 'broker_route_states{state="draining"} 5.0' in await answer.text()
    await workers.change("DELETE", "/api/v1/drains/tags/region/eu")
    assert await workers.problem("DELETE", "/api/v1/drains/tags/region/eu") == (404, "no-such-drain")
    assert await workers.items("/api/v1/drains", "kind") == []


async def test_one_worker_tells_who_has_asked_for_a_change(workers: Workers, tmp_path: Path) -> None:
    local = LocalToken(str(tmp_path / "token"))
    local.write(0)
    assert local.file is not None
    by = {"Authorization": f"Bearer {local.file.read_text().strip()}"}
    async with (
        api_of(make_workers_app(workers.supervisor, gate=Gate(lambda: None, local))) as client,
        client.put("/api/v1/drains/tags/region/eu", headers=by) as answer,
    ):
        assert answer.status == 200
    told = [event for name in ("w1", "w2") for event in workers.net.worlds[name].core.take_events()]
    changes = [event for event in told if isinstance(event, LifecycleEvent) and event.kind == CHANGED]
    assert [(each.principal, dict(each.tags)["subject"]) for each in changes] == [("token:local", "region=eu")]


async def test_a_worker_that_was_started_again_drains_what_the_others_do(workers: Workers) -> None:
    await workers.change("PUT", "/api/v1/drains/tags/region/eu", grace_s=60, spread_s=60, close=False)
    await workers.change("PUT", f"/api/v1/routes/{numbers(3)[0]}/drain", grace_s=60)
    await workers.change("PUT", "/api/v1/drains/broker", close=False)
    await workers.change("DELETE", "/api/v1/drains/broker")
    core = workers.net.worlds["w2"].core
    core.lifecycle.drains.undrain_tag(Tag.of("region", "eu"), workers.net.now)  # as if it had just begun
    core.lifecycle.drains.undrain_route(route_id(3), workers.net.now)
    assert core.lifecycle.drains.all() == []
    assert workers.supervisor.on_return is not None
    workers.supervisor.on_return(2)
    await until(lambda: len(core.lifecycle.drains.all()) == 2)
    found = {drain.name: (drain.grace_s, drain.closes) for drain in core.lifecycle.drains.all()}
    assert found == {"region=eu": (60.0, False), numbers(3)[0]: (60.0, True)}


async def test_a_redirect_is_set_once_and_known_to_all(workers: Workers) -> None:
    await workers.change("PUT", "/api/v1/redirects/orders", to="billing")
    workers.net.pump()
    assert await workers.items("/api/v1/redirects", "service", "to", "broker") == [("orders", "billing", "w1")]
    await workers.change("DELETE", "/api/v1/redirects/orders")
    workers.net.pump()
    assert await workers.items("/api/v1/redirects", "service") == []
    assert await workers.problem("DELETE", "/api/v1/redirects/orders") == (404, "no-such-redirect")


async def test_credentials_are_revoked_once_and_for_all(workers: Workers) -> None:
    await workers.change("PUT", "/api/v1/revocations/jwt:ada")
    workers.net.pump()
    assert await workers.items("/api/v1/revocations", "principal", "broker") == [("jwt:ada", "w1")]
    await workers.change("DELETE", "/api/v1/revocations/jwt:ada")
    workers.net.pump()
    assert await workers.items("/api/v1/revocations", "principal") == []
    assert await workers.problem("DELETE", "/api/v1/revocations/jwt:ada") == (404, "no-such-revocation")


async def test_brokers_and_links_are_those_of_all_workers(workers: Workers) -> None:
    assert await workers.items("/api/v1/brokers", "name", "is_self", "hops", "routes") == [
        ("w1", True, 0, 2),
        ("w2", True, 0, 2),
        ("far", False, 1, 1),
    ]
    links = await workers.items("/api/v1/links", "worker", "name", "state")
    assert sorted(links) == [(1, "far", "up"), (1, "w2", "up"), (2, "w1", "up")]
    assert await workers.items("/api/v1/links?limit=1&offset=1", "worker", "name", "state") == links[1:2]


async def test_the_status_is_that_of_one_broker_with_its_workers(workers: Workers) -> None:
    body = await workers.get("/api/v1/status")
    keys = ("broker_id", "name", "state", "uptime_s", "listeners", "routes", "services", "started_at_ms")
    assert {key: body[key] for key in keys} == {
        "broker_id": "00000000-0000-0000-0000-0000000000aa",
        "name": "eu",
        "state": "ready",
        "uptime_s": 9.0,
        "listeners": ["tcp://127.0.0.1:7878"],
        "routes": 5,
        "services": 2,
        "started_at_ms": START_MS,
    }
    assert (body["cluster"]["remote_routes"], body["cluster"]["brokers"]) == (1, 3)
    worlds = [workers.net.worlds[name] for name in ("w1", "w2")]
    assert body["connections"] == sum(len(world.core.peers()) for world in worlds)
    assert body["workers"] == [
        {"number": 1, "name": "w1", "pid": 101, "state": "ready", "restarts": 0, "ready_at_ms": START_MS},
        {"number": 2, "name": "w2", "pid": 102, "state": "ready", "restarts": 1, "ready_at_ms": START_MS},
    ]


async def test_the_page_the_limits_and_the_health_are_there(workers: Workers) -> None:
    assert await workers.get("/livez") == {"status": "live"}
    assert await workers.get("/readyz") == {"status": "ready"}
    limits = await workers.items("/api/v1/limits", "name", "value")
    assert ("limits.max_connections", 50_000) in limits
    async with workers.client.get("/") as answer:
        text = await answer.text()
        assert (answer.status, "<h1>eu</h1>" in text, "far" in text) == (200, True, True)


async def test_metrics_are_added_up(workers: Workers) -> None:
    async with workers.client.get("/metrics") as answer:
        lines = dict(line.rsplit(" ", 1) for line in (await answer.text()).splitlines() if line[:1] != "#")
    accepted = sum(len(workers.net.worlds[name].core.peers()) for name in ("w1", "w2"))
    names = {
        "broker_ready": 1,
        "broker_routes": 5,
        "broker_remote_routes": 1,
        'broker_service_routes{service="orders"}': 4,
        "broker_connections_accepted_total": accepted,
        'broker_worker_up{worker="1"}': 1,
        'broker_worker_restarts_total{worker="2"}': 1,
    }
    assert {name: float(lines[name]) for name in names} == names


async def test_a_worker_that_does_not_answer_is_missing_and_the_answer_says_so(workers: Workers) -> None:
    workers.supervisor.names[3] = "w3"
    assert (await workers.get("/api/v1/routes", missing="3"))["total"] == 5
    for path in ("services", "connections", "connections/closed", "traffic", "drains", "brokers", "links", "status"):
        await workers.get(f"/api/v1/{path}", missing="3")
    await workers.get("/readyz", missing="3")
    async with workers.client.get("/api/v1/services/nobody") as answer:  # the third may have it
        assert (answer.status, answer.headers[MISSING]) == (404, "3")
    assert await workers.problem("DELETE", "/api/v1/connections/7003") == (503, "not-ready")
    async with workers.client.get("/metrics") as answer:
        assert 'broker_worker_up{worker="3"} 0.0' in await answer.text()
        assert answer.headers[MISSING] == "3"


async def test_without_any_worker_the_supervisor_lives_and_is_not_ready(workers: Workers) -> None:
    workers.supervisor.names = {8: "w8", 9: ""}
    assert await workers.get("/livez") == {"status": "live"}
    for path in ("/readyz", "/api/v1/status", "/api/v1/routes", "/api/v1/services", "/api/v1/connections", "/"):
        assert await workers.problem("GET", path) == (503, "not-ready"), path
    assert await workers.problem("PUT", "/api/v1/drains/broker") == (503, "not-ready")
    assert await workers.problem("PUT", "/api/v1/redirects/orders", to="billing") == (503, "not-ready")


async def test_what_is_asked_wrongly_is_refused_as_by_one_broker(workers: Workers) -> None:
    assert await workers.problem("GET", "/api/v1/routes?limit=0") == (400, "bad-parameter")
    assert await workers.problem("GET", "/api/v1/services?x=1") == (400, "bad-parameter")
    assert await workers.problem("GET", f"/api/v1/routes?tag.{'x' * 200}=1") == (400, "bad-filter")
    assert await workers.problem("PUT", "/api/v1/drains/broker", grace_s="soon") == (400, "bad-body")
    assert await workers.problem("GET", "/api/v1/nothing") == (404, "no-such-path")
    assert await workers.problem("POST", "/api/v1/status") == (405, "method-not-allowed")


async def test_a_worker_that_hangs_makes_operators_wait_once(workers: Workers) -> None:
    asked: list[str] = []

    async def hang(request: web.Request) -> web.Response:
        asked.append(request.path)
        await asyncio.Event().wait()
        raise AssertionError("it hangs for ever")

    app = web.Application()
    app.router.add_get("/{any:.*}", hang)
    workers.supervisor.names[3] = "w3"
    runner = await start_unix(app, workers.supervisor.admin_path(3))
    began_at = asyncio.get_running_loop().time()
    backend = WorkersBackend(workers.supervisor, answer_s=0.5, silent_s=0.001)
    async with api_of(app_of(backend)) as client:
        for _ in range(3):
            async with client.get("/api/v1/routes") as answer:
                assert (answer.status, answer.headers[MISSING]) == (200, "3")
    assert asyncio.get_running_loop().time() - began_at < 3 * 0.5
    await runner.cleanup()
    assert asked[0] == "/api/v1/brokers"


async def test_the_supervisor_decides_who_may_change_something(workers: Workers) -> None:
    async with workers.client.put("/api/v1/drains/broker", headers={"Origin": "http://localhost"}) as answer:
        assert answer.status == 403
    workers.supervisor.config = Config(admin=AdminOptions(changes="off"))
    assert await workers.problem("PUT", "/api/v1/drains/broker") == (403, "not-allowed")
    assert workers.net.worlds["w1"].core.lifecycle.drains.all() == []


async def test_a_worker_cannot_listen_where_it_may_not(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match="cannot-listen"):
        await start_unix(web.Application(), str(tmp_path / "nowhere" / "a1.sock"))
