"""Services and callers that many tests of the SDK have."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from client_sdk import Client, Payload, Service, connect
from tests.client_sdk.listener import Listener


async def items_of(*items: bytes) -> AsyncIterator[bytes]:
    for item in items:
        yield item


class Endless:
    """Items that never end, and whether they were closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def items(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            self.closed.set()


class Never:
    """Items of which not even the first comes, whether it was asked for, and whether they were closed."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.closed = asyncio.Event()

    async def items(self) -> AsyncIterator[bytes]:
        try:
            self.began.set()
            await asyncio.Event().wait()
            yield b""
        finally:
            self.closed.set()


def echo_service(name: str = "echo", **tags: str | None) -> Service:
    """Gives back what it gets: data, data as the only item, items."""
    service = Service(name, tags=tags)

    @service.request_response()
    async def answer(data: bytes) -> bytes:
        return data

    @service.request_stream()
    async def item(data: bytes) -> AsyncIterator[bytes]:
        yield data

    @service.request_channel()
    async def items(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
        async for payload in payloads:
            yield payload

    return service


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

    async def wait(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class Pair:
    """A service and a caller, connected to the same broker."""

    def __init__(self, broker: Listener[Any], service: Service) -> None:
        self.broker = broker
        self.service = service

    async def __aenter__(self) -> Client:
        self.server = await connect(self.broker.url, service=self.service)
        self.client = await connect(self.broker.url)
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.server.close()
