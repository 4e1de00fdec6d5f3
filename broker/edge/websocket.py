"""RSocket over WebSocket: one binary message is one frame. aiohttp speaks WebSocket.

Decides only what the core cannot see: how long a connection may take to become a WebSocket, how many are about to, and
how much of a first message is read.

    accepted ── Arrival: has until setup_timeout_s ──upgrade──> WebSocketLink: the core waits for its SETUP ──> a peer
                └── bytes are counted up to here ──────────────────────────────────────────── first message ┘
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web

from broker.edge.accept import accept
from broker.edge.origins import address_of, origin_of
from broker.edge.shell import HIGH_MARK_BYTES, LOW_MARK_BYTES, Shell
from broker.forwarding.outbound import Piece
from broker.forwarding.peers import MAX_SETUP_BYTES, Peer
from broker.life.guards import Census
from broker.rsocket.framing import MAX_FRAME_BYTES

LARGE_BYTES = 64 << 10  # of a message; smaller ones are taken together
HEARTBEAT_S = None  # RSocket has its own KEEPALIVE; a WebSocket ping would be a second opinion
GOODBYE_S = 1.0  # for the other end to say it, too
MAX_HEAD_BYTES = 64 << 10  # of an HTTP request, and of a WebSocket message's header; browsers send a tenth of it


AnySocket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


class WebSocketLink:
    """One WebSocket; a task of its own writes, because aiohttp's sending waits."""

    def __init__(self, shell: Shell, ws: AnySocket, transport: asyncio.Transport) -> None:
        self._shell = shell
        self._ws = ws
        self.peer: Peer | None = None  # None until the shell has made one, and when its peer has another link
        self.is_readable = asyncio.Event()
        self.is_readable.set()
        self._is_congested = False
        self._transport = transport
        self._messages: list[Piece] = []  # bounded by the shell's max_pending_bytes and one turn's output
        self._waiting_bytes = 0
        self._is_closing = False
        self._wake = asyncio.Event()

    def serve(self, peer: Peer | None) -> None:
        self.peer = peer

    def pending_bytes(self) -> int:
        return self._waiting_bytes

    def write(self, pieces: list[Piece]) -> None:
        self._messages += pieces
        self._waiting_bytes += sum(map(len, pieces))
        self._wake.set()
        if self._waiting_bytes > HIGH_MARK_BYTES and not self._is_congested and self.peer is not None:
            self._is_congested = True
            self._shell.congested(self.peer)

    def pause(self) -> None:
        self.is_readable.clear()

    def resume(self) -> None:
        self.is_readable.set()

    def close(self) -> None:
        self._is_closing = True
        self._wake.set()

    def abort(self) -> None:
        self._transport.abort()

    async def serve_until_closed(self, on_first: Callable[[], None] | None = None) -> None:
        """Reads and writes until the socket closes; then the shell has lost it. `on_first`: when a message is there."""
        writer = asyncio.create_task(self._write())
        reason = "the peer closed the connection"
        try:
            async for message in self._ws:
                if on_first is not None:
                    on_first()
                    on_first = None
                if self.peer is None:
                    break
                if message.type is WSMsgType.BINARY:
                    self._shell.received(self.peer, message.data)
                    if len(message.data) > LARGE_BYTES:
                        await asyncio.sleep(0)  # it is written before the next one is taken
                    await self.is_readable.wait()  # aiohttp stops reading when nobody takes its messages
                elif message.type is WSMsgType.TEXT:
                    text = f"a text message of {len(message.data)} characters: a frame is a binary message"
                    self._shell.refuse(self.peer, "bad-frame", text)
                elif message.type is WSMsgType.ERROR:
                    reason = str(self._ws.exception())
        finally:
            if self.peer is not None:
                self._shell.lost(self.peer, reason)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def end(self) -> None:
        """Says goodbye where that was not done yet, and gives back what aiohttp keeps of the socket."""
        await self._ws.close()
        self.abort()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            messages, self._messages = self._messages, []
            for message in messages:
                await self._ws.send_bytes(bytes(message))
                self._waiting_bytes -= len(message)
                if self._is_congested and self._waiting_bytes < LOW_MARK_BYTES and self.peer is not None:
                    self._is_congested = False
                    self._shell.relieved(self.peer)
            if self._is_closing and not self._messages:
                await self._ws.close(code=WSCloseCode.OK)
                return


class Arrival(asyncio.Protocol):
    """A connection before its first message: aiohttp's protocol with a deadline and a bound on what is read.

    aiohttp itself waits an hour for a request and reads a message whole, whatever its length. When the first message is
    there aiohttp's protocol takes the transport over, so that forwarding pays nothing for this.
    """

    def __init__(self, listener: WebSocketListener) -> None:
        self._listener = listener
        self._inner: web.RequestHandler | None = None  # aiohttp's; None until it was let in
        self._transport: asyncio.Transport | None = None  # None until it is there
        self._deadline: asyncio.TimerHandle | None = None  # None before the transport is there and after the upgrade
        self._left_bytes = MAX_HEAD_BYTES + MAX_SETUP_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._inner = self._listener.arrived(self._transport, self)
        if self._inner is None:
            self._transport.abort()  # it has no WebSocket yet in which it could be told why
            return
        self._deadline = asyncio.get_running_loop().call_later(self._listener.setup_timeout_s, self._transport.abort)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._inner is None:
            return
        self._left_bytes -= len(data)
        self._inner.data_received(data)
        if self._left_bytes < 0 and self._transport is not None and not self._transport.is_closing():
            # If the first message is in what was read, aiohttp reads on when it is taken; else its time runs out.
            self._inner.pause_reading()

    def eof_received(self) -> bool | None:
        if self._inner is not None:
            self._inner.eof_received()
        return None

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.upgraded()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def upgraded(self) -> None:
        """It is a WebSocket, or gone: the listener need not count it any more."""
        if self._deadline is not None and self._transport is not None:
            self._deadline.cancel()
            self._deadline = None
            self._listener.left(self._transport)

    def begun(self) -> None:
        """Its first message is there."""
        assert self._transport is not None  # the message came through both
        assert self._inner is not None
        if not self._transport.is_closing():
            self._transport.set_protocol(self._inner)


