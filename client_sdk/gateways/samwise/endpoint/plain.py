"""Endpoints without encryption: files, and ports of this machine. Each connection is one caller.

Decides who is let in (no more than `max_callers`, and who has said within HANDSHAKE_S who it is), how much of a caller
is read in one turn of the loop, and when nothing more is read from it: while there is no place for its next request,
and while it does not read its answers. What it sends and is sent is `zmtp`'s.
"""

import asyncio
import logging
import math
import socket
from collections.abc import Callable, Sequence
from typing import Final, cast

from client_sdk.gateways.samwise.endpoint.answering import MAX_ENVELOPE_BYTES, Answering
from client_sdk.gateways.samwise.endpoint.envelopes import MAX_ENVELOPE_FRAMES
from client_sdk.gateways.samwise.endpoint.zmtp import (
    SIGNATURE,
    Assembly,
    Reader,
    ZmtpError,
    error_bytes,
    frame_bytes,
)
from client_sdk.gateways.samwise.requests import Rules

TURN_FRAMES: Final = 4_096  # of one caller in one turn of the loop, some ms
TURN_MESSAGES: Final = 64  # the same
MAX_HELD_BYTES: Final = 256 << 20  # of all callers, of messages that are not whole yet or not read yet
HANDSHAKE_S: Final = 5.0  # for a new connection to say who it is
KEEPALIVE_S: Final = 60  # of silence, after which the system asks whether a caller's host is there
LINGER_S: Final = 0.5  # for the last answers
QUIET_S: Final = 60.0  # between two lines in the log of connections that were closed
_KEY_BYTES: Final = 8

_log: Final = logging.getLogger(__name__)


class PlainCallers:
    """All connections of these endpoints."""

    def __init__(self, answering: Answering, rules: Rules, room_n: Callable[[], int]) -> None:
        """`room_n`: how many more connections there may be."""
        self.answering: Final = answering
        self.rules: Final = rules
        self.refused_n = 0  # connections that were one too many
        self.held_bytes = 0  # of all
        self.by_identity: Final[dict[bytes, PlainCaller]] = {}  # those that have given themselves a name
        self._room_n: Final = room_n
        self._callers: Final[set[PlainCaller]] = set()
        self._made_n = 0
        self._untold_n = 0  # connections that were closed, of which the log says nothing yet
        self._quiet_until = -math.inf  # of the loop's time: until then it says nothing of them
        self._all_gone: asyncio.Future[None] | None = None  # while it closes

    @property
    def connected_n(self) -> int:
        """Open connections."""
        return len(self._callers)

    def make(self) -> "PlainCaller":
        """For a new connection."""
        self._made_n += 1
        return PlainCaller(self, self._made_n.to_bytes(_KEY_BYTES, "big"))

    def let_in(self, caller: "PlainCaller") -> bool:
        """Whether there is room for it."""
        if self._room_n() <= 0:
            self.refused_n += 1
            return False
        self._callers.add(caller)
        return True

    def gone(self, caller: "PlainCaller") -> None:
        """Its connection has ended."""
        self._callers.discard(caller)
        self.answering.forget(caller)
        if self.by_identity.get(caller.identity) is caller:
            del self.by_identity[caller.identity]
        if not self._callers and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)

    def tell_closed(self, why: str) -> None:
        """In the log, which strangers must not fill: at most once in QUIET_S."""
        self._untold_n += 1
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_S
            _log.warning("samwise: connections closed: %d, the last one because %s", self._untold_n, why)
            self._untold_n = 0

    async def close(self) -> None:
        """Ends all connections, when the last answers are out, or after LINGER_S."""
        if not self._callers:
            return
        self._all_gone = asyncio.get_running_loop().create_future()
        for caller in list(self._callers):
            caller.close()
        await asyncio.wait([self._all_gone], timeout=LINGER_S)
        for caller in list(self._callers):
            caller.abort()


