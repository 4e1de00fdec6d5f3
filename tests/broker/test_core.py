"""What one peer does to others, to the clock and to memory: never more than its own end."""

import pytest

from broker.core import CoreSettings
from broker.events import FlowRecord, LifecycleEvent
from broker.forwarding.peer import MAX_SETUP_BYTES
from rsocket_wire.errors import CONNECTION_CLOSE, CONNECTION_ERROR, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST
from tests.fakes import World, address, addressed, cancelled, error, orders, route_id

ORDERS = address(service="orders")


def test_a_peer_that_says_connection_close_keeps_its_streams_and_loses_its_route() -> None:
    """CONNECTION_CLOSE: "MUST wait for outstanding streams to terminate before closing the connection"."""
    world, service, caller = orders()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    served = service.one().stream_id
    service.fail(0, CONNECTION_CLOSE, "going")
    caller.request(REQUEST_RESPONSE, 3, ORDERS)
    assert caller.one() == error(3, REJECTED, "no-route: no route has service=orders")
    service.answer(served, b"late")
    assert (caller.one().stream_id, caller.received()) == (1, [])
    assert not service.is_closed
    service.lose()
    assert world.core.peers() == [caller.peer]


def test_a_peer_without_streams_that_says_connection_close_is_closed() -> None:
    world = World()
    service = world.service("orders", 1)
    service.fail(0, CONNECTION_CLOSE, "going")
    assert service.is_closed


def test_a_stranger_cannot_make_the_broker_hold_more_than_a_setup() -> None:
    world = World()
    wire = world.connect()
    wire.send_bytes((MAX_SETUP_BYTES + 1).to_bytes(3, "big") + bytes(6))
    assert (wire.one().code, wire.is_closed) == (CONNECTION_ERROR, True)
    good = world.caller()
    good.send(frames.encode_keepalive(bytes(MAX_SETUP_BYTES), respond=True))
    assert len(good.one().raw) > MAX_SETUP_BYTES


def test_callers_that_feed_a_congested_service_are_not_read_from_until_it_is_relieved() -> None:
    world = World()
    service, other = world.service("orders", 1), world.service("carts", 2)
    caller, bystander = world.caller(), world.caller()
    world.core.congested(service.peer)
    bystander.request(REQUEST_RESPONSE, 1, address(service="carts"))
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    caller.request(REQUEST_RESPONSE, 3, ORDERS)
    assert [wire.is_paused for wire in (caller, bystander, service, other)] == [True, False, False, False]
    assert service.received() == []
    service.unblock()
    assert len(service.received()) == 2  # what was read is passed on
    assert not caller.is_paused
    assert (service.peer.paused_callers, caller.peer.paused_by) == ({}, {})


def test_callers_that_come_feed_and_go_leave_nothing_at_a_congested_service() -> None:
    world = World()
    service = world.service("orders", 1)
    world.core.congested(service.peer)
    for _ in range(100):
        caller = world.caller()
        caller.request(REQUEST_FNF, 1, ORDERS)
        assert caller.is_paused
        caller.lose()
    assert service.peer.paused_callers == {}


@pytest.mark.parametrize("is_lost", [False, True])
def test_nobody_is_held_up_for_what_a_service_lets_go_on(is_lost: bool) -> None:
    """A held item of the caller goes to the congested member when the slowest one asks for more, or is lost."""
    world = World()
    slow, honest, caller = world.service("orders", 1), world.service("orders", 2), world.caller()
    stranger = world.caller()
    caller.request(REQUEST_CHANNEL, 1, address(MULTICAST, service="orders"))
    slow.ask(2, 10)
    world.core.congested(slow.peer)
    caller.answer(1, b"early", NEXT)
    if is_lost:
        honest.lose()
    else:
        honest.ask(2, 10)
    assert not honest.is_paused
    stranger.send(frames.encode_keepalive(b"", True))
    assert not stranger.is_paused
    assert slow.peer.paused_callers == {}


def test_nobody_waits_for_a_peer_that_was_relieved_before_the_callers_bytes_were_looked_at() -> None:
    world = World(CoreSettings(no_route="wait"))
    service, caller, stranger = world.service("orders", 1), world.caller(), world.caller()
    world.core.lifecycle.drains.drain_route(route_id(1), 1, 1, False, world.now)
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    world.core.congested(service.peer)
    world.core.lifecycle.drains.undrain_route(route_id(1), world.now)
    world.core.relieved(service.peer, world.now)
    stranger.send(frames.encode_keepalive(b"", True))
    assert (stranger.is_paused, caller.is_paused) == (False, False)


def test_a_caller_waits_for_all_congested_services_that_it_feeds() -> None:
    world = World()
    services = [world.service("orders", 1), world.service("carts", 2)]
    caller = world.caller()
    for service in services:
        world.core.congested(service.peer)
    caller.request(REQUEST_FNF, 1, ORDERS)
    caller.request(REQUEST_FNF, 3, address(service="carts"))
    world.core.relieved(services[0].peer, world.now)
    world.pump()
    assert caller.is_paused
    services[1].lose()
    assert not caller.is_paused


def test_a_service_is_not_held_up_by_a_caller_that_reads_slowly() -> None:
    world, service, caller = orders()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    world.core.congested(caller.peer)
    service.answer(service.one().stream_id, b"x")
    assert not service.is_paused


