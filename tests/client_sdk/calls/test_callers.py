"""Calls that are tried again, asked twice, kept waiting, given up: what is on the wire, and what the caller gets."""

import asyncio
import math
from typing import Any, NamedTuple

import pytest

from client_sdk import NO_RETRY, Hedging, RetryBudget, RetryPolicy, address, connect, errors
from client_sdk.calls.call import Call
from client_sdk.metadata import read_entries
from rsocket_wire.wire.frames import MIME_TYPE_V0, Address, decode_frame
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker, Peer, broker_frame
from tests.client_sdk.frames import Frame, error, payload
from tests.client_sdk.samples import items_of

TO = address("x")
AGAIN = RetryPolicy(3, first_delay_s=0, max_delay_s=0)
CANCELED = 0x203


def address_of(frame: Frame) -> Address:
    """The ADDRESS of a request."""
    found = broker_frame(frame.metadata or b"")
    assert isinstance(found, Address)
    return found


class Script:
    """What the broker answers to requests, one after the other: an ERROR (code, text), data, or None for silence."""

    def __init__(self, broker: FakeBroker, *answers: tuple[int, str] | bytes | None) -> None:
        self.answers = list(answers)
        self.asked_n = 0
        self.peer: Peer | None = None
        broker.answer = self.answer

    def answer(self, peer: Peer, frame: Frame) -> None:
        self.asked_n += 1
        self.peer = peer
        answer = self.answers.pop(0)
        if isinstance(answer, bytes):
            peer.send(payload(frame.stream_id, answer, flags=frames.LAST))
        elif answer is not None:
            peer.send(error(frame.stream_id, *answer))


NO_ROUTE = (0x202, "no-route: nobody")
OVER_LIMIT = (0x202, "over-limit: busy")
ROUTE_LOST = (CANCELED, "route-lost: it went")


# Retries


class Tried(NamedTuple):
    """What the broker answers, the policy of the client, options of the call, and what becomes of it."""

    answers: list[tuple[int, str] | bytes | None]
    retry: RetryPolicy
    options: dict[str, Any]
    outcome: bytes | type[errors.ClientError]
    asked_n: int


ONE_IN_TEN_S = RetryBudget(ratio=0, min_per_s=0.1)
TRIED = {
    "a rejected call is tried again": Tried([NO_ROUTE, OVER_LIMIT, b"at last"], AGAIN, {}, b"at last", 3),
    "no more often than the policy says, and the last error counts": Tried(
        [OVER_LIMIT, OVER_LIMIT, NO_ROUTE], AGAIN, {}, errors.NoRoute, 3
    ),
    "one call may want none": Tried([NO_ROUTE], AGAIN, {"retry": NO_RETRY}, errors.NoRoute, 1),
    "one call may want some": Tried([NO_ROUTE, b"yes"], NO_RETRY, {"retry": AGAIN}, b"yes", 2),
    "what may have been processed is not": Tried([ROUTE_LOST], AGAIN, {}, errors.RouteLost, 1),
    "but where it is marked": Tried([ROUTE_LOST, b"yes"], AGAIN, {"idempotent": True}, b"yes", 2),
    "a retry behind the deadline is not waited for": Tried(
        [NO_ROUTE], RetryPolicy(first_delay_s=3600, max_delay_s=3600), {"timeout_s": 60}, errors.NoRoute, 1
    ),
    "without a budget left an error is an error": Tried(
        [NO_ROUTE] * 3, RetryPolicy(5, first_delay_s=0, max_delay_s=0, budget=ONE_IN_TEN_S), {}, errors.NoRoute, 2
    ),
    "what is not marked is never asked twice": Tried(
        [None], NO_RETRY, {"hedging": Hedging(after_s=0.001), "timeout_s": 0.05}, errors.DeadlineExceeded, 1
    ),
    "a second request behind the deadline is not made": Tried(
        [None],
        NO_RETRY,
        {"hedging": Hedging(after_s=60), "timeout_s": 0.02, "idempotent": True},
        errors.DeadlineExceeded,
        1,
    ),
}


