"""A WebSocket under a connection: the socket of `transport`, HTTP at its beginning, then a message for each frame.

`rsocket_wire.upgrade` speaks HTTP, `rsocket_wire.rsocket.websocket` the messages. Above it is the byte stream of TCP.
"""

import asyncio
import os
from typing import Final

from client_sdk.io.transport import SocketTransport
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES
from rsocket_wire.rsocket.websocket import CLOSE, NORMAL, PONG, SEED_BYTES, MessageReader, MessageWriter
from rsocket_wire.upgrade import UpgradeClient


class WebSocketTransport(SocketTransport):
    """A WebSocket of ours. `opened` before anything else."""

    def __init__(self, url: str) -> None:
        """ConnectionError for a URL that is none of a WebSocket."""
        super().__init__()
        try:
            self._upgrade: Final = UpgradeClient(url)
        except ValueError as error:
            raise ConnectionError(f"WebSocket: {error}") from None
        self._opened: Final[asyncio.Future[None]] = self._loop.create_future()
        self._reader: Final = MessageReader(is_from_client=False)
        self._writer: Final = MessageWriter(os.urandom(SEED_BYTES))
        self._is_congested = False  # the other side takes nothing
        self._is_closing = False  # CLOSE was said
        self._fault: OSError | None = None  # why the other side cannot be understood; None while it can

    async def opened(self) -> None:
        """Returns when it is a WebSocket; ConnectionError."""
        try:
            await self._opened
        except BaseException:
            if self._transport is not None:
                self._transport.abort()
            raise

    def write(self, pieces: list[bytes]) -> None:
        if not self._is_closing:
            super().write([self._writer.encode(pieces[0] if len(pieces) == 1 else b"".join(pieces))])

    async def close(self) -> None:
        if self._transport is None:
            return
        self._say_close(NORMAL)
        await self._until_gone()

    # the event loop's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.write(self._upgrade.request())

    def data_received(self, data: bytes) -> None:
        if not self._opened.done():
            self._read_answer(data)
            return
        reader = self._reader
        frames = reader.feed(data, MAX_FRAME_BYTES)
        if frames:
            super().data_received(frames)
        if reader.has_news:
            self._look_at_news(reader)

    def pause_writing(self) -> None:
        self._is_congested = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_congested = False
        self._answer_ping()
        super().resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._opened.done():
            closed = "the other side closed the connection and answered nothing; if it is no WebSocket, use tcp://"
            text = closed if error is None or isinstance(error, ConnectionError) else str(error)
            self._fail(ConnectionError(f"WebSocket: {text}"))
        super().connection_lost(self._fault or error)

    def _read_answer(self, data: bytes) -> None:
        """More of what the other side says to the request."""
        try:
            rest = self._upgrade.feed(data)
        except ConnectionError as error:
            self._fail(error)
            return
        if rest is not None:
            self._opened.set_result(None)
            if rest:
                self.data_received(rest)

    def _fail(self, error: ConnectionError) -> None:
        self._opened.set_exception(error)
        self._opened.exception()  # whoever wanted it may have gone

    def _look_at_news(self, reader: MessageReader) -> None:
        """The other side has sent more than messages."""
        reader.has_news = False
        self._answer_ping()
        if reader.fault:
            self._fault = ConnectionError(f"WebSocket: the other side sent {reader.fault}")
        if reader.fault or reader.is_closed:
            self._say_close(reader.close_code)
            self._transport.close()

    def _answer_ping(self) -> None:
        """The latest one, once the other side takes what is written."""
        if self._reader.pong is not None and not self._is_congested and not self._is_closing:
            said, self._reader.pong = self._reader.pong, None
            if self._transport.is_closing():  # it has failed; uvloop's would raise RuntimeError
                return
            self._transport.write(self._writer.control(PONG, said))

    def _say_close(self, code: int) -> None:
        if not self._is_closing and not self._transport.is_closing() and self._opened.done():
            self._is_closing = True
            self._transport.write(self._writer.control(CLOSE, code.to_bytes(2, "big") if code else b""))
