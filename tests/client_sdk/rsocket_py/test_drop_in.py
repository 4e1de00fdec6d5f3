"""`client_sdk.rsocket_py.RSocketClient`: rsocket-py's constructor on our engine, with rsocket-py's server opposite."""

import asyncio
import runpy
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import rsocket.rsocket_client
import rsocket.transports.aiohttp_websocket
from aiohttp import ClientSession, web
from rsocket.awaitable.awaitable_rsocket import AwaitableRSocket
from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketError, RSocketProtocolError, RSocketTransportError
from rsocket.extensions.helpers import composite, route
from rsocket.extensions.mimetypes import WellKnownMimeTypes
from rsocket.helpers import create_response, single_transport_provider
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.rsocket_server import RSocketServer
from rsocket.transports.aiohttp_websocket import TransportAioHttpClient, TransportAioHttpWebsocket
from rsocket.transports.tcp import TransportTCP

from client_sdk.rsocket_py import RSocketClient, drop_in, lifecycle, substituted
from client_sdk.rsocket_py.__main__ import main
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.frames import Frame
from tests.client_sdk.rsocket_py.strangers import Heard, Listening, numbers
from tests.client_sdk.samples import cancel


class Theirs(BaseRequestHandler):  # type: ignore[misc]
    """A service of rsocket-py's own."""

    setups: list[tuple[bytes, bytes, bytes]]

    def __init__(self) -> None:
        self.setups = []

    async def on_setup(self, data_encoding: bytes, metadata_encoding: bytes, payload: Any) -> None:
        self.setups.append((bytes(data_encoding), bytes(metadata_encoding), bytes(payload.data or b"")))

    async def request_response(self, payload: Any) -> Any:
        if payload.data == b"boom":
            raise ValueError("their text")
        return create_response(b"echo " + payload.data, payload.metadata)

    async def request_stream(self, payload: Any) -> Any:
        return numbers(4)


class Server:
    """rsocket-py's server, on TCP and on a WebSocket."""

    def __init__(self) -> None:
        self.handler = Theirs()
        self.servers: list[Any] = []

    async def start(self) -> None:
        def session(*streams: Any) -> None:
            self.servers.append(RSocketServer(TransportTCP(*streams), handler_factory=lambda: self.handler))

        async def websocket(request: web.Request) -> web.WebSocketResponse:
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            transport = TransportAioHttpWebsocket(socket)
            self.servers.append(RSocketServer(transport, handler_factory=lambda: self.handler))
            await transport.handle_incoming_ws_messages()
            return socket

        self.tcp = await asyncio.start_server(session, "127.0.0.1", 0)
        self.port = self.tcp.sockets[0].getsockname()[1]
        app = web.Application()
        app.router.add_get("/", websocket)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}/"

    async def stop(self) -> None:
        self.tcp.close()
        for server in self.servers:
            await server.close()
        await self.runner.cleanup()
        await self.tcp.wait_closed()


@pytest.fixture
async def server(no_leaked_tasks: None) -> AsyncIterator[Server]:
    made = Server()
    await made.start()
    yield made
    await made.stop()


async def dialled(port: int) -> Any:
    return TransportTCP(*await asyncio.open_connection("127.0.0.1", port))


async def test_a_program_with_their_constructor_runs_on_our_engine(server: Server) -> None:
    async with RSocketClient(
        single_transport_provider(await dialled(server.port)),
        metadata_encoding=WellKnownMimeTypes.MESSAGE_RSOCKET_COMPOSITE_METADATA,
        setup_payload=Payload(b"hello"),
        fragment_size_bytes=64,
    ) as client:
        metadata = composite(route("echo"))
        answer = await client.request_response(Payload(b"x" * 1000, metadata))
        assert (answer.data, answer.metadata) == (b"echo " + b"x" * 1000, metadata)
        items = await AwaitableRSocket(client).request_stream(Payload(b""))
        assert [bytes(each.data) for each in items] == [b"0", b"1", b"2", b"3"]
        with pytest.raises(RuntimeError, match="their text"):
            await client.request_response(Payload(b"boom"))
    composite_mime = b"message/x.rsocket.composite-metadata.v0"
    assert server.handler.setups == [(b"application/json", composite_mime, b"hello")]


class Slow(TransportTCP):  # type: ignore[misc]
    """A transport of the program's own, which counts what it sends."""

    sent_n = 0

    async def send_frame(self, frame: Any) -> None:
        self.sent_n += 1
        await super().send_frame(frame)


