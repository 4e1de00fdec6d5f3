"""Who closes a connection on which bytes wait for him serves nobody any more, and does not keep it open."""

import asyncio
import contextlib
import socket
import ssl
import struct
from urllib.parse import urlsplit

import pytest

from rsocket_wire.rsocket.frames import REQUEST_FNF, Setup
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.rsocket.websocket import BINARY, CLOSE
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from tests.conftest import MakeServer, StartBroker
from tests.fakes import composite, route_id
from tests.rsocket_wire.rsocket.test_websocket import said
from tests.system.support.certificates import Authority
from tests.system.support.waits import WAIT_S, until
from tests.system.support.wires import Closed, Wire, url_of

SENT_N = 60  # requests of 100 kB, more than the system holds
SOON_S = 4.0  # sooner than a keepalive that is missing would be seen, or `limits.stuck_s` is over
UPGRADE = (
    "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Reader:
    """A service that reads when it is told to, by sockets that wait."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self.is_websocket = parts.scheme in ("ws", "wss")
        self.sock = socket.socket(socket.AF_UNIX if parts.scheme == "unix" else socket.AF_INET)
        self.sock.settimeout(WAIT_S)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.connect(parts.path if parts.scheme == "unix" else ("127.0.0.1", parts.port))
        if context is not None:
            self.sock = context.wrap_socket(self.sock, server_hostname="localhost")
        if self.is_websocket:
            self.sock.sendall(UPGRADE.encode())
            assert self.sock.recv(65_536).startswith(b"HTTP/1.1 101")
        metadata = composite((MIME_TYPE, RouteSetup(route_id(1), "orders", []).encode()))
        raw = Setup(COMPOSITE_MIME, "text/plain", 20_000, 90_000, metadata).encode()
        self.sock.sendall(said(BINARY, raw) if self.is_websocket else len(raw).to_bytes(3, "big") + raw)

    def say_last(self, says_close: bool = True) -> None:
        """CLOSE of a WebSocket, close_notify of TLS; FIN of anything else, and where nothing else is to be said."""
        if self.is_websocket and says_close:
            self.sock.sendall(said(CLOSE, struct.pack(">H", 3000)))
        elif isinstance(self.sock, ssl.SSLSocket) and says_close:
            self.sock.settimeout(0.2)
            with contextlib.suppress(OSError):  # it waits for the other's, behind what it does not read
                self.sock.unwrap()
        else:
            socket.socket.shutdown(self.sock, socket.SHUT_WR)

    def rest(self) -> bytes:
        """All that the broker has still written."""
        read = b""
        with contextlib.suppress(ConnectionError):
            while data := self.sock.recv(1 << 20):
                read += data
        return read


async def flooded(url: str, caller: Wire, context: ssl.SSLContext | None = None) -> Reader:
    """A service for which many bytes wait; the caller may be held up for it."""
    service = await asyncio.to_thread(Reader, url, context)
    while True:
        caller.request("orders")
        try:
            assert (await caller.receive(0.3)).text.startswith("no-route:")
        except TimeoutError:  # it is there, and says nothing
            break
    for _ in range(SENT_N):
        caller.request("orders", bytes(100_000), kind=REQUEST_FNF)
    return service


async def assert_gone(caller: Wire) -> None:
    """The request that it had is lost, and the next one finds no route."""
    assert (await caller.receive(SOON_S)).text.startswith("route-lost:")
    assert (await caller.ask("orders")).text.startswith("no-route:")


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_who_closes_while_bytes_wait_is_no_route_any_more(make_server: MakeServer, scheme: str) -> None:
    server = await make_server()
    server.shell.slow_peers.close_s = 0.1
    caller = await Wire.caller(url_of(server, "tcp"))
    service = await flooded(url_of(server, scheme), caller)
    await until(lambda: any(peer.is_congested for peer in server.core.peers()))
    service.say_last()
    await assert_gone(caller)
    await until(lambda: server.shell.links_open() == 1)
    assert server.core.lifecycle.limits.closed.by_reason == {"left": 1}
    service.sock.close()


@pytest.mark.parametrize(
    ("scheme", "says_close"), [("tcp", True), ("ws", True), ("ws", False), ("tls", True), ("wss", True)]
)
async def test_a_process_lets_it_go_too(
    start_broker: StartBroker, authority: Authority, scheme: str, says_close: bool
) -> None:
    """The same on the event loop that brokers run on, and over TLS."""
    listen = ("--listen", "tcp://127.0.0.1:0", "--listen", f"{scheme}://127.0.0.1:0", "--admin", "127.0.0.1:0")
    broker = start_broker(*listen, **authority.broker_options())
    assert broker.admin_url
    caller = await Wire.caller(broker.url("tcp"))
    context = authority.client_context() if scheme in ("tls", "wss") else None
    service = await flooded(broker.urls[-1], caller, context)
    await until(lambda: broker.view("routes")["items"][0]["states"] == ["congested"])
    service.say_last(says_close)
    await assert_gone(caller)
    service.sock.close()


@pytest.mark.parametrize("scheme", ["tcp", "unix"])
async def test_who_has_closed_and_reads_gets_what_was_written_to_it(make_server: MakeServer, scheme: str) -> None:
    server = await make_server()
    caller = await Wire.caller(url_of(server, "tcp"))
    service = await flooded(url_of(server, scheme), caller)
    await until(lambda: any(peer.is_congested for peer in server.core.peers()))
    service.say_last()
    await assert_gone(caller)
    rest = await asyncio.to_thread(service.rest)
    sizes = []
    while rest:
        size = int.from_bytes(rest[:3], "big")
        sizes.append(len(rest[3 : 3 + size]) - size)
        rest = rest[3 + size :]
    assert len(sizes) > 10  # what the transport held
    assert set(sizes) == {0}  # whole frames
    await until(lambda: server.shell.links_open() == 1)


async def test_a_close_inside_a_large_message_is_answered_behind_it(make_server: MakeServer) -> None:
    """RFC 6455, section 5.5.1."""
    server = await make_server()
    caller = await Wire.caller(url_of(server, "tcp"))
    service = await asyncio.to_thread(Reader, url_of(server, "ws"))
    await until(lambda: server.core.table.size() == 1)
    caller.request("orders", bytes(12_000_000), kind=REQUEST_FNF)
    await until(lambda: any(peer.is_congested for peer in server.core.peers()))
    service.say_last()
    rest = await asyncio.to_thread(service.rest)
    assert len(rest) > 12_000_000
    assert rest[-4:] == said(CLOSE, struct.pack(">H", 3000), key=None)
    with contextlib.suppress(Closed):
        await caller.close()
