"""Errors, deadlines and cancellation: every call ends, and says why."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from client_sdk import (
    ApplicationError,
    BadRequest,
    Client,
    ClientError,
    DeadlineExceeded,
    NoRoute,
    Payload,
    Request,
    Service,
    address,
    connect,
)
from tests.client_sdk import frames
from tests.client_sdk.calls.test_call import Pair, items_of
from tests.client_sdk.fake_broker import FakeBroker, error_frame


class Stuck:
    """A service whose handlers wait for ever, and say when they began and how they ended."""

    def __init__(self) -> None:
        self.service = Service("stuck")
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()

        @self.service.request_response()
        async def answer(data: bytes) -> bytes:
            await self.wait()
            return data

        @self.service.request_stream()
        async def items(data: bytes) -> AsyncIterator[bytes]:
            await self.wait()
            yield data

        @self.service.request_channel()
        async def channel(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
            await self.wait()
            yield b""

    async def wait(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def test_no_route_says_so_and_that_a_retry_is_safe(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        with pytest.raises(NoRoute, match="retry is safe") as caught:
            await client.request_response(address("nobody"))
        assert (caught.value.word, caught.value.code) == ("no-route", 0x202)


async def test_application_error_reaches_the_caller_as_it_was_raised(broker: FakeBroker) -> None:
    shop = Service("shop")

    @shop.request_response()
    async def buy(data: bytes) -> bytes:
        raise ApplicationError("3 are left", word="out-of-stock", code=0x301)

    async with Pair(broker, shop) as client:
        with pytest.raises(ApplicationError) as caught:
            await client.request_response(address("shop"))
        error = caught.value
        assert (error.word, error.text, error.code) == ("out-of-stock", "3 are left", 0x301)


async def test_other_exceptions_stay_in_the_log_under_the_number_that_the_caller_gets(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Service("shop")

    @shop.request_stream()
    async def items(data: bytes) -> AsyncIterator[bytes]:
        yield b"1"
        raise KeyError("the password is 1234")

    with caplog.at_level(logging.ERROR, "client_sdk"):
        async with Pair(broker, shop) as client:
            stream = client.request_stream(address("shop"))
            assert (await anext(stream)).data == b"1"
            with pytest.raises(ApplicationError, match="handler-failed") as caught:
                await anext(stream)
    assert "1234" not in str(caught.value)
    assert caught.value.text.split()[1].strip(";") in caplog.text
    assert "1234" in caplog.text


async def test_handler_that_cancels_itself_or_answers_nonsense_is_a_failure_and_not_a_hang(broker: FakeBroker) -> None:
    odd = Service("odd")

    @odd.request_response("cancel")
    async def cancel(data: bytes) -> bytes:
        raise asyncio.CancelledError

    @odd.request_response("none")
    async def none(data: bytes) -> None:
        return None

    async with Pair(broker, odd) as client:
        for route in ("cancel", "none"):
            with pytest.raises(ApplicationError, match="handler-failed"):
                await client.request_response(address("odd"), route=route)


async def test_missing_handler_is_a_bad_request_that_names_what_is_missing(broker: FakeBroker) -> None:
    async with Pair(broker, Service("empty")) as client:
        with pytest.raises(BadRequest, match=r"no-handler.*request_response.*'create'"):
            await client.request_response(address("empty"), route="create")
        with pytest.raises(BadRequest, match="no-handler"):
            await anext(client.request_stream(address("empty")))
        with pytest.raises(BadRequest, match="no-handler"):
            await anext(client.request_channel(address("empty"), items_of(b"")))


async def test_broken_metadata_is_refused_and_the_connection_lives_on(broker: FakeBroker) -> None:
    service = Service("strict")

    @service.request_response("a")
    async def a(data: bytes) -> bytes:
        return data

    async with connect(broker.url, service=service):
        peer = await broker.peer(0)
        metadata = b"\xfe\xff\xff\xff"
        peer.send((2).to_bytes(4) + (frames.RESPONSE << 10 | 0x100).to_bytes(2) + len(metadata).to_bytes(3) + metadata)
        assert b"bad-metadata" in (await peer.expect(frames.ERROR))[0][3]
        peer.send(
            (4).to_bytes(4)
            + (frames.RESPONSE << 10 | 0x100).to_bytes(2)
            + (6).to_bytes(3)
            + b"\xfe\x00\x00\x02\x01a"
            + b"x"
        )
        assert (await peer.expect(frames.PAYLOAD))[0][3][6:] == b"x"


@pytest.mark.parametrize("code", [0x0, 0x101, 0x201, 0x204, 0x301, 0x12345, 0xFFFFFFFE, 0xFFFFFFFF])
async def test_every_error_code_ends_the_call(broker: FakeBroker, code: int) -> None:
    stuck = Stuck()
    async with Pair(broker, stuck.service) as client:
        call = asyncio.ensure_future(client.request_response(address("stuck")))
        stream = asyncio.ensure_future(anext(client.request_stream(address("stuck"))))
        caller = await broker.peer(1)
        one = (await caller.expect(frames.RESPONSE))[0][1]
        two = (await caller.expect(frames.STREAM))[0][1]
        caller.send(error_frame(one, code, "boom"))
        caller.send(error_frame(two, code, "x")[:-1] + b"\xff")  # no UTF-8
        for waiting in (call, stream):
            with pytest.raises(ClientError) as caught:
                await waiting
            assert caught.value.code == code


MODELS = ("request_response", "request_stream", "request_channel")


async def first_answer(client: Client, model: str, timeout_s: float | None = None) -> Payload:
    to = address("stuck")
    if model == "request_response":
        return await client.request_response(to, timeout_s=timeout_s)
    if model == "request_stream":
        return await anext(client.request_stream(to, timeout_s=timeout_s))
    return await anext(client.request_channel(to, items_of(b"1"), timeout_s=timeout_s))


@pytest.mark.parametrize("model", MODELS)
async def test_deadline_ends_the_call_and_sends_cancel(broker: FakeBroker, model: str) -> None:
    stuck = Stuck()
    async with Pair(broker, stuck.service) as client:
        with pytest.raises(DeadlineExceeded, match=r"0\.05 s"):
            await first_answer(client, model, timeout_s=0.05)
        await (await broker.peer(1)).expect(frames.CANCEL)
        await stuck.cancelled.wait()


async def test_deadline_is_a_timeout_error(broker: FakeBroker) -> None:
    stuck = Stuck()
    async with Pair(broker, stuck.service) as client:
        with pytest.raises(TimeoutError):
            await client.request_response(address("stuck"), timeout_s=0.01)


@pytest.mark.parametrize("model", MODELS)
async def test_cancelled_await_sends_cancel_and_cancels_the_handler(broker: FakeBroker, model: str) -> None:
    stuck = Stuck()
    async with Pair(broker, stuck.service) as client:
        task = asyncio.create_task(first_answer(client, model))
        await stuck.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await (await broker.peer(1)).expect(frames.CANCEL)) == 1
        await stuck.cancelled.wait()


async def test_leaving_the_loop_early_sends_cancel(broker: FakeBroker) -> None:
    numbers = Service("numbers")
    closed = asyncio.Event()

    @numbers.request_stream()
    async def count(request: Request) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"1"
        finally:
            closed.set()

    async with Pair(broker, numbers) as client:
        async for _ in client.request_stream(address("numbers"), initial_n=2):
            break
        await (await broker.peer(1)).expect(frames.CANCEL)
        await closed.wait()


async def test_channel_left_early_closes_the_callers_items(broker: FakeBroker) -> None:
    echo = Service("echo")
    closed = asyncio.Event()

    @echo.request_channel()
    async def back(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
        async for payload in payloads:
            yield payload

    async def forever() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            closed.set()

    async with Pair(broker, echo) as client:
        async with client.request_channel(address("echo"), forever()) as channel:
            await anext(channel)
        await closed.wait()
        assert len(await (await broker.peer(1)).expect(frames.CANCEL)) == 1


async def test_channel_cancelled_before_its_first_item_sends_nothing(broker: FakeBroker) -> None:
    began = asyncio.Event()
    closed = asyncio.Event()

    async def never() -> AsyncIterator[bytes]:
        try:
            began.set()
            await asyncio.Event().wait()
            yield b""
        finally:
            closed.set()

    async with connect(broker.url) as client:
        task = asyncio.ensure_future(anext(client.request_channel(address("echo"), never())))
        await began.wait()
        task.cancel()
        await closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await broker.peer(0)).of(frames.CHANNEL) == []


async def test_answer_that_crosses_the_cancel_disturbs_nobody(broker: FakeBroker) -> None:
    stuck = Stuck()
    async with Pair(broker, stuck.service) as client:
        with pytest.raises(DeadlineExceeded):
            await client.request_response(address("stuck"), timeout_s=0.01)
        caller = await broker.peer(1)
        caller.send((1).to_bytes(4) + (frames.PAYLOAD << 10 | 0x60).to_bytes(2) + b"late")
        caller.send(error_frame(1, 0x201, "later"))
        with pytest.raises(NoRoute):
            await client.request_response(address("nobody"))


async def test_peer_that_sends_more_items_than_asked_is_cut_off(broker: FakeBroker) -> None:
    stuck = Stuck()
    async with Pair(broker, stuck.service) as client:
        stream = client.request_stream(address("stuck"), initial_n=2)
        first = asyncio.ensure_future(anext(stream))
        caller = await broker.peer(1)
        stream_id = (await caller.expect(frames.STREAM))[0][1]
        for _ in range(3):
            caller.send(stream_id.to_bytes(4) + (frames.PAYLOAD << 10 | 0x20).to_bytes(2) + b"x")
        await first
        await anext(stream)
        with pytest.raises(BadRequest, match="nobody had asked"):
            await anext(stream)
        await caller.expect(frames.CANCEL)


async def test_requests_to_a_caller_only_are_refused(broker: FakeBroker) -> None:
    async with connect(broker.url):
        peer = await broker.peer(0)
        peer.send((2).to_bytes(4) + (frames.RESPONSE << 10).to_bytes(2) + b"x")
        assert b"no-handler" in (await peer.expect(frames.ERROR))[0][3]
