"""Row 18, with a session to resume: whatever the broker answers, what waits ends, and the client comes back."""

import asyncio
import logging

import pytest

from client_sdk import ClientError, ConnectionLost, address
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, error, payload
from tests.client_sdk.raw_broker import (
    KINDS,
    Attempts,
    Everything,
    RawBroker,
    assert_answered,
    at_work,
    begin,
    begin_all,
    serving,
)

WORD = "unknown-session: never heard of it"
REFUSALS: dict[str, tuple[Frame | bytes, ...]] = {
    "rejected": (error(0, 0x004, WORD),),
    "rejected twice": (error(0, 0x004, WORD), error(0, 0x004, WORD)),
    "a position that was never sent": (Frame(0, frames.RESUME_OK, 0, (1 << 40).to_bytes(8)),),
    "a position between frames": (Frame(0, frames.RESUME_OK, 0, (3).to_bytes(8)),),
    "a position that is cut off": (Frame(0, frames.RESUME_OK, 0, b"\0\0"), error(0, 0x004, WORD)),
    "frames before the answer": (payload(1, b"early", flags=frames.LAST), error(0, 0x004, WORD)),
    "no frame": (b"abc",),
    "closed": (error(0, 0x102, "draining: not now"),),
    "another error": (error(0, 0x301, "what: is this"),),
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_session_that_cannot_be_resumed_ends_and_a_new_one_begins(
    raw: RawBroker, attempts: Attempts, refusal: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 18: ten times refused, however; calls end, handlers too, and the next SETUP is as good as the first."""
    everything = Everything()
    with caplog.at_level(logging.WARNING, "client_sdk"):
        async with serving(raw, everything.service, resume=True, connect_timeout_s=0.1) as (client, peer):
            calls = await begin_all(client, peer)
            peer.send(Frame(2, frames.RESPONSE, 0, b"wait"))
            await peer.assert_alive()
            raw.greeting, raw.answers_pings = REFUSALS[refusal], False  # type: ignore[assignment]
            peer.abort()
            await raw.peer(10)
            raw.greeting, raw.answers_pings = (), True
            ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 8)
            assert all(isinstance(each, ClientError) for each in ends), ends
            await client.wait_connected(timeout_s=5)
            peer = raw.peers[-1]
            assert [each.kind for each in peer.frames[:1]] == [frames.SETUP]
            assert everything.running == 0
            assert (await peer.call(2)).data == b"alive"
            await assert_answered(client, peer)
    assert len(caplog.records) <= 4, caplog.text


async def test_a_resume_is_answered_and_what_ran_goes_on(raw: RawBroker, attempts: Attempts) -> None:
    """Row 18: the stream has what came before and after, once; the handler was never disturbed."""
    async with at_work(raw, resume=True) as (everything, client, peer):
        stream = client.request_stream(address("x"), b"x", initial_n=8)
        first = asyncio.ensure_future(anext(stream))
        [asked] = await peer.expect(KINDS["request_stream"])
        peer.send(payload(asked.stream_id, b"1"), Frame(2, frames.RESPONSE, 0, b"wait"))
        assert (await first).data == b"1"
        await peer.assert_alive()
        sent = sum(len(each.encode()) for each in peer.frames if each.stream_id)
        raw.answers_pings = False
        peer.abort()
        again = await raw.peer(1)
        [resume] = await again.expect(frames.RESUME)
        assert len(resume.body) > 4
        again.answers_pings = True
        again.send(Frame(0, frames.RESUME_OK, 0, sent.to_bytes(8)), payload(asked.stream_id, b"2", flags=frames.LAST))
        assert [each.data async for each in stream] == [b"2"]
        assert everything.running == 1
        assert [each.kind for each in again.frames if each.kind == frames.SETUP] == []


async def test_a_session_whose_broker_is_silent_ends_its_calls_with_their_deadlines(
    raw: RawBroker, attempts: Attempts
) -> None:
    """Rows 14 and 18: no call waits longer than it may, with a session or without one."""
    async with serving(raw, None, resume=True, connect_timeout_s=0.05) as (client, peer):
        calls = await begin_all(client, peer, timeout_s=0.5)
        raw.answers_pings = False
        peer.abort()
        ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 3)
        assert all(isinstance(each, TimeoutError | ConnectionLost) for each in ends), ends
        with pytest.raises((TimeoutError, ConnectionLost)):
            await asyncio.wait_for(begin(client, "request_response", timeout_s=0.2), 3)


async def test_a_client_that_closes_while_it_resumes_is_closed(raw: RawBroker, attempts: Attempts) -> None:
    """Rows 18 and 23: what waits ends now."""
    async with serving(raw, None, resume=True) as (client, peer):
        call = begin(client, "request_response")
        await peer.expect(frames.RESPONSE)
        raw.answers_pings = False
        peer.abort()
        await (await raw.peer(1)).expect(frames.RESUME)
        await asyncio.wait_for(client.close(), 3)
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(call, 1)
