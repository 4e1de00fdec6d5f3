"""Draining (D-56): no new requests, those that run end, then the connection; nothing is lost, none waits for ever."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from client_sdk import Draining, NoRoute, Rejected, Request, Service, address, connect
from client_sdk.metadata import route_bytes
from client_sdk.services.responder import ServiceResponder
from client_sdk.testing import local_broker
from rsocket_wire.errors import CONNECTION_CLOSE, REJECTED
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.samples import Held
from tests.client_sdk.services.asking import MULTICAST, ask, refused
from tests.client_sdk.services.test_health import tags_in

pytestmark = pytest.mark.usefixtures("no_long_settling")


async def test_route_is_taken_out_what_runs_ends_and_then_goodbye_is_said(broker: FakeBroker) -> None:
    held = Held("s")
    server = await connect(broker.url, service=held.service)
    async with connect(broker.url) as client:
        answer = asyncio.ensure_future(client.request_response(address("s"), b"work"))
        await held.began.get()
        draining = asyncio.create_task(server.drain(timeout_s=10))
        peer = await broker.peer(0)
        assert [tags_in(frame) for frame in await peer.expect(frames.PUSH)] == [{"health": "out"}]
        assert (server.is_connected, draining.done()) == (True, False)
        held.released.set()
        assert (await answer).data == b"work"
        await draining
        (last,) = peer.of(frames.ERROR)
        assert (last.stream_id, last.code) == (0, CONNECTION_CLOSE)
        assert (server.is_connected, len(broker.peers)) == (False, 2)


async def test_a_request_without_an_answer_is_waited_for_too(broker: FakeBroker) -> None:
    held = Held("s")
    server = await connect(broker.url, service=held.service)
    async with connect(broker.url) as client:
        await client.fire_and_forget(address("s"), b"note")
        await held.began.get()
        draining = asyncio.create_task(server.drain(timeout_s=10))
        await (await broker.peer(0)).expect(frames.PUSH)
        assert not draining.done()
        held.released.set()
        await draining
        assert not held.cancelled.is_set()


async def test_what_has_not_ended_in_time_is_cancelled_and_counted(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held("s")
    server = await connect(broker.url, service=held.service)
    async with connect(broker.url) as client:
        calls = [asyncio.ensure_future(client.request_response(address("s"))) for _ in range(2)]
        await held.began.get()
        with caplog.at_level(logging.WARNING, "client_sdk"):
            await server.drain(timeout_s=0.05)
        await held.cancelled.wait()
        assert (
            "service s: 2 handlers did not end within 0.05 s, cancelled; one that yields without end needs `while"
            in caplog.text
        )
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


async def test_who_asks_nevertheless_is_rejected_so_that_it_may_ask_another() -> None:
    held = Held("s")
    responder = ServiceResponder(held.service)
    responder.is_draining = True
    text = "draining: this instance of service 's' is about to stop"
    assert await refused(responder.request_response(route_bytes("quick"), b"")) == ("draining", REJECTED, text)
    assert await responder.request_response(MULTICAST + route_bytes("quick"), b"x") == b"x"
    assert (await ask(held.service, b"x", "quick")).data == b"x"  # another client of the same service


async def test_draining_a_service_ends_all_of_its_clients(broker: FakeBroker) -> None:
    held = Held("s")
    first = await connect(broker.url, service=held.service)
    second = await connect(broker.url, service=held.service)
    await held.service.drain(timeout_s=5)
    await first.closed()
    await second.closed()
    await held.service.drain(timeout_s=5)  # nobody is left


async def test_draining_a_service_that_no_client_has_offered_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await Service("s").drain()
    how = "nothing is drained; one of another program: rsocket-broker ctl drain tag service=s"
    assert caplog.messages == [f"service 's' is offered by no client of this program, {how}"]


async def test_draining_a_caller_closes_it(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    await client.drain()
    await client.closed()
    await client.drain()


async def test_draining_without_a_broker_ends(broker: FakeBroker) -> None:
    held = Held("s")
    server = await connect(broker.url, service=held.service)
    await broker.stop()
    await server.drain(timeout_s=5)
    assert not server.is_connected


async def test_under_load_no_request_is_lost_when_one_of_two_drains() -> None:
    first, second = Held("s"), Held("s")
    first.released.set()
    second.released.set()
    async with local_broker() as url, connect(url, service=second.service), connect(url) as client:
        server = await connect(url, service=first.service)
        stop = asyncio.Event()

        async def call() -> int:
            count_n = 0
            while not stop.is_set():
                assert (await client.request_response(address("s"), b"x", timeout_s=5)).data == b"x"
                count_n += 1
            return count_n

        calls = [asyncio.create_task(call()) for _ in range(20)]
        await first.began.get()
        await server.drain(timeout_s=5)
        await client.request_response(address("s"), b"x", timeout_s=5)
        stop.set()
        assert sum([await each for each in calls]) > 0


async def test_under_load_the_only_one_refuses_what_it_does_not_do() -> None:
    held = Held("s")
    held.released.set()
    async with local_broker() as url, connect(url) as client:
        server = await connect(url, service=held.service)
        refused: list[Rejected] = []

        async def call() -> None:
            while True:
                try:
                    await client.request_response(address("s"), b"x", timeout_s=5)
                except NoRoute:
                    return
                except Rejected as error:
                    refused.append(error)

        calls = [asyncio.create_task(call()) for _ in range(20)]
        await held.began.get()
        await server.drain(timeout_s=5)
        await asyncio.gather(*calls)  # nothing but REJECTED, which is safe to try again
        assert {type(error) for error in refused} <= {Draining}


async def test_an_endless_stream_is_told_and_ends_kindly(broker: FakeBroker) -> None:
    feed = Service("feed")

    @feed.request_stream()
    async def ticks(request: Request) -> AsyncIterator[bytes]:
        yield b"first"
        await request.draining.wait()
        yield b"last"

    server = await connect(broker.url, service=feed)
    async with connect(broker.url) as client:
        items = client.request_stream(address("feed"))
        assert (await anext(items)).data == b"first"
        assert server.working_n == 1
        draining = asyncio.create_task(server.drain(timeout_s=10))
        assert [item.data async for item in items] == [b"last"]
        await draining
        assert server.working_n == 0


async def test_a_request_without_a_service_never_drains() -> None:
    assert not Request("request_response", b"", None).draining.is_set()


def test_an_event_is_not_taken_for_a_bool() -> None:
    for request in (
        Request("request_stream", b"", None),
        Request("", b"", None, ServiceResponder(Service("s")).draining),
    ):
        with pytest.raises(TypeError, match=r"write request\.draining\.is_set\(\)"):
            bool(request.draining)
        assert not request.draining.is_set()
