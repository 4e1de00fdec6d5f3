"""The protocol of ZeroMQ, as far as a ROUTER without encryption speaks it: bytes to messages, and messages to bytes.

    FF 0000000000000000 7F │ 03 │ 01 │ "NULL", filled up to 20 │ 00 │ 31 bytes          greeting of 3.0 and 3.1
    FF 0000000000000000 7F │ 01 │ kind of socket                                        that of 2.0 (libzmq 3)
    flags │ length, 1 byte or, LARGE, 8 │ body                                          a frame
    4 │ length │ 05 "READY" │ name length, name, value length (4), value …              the command that follows in 3.x

https://rfc.zeromq.org/spec/23/ (3.0), /37/ (3.1), /15/ (2.0). Written here, because libzmq takes 45 us to hand over
a request of 22 frames, and two changes of threads for it and its answer; and because it bounds frames and not messages.
What is beyond the limits of a message is counted and dropped as it comes in. Knows no sockets and no clock.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

SIGNATURE: Final = b"\xff" + bytes(8) + b"\x7f"
GREETING_BYTES: Final = 64
MECHANISM: Final = b"NULL".ljust(20, b"\0")
_AT_REVISION: Final = 10
_VERSION_2: Final = b"\x01"  # what 2.0 calls itself
_VERSION_3: Final = b"\x03\x01"
_KIND_ROUTER: Final = 6
# By the numbers of 2.0. A REQ and a DEALER ask; a ROUTER is what a proxy may ask by.
_KINDS: Final = {3: b"REQ", 5: b"DEALER", 6: b"ROUTER"}
MAX_ID_BYTES: Final = 255  # of a caller's name, and of a hop
MAX_COMMAND_BYTES: Final = 4_096  # READY has some 30, or 300 with the longest name
MAX_PING_CONTEXT: Final = 16  # bytes that go back with a PONG

MORE: Final = 1
LARGE: Final = 2
COMMAND: Final = 4


class ZmtpError(Exception):
    """The connection cannot go on; the text says why."""


class Message(NamedTuple):
    """One message; of one that is cut its first frames."""

    frames: list[bytes]
    frames_n: int  # that it had
    size: int  # bytes that they had
    is_cut: bool  # it was over a limit, and what came then was dropped


class Assembly:
    """Puts frames together to messages, and keeps no more of one than it may have."""

    def __init__(self, *, max_frames: int, max_bytes: int, max_kept: int) -> None:
        """A message with more frames or bytes is cut. `max_kept`: frames of it of which each is kept then, up to
        MAX_ID_BYTES."""
        self.frames_n = 0  # of the message that is not whole yet
        self.size = 0  # bytes of them
        self._max_frames: Final = max_frames
        self._max_bytes: Final = max_bytes
        self._max_kept: Final = max_kept
        self._frames: list[bytes] = []
        self._is_cut = False

    @property
    def held_bytes(self) -> int:
        """That are kept."""
        return sum(map(len, self._frames))

    def kept_bytes(self, size: int) -> int:
        """How much of the next frame is kept, which has so many bytes; the rest need not come before `add`."""
        if not self._is_cut and self.frames_n < self._max_frames and self.size + size <= self._max_bytes:
            return size
        return min(size, MAX_ID_BYTES) if self.frames_n < self._max_kept else 0

    def add(self, buffer: bytes, start: int, size: int) -> None:
        """The frame that stands there, or at least what is kept of it."""
        self.frames_n += 1
        self.size += size
        if self.frames_n > self._max_frames or self.size > self._max_bytes:
            self._is_cut = True
        if not self._is_cut:
            self._frames.append(buffer[start : start + size])
        elif self.frames_n <= self._max_kept:
            self._frames.append(buffer[start : start + min(size, MAX_ID_BYTES)])

    def take(self) -> Message:
        """The message, with the last frame that was added; nothing of it is left."""
        message = Message(self._frames, self.frames_n, self.size, self._is_cut)
        self._frames, self.frames_n, self.size, self._is_cut = [], 0, 0, False
        return message


class Reader:
    """What one caller sends, from its first byte on."""

    def __init__(self, assembly: Assembly) -> None:
        self.identity = b""  # the name that the caller has given itself; empty: none
        self.is_ready = False  # it has said who it is
        self.answer = b""  # bytes that have to go back, of the handshake and for a PING; take them
        self.has_more = False  # `take` stopped before all was read
        self._assembly: Final = assembly
        self._version = 0  # 2 or 3, when the greeting has said it
        self._has_greeted = False
        self._buffer = b""
        self._at = 0  # up to here it is read
        self._pieces: list[bytes] = []  # of a frame that is not there yet, behind the buffer
        self._pieces_bytes = 0
        self._missing = 0  # bytes until there is any more to read
        self._skip = 0  # bytes to come that are dropped

    @property
    def held_bytes(self) -> int:
        """Of what has come and is in no message yet."""
        return len(self._buffer) - self._at + self._pieces_bytes + self._assembly.held_bytes

    def feed(self, data: bytes) -> None:
        """More bytes."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if self._missing > len(data):
            self._missing -= len(data)
            self._pieces.append(data)
            self._pieces_bytes += len(data)
            return
        self._missing = 0
        if self._at < len(self._buffer) or self._pieces:
            self._buffer = b"".join((self._buffer[self._at :], *self._pieces, data))
            self._pieces, self._pieces_bytes = [], 0
        else:
            self._buffer = data
        self._at = 0

    def forget(self) -> None:
        """Nothing more comes, and nothing is kept."""
        self._buffer, self._at, self._pieces, self._pieces_bytes = b"", 0, [], 0
        self._assembly.take()

    def take(self, max_frames: int) -> Message | None:
        """The next message; None: it is not whole yet, or so many frames and commands were read. ZmtpError."""
        self.has_more = False
        if self._missing or not (self.is_ready or self._greet()):
            return None
        buffer, at, end, assembly = self._buffer, self._at, len(self._buffer), self._assembly
        left = max_frames
        while end - at >= 2 and left > 0:
            left -= 1
            flags = buffer[at]
            if flags & LARGE:
                if end - at < 9:
                    self._missing = 9 - (end - at)
                    break
                start = at + 9
                size = int.from_bytes(buffer[at + 1 : start], "big")
            else:
                start = at + 2
                size = buffer[at + 1]
            stop = start + size
            if flags & COMMAND:
                if size > MAX_COMMAND_BYTES:
                    raise ZmtpError(f"a command has {size} bytes, {MAX_COMMAND_BYTES} are allowed")
                if stop > end:
                    self._missing = stop - end
                    break
                at = stop
                self._command(buffer[start:stop])
                continue
            if not self.is_ready:
                raise ZmtpError("its first frame is no command READY")
            if stop > end:
                kept_to = start + assembly.kept_bytes(size)
                if kept_to > end:
                    self._missing = kept_to - end
                    break
                self._skip = stop - end
                at = end
            else:
                at = stop
            assembly.add(buffer, start, size)
            if not flags & MORE:
                self._at = at
                self.has_more = at < end
                return assembly.take()
        self._at = at
        self.has_more = left == 0
        return None

    # The handshake

    def _greet(self) -> bool:
        """Whether frames may be read, of which in 3.x the first one is READY."""
        if self._version == 0 and len(self._buffer) > _AT_REVISION:
            if self._buffer[0] != SIGNATURE[0] or not self._buffer[9] & 1:
                raise ZmtpError("it does not speak ZMTP 2.0 or later")
            if self._buffer[_AT_REVISION] >= 3:
                self._version = 3
                self.answer += _VERSION_3 + MECHANISM + bytes(GREETING_BYTES - 12 - len(MECHANISM))
            else:
                self._version = 2
                self.answer += _VERSION_2 + bytes((_KIND_ROUTER,)) + frame_bytes([b""])  # and no name of ours
        if self._version == 3:
            return self._has_greeted or self._greet_3()
        return self._version == 2 and self._greet_2()

    def _greet_3(self) -> bool:
        if len(self._buffer) < GREETING_BYTES:
            return False
        mechanism = self._buffer[12:32]
        if mechanism != MECHANISM:
            raise ZmtpError(f"it wants {_printable(mechanism)}, here is NULL")
        self._at = GREETING_BYTES
        self._has_greeted = True
        self.answer += _command_bytes(b"\x05READY" + _property(b"Socket-Type", b"ROUTER") + _property(b"Identity", b""))
        return True

    def _greet_2(self) -> bool:
        """Its kind of socket, and its name, which is a frame."""
        buffer = self._buffer
        if len(buffer) < 14 or len(buffer) < 14 + buffer[13]:
            return False
        self._set_kind(_KINDS.get(buffer[11], b"%d" % buffer[11]))
        if buffer[12]:
            raise ZmtpError("its first frame is no name")
        self.identity = buffer[14 : 14 + buffer[13]]
        self._at = 14 + buffer[13]
        self.is_ready = True
        return True

    def _command(self, body: bytes) -> None:
        name, content = body[1 : 1 + body[0]] if body else b"", body[1 + body[0] :] if body else b""
        if not self.is_ready:
            if name != b"READY":
                raise ZmtpError(f"its first command is {_printable(name)}, not READY")
            properties = _properties(content)
            self._set_kind(properties.get(b"socket-type", b""))
            self.identity = properties.get(b"identity", b"")
            if len(self.identity) > MAX_ID_BYTES:
                raise ZmtpError(f"its name has {len(self.identity)} bytes, {MAX_ID_BYTES} are allowed")
            self.is_ready = True
        elif name == b"PING" and len(content) >= 2:
            self.answer += _command_bytes(b"\x04PONG" + content[2 : 2 + MAX_PING_CONTEXT])
        elif name == b"ERROR":
            raise ZmtpError("it has told an error")

    def _set_kind(self, kind: bytes) -> None:
        if kind not in _KINDS.values():
            raise ZmtpError(f"it is a socket {_printable(kind)}, here is ROUTER, for REQ and DEALER")


