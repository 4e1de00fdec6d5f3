"""RSocket frames in WebSocket messages: RFC 6455, section 5, at both ends and without extensions (D-60).

     peer ──► | FIN, opcode | length | key | payload | …    MessageReader ──► | length (24) | frame | …
     peer ◄── | FIN, opcode | length | key | payload | … ◄── MessageWriter    | length (24) | frame | …

A message is a frame (RSocket protocol, "Framing"). What leaves here is the byte stream of TCP, and so is what comes in:
whoever speaks RSocket knows this one form. A message that is not whole yet is passed on as it comes, behind its length;
one in several WebSocket frames, whose length nobody has said, is gathered. Knows no HTTP and no socket.
"""

from hashlib import shake_128
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i32_le, read_i64_be, read_i64_le, write_i32_le, write_i64_le

from rsocket_wire.rsocket.framing import LENGTH_BYTES, MAX_FRAME_BYTES
from rsocket_wire.wire.ints import u16_at, u16_bytes, u24_at, u64_bytes

if TYPE_CHECKING:  # for the compiler alone, as in `forwarding.peer`
    from mypy_extensions import i64

# Opcodes.
CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

# Why a WebSocket is closed, section 7.4.1.
NORMAL: Final = 1000
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED_DATA: Final = 1003
INVALID_DATA: Final = 1007
TOO_BIG: Final = 1009

MAX_CONTROL_BYTES: Final = 125  # of a PING, PONG or CLOSE, section 5.5
KEY_BYTES: Final = 4
SEED_BYTES: Final = 32
_KEPT_BYTES: Final = 64 << 10  # of a writer's memory; after more it starts anew
_POOL_BYTES: Final = 1024  # of keys that are made at once
_IS_COMPILED: Final = not __file__.endswith(".py")


