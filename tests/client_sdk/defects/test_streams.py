"""Rows 10, 20, 23 and 30: streams that are left early leave nothing behind, whoever leaves, and whenever."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from client_sdk import ClientError, ConnectionLost, Payload, Service, address, connect
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, credit, error, payload, request
from tests.client_sdk.raw_broker import KINDS, MODELS, Everything, RawBroker, begin, begin_all, serving
from tests.client_sdk.samples import Endless
from tests.system.support.waits import until

MANY = 100


class Watched:
    """A service whose streams and channels never end by themselves, and that counts those that run."""

    def __init__(self) -> None:
        self.service = Service("watched")
        self.begun = 0
        self.open = 0

        @self.service.request_stream()
        async def items(data: bytes) -> AsyncIterator[bytes]:
            with self._counted():
                while True:
                    yield b"item"

        @self.service.request_channel()
        async def read(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
            with self._counted():
                async for _ in payloads:
                    yield b"item"
                await asyncio.Event().wait()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.begun += 1
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


@pytest.mark.parametrize("kind", [frames.STREAM, frames.CHANNEL])
async def test_a_hundred_streams_that_were_cancelled_leave_no_handler(raw: RawBroker, kind: int) -> None:
    """Row 10, as the one who answers: CANCEL ends both halves of a channel."""
    watched = Watched()
    async with serving(raw, watched.service) as (_, peer):
        tasks = len(asyncio.all_tasks())
        for number in range(MANY):
            peer.send(request(2 + 2 * number, kind, b"x", n=1))
        await peer.expect(frames.PAYLOAD, MANY)
        assert watched.open == MANY
        for number in range(MANY):
            peer.send(Frame(2 + 2 * number, frames.CANCEL))
        await peer.assert_alive()
        await until(lambda: watched.open == 0 and len(asyncio.all_tasks()) == tasks)
        peer.send(*[credit(2 + 2 * number, 5) for number in range(MANY)])
        await peer.assert_alive()
        assert len(peer.of(frames.PAYLOAD)) == MANY
        assert peer.of(frames.ERROR) + peer.of(frames.CANCEL) == []


@pytest.mark.parametrize("kind", [frames.RESPONSE, frames.STREAM, frames.CHANNEL])
async def test_request_and_cancel_in_one_segment(raw: RawBroker, kind: int) -> None:
    """Row 30: no answer, no error, no handler that is left."""
    watched = Watched()
    everything = Everything()
    service = everything.service if kind == frames.RESPONSE else watched.service
    async with serving(raw, service) as (_, peer):
        tasks = len(asyncio.all_tasks())
        for number in range(MANY):
            peer.send(request(2 + 2 * number, kind, b"wait", n=frames.MAX_N), Frame(2 + 2 * number, frames.CANCEL))
        await peer.assert_alive()
        await until(lambda: len(asyncio.all_tasks()) == tasks)
        assert (watched.open, everything.running) == (0, 0)
        assert peer.of(frames.ERROR) == []


@pytest.mark.parametrize("when", ["before an answer", "after an item"])
async def test_a_channel_that_its_caller_leaves_closes_the_items_that_it_sends(raw: RawBroker, when: str) -> None:
    """Row 10, as the one who asked."""
    endless = Endless()
    async with serving(raw) as (client, peer):
        tasks = len(asyncio.all_tasks())
        channel = client.request_channel(address("x"), endless.items())
        reading = asyncio.ensure_future(anext(channel))
        [asked] = await peer.expect(frames.CHANNEL)
        peer.send(credit(asked.stream_id, frames.MAX_N if when == "before an answer" else 1))
        await peer.expect(frames.PAYLOAD)
        if when == "after an item":
            peer.send(payload(asked.stream_id, b"item"))
            await reading
            await channel.aclose()
        else:
            reading.cancel()
        await peer.expect(frames.CANCEL)
        await asyncio.wait_for(endless.closed.wait(), 5)
        await until(lambda: len(asyncio.all_tasks()) == tasks)
        with contextlib.suppress(asyncio.CancelledError):
            await reading


async def test_a_cancel_of_the_one_who_answers_ends_the_half_that_sends(raw: RawBroker) -> None:
    """Row 10: other libraries say so "stop your half"; what they send is still read."""
    endless = Endless()
    async with serving(raw) as (client, peer):
        channel = client.request_channel(address("x"), endless.items())
        reading = asyncio.ensure_future(anext(channel))
        [asked] = await peer.expect(frames.CHANNEL)
        peer.send(Frame(asked.stream_id, frames.CANCEL))
        await asyncio.wait_for(endless.closed.wait(), 5)
        peer.send(payload(asked.stream_id, b"1"), payload(asked.stream_id, b"2", flags=frames.LAST))
        assert [(await reading).data, *[each.data async for each in channel]] == [b"1", b"2"]
        assert peer.of(frames.CANCEL) == []


class BadReader(Exception):
    """What somebody else's code raises."""


