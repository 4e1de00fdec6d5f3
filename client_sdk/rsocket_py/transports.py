"""Byte pipes of ours on the transports of rsocket-py that a program has made.

    TransportTCP               its streams themselves                        its own code is not run
    TransportAioHttpClient     its URL, or the WebSocket that it was given   likewise
    any other Transport        frame by frame, through its two methods       what its parser drops is dropped

Knows nothing of frames but how theirs are read and written.
"""

import contextlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from client_sdk.io.dial import AnyPipe, StreamPipe, Target, dial
from client_sdk.rsocket_py.typing import TheirTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

_HTTP_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}


async def pipe_of(transport: Any) -> AnyPipe:
    """A wire that is open. Raises OSError, and ValueError for a URL that names no server."""
    from rsocket.transports.aiohttp_websocket import TransportAioHttpClient
    from rsocket.transports.tcp import TransportTCP

    # A class of the program's own may do more than its parent, and is asked to do it.
    if type(transport) is TransportTCP:
        return StreamPipe(transport._reader, transport._writer)
    if type(transport) is TransportAioHttpClient:
        if transport._ws_is_internal:
            return await dial(Target(_websocket_url(str(transport._url))), None)
        return WebSocketPipe(transport._ws)
    wire = TheirTransportPipe(transport)
    await wire.open()
    return wire


class WebSocketPipe:
    """A WebSocket of aiohttp that the program has opened, and closes itself. Empty messages and texts are no frames."""

    is_framed = False

    def __init__(self, socket: "aiohttp.ClientWebSocketResponse") -> None:
        self._socket: Final = socket

    async def receive(self) -> bytes:
        import aiohttp  # whoever has such a socket has imported it

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
        """Not ours to close."""


class TheirTransportPipe:
    """Any Transport of theirs."""

    is_framed = False

    def __init__(self, transport: TheirTransport) -> None:
        self._transport: Final = transport
        self._frames: AsyncIterator[Any] | None = None  # those that the transport has read, while there are any

    async def open(self) -> None:
        """Raises ConnectionError for whatever the transport raises."""
        try:
            await self._transport.connect()
        except OSError:
            raise
        except Exception as error:
            raise _broken(error) from error

    async def receive(self) -> bytes:
        from rsocket.frame import InvalidFrame

        while True:
            try:
                if self._frames is None:
                    found = await self._transport.next_frame_generator()
                    if found is None:
                        return b""
                    self._frames = aiter(found)
                frame = await anext(self._frames)
            except StopAsyncIteration:
                self._frames = None
                continue
            except Exception as error:
                raise _broken(error) from error
            if not isinstance(frame, InvalidFrame):
                return bytes(frame.serialize())

    async def send(self, frames: list[bytes]) -> None:
        from rsocket.frame import parse_or_ignore

        try:
            for raw in frames:
                await self._transport.send_frame(parse_or_ignore(raw))
            await self._transport.on_send_queue_empty()
        except Exception as error:
            raise _broken(error) from error

    async def close(self) -> None:
        with contextlib.suppress(Exception):  # it may be closed already, and then says so in many ways
            await self._transport.close()


def _websocket_url(url: str) -> str:
    """aiohttp takes http:// for ws://, and its ports are those of the Web."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    port = "" if parts.port is not None else f":{_HTTP_PORTS.get(parts.scheme, 80)}"
    return parts._replace(scheme=scheme, netloc=parts.netloc + port).geturl()


def _broken(error: Exception) -> ConnectionError:
    cause = error.__cause__ or error  # theirs wraps what happened in an error without a text
    return ConnectionError(str(cause) or type(cause).__name__)
