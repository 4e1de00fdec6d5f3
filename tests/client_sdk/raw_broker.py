"""A broker that does nothing by itself but say that it lives: the test writes every frame, in plain bytes.

No line of this project's codec is used, so that a mistake of ours is not made twice. RSocket protocol 1.0, "Framing".
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from aiohttp import WSMsgType, web

from client_sdk import Client, Payload, Service, address, connect
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, decode, payload, ping, request
from tests.client_sdk.listener import BOUND_S, Listener
from tests.client_sdk.samples import items_of


class RawPeer:
    """One connection: what came through it, and whatever a test wants to send."""

    def __init__(self, is_framed: bool) -> None:
        self.is_framed = is_framed
        self.frames: list[Frame] = []
        self.gone = asyncio.Event()
        self.answers_pings = True
        self._changed = asyncio.Condition()

    def send(self, *sent: Frame | bytes) -> None:
        """All in one segment; bytes are a frame that is none."""
        raw = [each.encode() if isinstance(each, Frame) else each for each in sent]
        self.write([len(each).to_bytes(3) + each for each in raw] if self.is_framed else raw)

    def write(self, pieces: list[bytes]) -> None:
        """As they are: for TCP bytes, for WebSocket messages."""
        raise NotImplementedError

    def abort(self) -> None:
        """Ends it without a word."""
        raise NotImplementedError

    def of(self, kind: int) -> list[Frame]:
        """The frames of this kind, as they came."""
        return [each for each in self.frames if each.kind == kind]

    def on(self, stream_id: int) -> list[Frame]:
        """The frames of this stream, as they came."""
        return [each for each in self.frames if each.stream_id == stream_id]

    async def expect(self, kind: int, count: int = 1, stream_id: int | None = None) -> list[Frame]:
        """Waits until so many frames of this kind have come, on one stream or on any."""

        def found() -> list[Frame]:
            return [each for each in self.of(kind) if stream_id is None or each.stream_id == stream_id]

        async with asyncio.timeout(BOUND_S), self._changed:
            await self._changed.wait_for(lambda: len(found()) >= count)
        return found()

    async def call(self, stream_id: int, data: bytes = b"alive", *, metadata: bytes | None = None) -> Frame:
        """Asks a request/response of its own and waits for the answer, PAYLOAD or ERROR."""
        seen = len(self.on(stream_id))
        self.send(request(stream_id, frames.RESPONSE, data, metadata=metadata))
        async with asyncio.timeout(BOUND_S), self._changed:
            await self._changed.wait_for(lambda: len(self.on(stream_id)) > seen)
        return self.on(stream_id)[seen]

    async def assert_alive(self) -> None:
        """What was sent before has been read, and the connection lives."""
        pings = len([each for each in self.of(frames.KEEPALIVE) if not each.flags & frames.RESPOND])
        mark = b"mark %d" % pings
        self.send(ping(mark))
        async with asyncio.timeout(BOUND_S), self._changed:
            await self._changed.wait_for(lambda: any(each.body[8:] == mark for each in self.of(frames.KEEPALIVE)))

    async def assert_gone(self) -> None:
        """The client closes the connection."""
        async with asyncio.timeout(BOUND_S):
            await self.gone.wait()

    async def take(self, raw: bytes) -> None:
        """One frame has come."""
        frame = decode(raw)
        async with self._changed:
            self.frames.append(frame)
            self._changed.notify_all()
        if frame.kind == frames.KEEPALIVE and frame.flags & frames.RESPOND and self.answers_pings:
            self.send(Frame(0, frames.KEEPALIVE, 0, frame.body))


class StreamPeer(RawPeer):
    """TCP."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        super().__init__(is_framed=True)
        self._writer = writer
        self._may_read = asyncio.Event()
        self._may_read.set()

    def write(self, pieces: list[bytes]) -> None:
        if not self._writer.is_closing():
            self._writer.write(b"".join(pieces))

    def abort(self) -> None:
        self._may_read.set()
        self._writer.transport.abort()

    @property
    def unsent_bytes(self) -> int:
        """What the other side has not read, as far as this process holds it."""
        return self._writer.transport.get_write_buffer_size()

    def stop_reading(self) -> None:
        """What comes stays where it is, until the sender cannot send any more."""
        self._may_read.clear()

    def read_on(self) -> None:
        """Reads again."""
        self._may_read.set()

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Until the other side has gone."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                length = int.from_bytes(await reader.readexactly(3))
                raw = await reader.readexactly(length)
                await self._may_read.wait()
                await self.take(raw)
        self.gone.set()
        self._writer.close()


