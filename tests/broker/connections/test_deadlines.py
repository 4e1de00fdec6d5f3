"""Peers are looked at in time: KEEPALIVE, silence, a SETUP that does not come (D-43)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from rsocket_wire.errors import CONNECTION_ERROR, INVALID_SETUP
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MULTICAST
from tests.fakes import START_MS, Frame, World, address, addressed, error, framed, raw_frame, routes_in


def test_silence_longer_than_the_lifetime_ends_the_connection() -> None:
    world = World()
    service = world.service("orders", 1)
    world.advance(89.9)
    assert not service.is_closed
    world.advance(0.1)
    text = "keepalive-timeout: nothing arrived for 90.0 s, the SETUP promised 90.0 s"
    assert service.received() == [error(0, CONNECTION_ERROR, text)]
    assert (service.is_closed, routes_in(world)) == (True, [])


def test_anything_that_arrives_proves_life() -> None:
    world = World()
    wire = world.caller()
    for raw in (frames.encode_keepalive(b"", True), frames.encode_cancel(7), raw_frame(frames.LEASE)):
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
    raw = frames.encode_keepalive(b"")
    assert world.core.receive(wire.peer, framed(raw, raw, raw), world.now, 1)
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
    raw = frames.encode_request(frames.REQUEST_STREAM, 1, b"hi", addressed(address(MULTICAST, service="many")), 1)
    assert world.core.receive(wire.peer, framed(raw), world.now)
    world.now += 1000
    world.core.tick(world.now, world.at_ms)
    assert not wire.peer.is_ending
    wire.work_off()
    world.advance(89)
    assert not wire.is_closed
    world.advance(1)
    assert wire.is_closed


@pytest.mark.parametrize(
    ("keepalive_ms", "lifetime_ms", "silent_s", "why"),
    [
        (100, 300, 0.3, "the SETUP promised 0.3 s"),  # less than the time for the SETUP
        (10_000, 1_000, 11.0, "the SETUP promised 11.0 s"),  # one interval more
        (20_000, 3_600_000, 300.0, "the limit is 300.0 s"),  # D-43
        (200_000, 3_600_000, 400.0, "the limit is 400.0 s"),  # D-43: two intervals
    ],
)
def test_a_peer_may_be_silent_for_its_lifetime_within_bounds(
    keepalive_ms: int, lifetime_ms: int, silent_s: float, why: str
) -> None:
    world = World()
    wire = world.connect()
    wire.send(frames.Setup(COMPOSITE_MIME, "a/b", keepalive_ms, lifetime_ms).encode())
    for _ in range(3):
        world.advance(0.99 * silent_s)
        wire.send(frames.encode_keepalive(b"", respond=True))
    assert wire.received() == [Frame(frames.encode_keepalive(b""))] * 3
    world.advance(0.99 * silent_s)
    assert wire.received() == []
    world.advance(0.02 * silent_s)
    text = f"keepalive-timeout: nothing arrived for {silent_s:.1f} s, {why}"
    assert wire.received() == [error(0, CONNECTION_ERROR, text)]


@given(started=st.floats(0.0, 1e7), lifetime_ms=st.integers(1, 10_000), heard=st.lists(st.floats(0.0, 1.0), max_size=5))
@settings(max_examples=75, deadline=None)
def test_the_clock_never_stands_still(started: float, lifetime_ms: int, heard: list[float]) -> None:
    """A tick at the very moment of a deadline ends, however the sums of seconds are rounded."""
    world = World()
    world.now = started
    world.core.tick(started, START_MS)
    wire = world.connect()
    wire.send(frames.Setup(COMPOSITE_MIME, "a/b", 1, lifetime_ms).encode())
    for part in heard:
        world.now += lifetime_ms / 1000 * part
        wire.send(raw_frame(frames.LEASE))
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
        wire.send(frames.encode_keepalive(b"", True))
    assert world.core.lifecycle.deadlines.size() == 1


def test_connections_that_came_and_went_are_forgotten_before_their_lifetime_is_over() -> None:
    world = World()
    for _ in range(1000):
        wire = world.connect()
        wire.send(frames.Setup(COMPOSITE_MIME, "a/b", 0x7FFFFFFF, 0x7FFFFFFF).encode())
        wire.lose()
    assert world.core.lifecycle.deadlines.size() < 100
    late = world.connect()
    world.advance(2)
    assert late.is_closed
