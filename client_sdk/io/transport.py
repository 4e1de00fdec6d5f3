"""What stands between a connection and its byte pipe, whichever kind that is.

    connection ── write(pieces) ──► Transport ──► socket     connection ◄── receive lost paused resumed ── Transport

    SocketTransport      TCP, TLS, Unix sockets: an asyncio protocol, no task
    WebSocketTransport   likewise (`websocket`)
    PipeTransport        anything with `receive` and `send`: a task for each direction

Decides when the other side does not take what is written. Knows no frames.
"""

import asyncio
import contextlib
from typing import Any, Final, Protocol

CLOSE_S: Final = 1.0  # for the other side to take what is left; then the socket is closed anyway
HIGH_BYTES: Final = 256 * 1024  # waiting in the socket: whoever writes is paused
LOW_BYTES: Final = 64 * 1024  # and goes on below it


class Receiver(Protocol):
    """The connection, as its link sees it."""

    def receive(self, data: bytes) -> None:
        """Bytes have come; never empty."""

    def lost(self, error: OSError | None) -> None:
        """There will be no more: the other side has closed, or this has broken. Said once."""

    def pause(self) -> None:
        """The other side does not take what is written."""

    def go_on(self) -> None:
        """It does again."""


class Pipe(Protocol):
    """A pipe that is read and written by waiting. All methods may raise OSError."""

    is_framed: bool

    async def receive(self) -> bytes:
        """The next piece of the stream, or the next message; empty when the other side has closed."""

    async def send(self, frames: list[bytes]) -> None:
        """Writes pieces, or messages, in one go and waits while the other side does not read."""

    async def close(self) -> None:
        """Closes the pipe; takes at most about a second."""


class Transport:
    """A base whose methods do nothing."""

    is_framed = True

    def start(self, receiver: Receiver) -> None:
        """From now on all that comes is the receiver's."""

    def write(self, pieces: list[bytes]) -> None:
        """Pieces of the byte stream, or messages; nothing happens when the pipe is closed."""

    async def close(self) -> None:
        """Writes what waits and closes; takes about a second at most."""


class SocketTransport(asyncio.Protocol, Transport):
    """A socket, as the event loop gives it."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._transport: Any = None  # an asyncio.Transport; uvloop's is no subclass
        self._receiver: Receiver | None = None  # None until `start`
        self._early: list[bytes] = []  # what came before it: one or two reads
        self._is_lost = False
        self._error: OSError | None = None
        self._gone: Final[asyncio.Future[None]] = self._loop.create_future()

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        early, self._early = self._early, []
        for data in early:
            receiver.receive(data)
        if self._is_lost:
            receiver.lost(self._error)

    def write(self, pieces: list[bytes]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        # Not writelines(): that of asyncio in 3.12.0 to 3.12.8 and 3.13.0 to 3.13.1 never pauses who writes too much.
        transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    async def close(self) -> None:
        transport = self._transport
        if transport is None:
            return
        transport.close()
        await self._until_gone()

    async def _until_gone(self) -> None:
        """The other side may take what is left; then the socket is closed anyway."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(self._gone)
        if not self._gone.done():
            self._transport.abort()

    # the event loop's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(HIGH_BYTES, LOW_BYTES)

    def data_received(self, data: bytes) -> None:
        if self._receiver is None:
            self._early.append(data)
        else:
            self._receiver.receive(data)

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.pause()

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        if error is not None:
            self._error = error if isinstance(error, OSError) else ConnectionError(str(error))
        if not self._gone.done():
            self._gone.set_result(None)
        if self._receiver is not None:
            self._receiver.lost(self._error)


class PipeTransport(Transport):
    """A pipe that waits, moved by two tasks."""

    def __init__(self, pipe: Pipe) -> None:
        self.is_framed = pipe.is_framed
        self._pipe: Final = pipe
        self._queue: list[bytes] = []  # bounded: the receiver is paused, and then gives no more
        self._queued_bytes = 0
        self._is_paused = False
        self._is_closing = False
        self._wake: Final = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._receiver: Receiver | None = None  # None until `start`, and when it was told the end

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._tasks = [
            asyncio.create_task(self._read(receiver), name="rsocket reader"),
            asyncio.create_task(self._write(receiver), name="rsocket writer"),
        ]

    def write(self, pieces: list[bytes]) -> None:
        self._queue += pieces
        for piece in pieces:
            self._queued_bytes += len(piece)
        self._wake.set()
        if self._queued_bytes > HIGH_BYTES and not self._is_paused and self._receiver is not None:
            self._is_paused = True
            self._receiver.pause()

    async def close(self) -> None:
        self._receiver = None
        self._is_closing = True
        self._wake.set()
        if self._tasks:
            reader, writer = self._tasks
            await asyncio.wait([writer], timeout=CLOSE_S)
            writer.cancel()
            if reader is not asyncio.current_task():
                reader.cancel()
            await asyncio.wait(self._tasks)
        with contextlib.suppress(OSError):
            await self._pipe.close()

    async def _read(self, receiver: Receiver) -> None:
        error: OSError | None = None
        try:
            while data := await self._pipe.receive():
                receiver.receive(data)
        except OSError as broken:
            error = broken
        self._tell_end(error)

    async def _write(self, receiver: Receiver) -> None:
        while self._queue or not self._is_closing:
            await self._wake.wait()
            self._wake.clear()
            batch, self._queue = self._queue, []
            try:
                if batch:
                    await self._pipe.send(batch)
            except OSError as error:
                # The reader may still find what the other side has said before it closed.
                if self._tasks and self._receiver is not None:
                    await asyncio.wait([self._tasks[0]], timeout=CLOSE_S / 2)
                self._tell_end(error)
                return
            for piece in batch:
                self._queued_bytes -= len(piece)
            if self._is_paused and self._queued_bytes <= LOW_BYTES:
                self._is_paused = False
                receiver.go_on()

    def _tell_end(self, error: OSError | None) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lost(error)
