"""Every call × every ending: it ends, says why, and disturbs no other. Rows are those of docs/sdk/defects.md.

A gather is told apart where time is over: it ends without an error, with the answers that there are.
"""

import asyncio
import math
from typing import Any, NamedTuple

import pytest

from client_sdk import errors
from tests.client_sdk import frames
from tests.client_sdk.calls.every_call import ANSWERED, APIS, ASKED, CALLS, NATIVE, WITH_ANSWER, Caller, calling, has
from tests.client_sdk.frames import Frame, error, payload
from tests.client_sdk.raw_broker import RawBroker, RawPeer

NATIVELY_ANSWERED = [(api, call) for api, call in ANSWERED if api in NATIVE]
NATIVELY_ASKED = [(api, call) for api, call in ASKED if api in NATIVE]
CUT = b"\xff\xff\xff" + b"abc"  # declares 16 MiB of metadata, and has 3 bytes


class Ending(NamedTuple):
    """What the broker says on the stream of a call, and the error that the call ends with."""

    said: Frame
    kind: type[errors.ClientError]
    word: str
    code: int


def refusal(code: int, kind: type[errors.ClientError], word: str = "own-word") -> Ending:
    return Ending(error(0, code, f"{word}: boom"), kind, word, code)


def malformed(frame_kind: int, flags: int = 0, body: bytes = b"") -> Ending:
    return Ending(Frame(0, frame_kind, flags, body), errors.ClientError, "bad-frame", 0)


ENDINGS = {
    "handler failed": refusal(0x201, errors.ApplicationError),
    "handler's own code": refusal(0x301, errors.ApplicationError),
    "handler's large code": refusal(0x12345, errors.ApplicationError),
    "handler's last code": refusal(0xFFFFFFFE, errors.ApplicationError),
    "no route": refusal(0x202, errors.NoRoute, "no-route"),
    "over limit": refusal(0x202, errors.OverLimit, "over-limit"),
    "rejected": refusal(0x202, errors.Rejected),
    "route gone": refusal(0x203, errors.RouteLost, "route-lost"),
    "canceled": refusal(0x203, errors.Canceled),
    "broker's deadline": refusal(0x203, errors.DeadlineExceeded, "deadline"),
    "no handler": refusal(0x204, errors.NoHandler, "no-handler"),
    "invalid": refusal(0x204, errors.BadRequest),
    **{f"code {code:#x}": refusal(code, errors.ClientError) for code in (0, 0x101, 0x205, 0xFFFFFFFF)},
    "no word": Ending(error(0, 0x300, "boom"), errors.ClientError, "error", 0x300),
    "metadata beyond the frame": malformed(frames.PAYLOAD, frames.METADATA | frames.NEXT, CUT),
    "metadata beyond the piece": malformed(frames.PAYLOAD, frames.METADATA | frames.FOLLOWS | frames.NEXT, CUT),
    "length of metadata cut": malformed(frames.PAYLOAD, frames.METADATA | frames.NEXT, b"\0"),
    "code cut": malformed(frames.ERROR, 0, b"\0\0\1"),
    "no code": malformed(frames.ERROR),
}


async def stream_of(peer: RawPeer, call: str, count: int = 1) -> int:
    return (await peer.expect(CALLS[call], count))[-1].stream_id


async def error_of(call: "asyncio.Future[Any]") -> Any:
    async with asyncio.timeout(5):
        with pytest.raises(errors.ClientError) as caught:
            await call
    return caught.value


@pytest.mark.parametrize(("api", "call"), ANSWERED)
@pytest.mark.parametrize("flags", [frames.LAST, frames.LAST | frames.FOLLOWS], ids=["last", "last-though-follows"])
async def test_an_answer_ends_a_call(raw: RawBroker, api: str, call: str, flags: int) -> None:
    """Row 7: FOLLOWS is ignored where COMPLETE is set."""
    async with calling(raw, api) as (caller, peer):
        asked = caller.begin(call)
        peer.send(payload(await stream_of(peer, call), b"whole", flags=flags))
        assert await asked == b"whole"


@pytest.mark.parametrize(("api", "call"), ANSWERED)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_what_the_broker_says_of_a_call_ends_it_and_no_other(
    raw: RawBroker, api: str, call: str, ending: str
) -> None:
    """Rows 3, 4 and 5: any code, any malformed answer; nothing is cut to fit, nobody hangs."""
    said, kind, word, code = ENDINGS[ending]
    async with calling(raw, api) as (caller, peer):
        asked = caller.begin(call)
        hurt = await stream_of(peer, call)
        other = caller.begin("request_response")
        spared = await stream_of(peer, "request_response", 2 if CALLS[call] == frames.RESPONSE else 1)
        peer.send(said._replace(stream_id=hurt))
        if call == "gather" and kind is errors.DeadlineExceeded:
            assert await asked is None
        else:
            failure = await error_of(asked)
            assert (type(failure), failure.word, failure.code) == (kind, word, code)
            assert failure.text.startswith("boom") or word == "bad-frame"
        peer.send(payload(spared, b"fine", flags=frames.LAST))
        assert await other == b"fine"


