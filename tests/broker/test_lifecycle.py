"""Frames on stream 0 that end a connection or are ignored; losses, ends, and what is remembered of them."""

import pytest

from rsocket_wire import errors
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import EXT, IGNORE, LEASE, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM, SETUP
from tests.fakes import START_MS, Wire, World, address, addressed, cancelled, error, framed, raw_frame, routes_in, setup

ORDERS = address(service="orders")
PLAIN_SETUP = setup()


@pytest.mark.parametrize(
    "raw",
    [
        raw_frame(LEASE, 0, bytes(8)),
        raw_frame(frames.RESUME_OK, 0, bytes(8)),
        raw_frame(frames.PAYLOAD, 0x20, b"x"),
        raw_frame(frames.CANCEL),
        raw_frame(frames.REQUEST_N, 0, bytes(4)),
        raw_frame(REQUEST_STREAM, 0, bytes(8)),
        raw_frame(SETUP),
        raw_frame(frames.KEEPALIVE),  # nothing to answer
        raw_frame(EXT, IGNORE, bytes(4)),
        raw_frame(0x1F, IGNORE),
        raw_frame(0, IGNORE),
        raw_frame(frames.KEEPALIVE, 0, bytes(8), 5),
        raw_frame(SETUP, 0, PLAIN_SETUP[6:], 5),
        raw_frame(LEASE, 0, bytes(8), 5),
        raw_frame(0x1F, IGNORE, b"", 5),
        raw_frame(EXT, IGNORE, bytes(4), 4),
        frames.encode_payload(7, 0x60, b"late"),
        frames.encode_payload(8, 0x60, b"late"),
        frames.encode_cancel(7),
        frames.encode_request_n(8, 3),
        frames.encode_error(7, 0x201, "late"),
        frames.encode_error(0, errors.INVALID_SETUP, "a server MUST ignore"),
        frames.encode_error(0, errors.UNSUPPORTED_SETUP, "it"),
        frames.encode_error(0, errors.REJECTED_SETUP, "it"),
        frames.encode_error(0, errors.REJECTED_RESUME, "it"),
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
@pytest.mark.parametrize(("kind", "name"), [(EXT, "EXT"), (0x0F, "type 0x0f"), (0, "type 0x00")])
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
    assert wire.received() == [error(0, errors.CONNECTION_ERROR, text)]
    assert wire.is_closed


@pytest.mark.parametrize("code", [errors.CONNECTION_ERROR, 0x201, 0x301, 0])
def test_an_error_of_the_peer_on_stream_0_ends_the_connection_without_an_answer(code: int) -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    service.received()
    service.send(frames.encode_error(0, code, "bye"))
    assert (service.received(), service.is_closed, routes_in(world)) == ([], True, [])
    text = "route-lost: the connection of orders went away before the request ended"
    assert caller.received() == [error(1, errors.CANCELED, text)]
    assert world.left_over() == []


def test_a_lost_connection_takes_its_route_and_its_streams_along() -> None:
    world = World()
    both = world.service("orders", 1)
    other = world.service("stock", 2)
    both.request(REQUEST_STREAM, 1, address(service="stock"))
    other.request(REQUEST_STREAM, 1, ORDERS)
    both.lose()
    assert routes_in(world) == [["stock"]]
    assert [frame for frame in other.received() if frame.kind == frames.CANCEL] == [cancelled(2)]
    assert world.left_over() == []
    assert [peer.id for peer in world.core.peers()] == [other.peer.id]


def test_a_connection_may_be_lost_twice() -> None:
    world = World()
    wire = world.service("orders", 1)
    wire.lose()
    wire.lose()
    wire.send(frames.encode_keepalive(b"", True))
    world.core.end(wire.peer, "closed-by-operator", "late", world.now)
    assert (world.core.peers(), world.core.take_writes()) == ([], [])


def test_an_operator_may_end_a_connection() -> None:
    world = World()
    service = world.service("orders", 1)
    world.core.end(service.peer, "closed-by-operator", "enough", world.now)
    world.pump()
    assert service.received() == [error(0, errors.CONNECTION_CLOSE, "closed-by-operator: enough")]
    assert (service.is_closed, routes_in(world)) == (True, [])


def test_a_stopped_broker_says_good_bye_to_all() -> None:
    world = World()
    wires = [world.service("orders", 1), world.caller(False), world.connect()]
    wires[1].request(REQUEST_STREAM, 1, ORDERS)
    wires[0].received()
    world.core.stop("maintenance", world.now)
    world.pump()
    good_bye = error(0, errors.CONNECTION_CLOSE, "broker-stopped: maintenance")
    assert [wire.received()[-1] for wire in wires] == [good_bye] * 3
    assert all(wire.is_closed for wire in wires)
    assert world.left_over() == []
    assert routes_in(world) == []


def test_a_closed_connection_is_remembered_with_its_reason_and_its_route() -> None:
    world = World()
    service = world.service("orders", 1)
    world.advance(3)
    service.lose()
    (closed,) = world.core.lifecycle.limits.closed.latest
    assert (closed.name, closed.reason, closed.detail) == ("tcp 127.0.0.1:1", "left", "connection reset")
    assert (closed.service, closed.route_id) == ("orders", "00000000-0000-0000-0000-000000000001")
    assert (closed.connected_at_ms, closed.closed_at_ms) == (START_MS, START_MS + 3000)
    assert (closed.bytes_in, closed.bytes_out) == (service.peer.bytes_in, 0)


def test_all_writes_of_a_turn_come_together() -> None:
    world = World()
    service = world.service("orders", 1)
    wire: Wire = world.caller()
    for number in range(3):
        raw = frames.encode_request(REQUEST_FNF, number * 2 + 1, b"x", addressed(ORDERS))
        world.core.receive(wire.peer, framed(raw), world.now)
    assert world.core.has_writes()
    assert world.core.take_writes() == [service.peer]
    assert not world.core.has_writes()
    assert len(service.peer.take_output()) == 1  # one piece: three frames with their lengths
    assert world.core.take_writes() == []
