"""Accepting: one port at all addresses of a host."""

import asyncio
import socket
from urllib.parse import urlsplit

from broker.edge.accept import accept
from tests.conftest import StartBroker
from tests.system.edge.test_tls_port import Greeter
from tests.system.support.waits import soon


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
