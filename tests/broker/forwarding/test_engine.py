"""Requests before they have a route: limits, frames that break the protocol, draining."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_ERROR, INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MULTICAST
from tests.broker.forwarding.pairs import ANSWERED, MODELS, Pair
from tests.fakes import World, address, addressed, error, fragments, moved

ORDERS = address(service="orders")


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_an_initial_credit_of_0_is_invalid(kind: int) -> None:
    pair = Pair()
    pair.caller.request(kind, 1, ORDERS, n=0)
    assert pair.received() == ([error(1, INVALID, "bad-request: the initial request n is 0, it must be over 0")], [])


@pytest.mark.parametrize("kind", MODELS)
def test_metadata_longer_than_its_frame_ends_the_connection(kind: int) -> None:
    """Protocol: if Metadata Length is not equal to this value, … MUST send an ERROR[CONNECTION_ERROR] … and close."""
    pair = Pair()
    pair.open(REQUEST_RESPONSE)
    pair.service.answer(2, b"")
    pair.received()
    raw = frames.encode_request(kind, 3, b"", addressed(ORDERS))[:-1]
    pair.caller.send(raw)
    text = f"bad-frame: a request of {len(raw)} bytes on stream 3 declares more metadata than it has"
    assert pair.received() == ([error(0, CONNECTION_ERROR, text)], [])
    assert pair.caller.is_closed


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("size", [6, 7, 8, 9, 10, 11, 12])
def test_a_request_too_short_for_its_own_fields_ends_the_connection(kind: int, size: int) -> None:
    pair = Pair()
    pair.caller.send(frames.encode_request(kind, 3, b"", addressed(ORDERS))[:size])
    (frame,) = pair.caller.received()
    assert (frame.stream_id, frame.code, frame.text.split(":")[0]) == (0, CONNECTION_ERROR, "bad-frame")
    assert pair.caller.is_closed


@pytest.mark.parametrize("kind", MODELS)
def test_a_frame_that_may_be_ignored_is_ignored_when_its_metadata_is_too_long(kind: int) -> None:
    """Protocol: … unless the frame's IGNORE flag is set."""
    pair = Pair()
    pair.caller.send(frames.encode_request(kind, 3, b"", addressed(ORDERS), 8, frames.IGNORE)[:-1])
    assert pair.received() == ([], [])
    assert pair.world.core.engine.ignored == 1
    assert not pair.caller.is_closed


@pytest.mark.parametrize("kind", ANSWERED)
def test_the_streams_of_a_connection_are_limited_and_free_again_when_they_end(kind: int) -> None:
    pair = Pair(settings=CoreSettings(max_streams_per_connection=2))
    for stream_id in (1, 3, 5):
        pair.caller.request(kind, stream_id, ORDERS)
    text = "over-limit: 2 streams of this connection are open, limits.max_streams_per_connection is 2"
    assert pair.caller.received() == [error(5, REJECTED, text)]
    assert [frame.stream_id for frame in pair.service.received()] == [2, 4]
    pair.service.fail(2, 0x201, "done")
    raw = pair.caller.request(kind, 7, ORDERS)
    assert pair.service.received() == [moved(raw, 6)]


def test_streams_towards_a_connection_do_not_count_against_its_limit() -> None:
    pair = Pair(settings=CoreSettings(max_streams_per_connection=1))
    pair.open(REQUEST_RESPONSE)
    other = pair.world.caller()
    other.request(REQUEST_RESPONSE, 1, ORDERS)
    raw = pair.service.request(REQUEST_RESPONSE, 1, ORDERS)
    assert pair.service.received()[-1] == moved(raw, 6)


def test_a_multicast_is_one_stream_of_its_caller() -> None:
    world = World(CoreSettings(max_streams_per_connection=1))
    for number in (1, 2, 3):
        world.service("orders", number)
    caller = world.caller()
    caller.request(REQUEST_STREAM, 1, address(MULTICAST, service="orders"))
    assert caller.peer.begun == 1
    caller.request(REQUEST_STREAM, 3, address(MULTICAST, service="orders"))
    text = "over-limit: 1 streams of this connection are open, limits.max_streams_per_connection is 1"
    assert caller.received() == [error(3, REJECTED, text)]


def test_fragments_of_a_refused_request_are_ignored() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_RESPONSE, 1, addressed(address(service="stock")), b"0123456789", [90, 95])
    pair.caller.send(*pieces)
    assert pair.received() == ([error(1, REJECTED, "no-route: no route has service=stock")], [])
    assert pair.world.core.engine.ignored == 2


def test_fragments_of_a_request_without_metadata_cannot_bring_it_later() -> None:
    """Protocol: the Metadata MUST be transmitted completely before the Data; a first frame without has none."""
    pair = Pair()
    pair.caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"data", None, 0, FOLLOWS))
    pair.caller.send(frames.encode_payload(1, NEXT, b"", addressed(ORDERS)))
    assert pair.received() == ([error(1, INVALID, "bad-address: the metadata of the request holds no ADDRESS")], [])


def test_requests_are_counted_at_their_caller_and_their_route() -> None:
    pair = Pair()
    for number in range(3):
        pair.caller.request(REQUEST_FNF, number * 2 + 1, ORDERS)
    (route,) = pair.world.core.table.routes()
    assert (pair.caller.peer.requests, route.load.requests, route.load.in_flight) == (3, 3, 0)
