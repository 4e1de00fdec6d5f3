"""Accepting on a TCP port: one port for all addresses of a host.

Who comes is let in by a `descriptors.peers_entrance`, which knows how many descriptors are left, or to a TLS handshake.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from typing import Final

from broker.edge.descriptors import peers_entrance
from broker.edge.tls_port import Address, Handshakes, TlsPort, bind

BACKLOG: Final = 1024  # connections that the system accepts for us while the loop is busy
MAX_TRIES: Final = 8  # to find a port that is free at all addresses of a host


async def accept(
    protocol: Callable[[], asyncio.Protocol],
    hosts: Sequence[str],
    port: int,
    handshakes: Handshakes | None,
    shares_port: bool = False,
) -> tuple[asyncio.Server | TlsPort, int]:
    """Accepts on the port at all addresses of the hosts, with TLS if there are handshakes; the server and the port.

    Port 0 lets the system choose, the same one for all addresses: `localhost` is 127.0.0.1 and ::1, and one URL names
    both. `shares_port`: other processes of this user may accept there, too, and the system gives each connection to one
    of them. OSError when it cannot be.
    """
    loop = asyncio.get_running_loop()
    for tries_left in reversed(range(MAX_TRIES)):
        chosen = port or await _free_port(hosts)
        try:
            if handshakes is not None:
                port_of_tls = TlsPort(bind(await _found(hosts, chosen), BACKLOG, shares_port), handshakes, protocol)
                return port_of_tls, port_of_tls.sockets[0].getsockname()[1]
            server = await loop.create_server(
                lambda: peers_entrance(protocol, "tcp"),
                hosts,
                chosen,
                backlog=BACKLOG,
                reuse_address=True,
                reuse_port=shares_port,
            )
        except OSError as error:
            if port or not chosen or not tries_left or error.errno != errno.EADDRINUSE:
                raise
        else:
            return server, server.sockets[0].getsockname()[1]
    raise AssertionError("the last try returns or raises")


async def _free_port(hosts: Sequence[str]) -> int:
    """A port that was free at the first address a moment ago; 0 when there is only one address: the system's choice."""
    found = await _found(hosts, 0)
    if len(found) < 2:
        return 0
    family, address = found[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(address)
        port: int = probe.getsockname()[1]
        return port


async def _found(hosts: Sequence[str], port: int) -> list[tuple[int, Address]]:
    """All addresses of the hosts with that port, and their families."""
    loop = asyncio.get_running_loop()
    found: dict[tuple[int, Address], None] = {}
    for host in hosts:
        for info in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            found[info[0], info[4]] = None
    return list(found)
