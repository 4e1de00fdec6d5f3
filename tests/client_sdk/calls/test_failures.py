"""Errors, deadlines and cancellation: every call ends, and says why."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from client_sdk import ApplicationError, BadRequest, Request, RetryPolicy, Service, address, connect
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.frames import payload
from tests.client_sdk.samples import Never, Pair, raises, yields


async def test_other_exceptions_stay_in_the_log_under_the_number_that_the_caller_gets(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Service("shop")
    shop.request_stream()(yields(b"1", then=KeyError("the password is 1234")))

    with caplog.at_level(logging.ERROR, "client_sdk"):
        async with Pair(broker, shop) as client:
            stream = client.request_stream(address("shop"))
            assert (await anext(stream)).data == b"1"
            with pytest.raises(ApplicationError, match="handler-failed") as caught:
                await anext(stream)
    assert "1234" not in str(caught.value)
    assert caught.value.text.split()[1].strip(";") in caplog.text
    assert "1234" in caplog.text


async def test_handler_that_cancels_itself_is_a_failure_and_not_a_hang(broker: FakeBroker) -> None:
    odd = Service("odd")
    odd.request_response()(raises(asyncio.CancelledError()))

    async with Pair(broker, odd) as client:
        with pytest.raises(ApplicationError, match="handler-failed"):
            await client.request_response(address("odd"))


@pytest.mark.parametrize(
    "options", [{}, {"retry": RetryPolicy(), "wait_for_reconnect": True}], ids=["plain", "retried"]
)
async def test_leaving_the_loop_early_sends_cancel(broker: FakeBroker, options: dict[str, Any]) -> None:
    numbers = Service("numbers")
    closed = asyncio.Event()

    @numbers.request_stream()
    async def count(request: Request) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"1"
        finally:
            closed.set()

    async with connect(broker.url, service=numbers), connect(broker.url, **options) as client:
        async for _ in client.request_stream(address("numbers"), initial_n=2):
            break
        await (await broker.peer(1)).expect(frames.CANCEL)
        await closed.wait()


async def test_channel_cancelled_before_its_first_item_sends_nothing(broker: FakeBroker) -> None:
    never = Never()
    async with connect(broker.url) as client:
        task = asyncio.ensure_future(anext(client.request_channel(address("echo"), never.items())))
        await never.began.wait()
        task.cancel()
        await never.closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await broker.peer(0)).of(frames.CHANNEL) == []


async def test_peer_that_sends_more_items_than_asked_is_cut_off(broker: FakeBroker) -> None:
    broker.answer = lambda *_: None
    async with connect(broker.url) as client:
        stream = client.request_stream(address("x"), initial_n=2)
        first = asyncio.ensure_future(anext(stream))
        caller = await broker.peer(0)
        stream_id = (await caller.expect(frames.STREAM))[0].stream_id
        for _ in range(3):
            caller.send(payload(stream_id, b"x"))
        await first
        await anext(stream)
        with pytest.raises(BadRequest, match="more payloads than REQUEST_N allowed"):
            await anext(stream)
        await caller.expect(frames.CANCEL)
