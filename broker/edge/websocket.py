"""RSocket over WebSocket: bytes between a transport and the shell, with `rsocket.websocket` between them.

Decides what the core cannot see: how long a connection may take to become a WebSocket, how many are about to, who may
have one, and how one is closed.

    accepted ── AcceptedUpgrade: HTTP, setup_timeout_s at most ──101──> WebSocketLink: the core waits for SETUP ──> peer
    dialled ─── DialledUpgrade: HTTP ────────────────────────────101──> WebSocketLink
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection
from http import HTTPStatus
from string import ascii_letters
from typing import Final, cast

from broker.config.hosts import is_known_host, may_open
from broker.config.sections.limits import LimitOptions
from broker.config.urls import Listen
from broker.connections.rate_limits import ConnectionCounter
from broker.edge.accept import accept
from broker.edge.link import LEFT
from broker.edge.origins import peer_address, peer_name
from broker.edge.shell import TURN_BYTES, Shell
from broker.edge.tcp import StreamLink
from broker.edge.tls_port import Handshakes, TlsPort
from broker.edge.upgrade import UpgradeRequest, refusal
from broker.forwarding.arrival import FOR_ALL
from broker.forwarding.outbound import Piece
from broker.forwarding.peer import Peer
from broker.limited_log import STRANGERS
from rsocket_wire.rsocket.foreign import foreign_protocol
from rsocket_wire.rsocket.websocket import CLOSE, NORMAL, PONG, SEED_BYTES, MessageReader, MessageWriter
from rsocket_wire.upgrade import MAX_HEAD_BYTES, HttpHead, UpgradeClient

GOODBYE_S: Final = 1.0  # for the other end to say CLOSE, too, and to take what is left
WEBSOCKET_HERE: Final = "This port speaks RSocket over WebSocket. The REST API has another: admin.listen, usually 7070."
MAX_SHOWN: Final = 200  # characters of what a stranger has sent, in a line of the log

_log: Final = logging.getLogger(__name__)


class WebSocketLink(StreamLink):
    """One WebSocket, once it is one."""

    def __init__(
        self, shell: Shell, transport: asyncio.Transport, is_from_client: bool, entrance: int = FOR_ALL
    ) -> None:
        """`is_from_client`: the other end is the client, which came where `entrance` says."""
        super().__init__(shell, entrance)
        self._transport = transport
        self._reader = MessageReader(is_from_client)
        self._writer = MessageWriter(b"" if is_from_client else os.urandom(SEED_BYTES))
        self._is_congested = False
        self._is_closing = False  # CLOSE was said: nothing more is
        self._is_cut = False  # the other end sends nothing more, and has not said CLOSE
        self._deadline: asyncio.TimerHandle | None = None  # None until it is closing, and when that is done

    def begin(self, scheme: str, url: str, rest: bytes) -> None:
        """Takes the transport over, see `attach`. `rest`: what came behind the HTTP."""
        self._transport.set_protocol(self)
        self.attach(self._transport, peer_name(scheme, self._transport), url)
        if rest:
            self.data_received(rest)

    def data_received(self, data: bytes) -> None:
        peer = self._peer
        if peer is None:
            return
        reader = self._reader
        frames = reader.feed(data, peer.frame.max_bytes)
        peer.message_bytes = reader.gathered_bytes
        if frames and not self._is_closing:
            self._shell.received(peer, frames)
        if len(data) >= TURN_BYTES > len(frames):  # PINGs, or pieces of a message: the shell has not seen how many
            self._shell.rest(peer)
        if reader.has_news:
            self._look_at_news(reader)

    def eof_received(self) -> bool:
        if self._peer is None or self._is_closing:
            return False
        self._is_cut = True
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_congested = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_congested = False
        if self._reader.pong is not None:
            self._answer_ping()
        super().resume_writing()

    def serve(self, peer: Peer | None) -> None:
        self._peer = peer
        if peer is not None:
            peer.message_bytes = self._reader.gathered_bytes
        else:
            self._reader.drop()

    def pause(self) -> None:
        if not self._is_closing:
            super().pause()

    def write(self, pieces: list[Piece]) -> int:
        for piece in pieces:  # one, but of what has waited: large pieces are never copied
            if self._is_closing:
                break
            behind = self._writer.pass_on(len(piece)) if isinstance(piece, memoryview) else None
            if behind is None:
                self._send(self._writer.encode(bytes(piece)))
                continue
            self._send(piece)
            if behind:
                self._send(behind)
        return self.pending_bytes()

    def end(self) -> None:
        self._reader.drop()
        if self._peer is not None:
            self._peer.message_bytes = 0

    def close(self) -> None:
        reader = self._reader
        if self._is_cut:
            self._transport.close()
            return
        self._say_close(reader.close_code if reader.fault or reader.is_closed else NORMAL)
        if reader.is_closed:
            self._transport.close()

    def _look_at_news(self, reader: MessageReader) -> None:
        """Looks at what the other end has sent besides messages."""
        reader.has_news = False
        if reader.pong is not None and not self._is_congested:
            self._answer_ping()
        if self._peer is None or (reader.is_closed and self._is_closing):
            self.close()
        elif reader.is_closed:
            self._shell.left(self._peer, LEFT)  # it closes this when the message that has begun is written
        elif reader.fault:
            self._shell.refuse(self._peer, "bad-frame", reader.fault)

    def _answer_ping(self) -> None:
        """Answers only the latest one, none while the other end takes nothing (section 5.5.3): they cannot pile up."""
        said, self._reader.pong = self._reader.pong, None
        if said is not None and not self._is_closing:
            self._send(self._writer.control(PONG, said))

    def _send(self, data: Piece) -> None:
        """Sends nothing on a transport that has failed, which is told later: uvloop's would raise RuntimeError."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def _say_close(self, code: int) -> None:
        """Says close; then it is the other end's turn, for GOODBYE_S."""
        if self._is_closing or self._transport.is_closing():
            return
        self._is_closing = True
        self._transport.write(self._writer.control(CLOSE, code.to_bytes(2, "big") if code else b""))
        self.resume()
        # Not abort(): what waits may take longer, and the shell ends who does not take it.
        self._deadline = asyncio.get_running_loop().call_later(GOODBYE_S, self._transport.close)


