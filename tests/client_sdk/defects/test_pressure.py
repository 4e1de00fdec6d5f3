"""Rows 12, 24 and 29: others that do not read, and ask for everything. What is held has a bound: it is measured."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from client_sdk import Client, ConnectionLost, Payload, Service, address
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, credit, payload, ping, request
from tests.client_sdk.raw_broker import RawBroker, ask, assert_answered, at_work, serving
from tests.client_sdk.samples import gives

MIB = 1 << 20
ITEM = 16 << 10
MOST_HELD = 4 * MIB  # by the engine, of what cannot leave: a queue of 1 MiB, what a write takes of it, one item each
MOST_UNDER_WAY = 32 * MIB  # with what the kernel takes on both sides
MOST_UNSENT = 64 * MIB  # of what cannot wait: answers to pings
TO = address("x")


class Source:
    """A service whose streams and channels never end, and the items that its callers' channels send; all counted."""

    def __init__(self) -> None:
        self.service = Service("source")
        self.made = 0

        @self.service.request_stream()
        async def items(data: bytes) -> AsyncIterator[bytes]:
            async for each in self.items():
                yield each

        @self.service.request_channel()
        async def channel(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
            async for each in self.items():
                yield each

        self.service.request_response()(gives(lambda data: data))

    async def items(self) -> AsyncIterator[bytes]:
        while True:
            self.made += 1
            yield b"%016d" % self.made + bytes(ITEM - 16)


class Flood:
    """Callers that send fire-and-forgets of this size as fast as they may; counted."""

    def __init__(self, client: Client, size: int, callers: int) -> None:
        self.size = size
        self.sent = 0
        self._data = bytes(size)
        self._tasks = [asyncio.create_task(self._send(client)) for _ in range(callers)]

    async def _send(self, client: Client) -> None:
        while True:
            await client.fire_and_forget(TO, self._data)
            self.sent += 1

    async def stop(self) -> None:
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def stalled(count: Callable[[], int]) -> int:
    """Waits until it does not grow any more; what it is then."""
    before = -1
    while before != count():
        before = count()
        await asyncio.sleep(0.05)
    return before


@pytest.fixture
def memory() -> Iterator[None]:
    """Python's own memory is counted."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held() -> int:
    """Bytes of Python's memory in use."""
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("kind", [frames.STREAM, frames.CHANNEL])
@pytest.mark.parametrize("streams", [1, 40])
async def test_a_slow_reader_with_all_credit_costs_no_memory(
    raw: RawBroker, memory: None, kind: int, streams: int
) -> None:
    """Row 24, as the one who answers."""
    source = Source()
    async with serving(raw, source.service) as (_, peer):
        peer.stop_reading()
        before = held()
        peer.send(*[request(2 + 2 * number, kind, n=frames.MAX_N) for number in range(streams)])
        made = await stalled(lambda: source.made)
        grown = held() - before
        assert made * ITEM < MOST_UNDER_WAY, f"{made} items of {ITEM} bytes are under way"
        assert grown < MOST_HELD, f"{grown} bytes are held"
        peer.read_on()
        await peer.expect(frames.PAYLOAD, made + 100)
        got = [each.data[:16] for each in peer.on(2) if each.kind == frames.PAYLOAD]
        assert got == sorted(got)
        peer.send(*[Frame(2 + 2 * number, frames.CANCEL) for number in range(streams)])
        assert (await peer.call(100)).data == b"alive"


async def test_a_slow_receiver_of_a_channel_costs_no_memory(raw: RawBroker, memory: None) -> None:
    """Row 24, as the one who asked."""
    source = Source()
    async with serving(raw) as (client, peer):
        channel = client.request_channel(TO, source.items())
        reading = asyncio.ensure_future(anext(channel))
        [asked] = await peer.expect(frames.CHANNEL)
        peer.stop_reading()
        before = held()
        peer.send(credit(asked.stream_id, frames.MAX_N))
        made = await stalled(lambda: source.made)
        grown = held() - before
        assert made * ITEM < MOST_UNDER_WAY, f"{made} items of {ITEM} bytes are under way"
        assert grown < MOST_HELD, f"{grown} bytes are held"
        peer.send(payload(asked.stream_id, b"still"))
        assert (await reading).data == b"still"  # the other direction is not held up
        await channel.aclose()
        peer.read_on()
        await peer.expect(frames.CANCEL)


async def test_callers_wait_where_the_other_side_does_not_read(raw: RawBroker, memory: None) -> None:
    """Row 24: fire-and-forget has no credit; the call itself waits, and a thousand of them are one MiB, not a GiB."""
    async with serving(raw) as (client, peer):
        peer.stop_reading()
        before = held()
        flood = Flood(client, 256 << 10, callers=20)
        sent = await stalled(lambda: flood.sent)
        grown = held() - before
        assert sent * flood.size < MOST_UNDER_WAY
        assert grown < MOST_HELD, f"{grown} bytes are held"
        await flood.stop()
        peer.read_on()
        await peer.expect(frames.FNF, sent)
        await assert_answered(client, peer)


async def test_items_that_the_program_does_not_read_are_not_asked_for(raw: RawBroker) -> None:
    """Row 24, the other direction: what is under way and what waits are never more than the credit of the call."""
    async with serving(raw) as (client, peer):
        stream = client.request_stream(TO, initial_n=5)
        first = asyncio.ensure_future(anext(stream))
        [asked] = await peer.expect(frames.STREAM)
        peer.send(*[payload(asked.stream_id, b"%d" % number) for number in range(5)])
        await first
        await peer.assert_alive()
        assert sum(each.n for each in peer.of(8)) <= 1
        assert [(await anext(stream)).data for _ in range(4)] == [b"1", b"2", b"3", b"4"]
        more = asyncio.ensure_future(anext(stream))
        await peer.expect(8)
        peer.send(payload(asked.stream_id, b"5", flags=frames.LAST))
        assert (await more).data == b"5"
        assert [each async for each in stream] == []


async def test_a_keepalive_waits_for_nothing_that_came_after_it(raw: RawBroker) -> None:
    """Row 12: those of the client, and its answers to the broker's."""
    async with serving(raw, None, keepalive_s=0.05) as (client, peer):
        await peer.expect(frames.KEEPALIVE)
        peer.stop_reading()
        flood = Flood(client, 64 << 10, callers=10)
        last = await stalled(lambda: flood.sent)
        peer.send(ping(b"mark"))
        await asyncio.sleep(0.1)  # it is read, and the client's own next one is due
        pings = len(peer.of(frames.KEEPALIVE))
        peer.read_on()
        await peer.expect(frames.FNF, last + 100)
        await flood.stop()
        answer = Frame(0, frames.KEEPALIVE, 0, bytes(8) + b"mark")
        assert peer.frames.index(answer) <= last + 20
        own = [
            number
            for number, each in enumerate(peer.frames)
            if each.kind == frames.KEEPALIVE and each.flags & frames.RESPOND
        ]
        assert own[min(pings, len(own) - 1)] <= last + 20


async def test_a_keepalive_is_answered_while_many_great_answers_leave(raw: RawBroker) -> None:
    """Row 12, as the one who answers."""
    service, count = Service("s"), 60
    data = bytes(MIB)
    service.request_response()(gives(lambda _: data))

    async with serving(raw, service) as (_, peer):
        peer.send(*[request(2 + 2 * number) for number in range(count)], ping(b"mark"))
        await peer.expect(frames.PAYLOAD, count)
        assert peer.frames.index(Frame(0, frames.KEEPALIVE, 0, bytes(8) + b"mark")) < count // 2


async def test_pings_of_one_who_does_not_read_have_a_bound(raw: RawBroker, memory: None) -> None:
    """Row 24: answers to them cannot wait for anybody's credit; who does not take them is let go, or not read."""
    async with serving(raw) as (client, peer):
        call, _ = await ask(client, peer)
        peer.stop_reading()
        big = ping(bytes(MIB))
        before = held()
        most = 0
        for _ in range(3 * MOST_UNSENT // MIB):
            if peer.gone.is_set() or call.done() or peer.unsent_bytes > 8 * MIB:
                break
            peer.send(big)
            await asyncio.sleep(0.002)
            most = max(most, held() - before - peer.unsent_bytes)
        assert most < MOST_UNSENT + 24 * MIB, f"{most} bytes are held"
        peer.abort()
        with pytest.raises(ConnectionLost):
            await call
        await client.wait_connected(timeout_s=5)


async def test_handlers_that_never_end_have_a_bound(raw: RawBroker) -> None:
    """Row 29: the ten thousand and first request is refused, and a retry of it is safe."""
    async with at_work(raw) as (everything, client, peer):
        for number in range(10_000):
            peer.send(request(2 + 2 * number, frames.RESPONSE, b"wait"))
            if number % 500 == 0:
                await peer.assert_alive()
        await peer.assert_alive()
        refused = await peer.call(30_000)
        assert (refused.kind, refused.code) == (frames.ERROR, 0x202)
        assert refused.body[4:].startswith(b"over-limit: ")
        assert everything.running == 10_000
        peer.send(Frame(2, frames.CANCEL))
        await peer.assert_alive()
        assert (await peer.call(30_002)).data == b"alive"
        await assert_answered(client, peer)  # those of the client's own are not refused for it
