"""What programs for rsocket-py are made of: a Subscriber that writes down what it hears, Publishers, a service."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from reactivestreams.publisher import Publisher
from reactivestreams.subscriber import DefaultSubscriber
from reactivestreams.subscription import Subscription
from rsocket.helpers import create_response
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.routing.request_router import RequestRouter
from rsocket.streams.stream_from_generator import StreamFromGenerator

from client_sdk import Client, Request, Service, address, connect
from client_sdk.rsocket_py import ClientRSocket
from tests.client_sdk.fake_broker import FakeBroker

THINGS = address("things")


class Heard(DefaultSubscriber):  # type: ignore[misc]
    """Writes down data, the end, and the error."""

    def __init__(self) -> None:
        super().__init__()
        self.data: list[bytes] = []
        self.error: Exception | None = None
        self.is_complete = False
        self._changed = asyncio.Event()

    def on_next(self, value: Any, is_complete: bool = False) -> None:
        self.data.append(value.data)
        self.is_complete = self.is_complete or is_complete
        self._changed.set()

    def on_error(self, exception: Exception) -> None:
        assert not self.ended
        self.error = exception
        self._changed.set()

    def on_complete(self) -> None:
        assert not self.ended
        self.is_complete = True
        self._changed.set()

    @property
    def ended(self) -> bool:
        return self.is_complete or self.error is not None

    async def has(self, count: int) -> list[bytes]:
        return await self._until(lambda: len(self.data) >= count)

    async def first(self) -> None:
        """There is an item, or the end."""
        await self._until(lambda: self.data or self.ended)

    async def end(self) -> list[bytes]:
        return await self._until(lambda: self.ended)

    async def _until(self, is_so: Callable[[], object]) -> list[bytes]:
        while not is_so():
            self._changed.clear()
            await self._changed.wait()
        return self.data


class Counted(Publisher, Subscription):  # type: ignore[misc]
    """Publishes 0, 1, 2 … as it is asked, up to `count`, and writes down how it was asked."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.sent_n = 0
        self.asked: list[int] = []
        self.cancelled = asyncio.Event()
        self.to: Any = None

    def subscribe(self, subscriber: Any) -> None:
        self.to = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self.asked.append(n)
        while n and self.sent_n < self.count:
            n -= 1
            self.sent_n += 1
            self.to.on_next(Payload(b"%d" % (self.sent_n - 1)), self.sent_n == self.count)

    def cancel(self) -> None:
        self.cancelled.set()


class Listening(BaseRequestHandler):  # type: ignore[misc]
    """A handler that writes down what it is told of its connection, and reconnects when `comes_back`."""

    def __init__(self, comes_back: bool = False) -> None:
        self.told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.comes_back = comes_back
        self.rsocket: Any = None  # that of the last `on_close`
        self.may_return = asyncio.Event()  # what is told of a close
        self.may_return.set()

    async def on_close(self, rsocket: Any, exception: Exception | None = None) -> None:
        self.rsocket = rsocket
        self.told.put_nowait(("close", exception))
        await self.may_return.wait()
        if self.comes_back:
            await rsocket.reconnect()

    async def on_connection_error(self, rsocket: Any, exception: Exception) -> None:
        self.told.put_nowait(("connection_error", exception))
        if self.comes_back:
            await rsocket.reconnect()

    async def on_keepalive_timeout(self, time_since_last_keepalive: timedelta, rsocket: Any) -> None:
        self.told.put_nowait(("keepalive", time_since_last_keepalive))

    async def on_error(self, error_code: Any, payload: Any) -> None:
        self.told.put_nowait(("error", (error_code, payload.data)))


def numbers(count: int) -> Any:
    return StreamFromGenerator(lambda: ((Payload(b"%d" % at), at == count - 1) for at in range(count)))


def their_router() -> RequestRouter:
    """A service of rsocket-py's: `echo` answers, and streams on a channel, `count` is a stream, `note` is nothing."""
    router = RequestRouter()

    @router.response("echo")  # type: ignore[untyped-decorator]
    async def echo(payload: Payload) -> Any:
        return create_response(b"echo " + (payload.data or b""))

    @router.stream("count")  # type: ignore[untyped-decorator]
    async def count(payload: Payload) -> Any:
        return numbers(int(payload.data or b""))

    @router.channel("echo")  # type: ignore[untyped-decorator]
    async def channel(payload: Payload) -> Any:
        return numbers(3), None

    @router.fire_and_forget("note")  # type: ignore[untyped-decorator]
    async def note(payload: Payload) -> None:
        pass

    @router.metadata_push("note")  # type: ignore[untyped-decorator]
    async def pushed(payload: Payload) -> None:
        pass

    return router


def things() -> Service:
    """Answers by its routes; `boom` fails, `count` counts to what the data says, `echo` sends back."""
    service = Service("things")

    @service.request_response("echo")
    async def echo(request: Request) -> bytes:
        return b"echo " + request.data

    @service.request_stream("count")
    async def count(request: Request) -> AsyncIterator[bytes]:
        for number in range(int(request.data)):
            yield b"%d" % number

    @service.request_channel("echo")
    async def echo_all(payloads: AsyncIterator[Any]) -> AsyncIterator[bytes]:
        async for payload in payloads:
            yield b"echo " + payload.data

    return service


@asynccontextmanager
async def offered(broker: FakeBroker, service: Service) -> AsyncIterator[tuple[Client, ClientRSocket]]:
    """A service behind the broker, and a client with its view as an RSocket."""
    async with connect(broker.url, service=service), connect(broker.url) as client:
        yield client, client.as_rsocket(address(service.name))
