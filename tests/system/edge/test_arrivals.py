"""Connections that are not yet what they are to be: no WebSocket, no TLS, no SETUP. They are few, and not for long."""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import pytest

from broker.config.sections.limits import LimitOptions
from broker.edge import tls_port
from broker.edge.accept import accept
from broker.edge.tls_port import Handshakes
from broker.edge.upgrade import MAX_HEAD_BYTES
from broker.forwarding.peer import MAX_SETUP_BYTES
from tests.conftest import MakeServer, StartBroker
from tests.system.support.waits import soon, until
from tests.system.support.wires import Closed, Wire, url_of

SETUP_TIMEOUT_S = 0.3
HALF_A_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: webs"
A_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def opened(url: str, count: int, said: bytes = b"") -> AsyncIterator[list[Stream]]:
    """Bare TCP connections to the URL's port that say this and then nothing."""
    parts = urlsplit(url)
    made = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(count)]
    for _, writer in made:
        writer.write(said)
    try:
        yield made
    finally:
        for _, writer in made:
            writer.transport.abort()


async def are_closed(streams: list[Stream]) -> None:
    for reader, _ in streams:
        with contextlib.suppress(ConnectionError):
            await soon(reader.read())


@pytest.mark.parametrize("said", [b"", HALF_A_REQUEST, A_REQUEST], ids=["nothing", "half a request", "no upgrade"])
async def test_what_does_not_become_a_websocket_in_time_is_closed(start_broker: StartBroker, said: bytes) -> None:
    broker = start_broker(limits__setup_timeout_s=SETUP_TIMEOUT_S)
    wire = await Wire.caller(broker.url("ws"))
    async with opened(broker.url("ws"), 20, said) as streams:
        await are_closed(streams)
    await wire.ping()  # a WebSocket has no such deadline
    assert "Traceback" not in broker.errors


async def test_connections_that_are_no_websockets_yet_are_counted(start_broker: StartBroker) -> None:
    """On the event loop that brokers run on."""
    broker = start_broker(limits__max_connections=3, limits__setup_timeout_s=60)
    async with opened(broker.url("ws"), 3), opened(broker.url("ws"), 2) as streams:
        await are_closed(streams)
    await Wire.caller(broker.url("ws"))  # they are gone, and so it has room
    assert "Traceback" not in broker.errors


async def test_a_first_message_beyond_the_bound_is_refused_by_its_length(start_broker: StartBroker) -> None:
    broker = start_broker()
    wire = await Wire.connect(broker.url("ws"))
    sending = asyncio.create_task(wire.messages.ws.send_bytes(bytes(16_000_000)))
    (frame,) = await wire.rest()
    assert frame.text == f"bad-frame: a frame of 16000000 bytes, the limit is {MAX_SETUP_BYTES}"
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    wire.transport.abort()


async def test_a_caller_may_send_much_behind_its_setup_without_waiting(start_broker: StartBroker) -> None:
    broker = start_broker()
    service = await Wire.service(broker.url("tcp"), "orders", 1)
    for _ in range(5):
        caller = await Wire.connect(broker.url("ws"))
        caller.setup()
        for _ in range(10):
            caller.request("orders", bytes(MAX_SETUP_BYTES + MAX_HEAD_BYTES), kind=0x05)
        for _ in range(10):
            assert len((await service.receive()).data) == MAX_SETUP_BYTES + MAX_HEAD_BYTES
        await caller.ping()
        await caller.close()


