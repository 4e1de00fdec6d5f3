"""Handlers written for rsocket-py, all five models, behind our client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reactivestreams.subscriber import DefaultSubscriber
from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketProtocolError
from rsocket.helpers import create_future, create_response
from rsocket.payload import Payload as TheirPayload
from rsocket.request_handler import BaseRequestHandler
from rsocket.routing.request_router import RequestRouter
from rsocket.routing.routing_request_handler import RoutingRequestHandler
from rsocket.streams.error_stream import ErrorStream
from rsocket.streams.stream_from_async_generator import StreamFromAsyncGenerator

from client_sdk import Payload, address, connect, errors
from client_sdk.rsocket_py import HandlerSource
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.rsocket_py.strangers import Counted, Heard
from tests.client_sdk.samples import cancel, items_of


class Theirs(BaseRequestHandler):  # type: ignore[misc]
    def __init__(self) -> None:
        self.seen: asyncio.Queue[Any] = asyncio.Queue()

    async def request_response(self, payload: Any) -> Any:
        return create_response(b"echo " + payload.data)

    async def request_fire_and_forget(self, payload: Any) -> None:
        self.seen.put_nowait(payload.data)

    async def on_metadata_push(self, payload: Any) -> None:
        self.seen.put_nowait(payload.metadata)

    async def request_stream(self, payload: Any) -> Any:
        async def generate() -> AsyncIterator[tuple[Any, bool]]:
            for number in range(20):
                yield TheirPayload(b"%d" % number), number == 19

        return StreamFromAsyncGenerator(generate)

    async def request_channel(self, payload: Any) -> tuple[Any, Any]:
        total = [int(payload.data)]
        done = asyncio.Event()
        holder: list[Any] = []

        def on_subscribe(subscription: Any) -> None:
            holder.append(subscription)
            subscription.request(1)

        def on_next(value: Any, is_complete: bool) -> None:
            total[0] += int(value.data)
            holder[0].request(1)

        async def generate() -> AsyncIterator[tuple[Any, bool]]:
            await done.wait()
            yield TheirPayload(b"%d" % total[0]), True

        subscriber = DefaultSubscriber(on_next=on_next, on_complete=done.set, on_subscribe=on_subscribe)
        return StreamFromAsyncGenerator(generate), subscriber


async def test_all_five_models_reach_their_handler(broker: FakeBroker) -> None:
    made: list[Theirs] = []

    def factory() -> Theirs:
        made.append(Theirs())
        return made[0]

    async with connect(broker.url, service="theirs", handler=factory), connect(broker.url) as client:
        to = address("theirs")
        answer = await client.request_response(to, b"hello")
        assert isinstance(answer, TheirPayload)
        assert answer.data == b"echo hello"
        await client.fire_and_forget(to, b"note")
        assert await made[0].seen.get() == b"note"
        await client.metadata_push(to, b"pushed")
        assert (await made[0].seen.get()).endswith(b"pushed")
        assert [int(item.data or b"") async for item in client.request_stream(to, initial_n=3)] == list(range(20))
        numbers = [b"%d" % number for number in range(50)]
        assert [item async for item in client.request_channel(to, items_of(*numbers))] == [Payload(b"1225", None)]
        assert len(made) == 1


async def test_a_class_an_instance_a_factory_and_a_router_are_handlers(broker: FakeBroker) -> None:
    router = RequestRouter()

    @router.response("greet")  # type: ignore[untyped-decorator]
    async def greet(payload: Any) -> Any:
        return create_response(b"echo " + payload.data)

    sources: list[HandlerSource] = [Theirs, Theirs(), lambda: Theirs(), router, RoutingRequestHandler(router)]
    for source in sources:
        async with connect(broker.url, service="theirs", handler=source), connect(broker.url) as client:
            assert (await client.request_response(address("theirs"), b"x", route="greet")).data == b"echo x"
    async with connect(broker.url, service="theirs", handler=router), connect(broker.url) as client:
        with pytest.raises(errors.ClientError):
            await client.request_response(address("theirs"), b"x", route="unknown")
    wrong: Any
    for wrong in (object(), dict, lambda: None):
        with pytest.raises(TypeError, match="it must be or make"):
            connect(broker.url, service="theirs", handler=wrong)


async def test_on_setup_is_told_what_our_setup_says(broker: FakeBroker) -> None:
    class Listening(Theirs):
        async def on_setup(self, data_encoding: bytes, metadata_encoding: bytes, payload: Any) -> None:
            self.seen.put_nowait((data_encoding, metadata_encoding, payload))

    handler = Listening()
    async with connect(broker.url, service="theirs", handler=handler):
        composite = b"message/x.rsocket.composite-metadata.v0"
        data_encoding, metadata_encoding, payload = handler.seen.get_nowait()
        assert (data_encoding, metadata_encoding, payload.data) == (b"application/octet-stream", composite, b"")
        setup = (await broker.peer(0)).setup
        assert setup is not None
        assert payload.metadata == bytes(setup.metadata)


async def test_a_handler_that_refuses_the_setup_is_not_connected(broker: FakeBroker) -> None:
    class Refusing(Theirs):
        async def on_setup(self, data_encoding: bytes, metadata_encoding: bytes, payload: Any) -> None:
            raise ValueError("only JSON")

    with pytest.raises(errors.SetupRejected, match="only JSON"):
        async with connect(broker.url, service="theirs", handler=Refusing):
            pass
    assert broker.peers == []


async def test_a_handler_that_waits_holds_nobody_up(broker: FakeBroker) -> None:
    class Waiting(Theirs):
        async def request_response(self, payload: Any) -> Any:
            if payload.data == b"wait":
                await asyncio.Event().wait()
            return create_response(payload.data)

    async with connect(broker.url, service="theirs", handler=Waiting), connect(broker.url) as client:
        waiting = asyncio.ensure_future(client.request_response(address("theirs"), b"wait"))
        assert (await client.request_response(address("theirs"), b"go on")).data == b"go on"
        await cancel(waiting)


async def test_the_caller_cancels_their_future(broker: FakeBroker) -> None:
    class Slow(Theirs):
        async def request_response(self, payload: Any) -> Any:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self.seen.put_nowait(future)
            return future

    handler = Slow()
    async with connect(broker.url, service="theirs", handler=handler), connect(broker.url) as client:
        answer = asyncio.ensure_future(client.request_response(address("theirs")))
        future = await handler.seen.get()
        answer.cancel()
        await asyncio.wait([future, answer])
        assert future.cancelled()


async def test_their_publisher_is_asked_for_what_the_caller_takes_and_one_more(broker: FakeBroker) -> None:
    publisher = Counted(100)

    class Streaming(Theirs):
        async def request_stream(self, payload: Any) -> Any:
            return publisher

    async with connect(broker.url, service="theirs", handler=Streaming), connect(broker.url) as client:
        async with client.request_stream(address("theirs"), initial_n=3) as items:
            assert (await anext(items)).data == b"0"
            await (await broker.peer(0)).expect(frames.PAYLOAD, 3)
            await client.request_response(address("theirs"))
            assert publisher.asked == [1, 1, 1, 1]
        await publisher.cancelled.wait()


class Channelling(Theirs):
    """Its channels publish nothing and end with their subscriber, which asks for `wanted_n` items and keeps them."""

    def __init__(self, wanted_n: int, publisher: Any = None) -> None:
        super().__init__()
        self.wanted_n = wanted_n
        self.publisher = publisher
        self.subscriber = Heard()

    async def request_channel(self, payload: Any) -> tuple[Any, Any]:
        self.seen.put_nowait(payload.data)
        on_subscribe = self.subscriber.on_subscribe

        def ask(subscription: Any) -> None:
            on_subscribe(subscription)
            subscription.request(self.wanted_n)

        self.subscriber.on_subscribe = ask
        return self.publisher, self.subscriber


async def endless() -> AsyncIterator[bytes]:
    yield b"first"
    await asyncio.Event().wait()


async def test_their_subscriber_gets_what_it_asks_for(broker: FakeBroker) -> None:
    handler = Channelling(2)
    async with connect(broker.url, service="theirs", handler=handler), connect(broker.url) as client:
        numbers = items_of(*(b"%d" % number for number in range(6)))
        channel = client.request_channel(address("theirs"), numbers)
        ended = asyncio.ensure_future(anext(channel, None))
        assert await handler.subscriber.has(2) == [b"1", b"2"]
        await client.request_response(address("theirs"))
        assert (await handler.seen.get(), handler.subscriber.data) == (b"0", [b"1", b"2"])
        handler.subscriber.subscription.request(10)
        assert await handler.subscriber.end() == [b"1", b"2", b"3", b"4", b"5"]
        assert await ended is None


async def test_their_subscriber_is_told_when_the_caller_goes(broker: FakeBroker) -> None:
    publisher = Counted(0)
    handler = Channelling(100, publisher)

    async with connect(broker.url, service="theirs", handler=handler), connect(broker.url) as client:
        async with client.request_channel(address("theirs"), endless()) as channel:
            waiting = asyncio.ensure_future(anext(channel))
            await handler.seen.get()
            while handler.subscriber.subscription is None:
                await asyncio.sleep(0)
        await handler.subscriber.end()
        assert isinstance(handler.subscriber.error, RSocketProtocolError)
        assert handler.subscriber.error.error_code is ErrorCode.CANCELED
        await publisher.cancelled.wait()
        await cancel(waiting)


@pytest.mark.parametrize("publisher", [None, Counted(0)], ids=["silent", "publishing"])
async def test_their_subscriber_that_raises_ends_its_channel_only(broker: FakeBroker, publisher: Any) -> None:
    class Raising(Heard):
        def on_next(self, value: Any, is_complete: bool = False) -> None:
            raise ValueError("mine")

    handler = Channelling(10, publisher)
    handler.subscriber = Raising()
    async with connect(broker.url, service="theirs", handler=handler), connect(broker.url) as client:
        with pytest.raises(errors.ApplicationError, match="mine"):
            async for _ in client.request_channel(address("theirs"), items_of(b"0", b"1", b"2")):
                pass
        assert (await client.request_response(address("theirs"), b"x")).data == b"echo x"


async def test_their_codes_and_words_reach_the_caller(broker: FakeBroker) -> None:
    class Failing(Theirs):
        async def request_response(self, payload: Any) -> Any:
            code, _, text = payload.data.decode().partition(" ")
            raise RSocketProtocolError(int(code), data=text) if code else ValueError(text)

        async def request_stream(self, payload: Any) -> Any:
            return ErrorStream(RSocketProtocolError(ErrorCode.CANCELED, data="no more"))

    async with connect(broker.url, service="theirs", handler=Failing), connect(broker.url) as client:
        wanted = {
            b"514 full up": (errors.Rejected, 0x202, "rejected", "full up"),
            b"514 no-lease: none is left": (errors.NoLease, 0x202, "no-lease", "none is left"),
            b"516 odd": (errors.BadRequest, 0x204, "bad-request", "odd"),
            b"769 out-of-stock: 3": (errors.ApplicationError, 0x301, "out-of-stock", "3"),
            b"1 x": (errors.ApplicationError, 0x201, "application-error", "x"),
            b" their text": (errors.ApplicationError, 0x201, "application-error", "their text"),
        }
        for sent, told in wanted.items():
            with pytest.raises(errors.ClientError) as caught:
                await client.request_response(address("theirs"), sent)
            assert (type(caught.value), caught.value.code, caught.value.word, caught.value.text) == told
        with pytest.raises(errors.Canceled, match="no more"):
            await anext(client.request_stream(address("theirs")))


async def test_their_subscriber_that_cancels_stops_the_callers_half(broker: FakeBroker) -> None:
    handler = Channelling(2, Counted(1))
    async with connect(broker.url, service="theirs", handler=handler), connect(broker.url) as client:
        items = client.request_channel(address("theirs"), items_of(*(b"%d" % number for number in range(100))))
        assert (await anext(items)).data == b"0"
        await handler.subscriber.has(2)
        handler.subscriber.subscription.cancel()
        await (await broker.peer(0)).expect(frames.CANCEL)
        assert handler.subscriber.data == [b"1", b"2"]
        await items.aclose()


async def test_a_caller_that_is_lost_is_told_even_to_a_subscriber_that_raises(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Raising(Heard):
        def on_error(self, exception: Exception) -> None:
            super().on_error(exception)
            raise ValueError("mine")

    handler = Channelling(10, Counted(0))
    handler.subscriber = Raising()
    async with connect(broker.url, service="theirs", handler=handler), connect(broker.url) as client:
        waiting = asyncio.ensure_future(anext(client.request_channel(address("theirs"), endless())))
        await handler.seen.get()
        while handler.subscriber.subscription is None:
            await asyncio.sleep(0)
        (await broker.peer(0)).abort()
        await handler.subscriber.end()
        await cancel(waiting)
    assert "a Subscriber failed in on_error" in caplog.text


async def test_a_handler_that_gives_no_payload_has_failed(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Theirs):
        async def request_response(self, payload: Any) -> Any:
            return create_future(b"no payload")

    async with connect(broker.url, service="theirs", handler=Odd), connect(broker.url) as client:
        with pytest.raises(errors.ApplicationError, match="incident"):
            await client.request_response(address("theirs"))
    assert "it must give a Payload" in caplog.text


async def test_errors_of_ours_pass_through_their_handlers(broker: FakeBroker) -> None:
    class Mixed(Theirs):
        async def request_response(self, payload: Any) -> Any:
            raise errors.ApplicationError("only 3 are left", word="out-of-stock", code=0x301)

    async with connect(broker.url, service="theirs", handler=Mixed), connect(broker.url) as client:
        with pytest.raises(errors.ApplicationError) as caught:
            await client.request_response(address("theirs"))
        assert (caught.value.word, caught.value.code) == ("out-of-stock", 0x301)


async def test_their_generators_end_when_the_caller_goes(broker: FakeBroker) -> None:
    cancelled = asyncio.Event()

    class Endless(Theirs):
        async def request_stream(self, payload: Any) -> Any:
            async def generate() -> AsyncIterator[tuple[Any, bool]]:
                number = 0
                while True:
                    yield TheirPayload(b"%d" % number), False
                    number += 1

            return StreamFromAsyncGenerator(generate, on_cancel=cancelled.set)

    async with connect(broker.url, service="theirs", handler=Endless), connect(broker.url) as client:
        async with client.request_stream(address("theirs"), initial_n=2) as items:
            assert (await anext(items)).data == b"0"
        await cancelled.wait()
