"""The five frames of the RSocket Broker Specification: bytes to values and back.

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    +-------------------------------+-------------------------------+
  0 | major version (0)             | minor version (1)             |
    +-----------+-------------------+-------------------------------+
  4 | frame type| flags             | depends on the frame type …
    +-----------+-------------------+

A frame has no length of its own: it ends where the metadata that carries it ends. Decoding answers a frame or raises
`InvalidFrame`; encoding answers bytes or raises `BrokerError` ("bad-tag", "bad-name", "bad-id", "bad-time",
"bad-flags"). Whether the flags of an ADDRESS contradict each other (D-11) and what its hints ask for (D-12) is for the
router. Encoding always writes version 0.1. Section "Framing" of the specification.
"""

from typing import Final

from rsocket_wire.errors import BrokerError, InvalidFrame, UnsupportedVersion
from rsocket_wire.wire.buffer import Reader, Writer, utf8_bytes
from rsocket_wire.wire.ids import ID_BYTES, check_id, id_text
from rsocket_wire.wire.ints import u16_at
from rsocket_wire.wire.tags import Tag, check_values, decode_flat_map, decode_map, encode_map

# D-02: the specification's, and the one of every client in the wild; both are accepted everywhere.
MIME_TYPE: Final = "message/x.rsocket.forwarding"
MIME_TYPE_V0: Final = "message/x.rsocket.broker.frame.v0"
MIME_TYPES: Final = (MIME_TYPE, MIME_TYPE_V0)

MAJOR: Final = 0
MINOR: Final = 1
MINOR_JS: Final = 0x1C01  # D-21: how rsocket-broker-client-js 0.0.32 betrays itself; it means 1

ROUTE_SETUP: Final = 1
ROUTE_ADD: Final = 2  # D-01: also called ROUTE_JOIN
ROUTE_REMOVE: Final = 3
BROKER_INFO: Final = 4
ADDRESS: Final = 5
KIND_NAMES: Final[dict[int, str]] = {
    ROUTE_SETUP: "ROUTE_SETUP",
    ROUTE_ADD: "ROUTE_ADD",
    ROUTE_REMOVE: "ROUTE_REMOVE",
    BROKER_INFO: "BROKER_INFO",
    ADDRESS: "ADDRESS",
}

ENCRYPTED: Final = 0x100
UNICAST: Final = 0x080
MULTICAST: Final = 0x040
SHARD: Final = 0x020
MAX_FLAGS: Final = 0x3FF  # the 10 bits of the field; bits without a name are kept

HEADER_BYTES: Final = 6
MAX_NAME_BYTES: Final = 255  # bytes; the 8 bits of the length (D-06)
MAX_TIMESTAMP_MS: Final = 0x7FFF_FFFF_FFFF_FFFF  # ms since the epoch (D-08); Java reads it as a signed number