@pytest.mark.parametrize("tried", TRIED.values(), ids=TRIED)
async def test_a_call_is_made_again_where_it_may_be(broker: FakeBroker, tried: Tried) -> None:
    script = Script(broker, *tried.answers)
    async with connect(broker.url, retry=tried.retry) as client:
        call = client.request_response(TO, b"1", **tried.options)
        if isinstance(tried.outcome, bytes):
            assert (await call).data == tried.outcome
        else:
            with pytest.raises(tried.outcome):
                await call
        assert script.asked_n == tried.asked_n


async def test_a_try_that_takes_too_long_is_given_up_and_tried_again(broker: FakeBroker) -> None:
    script = Script(broker, None, b"second")
    policy = RetryPolicy(first_delay_s=0, max_delay_s=0, try_timeout_s=0.02)
    async with connect(broker.url, retry=policy) as client:
        assert (await client.request_response(TO, timeout_s=10, idempotent=True)).data == b"second"
        peer = await broker.peer(0)
        assert [frame.stream_id for frame in await peer.expect(frames.CANCEL)] == [1]
        assert [repr(tag) for tag in address_of(peer.of(frames.RESPONSE)[0]).metadata] == ["deadline_ms=20"]
        assert script.asked_n == 2


async def test_all_tries_together_end_at_the_deadline(broker: FakeBroker) -> None:
    Script(broker, None)
    policy = RetryPolicy(100, first_delay_s=0, max_delay_s=0, budget=RetryBudget(min_per_s=1000))
    async with connect(broker.url, retry=policy) as client:
        with pytest.raises(errors.DeadlineExceeded, match=r"request_response timed out after 0\.05 s"):
            await client.request_response(TO, timeout_s=0.05, idempotent=True)


async def test_an_idempotent_call_outlives_its_connection(broker: FakeBroker) -> None:
    script = Script(broker, None, b"yes")
    async with connect(broker.url, retry=AGAIN, wait_for_reconnect=True) as client:
        call = asyncio.ensure_future(client.request_response(TO, idempotent=True))
        await (await broker.peer(0)).expect(frames.RESPONSE)
        (await broker.peer(0)).abort()
        assert (await call).data == b"yes"
        assert (script.asked_n, len(broker.peers)) == (2, 2)


async def test_a_stream_is_tried_again_before_its_first_item(broker: FakeBroker) -> None:
    script = Script(broker, NO_ROUTE, ROUTE_LOST, b"item")
    async with connect(broker.url, retry=AGAIN) as client:
        assert [item.data async for item in client.request_stream(TO, idempotent=True)] == [b"item"]
        assert script.asked_n == 3


async def test_a_stream_that_has_begun_is_not_tried_again(broker: FakeBroker) -> None:
    script = Script(broker, None)
    async with connect(broker.url, retry=AGAIN) as client:
        stream = client.request_stream(TO, idempotent=True)
        first = asyncio.ensure_future(anext(stream))
        peer = await broker.peer(0)
        stream_id = (await peer.expect(frames.STREAM))[0].stream_id
        peer.send(payload(stream_id, b"1"))
        assert (await first).data == b"1"
        peer.send(error(stream_id, *NO_ROUTE))
        with pytest.raises(errors.NoRoute):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert script.asked_n == 1


async def test_a_stream_that_was_tried_and_is_left_sends_cancel(broker: FakeBroker) -> None:
    Script(broker, NO_ROUTE, None)
    async with connect(broker.url, retry=AGAIN) as client:
        peer = await broker.peer(0)
        async with client.request_stream(TO) as stream:
            first = asyncio.ensure_future(anext(stream))
            stream_id = (await peer.expect(frames.STREAM, 2))[1].stream_id
            peer.send(payload(stream_id, b"1"))
            await first
        assert [frame.stream_id for frame in await peer.expect(frames.CANCEL)] == [stream_id]
        dropped = client.request_stream(TO)
        await dropped.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(dropped)


