"""Rows 9, 21 and 29: handlers that fail, answer nonsense, never end, or hold the whole program for a moment."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from client_sdk import ApplicationError, Payload, Service, address
from tests.client_sdk import frames
from tests.client_sdk.defects.test_metadata import ROUTE, Named
from tests.client_sdk.frames import Frame, credit, request
from tests.client_sdk.raw_broker import RawBroker, assert_answered, at_work, serving
from tests.client_sdk.samples import echo_service, gives, yields


@pytest.mark.parametrize(
    "failure", [ValueError("secret"), ApplicationError("told"), asyncio.CancelledError("by itself")]
)
async def test_a_failure_that_nobody_waits_for_is_told_to_nobody(
    raw: RawBroker, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 9: neither fire-and-forget nor a push has an answer, not even an ERROR; the log has it."""
    service = echo_service()

    @service.fire_and_forget()
    @service.metadata_push()
    async def fail(data: bytes) -> None:
        raise failure

    async with serving(raw, service) as (_, peer):
        peer.send(request(2, frames.FNF), Frame(0, frames.PUSH, frames.METADATA, b"\x00x\x00\x00\x04push"))
        assert (await peer.call(4)).data == b"alive"
        assert peer.of(frames.ERROR) + peer.on(2) == []
    said = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(said) == 2, caplog.text


@pytest.mark.parametrize("metadata", [b"", b"\xff\xff"])
async def test_requests_without_an_answer_that_cannot_be_served_do_not_fill_the_log(
    raw: RawBroker, metadata: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows 4 and 9: a thousand that no handler is there for, or whose metadata is broken, are a line or two."""
    async with serving(raw, Named().service) as (_, peer):
        for number in range(1000):
            peer.send(
                request(2 + 2 * number, frames.FNF, metadata=metadata),
                Frame(0, frames.PUSH, frames.METADATA, metadata or b"\x00"),
            )
        assert (await peer.call(4000, metadata=ROUTE)).data == b"alive"
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert 1 <= len(said) <= 2, said


@pytest.mark.parametrize("answer", ["text", 5, None, object(), [b"x"], Payload("text")])  # type: ignore[arg-type]
@pytest.mark.parametrize("kind", [frames.RESPONSE, frames.STREAM, frames.CHANNEL])
async def test_an_answer_that_cannot_be_sent_is_a_failure_of_its_handler_alone(
    raw: RawBroker, answer: object, kind: int
) -> None:
    """Row 21, as the one who answers."""
    service = Service("s")
    service.request_response()(gives(lambda data: data if data == b"alive" else answer))

    service.request_stream()(yields(answer))
    service.request_channel()(yields(answer))

    async with serving(raw, service) as (_, peer):
        peer.send(request(2, kind, n=5))
        [told] = await peer.expect(frames.ERROR)
        assert (told.stream_id, told.code) == (2, 0x201)
        assert b"handler-failed: incident" in told.body
        assert (await peer.call(4)).data == b"alive"


@pytest.mark.parametrize("data", ["text", 5, object(), [b"x"]])
async def test_an_item_that_cannot_be_sent_ends_its_channel_on_both_sides(raw: RawBroker, data: object) -> None:
    """Row 21, as the one who asks: its caller is told, and the next call works."""

    async def items() -> AsyncIterator[object]:
        yield b"good"
        yield data

    async with serving(raw) as (client, peer):
        reading = asyncio.ensure_future(anext(client.request_channel(address("x"), items())))
        [asked] = await peer.expect(frames.CHANNEL)
        peer.send(credit(asked.stream_id, 5))
        with pytest.raises(TypeError, match="must be bytes"):
            await reading
        [told] = await peer.expect(frames.ERROR)
        assert told.stream_id == asked.stream_id
        await assert_answered(client, peer)


async def test_handlers_do_not_wait_for_each_other(raw: RawBroker) -> None:
    """Row 29: ten requests whose handlers all wait for the tenth to arrive."""
    service, arrived = Service("s"), 0
    all_there = asyncio.Event()

    @service.request_response()
    async def meet(data: bytes) -> bytes:
        nonlocal arrived
        arrived += 1
        if arrived == 10:
            all_there.set()
        await all_there.wait()
        return data

    async with serving(raw, service) as (_, peer):
        peer.send(*[request(2 + 2 * number, frames.RESPONSE, b"%d" % number) for number in range(10)])
        answers = await peer.expect(frames.PAYLOAD, 10)
        assert {each.data for each in answers} == {b"%d" % number for number in range(10)}


async def test_a_handler_that_never_ends_holds_up_neither_keepalive_nor_cancel_nor_answers(raw: RawBroker) -> None:
    """Row 29."""
    async with at_work(raw) as (everything, client, peer):
        for kind in (frames.RESPONSE, frames.FNF, frames.STREAM, frames.CHANNEL):
            peer.send(request(2 * kind, kind, b"wait"))
        await peer.assert_alive()
        await assert_answered(client, peer)
        assert everything.running == 3  # the channel's handler waits for items of its own accord
        peer.send(Frame(2 * frames.RESPONSE, frames.CANCEL), Frame(2 * frames.STREAM, frames.CANCEL))
        assert (await peer.call(100)).data == b"alive"
        assert everything.cancelled == 2


@pytest.mark.parametrize("role", ["stream", "channel", "caller's channel"])
async def test_items_that_never_wait_leave_the_event_loop_to_others(raw: RawBroker, role: str) -> None:
    """Row 29: with all credit and room for a hundred thousand small ones; a few hundred are made at a time."""
    service, made = Service("s"), 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x"

    @service.request_stream()
    async def items(data: bytes) -> AsyncIterator[bytes]:
        async for each in endless():
            yield each

    @service.request_channel()
    async def channel(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        async for each in endless():
            yield each

    reading: asyncio.Future[Any] = asyncio.ensure_future(asyncio.sleep(0))
    async with serving(raw, service) as (client, peer):
        peer.stop_reading()
        if role == "caller's channel":
            reading = asyncio.ensure_future(anext(client.request_channel(address("x"), endless())))
            peer.read_on()
            [asked] = await peer.expect(frames.CHANNEL)
            peer.stop_reading()
            peer.send(Frame(asked.stream_id, 8, 0, frames.MAX_N.to_bytes(4)))
        else:
            peer.send(request(2, frames.STREAM if role == "stream" else frames.CHANNEL, n=frames.MAX_N))
        longest = last = 0
        while last < 20_000:
            await asyncio.sleep(0)
            longest, last = max(longest, made - last), made
        assert longest <= 1000, f"{longest} items in one turn of the loop"
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        peer.abort()


async def test_a_handler_that_will_not_be_cancelled_is_left_behind_and_close_returns(
    raw: RawBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 29: those that clean up have a bounded time for it."""
    service, may_end = Service("s"), asyncio.Event()

    @service.request_response()
    async def stubborn(data: bytes) -> bytes:
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()
        return data

    try:
        async with serving(raw, service) as (_, peer):
            peer.send(request(2, frames.RESPONSE))
            await peer.assert_alive()
            began_at = time.monotonic()
        assert time.monotonic() - began_at < 5
        assert len(caplog.records) <= 1
    finally:
        may_end.set()
        await asyncio.sleep(0)
