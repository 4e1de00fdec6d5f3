"""D-16, row by row: what a route gets when it cannot read the caller's metadata as it is."""

import pytest

from rsocket_wire.errors import INVALID
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import NEXT, REQUEST_RESPONSE, Setup
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_well_known_entry
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0, Address, decode_frame
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import World, address, addressed, composite, error, moved, route_id, tags_of

PLAIN = address(service="orders")
WRAPPING = address(wrapped=b"what was there before", service="orders")
ROUTING = ("message/x.rsocket.routing.v0", b"\x05route")
DATA_MIME_JSON = encode_well_known_entry(0x7A, b"\x85")
DATA_MIME_OWN = encode_well_known_entry(0x7A, bytes([12]) + b"application/x"[:13])


def translated(
    metadata: bytes,
    caller_mime: str,
    route_mime: str,
    caller_data: str = "text/plain",
    route_data: str = "text/plain",
) -> bytes | None:
    """The metadata that the route gets; everything else must have stayed as it was."""
    world = World()
    service = world.service("orders", 1, metadata_mime=route_mime, data_mime=route_data)
    caller = world.caller(metadata_mime=caller_mime, data_mime=caller_data)
    caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"the data", metadata))
    frame = service.one()
    assert frame == moved(frames.encode_request(REQUEST_RESPONSE, 1, b"the data", frame.metadata), 2)
    return frame.metadata


BOTH = addressed(PLAIN, ROUTING, ("text/plain", b"x"))
REST = composite(ROUTING, ("text/plain", b"x"))


@pytest.mark.parametrize(
    ("metadata", "caller_mime", "route_mime", "expected", "lost_n"),
    [
        (BOTH, COMPOSITE_MIME, COMPOSITE_MIME, BOTH, 0),
        (addressed(PLAIN), COMPOSITE_MIME, MIME_TYPE, PLAIN, 0),
        (addressed(PLAIN), COMPOSITE_MIME, MIME_TYPE_V0, PLAIN, 0),
        (BOTH, COMPOSITE_MIME, MIME_TYPE, address(wrapped=REST, service="orders"), 0),
        (
            composite(ROUTING) + BOTH,
            COMPOSITE_MIME,
            MIME_TYPE,
            address(wrapped=composite(ROUTING) + REST, service="orders"),
            0,
        ),
        (addressed(WRAPPING), COMPOSITE_MIME, MIME_TYPE, WRAPPING, 0),
        (addressed(WRAPPING, ROUTING), COMPOSITE_MIME, MIME_TYPE, WRAPPING, 1),
        (addressed(WRAPPING, ROUTING, ROUTING), COMPOSITE_MIME, MIME_TYPE, WRAPPING, 2),
        (PLAIN, MIME_TYPE, COMPOSITE_MIME, composite((MIME_TYPE, PLAIN)), 0),
        (PLAIN, MIME_TYPE_V0, COMPOSITE_MIME, composite((MIME_TYPE_V0, PLAIN)), 0),
        (WRAPPING, MIME_TYPE, COMPOSITE_MIME, composite((MIME_TYPE, WRAPPING)), 0),
        (PLAIN, MIME_TYPE, MIME_TYPE, PLAIN, 0),
        (WRAPPING, MIME_TYPE, MIME_TYPE_V0, WRAPPING, 0),
        (addressed(WRAPPING, ROUTING), COMPOSITE_MIME, "text/plain", b"what was there before", 1),
        (WRAPPING, MIME_TYPE, "application/json", b"what was there before", 0),
        (BOTH, COMPOSITE_MIME, "text/plain", b"x", 1),
        (BOTH, COMPOSITE_MIME, "message/x.rsocket.routing.v0", b"\x05route", 1),
        (addressed(PLAIN) + encode_well_known_entry(0x7E, b"\x02ok"), COMPOSITE_MIME, ROUTING[0], b"\x02ok", 0),
        (BOTH, COMPOSITE_MIME, "application/json", None, 2),
        (PLAIN, MIME_TYPE, "application/json", None, 0),
    ],
)
@pytest.mark.parametrize("kind", MODELS)
def test_brokers_own_mime_types_are_wrapped_and_unwrapped(
    kind: int, metadata: bytes, caller_mime: str, route_mime: str, expected: bytes | None, lost_n: int
) -> None:
    """A route of another mime type gets what it can read, or nothing; what it cannot be given is counted.

    D-70: an ADDRESS that wraps metadata passes as it is, and what the caller says beside it has no place.
    """
    world = World()
    # A connection whose metadata is of another mime type cannot announce a route; it did before, in its other life.
    service = world.service("orders", 1)
    service.peer.mimes = world.caller(metadata_mime=route_mime).peer.mimes
    caller = world.caller(metadata_mime=caller_mime)
    caller.send(frames.encode_request(kind, 1, b"the data", metadata, 8))
    assert service.received() == [moved(frames.encode_request(kind, 1, b"the data", expected, 8), 2)]
    assert world.core.engine.mime_pairs.lost_entries_n == lost_n