async def test_a_channel_is_not_tried_again(broker: FakeBroker) -> None:
    script = Script(broker, NO_ROUTE)
    async with connect(broker.url, retry=AGAIN) as client:
        with pytest.raises(errors.NoRoute):
            await anext(client.request_channel(TO, items_of(b"1")))
        assert script.asked_n == 1


@pytest.mark.parametrize("model", ["fire_and_forget", "metadata_push"])
def test_what_nobody_answers_is_tried_again_only_when_it_was_not_sent(model: str) -> None:
    call = Call(model, TO, None, b"", b"", timeout_s=None, retry=AGAIN)
    assert call.may_retry(errors.NotConnected("x"))
    assert not call.may_retry(errors.NoRoute("x"))
    assert not call.may_retry(errors.ConnectionLost("x"))


# Hedges


async def test_an_idempotent_call_that_is_late_is_asked_twice_and_the_slow_one_gets_cancel(broker: FakeBroker) -> None:
    script = Script(broker, None, b"second")
    async with connect(broker.url, hedging=Hedging(after_s=0.01)) as client:
        assert (await client.request_response(TO, idempotent=True, timeout_s=5)).data == b"second"
        peer = await broker.peer(0)
        assert [frame.stream_id for frame in await peer.expect(frames.CANCEL)] == [1]
        assert script.asked_n == 2


async def test_what_is_late_is_learnt_from_the_calls(broker: FakeBroker) -> None:
    script = Script(broker, *[b"quick"] * 20, None, b"second")
    async with connect(broker.url) as client:
        hedging = Hedging()
        for _ in range(20):
            await client.request_response(TO, idempotent=True, hedging=hedging)
        assert (await client.request_response(TO, idempotent=True, hedging=hedging)).data == b"second"
        assert script.asked_n == 22


# Deadlines


def deadlines_of(peer: Peer) -> list[list[str]]:
    return [[repr(tag) for tag in address_of(frame).metadata] for frame in peer.of(frames.RESPONSE)]


async def test_the_clients_deadline_holds_for_calls_that_have_none(broker: FakeBroker) -> None:
    Script(broker, None, b"1", b"2", b"item")
    async with connect(broker.url, timeout_s=0.03) as client:
        with pytest.raises(errors.DeadlineExceeded, match=r"request_response timed out after 0\.03 s"):
            await client.request_response(TO)
        await client.request_response(TO, timeout_s=60)
        await client.request_response(TO, timeout_s=math.inf)
        await anext(client.request_stream(TO))
        peer = await broker.peer(0)
        assert deadlines_of(peer) == [["deadline_ms=30"], ["deadline_ms=60000"], []]
        assert address_of(peer.of(frames.STREAM)[0]).metadata == []  # a stream may last


@pytest.mark.parametrize(("mime_type", "wanted"), [(MIME_TYPE_V0, None), (None, False)])
async def test_who_would_not_understand_is_told_no_deadline(
    broker: FakeBroker, mime_type: str | None, wanted: bool | None
) -> None:
    Script(broker, b"1")
    more = {} if mime_type is None else {"mime_type": mime_type}
    async with connect(broker.url, says_deadlines=wanted, **more) as client:  # type: ignore[arg-type]
        await client.request_response(TO, timeout_s=60)
        assert deadlines_of(await broker.peer(0)) == [[]]


# What a call carries


async def test_entries_stand_behind_address_and_route(broker: FakeBroker) -> None:
    Script(broker, b"1")
    async with connect(broker.url) as client:
        await client.request_response(TO, b"data", route="find", metadata={"application/json": b"{}"})
        [frame] = (await broker.peer(0)).of(frames.RESPONSE)
        found = read_entries(frame.metadata or b"")
        assert found is not None
        assert isinstance(decode_frame(found[0][1]), Address)
        assert found[1:] == [("message/x.rsocket.routing.v0", b"\x04find"), ("application/json", b"{}")]
        assert frame.data == b"data"