def test_a_peer_that_is_its_own_service_is_never_paused_by_itself() -> None:
    world = World()
    peer = world.service("orders", 1)
    world.core.congested(peer.peer)
    peer.request(REQUEST_FNF, 1, ORDERS)
    assert not peer.is_paused


@pytest.mark.parametrize("is_caller", [True, False])
@pytest.mark.parametrize(
    "broken",
    [b"\x29\x20\xff\xff\xff", b"\x29\x20", b"\x2c\x00", b"\x2c\x00\0\0\0"],
    ids=["length", "cut", "error", "code"],
)
def test_a_frame_that_would_break_the_other_peer_ends_its_sender_and_nobody_else(
    is_caller: bool, broken: bytes
) -> None:
    """PAYLOAD with more metadata than it has, ERROR without a code: they are never passed on."""
    world = World()
    service, caller, other = world.service("orders", 1), world.caller(), world.caller()
    for wire in (caller, other):
        wire.request(REQUEST_CHANNEL, 1, ORDERS)
    ids = [frame.stream_id for frame in service.received()]
    sender, receiver = (caller, service) if is_caller else (service, caller)
    stream_id = 1 if is_caller else ids[0]
    sender.send(stream_id.to_bytes(4, "big") + broken)
    assert sender.one().text.startswith("bad-frame: ")
    assert (sender.is_closed, receiver.is_closed, other.is_closed) == (True, False, False)
    if is_caller:
        assert receiver.received() == [cancelled(ids[0])]
        service.answer(ids[1], b"still here")
        assert other.one().data == b"still here"


def test_an_unsound_frame_that_may_be_ignored_is() -> None:
    _, service, caller = orders()
    caller.request(REQUEST_CHANNEL, 1, ORDERS)
    service.received()
    caller.send((1).to_bytes(4, "big") + b"\x2b\x20\xff\xff\xff")
    assert (service.received(), caller.received(), caller.is_closed) == ([], [], False)


def test_a_lost_peer_keeps_nothing_of_a_frame_that_was_cut() -> None:
    world = World()
    wire = world.caller()
    wire.send_bytes(b"\xff\xff\xff" + bytes(1 << 20))
    cursor = wire.peer.frame
    wire.lose()
    assert (cursor.data, cursor._parts) == (b"", [])


def test_an_address_that_fragmentation_cuts_is_not_taken_for_the_latest_one() -> None:
    """D-15: with an ADDRESS as the only metadata, the first fragment may be a whole, shorter ADDRESS."""
    world = World()
    europe = world.service("orders", 1, metadata_mime=MIME_TYPE, region="eu")
    world.service("orders", 2, metadata_mime=MIME_TYPE, region="us")
    caller = world.caller(metadata_mime=MIME_TYPE)
    short = b"\x00\x00\x1c\x01\x14\x80" + route_id(9) + b"\x81\x06orders"
    longer = short + b"\x86\x02eu"
    for number in range(6):
        caller.send(frames.encode_request(REQUEST_FNF, 4 * number + 1, b"", short))
        first = frames.encode_request(REQUEST_FNF, 4 * number + 3, b"", longer[: len(short)], flags=FOLLOWS)
        caller.send(first, frames.encode_payload(4 * number + 3, 0, b"x", longer[len(short) :]))
    found = [frame for frame in europe.received() if frame.flags & FOLLOWS]
    assert len(found) == 6


def test_a_clock_that_goes_back_gives_no_negative_times() -> None:
    world, service, caller = orders()
    caller.request(REQUEST_FNF, 1, ORDERS)
    world.now += 1.5
    world.core.tick(world.now, world.at_ms - 60_000)
    service.lose()
    world.core.stop("bye", world.now)
    for event in world.core.take_events():
        if isinstance(event, FlowRecord):
            assert event.interval_ms == 1500
        else:
            assert event.uptime_ms >= 0


@pytest.mark.parametrize("paused_s", [1.99, 79.99])
def test_a_caller_that_waits_is_not_silent_and_its_lifetime_begins_when_it_is_read_from_again(paused_s: float) -> None:
    world = World()
    service, caller = world.service("orders", 1), world.connect()
    caller.send(frames.Setup(COMPOSITE_MIME, "text/plain", 1000, 2000).encode())
    world.core.congested(service.peer)
    caller.request(REQUEST_FNF, 1, ORDERS)
    world.advance(paused_s)
    world.core.relieved(service.peer, world.now)
    world.advance(1.0)
    assert not caller.is_closed
    world.advance(1.1)
    assert caller.is_closed


def test_a_route_that_was_withdrawn_is_not_told_to_be_replaced() -> None:
    world, service, caller = orders()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    service.fail(0, CONNECTION_CLOSE, "going")
    service.announce(1, "orders")
    told = [event.name for event in world.core.take_events() if isinstance(event, LifecycleEvent)]
    assert told[-2:] == ["RouteLeft", "RouteJoined"]


@pytest.mark.parametrize("how", ["push", "multicast"])
def test_pushes_and_multicasts_hold_their_caller_back_too(how: str) -> None:
    world, service, caller = orders()
    world.core.congested(service.peer)
    if how == "push":
        caller.push(addressed(ORDERS))
    else:
        caller.request(REQUEST_STREAM, 1, address(MULTICAST, service="orders"))
    assert caller.is_paused