def test_a_null_at_the_end_of_an_address_that_something_is_wrapped_into_becomes_an_empty_value() -> None:
    """D-07: it is not the last thing any more."""
    world = World()
    service = world.service("orders", 1, metadata_mime=MIME_TYPE, region="")
    metadata = addressed(address(service="orders", region=None), ROUTING)
    world.caller().send(frames.encode_request(REQUEST_RESPONSE, 1, b"the data", metadata))
    assert service.one().metadata == address(wrapped=composite(ROUTING), service="orders", region="")


@pytest.mark.parametrize(
    ("metadata", "caller_mime", "caller_data", "expected"),
    [
        (BOTH, COMPOSITE_MIME, "application/json", BOTH + DATA_MIME_JSON),
        (BOTH, COMPOSITE_MIME, "application/x", BOTH + DATA_MIME_OWN),
        (BOTH + DATA_MIME_JSON, COMPOSITE_MIME, "text/html", BOTH + DATA_MIME_JSON),
        (
            addressed(PLAIN, ("message/x.rsocket.mime-type.v0", b"\x85")),
            COMPOSITE_MIME,
            "text/html",
            addressed(PLAIN, ("message/x.rsocket.mime-type.v0", b"\x85")),
        ),
        (PLAIN, MIME_TYPE, "application/json", composite((MIME_TYPE, PLAIN)) + DATA_MIME_JSON),
        (BOTH, COMPOSITE_MIME, "", BOTH),
    ],
)
def test_a_composite_route_is_told_the_mime_type_of_the_data_where_it_differs(
    metadata: bytes, caller_mime: str, caller_data: str, expected: bytes
) -> None:
    assert translated(metadata, caller_mime, COMPOSITE_MIME, caller_data, "text/plain") == expected


def test_a_route_that_reads_no_composite_metadata_is_not_told_the_mime_type_of_the_data() -> None:
    assert translated(PLAIN, MIME_TYPE, MIME_TYPE_V0, "application/json", "text/plain") == PLAIN
    assert translated(addressed(PLAIN), COMPOSITE_MIME, MIME_TYPE, "application/json", "text/plain") == PLAIN


def test_answers_are_not_translated() -> None:
    world = World()
    service = world.service("orders", 1, metadata_mime=MIME_TYPE)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, PLAIN)
    raw = frames.encode_payload(2, NEXT, b"answer", b"any metadata")
    service.send(raw)
    assert caller.received() == [moved(raw, 1)]


def test_a_request_that_would_be_too_large_for_its_route_is_refused() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller(metadata_mime=MIME_TYPE)
    room = 0xFFFFFF - len(frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(PLAIN)))
    caller.request(REQUEST_RESPONSE, 1, PLAIN, bytes(room + 1))
    text = "too-large: the request would have 16777216 bytes with metadata that orders can read"
    assert (caller.received(), service.received()) == ([error(1, INVALID, text)], [])
    caller.request(REQUEST_RESPONSE, 3, PLAIN, bytes(room))
    assert [len(frame.raw) for frame in service.received()] == [0xFFFFFF]


