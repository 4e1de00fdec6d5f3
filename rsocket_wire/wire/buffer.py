"""A cursor over bytes that arrived, and a collector of bytes that leave.

Both work field by field: `pull_x` takes one, `push_x` adds one. A Reader never reads beyond its end, and says in its
error which field wanted how many bytes and how many there were. Neither knows any frame.
"""

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.ints import u16_at, u16_bytes, u24_at, u32_at, u32_bytes, u64_at, u64_bytes


class Reader:
    """A cursor over `data[at:end]`; a pull that fails raises InvalidFrame and leaves the cursor where it was."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int = -1) -> None:
        """`at` offset of the first byte, `end` offset behind the last one (-1: all of `data`)."""
        self.data = data
        self.at = at
        self.end = len(data) if end < 0 else end
        # Offsets are the caller's own arithmetic, never a peer's.
        assert 0 <= self.at <= self.end <= len(data)

    @property
    def left(self) -> int:
        """Bytes that are still to be read."""
        return self.end - self.at

    def pull_u8(self, subject: str = "frame") -> int:
        """An 8-bit number."""
        at = self.advance(1, subject)
        return self.data[at]

    def pull_u16(self, subject: str = "frame") -> int:
        """A 16-bit number."""
        at = self.advance(2, subject)
        return u16_at(self.data, at)

    def pull_u24(self, subject: str = "frame") -> int:
        """A 24-bit number."""
        at = self.advance(3, subject)
        return u24_at(self.data, at)

    def pull_u32(self, subject: str = "frame") -> int:
        """A 32-bit number."""
        at = self.advance(4, subject)
        return u32_at(self.data, at)

    def pull_u64(self, subject: str = "frame") -> int:
        """A 64-bit number."""
        at = self.advance(8, subject)
        return u64_at(self.data, at)

    def pull_bytes(self, count: int, subject: str = "frame") -> bytes:
        """The next `count` bytes."""
        at = self.advance(count, subject)
        return self.data[at : at + count]

    def pull_text(self, count: int, subject: str = "frame") -> str:
        """The next `count` bytes as UTF-8."""
        if count > self.left:
            raise too_short(subject, count, self.at, self.left)
        raw = self.data[self.at : self.at + count]
        text = utf8_text(raw, subject)
        self.at += count
        return text

    def rest(self) -> bytes:
        """All bytes that are left; may be empty."""
        at = self.at
        self.at = self.end
        return self.data[at : self.end]

    def check_end(self, subject: str = "frame") -> None:
        """InvalidFrame when bytes are left."""
        if self.at != self.end:
            raise InvalidFrame(f"{subject}: ends at offset {self.at}, but {self.left} more bytes follow")

    def advance(self, count: int, subject: str) -> int:
        """Step over `count` bytes; the offset where they begin."""
        at = self.at
        if count > self.end - at:
            raise too_short(subject, count, at, self.end - at)
        self.at = at + count
        return at


class Writer:
    """Fields in the order in which they shall stand on the wire; a number that does not fit is a BrokerError."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def push_u8(self, number: int, subject: str = "frame") -> None:
        """An 8-bit number."""
        check_fits(number, 8, subject)
        self.pieces.append(number.to_bytes(1, "big"))

    def push_u16(self, number: int, subject: str = "frame") -> None:
        """A 16-bit number."""
        check_fits(number, 16, subject)
        self.pieces.append(u16_bytes(number))

    def push_u32(self, number: int, subject: str = "frame") -> None:
        """A 32-bit number."""
        check_fits(number, 32, subject)
        self.pieces.append(u32_bytes(number))

    def push_u64(self, number: int, subject: str = "frame") -> None:
        """A 64-bit number."""
        check_fits(number, 64, subject)
        self.pieces.append(u64_bytes(number))

    def push_bytes(self, raw: bytes) -> None:
        """Bytes as they are."""
        self.pieces.append(raw)

    def to_bytes(self) -> bytes:
        """Everything that was pushed."""
        return b"".join(self.pieces)


def utf8_text(raw: bytes, subject: str) -> str:
    """The text of bytes that arrived; InvalidFrame when they are not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidFrame(f"{subject}: byte {error.start} of {len(raw)} is not UTF-8") from None


def utf8_bytes(text: str, word: str, subject: str) -> bytes:
    """The bytes of a text that shall be sent; BrokerError `word` when it has none (a lone surrogate)."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BrokerError(word, f"{subject}: character {error.start} cannot be written in UTF-8") from None


def too_short(subject: str, need: int, at: int, left: int) -> InvalidFrame:
    """The error of a field that needs more bytes than there are."""
    return InvalidFrame(f"{subject}: needs {need} bytes at offset {at}, {left} are left")


def check_fits(number: int, bits: int, subject: str) -> None:
    """BrokerError unless 0 <= number < 2**bits."""
    if number < 0 or number >> bits:
        raise BrokerError("bad-frame", f"{subject}: {number} is not an unsigned number of {bits} bits")
