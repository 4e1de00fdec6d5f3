"""Credit of `as_rsocket` both ways, cancelling, and Subscribers that fail."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reactivestreams.subscription import Subscription
from rsocket.extensions.helpers import composite, route
from rsocket.payload import Payload
from rsocket.streams.stream_from_generator import StreamFromGenerator

from client_sdk import connect
from client_sdk.rsocket_py import ClientRSocket
from client_sdk.rsocket_py.publishers import MAX_UNASKED_N
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker, Peer
from tests.client_sdk.frames import credit, payload
from tests.client_sdk.rsocket_py.strangers import THINGS, Counted, Heard, offered, things

COUNT = composite(route("count"))


class Scripted:
    """A client and its peer, where the test answers."""

    def __init__(self, rsocket: ClientRSocket, caller: Peer) -> None:
        self.rsocket = rsocket
        self.caller = caller

    def send(self, *data: bytes, flags: int = frames.NEXT, stream_id: int = 1) -> None:
        for each in data:
            self.caller.send(payload(stream_id, each, flags=flags))


@pytest.fixture
async def scripted(broker: FakeBroker) -> AsyncIterator[Scripted]:
    broker.answer = lambda *_: None
    async with connect(broker.url) as client:
        yield Scripted(client.as_rsocket(THINGS), await broker.peer(0))


async def test_credit_on_the_wire_is_what_the_subscriber_asks_for(scripted: Scripted) -> None:
    heard = Heard()
    scripted.rsocket.request_stream(Payload(b"")).initial_request_n(2).subscribe(heard)
    assert (await scripted.caller.expect(frames.STREAM))[0].n == 2
    scripted.send(b"a", b"b")
    assert await heard.has(2) == [b"a", b"b"]
    heard.subscription.request(3)
    heard.subscription.request(10)
    assert [frame.n for frame in await scripted.caller.expect(frames.REQUEST_N, 2)] == [3, 10]
    scripted.send(b"c")
    scripted.send(b"d", flags=frames.LAST)
    assert await heard.end() == [b"a", b"b", b"c", b"d"]
    assert heard.is_complete
    assert heard.error is None


async def test_credit_that_is_given_before_the_request_has_left_is_not_lost(scripted: Scripted) -> None:
    class Eager(Heard):
        def on_subscribe(self, subscription: Any) -> None:
            super().on_subscribe(subscription)
            subscription.request(4)

    scripted.rsocket.request_stream(Payload(b"")).initial_request_n(1).subscribe(Eager())
    scripted.rsocket.request_channel(Payload(b""), Counted(1)).initial_request_n(1).subscribe(Eager())
    assert [frame.n for frame in await scripted.caller.expect(frames.REQUEST_N, 2)] == [4, 4]
    assert scripted.caller.of(frames.STREAM)[0].n == 1
    assert scripted.caller.of(frames.CHANNEL)[0].n == 1


async def test_items_that_nobody_asked_for_end_the_stream(scripted: Scripted) -> None:
    heard = Heard()
    scripted.rsocket.request_stream(Payload(b"")).initial_request_n(1).subscribe(heard)
    await scripted.caller.expect(frames.STREAM)
    scripted.send(b"a", b"b")
    await heard.end()
    assert heard.data == [b"a"]
    assert "more payloads than REQUEST_N allowed" in str(heard.error)
    await scripted.caller.expect(frames.CANCEL)


async def test_a_publisher_is_asked_as_the_service_gives_credit(scripted: Scripted) -> None:
    publisher, heard = Counted(100), Heard()
    scripted.rsocket.request_channel(Payload(b"first"), publisher).subscribe(heard)
    await scripted.caller.expect(frames.CHANNEL)
    scripted.caller.send(credit(1, 3))
    sent = await scripted.caller.expect(frames.PAYLOAD, 3)
    assert [frame.data for frame in sent] == [b"0", b"1", b"2"]
    await scripted.rsocket.fire_and_forget(Payload(b""))
    assert publisher.asked == [1, 1, 1, 1]  # one ahead of the credit
    heard.subscription.cancel()
    await scripted.caller.expect(frames.CANCEL)
    await publisher.cancelled.wait()


async def test_the_end_of_the_others_half_is_told_while_ours_goes_on(scripted: Scripted) -> None:
    publisher, heard, sent = Counted(2), Heard(), asyncio.Event()
    scripted.rsocket.request_channel(Payload(b"first"), publisher, sent).subscribe(heard)
    await scripted.caller.expect(frames.CHANNEL)
    scripted.send(b"last", flags=frames.LAST)
    assert await heard.end() == [b"last"]
    assert not sent.is_set()
    scripted.caller.send(credit(1, 2))
    await scripted.caller.expect(frames.PAYLOAD, 3)
    await sent.wait()
    assert heard.is_complete


async def test_cancel_after_the_others_half_has_ended_ends_ours(scripted: Scripted) -> None:
    publisher, heard = Counted(0), Heard()
    scripted.rsocket.request_channel(Payload(b"first"), publisher).subscribe(heard)
    await scripted.caller.expect(frames.CHANNEL)
    scripted.caller.send(payload(1, flags=frames.COMPLETE))
    assert await heard.end() == []
    heard.subscription.cancel()
    await scripted.caller.expect(frames.CANCEL)
    await publisher.cancelled.wait()


async def test_cancel_of_the_future_and_of_the_subscription_is_sent(scripted: Scripted) -> None:
    answer = scripted.rsocket.request_response(Payload(b""))
    await scripted.caller.expect(frames.RESPONSE)
    answer.cancel()
    await scripted.caller.expect(frames.CANCEL)
    heard = Heard()
    stream = scripted.rsocket.request_stream(Payload(b""))
    stream.subscribe(heard)
    await scripted.caller.expect(frames.STREAM)
    scripted.send(b"a", stream_id=3)
    await heard.has(1)
    stream.cancel()
    assert [frame.stream_id for frame in await scripted.caller.expect(frames.CANCEL, 2)] == [1, 3]
    scripted.send(b"b", stream_id=3)
    await scripted.rsocket.fire_and_forget(Payload(b""))
    assert heard.data == [b"a"]
    assert not heard.ended  # who cancels hears nothing more


async def test_who_raises_in_on_subscribe_has_asked_for_nothing(scripted: Scripted) -> None:
    class Raising(Heard):
        def on_subscribe(self, subscription: Any) -> None:
            raise ValueError("mine")

    publisher, sent = Counted(3), asyncio.Event()
    with pytest.raises(ValueError, match="mine"):
        scripted.rsocket.request_stream(Payload(b"")).subscribe(Raising())
    with pytest.raises(ValueError, match="mine"):
        scripted.rsocket.request_channel(Payload(b""), publisher, sent).subscribe(Raising())
    assert (publisher.cancelled.is_set(), sent.is_set()) == (True, True)
    await scripted.rsocket.fire_and_forget(Payload(b""))
    await scripted.caller.expect(frames.FNF)
    assert (scripted.caller.of(frames.STREAM), scripted.caller.of(frames.CHANNEL)) == ([], [])


async def test_what_a_request_gives_is_a_subscription_too(scripted: Scripted) -> None:
    stream = scripted.rsocket.request_stream(Payload(b"")).initial_request_n(1)
    stream.request(7)  # of nobody yet
    stream.cancel()
    heard = Heard()
    stream.subscribe(heard)
    assert isinstance(heard.subscription, Subscription)
    await scripted.caller.expect(frames.STREAM)
    stream.request(5)
    assert (await scripted.caller.expect(frames.REQUEST_N))[0].n == 5
    with pytest.raises(RuntimeError, match="a Subscriber reads"):
        await heard.subscription.take()


async def test_what_is_cancelled_before_it_was_sent_is_not_sent(scripted: Scripted) -> None:
    class Hasty(Heard):
        def on_subscribe(self, subscription: Any) -> None:
            subscription.cancel()

    publisher, sent = Counted(3), asyncio.Event()
    scripted.rsocket.request_stream(Payload(b"")).subscribe(Hasty())
    scripted.rsocket.request_channel(Payload(b""), publisher, sent).subscribe(Hasty())
    # Theirs raises in cancel() when nobody has asked it for anything.
    generator = StreamFromGenerator(lambda: iter(()))
    scripted.rsocket.request_channel(Payload(b""), generator).subscribe(Hasty())
    late = scripted.rsocket.request_channel(Payload(b""), Counted(3), late_sent := asyncio.Event())
    late.subscribe(Heard())
    late.cancel()
    await sent.wait()
    await late_sent.wait()
    assert publisher.cancelled.is_set()
    await scripted.rsocket.fire_and_forget(Payload(b""))
    await scripted.caller.expect(frames.FNF)
    assert (scripted.caller.of(frames.STREAM), scripted.caller.of(frames.CHANNEL)) == ([], [])


@pytest.mark.parametrize("where", ["on_next", "on_error", "on_complete"])
async def test_a_subscriber_that_raises_harms_nobody_else(
    broker: FakeBroker, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Raising(Heard):
        def on_next(self, value: Any, is_complete: bool = False) -> None:
            if where == "on_next":
                raise ValueError("mine")
            super().on_next(value, is_complete)

        def on_error(self, exception: Exception) -> None:
            super().on_error(exception)
            if where == "on_error":
                raise ValueError("mine")

        def on_complete(self) -> None:
            super().on_complete()
            raise ValueError("mine")

    async with offered(broker, things()) as (_, rsocket):
        raising, other = Raising(), Heard()
        rsocket.request_stream(Payload(b"0" if where == "on_complete" else b"3", COUNT)).subscribe(raising)
        rsocket.request_stream(Payload(b"5", COUNT)).subscribe(other)
        if where == "on_error":
            unknown = Raising()
            rsocket.request_stream(Payload(b"", composite(route("unknown")))).subscribe(unknown)
            await unknown.end()
        await raising.end()
        if where == "on_next":
            assert str(raising.error) == "mine"
        assert await other.end() == [b"0", b"1", b"2", b"3", b"4"]
        assert (await rsocket.request_response(Payload(b"x", composite(route("echo"))))).data == b"echo x"
    assert "a Subscriber failed" in caplog.text
    caplog.clear()


async def test_a_publisher_that_publishes_too_much_unasked_is_ended(scripted: Scripted) -> None:
    class Flood(Counted):
        def subscribe(self, subscriber: Any) -> None:
            super().subscribe(subscriber)
            for _ in range(MAX_UNASKED_N + 1):
                subscriber.on_next(Payload(b"x"))

    class Full(Counted):
        def subscribe(self, subscriber: Any) -> None:
            super().subscribe(subscriber)
            for _ in range(MAX_UNASKED_N):
                subscriber.on_next(Payload(b"x"))

    full, flood = Full(0), Flood(0)
    full_heard, flood_heard = Heard(), Heard()
    scripted.rsocket.request_channel(Payload(b""), full).subscribe(full_heard)
    scripted.rsocket.request_channel(Payload(b""), flood).subscribe(flood_heard)
    await flood_heard.end()
    assert f"over {MAX_UNASKED_N} items" in str(flood_heard.error)
    assert flood.cancelled.is_set()
    assert not full_heard.ended
    assert not full.cancelled.is_set()
    full_heard.subscription.cancel()
    await full.cancelled.wait()
