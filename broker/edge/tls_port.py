"""A port for TLS: its connections are counted, and may be refused, before their handshakes.

The event loops tell of a TLS connection when its handshake is done. Until then it has a file descriptor and memory all
the same, and need not say a word: so this accepts the sockets itself, and gives to the loop those that may stay.

    accept ── a descriptor is left? ── not too many handshakes? ── handshake, for `timeout_s` at most ──> protocol

Does not know the protocol that a connection gets then.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from broker.config.sections.limits import LimitOptions
from broker.connections.rate_limits import ConnectionCounter
from broker.edge.descriptors import DESCRIPTORS
from broker.edge.origins import address_of, name_of
from broker.limited_log import STRANGERS

HANDSHAKE_EXTRA_S: Final = 3.0  # of a TLS handshake beyond the time to the SETUP: it is two or three round trips more
TOLD_N: Final = 64  # handshakes at a time where all connections are there: whoever is one too many is told so in TLS
ACCEPTED_N: Final = 64  # in one turn of the loop
RETRY_S: Final = 1.0  # until somebody is accepted again, when no descriptor was left

_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE")
_NO_ISSUER: Final = (2, 19, 20, 21)  # of OpenSSL
KIND: Final = "TlsFailed"  # of lines of the log

Address = tuple[Any, ...]  # of a socket: host, port, and of IPv6 two numbers more


class Handshakes:
    """The TLS handshakes that are under way, at all ports of a process."""

    def __init__(self, context: ssl.SSLContext, limits: LimitOptions, open_n: Callable[[], int]) -> None:
        """Of `limits`, max_connections bounds them and the connections beyond them, of which there are `open_n()`;
        max_connections_per_address bounds them alone.
        """
        self.context = context  # of those that begin from now on
        self._timeout_s = limits.setup_timeout_s + HANDSHAKE_EXTRA_S
        self._max_connections = limits.max_connections
        self._open_n = open_n
        self._by_address = ConnectionCounter(limits.max_connections_per_address)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self._tasks)

    def begin(self, sock: socket.socket, address: Address, protocol: Callable[[], asyncio.Protocol]) -> None:
        """A connection was accepted: it gets its protocol after its handshake, or is closed without a word."""
        origin = address_of(address[0])
        room_n = max(self._max_connections - self._open_n(), min(TOLD_N, self._max_connections))
        is_address_free = self._by_address.enter(origin)
        number = sock.fileno()
        if len(self._tasks) < room_n and is_address_free and DESCRIPTORS.has_room(number, name_of("tls", address)):
            task = asyncio.get_running_loop().create_task(self._shake(sock, address, protocol))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._by_address.leave(origin)
            sock.close()

    async def _shake(self, sock: socket.socket, address: Address, protocol: Callable[[], asyncio.Protocol]) -> None:
        origin = address_of(address[0])
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the loops do with those that they accept
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol, sock, ssl=self.context, ssl_handshake_timeout=self._timeout_s
            )
        except ssl.SSLError as error:  # what it says is no TLS that is accepted here, or it does not accept ours
            sock.close()
            text = f"peer {name_of('tls', address)}: closed: the TLS handshake failed: {_reason(error)}"
            STRANGERS.say(KIND, origin, logging.WARNING, text)
        except OSError:  # it took too long, or has left
            sock.close()
        finally:
            self._by_address.leave(origin)

    async def close(self) -> None:
        """Breaks off those that are left."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class TlsPort:
    """Listening sockets whose connections have to shake hands."""

    def __init__(
        self, sockets: Sequence[socket.socket], handshakes: Handshakes, protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        """Accepts at once. `sockets`: bound ones, its own from now on."""
        self.sockets = list(sockets)
        self._handshakes = handshakes
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        for sock in self.sockets:
            self._loop.add_reader(sock, self._accept, sock)

    def close(self) -> None:
        """Accepts no more; handshakes that are under way go on."""
        for sock in self.sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self.sockets = []

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_N):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                self._loop.remove_reader(listening)  # else it is called again and again
                self._loop.call_later(RETRY_S, self._accept_again, listening)
                return
            sock.setblocking(False)
            self._handshakes.begin(sock, address, self._protocol)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)


def bind(infos: Sequence[tuple[int, Address]], backlog: int, shares_port: bool) -> list[socket.socket]:
    """Sockets that listen at these addresses, each with its family; OSError."""
    made: list[socket.socket] = []
    try:
        for family, address in infos:
            sock = socket.create_server(address, family=family, backlog=backlog, reuse_port=shares_port)
            sock.setblocking(False)
            made.append(sock)
    except BaseException:
        for sock in made:
            sock.close()
        raise
    return made


def _reason(error: ssl.SSLError) -> str:
    """What OpenSSL says, in small letters: `certificate verify failed: certificate has expired`."""
    reason = (error.reason or "unknown").replace("_", " ").lower()
    if error.reason in _NO_TLS:
        return f"{reason}: the URL of who connects has a wrong scheme, tls:// and wss:// are right here"
    if not isinstance(error, ssl.SSLCertVerificationError):
        return reason
    said = f"{reason}: {error.verify_message}"
    return (
        f"{said}: no CA that this port accepts, tls.client_ca, signed it" if error.verify_code in _NO_ISSUER else said
    )
