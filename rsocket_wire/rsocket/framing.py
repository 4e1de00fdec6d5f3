"""Cuts what a peer sends into frames, and holds the frame that is being looked at.

Decides where a frame begins and ends, and refuses one that is too short or too long. Does not know what frames mean.

On TCP and Unix sockets every frame has a 24-bit length before it; on WebSocket each message is one frame
(RSocket protocol, "Framing"):

     TCP   | length (24) | stream id (31) | type (6) | flags (10) | …      start ──┐
     WS                  | stream id (31) | type (6) | flags (10) | …      ◄───────┘
"""

from typing import Final

from librt.strings import read_i64_be

from rsocket_wire.rsocket.foreign import foreign_length
from rsocket_wire.wire.ints import u16_at, u24_at, u32_at

MAX_FRAME_BYTES: Final = 0xFFFFFF  # what 24 bits can say, on every transport
MIN_FRAME_BYTES: Final = 6  # stream id, type and flags
LENGTH_BYTES: Final = 3
_SHORTEST_BYTES: Final = LENGTH_BYTES + MIN_FRAME_BYTES
FOLD_PIECES: Final = 512  # a piece costs some 50 bytes beside its content, so a peer may not make us hold millions


class FrameCursor:
    """A cursor over one peer's frames: `feed` bytes, then `advance` until it says False.

    While `advance` said True, `data[start:end]` is the frame and the other fields are its header. Nothing is copied
    but a frame that arrives in several pieces.
    """

    __slots__ = (
        "_is_closed",
        "_is_framed",
        "_loose",
        "_missing",
        "_next",
        "_parts",
        "data",
        "end",
        "fault",
        "flags",
        "foreign",
        "held_bytes",
        "kind",
        "max_bytes",
        "now",
        "start",
        "stream_id",
    )

    def __init__(self, is_framed: bool, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.data = b""
        self.start = 0  # of the stream id
        self.end = 0
        self.stream_id = 0
        self.kind = 0
        self.flags = 0  # ten bits
        self.now = 0.0  # seconds, monotonic: when these bytes arrived
        self.fault = ""  # why no further frame can be cut, for ever; empty while all is well
        self.foreign = ""  # with a fault: the protocol that is spoken in place of RSocket, see `foreign`
        self._is_framed: Final = is_framed
        self.max_bytes = max_bytes  # of a frame; may be raised
        self._next = 0  # where the next frame's length (or the message) begins
        self._parts: list[bytes] = []  # pieces of a frame that is not whole; at most one frame, so max_bytes + one read
        self._missing = 0  # bytes until that frame is whole; 0 when there are no parts
        self.held_bytes = 0  # of the parts, for others to look at
        self._loose = 0  # parts at the end of the list that are as small as they came; the others are folded
        self._is_closed = False  # by `close` or by a fault, for ever

    def feed(self, data: bytes, now: float) -> None:
        """More bytes from the peer: any piece of the stream when framed, else exactly one message."""
        self.now = now
        if self._is_closed:
            return
        if self._missing:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                self.held_bytes += len(data)
                self._loose += 1
                if self._loose == FOLD_PIECES:
                    self._fold()
                return
            data = b"".join(self._parts)
            self._parts = []
            self._missing = 0
            self.held_bytes = 0
            self._loose = 0
        self.data = data
        self._next = 0

    def advance(self) -> bool:
        """Moves to the next whole frame; False when there is none yet, or never again because of a `fault`."""
        if not self._is_framed:
            return self._advance_message()
        data = self.data
        at = self._next
        size = len(data)
        if size - at < _SHORTEST_BYTES:
            if size <= at:  # as nearly always: nothing is kept
                self.data = b""
                self._next = 0
            else:
                self._keep_head(at, size - at)
            return False
        # One read for the low 16 bits of the length, the stream id, the type and the flags (figures: `wire.ints`).
        head = read_i64_be(data, at + 1)
        length = (data[at] << 16) | ((head >> 48) & 0xFFFF)
        if length < MIN_FRAME_BYTES or length > self.max_bytes:
            self._refuse(length)
            return False
        start = at + LENGTH_BYTES
        end = start + length
        if end > size:
            self._keep(at, end - size)
            return False
        self.start = start
        self.end = self._next = end
        self.stream_id = (head >> 16) & 0x7FFFFFFF
        self.kind = (head >> 10) & 0x3F
        self.flags = head & 0x3FF
        return True

    def has_more(self) -> bool:
        """Bytes are left behind the frame that is being looked at: `advance` has something to do."""
        return self._is_framed and self._next < len(self.data)

    def close(self) -> None:
        """No further frames, whatever is fed: what is left is forgotten."""
        self._is_closed = True
        self.data = b""
        self._next = 1  # an empty message is a fault, the end of a message is not
        self._parts = []
        self._missing = 0
        self.held_bytes = 0
        self._loose = 0

    def take_rest(self) -> bytes:
        """The bytes behind the frame that is being looked at; this cursor cuts no further ones."""
        rest = self.data[self._next :] if self._is_framed else b""
        self.close()
        return rest

    def _advance_message(self) -> bool:
        data = self.data
        length = len(data) - self._next
        if length <= 0 and self._next:
            self.data = b""  # or a silent peer's last message would stay in memory
            return False
        if length < MIN_FRAME_BYTES or length > self.max_bytes:
            self._refuse(length)
            return False
        self.start = 0
        self.end = self._next = length
        self.stream_id = u32_at(data, 0) & 0x7FFFFFFF
        head = u16_at(data, 4)
        self.kind = head >> 10
        self.flags = head & 0x3FF
        return True

    def _keep_head(self, at: int, left: int) -> None:
        """Fewer bytes than the shortest frame has: waits for more, or sees in the length that it is a fault."""
        if left < LENGTH_BYTES:
            self._keep(at, LENGTH_BYTES - left)
            return
        length = u24_at(self.data, at)
        if length < MIN_FRAME_BYTES or length > self.max_bytes:
            self._refuse(length)
        else:
            self._keep(at, length + LENGTH_BYTES - left)

    def _keep(self, at: int, missing: int) -> None:
        rest = self.data[at:]
        self._parts = [rest]
        self._missing = missing
        self.held_bytes = len(rest)
        self.data = b""
        self._next = 0

    def _fold(self) -> None:
        """Makes one part of the loose ones. Each byte is folded once and joined once, however small the pieces."""
        folded = b"".join(self._parts[-FOLD_PIECES:])
        del self._parts[-FOLD_PIECES:]
        self._parts.append(folded)
        self._loose = 0

    def _refuse(self, length: int) -> None:
        if length < MIN_FRAME_BYTES:
            self.fault = f"a frame of {length} bytes, a header has {MIN_FRAME_BYTES}"
        else:
            self.foreign = foreign_length(length) if self._is_framed else ""
            text = f"{self.foreign} in place of frames: the URL of who connects has a wrong scheme or port"
            self.fault = text if self.foreign else f"a frame of {length} bytes, the limit is {self.max_bytes}"
        self.close()