class AcceptedUpgrade(asyncio.Protocol):
    """A connection that was accepted and is no WebSocket yet."""

    def __init__(self, listener: WebSocketListener) -> None:
        self._listener = listener
        self._head = HttpHead()
        self._has_begun = False  # the first byte has come
        self._transport: asyncio.Transport | None = None  # None until it is there
        self._deadline: asyncio.TimerHandle | None = None  # None before it was let in, and after all is answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but inheritance
        if not self._listener.begin_upgrade(self._transport):
            self._transport.abort()  # it has no WebSocket yet in which it could be told why
            return
        timeout_s = self._listener.setup_timeout_s
        self._deadline = asyncio.get_running_loop().call_later(timeout_s, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None or self._transport is None or self._transport.is_closing():
            return
        if data and not self._has_begun and not _may_be_http(data[0]):  # its head would never end
            came = foreign_protocol(data) or "what came"
            text = f"This port speaks RSocket over WebSocket, and {came} is no HTTP: use ws://, tls:// or another port."
            self._refuse(self._transport, HTTPStatus.BAD_REQUEST, text)
            return
        self._has_begun = self._has_begun or bool(data)
        head = self._head.feed(data)
        if head:
            self._answer(self._transport, head)
        elif self._head.is_too_long:
            text = f"a request of more than {MAX_HEAD_BYTES} bytes"
            self._refuse(self._transport, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def _answer(self, transport: asyncio.Transport, head: bytes) -> None:
        request = UpgradeRequest(head)
        refused = self._listener.refusal_of(request)
        if refused is not None:
            self._refuse(transport, *refused)
            return
        raw, fault = request.accept()
        if fault:
            self._listener.log_refused(transport, fault)
        transport.write(raw)
        if fault:
            transport.close()
        else:
            self._leave()
            self._listener.begin(transport, self._head.rest)

    def _refuse(self, transport: asyncio.Transport, status: HTTPStatus, text: str) -> None:
        self._listener.log_refused(transport, text)
        transport.write(refusal(status, text))
        transport.close()  # its time goes on: one that does not read is not waited for

    def _leave(self) -> None:
        """Ends the listener's count of it: it is a WebSocket, or gone."""
        if self._deadline is not None and self._transport is not None:
            self._deadline.cancel()
            self._deadline = None
            self._listener.end_upgrade(self._transport)


class WebSocketListener:
    """A WebSocket port."""

    def __init__(
        self,
        shell: Shell,
        listen: Listen,
        limits: LimitOptions,
        origins: Collection[str],
        names: Collection[str],
        entrance: int = FOR_ALL,
    ) -> None:
        """`limits`: their numbers of connections hold for those, too, that are no WebSockets yet: one more is closed at
        once. `origins`, `names`: see `hosts`. `entrance`: who may come here.
        """
        self.setup_timeout_s = limits.setup_timeout_s
        self._shell = shell
        self._scheme = listen.scheme
        self._path = listen.path  # empty: any
        self._max_upgrades = limits.max_connections
        self._origins = origins
        self._names = names
        self._entrance = entrance
        self._upgrades: set[asyncio.Transport] = set()  # not upgraded yet
        self._by_address = ConnectionCounter(limits.max_connections_per_address)
        self._server: asyncio.Server | TlsPort | None = None  # None until it listens

    async def listen(self, host: str, port: int, handshakes: Handshakes | None, shares_port: bool = False) -> int:
        """Accepts on the port, with TLS if there are handshakes; the port (0 lets the system choose).

        `shares_port`: see `accept`.
        """
        self._server, bound = await accept(lambda: AcceptedUpgrade(self), [host], port, handshakes, shares_port)
        return bound

    def begin_upgrade(self, transport: asyncio.Transport) -> bool:
        """Counts a connection that was accepted; False when it is one too many."""
        address = peer_address(transport)
        if not self._by_address.enter(address) or len(self._upgrades) >= self._max_upgrades:
            self._by_address.leave(address)
            return False
        self._upgrades.add(transport)
        return True

    def end_upgrade(self, transport: asyncio.Transport) -> None:
        """Counts it no more: it is a WebSocket now, or gone."""
        self._upgrades.remove(transport)
        self._by_address.leave(peer_address(transport))

    def refusal_of(self, request: UpgradeRequest) -> tuple[HTTPStatus, str] | None:
        """Returns how it is answered when it gets no WebSocket whatever else it says; None: it may get one."""
        if request.fault:
            return HTTPStatus.BAD_REQUEST, f"no HTTP: {request.fault}"
        if len(request.hosts) != 1:  # RFC 9112, section 3.2: MUST respond with 400
            return HTTPStatus.BAD_REQUEST, f"no HTTP: {len(request.hosts)} times Host instead of once"
        host = request.hosts[0]
        if not is_known_host(host, self._names):  # D-61
            return HTTPStatus.MISDIRECTED_REQUEST, f"{host} is not a name of this broker; add it to server.names"
        if self._path and request.path != self._path:
            return HTTPStatus.NOT_FOUND, f"nothing is at {request.path}"
        if not request.wants_websocket:
            return HTTPStatus.UPGRADE_REQUIRED, WEBSOCKET_HERE
        if request.origin and not may_open(request.origin, host, self._origins):
            return HTTPStatus.FORBIDDEN, f"a page of {request.origin} at {host}: server.origins can hold it"
        return None

    def begin(self, transport: asyncio.Transport, rest: bytes) -> None:
        """It is a WebSocket."""
        link = WebSocketLink(self._shell, transport, is_from_client=True, entrance=self._entrance)
        link.begin(self._scheme, "", rest)

    def log_refused(self, transport: asyncio.Transport, text: str) -> None:
        """Logs that what came is no WebSocket. The only line about it."""
        if STRANGERS.admits("WebSocketUpgrade (refused)", peer_address(transport), logging.INFO):
            _log.info("connection %s: no WebSocket: %s", peer_name(self._scheme, transport), text[:MAX_SHOWN])

    async def stop_accepting(self) -> None:
        """Takes no new connections; those that are there go on."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Ends what is left."""
        await self.stop_accepting()
        for transport in list(self._upgrades):
            transport.abort()


class DialledUpgrade(asyncio.Protocol):
    """A connection to another broker that is no WebSocket yet."""

    def __init__(self, shell: Shell, url: str) -> None:
        self._shell = shell
        self._url = url
        self._upgrade = UpgradeClient(url)
        self._transport: asyncio.Transport | None = None  # None until it is there
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def opened(self) -> None:
        """Returns when the shell has it; OSError."""
        try:
            await self._opened
        except BaseException:
            if self._transport is not None:
                self._transport.abort()
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._upgrade.request())

    def data_received(self, data: bytes) -> None:
        if self._opened.done() or self._transport is None:
            return
        try:
            rest = self._upgrade.feed(data)
        except ConnectionError as error:
            self._fail(error)
            return
        if rest is not None:
            self._opened.set_result(None)
            link = WebSocketLink(self._shell, self._transport, is_from_client=False)
            link.begin(self._url.partition(":")[0], self._url, rest)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._opened.done():
            text = "the other side closed the connection" if exc is None else str(exc)
            self._fail(ConnectionError(f"WebSocket: {text}"))

    def _fail(self, error: ConnectionError) -> None:
        self._opened.set_exception(error)
        self._opened.exception()  # whoever dialled may have given up


def _may_be_http(first: int) -> bool:
    """A method begins with this byte, or an empty line before one (RFC 9112, section 2.2)."""
    return chr(first) in "\r\n" or chr(first) in ascii_letters
