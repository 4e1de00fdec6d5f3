"""Byte scripts: frames written from the diagrams of the two specifications, and peers that say and hear them.

Nothing here uses the broker's own encoders or names, so that a mistake of theirs is not made twice. A stranger can
send the same bytes over a socket, each frame with its 24-bit length before it.
"""

from tests.fakes import Wire, World

# RSocket: types of frames, flags, codes of errors.
REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL = 0x04, 0x05, 0x06, 0x07
MODELS = [REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL]
ANSWERED = [REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_CHANNEL]
IGNORE, METADATA, FOLLOWS, COMPLETE, NEXT = 0x200, 0x100, 0x080, 0x040, 0x020
REJECTED_SETUP, CONNECTION_ERROR, CONNECTION_CLOSE = 0x003, 0x101, 0x102
REJECTED, CANCELED, INVALID = 0x202, 0x203, 0x204

# RSocket Broker: types of frames, flags of ADDRESS, well-known keys.
ROUTE_SETUP, ROUTE_ADD, ROUTE_REMOVE, BROKER_INFO, ADDRESS = 0x01, 0x02, 0x03, 0x04, 0x05
E, U, M, S = 0x100, 0x080, 0x040, 0x020
SERVICE_NAME, ROUTE_ID, REGION, ZONE = 0x01, 0x02, 0x06, 0x07
SHARD_KEY, SHARD_METHOD, STICKY_ROUTE_KEY, LB_METHOD = 0x1B, 0x1C, 0x1D, 0x1E

FORWARDING = "message/x.rsocket.forwarding"
FORWARDING_V0 = "message/x.rsocket.broker.frame.v0"
COMPOSITE = "message/x.rsocket.composite-metadata.v0"

CALLER_ID = bytes.fromhex("ca11e4ca11e4ca11e4ca11e4ca11e4ca")
BROKER_ID = bytes.fromhex("b40ce4b40ce4b40ce4b40ce4b40ce4b4")

AnyKey = int | tuple[int, int] | str  # a well-known id, an extension of 0x7C or 0x7F, a text
AnyTag = tuple[AnyKey, str | bytes | None]


def u16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def u24(number: int) -> bytes:
    return number.to_bytes(3, "big")


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def ident(number: int) -> bytes:
    """A Route Id."""
    return number.to_bytes(16, "big")


def uuid(number: int) -> str:
    """The same as the value of a RouteId tag."""
    return f"00000000-0000-0000-0000-{number:012x}"


# RSocket Broker frames


def header(kind: int, flags: int = 0, major: int = 0, minor: int = 1) -> bytes:
    return u16(major) + u16(minor) + u16(kind << 10 | flags)


def key(of: AnyKey) -> bytes:
    """|W|length or id| key"""
    if isinstance(of, str):
        return bytes([len(of.encode())]) + of.encode()
    if isinstance(of, tuple):
        return bytes([0x80 | of[0]]) + u16(of[1])
    return bytes([0x80 | of])


def tag_map(*tags: AnyTag) -> bytes:
    """Entries, the last with its first bit clear. None: no value length, which only the end of a frame can say."""
    found = b""
    for place, (of, value) in enumerate(tags):
        found += key(of)
        if value is not None:
            content = value.encode() if isinstance(value, str) else value
            found += bytes([(0x80 if place < len(tags) - 1 else 0) | len(content)]) + content
    return found


EMPTY = b"\x80\x00"  # a map that has to be there and has no entries: No Tag Present, a value of no bytes


def route_setup(number: int, name: str, *tags: AnyTag, flags: int = 0, minor: int = 1) -> bytes:
    content = name.encode()
    return header(ROUTE_SETUP, flags, minor=minor) + ident(number) + bytes([len(content)]) + content + tag_map(*tags)


def route_add(number: int, at_ms: int, name: str, *tags: AnyTag, broker: bytes = BROKER_ID) -> bytes:
    content = name.encode()
    head = header(ROUTE_ADD) + broker + ident(number) + u64(at_ms)
    return head + bytes([len(content)]) + content + tag_map(*tags)


def route_remove(number: int, at_ms: int, broker: bytes = BROKER_ID) -> bytes:
    return header(ROUTE_REMOVE) + broker + ident(number) + u64(at_ms)


def broker_info(at_ms: int, *metadata: AnyTag, broker: bytes = BROKER_ID) -> bytes:
    return header(BROKER_INFO) + broker + u64(at_ms) + tag_map(*metadata)


