"""RSocket over TCP, TLS and Unix sockets: bytes between a transport and the shell. Decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from typing import Final, cast

from broker.edge.accept import BACKLOG, accept
from broker.edge.descriptors import peers_entrance
from broker.edge.link import LEFT
from broker.edge.origins import origin_of, peer_name
from broker.edge.shell import HIGH_MARK_BYTES, LOW_MARK_BYTES, Shell
from broker.edge.tls_port import Handshakes, TlsPort
from broker.edge.unconfirmed import unconfirmed_bytes
from broker.forwarding.arrival import FOR_ALL
from broker.forwarding.outbound import Piece
from broker.forwarding.peer import Peer
from rsocket_wire.errors import BrokerError

# Over TLS a transport holds what it has encrypted, its own copy of it: a frame that goes to many costs that for each.
TLS_HIGH_MARK_BYTES: Final = HIGH_MARK_BYTES // 4
TLS_LOW_MARK_BYTES: Final = LOW_MARK_BYTES // 4


class StreamLink(asyncio.Protocol):
    """One stream connection, from the moment when its transport is there."""

    _transport: asyncio.Transport

    def __init__(self, shell: Shell, entrance: int = FOR_ALL) -> None:
        """`entrance`: who may come where it was accepted."""
        self._shell = shell
        self._entrance = entrance
        self._peer: Peer | None = None  # None until `attach`, and when its peer has another link

    def attach(self, transport: asyncio.Transport, name: str, url: str) -> None:
        """The transport is there. `url`: where another broker was dialled; empty when the connection was accepted."""
        self._transport = transport
        if transport.get_extra_info("sslcontext") is None:
            transport.set_write_buffer_limits(HIGH_MARK_BYTES, LOW_MARK_BYTES)
        else:
            transport.set_write_buffer_limits(TLS_HIGH_MARK_BYTES, TLS_LOW_MARK_BYTES)
        origin = origin_of(transport)
        if url:
            self._peer = self._shell.dialled(name, True, self, url, origin)
        else:
            self._peer = self._shell.connected(name, True, self, origin._replace(entrance=self._entrance))

    def data_received(self, data: bytes) -> None:
        if self._peer is not None:
            self._shell.received(self._peer, data)

    def eof_received(self) -> bool:
        """The other end sends nothing more. RSocket knows no half of a connection: it has closed it."""
        if self._peer is None:
            return False
        self._shell.left(self._peer, LEFT)
        # TLS closes itself; else the shell does, when all is written.
        return self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer is not None:
            self._shell.lost(self._peer, LEFT if exc is None else str(exc))

    def give_up(self) -> None:
        """Its dial was given up. uvloop closes the transport then, and calls no `connection_lost`."""
        if self._peer is not None:
            self._shell.lost(self._peer, LEFT)
            self._peer = None

    def pause_writing(self) -> None:
        if self._peer is not None:
            self._shell.congested(self._peer)

    def resume_writing(self) -> None:
        if self._peer is not None:
            self._shell.relieved(self._peer)

    def serve(self, peer: Peer | None) -> None:
        self._peer = peer

    def pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def pending_bytes(self) -> int:
        try:
            return self._transport.get_write_buffer_size()
        except AttributeError:  # over TLS, when it has broken off and `connection_lost` is still to come
            return 0

    def unconfirmed_bytes(self) -> int:
        try:
            return unconfirmed_bytes(self._transport)
        except AttributeError:  # as in `pending_bytes`
            return 0

    def write(self, pieces: list[Piece]) -> int:
        transport = self._transport
        for piece in pieces:  # one, but of what has waited: large pieces are never copied
            if transport.is_closing():  # it has failed, which is told later; uvloop's would raise RuntimeError
                break
            transport.write(piece)
        return transport.get_write_buffer_size()

    def end(self) -> None:
        """The core has all that was read."""

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class TcpLink(StreamLink):
    """A connection whose bytes are RSocket's."""

    def __init__(self, shell: Shell, scheme: str, url: str = "", entrance: int = FOR_ALL) -> None:
        """`url`: where another broker was dialled; empty when the connection was accepted, where `entrance` says."""
        super().__init__(shell, entrance)
        self._scheme = scheme
        self._url = url

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one in all but inheritance
        self.attach(cast(asyncio.Transport, transport), peer_name(self._scheme, transport), self._url)


async def listen_tcp(
    shell: Shell,
    host: str,
    port: int,
    handshakes: Handshakes | None,
    shares_port: bool = False,
    entrance: int = FOR_ALL,
) -> tuple[asyncio.Server | TlsPort, int]:
    """Accepts on a TCP port, with TLS if there are handshakes; the server and the port (0 lets the system choose).

    `shares_port`: see `accept`.
    """
    scheme = "tcp" if handshakes is None else "tls"
    return await accept(lambda: TcpLink(shell, scheme, "", entrance), [host], port, handshakes, shares_port)


async def listen_unix(shell: Shell, path: str, entrance: int = FOR_ALL) -> asyncio.Server:
    """Accepts on a Unix socket; a socket file that nobody listens on any more is replaced. As `_remove_stale`."""
    _remove_stale(path)
    loop = asyncio.get_running_loop()
    return await loop.create_unix_server(
        lambda: peers_entrance(lambda: TcpLink(shell, "unix", "", entrance), "unix"), path, backlog=BACKLOG
    )


def _remove_stale(path: str) -> None:
    """Removes a socket file that a dead process left; OSError EADDRINUSE when somebody listens there, BrokerError
    "cannot-listen" when it is no socket.

    The event loops remove any socket file themselves, also one that another broker serves: it would go on without
    ever getting a connection again.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):  # it stays what it is
            kind = "folder" if os.path.isdir(path) else "file"
            raise BrokerError("cannot-listen", f"unix://{path}: there is a {kind} that is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            if probe.connect_ex(path) != errno.ECONNREFUSED:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        os.unlink(path)