class PlainCaller(asyncio.Protocol):
    """One connection, from its first byte to its end."""

    def __init__(self, callers: PlainCallers, key: bytes) -> None:
        self.key: Final = key
        self.identity = b""  # the name that it has given itself
        self._callers: Final = callers
        rules = callers.rules
        assembly = Assembly(
            max_frames=rules.max_frames + MAX_ENVELOPE_FRAMES,
            max_bytes=rules.max_message_bytes + MAX_ENVELOPE_BYTES,
            max_kept=MAX_ENVELOPE_FRAMES + 1,
        )
        self._reader: Final = Reader(assembly)
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None  # while it is connected
        self._handshake: asyncio.TimerHandle | None = None  # until it has said who it is
        self._again: asyncio.Handle | None = None  # there is more to read
        self._is_paused = False  # nothing is read from the transport
        self._is_choked = False  # it does not read its answers
        self._held_bytes = 0  # as they were counted last
        self._successor: PlainCaller | None = None  # who came under its name

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new one."""
        stream = self._transport = cast(asyncio.Transport, transport)  # which that of uvloop does not say it is
        if not self._callers.let_in(self):
            stream.abort()
            return
        made = stream.get_extra_info("socket")
        if made is not None and made.family != socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        stream.write(SIGNATURE)
        self._handshake = self._loop.call_later(HANDSHAKE_S, stream.abort)

    def data_received(self, data: bytes) -> None:
        """More of what it sends."""
        self._reader.feed(data)
        if self._again is None:
            self._read()

    def pause_writing(self) -> None:
        """It does not read its answers: nothing more is read from it."""
        self._is_choked = True

    def resume_writing(self) -> None:
        """It does again."""
        self._is_choked = False
        self.read_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone; its requests are carried out, and nobody gets the answers."""
        self._transport = None
        for handle in (self._handshake, self._again):
            if handle is not None:
                handle.cancel()
        self._reader.forget()  # requests that have no answer yet keep the caller
        self._callers.held_bytes -= self._held_bytes
        self._held_bytes = 0
        self._callers.gone(self)

    # Caller

    def send(self, frames: Sequence[bytes]) -> None:
        """To whoever has come under its name, if that is another one now."""
        caller = self
        while caller._transport is None and caller._successor is not None:  # as often as it came again
            caller = caller._successor
        if caller._transport is not None:
            caller._transport.write(frame_bytes(frames))

    def read_on(self) -> None:
        """There is a place, or it takes answers again."""
        if self._again is None and self._transport is not None:
            self._again = self._loop.call_soon(self._read)

    def close(self) -> None:
        """When what was written is out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """At once."""
        if self._transport is not None:
            self._transport.abort()

    # Reading

    def _read(self) -> None:
        """What is there, for one turn of the loop."""
        self._again = None
        reader, answering = self._reader, self._callers.answering
        frames_left, messages_left = TURN_FRAMES, TURN_MESSAGES
        has_more = True
        try:
            while has_more and frames_left > 0 and messages_left > 0:
                if self._is_choked or not answering.has_place(self):
                    break
                message = reader.take(frames_left)
                has_more = reader.has_more
                if reader.answer:  # before that of the first request
                    self._write_back()
                if self._handshake is not None and reader.is_ready:
                    self._introduce()
                if message is None:
                    break
                frames_left -= message.frames_n
                messages_left -= 1
                answering.take(self, message)
        except ZmtpError as error:
            self._end(str(error))
            return
        if self._transport is None:
            return
        self._count()
        is_waiting = self._is_choked or not answering.has_place(self)
        if has_more and not is_waiting:
            self.read_on()
        self._pause(has_more or is_waiting)

    def _pause(self, is_paused: bool) -> None:
        if self._transport is None or self._is_paused == is_paused:
            return
        self._is_paused = is_paused
        if is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _write_back(self) -> None:
        """What the protocol answers by itself."""
        if self._transport is not None:
            self._transport.write(self._reader.answer)
        self._reader.answer = b""

    def _introduce(self) -> None:
        """It has said who it is. Who comes again under its name is the one that is answered."""
        assert self._handshake is not None
        self._handshake.cancel()
        self._handshake = None
        self.identity = self._reader.identity
        if not self.identity:
            return
        before = self._callers.by_identity.get(self.identity)
        self._callers.by_identity[self.identity] = self
        if before is not None:
            before._successor = self
            before.abort()

    def _count(self) -> None:
        held_bytes = self._reader.held_bytes
        self._callers.held_bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes
        if self._callers.held_bytes > MAX_HELD_BYTES:
            self._end(f"callers have sent {self._callers.held_bytes} bytes that are no whole requests yet")

    def _end(self, why: str) -> None:
        self._callers.tell_closed(why)
        if self._transport is not None:
            if not self._reader.is_ready:
                self._transport.write(error_bytes(why))
            self._transport.close()
