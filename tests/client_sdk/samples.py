"""Services and callers that many tests of the SDK have."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from client_sdk import Client, Payload, Service, connect
from client_sdk.testing import LocalBroker, local_broker
from tests.client_sdk.listener import Listener
from tests.system.support.relay import Relay


async def cancel(task: asyncio.Future[Any]) -> None:
    """And waits for its end."""
    task.cancel()
    await asyncio.wait([task])


async def items_of(*items: bytes) -> AsyncIterator[bytes]:
    for item in items:
        yield item


def gives(give: Callable[[Any], Any]) -> Callable[[bytes], Awaitable[Any]]:
    """A handler that answers with what the function makes of the data."""

    async def handler(data: bytes) -> Any:
        return give(data)

    return handler


def raises(error: BaseException) -> Callable[[bytes], Awaitable[bytes]]:
    """A handler that fails."""

    async def handler(data: bytes) -> bytes:
        raise error

    return handler


def yields(*items: object, then: BaseException | None = None) -> Callable[[object], AsyncIterator[object]]:
    """A handler of streams, or channels, with these items; and then it fails, if it is told to."""

    async def handler(asked: object) -> AsyncIterator[object]:
        for item in items:
            yield item
        if then is not None:
            raise then

    return handler


def yields_of(make: Callable[[bytes], Iterable[object]]) -> Callable[[bytes], AsyncIterator[object]]:
    """A handler of streams, whose items the function makes of the data."""

    async def handler(data: bytes) -> AsyncIterator[object]:
        for item in make(data):
            yield item

    return handler


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
    service.request_response()(gives(lambda data: data))
    service.request_stream()(yields_of(lambda data: [data]))

    @service.request_channel()
    async def items(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
        async for payload in payloads:
            yield payload

    return service


class Held:
    """A service whose handlers work until they are let go, and say when they begin and end; "quick" does so at once."""

    def __init__(self, name: str = "held") -> None:
        self.began: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended: asyncio.Queue[bytes] = asyncio.Queue()
        self.cancelled = asyncio.Event()
        self.released = asyncio.Event()
        self.service = Service(name)
        self.service.request_response()(self.hold)
        self.service.request_response("quick")(self.quick)
        self.service.fire_and_forget()(self.note)
        self.service.request_channel()(self.echo)

    async def hold(self, data: bytes) -> bytes:
        self.began.put_nowait(data)
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        self.ended.put_nowait(data)
        return data

    async def quick(self, data: bytes) -> bytes:
        return data

    async def note(self, data: bytes) -> None:
        await self.hold(data)

    async def echo(self, payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        async for payload in payloads:
            yield await self.hold(payload.data or b"")


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


@contextlib.asynccontextmanager
async def relayed(**options: Any) -> AsyncIterator[tuple[LocalBroker, Relay]]:
    """The broker of this project, and a wire to it that can be cut."""
    async with local_broker(**options) as broker:
        with contextlib.closing(Relay(int(broker.rpartition(":")[2]))) as relay:
            yield broker, relay