def frame_bytes(frames: Sequence[bytes]) -> bytes:
    """One message as it is written."""
    parts = []
    last = len(frames) - 1
    for number, frame in enumerate(frames):
        size = len(frame)
        flags = MORE if number < last else 0
        if size < 256:
            parts.append(bytes((flags, size)))
        else:
            parts.append(bytes((flags | LARGE,)) + size.to_bytes(8, "big"))
        parts.append(frame)
    return b"".join(parts)


def error_bytes(text: str) -> bytes:
    """The command that tells a caller of 3.x why the connection ends."""
    reason = text.encode()[:255]
    return _command_bytes(b"\x05ERROR" + bytes((len(reason),)) + reason)


def _command_bytes(body: bytes) -> bytes:
    """Of less than 256 bytes, or more."""
    if len(body) < 256:
        return bytes((COMMAND, len(body))) + body
    return bytes((COMMAND | LARGE,)) + len(body).to_bytes(8, "big") + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


def _properties(data: bytes) -> dict[bytes, bytes]:
    """By name, in small letters. ZmtpError: they end too early."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        name_to = at + 1 + data[at]
        value_from = name_to + 4
        value_to = value_from + int.from_bytes(data[name_to:value_from], "big")
        if value_from > len(data) or value_to > len(data):
            raise ZmtpError("a property of its READY ends too early")
        found[data[at + 1 : name_to].lower()] = data[value_from:value_to]
        at = value_to
    return found


def _printable(data: bytes) -> str:
    return repr(data.rstrip(b"\0")[:40])[1:]
