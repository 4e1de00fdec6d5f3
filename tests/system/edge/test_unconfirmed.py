"""What a socket holds that nobody has read: on both event loops, whatever stands between them and the socket."""

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop

from broker.config.certificates import load_pair
from broker.edge.unconfirmed import unconfirmed_bytes
from tests.system.support.certificates import Authority
from tests.system.support.waits import TEST_S, until

SENT_BYTES = 8 << 20
READ_BYTES = 64 << 10

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no other system tells")


class Sender(asyncio.Protocol):
    """Sends more than any system takes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(bytes(SENT_BYTES))


async def look(sender: Sender, reader: asyncio.StreamReader) -> tuple[int, int, int]:
    """What the system holds: when it takes no more, when some of that has been read, when all has."""
    seen: list[int] = []

    def is_full() -> bool:
        if sender.transport is not None:
            seen.append(unconfirmed_bytes(sender.transport))
        return len(seen) > 5 and 0 < seen[-1] == min(seen[-5:]) == max(seen[-5:])

    await until(is_full)
    transport = sender.transport
    assert transport is not None
    full = unconfirmed_bytes(transport)
    left = SENT_BYTES
    while left and (some := unconfirmed_bytes(transport)) >= full:
        left -= len(await reader.read(READ_BYTES))
    while left:
        left -= len(await reader.read(READ_BYTES))
    await until(lambda: unconfirmed_bytes(transport) == 0)
    transport.abort()
    return full, some, SENT_BYTES - left


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("scheme", ["tcp", "tls", "unix"])
def test_what_the_system_holds_shrinks_by_what_is_read(
    authority: Authority, socket_folder: Path, make_loop: Callable[[], asyncio.AbstractEventLoop], scheme: str
) -> None:
    shown = trusted = None
    if scheme == "tls":
        shown, trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), authority.client_context()
        load_pair(shown, str(authority.certificate("broker")), str(authority.key("broker")))

    async def run() -> tuple[int, int, int]:
        loop = asyncio.get_running_loop()
        sender = Sender()
        if scheme == "unix":
            path = str(socket_folder / "x.sock")
            server = await loop.create_unix_server(lambda: sender, path)
            reader, writer = await asyncio.open_unix_connection(path, limit=READ_BYTES)
        else:
            server = await loop.create_server(lambda: sender, "127.0.0.1", 0, ssl=shown)
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BYTES)
            sock.setblocking(False)
            await loop.sock_connect(sock, server.sockets[0].getsockname())
            name = "127.0.0.1" if trusted is not None else None
            reader, writer = await asyncio.open_connection(
                sock=sock, ssl=trusted, server_hostname=name, limit=READ_BYTES
            )
        async with asyncio.timeout(TEST_S):
            seen = await look(sender, reader)
        writer.transport.abort()
        server.close()
        return seen

    with asyncio.Runner(loop_factory=make_loop) as runner:
        full, some, read = runner.run(run())
    assert some < full
    assert read == SENT_BYTES