class BrokerFrame:
    """What all frames have: `kind` (ROUTE_SETUP …), the version they came with, their 10 bits of flags."""

    def __init__(self, kind: int, flags: int, minor: int) -> None:
        self.kind: Final = kind
        self.major: Final = MAJOR  # D-04: no other is decoded
        self.minor: Final = minor
        self.flags: Final = flags

    def encode(self) -> bytes:
        """The frame's bytes, in version 0.1; BrokerError for a field that cannot be written."""
        raise NotImplementedError

    def fields(self) -> list[tuple[str, object]]:
        """Names and values behind the header, ids as text: what makes two frames equal, and what `repr` shows."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BrokerFrame)
            and self.kind == other.kind
            and self.minor == other.minor
            and self.flags == other.flags
            and self.fields() == other.fields()
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.minor, self.flags, str(self.fields())))

    def __repr__(self) -> str:
        shown = "".join([f" {name}={value}" for name, value in self.fields()])
        return f"{KIND_NAMES[self.kind]}({self.major}.{self.minor} flags={self.flags:#05x}{shown})"

    def start(self) -> Writer:
        """A writer that holds the header."""
        if self.flags < 0 or self.flags > MAX_FLAGS:
            raise BrokerError("bad-flags", f"{KIND_NAMES[self.kind]}: flags {self.flags:#x} do not fit 10 bits")
        writer = Writer()
        writer.push_u16(MAJOR)
        writer.push_u16(MINOR)
        writer.push_u16(self.kind << 10 | self.flags)
        return writer


class RouteSetup(BrokerFrame):
    """A destination says who it is, in the SETUP or in a later METADATA_PUSH.

     6 | route id, 16 bytes                                        |
       +---------------+-------------------------------------------+
    22 | name length   | service name, 1..255 bytes of UTF-8 …
       +---------------+-------------------------------------------+
       | map of tags, up to the end, or nothing …
       +-----------------------------------------------------------+
    """

    def __init__(self, route_id: bytes, service_name: str, tags: list[Tag], flags: int = 0, minor: int = MINOR) -> None:
        super().__init__(ROUTE_SETUP, flags, minor)
        self.route_id: Final = route_id  # 16 bytes
        self.service_name: Final = service_name
        self.tags: Final = tags  # as they came; the default tags are not added here

    def encode(self) -> bytes:
        writer = self.start()
        push_id(writer, self.route_id, "ROUTE_SETUP route id")
        push_name(writer, self.service_name, "ROUTE_SETUP service name")
        encode_map(writer, self.tags, last=True)
        return writer.to_bytes()

    def fields(self) -> list[tuple[str, object]]:
        return [("route_id", shown_id(self.route_id)), ("service_name", self.service_name), ("tags", self.tags)]


class RouteAdd(BrokerFrame):
    """A broker tells another one of a route.

     6 | broker id, 16 bytes: where the route is connected         |
    22 | route id, 16 bytes                                        |
    38 | timestamp, 8 bytes: milliseconds since the epoch          |
       +---------------+-------------------------------------------+
    46 | name length   | service name, 1..255 bytes of UTF-8 …
       +---------------+-------------------------------------------+
       | map of tags, up to the end, or nothing …
       +-----------------------------------------------------------+
    """

    def __init__(
        self,
        broker_id: bytes,
        route_id: bytes,
        timestamp_ms: int,
        service_name: str,
        tags: list[Tag],
        flags: int = 0,
        minor: int = MINOR,
    ) -> None:
        super().__init__(ROUTE_ADD, flags, minor)
        self.broker_id: Final = broker_id  # 16 bytes
        self.route_id: Final = route_id  # 16 bytes
        self.timestamp_ms: Final = timestamp_ms  # since the epoch, 0..2**63-1
        self.service_name: Final = service_name
        self.tags: Final = tags

    def encode(self) -> bytes:
        writer = self.start()
        push_id(writer, self.broker_id, "ROUTE_ADD broker id")
        push_id(writer, self.route_id, "ROUTE_ADD route id")
        push_timestamp(writer, self.timestamp_ms, "ROUTE_ADD timestamp")
        push_name(writer, self.service_name, "ROUTE_ADD service name")
        encode_map(writer, self.tags, last=True)
        return writer.to_bytes()

    def fields(self) -> list[tuple[str, object]]:
        return [
            ("broker_id", shown_id(self.broker_id)),
            ("route_id", shown_id(self.route_id)),
            ("timestamp_ms", self.timestamp_ms),
            ("service_name", self.service_name),
            ("tags", self.tags),
        ]


class RouteRemove(BrokerFrame):
    """A broker tells another one that a route is gone.

     6 | broker id, 16 bytes: where the route was connected        |
    22 | route id, 16 bytes                                        |
    38 | timestamp, 8 bytes: milliseconds since the epoch          |
    46 +-----------------------------------------------------------+  end
    """

    def __init__(
        self, broker_id: bytes, route_id: bytes, timestamp_ms: int, flags: int = 0, minor: int = MINOR
    ) -> None:
        super().__init__(ROUTE_REMOVE, flags, minor)
        self.broker_id: Final = broker_id  # 16 bytes
        self.route_id: Final = route_id  # 16 bytes
        self.timestamp_ms: Final = timestamp_ms  # since the epoch, 0..2**63-1

    def encode(self) -> bytes:
        writer = self.start()
        push_id(writer, self.broker_id, "ROUTE_REMOVE broker id")
        push_id(writer, self.route_id, "ROUTE_REMOVE route id")
        push_timestamp(writer, self.timestamp_ms, "ROUTE_REMOVE timestamp")
        return writer.to_bytes()

    def fields(self) -> list[tuple[str, object]]:
        return [
            ("broker_id", shown_id(self.broker_id)),
            ("route_id", shown_id(self.route_id)),
            ("timestamp_ms", self.timestamp_ms),
        ]


class BrokerInfo(BrokerFrame):
    """A broker introduces itself to another one.

     6 | broker id, 16 bytes                                       |
    22 | timestamp, 8 bytes: milliseconds since the epoch          |
       +-----------------------------------------------------------+
    30 | map of metadata, up to the end, or nothing …
       +-----------------------------------------------------------+
    """

    def __init__(
        self, broker_id: bytes, timestamp_ms: int, metadata: list[Tag], flags: int = 0, minor: int = MINOR
    ) -> None:
        super().__init__(BROKER_INFO, flags, minor)
        self.broker_id: Final = broker_id  # 16 bytes
        self.timestamp_ms: Final = timestamp_ms  # since the epoch, 0..2**63-1
        self.metadata: Final = metadata  # values are any bytes

    def encode(self) -> bytes:
        writer = self.start()
        push_id(writer, self.broker_id, "BROKER_INFO broker id")
        push_timestamp(writer, self.timestamp_ms, "BROKER_INFO timestamp")
        encode_map(writer, self.metadata, last=True)
        return writer.to_bytes()

    def fields(self) -> list[tuple[str, object]]:
        return [
            ("broker_id", shown_id(self.broker_id)),
            ("timestamp_ms", self.timestamp_ms),
            ("metadata", self.metadata),
        ]


class Address(BrokerFrame):
    """A request says which routes it wants; in the request's metadata. Two layouts (D-03):

     4 |frame type |0|E|U|M|S|         |   ENCRYPTED, UNICAST, MULTICAST, SHARD
     6 | origin route id, 16 bytes                                 |
       +-----------------------------------------------------------+
    22 | map of tags; here the frame ends …                  one map: Java's
       +-----------------------------------------------------------+

       +-----------------------------------------------------------+
    22 | map of metadata …                                   the specification's
       +-----------------------------------------------------------+
       | map of tags …
       +-----------------------------------------------------------+
       | wrapped metadata, up to the end …
       +-----------------------------------------------------------+
    """

    def __init__(
        self,
        origin_route_id: bytes,
        tags: list[Tag],
        metadata: list[Tag] | None = None,
        wrapped: bytes = b"",
        flags: int = UNICAST,
        minor: int = MINOR,
    ) -> None:
        """`metadata` None is the same as no entries, but for `has_metadata`."""
        super().__init__(ADDRESS, flags, minor)
        self.has_metadata: Final = metadata is not None  # the map is there, if only to say that it is empty (D-12)
        self.origin_route_id: Final = origin_route_id  # 16 bytes
        self.tags: Final = tags
        self.metadata: Final = [] if metadata is None else metadata  # about the routing only; values are any bytes
        self.wrapped: Final = wrapped  # the metadata that the request had without us; empty: none

    def encode(self) -> bytes:
        """The one-map layout when there is neither metadata nor wrapped metadata, because everybody reads that."""
        writer = self.start()
        push_id(writer, self.origin_route_id, "ADDRESS origin route id")
        if not self.metadata and not self.wrapped:
            encode_map(writer, self.tags, last=True)
            return writer.to_bytes()
        encode_map(writer, self.metadata, last=False)
        # Without tags their map must still be there, or the metadata would be read as the tags.
        encode_map(writer, self.tags, last=not self.wrapped and len(self.tags) > 0)
        writer.push_bytes(self.wrapped)
        return writer.to_bytes()

    def fields(self) -> list[tuple[str, object]]:
        return [
            ("origin_route_id", shown_id(self.origin_route_id)),
            ("tags", self.tags),
            ("metadata", self.metadata),
            ("wrapped", self.wrapped),
        ]


def decode_frame(data: bytes) -> BrokerFrame:
    """The frame that all of `data` is; InvalidFrame, or UnsupportedVersion for another major version (D-04)."""
    if len(data) < HEADER_BYTES:
        raise InvalidFrame(f"header: needs {HEADER_BYTES} bytes, {len(data)} are there")
    major = u16_at(data, 0)
    minor = u16_at(data, 2)
    if major != MAJOR:
        raise UnsupportedVersion(f"version {major}.{minor} is not supported, {MAJOR}.{MINOR} is")
    kind = data[4] >> 2
    flags = u16_at(data, 4) & MAX_FLAGS
    reader = Reader(data, HEADER_BYTES)
    if kind == ADDRESS:
        return decode_address(reader, flags, minor)
    if kind == ROUTE_SETUP:
        return decode_route_setup(reader, flags, minor)
    if kind == ROUTE_ADD:
        return decode_route_add(reader, flags, minor)
    if kind == ROUTE_REMOVE:
        return decode_route_remove(reader, flags, minor)
    if kind == BROKER_INFO:
        return decode_broker_info(reader, flags, minor)
    raise InvalidFrame(f"frame type {kind:#04x} is unknown, 0x01..0x05 are known")


def decode_address(reader: Reader, flags: int, minor: int) -> Address:
    """What stands behind the header of an ADDRESS."""
    origin_route_id = reader.pull_bytes(ID_BYTES, "ADDRESS origin route id")
    if minor == MINOR_JS:
        return decode_address_js(reader, origin_route_id, flags)
    first = decode_map(reader, "ADDRESS first map", utf8=False, to_end=False)
    if reader.at == reader.end:
        check_values(first, "ADDRESS tags")
        return Address(origin_route_id, first, None, b"", flags, minor)
    tags = decode_map(reader, "ADDRESS tags", utf8=True, to_end=False)
    return Address(origin_route_id, tags, first, reader.rest(), flags, minor)


def decode_address_js(reader: Reader, origin_route_id: bytes, flags: int) -> Address:
    """The maps of the JS client: metadata and tags without a border, so the leading hints are the metadata (D-21)."""
    entries = decode_flat_map(reader, "ADDRESS")
    hints_n = 0
    while hints_n < len(entries) and entries[hints_n].key.is_hint:
        hints_n += 1
    tags = entries[hints_n:]
    check_values(tags, "ADDRESS tags")
    return Address(origin_route_id, tags, entries[:hints_n], b"", flags, MINOR_JS)


def find_wrapped(data: bytes) -> int:
    """Where the wrapped metadata of an ADDRESS begins, of which these bytes have come and more is to come.

    -1: its maps have not all come, or they cannot be read, or it has none that could be behind them.
    """
    if len(data) <= HEADER_BYTES + ID_BYTES or data[4] >> 2 != ADDRESS or u16_at(data, 0) != MAJOR:
        return -1
    if u16_at(data, 2) == MINOR_JS:
        return -1
    # With one more byte: what has not come whole takes it, a key at the end, whose value is not null then (D-07), too.
    reader = Reader(data + b"\x00", HEADER_BYTES + ID_BYTES)
    try:
        decode_map(reader, "ADDRESS metadata", utf8=False, to_end=False)
        decode_map(reader, "ADDRESS tags", utf8=True, to_end=False)
    except InvalidFrame:
        return -1
    return reader.at if reader.at <= len(data) else -1


def decode_route_setup(reader: Reader, flags: int, minor: int) -> RouteSetup:
    """What stands behind the header of a ROUTE_SETUP."""
    route_id = reader.pull_bytes(ID_BYTES, "ROUTE_SETUP route id")
    service_name = pull_name(reader, "ROUTE_SETUP service name")
    return RouteSetup(route_id, service_name, pull_tags(reader, "ROUTE_SETUP tags", minor), flags, minor)


def decode_route_add(reader: Reader, flags: int, minor: int) -> RouteAdd:
    """What stands behind the header of a ROUTE_ADD."""
    broker_id = reader.pull_bytes(ID_BYTES, "ROUTE_ADD broker id")
    route_id = reader.pull_bytes(ID_BYTES, "ROUTE_ADD route id")
    timestamp_ms = pull_timestamp(reader, "ROUTE_ADD timestamp")
    service_name = pull_name(reader, "ROUTE_ADD service name")
    tags = pull_tags(reader, "ROUTE_ADD tags", minor)
    return RouteAdd(broker_id, route_id, timestamp_ms, service_name, tags, flags, minor)


def decode_route_remove(reader: Reader, flags: int, minor: int) -> RouteRemove:
    """What stands behind the header of a ROUTE_REMOVE."""
    broker_id = reader.pull_bytes(ID_BYTES, "ROUTE_REMOVE broker id")
    route_id = reader.pull_bytes(ID_BYTES, "ROUTE_REMOVE route id")
    timestamp_ms = pull_timestamp(reader, "ROUTE_REMOVE timestamp")
    reader.check_end("ROUTE_REMOVE")
    return RouteRemove(broker_id, route_id, timestamp_ms, flags, minor)


def decode_broker_info(reader: Reader, flags: int, minor: int) -> BrokerInfo:
    """What stands behind the header of a BROKER_INFO."""
    broker_id = reader.pull_bytes(ID_BYTES, "BROKER_INFO broker id")
    timestamp_ms = pull_timestamp(reader, "BROKER_INFO timestamp")
    if minor == MINOR_JS:
        return BrokerInfo(broker_id, timestamp_ms, decode_flat_map(reader, "BROKER_INFO metadata"), flags, minor)
    metadata = decode_map(reader, "BROKER_INFO metadata", utf8=False, to_end=True)
    return BrokerInfo(broker_id, timestamp_ms, metadata, flags, minor)


def pull_tags(reader: Reader, subject: str, minor: int) -> list[Tag]:
    """A map of tags up to the end of the frame."""
    if minor != MINOR_JS:
        return decode_map(reader, subject, utf8=True, to_end=True)
    tags = decode_flat_map(reader, subject)
    check_values(tags, subject)
    return tags


def pull_name(reader: Reader, subject: str) -> str:
    """A length byte and as many bytes of UTF-8; InvalidFrame when there are none (D-06)."""
    name_bytes = reader.pull_u8(subject)
    if name_bytes == 0:
        raise InvalidFrame(f"{subject}: is empty")
    return reader.pull_text(name_bytes, subject)


def pull_timestamp(reader: Reader, subject: str) -> int:
    """Milliseconds since the epoch; InvalidFrame beyond 2**63-1."""
    timestamp_ms = reader.pull_u64(subject)
    if timestamp_ms > MAX_TIMESTAMP_MS:
        raise InvalidFrame(f"{subject}: {timestamp_ms} ms is beyond 2**63-1")
    return timestamp_ms


def push_id(writer: Writer, raw: bytes, subject: str) -> None:
    """16 bytes; BrokerError "bad-id" for another number of them."""
    check_id(raw, subject)
    writer.push_bytes(raw)


def push_name(writer: Writer, name: str, subject: str) -> None:
    """A length byte and UTF-8; BrokerError "bad-name" unless that is 1..255 bytes (D-06)."""
    raw = utf8_bytes(name, "bad-name", subject)
    if not raw or len(raw) > MAX_NAME_BYTES:
        raise BrokerError("bad-name", f"{subject}: has {len(raw)} bytes, 1..{MAX_NAME_BYTES} are allowed")
    writer.push_u8(len(raw), subject)
    writer.push_bytes(raw)


def push_timestamp(writer: Writer, timestamp_ms: int, subject: str) -> None:
    """Milliseconds since the epoch; BrokerError "bad-time" unless 0..2**63-1 (D-08)."""
    if timestamp_ms < 0 or timestamp_ms > MAX_TIMESTAMP_MS:
        raise BrokerError("bad-time", f"{subject}: {timestamp_ms} ms is not in 0..2**63-1")
    writer.push_u64(timestamp_ms, subject)


def shown_id(raw: bytes) -> str:
    """The text of an id, or the hexadecimal digits of bytes that are none: a wrong frame can be shown too."""
    return id_text(raw) if len(raw) == ID_BYTES else raw.hex()
