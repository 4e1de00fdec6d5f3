"""The life of connections and routes: SETUP, keepalive, replacement, loss, end, limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.connections.closed import MAX_CLOSED
from broker.core import CoreSettings
from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from rsocket_wire.errors import (
    CANCELED,
    CONNECTION_CLOSE,
    CONNECTION_ERROR,
    INVALID_SETUP,
    REJECTED,
    REJECTED_RESUME,
    REJECTED_SETUP,
    UNSUPPORTED_SETUP,
)
from rsocket_wire.rsocket.frames import (
    CANCEL,
    EXT,
    IGNORE,
    KEEPALIVE,
    LEASE,
    PAYLOAD,
    REQUEST_FNF,
    REQUEST_N,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    RESUME,
    RESUME_OK,
    SETUP,
    Setup,
    encode_cancel,
    encode_error,
    encode_keepalive,
    encode_metadata_push,
    encode_payload,
    encode_request,
    encode_request_n,
)
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0, MULTICAST, Address, BrokerInfo, RouteSetup
from tests.fakes import (
    START_MS,
    Frame,
    Wire,
    World,
    address,
    addressed,
    cancelled,
    composite,
    error,
    moved,
    route_id,
    tags_of,
)

ORDERS = address(service="orders")
PLAIN_SETUP = Setup(COMPOSITE_MIME, "text/plain", 20_000, 90_000).encode()


def raw_frame(kind: int, flags: int = 0, rest: bytes = b"", stream_id: int = 0) -> bytes:
    return stream_id.to_bytes(4, "big") + ((kind << 10) | flags).to_bytes(2, "big") + rest


def resume_frame() -> bytes:
    return raw_frame(RESUME, 0, b"\x00\x01\x00\x00" + b"\x00\x05token" + bytes(16))


def names(world: World) -> list[list[str]]:
    """The routes in the table: their service and, behind it, the values of their own tags."""
    return [
        [route.service, *[tag.value or "" for tag in route.tags if tag.key.short_name not in ("service", "route_id")]]
        for route in world.core.table.routes()
    ]


# SETUP


@pytest.mark.parametrize("framed", [True, False])
def test_a_setup_opens_the_connection_without_an_answer(framed: bool) -> None:
    world = World()
    wire = world.connect(framed)
    wire.send(PLAIN_SETUP)
    assert (wire.received(), wire.is_closed, wire.peer.is_open) == ([], False, True)


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize(
    ("raw", "code", "text"),
    [
        (
            raw_frame(REQUEST_RESPONSE, 0, b"x", 1),
            INVALID_SETUP,
            "bad-setup: the first frame is REQUEST_RESPONSE on stream 1, it must be SETUP on 0",
        ),
        (
            encode_keepalive(b"", True),
            INVALID_SETUP,
            "bad-setup: the first frame is KEEPALIVE on stream 0, it must be SETUP on 0",
        ),
        (
            b"\x00\x00\x00\x01" + PLAIN_SETUP[4:],
            INVALID_SETUP,
            "bad-setup: the first frame is SETUP on stream 1, it must be SETUP on 0",
        ),
        (
            encode_error(0, 0x101, "x"),
            INVALID_SETUP,
            "bad-setup: the first frame is ERROR on stream 0, it must be SETUP on 0",
        ),
        (
            encode_metadata_push(addressed(ORDERS)),
            INVALID_SETUP,
            "bad-setup: the first frame is METADATA_PUSH on stream 0, it must be SETUP on 0",
        ),
        (
            raw_frame(0x20, IGNORE),
            INVALID_SETUP,
            "bad-setup: the first frame is type 0x20 on stream 0, it must be SETUP on 0",
        ),
        (
            Setup(COMPOSITE_MIME, "a/b", 1, 1, major=2, minor=7).encode(),
            UNSUPPORTED_SETUP,
            "bad-version: RSocket 2.7 asked for, this broker speaks 1.0",
        ),
        (
            Setup(COMPOSITE_MIME, "a/b", 1, 1, major=0, minor=2).encode(),
            UNSUPPORTED_SETUP,
            "bad-version: RSocket 0.2 asked for, this broker speaks 1.0",
        ),
        (
            resume_frame(),
            REJECTED_RESUME,
            "unknown-session: there is no session to resume, connect again with a SETUP",
        ),
        (
            Setup(COMPOSITE_MIME, "a/b", 0, 5).encode(),
            INVALID_SETUP,
            "bad-setup: keepalive time 0 ms and lifetime 5 ms, both must be over 0",
        ),
    ],
)
def test_what_is_no_setup_is_refused_and_the_connection_closed(framed: bool, raw: bytes, code: int, text: str) -> None:
    world = World()
    wire = world.connect(framed)
    wire.send(raw)
    wire.send(PLAIN_SETUP)  # too late
    assert wire.received() == [error(0, code, text)]
    assert wire.is_closed


def test_every_truncation_of_a_setup_is_refused() -> None:
    whole = Setup(COMPOSITE_MIME, "text/plain", 20_000, 90_000, composite((MIME_TYPE, b"x"))).encode()
    for size in range(6, len(whole)):
        wire = World().connect()
        wire.send(whole[:size])
        (frame,) = wire.received()
        assert (frame.stream_id, frame.code, frame.text.split(":")[0]) == (0, INVALID_SETUP, "bad-setup"), size
        assert wire.is_closed


def test_a_second_setup_is_ignored() -> None:
    world = World()
    service = world.service("orders", 1)
    service.send(Setup(MIME_TYPE, "a/b", 5, 5, RouteSetup(route_id(9), "stock", []).encode()).encode())
    assert (service.received(), service.is_closed, names(world)) == ([], False, [["orders"]])


def test_a_resume_behind_the_setup_ends_the_connection() -> None:
    """ "A Server that receives a RESUME frame after a SETUP frame, SHOULD send an ERROR[CONNECTION_ERROR]."."""
    world = World()
    service = world.service("orders", 1)
    service.send(resume_frame())
    text = "bad-frame: RESUME must be the first frame of a connection"
    assert (service.received(), service.is_closed, names(world)) == ([error(0, CONNECTION_ERROR, text)], True, [])


def test_requests_may_come_in_the_same_bytes_as_the_setup() -> None:
    world = World()
    service = world.service("orders", 1)
    wire = world.connect()
    request = encode_request(REQUEST_RESPONSE, 1, b"hi", addressed(ORDERS))
    wire.send_bytes(b"".join(len(raw).to_bytes(3, "big") + raw for raw in (PLAIN_SETUP, request)))
    assert service.received() == [moved(request, 2)]


def test_requests_behind_a_refused_setup_are_not_looked_at() -> None:
    world = World()
    service = world.service("orders", 1)
    wire = world.connect()
    request = encode_request(REQUEST_FNF, 1, b"hi", addressed(ORDERS))
    refused = Setup(COMPOSITE_MIME, "a/b", 0, 1).encode()
    wire.send_bytes(b"".join(len(raw).to_bytes(3, "big") + raw for raw in (refused, request)))
    assert service.received() == []


def test_bytes_may_arrive_one_by_one() -> None:
    world = World()
    service = world.service("orders", 1)
    wire = world.connect()
    request = encode_request(REQUEST_FNF, 1, b"hi", addressed(ORDERS))
    for byte in b"".join(len(raw).to_bytes(3, "big") + raw for raw in (PLAIN_SETUP, request)):
        wire.send_bytes(bytes([byte]))
    assert service.received() == [moved(request, 2)]


@pytest.mark.parametrize(
    ("framed", "data", "text"),
    [
        (True, b"\x00\x00\x05abcde", "bad-frame: a frame of 5 bytes, a header has 6"),
        (True, b"\x00\x10\x01", "bad-frame: a frame of 4097 bytes, the limit is 4096"),
        (False, b"abcde", "bad-frame: a frame of 5 bytes, a header has 6"),
        (False, b"", "bad-frame: a frame of 0 bytes, a header has 6"),
        (False, bytes(4097), "bad-frame: a frame of 4097 bytes, the limit is 4096"),
    ],
)
def test_bytes_that_are_no_frame_end_the_connection(framed: bool, data: bytes, text: str) -> None:
    world = World(CoreSettings(max_frame_bytes=4096))
    wire = world.caller(framed)
    wire.send_bytes(data)
    assert wire.received() == [error(0, CONNECTION_ERROR, text)]
    assert wire.is_closed


# Stream 0


@pytest.mark.parametrize(
    "raw",
    [
        raw_frame(LEASE, 0, bytes(8)),
        raw_frame(RESUME_OK, 0, bytes(8)),
        raw_frame(PAYLOAD, 0x20, b"x"),
        raw_frame(CANCEL),
        raw_frame(REQUEST_N, 0, bytes(4)),
        raw_frame(REQUEST_STREAM, 0, bytes(8)),
        raw_frame(SETUP),
        raw_frame(KEEPALIVE),  # nothing to answer
        raw_frame(EXT, IGNORE, bytes(4)),
        raw_frame(0x1F, IGNORE),
        raw_frame(0, IGNORE),
        raw_frame(KEEPALIVE, 0, bytes(8), 5),
        raw_frame(SETUP, 0, PLAIN_SETUP[6:], 5),
        raw_frame(LEASE, 0, bytes(8), 5),
        raw_frame(0x1F, IGNORE, b"", 5),
        raw_frame(EXT, IGNORE, bytes(4), 4),
        encode_payload(7, 0x60, b"late"),
        encode_payload(8, 0x60, b"late"),
        encode_cancel(7),
        encode_request_n(8, 3),
        encode_error(7, 0x201, "late"),
        encode_error(0, INVALID_SETUP, "a server MUST ignore"),
        encode_error(0, UNSUPPORTED_SETUP, "it"),
        encode_error(0, REJECTED_SETUP, "it"),
        encode_error(0, REJECTED_RESUME, "it"),
        raw_frame(0x0B, 0, b"\x00"),  # an ERROR without a code
    ],
)
def test_what_makes_no_sense_is_ignored(raw: bytes) -> None:
    """Protocol: This protocol attempts to be very lenient in processing of received frames."""
    world = World()
    wire = world.caller()
    wire.send(raw)
    assert (wire.received(), wire.is_closed, wire.peer.is_open) == ([], False, True)


@pytest.mark.parametrize("stream_id", [0, 5, 6])
@pytest.mark.parametrize(("kind", "name"), [(EXT, "EXT"), (0x1F, "type 0x1f"), (0, "type 0x00")])
def test_a_frame_that_is_unknown_and_may_not_be_ignored_ends_the_connection(
    stream_id: int, kind: int, name: str
) -> None:
    world = World()
    wire = world.caller()
    wire.send(raw_frame(kind, 0, bytes(4), stream_id))
    if stream_id:
        text = f"bad-frame: frame type 0x{kind:02x} on stream {stream_id} is unknown and may not be ignored"
    else:
        text = f"bad-frame: frame {name} on stream 0 is unknown and may not be ignored"
    assert wire.received() == [error(0, CONNECTION_ERROR, text)]
    assert wire.is_closed


@pytest.mark.parametrize("code", [CONNECTION_ERROR, 0x201, 0x301, 0])
def test_an_error_of_the_peer_on_stream_0_ends_the_connection_without_an_answer(code: int) -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    service.received()
    service.send(encode_error(0, code, "bye"))
    assert (service.received(), service.is_closed, names(world)) == ([], True, [])
    text = "route-lost: the connection of orders went away before the request ended"
    assert caller.received() == [error(1, CANCELED, text)]
    assert world.left_over() == []


# KEEPALIVE


@pytest.mark.parametrize("data", [b"", b"x", bytes(4096)])
def test_a_keepalive_is_echoed_without_its_flag(data: bytes) -> None:
    wire = World().caller()
    wire.send(encode_keepalive(data, respond=True, position=77))
    assert wire.received() == [Frame(encode_keepalive(data))]


def test_a_keepalive_that_asks_for_nothing_gets_nothing() -> None:
    wire = World().caller()
    wire.send(encode_keepalive(b"x"))
    assert wire.received() == []


def test_silence_longer_than_the_lifetime_ends_the_connection() -> None:
    world = World()
    service = world.service("orders", 1)
    world.advance(89.9)
    assert not service.is_closed
    world.advance(0.1)
    text = "keepalive-timeout: nothing arrived for 90.0 s, the SETUP promised 90.0 s"
    assert service.received() == [error(0, CONNECTION_ERROR, text)]
    assert (service.is_closed, names(world)) == (True, [])


def test_anything_that_arrives_proves_life() -> None:
    world = World()
    wire = world.caller()
    for raw in (encode_keepalive(b"", True), encode_cancel(7), raw_frame(LEASE)):
        world.advance(80)
        wire.send(raw)
    world.advance(80)
    wire.send_bytes(b"\x00")  # not even a frame
    world.advance(89)
    assert not wire.is_closed
    world.advance(1)
    assert wire.is_closed


def test_the_silence_of_a_peer_whose_frames_wait_in_the_broker_is_not_its_own() -> None:
    """It is not read from meanwhile; from then on its lifetime counts."""
    world = World()
    wire = world.caller()
    raw = encode_keepalive(b"")
    assert world.core.receive(wire.peer, (len(raw).to_bytes(3, "big") + raw) * 3, world.now, 1)
    world.advance(1000)
    assert world.core.go_on(wire.peer, world.now, 1)
    world.advance(1000)
    assert not world.core.go_on(wire.peer, world.now, 1)
    world.advance(89)
    assert not wire.is_closed
    world.advance(1)
    assert wire.is_closed


def test_the_silence_of_a_peer_that_waits_for_its_multicast_is_not_its_own() -> None:
    world = World()
    for number in range(1, MAX_BRANCHES_PER_TURN + 102):
        world.service("many", number)
    wire = world.caller()
    raw = encode_request(REQUEST_STREAM, 1, b"hi", addressed(address(MULTICAST, service="many")), 1)
    assert world.core.receive(wire.peer, len(raw).to_bytes(3, "big") + raw, world.now)
    world.now += 1000
    world.core.tick(world.now, world.at_ms)
    assert not wire.peer.is_ending
    wire.work_off()
    world.advance(89)
    assert not wire.is_closed
    world.advance(1)
    assert wire.is_closed


def test_a_lifetime_shorter_than_the_keepalive_interval_gets_one_interval_more() -> None:
    world = World()
    wire = world.connect()
    wire.send(Setup(COMPOSITE_MIME, "a/b", 10_000, 1_000).encode())
    world.advance(10.9)
    assert not wire.is_closed
    world.advance(0.2)
    assert wire.is_closed


def test_a_lifetime_shorter_than_the_time_for_the_setup_is_kept() -> None:
    world = World()
    wire = world.connect()
    wire.send(Setup(COMPOSITE_MIME, "a/b", 100, 300).encode())
    world.advance(0.31)
    assert wire.is_closed


@given(
    started=st.floats(0.0, 1e7),
    lifetime_ms=st.integers(1, 10_000),
    heard=st.lists(st.floats(0.0, 1.0), max_size=5),
)
@settings(max_examples=300, deadline=None)
def test_the_clock_never_stands_still(started: float, lifetime_ms: int, heard: list[float]) -> None:
    """A tick at the very moment of a deadline ends, however the sums of seconds are rounded."""
    world = World()
    world.now = started
    world.core.tick(started, START_MS)
    wire = world.connect()
    wire.send(Setup(COMPOSITE_MIME, "a/b", 1, lifetime_ms).encode())
    for part in heard:
        world.now += lifetime_ms / 1000 * part
        wire.send(raw_frame(LEASE))
    deadlines = 0
    while not wire.is_closed:
        world.now = world.core.next_deadline()
        world.core.tick(world.now, world.at_ms)
        world.pump()
        deadlines += 1
        assert deadlines < 100
    assert wire.received()[-1].text.startswith("keepalive-timeout: ")


def test_a_connection_without_a_setup_is_ended_in_time() -> None:
    world = World()
    wires = [world.connect(framed) for framed in (True, False)]
    wires[0].send_bytes(b"\x00\x00")  # not whole
    world.advance(1.9)
    assert not wires[0].is_closed
    world.advance(0.1)
    for wire in wires:
        assert wire.received() == [error(0, INVALID_SETUP, "setup-timeout: no SETUP within 2.0 s")]
        assert wire.is_closed


def test_a_connection_is_looked_at_once_and_not_more_and_more_often() -> None:
    world = World()
    wire = world.caller()
    for _ in range(50):
        world.advance(60)
        wire.send(encode_keepalive(b"", True))
    assert world.core._deadlines.size() == 1


def test_connections_that_came_and_went_are_forgotten_before_their_lifetime_is_over() -> None:
    world = World()
    for _ in range(1000):
        wire = world.connect()
        wire.send(Setup(COMPOSITE_MIME, "a/b", 0x7FFFFFFF, 0x7FFFFFFF).encode())
        wire.lose()
    assert world.core._deadlines.size() < 100
    late = world.connect()
    world.advance(2)
    assert late.is_closed


# ROUTE_SETUP


@pytest.mark.parametrize("mime", [COMPOSITE_MIME, MIME_TYPE, MIME_TYPE_V0])
@pytest.mark.parametrize("framed", [True, False])
def test_a_setup_may_announce_a_route(mime: str, framed: bool) -> None:
    world = World()
    world.service("orders", 1, framed, mime, region="eu")
    (route,) = world.core.table.routes()
    assert (route.id, route.service) == (route_id(1), "orders")
    assert [(tag.key.short_name, tag.value) for tag in route.tags] == [
        ("region", "eu"),
        ("service", "orders"),
        ("route_id", "00000000-0000-0000-0000-000000000001"),
    ]


def test_a_route_in_the_composite_entry_of_the_other_mime_type_counts() -> None:
    world = World()
    raw = RouteSetup(route_id(1), "orders", []).encode()
    metadata = composite(("text/plain", b"before"), (MIME_TYPE_V0, raw), ("text/plain", b"behind"))
    world.connect().send(Setup(COMPOSITE_MIME, "a/b", 5, 5, metadata).encode())
    assert names(world) == [["orders"]]


@pytest.mark.parametrize("has_m_flag", [True, False])
def test_a_route_may_be_announced_by_a_later_push(has_m_flag: bool) -> None:
    world = World()
    wire = world.caller()
    metadata = composite((MIME_TYPE, RouteSetup(route_id(1), "orders", tags_of({"region": "eu"})).encode()))
    raw = encode_metadata_push(metadata)
    wire.send(raw if has_m_flag else raw[:4] + b"\x30\x00" + raw[6:])
    assert names(world) == [["orders", "eu"]]
    caller = world.caller()
    request = caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu"))
    assert wire.received() == [moved(request, 2)]


def test_a_push_of_plain_metadata_may_announce_a_route() -> None:
    world = World()
    world.caller(metadata_mime=MIME_TYPE).push(RouteSetup(route_id(1), "orders", []).encode())
    assert names(world) == [["orders"]]


def test_a_connection_may_change_the_tags_of_its_route() -> None:
    world = World()
    service = world.service("orders", 1, region="eu")
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu"))
    service.push(composite((MIME_TYPE, RouteSetup(route_id(1), "orders", tags_of({"region": "us"})).encode())))
    assert names(world) == [["orders", "us"]]
    service.received()
    service.answer(2, b"what ran goes on")
    assert [frame.data for frame in caller.received()] == [b"what ran goes on"]
    caller.request(REQUEST_RESPONSE, 3, address(service="orders", region="eu"))
    assert [frame.code for frame in caller.received()] == [REJECTED]
    request = caller.request(REQUEST_FNF, 5, address(service="orders", region="us"))
    assert service.received() == [moved(request, 4)]
    (route,) = world.core.table.routes()
    assert route.load.requests == 2
    assert world.left_over() == []


def test_a_changed_route_is_newer_than_it_was_even_when_the_clock_went_back() -> None:
    world = World()
    service = world.service("orders", 1)
    first = world.core.table.routes()[0].timestamp_ms
    world.core.tick(world.now, START_MS - 5000)
    service.push(composite((MIME_TYPE, RouteSetup(route_id(1), "orders", []).encode())))
    assert world.core.table.routes()[0].timestamp_ms == first + 1


def test_a_connection_may_change_the_id_of_its_route() -> None:
    world = World()
    service = world.service("orders", 1)
    service.push(composite((MIME_TYPE, RouteSetup(route_id(2), "stock", []).encode())))
    assert names(world) == [["stock"]]
    assert world.core.table.find(route_id(1)) is None


def test_a_connection_that_takes_the_route_id_of_another_ends_it() -> None:
    world = World()
    one = world.service("orders", 1)
    two = world.service("stock", 2)
    two.push(composite((MIME_TYPE, RouteSetup(route_id(1), "stock", []).encode())))
    assert (one.is_closed, two.is_closed, names(world)) == (True, False, [["stock"]])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            b"\x00\x05" + RouteSetup(route_id(1), "o", []).encode()[2:],
            "bad-route: version 5.1 is not spoken here, 0.1 is",
        ),
        (b"\x00\x00\x00\x01\x04\x00", "bad-route: ROUTE_SETUP route id: needs 16 bytes, 0 are there"),
        (
            RouteSetup(route_id(1), "o", tags_of({f"t{number}": "x" for number in range(4)})).encode(),
            "bad-route: 4 tags, limits.max_tags_per_route is 3",
        ),
        (
            Address(route_id(1), tags_of({"service": "x"})).encode(),
            "bad-route: an ADDRESS belongs to a request, a SETUP carries a ROUTE_SETUP",
        ),
        (
            BrokerInfo(route_id(1), 1, []).encode(),
            "no-cluster: this broker is in no cluster: it has no secret (cluster.secret) by which brokers know each "
            "other",
        ),
    ],
)
def test_a_route_that_cannot_be_is_refused_with_the_setup(raw: bytes, text: str) -> None:
    world = World(CoreSettings(max_tags_per_route=3))
    wire = world.connect()
    wire.send(Setup(COMPOSITE_MIME, "a/b", 5, 5, composite((MIME_TYPE, raw))).encode())
    (frame,) = wire.received()
    word = text.split(",")[0]
    assert (frame.stream_id, frame.code, frame.text[: len(word)]) == (0, REJECTED_SETUP, word)
    assert (wire.is_closed, names(world)) == (True, [])


@pytest.mark.parametrize("is_later", [False, True])
def test_the_last_of_several_route_setups_counts(is_later: bool) -> None:
    """D-69."""
    world = World()
    setups = [RouteSetup(route_id(1), name, []).encode() for name in ("orders", "stock")]
    metadata = composite((MIME_TYPE, setups[0]), ("text/plain", b"x"), (MIME_TYPE_V0, setups[1]))
    wire = world.connect()
    wire.send(Setup(COMPOSITE_MIME, "a/b", 20_000, 90_000, None if is_later else metadata).encode())
    if is_later:
        wire.push(metadata)
    assert (wire.is_closed, names(world)) == (False, [["stock"]])


def test_a_route_that_cannot_be_is_a_connection_error_when_it_comes_later() -> None:
    """Protocol: a client MUST ignore an ERROR[… REJECTED_SETUP …] after it has completed connection establishment."""
    world = World(CoreSettings(max_tags_per_route=3))
    service = world.service("orders", 1)
    setup = RouteSetup(route_id(1), "orders", tags_of({f"t{number}": "x" for number in range(4)}))
    service.push(composite((MIME_TYPE, setup.encode())))
    assert service.received() == [error(0, CONNECTION_ERROR, "bad-route: 4 tags, limits.max_tags_per_route is 3")]
    assert (service.is_closed, names(world)) == (True, [])


def test_as_many_tags_as_the_limit_says_are_taken() -> None:
    world = World(CoreSettings(max_tags_per_route=3))
    world.service("orders", 1, a="1", b="2", c="3")
    assert names(world) == [["orders", "1", "2", "3"]]


def test_composite_metadata_of_a_setup_that_breaks_off_is_refused() -> None:
    wire = World().connect()
    wire.send(Setup(COMPOSITE_MIME, "a/b", 5, 5, composite((MIME_TYPE, b"abc"))[:-1]).encode())
    text = "bad-route: the composite metadata of the SETUP breaks off"
    assert wire.received() == [error(0, REJECTED_SETUP, text)]


@pytest.mark.parametrize("metadata", [None, b"", composite(("text/plain", b"hello"))])
def test_a_connection_without_a_route_is_a_caller(metadata: bytes | None) -> None:
    world = World()
    wire = world.connect()
    wire.send(Setup(COMPOSITE_MIME, "a/b", 5, 5, metadata).encode())
    assert (wire.is_closed, names(world), wire.peer.route) == (False, [], None)


def test_metadata_of_another_mime_type_is_nobodys_business() -> None:
    world = World()
    wire = world.connect()
    wire.send(Setup("application/json", "a/b", 5, 5, b"{}").encode())
    assert (wire.is_closed, names(world)) == (False, [])


# D-09: the same Route Id again


def test_the_same_route_id_again_ends_the_first_connection_and_takes_its_place() -> None:
    world = World()
    first = world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    first.received()
    second = world.service("orders", 1, region="eu")
    text = "replaced: another connection came with the Route Id 00000000-0000-0000-0000-000000000001"
    assert first.received() == [error(0, CONNECTION_CLOSE, text)]
    assert first.is_closed
    lost = "route-lost: the connection of orders went away before the request ended"
    assert caller.received() == [error(1, CANCELED, lost)]
    assert names(world) == [["orders", "eu"]]
    request = caller.request(REQUEST_RESPONSE, 3, ORDERS)
    assert second.received() == [moved(request, 2)]


def test_the_late_loss_of_a_replaced_connection_does_not_remove_the_new_route() -> None:
    world = World()
    first = world.service("orders", 1)
    second = world.service("orders", 1)
    first.lose()
    caller = world.caller()
    request = caller.request(REQUEST_RESPONSE, 1, ORDERS)
    assert second.received() == [moved(request, 2)]


def test_a_replaced_connection_that_still_sends_is_not_heard() -> None:
    world = World()
    first = world.service("orders", 1)
    second = world.service("orders", 1)
    first.received()
    first.request(REQUEST_FNF, 1, ORDERS)
    first.push(composite((MIME_TYPE, RouteSetup(route_id(1), "orders", []).encode())))
    assert (first.received(), second.received(), second.is_closed) == ([], [], False)


# Losses, ends, limits


def test_a_lost_connection_takes_its_route_and_its_streams_along() -> None:
    world = World()
    both = world.service("orders", 1)
    other = world.service("stock", 2)
    both.request(REQUEST_STREAM, 1, address(service="stock"))
    other.request(REQUEST_STREAM, 1, ORDERS)
    both.lose()
    assert names(world) == [["stock"]]
    assert [frame for frame in other.received() if frame.kind == CANCEL] == [cancelled(2)]
    assert world.left_over() == []
    assert [peer.id for peer in world.core.peers()] == [other.peer.id]


def test_a_connection_may_be_lost_twice() -> None:
    world = World()
    wire = world.service("orders", 1)
    wire.lose()
    wire.lose()
    wire.send(encode_keepalive(b"", True))
    world.core.end(wire.peer, "closed-by-operator", "late", world.now)
    assert (world.core.peers(), world.core.take_writes()) == ([], [])


def test_an_operator_may_end_a_connection() -> None:
    world = World()
    service = world.service("orders", 1)
    world.core.end(service.peer, "closed-by-operator", "enough", world.now)
    world.pump()
    assert service.received() == [error(0, CONNECTION_CLOSE, "closed-by-operator: enough")]
    assert (service.is_closed, names(world)) == (True, [])


def test_connections_beyond_the_limit_are_refused() -> None:
    world = World(CoreSettings(max_connections=2))
    one, two, three = world.caller(), world.connect(), world.connect()
    text = "over-limit: 2 connections are open, limits.max_connections is 2"
    assert (one.is_closed, two.is_closed, three.is_closed) == (False, False, True)
    assert three.received() == [error(0, REJECTED_SETUP, text)]
    three.lose()
    one.lose()
    assert not world.caller().is_closed


def test_a_stopped_broker_says_good_bye_to_all() -> None:
    world = World()
    wires = [world.service("orders", 1), world.caller(False), world.connect()]
    wires[1].request(REQUEST_STREAM, 1, ORDERS)
    wires[0].received()
    world.core.stop("maintenance", world.now)
    world.pump()
    good_bye = error(0, CONNECTION_CLOSE, "broker-stopped: maintenance")
    assert [wire.received()[-1] for wire in wires] == [good_bye] * 3
    assert all(wire.is_closed for wire in wires)
    assert world.left_over() == []
    assert names(world) == []


def test_the_closed_connections_that_are_remembered_are_bounded() -> None:
    world = World()
    for _ in range(MAX_CLOSED + 50):
        world.connect().lose()
    assert MAX_CLOSED * 0.9 <= len(world.core.closed) <= MAX_CLOSED
    assert world.core.closed[-1].id == MAX_CLOSED + 50


def test_a_closed_connection_is_remembered_with_its_reason_and_its_route() -> None:
    world = World()
    service = world.service("orders", 1)
    world.advance(3)
    service.lose()
    (closed,) = world.core.closed
    assert (
        closed.name,
        closed.reason,
        closed.detail,
        closed.service,
        closed.route_id,
        closed.connected_at_ms,
        closed.closed_at_ms,
        closed.bytes_in,
        closed.bytes_out,
    ) == (
        "tcp 127.0.0.1:1",
        "left",
        "connection reset",
        "orders",
        "00000000-0000-0000-0000-000000000001",
        START_MS,
        START_MS + 3000,
        service.peer.bytes_in,
        0,
    )


def test_all_writes_of_a_turn_come_together() -> None:
    world = World()
    service = world.service("orders", 1)
    wire: Wire = world.caller()
    for number in range(3):
        raw = encode_request(REQUEST_FNF, number * 2 + 1, b"x", addressed(ORDERS))
        world.core.receive(wire.peer, len(raw).to_bytes(3, "big") + raw, world.now)
    assert world.core.has_writes()
    assert world.core.take_writes() == [service.peer]
    assert not world.core.has_writes()
    assert len(service.peer.take_output()) == 1  # one piece: three frames with their lengths
    assert world.core.take_writes() == []