class MessageReader:
    """What the other end says."""

    __slots__ = (
        "_gathered",
        "_head",
        "_is_discarding",
        "_is_from_client",
        "_is_gathering",
        "_is_last",
        "_is_overlooked",
        "_key",
        "_left",
        "_max_bytes",
        "_out",
        "close_code",
        "fault",
        "has_news",
        "is_closed",
        "pong",
    )

    def __init__(self, is_from_client: bool) -> None:
        """`is_from_client`: the other end is one, and has to mask what it says."""
        self._is_from_client: Final = is_from_client
        self._head = b""  # of a WebSocket frame, not all of it; a control frame is a head as a whole
        self._left = 0  # bytes of a message that are still to come in this WebSocket frame
        self._key = 0  # for the next of them: 32 bits, the first byte lowest
        self._is_last = True  # this WebSocket frame is the last one of its message
        self._is_gathering = False  # in a message of several WebSocket frames
        self._is_overlooked = False  # in a text of a server, which is no frame, or in what nobody wants any more
        self._is_discarding = False  # nobody wants messages any more, only what is said beside them
        # That message, `feed`'s max_bytes and one read at most; None: nothing.
        self._gathered: BytesWriter | None = None
        self._max_bytes = 0  # of it
        self._out = BytesWriter()
        self.has_news = False  # one of these has changed; whoever has looked sets False
        self.pong: bytes | None = None  # what the latest PING wants to hear; whoever has answered it sets None
        self.is_closed = False  # the other end has said CLOSE: nothing more is read
        self.close_code = 0  # that it gave (0: none), or the one to close with because of the fault
        self.fault = ""  # why nothing more can be read; empty while all is well

    @property
    def gathered_bytes(self) -> int:
        """Bytes of a message in several WebSocket frames that is not whole."""
        return len(self._gathered) if self._gathered is not None else 0

    def drop(self) -> None:
        """Messages are worth nothing any more, also the one that has begun: only a CLOSE is still awaited."""
        self._is_discarding = True
        self._gathered = None
        self._out = BytesWriter()
        self._is_overlooked = self._is_gathering or self._left > 0

    def feed(self, data: bytes, max_bytes: int) -> bytes:
        """The frames in it, each behind its length; the last one may be cut anywhere.

        `max_bytes`: of a message that is gathered, MAX_FRAME_BYTES at most. Any other has its length in front, and
        who reads it sees how long it is.
        """
        if self.fault or self.is_closed:
            return b""
        if self._head:
            data = self._head + data
            self._head = b""
        self._max_bytes = max_bytes
        at: i64 = 0
        end: i64 = len(data)
        while at < end and not self.fault:
            left: i64 = self._left
            if not left:
                begin: i64 = self._take_head(data, at, end)
                if begin < 0:
                    break
                at = begin
                continue
            size: i64 = left if left < end - at else end - at
            if not self._is_overlooked:
                _xor(self._out if self._gathered is None else self._gathered, data, at, size, self._key)
            at += size
            self._left = left - size
            if self._left:
                self._key = _rotated(self._key, size)
            elif self._is_gathering or self._is_overlooked:
                self._end_part()
        if at < end and not self.fault and not self.is_closed:
            self._head = data[at:]
        if self._gathered is not None and len(self._gathered) > max_bytes:
            self._refuse_gathered(self._gathered)
        return self._take_out()

    def _take_head(self, data: bytes, at: "i64", end: "i64") -> "i64":
        """Reads the head of a WebSocket frame, a control frame whole; where to go on.

        -1 when it is not all there, or there is no going on.
        """
        if end - at < 2:
            return -1
        first: i64 = data[at]
        second: i64 = data[at + 1]
        opcode: i64 = first & 0x0F
        if first & 0x70 or (opcode > BINARY and opcode < CLOSE) or opcode > PONG:
            return self._refuse(PROTOCOL_ERROR, f"a WebSocket frame that begins with {first:#04x}")
        if (second >= 0x80) != self._is_from_client:  # section 5.1: MUST close
            return self._refuse(PROTOCOL_ERROR, f"a WebSocket frame that is {'' if second >= 0x80 else 'not '}masked")
        length: i64 = second & 0x7F
        if opcode >= CLOSE and (length > MAX_CONTROL_BYTES or first < 0x80):
            return self._refuse(PROTOCOL_ERROR, "a WebSocket control frame that is long, or in pieces")
        begin: i64 = at + 2
        if length == 126:
            if end - at < 4:
                return -1
            length = u16_at(data, begin)
            begin += 2
            if length < 126:
                return self._refuse(PROTOCOL_ERROR, f"a WebSocket frame with a length of {length} in 16 bits")
        elif length == 127:
            if end - at < 10:
                return -1
            length = read_i64_be(data, begin)
            begin += 8
            if length < 0:
                return self._refuse(PROTOCOL_ERROR, "a WebSocket frame with a length whose first bit is set")
            if length < 1 << 16:
                return self._refuse(PROTOCOL_ERROR, f"a WebSocket frame with a length of {length} in 64 bits")
            if length > MAX_FRAME_BYTES:
                return self._refuse(TOO_BIG, f"a frame of {length} bytes, the limit is {MAX_FRAME_BYTES}")
        key: i64 = 0
        if self._is_from_client:
            if end - begin < KEY_BYTES:
                return -1
            key = int(read_i32_le(data, begin)) & 0xFFFFFFFF
            begin += KEY_BYTES
        if opcode >= CLOSE:
            if end - begin < length:
                return -1
            return self._take_control(opcode, data, begin, length, key)
        if opcode == TEXT and self._is_from_client:
            return self._refuse(UNSUPPORTED_DATA, "a text message: a frame is a binary message")
        if (opcode == CONTINUATION) != self._is_gathering:
            text = "that continues nothing" if opcode == CONTINUATION else "that begins a message inside another"
            return self._refuse(PROTOCOL_ERROR, f"a WebSocket frame {text}")
        self._key = key
        self._left = length
        self._is_last = first >= 0x80
        if opcode != CONTINUATION:
            self._is_gathering = not self._is_last
            self._is_overlooked = opcode == TEXT or self._is_discarding
            if not self._is_overlooked:
                if self._is_last:
                    self._begin(length)
                else:
                    self._gathered = BytesWriter()
        if not length and (self._is_gathering or self._is_overlooked):
            self._end_part()
        return begin

    def _take_control(self, opcode: "i64", data: bytes, begin: "i64", length: "i64", key: "i64") -> "i64":
        """The behind of it; -1 when it was the last one."""
        unmasked = BytesWriter()
        _xor(unmasked, data, begin, length, key)
        said = unmasked.getvalue()
        if opcode == PING:
            self.has_news = True
            self.pong = said
        elif opcode == CLOSE:
            code = (said[0] << 8) | said[1] if length >= 2 else 0
            if length and not _may_be_said(code):
                return self._refuse(PROTOCOL_ERROR, f"a WebSocket CLOSE with code {code}")
            if not _is_text(said[2:]):  # section 8.1
                return self._refuse(INVALID_DATA, "a WebSocket CLOSE with a reason that is no UTF-8")
            self.has_news = True
            self.is_closed = True
            self.close_code = code
            return -1
        return begin + length

    def _begin(self, length: "i64") -> None:
        """A message of that length comes next. An empty one of a server is overlooked, as its texts are."""
        if not length and not self._is_from_client:
            return
        out = self._out
        high: int = length >> 16
        middle: int = (length >> 8) & 0xFF
        low: int = length & 0xFF
        out.append(high)
        out.append(middle)
        out.append(low)

    def _end_part(self) -> None:
        """A WebSocket frame of a message that is gathered or overlooked is whole."""
        if not self._is_last:
            return
        if self._is_overlooked:
            self._is_overlooked = self._is_gathering = False
            return
        gathered = self._gathered
        if gathered is None:
            return
        if len(gathered) > self._max_bytes:
            self._refuse_gathered(gathered)
            return
        self._begin(len(gathered))
        self._out.write(gathered.getvalue())
        self._gathered = None
        self._is_gathering = False

    def _refuse_gathered(self, gathered: BytesWriter) -> None:
        self._gathered = None
        self._refuse(TOO_BIG, f"a frame of {len(gathered)} bytes or more, the limit is {self._max_bytes}")

    def _refuse(self, code: int, text: str) -> "i64":
        self.has_news = True
        self.fault = text
        self.close_code = code
        return -1

    def _take_out(self) -> bytes:
        size = len(self._out)
        if not size:
            return b""
        found = self._out.getvalue()
        if size <= _KEPT_BYTES:
            self._out.truncate(0)
        else:
            self._out = BytesWriter()  # truncating keeps the memory
        return found


