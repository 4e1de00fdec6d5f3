"""RSocket frames: their types and flags, and encoders for those that the broker itself writes.

Decides the layout of frames (RSocket protocol 1.0, "Frame Types"), all without the length that TCP puts before them.
Frames that are forwarded are never decoded: `FrameCursor` and the offsets of `request_parts` are enough for them.

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    +-+-------------------------------------------------------------+
    |0|                         Stream Id                           |
    +-----------+-+-+---------------+-------------------------------+
    |Frame Type |I|M|     Flags     | [n] [metadata length] metadata data …
    +-----------+-+-+---------------+-------------------------------+
"""

from dataclasses import dataclass
from typing import Final

from rsocket_wire.errors import InvalidFrame
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.wire.buffer import Reader
from rsocket_wire.wire.ints import u16_bytes, u24_at, u24_bytes, u32_at, u32_bytes, u64_at, u64_bytes

SETUP: Final = 0x01
LEASE: Final = 0x02
KEEPALIVE: Final = 0x03
REQUEST_RESPONSE: Final = 0x04
REQUEST_FNF: Final = 0x05
REQUEST_STREAM: Final = 0x06
REQUEST_CHANNEL: Final = 0x07
REQUEST_N: Final = 0x08
CANCEL: Final = 0x09
PAYLOAD: Final = 0x0A
ERROR: Final = 0x0B
METADATA_PUSH: Final = 0x0C
RESUME: Final = 0x0D
RESUME_OK: Final = 0x0E
EXT: Final = 0x3F

IGNORE: Final = 0x200
METADATA: Final = 0x100
FOLLOWS: Final = 0x080
COMPLETE: Final = 0x040
NEXT: Final = 0x020
RESUME_ENABLE: Final = 0x080  # of SETUP
LEASE_ENABLE: Final = 0x040  # of SETUP
RESPOND: Final = 0x080  # of KEEPALIVE

MAX_N: Final = 0x7FFFFFFF  # credit has 31 bits
MAX_STREAM_ID: Final = 0x7FFFFFFF
MAX_POSITION: Final = 0x7FFFFFFFFFFFFFFF  # implied positions have 63 bits
HEADER_BYTES: Final = 6

KIND_NAMES: Final[dict[int, str]] = {
    SETUP: "SETUP",
    LEASE: "LEASE",
    KEEPALIVE: "KEEPALIVE",
    REQUEST_RESPONSE: "REQUEST_RESPONSE",
    REQUEST_FNF: "REQUEST_FNF",
    REQUEST_STREAM: "REQUEST_STREAM",
    REQUEST_CHANNEL: "REQUEST_CHANNEL",
    REQUEST_N: "REQUEST_N",
    CANCEL: "CANCEL",
    PAYLOAD: "PAYLOAD",
    ERROR: "ERROR",
    METADATA_PUSH: "METADATA_PUSH",
    RESUME: "RESUME",
    RESUME_OK: "RESUME_OK",
    EXT: "EXT",
}


@dataclass(frozen=True)
class Setup:
    """What a SETUP frame says. Times are milliseconds; `metadata` is None when the M flag is clear."""

    metadata_mime: str
    data_mime: str
    keepalive_ms: int
    lifetime_ms: int
    metadata: bytes | None = None
    data: bytes = b""
    wants_lease: bool = False
    wants_resume: bool = False
    token: bytes = b""  # empty without resumption
    major: int = 1
    minor: int = 0

    def encode(self) -> bytes:
        """The SETUP frame."""
        flags = (RESUME_ENABLE if self.wants_resume else 0) | (LEASE_ENABLE if self.wants_lease else 0)
        parts = [
            u16_bytes(self.major),
            u16_bytes(self.minor),
            u32_bytes(self.keepalive_ms),
            u32_bytes(self.lifetime_ms),
        ]
        if self.wants_resume:
            parts += [u16_bytes(len(self.token)), self.token]
        for mime in (self.metadata_mime, self.data_mime):
            raw = mime.encode("ascii")
            parts += [bytes([len(raw)]), raw]
        return _header(0, SETUP, flags, self.metadata) + b"".join(parts) + _payload(self.metadata, self.data)