LOSSES = {
    "abort": "connection-lost",
    "half a frame": "connection-lost",
    "goodbye": "broker-stopped",
    "error": "bad-frame",
    "no frame": "bad-frame",
    "closed": "closed",
}


async def lose(caller: Caller, peer: Any, how: str) -> None:
    if how == "error":
        peer.send(error(0, 0x101, "bad-frame: you"))
    elif how == "no frame":
        peer.send(b"abc")
    elif how == "closed":
        await caller.close()
    else:
        if how == "goodbye":
            peer.send(error(0, 0x102, "broker-stopped: bye"))
        elif how == "half a frame":
            peer.write([b"\0\0\x20" + payload(1, b"half").encode()])
        peer.abort()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("loss", LOSSES)
async def test_calls_that_wait_at_the_loss_all_end(raw: RawBroker, api: str, loss: str) -> None:
    """Row 14: whichever way the connection is lost, each has an error of its own; the next one works."""
    async with calling(raw, api) as (caller, peer):
        calls = [each for each in WITH_ANSWER if has(api, each)] * 4
        asked = [caller.begin(each) for each in calls]
        for kind in set(WITH_ANSWER.values()):
            await peer.expect(kind, sum(WITH_ANSWER[each] == kind for each in calls))
        await lose(caller, peer, loss)
        ends = [await error_of(each) for each in asked]
        assert {(type(each), each.word) for each in ends} == {(errors.ConnectionLost, LOSSES[loss])}
        assert len({id(each) for each in ends}) == len(ends)
        if loss != "closed":
            next_peer = await raw.peer(1)
            again = await answered_again(caller, next_peer)
            assert again == b"fine"


