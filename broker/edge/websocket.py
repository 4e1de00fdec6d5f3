"""RSocket over WebSocket: one binary message is one frame. aiohttp speaks WebSocket; nothing is decided here."""

from __future__ import annotations

import asyncio
import ssl

from aiohttp import WSCloseCode, WSMsgType, web

from broker.edge.shell import HIGH_MARK_BYTES, LOW_MARK_BYTES, Shell
from broker.forwarding.peers import Peer
from broker.rsocket.framing import MAX_FRAME_BYTES

LARGE_BYTES = 64 << 10  # of a message; smaller ones are taken together
HEARTBEAT_S = None  # RSocket has its own KEEPALIVE; a WebSocket ping would be a second opinion


class WebSocketLink:
    """One accepted WebSocket; a task of its own writes, because aiohttp's sending waits."""

    def __init__(self, shell: Shell, ws: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        self._shell = shell
        self._ws = ws
        self.peer: Peer | None = None  # None until the shell has made one
        self.is_readable = asyncio.Event()
        self.is_readable.set()
        self._is_congested = False
        self._transport = transport
        self._messages: list[bytes] = []  # bounded by the shell's max_pending_bytes and one turn's output
        self._waiting_bytes = 0
        self._is_closing = False
        self._wake = asyncio.Event()

    def pending_bytes(self) -> int:
        return self._waiting_bytes

    def write(self, pieces: list[bytes]) -> None:
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
        if self._transport is not None:
            self._transport.abort()

    async def run(self) -> None:
        """Writes until the socket closes."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            messages, self._messages = self._messages, []
            for message in messages:
                await self._ws.send_bytes(message)
                self._waiting_bytes -= len(message)
                if self._is_congested and self._waiting_bytes < LOW_MARK_BYTES and self.peer is not None:
                    self._is_congested = False
                    self._shell.relieved(self.peer)
            if self._is_closing and not self._messages:
                await self._ws.close(code=WSCloseCode.OK)
                return


class WebSocketListener:
    """A WebSocket port."""

    def __init__(self, shell: Shell, scheme: str, path: str) -> None:
        self._shell = shell
        self._scheme = scheme
        self._path = path  # empty: any
        self._runner: web.AppRunner | None = None  # None until it listens

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Accepts on the port, with TLS if there is a context; the port (0 lets the system choose)."""
        app = web.Application()
        app.router.add_get(self._path or "/{any:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port, ssl_context=context, backlog=1024, reuse_address=True)
        await site.start()
        self._site = site
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop_accepting(self) -> None:
        """No new connections; those that are there go on."""
        if self._runner is not None:
            await self._site.stop()

    async def close(self) -> None:
        """Ends what is left."""
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
        await ws.prepare(request)
        link = WebSocketLink(self._shell, ws, request.transport)
        host = request.transport.get_extra_info("peername") if request.transport is not None else None
        name = f"{self._scheme} {host[0]}:{host[1]}" if host else self._scheme
        peer = self._shell.connected(name, False, link)
        link.peer = peer
        writer = asyncio.create_task(link.run())
        reason = "the peer closed the connection"
        try:
            async for message in ws:
                if message.type is WSMsgType.BINARY:
                    self._shell.received(peer, message.data)
                    if len(message.data) > LARGE_BYTES:
                        await asyncio.sleep(0)  # it is written before the next one is taken
                    await link.is_readable.wait()  # aiohttp stops reading when nobody takes its messages
                elif message.type is WSMsgType.TEXT:
                    self._shell.received(peer, b"")  # no frame is text: the core says what is wrong with it
                elif message.type is WSMsgType.ERROR:
                    reason = str(ws.exception())
        finally:
            self._shell.lost(peer, reason)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        return ws