def decode_setup(data: bytes, start: int, end: int, flags: int) -> Setup:
    """The SETUP frame in `data[start:end]`. Raises InvalidFrame; versions and flags are judged by `connection`."""
    reader = Reader(data, start + HEADER_BYTES, end)
    major = reader.pull_u16("SETUP major version")
    minor = reader.pull_u16("SETUP minor version")
    keepalive_ms = reader.pull_u32("SETUP keepalive time") & 0x7FFFFFFF
    lifetime_ms = reader.pull_u32("SETUP maximum lifetime") & 0x7FFFFFFF
    token = b""
    if flags & RESUME_ENABLE:
        token = reader.pull_bytes(reader.pull_u16("SETUP resume token length"), "SETUP resume token")
    metadata_mime = _pull_mime(reader, "SETUP metadata mime type")
    data_mime = _pull_mime(reader, "SETUP data mime type")
    metadata: bytes | None = None
    if flags & METADATA:
        metadata = reader.pull_bytes(reader.pull_u24("SETUP metadata length"), "SETUP metadata")
    return Setup(
        metadata_mime,
        data_mime,
        keepalive_ms,
        lifetime_ms,
        metadata,
        reader.rest(),
        (flags & LEASE_ENABLE) != 0,
        (flags & RESUME_ENABLE) != 0,
        token,
        major,
        minor,
    )


class Resume:
    """What a RESUME frame says: whose session, and where the client stands ("Resume Operation"). Bytes, from 0."""

    def __init__(
        self, token: bytes, received_position: int, first_position: int, major: int = 1, minor: int = 0
    ) -> None:
        self.token: Final = token  # of the SETUP
        self.received_position: Final = received_position  # of the server's frames, those before it have arrived
        self.first_position: Final = first_position  # of the client's own frames, those before it are forgotten
        self.major: Final = major
        self.minor: Final = minor

    def encode(self) -> bytes:
        """The RESUME frame."""
        version = u16_bytes(self.major) + u16_bytes(self.minor)
        positions = u64_bytes(self.received_position) + u64_bytes(self.first_position)
        return _header(0, RESUME, 0, None) + version + u16_bytes(len(self.token)) + self.token + positions


def decode_resume(data: bytes, start: int, end: int) -> Resume:
    """The RESUME frame in `data[start:end]`. Raises InvalidFrame."""
    reader = Reader(data, start + HEADER_BYTES, end)
    major = reader.pull_u16("RESUME major version")
    minor = reader.pull_u16("RESUME minor version")
    token = reader.pull_bytes(reader.pull_u16("RESUME token length"), "RESUME token")
    received_position = reader.pull_u64("RESUME last received server position") & MAX_POSITION
    first_position = reader.pull_u64("RESUME first available client position") & MAX_POSITION
    return Resume(token, received_position, first_position, major, minor)


def encode_resume_ok(position: int) -> bytes:
    """RESUME_OK; `position`: the client's frames before it have arrived."""
    return _header(0, RESUME_OK, 0, None) + u64_bytes(position)


def decode_resume_ok(data: bytes, start: int, end: int) -> int:
    """The position in the RESUME_OK frame in `data[start:end]`. Raises InvalidFrame."""
    return Reader(data, start + HEADER_BYTES, end).pull_u64("RESUME_OK last received client position") & MAX_POSITION


def request_parts(data: bytes, start: int, end: int, kind: int, flags: int) -> tuple[int, int]:
    """Where the metadata of a request or PAYLOAD frame lies: (from, to), with to = from when there is none.

    (-1, -1) when the frame is too short for its own fields or declares more metadata than it has. The data begins
    at `to`.
    """
    at = start + HEADER_BYTES
    if kind == REQUEST_STREAM or kind == REQUEST_CHANNEL:
        at += 4
    if at > end:
        return -1, -1
    if not flags & METADATA:
        return at, at
    if end - at < 3:
        return -1, -1
    to = at + 3 + u24_at(data, at)
    return (at + 3, to) if to <= end else (-1, -1)