@pytest.mark.parametrize("kind", ["own", "url", "websocket"])
async def test_other_transports_of_theirs_fit(server: Server, kind: str) -> None:
    session = ClientSession()
    if kind == "own":
        transport: Any = Slow(*await asyncio.open_connection("127.0.0.1", server.port))
    elif kind == "url":
        transport = TransportAioHttpClient(server.url)
    else:
        websocket = await session.ws_connect(server.url)
        transport = TransportAioHttpClient(websocket=websocket)
    async with RSocketClient(single_transport_provider(transport)) as client:
        assert (await client.request_response(Payload(b"a"))).data == b"echo a"
        heard = Heard()
        client.request_stream(Payload(b"")).initial_request_n(2).subscribe(heard)
        await heard.has(2)
        heard.subscription.request(2)
        assert [bytes(data) for data in await heard.end()] == [b"0", b"1", b"2", b"3"]
    if kind == "own":
        assert transport.sent_n >= 4  # SETUP, KEEPALIVE, two requests, a REQUEST_N
    if kind == "websocket":
        assert not websocket.closed  # it is the program's
        await websocket.close()
    await session.close()


class Broken(Slow):
    """A transport that raises where it is told."""

    def __init__(self, where: str, *streams: Any) -> None:
        super().__init__(*streams)
        self.where = where

    async def connect(self) -> None:
        if self.where == "connect":
            raise RSocketTransportError from OSError("no carrier")
        if self.where == "dial":
            raise ConnectionRefusedError("nobody listens")

    async def send_frame(self, frame: Any) -> None:
        if self.where == "send" and self.sent_n == 2:
            raise RSocketTransportError from OSError("the cable is out")
        await super().send_frame(frame)

    async def next_frame_generator(self) -> Any:
        found = await super().next_frame_generator()
        if self.where == "receive" and self.sent_n > 2:
            raise RSocketTransportError
        return None if self.where == "end" and self.sent_n > 2 else found


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("connect", "no carrier"),
        ("dial", "nobody listens"),
        ("send", "the cable is out"),
        ("receive", "RSocketTransportError"),
        ("end", "closed the connection"),
    ],
)
async def test_a_transport_that_breaks_ends_requests(server: Server, where: str, text: str) -> None:
    transport = Broken(where, *await asyncio.open_connection("127.0.0.1", server.port))
    async with RSocketClient(single_transport_provider(transport)) as client:
        with pytest.raises(RSocketProtocolError, match=text):
            await client.request_response(Payload(b"a"))
    await transport.close()


async def test_on_close_reconnects_on_the_next_transport(broker: FakeBroker) -> None:
    handler = Listening(comes_back=True)
    attempts = 0

    class Provider:
        """An iterator that fails once goes on, which an async generator would not."""

        def __aiter__(self) -> "Provider":
            return self

        async def __anext__(self) -> Any:
            nonlocal attempts
            attempts += 1
            if attempts == 2:
                raise OSError("no way there")
            return await dialled(broker.port)

    async with RSocketClient(Provider(), handler_factory=lambda: handler) as client:
        waiting = client.request_response(Payload(b""))
        (await broker.peer(0)).abort()
        with pytest.raises(RSocketProtocolError):
            await waiting
        assert (await handler.told.get())[0] == "close"
        kind, error = await handler.told.get()
        assert (kind, str(error)) == ("connection_error", "no way there")
        await broker.peer(1)
        while not client.is_server_alive():
            await asyncio.sleep(0)
        handler.comes_back = False
    assert await handler.told.get() == ("close", None)
    assert attempts == 3


async def test_without_a_connection_requests_fail_and_the_handler_knows_why() -> None:
    handler = Listening()

    async def nothing() -> AsyncIterator[Any]:
        raise ConnectionRefusedError("nobody listens")
        yield

    async with RSocketClient(nothing(), handler_factory=lambda: handler) as client:
        with pytest.raises(RSocketProtocolError, match="nobody listens") as caught:
            await client.request_response(Payload(b""))
        assert caught.value.error_code is ErrorCode.CONNECTION_ERROR
        assert (await handler.told.get())[0] == "connection_error"
        assert await client.connect() is None  # the provider is at its end
        with pytest.raises(RSocketProtocolError, match="no more transports"):
            await client.request_response(Payload(b""))


async def test_a_refused_setup_is_a_connection_error(broker: FakeBroker) -> None:
    broker.refusal = (0x003, "not you")
    handler = Listening()
    async with RSocketClient(single_transport_provider(await dialled(broker.port)), handler_factory=lambda: handler):
        kind, error = await handler.told.get()
        assert (kind, error.error_code, error.data) == ("connection_error", ErrorCode.REJECTED_SETUP, "not you")


async def test_silence_is_told_as_a_keepalive_timeout(broker: FakeBroker) -> None:
    handler = Listening()
    async with RSocketClient(
        single_transport_provider(await dialled(broker.port)),
        handler_factory=lambda: handler,
        keep_alive_period=timedelta(milliseconds=10),
        max_lifetime_period=timedelta(milliseconds=50),
    ):
        broker.is_silent = True
        assert await handler.told.get() == ("keepalive", timedelta(milliseconds=50))
        assert (await handler.told.get())[0] == "close"


async def test_a_server_that_says_nothing_is_given_up(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drop_in, "CONNECT_S", 0.02)
    broker.is_silent = True
    handler = Listening()
    async with RSocketClient(single_transport_provider(await dialled(broker.port)), handler_factory=lambda: handler):
        kind, error = await handler.told.get()
        assert kind == "connection_error"
        assert isinstance(error, TimeoutError)