class WebSocketListener:
    """A WebSocket port."""

    def __init__(
        self,
        shell: Shell,
        scheme: str,
        path: str,
        setup_timeout_s: float,
        max_arrivals: int,
        max_arrivals_per_address: int,
    ) -> None:
        """`max_arrivals…`: connections that are no WebSockets yet; one more is closed at once."""
        self.setup_timeout_s = setup_timeout_s
        self._shell = shell
        self._scheme = scheme
        self._path = path  # empty: any
        self._max_arrivals = max_arrivals
        self._arrivals: dict[asyncio.Transport, Arrival] = {}  # not upgraded yet
        self._by_address = Census(max_arrivals_per_address)
        self._runner: web.AppRunner | None = None  # None until it listens
        self._server: asyncio.Server | None = None  # None until it listens

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None, shares_port: bool = False) -> int:
        """Accepts on the port, with TLS if there is a context; the port (0 lets the system choose).

        `shares_port`: see `accept`.
        """
        app = web.Application()
        app.router.add_get(self._path or "/{any:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        self._server, bound = await accept(
            lambda: Arrival(self), [host], port, context, self.setup_timeout_s, shares_port
        )
        return bound

    def arrived(self, transport: asyncio.Transport, arrival: Arrival) -> web.RequestHandler | None:
        """A connection was accepted; aiohttp's protocol for it, None when it is one too many."""
        address = _address_of(transport)
        if not self._by_address.enter(address) or len(self._arrivals) >= self._max_arrivals:
            self._by_address.leave(address)
            return None
        assert self._runner is not None  # `listen` has set them up
        assert self._runner.server is not None
        self._arrivals[transport] = arrival
        return self._runner.server()

    def left(self, transport: asyncio.Transport) -> None:
        """It is a WebSocket now, or gone."""
        if self._arrivals.pop(transport, None) is not None:
            self._by_address.leave(_address_of(transport))

    async def stop_accepting(self) -> None:
        """No new connections; those that are there go on."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Ends what is left."""
        await self.stop_accepting()
        for transport in list(self._arrivals):
            transport.abort()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse(
            protocols=("rsocket",), max_msg_size=MAX_FRAME_BYTES + 1, compress=False, heartbeat=HEARTBEAT_S
        )
        if not ws.can_prepare(request).ok:
            return web.Response(
                status=426, text="This port speaks RSocket over WebSocket.\n", headers={"Upgrade": "websocket"}
            )
        transport = request.transport
        arrival = self._arrivals.get(transport) if transport is not None else None
        if transport is None or arrival is None:
            return web.Response(status=408)  # it is gone, or its time ran out a moment ago: nobody reads this
        await ws.prepare(request)
        arrival.upgraded()
        link = WebSocketLink(self._shell, ws, transport)
        link.serve(self._shell.connected(_name_of(self._scheme, transport), False, link, origin_of(transport)))
        await link.serve_until_closed(arrival.begun)
        return ws


class DialledSocket:
    """A WebSocket to another broker, with the aiohttp session that it came from."""

    def __init__(self, shell: Shell, url: str, context: ssl.SSLContext | None) -> None:
        """`context`: for wss."""
        self._shell = shell
        self._url = url
        self._context = context
        self._session = aiohttp.ClientSession()
        self._link: WebSocketLink | None = None  # None until it is there

    async def connect(self) -> None:
        """Returns when the shell has it; OSError, aiohttp.ClientError."""
        try:
            ws = await self._session.ws_connect(
                self._url,
                ssl=self._context if self._context is not None else True,
                max_msg_size=MAX_FRAME_BYTES + 1,
                compress=0,
                heartbeat=HEARTBEAT_S,
                timeout=aiohttp.ClientWSTimeout(ws_close=GOODBYE_S),
            )
        except BaseException:
            await self._session.close()
            raise
        transport = ws._writer.transport  # aiohttp has no public way to break off
        self._link = WebSocketLink(self._shell, ws, transport)
        name = _name_of(self._url.partition(":")[0], transport)
        self._link.serve(self._shell.dialled(name, False, self._link, self._url, origin_of(transport)))

    async def run(self) -> None:
        """Reads and writes until the socket closes."""
        assert self._link is not None  # `connect` has set it
        try:
            await self._link.serve_until_closed()
        finally:
            await self._link.end()
            await self._session.close()


def _name_of(scheme: str, transport: asyncio.Transport) -> str:
    """`ws 10.0.0.4:5123`."""
    host = transport.get_extra_info("peername")
    return f"{scheme} {host[0]}:{host[1]}" if host else scheme


def _address_of(transport: asyncio.Transport) -> str:
    """The same for one transport, always: the name is remembered with it."""
    name = transport.get_extra_info("peername")
    return address_of(name[0]) if isinstance(name, tuple) else ""
