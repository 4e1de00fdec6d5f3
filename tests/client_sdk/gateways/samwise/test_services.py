import asyncio
import contextlib
import gc
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rsocket.helpers import create_future
from rsocket.request_handler import BaseRequestHandler

from client_sdk import ApplicationError, Client, Payload, Request, Service, connect
from client_sdk.gateways.samwise.backends import services as module
from client_sdk.gateways.samwise.backends.backend import ANY, NotDelivered
from client_sdk.gateways.samwise.backends.exchanges import DIRECT, FANOUT, Exchange, Exchanges
from client_sdk.gateways.samwise.backends.services import PROPERTIES_MIME, ServicesBackend
from client_sdk.gateways.samwise.delivery import Retry
from client_sdk.gateways.samwise.gateway import Gateway
from client_sdk.gateways.samwise.store import OS, Store
from client_sdk.gateways.samwise.values import DECLARE, DELETE, Message, Publish, Refused, Reply, Rpc
from client_sdk.testing import LocalBroker, local_broker
from tests.client_sdk.gateways.samwise.asking import handled
from tests.client_sdk.gateways.samwise.messages import publish_to, stored
from tests.system.support.waits import soon, until

CONFIGURED = {"all": Exchange("orders", FANOUT), "renamed": Exchange("orders", DIRECT)}


class Shop:
    """A service that keeps what it gets by route `new`, and answers nothing."""

    def __init__(self, number: int) -> None:
        self.route_id = str(uuid.UUID(int=number))
        self.got: list[Request] = []
        self.error: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.service = Service("orders")
        self.service.request_response("new")(self.take)
        self.service.request_response()(self.take_others)
        self.others: list[Request] = []

    async def take(self, request: Request) -> bytes:
        self.got.append(request)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return b""

    async def take_others(self, request: Request) -> bytes:
        self.others.append(request)
        return b""

    @property
    def bodies(self) -> list[bytes]:
        return [request.data for request in self.got]


@pytest.fixture
async def broker(no_leaked_tasks: None) -> AsyncIterator[LocalBroker]:
    async with local_broker() as url:
        yield url


@pytest.fixture
async def backend(broker: LocalBroker, tmp_path: Path) -> AsyncIterator[ServicesBackend]:
    made = backend_of(broker, tmp_path)
    await made.start(lambda: None)
    await until(lambda: is_up(made))
    yield made
    await made.close()


@pytest.fixture
async def shops(broker: LocalBroker) -> AsyncIterator[list[Shop]]:
    """Two routes of the service `orders`."""
    found = [Shop(1), Shop(2)]
    clients = [await offered(broker, shop) for shop in found]
    yield found
    for shop in found:
        shop.may_answer.set()
    for client in clients:
        await client.close()


async def offered(broker: LocalBroker, shop: Shop) -> Client:
    return await connect(broker, service=shop.service, route_id=shop.route_id)


def backend_of(url: str, folder: Path) -> ServicesBackend:
    return ServicesBackend(connect(url), Exchanges(CONFIGURED, folder / "exchanges.json"))


def is_up(backend: ServicesBackend) -> bool:
    return backend.state()[0].is_up


def order(payload: bytes = b"", exchange: str = "orders", **others: Any) -> Message:
    return stored(publish_to(exchange, "new", payload, **others))


async def delivered(backend: ServicesBackend, message: Message, to: str = ANY) -> str:
    return await soon(backend.deliver(message, to))


async def failure(backend: ServicesBackend, message: Message, to: str = ANY) -> NotDelivered:
    with pytest.raises(NotDelivered) as failed:
        await delivered(backend, message, to)
    return failed.value


async def test_a_service_gets_the_message_with_all_that_came_along(backend: ServicesBackend, shops: list[Shop]) -> None:
    options = {"content_type": "application/json", "delivery_mode": "2", "message_id": "17"}
    message = order(b"{}", options=options, headers=(("shop", "Käthe".encode()), ("raw", b"\xff\x00")))
    backend.check(message.publish)
    assert await backend.destinations(message) == [ANY]
    assert await delivered(backend, message) == "orders"
    [request] = shops[0].got + shops[1].got
    assert (request.data, request.route, request.data_mime) == (b"{}", "new", "application/json")
    assert json.loads(request.entry(PROPERTIES_MIME) or b"") == {
        "x-samwise-id": message.uid,
        "exchange": "orders",
        "options": {"delivery_mode": "2", "message_id": "17"},
        "headers": {"shop": "Käthe", "raw": {"base64": "/wA="}},
    }


async def test_what_was_not_given_does_not_arrive(backend: ServicesBackend, shops: list[Shop]) -> None:
    message = stored(publish_to("orders"))
    await delivered(backend, message)
    [request] = shops[0].others + shops[1].others
    assert (request.data, request.route, request.data_mime) == (b"", "", "")
    assert json.loads(request.entry(PROPERTIES_MIME) or b"") == {
        "x-samwise-id": message.uid,
        "exchange": "orders",
        "options": {},
        "headers": {},
    }