@pytest.mark.parametrize("number", range(3))
async def test_readers_that_fail_at_the_loss_do_not_keep_it_from_others(raw: RawBroker, number: int) -> None:
    """Row 20: every call of a lost connection ends, whatever those beside it do."""

    async def bad(model: str) -> None:
        try:
            await begin(client, model)
        except ClientError:
            raise BadReader from None

    async with serving(raw) as (client, peer):
        models = [MODELS[(number + each) % 3] for each in range(30)]
        calls = [asyncio.create_task(bad(model)) for model in models]
        calls += [asyncio.create_task(bad(model)) for model in models]
        futures = [asyncio.ensure_future(begin(client, model)) for model in models]

        def shout(_: object) -> None:
            raise BadReader

        unheard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context["exception"]))
        for each in futures[:5]:
            each.add_done_callback(shout)
        for model in MODELS:
            await peer.expect(KINDS[model], 30)
        peer.abort()
        ends = await asyncio.wait_for(asyncio.gather(*calls, *futures, return_exceptions=True), 5)
        assert [type(each) for each in ends] == [BadReader] * 60 + [ConnectionLost] * 30
        assert [type(each) for each in unheard] == [BadReader] * 5  # what those have asked for themselves
        await client.wait_connected(timeout_s=5)


async def test_handlers_that_fail_when_they_are_cancelled_do_not_keep_others_from_their_end(raw: RawBroker) -> None:
    """Row 20, as the one who answers."""
    service = Service("s")
    ended = 0

    @service.request_response()
    async def bad(data: bytes) -> bytes:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1
            raise BadReader

    @service.request_stream()
    async def bad_items(data: bytes) -> AsyncIterator[bytes]:
        nonlocal ended
        try:
            while True:
                yield b"x"
        finally:
            ended += 1
            raise BadReader

    async with serving(raw, service) as (client, peer):
        for number in range(5):
            peer.send(request(2 + 4 * number, frames.RESPONSE), request(4 + 4 * number, frames.STREAM))
        await peer.expect(frames.PAYLOAD, 5)
        peer.abort()
        await raw.peer(1)
        await client.wait_connected(timeout_s=5)
        assert ended == 10


async def test_close_returns_when_all_is_closed(raw: RawBroker) -> None:
    """Row 23: afterwards there is no socket, no task and no handler, and calls have their error."""
    everything = Everything()
    before = asyncio.all_tasks()
    client = await connect(raw.url, service=everything.service)
    peer = await raw.peer()
    calls = await begin_all(client, peer)
    peer.send(request(2, frames.RESPONSE, b"wait"))
    await peer.assert_alive()
    await client.close()
    assert all(each.done() for each in calls)
    assert [type(each.exception()) for each in calls] == [ConnectionLost] * 3
    assert (everything.running, everything.cancelled) == (0, 1)
    await peer.assert_gone()
    await until(lambda: asyncio.all_tasks() <= before)


async def test_what_was_sent_before_close_has_been_sent(raw: RawBroker) -> None:
    """Row 23: closing drops nothing that a call has returned for."""
    async with connect(raw.url) as client:
        for number in range(200):
            await client.fire_and_forget(address("x"), b"%d" % number)
    peer = await raw.peer()
    await peer.assert_gone()
    assert len([each for each in peer.frames if each.kind == 5]) == 200


async def test_items_that_wait_are_read_before_the_error_is(raw: RawBroker) -> None:
    """Row 20: an error or a loss overtakes nothing that has arrived."""
    async with serving(raw) as (client, peer):
        for is_loss in (False, True):
            stream = client.request_stream(address("x"), initial_n=8)
            first = asyncio.ensure_future(anext(stream))
            asked = (await peer.expect(frames.STREAM, 1 + is_loss))[-1]
            peer.send(*[payload(asked.stream_id, b"%d" % number, flags=frames.NEXT) for number in range(3)])
            if is_loss:
                await peer.assert_alive()
                peer.abort()
            else:
                peer.send(error(asked.stream_id, 0x201, "boom"))
            got = [(await first).data]
            got += [(await anext(stream)).data for _ in range(2)]
            with pytest.raises(ClientError):
                await anext(stream)
            assert got == [b"0", b"1", b"2"]


async def test_a_stream_that_is_complete_in_its_last_item_has_that_item(raw: RawBroker) -> None:
    """Rows 7 and 25: the end does not swallow what it comes with, nor the credit that is under way."""
    async with serving(raw) as (client, peer):
        stream = client.request_stream(address("x"), initial_n=2)
        first = asyncio.ensure_future(anext(stream))
        [asked] = await peer.expect(frames.STREAM)
        assert asked.n == 2
        peer.send(payload(asked.stream_id, b"1"))
        await first
        second = asyncio.ensure_future(anext(stream))
        [more] = await peer.expect(frames.REQUEST_N)
        assert more.n == 1
        peer.send(
            payload(asked.stream_id, b"2", flags=frames.LAST), payload(asked.stream_id, b"", flags=frames.COMPLETE)
        )
        assert [(await second).data, *[each.data async for each in stream]] == [b"2"]
        assert peer.of(frames.CANCEL) == []
