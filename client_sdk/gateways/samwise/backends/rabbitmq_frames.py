"""The frames of one message on its way to RabbitMQ: method, header and body of AMQP 0-9-1, 4.2.3.

    |type (1)|channel (2)|length (4)| content …                                                                |CE|
      1                               |class 60, method 40, reserved|exchange|routing key|mandatory|
      2                               |class 60, weight|body bytes (8)|flags (2)| those of the properties that are given
      3                               bytes of the body

Written here for each message, because pamqp takes five times as long. Knows no connections; what must not be sent is
refused by `rabbitmq_publication`.
"""

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Final

CHANNEL: Final = 1  # of a connection: the one that publishes
FRAME_BYTES: Final = 8  # around the content of a frame: type, channel, length, end

_METHOD, _HEADER, _BODY = 1, 2, 3
_END: Final = b"\xce"
_FRAME: Final = Struct(">BHL")
_LONG: Final = Struct(">L")
_CONTENT: Final = Struct(">HHQH")
_PUBLISH: Final = bytes((0, 60, 0, 40, 0, 0))  # class, method, reserved
_BASIC: Final = 60
_HEADERS: Final = 1 << 13
# In this order they are on the wire, by the bits of their flags; `timestamp`, bit 6, is no option of Samwise.
_BEFORE: Final = (("content_type", 1 << 15), ("content_encoding", 1 << 14))
_OCTETS: Final = (("delivery_mode", 1 << 12), ("priority", 1 << 11))
_BEHIND: Final = (
    *(("correlation_id", 1 << 10), ("reply_to", 1 << 9), ("expiration", 1 << 8), ("message_id", 1 << 7)),
    *(("type", 1 << 5), ("user_id", 1 << 4), ("app_id", 1 << 3), ("cluster_id", 1 << 2)),
)


def method_frame(exchange: str, routing_key: str, *, mandatory: bool) -> bytes:
    """basic.publish. ValueError: a name has more than 255 bytes."""
    return _frame(_METHOD, b"".join((_PUBLISH, _short(exchange), _short(routing_key), b"\1" if mandatory else b"\0")))


def header_frame(body_bytes: int, options: Mapping[str, str], headers: Sequence[tuple[str, bytes]]) -> bytes:
    """Options that are given, and headers: long strings where they are UTF-8, as nearly all are, and bytes ("x") where
    they are not. ValueError: a text has more than 255 bytes, or is no number that fits."""
    parts = [b""]  # and what stands before all properties, when the flags are known
    flags = _HEADERS
    if options:
        flags |= _add(parts, options, _BEFORE)
    table = b"".join([b"".join((_short(name), _kind(value), _LONG.pack(len(value)), value)) for name, value in headers])
    parts += (_LONG.pack(len(table)), table)
    if options:
        for name, flag in _OCTETS:
            if name in options:
                flags |= flag
                parts.append(bytes((int(options[name]),)))
        flags |= _add(parts, options, _BEHIND)
    parts[0] = _CONTENT.pack(_BASIC, 0, body_bytes, flags)
    return _frame(_HEADER, b"".join(parts))


def body_frames(body: bytes, frame_max_bytes: int) -> Iterator[bytes]:
    """As many as the connection's longest frame makes of it (0: no limit); none of an empty one."""
    longest = (frame_max_bytes or len(body) + FRAME_BYTES) - FRAME_BYTES
    for at in range(0, len(body), max(1, longest)):
        yield _frame(_BODY, body[at : at + longest])


def _frame(kind: int, content: bytes) -> bytes:
    return b"".join((_FRAME.pack(kind, CHANNEL, len(content)), content, _END))


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


def _add(parts: list[bytes], options: Mapping[str, str], names: Sequence[tuple[str, int]]) -> int:
    """The flags of those that are given."""
    flags = 0
    for name, flag in names:
        if name in options:
            flags |= flag
            parts.append(_short(options[name]))
    return flags


def _kind(value: bytes) -> bytes:
    if value.isascii():
        return b"S"
    try:
        value.decode()
    except UnicodeDecodeError:
        return b"x"
    return b"S"