class MessageWriter:
    """What is said to the other end."""

    __slots__ = ("_key", "_left", "_length", "_out", "_pool", "_pool_at", "_round", "_seed", "_waiting")

    def __init__(self, seed: bytes = b"") -> None:
        """`seed`: SEED_BYTES that nobody can guess, for the keys of a client (section 10.3); a server masks nothing."""
        self._seed: Final = seed
        self._round = 0  # of keys that were made
        self._pool = b""  # keys
        self._pool_at = 0  # of the next one
        self._length = b""  # of a frame, not all of it
        self._left = 0  # bytes of a frame that were not given yet
        self._key = 0  # for the next of them
        self._waiting = b""  # a control frame, until that frame is whole
        self._out = BytesWriter()

    def encode(self, data: bytes) -> bytes:
        """Messages of the frames in it, each behind its length. The last one may be cut: then the next call goes on."""
        if self._length:
            data = self._length + data
            self._length = b""
        out = self._out
        at: i64 = 0
        end: i64 = len(data)
        while at < end:
            left: i64 = self._left
            if not left:
                if end - at < LENGTH_BYTES:
                    self._length = data[at:]
                    break
                left = u24_at(data, at)
                at += LENGTH_BYTES
                self._key = self._write_head(0x80 | BINARY, left)
            size: i64 = left if left < end - at else end - at
            _xor(out, data, at, size, self._key)
            at += size
            self._left = left - size
            if self._left:
                self._key = _rotated(self._key, size)
            elif self._waiting:
                out.write(self._waiting)
                self._waiting = b""
        return self._take_out()

    def pass_on(self, size: int) -> bytes | None:
        """For so many bytes of the frame that was begun, to be written as they are: what follows them, often nothing.

        None when they cannot be, and have to be encoded.
        """
        if self._seed or size > self._left:
            return None
        self._left -= size
        behind = b"" if self._left else self._waiting
        if behind:
            self._waiting = b""
        return behind

    def control(self, opcode: int, said: bytes) -> bytes:
        """A control frame of at most MAX_CONTROL_BYTES. Empty while a frame is cut: it follows that one.

        The later one stands for those that wait so: one PONG for the latest PING is enough (section 5.5.3).
        """
        key = self._write_head(0x80 | opcode, len(said))
        _xor(self._out, said, 0, len(said), key)
        raw = self._take_out()
        if not self._left and not self._length:
            return raw
        self._waiting = raw
        return b""

    def _write_head(self, first: "i64", length: "i64") -> "i64":
        """The key to mask with; 0: nothing is masked."""
        out = self._out
        is_masked = len(self._seed) > 0
        mask_bit: i64 = 0x80 if is_masked else 0
        first_byte: int = first
        out.append(first_byte)
        number: int = length
        if length < 126:
            second: int = mask_bit | length
            out.append(second)
        elif length < 1 << 16:
            out.append(126 | int(mask_bit))
            out.write(u16_bytes(number))
        else:
            out.append(127 | int(mask_bit))
            out.write(u64_bytes(number))
        if not is_masked:
            return 0
        if self._pool_at == len(self._pool):
            self._round += 1
            self._pool = shake_128(self._seed + u64_bytes(self._round)).digest(_POOL_BYTES)
            self._pool_at = 0
        key = read_i32_le(self._pool, self._pool_at)
        self._pool_at += KEY_BYTES
        write_i32_le(out, key)
        return int(key) & 0xFFFFFFFF

    def _take_out(self) -> bytes:
        found = self._out.getvalue()
        if len(found) <= _KEPT_BYTES:
            self._out.truncate(0)
        else:
            self._out = BytesWriter()  # truncating keeps the memory
        return found