async def test_forty_messages_go_by_turns_to_the_routes_in_their_order(
    backend: ServicesBackend, shops: list[Shop]
) -> None:
    numbers = [b"%d" % n for n in range(40)]
    tasks = [asyncio.ensure_future(backend.deliver(order(number), ANY)) for number in numbers]
    assert await soon(asyncio.gather(*tasks)) == ["orders"] * 40
    assert [len(shop.got) for shop in shops] == [20, 20]
    for shop in shops:
        assert shop.bodies == sorted(shop.bodies, key=int)
    assert sorted(shops[0].bodies + shops[1].bodies, key=int) == numbers


async def test_a_redundant_message_finds_the_routes_and_each_gets_it_once(
    backend: ServicesBackend, shops: list[Shop]
) -> None:
    message = order(b"both", acks_n=2)
    names = await backend.destinations(message)
    assert names == tuple(shop.route_id for shop in shops)
    for name in names:
        assert await delivered(backend, message, name) == name
    assert [shop.bodies for shop in shops] == [[b"both"], [b"both"]]
    assert [shop.others for shop in shops] == [[], []]  # to be asked who is there is no request


async def test_routes_that_come_and_go_are_told(
    backend: ServicesBackend, broker: LocalBroker, shops: list[Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[str] = []
    backend._on_change = lambda: changes.append("changed")
    message = order(acks_n=3)
    assert len(await backend.destinations(message)) == 2
    third = Shop(3)
    client = await offered(broker, third)
    assert len(await backend.destinations(message)) == 2  # as was known a moment ago
    assert changes == []
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    backend._present.clear()
    assert await backend.destinations(message) == (*(shop.route_id for shop in shops), third.route_id)
    await client.close()
    await until(lambda: len(broker.routes("orders")) == 2)
    assert len(await backend.destinations(message)) == 3  # which asks
    await until(lambda: changes)
    assert len(await backend.destinations(message)) == 2


async def test_a_route_that_has_gone_is_away(backend: ServicesBackend, shops: list[Shop]) -> None:
    message = order(acks_n=2)
    assert len(await backend.destinations(message)) == 2
    failed = await failure(backend, message, str(uuid.UUID(int=9)))
    assert failed.is_away
    assert failed.reason.startswith("orders: no-route: ")
    assert backend._present == {}  # so it is asked anew


async def test_a_service_that_is_out_takes_no_redundant_messages(backend: ServicesBackend, shops: list[Shop]) -> None:
    await shops[0].service.set_health(False, "no disk")
    assert await backend.destinations(order(acks_n=2)) == (shops[1].route_id,)


async def test_a_fanout_reaches_all_and_is_acknowledged_when_all_have_answered(
    backend: ServicesBackend, shops: list[Shop]
) -> None:
    shops[1].may_answer.clear()
    message = order(b"for all", "all")
    assert await backend.destinations(message) == [ANY]
    task = asyncio.ensure_future(backend.deliver(message, ANY))
    await until(lambda: shops[0].got and shops[1].got)
    assert not task.done()
    shops[1].may_answer.set()
    assert await soon(task) == "orders"
    assert [shop.bodies for shop in shops] == [[b"for all"], [b"for all"]]


async def test_a_fanout_of_which_one_fails_is_not_acknowledged(backend: ServicesBackend, shops: list[Shop]) -> None:
    shops[0].error = ApplicationError("none is left", word="sold-out")
    failed = await failure(backend, order(exchange="all"))
    assert failed.reason == "orders: fanout: 1 of 2 routes failed, the first with sold-out: none is left"
    assert (failed.is_away, failed.is_hopeless) == (False, False)


async def test_a_fanout_that_all_leave_is_not_acknowledged(backend: ServicesBackend, broker: LocalBroker) -> None:
    shop = Shop(1)
    shop.may_answer.clear()
    client = await offered(broker, shop)
    task = asyncio.ensure_future(failure(backend, order(exchange="all")))
    await until(lambda: shop.got)
    await client.close()
    assert (await soon(task)).reason == "orders: route-lost: all routes left before they had answered"


@pytest.mark.parametrize("exchange", ["orders", "all"])
async def test_where_no_route_is_nobody_is_there(backend: ServicesBackend, exchange: str) -> None:
    failed = await failure(backend, order(exchange=exchange))
    assert failed.is_away
    assert "no-route" in failed.reason
    assert await backend.destinations(order(exchange=exchange, acks_n=2)) == ()


async def test_an_error_of_the_service_is_told_with_its_word(backend: ServicesBackend, shops: list[Shop]) -> None:
    for shop in shops:
        shop.error = ApplicationError("none is left", word="sold-out")
    failed = await failure(backend, order())
    assert (failed.reason, failed.is_away, failed.is_hopeless) == ("orders: sold-out: none is left", False, False)


async def test_a_delivery_that_nobody_waits_for_is_cancelled_at_the_service(
    backend: ServicesBackend, shops: list[Shop]
) -> None:
    for shop in shops:
        shop.may_answer.clear()
    tasks = [asyncio.ensure_future(backend.deliver(order(exchange=name), ANY)) for name in ("orders", "all")]
    await until(lambda: sum(len(shop.got) for shop in shops) == 3)
    assert backend.state()[0].waiting_n == 2
    for task in tasks:
        task.cancel()
    await soon(asyncio.wait(tasks))
    assert backend.state()[0].waiting_n == 0


async def test_declared_exchanges_are_used_and_refusals_told(backend: ServicesBackend, shops: list[Shop]) -> None:
    declare = Rpc(version=110, broker="", action=DECLARE, name="orders", type=FANOUT)
    await backend.rpc(declare)
    await delivered(backend, order(b"1"))
    assert [shop.bodies for shop in shops] == [[b"1"], [b"1"]]
    await backend.rpc(Rpc(version=110, broker="", action=DELETE, name="orders"))
    await delivered(backend, order(b"2"))
    assert sorted(len(shop.got) for shop in shops) == [1, 2]
    for rpc, fault in (
        (Rpc(version=110, broker="", action=DECLARE, name="e", type="topic"), "exchange type 'topic' is not one of"),
        (Rpc(version=110, broker="", action=DELETE, name="all"), "exchange 'all' is made by the configuration"),
        (Rpc(version=110, broker="rabbit-1", action=DELETE, name="e"), "there is no broker 'rabbit-1', messages go to"),
    ):
        with pytest.raises(Refused) as refused:
            await backend.rpc(rpc)
        assert refused.value.text.startswith(f"malformed rpc request: {fault}")
        assert refused.value.reason == "backend"


@pytest.mark.parametrize(
    ("what", "fault"),
    [
        (publish_to("orders", immediate=True), "immediate is set, which services do not know"),
        (publish_to(""), "exchange '' has 0 bytes, a service has 1..127"),
        (publish_to("x" * 128), f"exchange '{'x' * 40}' has 128 bytes, a service has 1..127"),
        (publish_to("all", acks_n=2), "exchange 'all' is a fanout, which all routes get: redundant needs a direct one"),
        (publish_to("orders", "k" * 256), "routing key has 256 bytes, a route has at most 255"),
        (publish_to("orders", options={"content_type": "ü"}), "content_type 'ü' must be at most 128 ASCII characters"),
        (
            publish_to("orders", headers=(("a", bytes(2 * 1024 * 1024)),)),
            "options and headers have 2097153 bytes, at most 2097152 can be sent",
        ),
        (
            publish_to("orders", payload=bytes(60 * 1024 * 1024)),
            "message of up to 62915584 bytes, at most 62914560 can be sent",
        ),
    ],
)
def test_what_no_service_could_get_is_refused(tmp_path: Path, what: Publish, fault: str) -> None:
    backend = backend_of("tcp://127.0.0.1:1", tmp_path)
    with pytest.raises(Refused) as refused:
        backend.check(what)
    assert refused.value.text == f"malformed publishing request: {fault}"


async def test_what_was_stored_for_other_destinations_is_hopeless(backend: ServicesBackend) -> None:
    failed = await failure(backend, order(options={"content_type": "x" * 300}))
    assert failed.is_hopeless
    assert failed.reason.startswith("malformed publishing request: content_type ")


async def test_the_longest_properties_arrive(backend: ServicesBackend, shops: list[Shop]) -> None:
    """Characters that JSON writes with six."""
    message = order(headers=(("a", bytes(2 * 1024 * 1024 - 1)),))
    backend.check(message.publish)
    await delivered(backend, message)
    [request] = shops[0].got + shops[1].got
    properties = json.loads(request.entry(PROPERTIES_MIME) or b"")
    assert properties["headers"] == {"a": "\0" * (2 * 1024 * 1024 - 1)}


async def test_mandatory_is_refused_while_no_route_is_there(backend: ServicesBackend, broker: LocalBroker) -> None:
    with pytest.raises(Refused, match="malformed publishing request: mandatory is set: no-route: ") as refused:
        await soon(backend.check_mandatory(publish_to("orders", mandatory=True)))
    assert refused.value.reason == "backend"
    shop = Shop(1)
    async with connect(broker, service=shop.service):
        await soon(backend.check_mandatory(publish_to("orders", mandatory=True)))
    assert shop.others == []


async def test_a_service_of_strangers_acknowledges_and_is_not_counted(
    backend: ServicesBackend, broker: LocalBroker
) -> None:
    """It is asked who is there like any stream; what it says to that hurts nobody."""
    taken: list[bytes | None] = []

    class Stranger(BaseRequestHandler):  # type: ignore[misc] # rsocket-py has no types
        async def request_response(self, payload: Payload) -> Any:
            taken.append(payload.data)
            return create_future(Payload(b""))

    async with connect(broker, service="orders", handler=Stranger):
        assert await backend.destinations(order(acks_n=2)) == ()
        await soon(backend.check_mandatory(publish_to("orders", mandatory=True)))
        assert await delivered(backend, order(b"1")) == "orders"
        assert taken == [b"1"]


async def test_a_broker_that_is_not_there_yet_is_found_when_it_comes(tmp_path: Path) -> None:
    changes: list[bool] = []
    async with local_broker() as broker:
        url = str(broker)
    backend = backend_of(url, tmp_path)
    await backend.start(lambda: changes.append(is_up(backend)))
    assert await backend.destinations(order()) == []
    failed = await failure(backend, order())
    assert (failed.reason, failed.is_away) == ("not connected yet", True)
    await until(lambda: backend.state()[0].detail.startswith("connect-failed: "))
    with pytest.raises(Refused, match="mandatory is set: not-connected: connect-failed: "):
        await backend.check_mandatory(publish_to("orders", mandatory=True))
    async with local_broker(listen=[url]):
        await until(lambda: changes == [True])
        assert backend.state()[0].detail == f"connected to {url}"
        assert await backend.destinations(order()) == [ANY]
    await until(lambda: changes == [True, False])
    assert not is_up(backend)
    assert await backend.destinations(order(acks_n=2)) == []
    await soon(backend.close())


async def test_deliveries_that_wait_fail_when_the_gateway_stops(
    broker: LocalBroker, shops: list[Shop], tmp_path: Path
) -> None:
    backend = backend_of(broker, tmp_path)
    await backend.start(lambda: None)
    await until(lambda: is_up(backend))
    shops[0].may_answer.clear()
    shops[1].may_answer.clear()
    task = asyncio.ensure_future(failure(backend, order()))
    await until(lambda: shops[0].got or shops[1].got)
    await soon(backend.close())
    assert (await soon(task)).reason == "orders: closed: this client was closed"
    assert (await failure(backend, order())).reason == "the gateway stops"


@contextlib.asynccontextmanager
async def gateway_at(broker: LocalBroker, folder: Path) -> AsyncIterator[Gateway]:
    """A gateway with a store, connected."""
    backend = backend_of(broker, folder)
    retry = Retry(tries=2, interval_s=0.05, threshold_s=10)
    gateway = Gateway(Store(folder / "store", durability=OS), backend, retry=retry)
    await gateway.start()
    try:
        await until(lambda: is_up(backend))
        yield gateway
    finally:
        await gateway.stop()


async def test_a_redundant_message_waits_for_routes_that_come_and_asks_nobody_twice(
    broker: LocalBroker, shops: list[Shop], tmp_path: Path
) -> None:
    third = Shop(3)
    async with gateway_at(broker, tmp_path) as gateway:
        assert await handled(gateway, publish_to("orders", "new", b"1", acks_n=3)) == Reply(True)
        await until(lambda: shops[0].got and shops[1].got)
        assert await handled(gateway, publish_to("orders", "new", b"2")) == Reply(True)  # which need not wait
        await until(lambda: gateway.state().delivered == 1)
        client = await offered(broker, third)
        await until(lambda: gateway.state().delivered == 2)
        await client.close()
    assert third.bodies == [b"1"]
    assert sorted(shops[0].bodies + shops[1].bodies) == [b"1", b"1", b"2"]


async def test_what_was_kept_arrives_when_the_broker_and_the_service_are_back(
    broker: LocalBroker, shops: list[Shop], tmp_path: Path
) -> None:
    numbers = [b"%d" % n for n in range(20)]
    async with gateway_at(broker, tmp_path) as gateway:
        for number in numbers[:10]:
            assert await handled(gateway, publish_to("orders", "new", number)) == Reply(True)
        await broker.restart()
        for number in numbers[10:]:
            assert await handled(gateway, publish_to("orders", "new", number)) == Reply(True)
        await until(lambda: gateway.state().delivered == 20)
        assert gateway.state().died == 0
    assert set(shops[0].bodies + shops[1].bodies) == set(numbers)


def test_a_gateway_that_fails_before_it_connects_is_no_forgotten_connect(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    ServicesBackend(connect("tcp://127.0.0.1:1"), Exchanges(CONFIGURED, tmp_path / "exchanges.json"))
    gc.collect()
    assert [str(each.message) for each in recwarn] == []
