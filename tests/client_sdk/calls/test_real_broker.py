"""The SDK through the broker of this project."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from client_sdk import (
    ApplicationError,
    NoRoute,
    Payload,
    RouteLost,
    Service,
    address,
    connect,
    multicast,
)
from client_sdk.testing import local_broker
from tests.client_sdk.samples import Stuck, echo_service, items_of


def all_models() -> tuple[Service, asyncio.Queue[bytes]]:
    service = Service("all")
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    @service.request_response("up")
    async def up(data: bytes) -> bytes:
        return data.upper()

    @service.request_response("fail")
    async def fail(data: bytes) -> bytes:
        raise ApplicationError("no", word="own-word", code=0x301)

    @service.fire_and_forget()
    async def note(data: bytes) -> None:
        seen.put_nowait(data)

    @service.metadata_push("all")
    async def pushed(data: bytes) -> None:
        seen.put_nowait(data)

    @service.request_stream()
    async def count(data: bytes) -> AsyncIterator[bytes]:
        for number in range(int(data)):
            yield b"%d" % number

    @service.request_channel()
    async def echo(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
        async for payload in payloads:
            yield payload

    return service, seen


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_all_models_and_errors_pass_the_broker(scheme: str) -> None:
    service, seen = all_models()
    async with local_broker(listen=[scheme]) as url, connect(url, service=service), connect(url) as client:
        to = address("all")
        assert await client.request_response(to, b"abc", route="up", timeout_s=5) == Payload(b"ABC")
        await client.fire_and_forget(to, b"note")
        assert await seen.get() == b"note"
        await client.metadata_push(to, b"push", route="all")
        assert await seen.get() == b"push"
        assert len([item async for item in client.request_stream(to, b"500", initial_n=5)]) == 500
        sent = [b"%d" % number for number in range(300)]
        assert [item.data async for item in client.request_channel(to, items_of(*sent), initial_n=4)] == sent
        with pytest.raises(ApplicationError) as caught:
            await client.request_response(to, route="fail")
        assert (caught.value.word, caught.value.code) == ("own-word", 0x301)
        with pytest.raises(NoRoute, match="mars"):
            await client.request_response(address("all", region="mars"))


async def test_route_that_leaves_in_the_middle_is_route_lost() -> None:
    stuck = Stuck()
    async with local_broker() as url, connect(url) as client:
        server = await connect(url, service=stuck.service)
        call = asyncio.ensure_future(client.request_response(address("stuck")))
        await stuck.began.wait()
        await server.close()
        with pytest.raises(RouteLost):
            await call


async def test_multicast_asks_everybody_and_cancels_the_slow() -> None:
    slow = Stuck()
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(local_broker())
        for service in (slow.service, echo_service()):
            await stack.enter_async_context(connect(url, service=service, tags={"group": "g"}))
        client = await stack.enter_async_context(connect(url))
        assert (await client.request_response(multicast(group="g"), b"x", timeout_s=5)).data == b"x"
        await slow.cancelled.wait()