class SocketPeer(RawPeer):
    """WebSocket, on aiohttp."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        super().__init__(is_framed=False)
        self._socket = socket
        self._queue: asyncio.Queue[bytes | str | None] = asyncio.Queue()

    def write(self, pieces: list[bytes]) -> None:
        for each in pieces:
            self._queue.put_nowait(each)

    def say(self, text: str) -> None:
        """A text message."""
        self._queue.put_nowait(text)

    def abort(self) -> None:
        self._queue.put_nowait(None)

    async def run(self) -> None:
        """Until either side has gone."""
        writing = asyncio.create_task(self._write())
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                await self.take(message.data)
        self.gone.set()
        self._queue.put_nowait(None)
        await writing

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionError):
            while (piece := await self._queue.get()) is not None:
                await (self._socket.send_str(piece) if isinstance(piece, str) else self._socket.send_bytes(piece))
            await self._socket.close()


class RawBroker(Listener[RawPeer]):
    """Listens on TCP or for WebSockets, and has a RawPeer for each connection."""

    def __init__(self) -> None:
        super().__init__()
        self.answers_pings = True  # of peers that come
        self.greeting: tuple[Frame, ...] = ()  # what they are sent at once
        self._runner: web.AppRunner | None = None  # set when it was started for WebSockets

    async def start_websocket(self) -> Self:
        app = web.Application()
        app.router.add_get("/", self._serve_websocket)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"ws://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def peer(self, number: int = 0) -> Any:
        """As the Listener's; a StreamPeer, or a SocketPeer for a WebSocket."""
        return await super().peer(number)

    async def stop(self) -> None:
        await super().stop()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _greet(self, peer: RawPeer) -> None:
        peer.answers_pings = self.answers_pings
        if self.greeting:
            peer.send(*self.greeting)
        await self._add(peer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = StreamPeer(writer)
        await self._greet(peer)
        await peer.run(reader)

    async def _serve_websocket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        peer = SocketPeer(socket)
        await self._greet(peer)
        await peer.run()
        return socket


class Attempts:
    """Delays between attempts that are none, counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._changed = asyncio.Event()
        monkeypatch.setattr("client_sdk.reconnect.backoff.Backoff.next_s", self._next_s)

    def _next_s(self) -> float:
        self.count += 1
        self._changed.set()
        return 0.001

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.count < count:
                self._changed.clear()
                await self._changed.wait()


class Everything:
    """A service with all five models: echoes, and remembers; a handler that is told to wait does so for ever."""

    def __init__(self) -> None:
        self.service = Service("everything")
        self.calls: list[tuple[str, bytes]] = []
        self.running = 0
        self.cancelled = 0

        @self.service.request_response()
        async def answer(data: bytes) -> bytes:
            await self._work("request_response", data)
            return data

        @self.service.fire_and_forget()
        async def note(data: bytes) -> None:
            await self._work("fire_and_forget", data)

        @self.service.metadata_push()
        async def push(data: bytes) -> None:
            await self._work("metadata_push", data)

        @self.service.request_stream()
        async def items(data: bytes) -> AsyncIterator[bytes]:
            await self._work("request_stream", data)
            for number in range(int(data) if data.isdigit() else 1):
                yield b"%d" % number

        @self.service.request_channel()
        async def echo(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
            await self._work("request_channel", b"")
            async for each in payloads:
                yield each

    async def _work(self, model: str, data: bytes) -> None:
        self.calls.append((model, data))
        if data != b"wait":
            return
        self.running += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


@contextlib.asynccontextmanager
async def serving(
    broker: RawBroker, service: Service | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Any]]:
    """(client, its peer): connected, and closed at the end."""
    async with connect(broker.url, service=service, **options) as client:
        yield client, await broker.peer(len(broker.peers) - 1)


@contextlib.asynccontextmanager
async def at_work(broker: RawBroker, **options: Any) -> AsyncIterator[tuple[Everything, Client, Any]]:
    """(service, its client, its peer): as `serving`."""
    everything = Everything()
    async with serving(broker, everything.service, **options) as (client, peer):
        yield everything, client, peer


KINDS = {"request_response": frames.RESPONSE, "request_stream": frames.STREAM, "request_channel": frames.CHANNEL}
MODELS = tuple(KINDS)  # those with an answer
ITEMS = ("request_stream", "request_channel", "gather")  # those whose answer is items
TO = address("everything")


def made(client: Any, call: str, to: Any, data: Any, **options: Any) -> Any:
    """What the method of a client gives, of either client; a multicast is a request/response to several."""
    return getattr(client, "request_response" if call == "multicast" else call)(to, data, **options)


async def first_answer(client: Client, call: str, data: Any = b"1", to: Any = TO, **options: Any) -> Any:
    """The answer, or the first item of it; None at its end, and of a call without one."""
    answer = made(client, call, to, items_of(data) if call == "request_channel" else data, **options)
    return await (anext(answer, None) if call in ITEMS else answer)


def begin(client: Client, call: str, **options: Any) -> asyncio.Task[Any]:
    """`first_answer` in a task of its own."""
    return asyncio.create_task(first_answer(client, call, **options))


async def ask(
    client: Client, peer: RawPeer, call: str = "request_response", **options: Any
) -> tuple[asyncio.Task[Any], Frame]:
    """A call that waits for its answer, and its frame, which has come."""
    before = len(peer.of(KINDS[call]))
    task = begin(client, call, **options)
    return task, (await peer.expect(KINDS[call], before + 1))[-1]


async def begin_all(client: Client, peer: RawPeer, **options: Any) -> list[asyncio.Task[Any]]:
    """A call of each of the MODELS, which have all come."""
    before = {kind: len(peer.of(kind)) for kind in KINDS.values()}
    calls = [begin(client, model, **options) for model in MODELS]
    for kind in KINDS.values():
        await peer.expect(kind, before[kind] + 1)
    return calls


async def assert_answered(client: Client, peer: RawPeer) -> None:
    """A call on this connection gets the answer that is sent to it."""
    call, asked = await ask(client, peer)
    peer.send(payload(asked.stream_id, b"fine", flags=frames.LAST))
    assert (await call).data == b"fine"