class Greeter(asyncio.Protocol):
    """Says hello."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


async def greeted(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    said = await soon(reader.read())
    writer.close()
    await writer.wait_closed()
    return said


async def test_a_port_that_the_system_chooses_is_the_same_at_all_addresses() -> None:
    """`localhost` may be 127.0.0.1 and ::1; these two addresses every machine has."""
    hosts = ["127.0.0.1", "127.0.0.2"]
    server, port = await accept(Greeter, hosts, 0, None)
    assert sorted(each.getsockname() for each in server.sockets) == [(host, port) for host in hosts]
    assert [await greeted(host, port) for host in hosts] == [b"hello", b"hello"]
    server.close()


async def test_a_listener_on_localhost_is_reached_at_each_of_its_addresses(start_broker: StartBroker) -> None:
    broker = start_broker("--listen", "tcp://localhost:0", "--listen", "ws://localhost:0")
    for scheme in ("tcp", "ws"):
        parts = urlsplit(broker.url(scheme))
        found = await asyncio.get_running_loop().getaddrinfo("localhost", parts.port, type=socket.SOCK_STREAM)
        for address in {str(info[4][0]) for info in found}:
            _, writer = await asyncio.open_connection(address, parts.port)
            writer.transport.abort()


def handshakes(
    setup_timeout_s: float = 60.0, max_connections: int = 100, per_address: int = 0, open_n: Callable[[], int] = int
) -> Handshakes:
    """That never end: without a certificate there is none to be shown."""
    limits = LimitOptions(setup_timeout_s, max_connections, per_address)
    return Handshakes(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), limits, open_n)


async def test_a_tls_handshake_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.edge.tls_port.HANDSHAKE_EXTRA_S", 0.1)
    made = handshakes(0.1)
    server, port = await accept(Greeter, ["127.0.0.1"], 0, made)
    async with opened(f"tls://127.0.0.1:{port}", 3, b"\x16\x03\x01") as streams:
        await until(lambda: made.size == 3)
        await are_closed(streams)
    await until(lambda: made.size == 0)
    server.close()


@pytest.mark.parametrize(("max_connections", "per_address"), [(3, 0), (100, 3)])
async def test_tls_handshakes_are_counted(max_connections: int, per_address: int) -> None:
    made = handshakes(max_connections=max_connections, per_address=per_address)
    server, port = await accept(Greeter, ["127.0.0.1"], 0, made)
    url = f"tls://127.0.0.1:{port}"
    async with opened(url, 3):
        await until(lambda: made.size == 3)
        async with opened(url, 2) as streams:
            await are_closed(streams)
        assert made.size == 3
    await until(lambda: made.size == 0)  # they are gone, and so it has room
    async with opened(url, 1):
        await until(lambda: made.size == 1)
        server.close()
        await made.close()
    assert made.size == 0


async def test_connections_and_tls_handshakes_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for some, so that whoever is one too many can be told so."""
    monkeypatch.setattr(tls_port, "TOLD_N", 1)
    made = handshakes(max_connections=5, open_n=lambda: open_n)
    server, port = await accept(Greeter, ["127.0.0.1"], 0, made)
    url = f"tls://127.0.0.1:{port}"
    for open_n, room_n in ((3, 2), (5, 1), (6, 1)):  # noqa: B007 the lambda above looks at it
        async with opened(url, room_n):
            await until(lambda room_n=room_n: made.size == room_n)  # type: ignore[misc]
            async with opened(url, 1) as streams:
                await are_closed(streams)
        await until(lambda: made.size == 0)
    server.close()


async def test_a_port_for_tls_that_the_system_chooses_is_the_same_at_all_addresses() -> None:
    hosts = ["127.0.0.1", "127.0.0.2"]
    server, port = await accept(Greeter, hosts, 0, handshakes())
    assert sorted(each.getsockname() for each in server.sockets) == [(host, port) for host in hosts]
    with pytest.raises(OSError, match="in use"):
        await accept(Greeter, hosts, port, handshakes())
    server.close()


async def test_a_tls_port_without_descriptors_accepts_again_when_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_port, "RETRY_S", 0.05)
    made = handshakes()
    server, port = await accept(Greeter, ["127.0.0.1"], 0, made)
    failures: list[int] = []
    accept_one = socket.socket.accept

    def fail(self: socket.socket) -> object:
        failures.append(1)
        if len(failures) < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept_one(self)

    monkeypatch.setattr(socket.socket, "accept", fail)
    async with opened(f"tls://127.0.0.1:{port}", 1):
        await until(lambda: made.size == 1)
        server.close()
        await made.close()
    assert len(failures) >= 3


async def test_a_setup_beyond_256_kib_is_refused_on_both_transports(make_server: MakeServer) -> None:
    server = await make_server()
    for scheme in ("tcp", "ws"):
        wire = await Wire.connect(url_of(server, scheme))
        wire.send(bytes(MAX_SETUP_BYTES + 1))
        (frame,) = await wire.rest()
        assert frame.text.startswith("bad-frame:")
        with contextlib.suppress(Closed, ConnectionError):
            await wire.close()
