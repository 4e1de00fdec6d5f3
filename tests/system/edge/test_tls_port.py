"""TLS handshakes: bounded in time and number, and counted among the connections."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

import pytest

from broker.config.sections.limits import LimitOptions
from broker.edge import tls_port
from broker.edge.accept import accept
from broker.edge.tls_port import Handshakes
from tests.system.edge.test_arrivals import are_closed, opened
from tests.system.support.waits import until


class Greeter(asyncio.Protocol):
    """Says hello."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


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
