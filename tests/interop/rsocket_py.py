"""rsocket-py as it comes from PyPI, as a caller and as a service of the tests: only its public API is used."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from aiohttp import ClientWebSocketResponse
from reactivestreams.publisher import Publisher
from reactivestreams.subscriber import DefaultSubscriber, Subscriber
from reactivestreams.subscription import Subscription
from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketProtocolError
from rsocket.extensions.composite_metadata import CompositeMetadata
from rsocket.extensions.helpers import composite, metadata_item, route
from rsocket.helpers import create_future, single_transport_provider, utf8_decode
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.rsocket_client import RSocketClient
from rsocket.transports.aiohttp_websocket import TransportAioHttpClient
from rsocket.transports.tcp import TransportTCP

from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from tests.client_sdk.rsocket_py.strangers import Heard
from tests.fakes import route_id, tags_of

COMPOSITE = "message/x.rsocket.composite-metadata.v0"


def text(payload: Payload) -> str:
    """The data as text."""
    return str(utf8_decode(payload.data)) if payload.data else ""


def code_and_text(error: Exception | None) -> tuple[ErrorCode, str]:
    """What an ERROR frame said; rsocket-py makes a RuntimeError of an application's."""
    if isinstance(error, RSocketProtocolError):
        return error.error_code, str(error.data)
    assert isinstance(error, RuntimeError)
    return ErrorCode.APPLICATION_ERROR, str(error)


def entry_mimes(metadata: bytes) -> list[str]:
    """Mime types of composite metadata, in order."""
    parsed = CompositeMetadata()
    parsed.parse(bytes(metadata))
    return [bytes(item.encoding).decode() for item in parsed.items]


class Sending(Publisher, Subscription):  # type: ignore[misc]
    """Publishes to one, and keeps the credit that came."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.is_cancelled = False
        self.to: Subscriber | None = None

    def subscribe(self, subscriber: Subscriber) -> None:
        self.to = subscriber
        subscriber.on_subscribe(self)

    def cancel(self) -> None:
        self.is_cancelled = True


class Items(Sending):
    """Items that are sent as they are asked for; the last one completes, or breaks."""

    def __init__(self, items: list[str], breaks: bool = False) -> None:
        super().__init__()
        self.left = list(items)
        self.breaks = breaks

    def request(self, n: int) -> None:
        assert self.to is not None
        self.asked.append(n)
        while n > 0 and self.left and not self.is_cancelled:
            n -= 1
            item = self.left.pop(0)
            is_last = not self.left
            self.to.on_next(Payload(item.encode()), is_last and not self.breaks)
            if is_last and self.breaks:
                self.to.on_error(RuntimeError("broke in the middle"))


class Echo(Sending, DefaultSubscriber):  # type: ignore[misc]
    """The service's end of a channel: sends back what comes, and asks for the next item when it has sent the last."""

    def __init__(self, prefix: str, first: str) -> None:
        super().__init__()
        self.prefix = prefix
        self.waiting = [first]
        self.credit = 0
        self.has_all = False
        self.is_done = False
        self.error: Exception | None = None

    def request(self, n: int) -> None:
        self.asked.append(n)
        self.credit += n
        self._go()

    def on_next(self, value: Payload, is_complete: bool = False) -> None:
        self.waiting.append(text(value))
        self.has_all = self.has_all or is_complete
        self._go()

    def on_complete(self) -> None:
        self.has_all = True
        self._go()

    def on_error(self, exception: Exception) -> None:
        self.error = exception

    def _go(self) -> None:
        while self.to is not None and self.credit and self.waiting and not self.is_cancelled:
            self.credit -= 1
            self.to.on_next(Payload(f"{self.prefix}:{self.waiting.pop(0)}".encode()))
            if not self.has_all:
                self.subscription.request(1)
        if self.to is not None and self.has_all and not self.waiting and not self.is_done:
            self.is_done = True
            self.to.on_complete()


def reading(request: Any, n: int) -> Heard:
    """Who has subscribed to a stream or channel, with so much credit."""
    heard = Heard()
    request.initial_request_n(n).subscribe(heard)
    return heard