def test_metadata_that_grows_beyond_what_its_length_can_say_is_refused() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller(metadata_mime=MIME_TYPE)
    wrapping = address(
        wrapped=bytes(0xFFFFFF - len(frames.encode_request(REQUEST_RESPONSE, 1, b"", PLAIN)) - 2), service="orders"
    )
    caller.request(REQUEST_RESPONSE, 1, wrapping, b"")
    (refused,) = caller.received()
    assert refused.text.startswith("too-large: the request would have 16777")
    assert service.received() == []


def test_what_is_wrapped_goes_with_the_address_of_its_own_caller() -> None:
    """Two callers share what is known of an address, but neither origin nor what is wrapped."""
    world = World()
    service = world.service("orders", 1, metadata_mime=MIME_TYPE)
    for number in (1, 2):
        caller = world.caller()
        raw = Address(route_id(number), tags_of({"service": "orders"})).encode()
        caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(raw, ("text/x", b"%d" % number))))
        got = decode_frame(service.one().metadata or b"")
        assert isinstance(got, Address)
        assert (got.origin_route_id, got.wrapped) == (route_id(number), composite(("text/x", b"%d" % number)))


def push(metadata: bytes, caller_mime: str, route_mime: str, caller_data: str = "text/plain") -> bytes | None:
    world = World()
    service = world.service("orders", 1)
    service.peer.mimes = world.caller(metadata_mime=route_mime).peer.mimes
    caller = world.caller(metadata_mime=caller_mime, data_mime=caller_data)
    caller.push(metadata)
    pieces = service.received()
    if not pieces:
        return None
    assert pieces == [moved(frames.encode_metadata_push(pieces[0].data), 0)]
    return pieces[0].data


@pytest.mark.parametrize(
    ("metadata", "caller_mime", "route_mime", "expected"),
    [
        (BOTH, COMPOSITE_MIME, COMPOSITE_MIME, BOTH),
        (BOTH, COMPOSITE_MIME, MIME_TYPE, address(wrapped=REST, service="orders")),
        (PLAIN, MIME_TYPE, COMPOSITE_MIME, composite((MIME_TYPE, PLAIN))),
        (WRAPPING, MIME_TYPE, "text/plain", b"what was there before"),
        (PLAIN, MIME_TYPE, "text/plain", None),  # nothing in it that the route could read
    ],
)
def test_a_push_is_translated_like_a_request(
    metadata: bytes, caller_mime: str, route_mime: str, expected: bytes | None
) -> None:
    assert push(metadata, caller_mime, route_mime) == expected


def test_a_push_has_no_data_and_so_no_mime_type_of_it() -> None:
    assert push(BOTH, COMPOSITE_MIME, COMPOSITE_MIME, "application/json") == BOTH


def test_an_address_that_cannot_be_written_again_is_refused() -> None:
    """D-21: the JS client may write values of over 127 bytes, which only it can say."""
    world = World()
    value = "v" * 200
    announced = bytes.fromhex("0000 1c01 0400") + (1).to_bytes(16, "big") + b"\x06orders"
    service = world.connect()
    service.send(Setup(MIME_TYPE, "text/plain", 20_000, 90_000, announced + js_tag(0x0A, value)).encode())
    assert not service.is_closed
    caller = world.caller()
    raw = bytes.fromhex("0000 1c01 1480") + bytes(16) + js_tag(0x0A, value)
    caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(raw, ROUTING)))
    pieces = caller.received()
    assert [(frame.code, frame.text.split(":")[0]) for frame in pieces] == [(INVALID, "bad-address")]
    caller.send(frames.encode_request(REQUEST_RESPONSE, 3, b"", addressed(raw)))
    assert [frame.metadata for frame in service.received()] == [raw]


def js_tag(key: int, value: str) -> bytes:
    return bytes([key, len(value)]) + value.encode()