def address(
    flags: int, *tags: AnyTag, metadata: list[AnyTag] | None = None, wrapped: bytes = b"", minor: int = 1
) -> bytes:
    """As the diagram draws it: metadata, tags, wrapped metadata."""
    head = header(ADDRESS, flags, minor=minor) + CALLER_ID
    return head + (tag_map(*metadata) if metadata else EMPTY) + (tag_map(*tags) if tags else EMPTY) + wrapped


def short_address(flags: int, *tags: AnyTag) -> bytes:
    """One map, the tags: what has no metadata may leave that map out."""
    return header(ADDRESS, flags) + CALLER_ID + tag_map(*tags)


# RSocket frames


def frame(stream_id: int, kind: int, flags: int = 0, body: bytes = b"") -> bytes:
    return u32(stream_id) + u16(kind << 10 | flags) + body


def setup(mime: str, metadata: bytes | None = None, data_mime: str = "text/plain") -> bytes:
    body = u16(1) + u16(0) + u32(20_000) + u32(90_000)
    for each in (mime, data_mime):
        body += bytes([len(each)]) + each.encode()
    if metadata is None:
        return frame(0, 0x01, 0, body)
    return frame(0, 0x01, METADATA, body + u24(len(metadata)) + metadata)


def request(kind: int, stream_id: int, metadata: bytes, data: bytes = b"data", n: int = 8, flags: int = 0) -> bytes:
    credit = u32(n) if kind >= REQUEST_STREAM else b""
    return frame(stream_id, kind, METADATA | flags, credit + u24(len(metadata)) + metadata + data)


def payload(stream_id: int, flags: int, data: bytes = b"", metadata: bytes | None = None) -> bytes:
    if metadata is None:
        return frame(stream_id, 0x0A, flags, data)
    return frame(stream_id, 0x0A, flags | METADATA, u24(len(metadata)) + metadata + data)


def error(stream_id: int, code: int, text: str) -> bytes:
    return frame(stream_id, 0x0B, 0, u32(code) + text.encode())


def cancel(stream_id: int) -> bytes:
    return frame(stream_id, 0x09)


def request_n(stream_id: int, n: int) -> bytes:
    return frame(stream_id, 0x08, 0, u32(n))


def push(metadata: bytes) -> bytes:
    return frame(0, 0x0C, METADATA, metadata)


def composite(*entries: tuple[str, bytes]) -> bytes:
    """Composite metadata; mime types as texts."""
    return b"".join(bytes([len(mime) - 1]) + mime.encode() + u24(len(content)) + content for mime, content in entries)


def forwarding(*broker_frames: bytes) -> bytes:
    """Composite metadata of broker frames."""
    return composite(*[(FORWARDING, each) for each in broker_frames])


def carried(mime: str, broker_frame: bytes, entry_mime: str = FORWARDING) -> bytes:
    """The metadata of a connection of this mime type that carries a broker frame."""
    return composite((entry_mime, broker_frame)) if mime == COMPOSITE else broker_frame


def on(stream_id: int, raw: bytes) -> bytes:
    """The frame as the other side of the broker must see it: on its own stream, and every other byte as it was."""
    return u32(stream_id) + raw[4:]


# Peers


def connected(world: World, first: bytes) -> Wire:
    """A connection whose first frame is this."""
    wire = world.connect()
    wire.send(first)
    return wire


def caller(world: World, mime: str = COMPOSITE, data_mime: str = "text/plain") -> Wire:
    """A connection that offers nothing."""
    return connected(world, setup(mime, data_mime=data_mime))


def destination(world: World, number: int, name: str, *tags: AnyTag, mime: str = COMPOSITE) -> Wire:
    """A routable destination."""
    return connected(world, setup(mime, carried(mime, route_setup(number, name, *tags))))


def heard(wire: Wire) -> list[bytes]:
    """Frames that the broker has sent there since the last call."""
    return [each.raw for each in wire.received()]


def assert_arrives(world: World, wire: Wire, metadata: bytes, mime: str = COMPOSITE) -> None:
    """A request of a new caller is all that is heard there, and each byte but its stream's is as it was sent."""
    raw = request(REQUEST_RESPONSE, 1, metadata)
    caller(world, mime).send(raw)
    assert [on(1, each) for each in heard(wire)] == [raw]


def tags_in_table(world: World) -> list[list[tuple[str, str | None]]]:
    """What the routing table says of each route, by the names that the specification gives to keys."""
    return [[(tag.key.name, tag.value) for tag in route.tags] for route in world.core.table.routes()]
