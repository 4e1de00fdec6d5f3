"""Connections that are refused, lost, replaced and won back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from client_sdk import (
    BadAddress,
    Client,
    ConnectionLost,
    DeadlineExceeded,
    NotConnected,
    Service,
    SetupRejected,
    address,
    connect,
)
from client_sdk.reconnect.backoff import Backoff
from tests.client_sdk import frames
from tests.client_sdk.calls.test_call import Pair, items_of
from tests.client_sdk.calls.test_failures import Stuck
from tests.client_sdk.fake_broker import CLOSE, FakeBroker, error_frame


def echo_service() -> Service:
    echo = Service("echo", tags={"region": "eu"})

    @echo.request_response()
    async def answer(data: bytes) -> bytes:
        return data

    return echo


async def lose(broker: FakeBroker, client: Client) -> None:
    """Stops the broker; returns when the client knows."""
    broker.is_silent = True
    call = asyncio.ensure_future(client.request_response(address("x")))
    await (await broker.peer(0)).expect(frames.RESPONSE)
    await broker.stop()
    with pytest.raises(ConnectionLost):
        await call
    assert not client.is_connected


async def test_refused_setup_surfaces_from_connect(broker: FakeBroker) -> None:
    broker.refusal = (0x003, "bad-route: too many tags")
    with pytest.raises(SetupRejected, match="too many tags") as caught:
        await connect(broker.url, service="orders")
    assert (caught.value.word, caught.value.code) == ("bad-route", 0x003)


async def test_nobody_listening_surfaces_from_connect(broker: FakeBroker) -> None:
    url = broker.url
    await broker.stop()
    with pytest.raises(ConnectionLost, match="connect-failed"):
        await connect(url)


async def test_silent_broker_surfaces_from_connect_in_time(broker: FakeBroker) -> None:
    broker.is_silent = True
    with pytest.raises(ConnectionLost, match=r"within 0\.05 s"):
        await connect(broker.url, connect_timeout_s=0.05)
    await (await broker.peer(0)).gone.wait()


async def test_next_url_is_tried_when_the_first_does_not_answer(broker: FakeBroker) -> None:
    other = await FakeBroker().start()
    await other.stop()
    async with connect([other.url, broker.url]) as client:
        assert client.is_connected


async def test_all_waiting_calls_fail_at_once_when_the_connection_is_lost(broker: FakeBroker) -> None:
    stuck = Stuck()
    async with Pair(broker, stuck.service) as client:
        to = address("stuck")
        calls: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(client.request_response(to)),
            asyncio.ensure_future(anext(client.request_stream(to))),
            asyncio.ensure_future(anext(client.request_channel(to, items_of(b"1")))),
        ]
        caller = await broker.peer(1)
        await caller.expect(frames.RESPONSE)
        await caller.expect(frames.CHANNEL)
        caller.abort()
        for call in calls:
            with pytest.raises(ConnectionLost):
                await call


async def test_call_without_a_connection_fails_at_once(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    await lose(broker, client)
    for _ in range(2):
        with pytest.raises(NotConnected, match="nothing was sent"):
            await client.request_response(address("x"))
        with pytest.raises(NotConnected):
            await client.fire_and_forget(address("x"))
        with pytest.raises(NotConnected):
            await client.metadata_push(address("x"), b"")
        with pytest.raises(NotConnected):
            await anext(client.request_stream(address("x")))
        with pytest.raises(NotConnected):
            await anext(client.request_channel(address("x"), items_of(b"")))
    assert not client.is_connected
    with pytest.raises(DeadlineExceeded, match="no connection within"):
        await client.wait_connected(timeout_s=0.01)
    await client.close()


async def test_loss_is_a_connection_error(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    await client.close()
    with pytest.raises(ConnectionError, match="closed"):
        await client.request_response(address("x"))


async def test_service_comes_back_by_itself_with_the_same_route_id_and_tags(broker: FakeBroker) -> None:
    async with Pair(broker, echo_service()) as client:
        first = await broker.peer(0)
        first.abort()
        again = await broker.peer(2)
        await again.expect(frames.KEEPALIVE)
        assert first.route is not None
        assert again.route == first.route
        assert (await client.request_response(address("echo", region="eu"), b"hello")).data == b"hello"


async def test_client_comes_back_to_a_broker_that_was_restarted(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        port = broker.port
        await broker.stop()
        await asyncio.sleep(0)
        second = await FakeBroker().start(port)
        await second.peer(0)
        await client.wait_connected(timeout_s=5)
        with pytest.raises(Exception, match="no-route"):
            await client.request_response(address("x"))
        await client.close()
        await second.stop()


async def test_client_moves_on_to_the_other_broker(broker: FakeBroker) -> None:
    other = await FakeBroker().start()
    async with connect([broker.url, other.url]) as client:
        await broker.stop()
        await other.peer(0)
        await client.wait_connected(timeout_s=5)
        assert client.is_connected
    await other.stop()


async def test_failed_attempts_to_reconnect_are_repeated(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        broker.refusal = (0x003, "over-limit: not now")
        (await broker.peer(0)).abort()
        for number in (1, 2, 3):
            await (await broker.peer(number)).gone.wait()
        broker.refusal = None
        while not client.is_connected:
            await client.wait_connected(timeout_s=5)


async def test_replaced_client_does_not_come_back(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        (await broker.peer(0)).send(error_frame(0, CLOSE, "replaced: another connection came with this Route Id"))
        await client.closed()
        assert not client.is_connected
        with pytest.raises(ConnectionLost, match="replaced"):
            await client.request_response(address("x"))
        with pytest.raises(ConnectionLost, match="replaced"):
            await client.wait_connected()


async def test_broker_that_says_goodbye_lets_running_calls_end(broker: FakeBroker) -> None:
    stuck = Stuck()
    async with Pair(broker, stuck.service) as client:
        call = asyncio.ensure_future(client.request_response(address("stuck")))
        caller = await broker.peer(1)
        stream_id = (await caller.expect(frames.RESPONSE))[0][1]
        caller.send(error_frame(0, CLOSE, "broker-stopped: bye"))
        caller.send(stream_id.to_bytes(4) + (frames.PAYLOAD << 10 | 0x60).to_bytes(2) + b"still")
        assert (await call).data == b"still"
        with pytest.raises(ConnectionLost, match="broker-stopped"):
            await client.request_response(address("stuck"))


async def test_silence_longer_than_the_lifetime_is_a_loss(broker: FakeBroker) -> None:
    async with connect(broker.url, keepalive_s=0.02, lifetime_s=0.06) as client:
        peer = await broker.peer(0)
        await peer.expect(frames.KEEPALIVE, 4)  # answered ones keep it alive
        assert client.is_connected
        broker.is_silent = True
        call = asyncio.ensure_future(client.request_response(address("x")))
        with pytest.raises(ConnectionLost, match="keepalive-timeout"):
            await call
        await peer.gone.wait()
        broker.is_silent = False
        await client.wait_connected(timeout_s=5)


async def test_keepalive_of_the_broker_is_answered_with_its_data(broker: FakeBroker) -> None:
    async with connect(broker.url):
        peer = await broker.peer(0)
        peer.send(bytes(4) + (frames.KEEPALIVE << 10 | 0x80).to_bytes(2) + bytes(8) + b"ping")
        assert (await peer.expect(frames.KEEPALIVE, 2))[1][3][6:] == bytes(8) + b"ping"


async def test_setup_says_what_connect_was_told(broker: FakeBroker) -> None:
    route_id = "11223344-5566-7788-99aa-bbccddeeff00"
    async with connect(
        broker.url,
        service="orders",
        tags={"region": "eu", "user": None},
        route_id=route_id,
        keepalive_s=3,
        lifetime_s=9,
    ) as client:
        peer = await broker.peer(0)
        setup, route = peer.setup, peer.route
        assert client.route_id == route_id
        assert setup is not None
        assert route is not None
        assert (setup.keep_alive_milliseconds, setup.max_lifetime_milliseconds) == (3000, 9000)
        assert bytes(setup.metadata_encoding) == b"message/x.rsocket.composite-metadata.v0"
        assert bytes(setup.data_encoding) == b"application/octet-stream"
        assert (route.service_name, route.route_id.hex()) == ("orders", route_id.replace("-", ""))
        assert {tag.key.short_name: tag.value for tag in route.tags} == {"region": "eu", "user": None}
        assert [kind for kind, *_ in peer.frames[:2]] == [frames.SETUP, frames.KEEPALIVE]


async def test_frames_that_are_none_end_the_connection_and_not_the_client(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        peer = await broker.peer(0)
        peer.send(b"abc")
        await peer.gone.wait()
        await broker.peer(1)
        await client.wait_connected(timeout_s=5)


async def test_slow_broker_makes_callers_wait_and_not_memory_grow(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        peer = await broker.peer(0)
        blocked = asyncio.Event()
        receive = peer.receive

        async def stop_reading(frame: bytes) -> None:
            await blocked.wait()
            await receive(frame)

        peer.receive = stop_reading  # type: ignore[method-assign]
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await client.fire_and_forget(address("x"), bytes(65536))
                sent += 1

        task = asyncio.create_task(flood())
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.05)  # until nothing moves any more: what is full is the kernel's
        assert sent * 65536 < 64 * 1024 * 1024
        blocked.set()
        await peer.expect(frames.FNF, sent + 10)
        task.cancel()


async def test_close_with_a_broker_that_does_not_read_takes_a_bounded_time(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    peer = await broker.peer(0)
    blocked = asyncio.Event()
    peer.receive = lambda frame: blocked.wait()  # type: ignore[method-assign, assignment, return-value]
    flood = [asyncio.create_task(client.fire_and_forget(address("x"), bytes(1 << 20))) for _ in range(20)]
    await asyncio.sleep(0.05)
    await client.close()
    blocked.set()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_close_ends_handlers_and_pending_calls(broker: FakeBroker) -> None:
    stuck = Stuck()
    server = await connect(broker.url, service=stuck.service)
    async with connect(broker.url) as client:
        call = asyncio.ensure_future(client.request_response(address("stuck")))
        await stuck.began.wait()
        await server.close()
        await stuck.cancelled.wait()
        await client.close()
        with pytest.raises(ConnectionLost, match="closed"):
            await call
        await client.closed()
        await server.close()  # twice does no harm


async def test_close_while_reconnecting_ends_that_too(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    await lose(broker, client)
    waiting = asyncio.ensure_future(client.wait_connected())
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ConnectionLost):
        await waiting


async def test_loss_during_a_channels_first_item_reaches_its_reader(broker: FakeBroker) -> None:
    began = asyncio.Event()

    async def never() -> AsyncIterator[bytes]:
        began.set()
        await asyncio.Event().wait()
        yield b""

    async with connect(broker.url) as client:
        call = asyncio.ensure_future(anext(client.request_channel(address("x"), never())))
        await began.wait()
        (await broker.peer(0)).abort()
        with pytest.raises(ConnectionLost):
            await call


async def test_twenty_losses_under_load_leave_no_call_hanging(broker: FakeBroker) -> None:
    async def ask(client: Client, results: list[str]) -> None:
        for _ in range(50):
            try:
                results.append((await client.request_response(address("echo"), b"x")).__class__.__name__)
            except Exception as error:
                results.append(type(error).__name__)
            await asyncio.sleep(0)

    async with Pair(broker, echo_service()) as client:
        results: list[str] = []
        for number in range(20):
            asks = [asyncio.create_task(ask(client, results)) for _ in range(5)]
            caller = await broker.peer(number + 1)
            await caller.expect(frames.RESPONSE)
            caller.abort()
            await asyncio.wait(asks)
            await broker.peer(number + 2)
            await client.wait_connected(timeout_s=5)
        assert len(results) == 20 * 5 * 50
        assert set(results) <= {"Payload", "ConnectionLost", "NotConnected"}


def test_backoff_doubles_to_a_bound_and_never_runs_in_step() -> None:
    low, high = Backoff(lambda: 0.0), Backoff(lambda: 1.0)
    assert [low.next_s() for _ in range(6)] == [0.05, 0.1, 0.2, 0.4, 0.75, 0.75]
    assert [high.next_s() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.5, 1.5]
    high.reset()
    assert high.next_s() == 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"urls": "http://x"}, "the scheme must be one of tcp://"),
        ({"urls": "tcp://"}, "has no host"),
        ({"urls": "tcp://x:99999"}, "port"),
        ({"urls": "unix://"}, "has no path"),
        ({"urls": []}, "at least one URL"),
        ({"urls": "tcp://x", "keepalive_s": 0}, "keepalive_s"),
        ({"urls": "tcp://x", "keepalive_s": 9, "lifetime_s": 3}, "lifetime_s"),
        ({"urls": "tcp://x", "route_id": "abc"}, "no id"),
        ({"urls": "tcp://x", "tags": {"a": "b"}}, "needs service"),
        ({"urls": "tcp://x", "handler": object}, "needs service"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_dialled(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        connect(**arguments)


def test_names_and_tags_that_no_frame_can_hold_are_refused_before_anything_is_dialled() -> None:
    for service, tags in (("", {}), ("x" * 256, {}), ("x", {"y": "z" * 128}), ("x", {f"y{n}": "" for n in range(200)})):
        with pytest.raises(BadAddress):
            connect("tcp://x", service=service, tags=tags)
