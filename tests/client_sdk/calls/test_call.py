"""The five interaction models, caller and service both ours, through a broker that forwards."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from client_sdk import Payload, Request, Service, address, connect
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.samples import Endless, Pair, echo_service, items_of


async def test_request_response_brings_data_and_metadata_both_ways(broker: FakeBroker) -> None:
    orders = Service("orders", tags={"region": "eu"})
    seen: list[Request] = []

    @orders.request_response("create")
    async def create(request: Request) -> Payload:
        seen.append(request)
        return Payload(b"created " + request.data, b"meta")

    async with Pair(broker, orders) as client:
        to = address(service="orders", region="eu")
        answer = await client.request_response(
            to, b"a book", route="create", metadata={"application/json": b"{}"}, timeout_s=5
        )
        assert (answer.data, answer.metadata) == (b"created a book", b"meta")
        request = seen[0]
        assert (request.model, request.route) == ("request_response", "create")
        assert request.entry("application/json") == b"{}"
        assert request.address is not None
        assert request.address.tags == to.tags
        assert request.address.origin_route_id == client.route_id


@pytest.mark.parametrize("initial_n", [1, 2, 5, 32])
async def test_stream_never_has_more_items_under_way_than_asked(broker: FakeBroker, initial_n: int) -> None:
    numbers, made_n = Service("numbers"), 0

    @numbers.request_stream()
    async def count(request: Request) -> AsyncIterator[bytes]:
        nonlocal made_n
        while True:
            made_n += 1
            yield b"x"

    async with Pair(broker, numbers) as client:
        taken = 0
        async with client.request_stream(address("numbers"), initial_n=initial_n) as stream:
            async for _ in stream:
                taken += 1
                assert len((await broker.peer(0)).of(frames.PAYLOAD)) <= taken - 1 + initial_n
                if taken == 50:
                    break
        caller, server = await broker.peer(1), await broker.peer(0)
        await caller.expect(frames.CANCEL)
        asked = initial_n + sum(frame.n for frame in caller.of(frames.REQUEST_N))
        assert asked <= 49 + initial_n
        assert len(server.of(frames.PAYLOAD)) <= asked
        assert made_n <= asked + 1  # one ahead, to see the end


async def test_stream_is_requested_with_its_first_item_and_not_before(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        stream = client.request_stream(address("clock"))
        with pytest.raises(Exception, match="no-route"):
            await client.request_response(address("clock"))
        assert (await broker.peer(0)).of(frames.STREAM) == []
        with pytest.raises(Exception, match="no-route"):
            await anext(stream)


async def test_channel_sends_only_what_the_service_asked_for(broker: FakeBroker) -> None:
    sink = Service("sink")
    read = asyncio.Event()
    done = asyncio.Event()

    @sink.request_channel()
    async def take(request: Request, payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        await read.wait()
        count = 0
        async for _ in payloads:
            count += 1
        done.set()
        yield b"%d" % count

    async with Pair(broker, sink) as client:
        channel = client.request_channel(address("sink"), items_of(*[b""] * 100))
        first = asyncio.ensure_future(anext(channel))
        caller = await broker.peer(1)
        await caller.expect(frames.CHANNEL)
        with pytest.raises(Exception, match="no-handler"):
            await client.request_response(address("sink"))
        assert caller.of(frames.PAYLOAD) == []  # only the item in the request itself has left
        read.set()
        assert (await first).data == b"100"
        assert done.is_set()
        with pytest.raises(StopAsyncIteration):
            await anext(channel)


async def test_channel_whose_service_stops_early_stops_the_caller(broker: FakeBroker) -> None:
    taste, endless = Service("taste"), Endless()

    @taste.request_channel()
    async def three(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        for _ in range(3):
            payload = await anext(payloads)
            yield payload.data or b""

    async with Pair(broker, taste) as client:
        channel = client.request_channel(address("taste"), endless.items())
        assert len([item async for item in channel]) == 3
        await endless.closed.wait()
        assert len(await (await broker.peer(0)).expect(frames.CANCEL)) == 1


async def test_channel_without_items_ends_and_sends_nothing(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        assert [item async for item in client.request_channel(address("echo"), items_of())] == []
        with pytest.raises(Exception, match="no-route"):
            await client.request_response(address("echo"))
        assert (await broker.peer(0)).of(frames.CHANNEL) == []


async def test_channel_whose_own_items_fail_raises_that_and_tells_the_service(broker: FakeBroker) -> None:
    answered = asyncio.Event()

    async def broken() -> AsyncIterator[bytes]:
        yield b"1"
        await answered.wait()
        raise TimeoutError("my own")

    async with Pair(broker, echo_service()) as client:
        channel = client.request_channel(address("echo"), broken())
        assert (await anext(channel)).data == b"1"
        answered.set()
        with pytest.raises(TimeoutError, match="my own"):
            await anext(channel)
        [told] = await (await broker.peer(1)).expect(frames.ERROR)
        assert told.code == 0x201


async def test_a_channel_without_items_of_its_own_is_no_stream(broker: FakeBroker) -> None:
    async with Pair(broker, echo_service()) as client:
        with pytest.raises(TypeError, match="async iterable"):
            await anext(client.request_channel(address("echo"), None))  # type: ignore[call-overload]
        assert (await broker.peer(0)).of(frames.STREAM) == []
