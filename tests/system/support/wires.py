"""Raw RSocket peers over real sockets: every byte is the test's own choice. `tests.fakes` has them without sockets."""

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, Address, RouteSetup
from tests.fakes import Frame, addressed, composite, route_id, tags_of
from tests.system.support.waits import AT_END, WAIT_S, soon

if TYPE_CHECKING:  # they take a second of each process of a crowd
    import aiohttp

    from broker.server import Server

LIFETIME_MS = 90_000


def url_of(server: "Server", scheme: str) -> str:
    """Where a broker in this process listens by that transport."""
    return next(url for url in server.listeners if url.startswith(f"{scheme}://"))


class Closed(Exception):
    """The broker closed the connection."""


class Transport(Protocol):
    """Bytes, or messages."""

    def send(self, frame: bytes) -> None:
        """One whole frame."""

    async def receive(self) -> bytes:
        """One whole frame; Closed at the end."""

    async def flush(self) -> None:
        """Returns when the system took what was sent."""

    def abort(self) -> None:
        """The connection is gone without a word."""

    async def close(self) -> None:
        """Closes in order."""


class StreamTransport:
    """TCP, TLS or a Unix socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, frame: bytes) -> None:
        self.writer.write(len(frame).to_bytes(3, "big") + frame)

    def send_bytes(self, data: bytes) -> None:
        """Any bytes."""
        self.writer.write(data)

    async def receive(self) -> bytes:
        try:
            size = int.from_bytes(await self.reader.readexactly(3), "big")
            return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Closed from error

    async def flush(self) -> None:
        await self.writer.drain()

    def abort(self) -> None:
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


class MessageTransport:
    """WebSocket."""

    def __init__(self, session: "aiohttp.ClientSession", ws: "aiohttp.ClientWebSocketResponse") -> None:
        self.session = session
        self.ws = ws
        self._sending: asyncio.Task[None] | None = None
        self._waiting: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self._waiting.append(frame)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while self._waiting:
            await self.ws.send_bytes(self._waiting.pop(0))

    async def receive(self) -> bytes:
        import aiohttp  # is there: this is one of its sockets

        message = await self.ws.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise Closed
        data: bytes = message.data
        return data

    async def flush(self) -> None:
        if self._sending is not None:
            await self._sending

    def abort(self) -> None:
        self.ws._response.close()  # aiohttp has no public way to be rude

    async def close(self) -> None:
        if self._sending is not None:
            with contextlib.suppress(ConnectionError):
                await self._sending
        await self.ws.close()
        await self.session.close()


class Wire:
    """One connection to a broker. A test that has an AT_END need not close it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        at_end = AT_END.get(None)
        if at_end is not None:
            at_end.push_async_callback(self.close)
        self._next_id = 1
        self._echo: asyncio.Task[None] | None = None  # of `begin_echo`
        self._early: deque[Frame] = deque()  # requests that came before the join was known

    @staticmethod
    async def connect(url: str, context: ssl.SSLContext | None = None, receive_buffer_bytes: int = 0) -> "Wire":
        """A connection that has said nothing yet. `receive_buffer_bytes`: what the system holds for a slow reader."""
        parts = urlsplit(url)
        if parts.scheme in ("ws", "wss"):
            import aiohttp

            connector = aiohttp.TCPConnector(socket_factory=lambda info: _socket(info[0], receive_buffer_bytes))
            session = aiohttp.ClientSession(connector=connector)
            try:
                ws = await session.ws_connect(url, ssl=context or True, max_msg_size=0, autoping=False)
            except BaseException:
                await session.close()
                raise
            return Wire(MessageTransport(session, ws))
        if parts.scheme == "unix":
            made = await asyncio.open_unix_connection(parts.path)
        else:
            assert parts.port is not None
            sock = _socket(socket.AF_INET, receive_buffer_bytes)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", parts.port))
            name = parts.hostname if context is not None else None
            limit = receive_buffer_bytes or 2**16  # of the stream reader: beyond it the system's buffer fills
            made = await asyncio.open_connection(sock=sock, ssl=context, server_hostname=name, limit=limit)
        return Wire(StreamTransport(*made))

    @staticmethod
    async def caller(url: str, context: ssl.SSLContext | None = None, lifetime_ms: int = LIFETIME_MS) -> "Wire":
        """A connection with an accepted SETUP and no route."""
        wire = await Wire.connect(url, context)
        wire.setup(lifetime_ms=lifetime_ms)
        await wire.ping()
        return wire

    @staticmethod
    async def slow(url: str, metadata: bytes | None = None, lifetime_ms: int = LIFETIME_MS) -> "Wire":
        """A connection that has sent a SETUP, and whose system holds hardly anything that it has not read."""
        wire = await Wire.connect(url, receive_buffer_bytes=4096)
        wire.setup(metadata, lifetime_ms)
        return wire

    @staticmethod
    async def service(
        url: str, name: str, number: int, context: ssl.SSLContext | None = None, **tags: str | None
    ) -> "Wire":
        """A connection whose route has joined."""
        wire = await Wire.connect(url, context)
        early: list[Frame] = []  # a caller may ask at once
        raw = RouteSetup(route_id(number), name, tags_of(tags)).encode()
        wire.setup(composite((MIME_TYPE, raw)))
        wire.send(frames.encode_keepalive(b"ping", respond=True))
        async with asyncio.timeout(WAIT_S):
            while (frame := await wire.next()).kind != frames.KEEPALIVE:
                early.append(frame)
        wire._early.extend(early)
        return wire

    def setup(self, metadata: bytes | None = None, lifetime_ms: int = LIFETIME_MS) -> None:
        """Sends a SETUP."""
        self.send(frames.Setup(COMPOSITE_MIME, "text/plain", min(20_000, lifetime_ms), lifetime_ms, metadata).encode())

    def send(self, *raws: bytes) -> None:
        """Sends whole frames."""
        for frame in raws:
            self.transport.send(frame)

    async def next(self) -> Frame:
        """The next frame, however late; Closed."""
        return self._early.popleft() if self._early else Frame(await self.transport.receive())

    async def receive(self, longest_s: float = WAIT_S) -> Frame:
        """The next frame; Closed, or TimeoutError."""
        async with asyncio.timeout(longest_s):
            return await self.next()

    async def rest(self, longest_s: float = WAIT_S) -> list[Frame]:
        """All frames until the broker closes."""
        heard = []
        async with asyncio.timeout(longest_s):
            with contextlib.suppress(Closed):
                while True:
                    heard.append(await self.receive(longest_s))
        return heard

    async def ping(self) -> None:
        """Returns when the broker handled all that was sent; nothing else may arrive meanwhile."""
        self.send(frames.encode_keepalive(b"ping", respond=True))
        frame = await self.receive()
        assert frame.kind == frames.KEEPALIVE, frame

    def request(
        self, service: str, data: bytes = b"hi", kind: int = frames.REQUEST_RESPONSE, n: int = 8, **tags: str | None
    ) -> int:
        """Sends a request; its stream id."""
        stream_id = self._next_id
        self._next_id += 2
        address = Address(route_id(0xCA11), tags_of({"service": service, **tags}))
        metadata = addressed(address.encode())
        self.send(frames.encode_request(kind, stream_id, data, metadata, n))
        return stream_id

    async def ask(self, service: str, data: bytes = b"hi") -> Frame:
        """Request and answer; no other frame may arrive meanwhile."""
        stream_id = self.request(service, data)
        frame = await self.receive()
        assert frame.stream_id == stream_id, frame
        return frame

    async def flood(self, caller: "Wire", service: str, items_n: int) -> None:
        """As this service: so many items of 100 kB for this caller, which need not read them."""
        caller.request(service, kind=frames.REQUEST_STREAM, n=1_000_000)
        request = await self.receive()
        for _ in range(items_n):
            self.send(frames.encode_payload(request.stream_id, frames.NEXT, bytes(100_000)))

    def answer(self, frame: Frame, data: bytes) -> None:
        """Answers a request with one item."""
        self.send(frames.encode_payload(frame.stream_id, frames.NEXT | frames.COMPLETE, data))

    async def echo(self, answer: Callable[[bytes], bytes] = bytes) -> None:
        """Answers requests until the broker closes."""
        with contextlib.suppress(Closed, ConnectionError):
            while True:
                frame = await self.next()
                if frames.REQUEST_RESPONSE <= frame.kind <= frames.REQUEST_CHANNEL and frame.kind != frames.REQUEST_FNF:
                    self.answer(frame, answer(frame.data))
                    await self.transport.flush()

    def begin_echo(self, answer: Callable[[bytes], bytes] = bytes) -> asyncio.Task[None]:
        """`echo` beside the test, until the connection closes."""
        self._echo = asyncio.create_task(self.echo(answer))
        return self._echo

    async def close(self) -> None:
        """Closes in order."""
        await self.transport.close()
        if self._echo is not None:
            await soon(self._echo)

    @property
    def stream(self) -> StreamTransport:
        """The transport of a wire that is no WebSocket."""
        assert isinstance(self.transport, StreamTransport)
        return self.transport

    @property
    def messages(self) -> MessageTransport:
        """The transport of a WebSocket."""
        assert isinstance(self.transport, MessageTransport)
        return self.transport


def _socket(family: int, receive_buffer_bytes: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    if receive_buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    return sock
