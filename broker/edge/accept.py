"""Accepting on a TCP port: one port for all addresses of a host, and an end to TLS handshakes that do not end.

Who comes is let in by a `Doorkeeper`, which knows how many file descriptors are left.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from broker.edge.descriptors import Doorkeeper

BACKLOG: Final = 1024  # connections that the system accepts for us while the loop is busy
HANDSHAKE_EXTRA_S: Final = 3.0  # of a TLS handshake beyond the time to the SETUP: it is two or three round trips more
MAX_TRIES: Final = 8  # to find a port that is free at all addresses of a host


async def accept(
    protocol: Callable[[], asyncio.Protocol],
    hosts: Sequence[str],
    port: int,
    context: ssl.SSLContext | None,
    setup_timeout_s: float,
    shares_port: bool = False,
) -> tuple[asyncio.Server, int]:
    """Accepts on the port at all addresses of the hosts, with TLS if there is a context; the server and the port.

    Port 0 lets the system choose, the same one for all addresses: `localhost` is 127.0.0.1 and ::1, and one URL names
    both. `shares_port`: other processes of this user may accept there, too, and the system gives each connection to one
    of them. OSError when it cannot be.
    """
    loop = asyncio.get_running_loop()
    scheme = "tcp" if context is None else "tls"
    handshake_s = setup_timeout_s + HANDSHAKE_EXTRA_S if context is not None else None
    for tries_left in reversed(range(MAX_TRIES)):
        chosen = port or await _free_port(hosts)
        try:
            server = await loop.create_server(
                lambda: Doorkeeper(protocol, scheme),
                hosts,
                chosen,
                ssl=context,
                backlog=BACKLOG,
                reuse_address=True,
                reuse_port=shares_port,
                ssl_handshake_timeout=handshake_s,
            )
        except OSError as error:
            if port or not chosen or not tries_left or error.errno != errno.EADDRINUSE:
                raise
        else:
            return server, server.sockets[0].getsockname()[1]
    raise AssertionError("the last try returns or raises")


async def _free_port(hosts: Sequence[str]) -> int:
    """A port that was free at the first address a moment ago; 0 when there is only one address: the system's choice."""
    loop = asyncio.get_running_loop()
    found = [
        info
        for host in hosts
        for info in await loop.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    ]
    if len({info[4] for info in found}) < 2:
        return 0
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.bind(address)
        port: int = probe.getsockname()[1]
        return port