async def answered_again(caller: Caller, peer: RawPeer) -> Any:
    """The answer to a call that is made as soon as there is a connection."""
    while True:
        asked = caller.begin("request_response")
        answering = asyncio.create_task(peer.expect(frames.RESPONSE))
        await asyncio.wait([asked, answering], return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            peer.send(payload(answering.result()[0].stream_id, b"fine", flags=frames.LAST))
            return await asked
        answering.cancel()
        assert isinstance(asked.exception(), errors.ConnectionLost)
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(("api", "call"), NATIVELY_ANSWERED)
async def test_a_deadline_ends_a_call_with_a_cancel_and_what_comes_late_is_ignored(
    raw: RawBroker, api: str, call: str
) -> None:
    """Rows 8 and 34: answers to calls that have ended say nothing to those that follow."""
    async with calling(raw, api) as (caller, peer):
        asked = caller.begin(call, timeout_s=0.05)
        late = await stream_of(peer, call)
        if call == "gather":
            assert await asked is None
        else:
            model = "request_response" if call == "multicast" else call
            failure = await error_of(asked)
            assert (type(failure), failure.text) == (errors.DeadlineExceeded, f"{model} timed out after 0.05 s")
            assert isinstance(failure, TimeoutError)
        assert [each.stream_id for each in await peer.expect(frames.CANCEL)] == [late]
        peer.send(payload(late, b"late", flags=frames.LAST), error(late, 0x301), frames.credit(late, 1))
        peer.send(Frame(late, frames.CANCEL), payload(late, b"late", flags=frames.FOLLOWS | frames.NEXT))
        other = caller.begin("request_response")
        spared = await stream_of(peer, "request_response", 2 if CALLS[call] == frames.RESPONSE else 1)
        assert spared != late
        peer.send(payload(late, b"later", flags=frames.LAST), payload(spared, b"mine", flags=frames.LAST))
        assert await other == b"mine"


@pytest.mark.parametrize(("api", "call"), [(api, call) for api, call in ANSWERED if api != "sync"])
async def test_a_cancelled_call_sends_one_cancel(raw: RawBroker, api: str, call: str) -> None:
    async with calling(raw, api) as (caller, peer):
        asked = caller.begin(call)
        stream_id = await stream_of(peer, call)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await peer.expect(frames.CANCEL)
        await peer.assert_alive()
        assert [each.stream_id for each in peer.of(frames.CANCEL)] == [stream_id]


# Without a connection


async def gone(raw: RawBroker, caller: Caller, peer: RawPeer) -> None:
    """Nobody listens any more, and the client knows: the call that waited has ended."""
    waiting = caller.begin("request_response")
    await peer.expect(frames.RESPONSE)
    await raw.stop()
    await error_of(waiting)


@pytest.mark.parametrize(("api", "call"), ASKED)
async def test_a_call_without_a_connection_fails_at_once(raw: RawBroker, api: str, call: str) -> None:
    """Row 14: however often; and when the client is closed it says that."""
    async with calling(raw, api) as (caller, peer):
        await gone(raw, caller, peer)
        for _ in range(2):
            failure = await asyncio.wait_for(error_of(caller.begin(call)), 0.5)
            assert type(failure) is errors.NotConnected
            assert "nothing was sent" in str(failure)
        await caller.close()
        failure = await asyncio.wait_for(error_of(caller.begin(call)), 0.5)
        assert (type(failure), failure.word, isinstance(failure, ConnectionError)) == (
            errors.NotConnected,
            "closed",
            True,
        )


@pytest.mark.parametrize(("api", "call"), NATIVELY_ASKED)
async def test_a_call_that_may_wait_is_made_on_the_next_connection(raw: RawBroker, api: str, call: str) -> None:
    """Row 14: with `wait_for_reconnect`; its answer comes from there."""
    async with calling(raw, api, wait_for_reconnect=True) as (caller, peer):
        await gone(raw, caller, peer)
        asked = caller.begin(call)
        await asyncio.sleep(0)
        assert not asked.done()
        await raw.start(raw.port)
        peer = await raw.peer(1)
        peer.send(payload(await stream_of(peer, call), b"late", flags=frames.LAST))
        assert await asked == (b"late" if call in WITH_ANSWER else None)


@pytest.mark.parametrize(("api", "call"), NATIVELY_ASKED)
async def test_a_call_that_waits_for_a_connection_ends_with_its_patience_its_deadline_or_its_client(
    raw: RawBroker, api: str, call: str
) -> None:
    """Row 14: it must be finite."""
    async with calling(raw, api, wait_for_reconnect=60) as (caller, peer):
        await gone(raw, caller, peer)
        for patience_s in (False, 0.01):
            failure = await error_of(caller.begin(call, wait_for_reconnect=patience_s))
            assert (type(failure), "nothing was sent" in str(failure)) == (errors.NotConnected, True)
        late = caller.begin(call, timeout_s=0.01)
        if call == "gather":
            assert await late is None
        else:
            failure = await error_of(late)
            assert type(failure) is errors.TooLate
            assert failure.text.endswith("timed out after 0.01 s without a connection")
        waiting = caller.begin(call)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await caller.close()
        failure = await error_of(waiting)
        assert (isinstance(failure, errors.ConnectionLost), failure.word) == (True, "closed")


# What cannot be sent


class Refused(NamedTuple):
    """What a call is given, the error that it raises, and for which calls that is so."""

    given: dict[str, Any]
    kind: type[Exception]
    text: str
    calls: tuple[str, ...] = tuple(CALLS)


MIME, TIME = r"1\.\.128", "timeout_s is"
WITH_METADATA = tuple(call for call in CALLS if call != "metadata_push")
WITH_CREDIT = ("request_stream", "request_channel")
MOST = 60 << 20  # bytes of one payload
REFUSED = {
    "a text": Refused({"data": "text"}, TypeError, r"must be bytes; text becomes bytes with text.encode\(\)"),
    "a number": Refused({"data": 5}, TypeError, "must be bytes"),
    "an object": Refused({"data": object()}, TypeError, "must be bytes"),
    "a list": Refused({"data": [b"x"]}, TypeError, "must be bytes"),
    "too much": Refused({"data": bytes(MOST + 1)}, errors.BadRequest, "too-large"),
    "too much metadata": Refused({"metadata": {"a/b": bytes(1 << 24)}}, errors.BadRequest, "too-large", WITH_METADATA),
    "no address": Refused({"to": "orders"}, TypeError, r"(address|multicast)\("),
    "a route too long": Refused({"route": "r" * 300}, ValueError, "route"),
    **{
        f"a mime type of {len(mime)}{'' if mime.isascii() else ', not ASCII'}": Refused(
            {"metadata": {mime: b""}}, ValueError, MIME, WITH_METADATA
        )
        for mime in ("", "m" * 129, "m" * 255, "m" * 256, "m" * 70_000, "mïme", "\N{SNOWMAN}")
    },
    "a push of no mime type": Refused({"mime_type": "m" * 129}, ValueError, MIME, ("metadata_push",)),
    **{f"time {time}": Refused({"timeout_s": time}, ValueError, TIME) for time in (math.nan, -math.inf)},
    **{
        f"credit {n}": Refused({"initial_n": n}, ValueError, "initial_n", WITH_CREDIT)
        for n in (0, -1, frames.MAX_N + 1)
    },
}


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("api", NATIVE)
async def test_what_cannot_be_sent_is_told_to_the_caller_who_wanted_it(raw: RawBroker, api: str, refused: str) -> None:
    """Rows 11, 13, 21 and 26: nothing is sent, and the next call works on the same connection."""
    given, kind, text, calls = REFUSED[refused]
    async with calling(raw, api) as (caller, peer):
        for call in calls:
            with pytest.raises(kind, match=text):
                await caller.begin(call, **given)
        await peer.assert_alive()
        assert [each for each in peer.frames if each.kind in CALLS.values()] == []
        asked = caller.begin("request_response")
        peer.send(payload(await stream_of(peer, "request_response"), b"fine", flags=frames.LAST))
        assert await asked == b"fine"