async def test_a_handler_that_sleeps_in_on_close_does_not_hold_up_close(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Listening()
    handler.may_return.clear()
    monkeypatch.setattr(lifecycle, "CALLBACK_S", 0.01)
    async with RSocketClient(single_transport_provider(await dialled(broker.port)), handler_factory=lambda: handler):
        pass


async def test_a_handler_that_fails_in_on_close_is_logged(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(BaseRequestHandler):  # type: ignore[misc]
        async def on_close(self, rsocket: Any, exception: Exception | None = None) -> None:
            raise ValueError("mine")

    async with RSocketClient(single_transport_provider(await dialled(broker.port)), handler_factory=Failing):
        pass
    assert "the handler failed when it was told of its connection" in caplog.text


async def test_the_client_answers_requests_of_the_server(server: Server) -> None:
    class Answering(BaseRequestHandler):  # type: ignore[misc]
        async def request_response(self, payload: Any) -> Any:
            return create_response(b"from the client")

    client = RSocketClient(single_transport_provider(await dialled(server.port)))
    client.set_handler_using_factory(Answering)
    async with client:
        answer = await server.servers[0].request_response(Payload(b""))
        assert bytes(answer.data) == b"from the client"


async def test_what_cannot_be_done_is_refused() -> None:
    async def provider() -> AsyncIterator[Any]:
        yield None

    with pytest.raises(RSocketError, match="fragment size"):
        RSocketClient(provider(), fragment_size_bytes=63)
    with pytest.raises(NotImplementedError, match="grants no leases"):
        RSocketClient(provider(), lease_publisher=object())
    with pytest.raises(RSocketProtocolError, match="was not called"):
        await RSocketClient(provider()).request_response(Payload(b""))


async def test_requests_wait_for_the_lease_of_the_server(broker: FakeBroker) -> None:
    transport = single_transport_provider(await dialled(broker.port))
    async with RSocketClient(transport, honor_lease=True, request_queue_size=3) as client:
        peer = await broker.peer(0)
        assert (await peer.expect(frames.SETUP))[0].flags & 0x40
        broker.is_silent = True
        waiting = [client.request_response(Payload(b"%d" % number)) for number in range(4)]
        with pytest.raises(asyncio.QueueFull):
            await waiting.pop()
        assert peer.of(frames.RESPONSE) == []
        peer.send(Frame(0, frames.LEASE, 0, (10_000).to_bytes(4) + (2).to_bytes(4)))
        assert [frame.data for frame in await peer.expect(frames.RESPONSE, 2)] == [b"0", b"1"]
        waiting[2].cancel()
        client.request_stream(Payload(b"stream")).subscribe(heard := Heard())
        peer.send(Frame(0, frames.LEASE, 0, (10_000).to_bytes(4) + (1).to_bytes(4)))
        await peer.expect(frames.STREAM)
        peer.abort()
        await heard.end()
        await asyncio.wait(waiting)
        assert [future.cancelled() or future.exception() is not None for future in waiting] == [True] * 3


async def test_payloads_leave_in_fragments_of_the_size_that_is_asked_for(broker: FakeBroker) -> None:
    transport = single_transport_provider(await dialled(broker.port))
    async with RSocketClient(transport, fragment_size_bytes=64) as client:
        broker.is_silent = True
        waiting = client.request_response(Payload(b"x" * 150))
        peer = await broker.peer(0)
        await peer.expect(frames.PAYLOAD, 2)
        pieces = [each for each in peer.frames if each.kind in (frames.RESPONSE, frames.PAYLOAD)]
        assert [len(each.encode()) for each in pieces] == [64, 64, 40]
        await cancel(waiting)


async def test_inside_the_block_their_name_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "not_to_be_imported", None)
    original = rsocket.rsocket_client.RSocketClient
    with substituted():
        assert rsocket.rsocket_client.RSocketClient is RSocketClient
        assert rsocket.transports.aiohttp_websocket.RSocketClient is RSocketClient
    assert rsocket.rsocket_client.RSocketClient is original
    assert rsocket.transports.aiohttp_websocket.RSocketClient is original


def test_a_program_is_run_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, beside\nfrom rsocket.rsocket_client import RSocketClient\n"
        "if __name__ == '__main__':\n    print(RSocketClient.__module__, beside.WORD, sys.argv[1:])\n"
    )
    monkeypatch.setattr("sys.argv", ["x"])
    monkeypatch.setattr("sys.path", ["x", *sys.path])
    assert main([str(program), "7878"]) == 0
    assert capsys.readouterr().out == "client_sdk.rsocket_py.drop_in beside ['7878']\n"
    assert main([]) == 2
    assert "usage:" in capsys.readouterr().err
    assert runpy.run_path(str(program))["RSocketClient"] is rsocket.rsocket_client.RSocketClient