def _may_be_said(code: int) -> bool:
    """Section 7.4: the others are for what nobody has said, or nobody's."""
    return NORMAL <= code <= UNSUPPORTED_DATA or 1007 <= code <= 1014 or 3000 <= code <= 4999


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _xor(writer: BytesWriter, data: bytes, at: "i64", size: "i64", key: "i64") -> None:
    """Writes that part of the data, masked with the key, or unmasked: section 5.3."""
    end: i64 = at + size
    if not key:
        writer.write(data[at:end])
    elif _IS_COMPILED:
        word: i64 = key << 32 | key
        while end - at >= 8:
            write_i64_le(writer, read_i64_le(data, at) ^ word)
            at += 8
        while at < end:
            byte: int = data[at] ^ (word & 0xFF)
            writer.append(byte)
            word >>= 8
            at += 1
    else:  # a step of the interpreter for all of it: a megabyte takes 3 ms instead of 30
        keys = (int(key).to_bytes(KEY_BYTES, "little") * (size // KEY_BYTES + 1))[:size]
        number = int.from_bytes(data[at:end], "little") ^ int.from_bytes(keys, "little")
        writer.write(number.to_bytes(size, "little"))


def _rotated(key: "i64", size: "i64") -> "i64":
    """The key for what stands so many bytes later."""
    shift: i64 = (size & 3) * 8
    return (key >> shift | key << (32 - shift)) & 0xFFFFFFFF
