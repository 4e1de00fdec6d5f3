"""Handlers written for rsocket-py, all five models, behind our client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reactivestreams.subscriber import DefaultSubscriber
from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketProtocolError
from rsocket.helpers import create_response
from rsocket.payload import Payload as TheirPayload
from rsocket.request_handler import BaseRequestHandler
from rsocket.routing.request_router import RequestRouter
from rsocket.routing.routing_request_handler import RoutingRequestHandler
from rsocket.streams.stream_from_async_generator import StreamFromAsyncGenerator

from client_sdk import ApplicationError, ClientError, Payload, Rejected, address, connect
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.test_calls import items_of


class Theirs(BaseRequestHandler):  # type: ignore[misc]
    def __init__(self) -> None:
        self.seen: asyncio.Queue[Any] = asyncio.Queue()

    async def request_response(self, payload: Any) -> Any:
        if payload.data == b"boom":
            raise ValueError("their text")
        if payload.data == b"full":
            raise RSocketProtocolError(ErrorCode.REJECTED, data="full up")
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


async def test_their_texts_and_codes_reach_the_caller(broker: FakeBroker) -> None:
    async with connect(broker.url, service="theirs", handler=Theirs), connect(broker.url) as client:
        with pytest.raises(ApplicationError, match="their text"):
            await client.request_response(address("theirs"), b"boom")
        with pytest.raises(Rejected, match="full up"):
            await client.request_response(address("theirs"), b"full")


async def test_their_router_finds_the_route_that_our_caller_names(broker: FakeBroker) -> None:
    router = RequestRouter()

    async def greet(payload: Any) -> Any:
        return create_response(b"hello " + payload.data)

    router.response("greet")(greet)

    service = connect(broker.url, service="theirs", handler=lambda: RoutingRequestHandler(router))
    async with service, connect(broker.url) as client:
        assert (await client.request_response(address("theirs"), b"ada", route="greet")).data == b"hello ada"
        with pytest.raises(ClientError):
            await client.request_response(address("theirs"), b"ada", route="unknown")
