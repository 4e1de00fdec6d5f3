"""The byte pipes under a connection: TCP, TLS and Unix sockets, and WebSocket on aiohttp.

    URL                          frames on the wire
    tcp://host[:7000]            24-bit length, frame
    tls://host[:7000]            the same, inside TLS
    unix:///path/to/socket       the same, on a Unix socket
    ws://host[:7001][/path]      one frame per binary message
    wss://host[:7001][/path]     the same, inside TLS

Knows nothing of frames but their length. RSocket protocol, "Framing".
"""

import asyncio
import contextlib
import ssl as tls
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from client_sdk.connection.links import CLOSE_S, Pipe, SocketLink

READ_BYTES: Final = 256 * 1024  # at most, per read
MAX_MESSAGE_BYTES: Final = 0xFFFFFF + 1024  # RSocket's largest frame; aiohttp's own limit is 4 MiB
TCP_PORT: Final = 7000
WS_PORT: Final = 7001
SCHEMES: Final = ("tcp", "tls", "ws", "wss", "unix")


Wire = Pipe | SocketLink  # one pipe, of either kind


class Target:
    """Where to connect to: a URL taken apart. ValueError for a URL that names no broker."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ValueError(f"{url!r}: begins with none of {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
        self.url: Final = url
        self.scheme: Final = parts.scheme
        self.path: Final = parts.netloc + parts.path
        self.host: Final = parts.hostname or ""
        try:
            port = parts.port
        except ValueError:
            raise ValueError(f"{url!r}: the port is not in 0..65535") from None
        is_websocket = self.scheme in ("ws", "wss")
        self.port: Final = port or (WS_PORT if is_websocket else TCP_PORT)
        if not (self.path if self.scheme == "unix" else self.host):
            raise ValueError(f"{url!r}: names no {'path' if self.scheme == 'unix' else 'host'}")
        query = f"?{parts.query}" if parts.query else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.http_url: Final = f"{'https' if self.scheme == 'wss' else 'http'}://{host}:{self.port}{parts.path}{query}"


async def dial(target: Target, ssl: tls.SSLContext | None, address: str = "") -> Wire:
    """A pipe to the target. `ssl` None means the system's certificates. Raises OSError.

    `address`: one of those that the target's host has; empty: any. Only for tcp:// and tls://.
    """
    if target.scheme in ("ws", "wss"):
        return await _dial_websocket(target, ssl)
    loop = asyncio.get_running_loop()
    if target.scheme == "unix":
        _, link = await loop.create_unix_connection(SocketLink, target.path)
        return link
    context = (ssl or tls.create_default_context()) if target.scheme == "tls" else None
    name = None if context is None else target.host  # whose certificate it must be, whatever its address is
    _, link = await loop.create_connection(
        SocketLink, address or target.host, target.port, ssl=context, server_hostname=name
    )
    return link


class StreamWire:
    """Streams of asyncio that somebody else has opened."""

    is_framed = True

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader: Final = reader
        self._writer: Final = writer

    async def receive(self) -> bytes:
        return await self._reader.read(READ_BYTES)

    async def send(self, frames: list[bytes]) -> None:
        try:
            self._writer.write(b"".join(frames))
        except RuntimeError as error:  # what uvloop says of a transport that was closed
            raise ConnectionError(str(error)) from error
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._writer.wait_closed()
        self._writer.transport.abort()


class WebSocketWire:
    """One message per frame. The end of the socket is seen, and empty messages are no frames."""

    is_framed = False

    def __init__(self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._session: Final = session
        self._socket: Final = socket

    async def receive(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type is aiohttp.WSMsgType.BINARY:
                data = message.data
                assert isinstance(data, bytes)  # what aiohttp gives for BINARY
                if data:
                    return data
            elif message.type is aiohttp.WSMsgType.ERROR:
                raise ConnectionError(f"WebSocket: {self._socket.exception()}")
            elif message.type is not aiohttp.WSMsgType.TEXT:
                return b""

    async def send(self, frames: list[bytes]) -> None:
        for frame in frames:
            await self._socket.send_bytes(frame)

    async def close(self) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._socket.close()
        await self._session.close()


async def _dial_websocket(target: Target, ssl: tls.SSLContext | None) -> Wire:
    session = aiohttp.ClientSession()
    try:
        socket = await session.ws_connect(
            target.http_url,
            ssl=ssl if ssl is not None else True,
            max_msg_size=MAX_MESSAGE_BYTES,
            compress=0,
            autoclose=True,
            autoping=True,
        )
    except aiohttp.ClientError as error:
        await session.close()
        raise ConnectionError(f"WebSocket: {error}") from error
    except BaseException:
        await session.close()
        raise
    return WebSocketWire(session, socket)
