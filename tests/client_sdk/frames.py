"""Frames as a test writes and reads them, in plain bytes: no line of this project's codec is used.

So a mistake of ours is not made twice. RSocket protocol 1.0, "Framing".
"""

from typing import NamedTuple

SETUP, LEASE, KEEPALIVE, RESPONSE, FNF, STREAM, CHANNEL, REQUEST_N, CANCEL, PAYLOAD, ERROR, PUSH = range(1, 13)
RESUME, RESUME_OK, EXT = 13, 14, 63
IGNORE, METADATA, FOLLOWS, COMPLETE, NEXT, RESPOND = 0x200, 0x100, 0x80, 0x40, 0x20, 0x80
LAST = NEXT | COMPLETE
MAX_FRAME = 0xFFFFFF
MAX_N = 0x7FFFFFFF


class Frame(NamedTuple):
    """One frame as it stands on the wire; `body` is all behind the header."""

    stream_id: int
    kind: int
    flags: int = 0
    body: bytes = b""

    def encode(self) -> bytes:
        """Without the length in front."""
        return self.stream_id.to_bytes(4) + (self.kind << 10 | self.flags).to_bytes(2) + self.body

    @property
    def n(self) -> int:
        """The credit of a REQUEST_N, or the first of a request."""
        return int.from_bytes(self.body[:4])

    @property
    def code(self) -> int:
        """Of an ERROR."""
        return int.from_bytes(self.body[:4])

    @property
    def metadata(self) -> bytes | None:
        """None when absent."""
        return self._parts()[0]

    @property
    def data(self) -> bytes:
        """All behind the metadata."""
        return self._parts()[1]

    def _parts(self) -> tuple[bytes | None, bytes]:
        at = 4 if self.kind in (STREAM, CHANNEL) else 0
        if not self.flags & METADATA:
            return None, self.body[at:]
        to = at + 3 + int.from_bytes(self.body[at : at + 3])
        return self.body[at + 3 : to], self.body[to:]


def decode(raw: bytes) -> Frame:
    return Frame(int.from_bytes(raw[:4]), raw[4] >> 2, int.from_bytes(raw[4:6]) & 0x3FF, raw[6:])


def content(data: bytes = b"", metadata: bytes | None = None, n: int | None = None) -> bytes:
    """The body of a request or PAYLOAD; whoever gives metadata sets the flag, too."""
    credit = b"" if n is None else n.to_bytes(4)
    return credit + (b"" if metadata is None else len(metadata).to_bytes(3) + metadata) + data


def request(
    stream_id: int,
    kind: int = RESPONSE,
    data: bytes = b"",
    *,
    metadata: bytes | None = None,
    n: int = 1,
    flags: int = 0,
) -> Frame:
    """A request of the broker's; `n` is for streams and channels."""
    credit = n if kind in (STREAM, CHANNEL) else None
    return Frame(stream_id, kind, flags | (0 if metadata is None else METADATA), content(data, metadata, credit))


def payload(stream_id: int, data: bytes = b"", *, metadata: bytes | None = None, flags: int = NEXT) -> Frame:
    return Frame(stream_id, PAYLOAD, flags | (0 if metadata is None else METADATA), content(data, metadata))


def error(stream_id: int, code: int, text: str = "") -> Frame:
    return Frame(stream_id, ERROR, 0, code.to_bytes(4) + text.encode())


def credit(stream_id: int, n: int) -> Frame:
    return Frame(stream_id, REQUEST_N, 0, n.to_bytes(4))


def ping(data: bytes = b"") -> Frame:
    return Frame(0, KEEPALIVE, RESPOND, bytes(8) + data)