def is_sound(frame: FrameCursor) -> bool:
    """A PAYLOAD or request has all of the metadata that it declares, an ERROR has a code."""
    kind = frame.kind
    if kind == ERROR:
        return frame.end - frame.start >= HEADER_BYTES + 4
    if kind == PAYLOAD or REQUEST_RESPONSE <= kind <= REQUEST_CHANNEL:
        return request_parts(frame.data, frame.start, frame.end, kind, frame.flags)[0] >= 0
    return True


def initial_n(data: bytes, start: int) -> int:
    """Initial credit of a REQUEST_STREAM or REQUEST_CHANNEL, or the credit of a REQUEST_N."""
    return u32_at(data, start + HEADER_BYTES) & MAX_N


def error_code(data: bytes, start: int) -> int:
    """The code of a sound ERROR."""
    return u32_at(data, start + HEADER_BYTES)


def encode_keepalive(data: bytes, respond: bool = False, position: int = 0) -> bytes:
    """KEEPALIVE; `data` is what the peer sent, or wants back."""
    return _header(0, KEEPALIVE, RESPOND if respond else 0, None) + u64_bytes(position) + data


def keepalive_position(data: bytes, start: int, end: int) -> int:
    """The last received position in the KEEPALIVE in `data[start:end]`; -1 when it is too short to have one."""
    at = start + HEADER_BYTES
    return u64_at(data, at) & MAX_POSITION if at + 8 <= end else -1


def has_position(kind: int) -> bool:
    """Frames of this type on a stream count for the implied position ("Implied Position"): no others do."""
    return REQUEST_RESPONSE <= kind <= ERROR


def decode_lease(data: bytes, start: int, end: int) -> tuple[int, int]:
    """(time to live in milliseconds, requests) of a LEASE; (-1, -1) when it is too short."""
    at = start + HEADER_BYTES
    if end - at < 8:
        return -1, -1
    return u32_at(data, at) & MAX_N, u32_at(data, at + 4) & MAX_N


def encode_lease(ttl_ms: int, requests_n: int) -> bytes:
    """LEASE: so many requests within that time, 31 bits each."""
    return _header(0, LEASE, 0, None) + u32_bytes(ttl_ms) + u32_bytes(requests_n)


def encode_error(stream_id: int, code: int, text: str) -> bytes:
    """ERROR; a stream id of 0 speaks of the connection."""
    return _header(stream_id, ERROR, 0, None) + u32_bytes(code) + text.encode("utf-8", "replace")


def encode_cancel(stream_id: int) -> bytes:
    """CANCEL."""
    return _header(stream_id, CANCEL, 0, None)


def encode_request_n(stream_id: int, n: int) -> bytes:
    """REQUEST_N with 1 ≤ n ≤ MAX_N."""
    return _header(stream_id, REQUEST_N, 0, None) + u32_bytes(n)


def encode_payload(stream_id: int, flags: int, data: bytes = b"", metadata: bytes | None = None) -> bytes:
    """PAYLOAD; flags from NEXT, COMPLETE and FOLLOWS."""
    return _header(stream_id, PAYLOAD, flags, metadata) + _payload(metadata, data)


def encode_request(kind: int, stream_id: int, data: bytes, metadata: bytes | None, n: int = 0, flags: int = 0) -> bytes:
    """Any REQUEST_ frame; `n` only counts for streams and channels, flags from FOLLOWS and COMPLETE."""
    credit = u32_bytes(n) if kind == REQUEST_STREAM or kind == REQUEST_CHANNEL else b""
    return _header(stream_id, kind, flags, metadata) + credit + _payload(metadata, data)


def encode_metadata_push(metadata: bytes) -> bytes:
    """METADATA_PUSH: metadata to the end, without a length."""
    return _header(0, METADATA_PUSH, 0, metadata) + metadata


def _header(stream_id: int, kind: int, flags: int, metadata: bytes | None) -> bytes:
    if metadata is not None:
        flags |= METADATA
    return u32_bytes(stream_id) + u16_bytes((kind << 10) | flags)


def _payload(metadata: bytes | None, data: bytes) -> bytes:
    if metadata is None:
        return data
    return u24_bytes(len(metadata)) + metadata + data


def _pull_mime(reader: Reader, subject: str) -> str:
    raw = reader.pull_bytes(reader.pull_u8(subject + " length"), subject)
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise InvalidFrame(f"{subject}: {raw[:40]!r} is not ASCII") from None