class Handler(BaseRequestHandler):  # type: ignore[misc]
    """A service that does what the request's data says: `fail`, `hang`, `count N`, `break N`, or an echo."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[tuple[str, str]] = []  # model and data
        self.metadata: list[bytes | None] = []  # of each of them
        self.hanging: list[asyncio.Future[Payload]] = []
        self.streams: list[Items] = []
        self.channels: list[Echo] = []
        self.errors: list[str] = []  # on stream 0

    def _hear(self, model: str, payload: Payload) -> str:
        data = text(payload)
        self.heard.append((model, data))
        self.metadata.append(None if payload.metadata is None else bytes(payload.metadata))
        return data

    async def request_response(self, payload: Payload) -> Any:
        data = self._hear("response", payload)
        answer: asyncio.Future[Payload] = create_future()
        if data == "fail":
            answer.set_exception(RuntimeError("asked to fail"))
        elif data == "hang":
            self.hanging.append(answer)
        else:
            answer.set_result(Payload(f"{self.name}:{data}".encode(), b"answered"))
        return answer

    async def request_fire_and_forget(self, payload: Payload) -> None:
        self._hear("fnf", payload)

    async def on_metadata_push(self, metadata: Payload) -> None:
        self._hear("push", metadata)

    async def request_stream(self, payload: Payload) -> Any:
        what, count = self._hear("stream", payload).split(" ")
        items = Items([f"{self.name}:{at + 1}" for at in range(int(count))], what == "break")
        self.streams.append(items)
        return items

    async def request_channel(self, payload: Payload) -> Any:
        echo = Echo(self.name, self._hear("channel", payload))
        self.channels.append(echo)
        return echo, echo

    async def on_error(self, error_code: Any, payload: Payload) -> None:
        self.errors.append(text(payload))


@asynccontextmanager
async def dial(
    url: str,
    handler: Handler | None = None,
    mime: str = COMPOSITE,
    data_mime: str = "text/plain",
    setup: bytes | None = None,
    websocket: ClientWebSocketResponse | None = None,
) -> AsyncIterator[RSocketClient]:
    """A connection; `setup` is the metadata of its SETUP. `websocket`: the program's own, to be used."""
    parts = urlsplit(url)
    if parts.scheme == "ws":
        transport: Any = TransportAioHttpClient(url, websocket)
    elif parts.scheme == "unix":
        transport = TransportTCP(*await asyncio.open_unix_connection(parts.path))
    else:
        transport = TransportTCP(*await asyncio.open_connection(parts.hostname, parts.port))
    kept = handler or Handler("caller")
    async with RSocketClient(
        single_transport_provider(transport),
        handler_factory=lambda: kept,
        metadata_encoding=mime.encode(),
        data_encoding=data_mime.encode(),
        setup_payload=Payload(None, setup),
    ) as client:
        yield client


@asynccontextmanager
async def offer(
    url: str, name: str, number: int, mime: str = COMPOSITE, frame_mime: str = MIME_TYPE, **tags: str | None
) -> AsyncIterator[tuple[Handler, RSocketClient]]:
    """A service. `frame_mime`: of the ROUTE_SETUP in composite metadata. Its route may not have joined yet."""
    raw = RouteSetup(route_id(number), name, tags_of(tags)).encode()
    handler = Handler(name)
    async with dial(url, handler, mime, setup=request_metadata(raw, mime, frame_mime)) as client:
        yield handler, client


def request_metadata(raw: bytes, mime: str = COMPOSITE, frame_mime: str = MIME_TYPE, name: str = "") -> bytes:
    """A broker frame, and perhaps the name of a handler, as metadata for a connection of this mime type."""
    if mime != COMPOSITE:
        return raw
    entries = [metadata_item(raw, frame_mime.encode())]
    if name:
        entries.append(route(name))
    return bytes(composite(*entries))


def payload(raw: bytes, data: str, **how: str) -> Payload:
    """A request to an ADDRESS; `how` as for `request_metadata`."""
    return Payload(data.encode(), request_metadata(raw, **how))
