"""How many connections there may be, of one origin and in all, and how much may wait for them."""

from itertools import pairwise

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_SETUP
from rsocket_wire.rsocket import frames
from rsocket_wire.wire.frames import MULTICAST
from tests.fakes import Frame, Wire, World, address, addressed, error, framed, setup

# Where connections come from


def connect(world: World, address: str = "", principal: str = "") -> Wire:
    return world.connect(origin=(address, principal))


def refused(text: str) -> list[Frame]:
    return [error(0, REJECTED_SETUP, f"over-limit: {text}")]


def test_connections_of_one_address_are_counted_until_they_are_lost() -> None:
    world = World(CoreSettings(max_connections_per_address=2))
    first, second, third = (connect(world, "10.0.0.4") for _ in range(3))
    other = connect(world, "10.0.0.5")
    text = "2 connections of this address are open, limits.max_connections_per_address is 2"
    assert third.received() == refused(text)
    assert third.is_closed
    assert (first.received(), second.received(), other.received()) == ([], [], [])
    third.lose()
    first.lose()
    assert connect(world, "10.0.0.4").received() == []
    assert connect(world, "10.0.0.4").is_closed


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_address", "max_connections_per_principal"])
def test_who_was_let_in_keeps_its_place_while_others_are_refused(limit: str) -> None:
    """The refused ones still have a transport, which is to be closed, when its SETUP comes."""
    world = World(CoreSettings(**{limit: 1}))  # type: ignore[arg-type]
    first, *others = (connect(world, "10.0.0.4", "uid 7") for _ in range(3))
    assert [wire.is_closed for wire in others] == [True, True]
    first.send(setup(), frames.encode_keepalive(b"", respond=True))
    assert first.received() == [Frame(frames.encode_keepalive(b""))]


def test_connections_of_one_principal_are_counted_wherever_they_come_from() -> None:
    world = World(CoreSettings(max_connections_per_principal=1))
    connect(world, "10.0.0.4", "commonName=orders")
    surplus = connect(world, "10.0.0.5", "commonName=orders")
    text = "1 connections of commonName=orders are open, limits.max_connections_per_principal is 1"
    assert surplus.received() == refused(text)
    assert connect(world, "10.0.0.5", "commonName=billing").received() == []
    assert connect(world, "10.0.0.5").received() == []


def test_connections_from_nowhere_have_no_bound_but_that_of_all() -> None:
    world = World(CoreSettings(max_connections=3, max_connections_per_address=1, max_connections_per_principal=1))
    first, *others = (connect(world) for _ in range(3))
    assert [wire.received() for wire in (first, *others)] == [[], [], []]
    surplus = connect(world)
    assert surplus.received() == refused("3 connections are open, limits.max_connections is 3")
    for wire in (surplus, first):
        wire.lose()
    assert not connect(world).is_closed


def test_origins_of_lost_connections_are_forgotten() -> None:
    world = World(CoreSettings(max_connections=1))
    for number in range(100):
        connect(world, f"10.0.0.{number}", f"uid {number}").lose()
    assert world.core.lifecycle.limits.origins() == (0, 0)


# What waits, of all connections together


def half_a_frame(size: int) -> bytes:
    """`size` bytes of a frame that is never whole."""
    return (0x800000).to_bytes(3, "big") + bytes(size - 3)


def weighed(world: World) -> list[Wire]:
    """Who is closed because of what waits."""
    given = [world.wires[peer.id] for peer in world.core.lifecycle.weigh(world.now)]
    world.pump()
    return given


def test_at_the_bound_of_all_bytes_nobody_is_ended_and_beyond_it_who_holds_most() -> None:
    world = World(CoreSettings(max_buffered_bytes=1000))
    wires = [world.caller() for _ in range(4)]
    for wire, size in zip(wires, (100, 200, 300, 400), strict=True):
        wire.send_bytes(half_a_frame(size))
    assert weighed(world) == []
    assert world.core.lifecycle.limits.buffered_bytes == 1000
    wires[0].send_bytes(b"x")
    assert weighed(world) == [wires[3]]
    text = "over-limit: 1001 bytes wait in the broker, 400 of them for this connection, the limit is 1000"
    text += " (limits.max_buffered_bytes)"
    assert wires[3].received() == [error(0, CONNECTION_ERROR, text)]
    assert weighed(world) == []
    assert world.core.lifecycle.limits.buffered_bytes == 601
    assert [wire.is_closed for wire in wires] == [False, False, False, True]


@pytest.mark.parametrize("parts", [1, 2, 3, 20])
def test_part_by_part_the_weight_is_the_same_and_told_after_the_last_one(parts: int) -> None:
    world = World(CoreSettings(max_buffered_bytes=1499))
    wires = [world.caller() for _ in range(5)]
    for wire, size in zip(wires, (100, 200, 300, 400, 500), strict=True):
        wire.send_bytes(half_a_frame(size))
    told: list[bool] = []
    while not told or (world.core.lifecycle.limits.buffered_bytes == 0 and len(told) < 50):
        told.append(world.core.lifecycle.limits.weigh_part(parts))
    assert (told, world.core.lifecycle.limits.buffered_bytes) == ([False] * (len(told) - 1) + [True], 1500)
    assert len(told) <= parts
    wires[4].lose()
    again = [world.core.lifecycle.limits.weigh_part(parts) for _ in range(len(told) + 1)]
    assert (any(again), world.core.lifecycle.limits.buffered_bytes) == (False, 1000)


def test_as_many_are_ended_as_it_takes() -> None:
    world = World(CoreSettings(max_buffered_bytes=100))
    wires = [world.caller() for _ in range(5)]
    for wire, size in zip(wires, (40, 80, 60, 90, 50), strict=True):
        wire.send_bytes(half_a_frame(size))
    assert weighed(world) == [wires[3], wires[1], wires[2]]
    assert world.core.lifecycle.limits.closed.by_reason == {"over-limit": 3}


def test_all_that_waits_because_of_a_connection_is_weighed_and_given_back() -> None:
    """A request without its ADDRESS, items of a multicast, a part of a frame, bytes that the system has not taken."""
    world = World()
    services = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    peer = caller.peer
    weights = [peer.buffered_bytes]
    metadata = addressed(address(service="orders"))
    caller.send(frames.encode_request(frames.REQUEST_RESPONSE, 1, b"", metadata[:9], 0, frames.FOLLOWS))
    weights.append(peer.buffered_bytes)
    caller.request(frames.REQUEST_STREAM, 3, address(MULTICAST, service="orders"), n=1)
    for service in services:
        service.answer(service.received()[0].stream_id, bytes(500), frames.NEXT)
    weights.append(peer.buffered_bytes)
    caller.send_bytes(half_a_frame(50))
    weights.append(peer.buffered_bytes)
    peer.unsent_bytes = 77  # as the edge tells it
    weights.append(peer.buffered_bytes)
    grown = [after - before for before, after in pairwise(weights)]
    assert (weights[0], grown[0], grown[2:]) == (0, 6 + 3 + 9, [50, 77])
    assert 500 < grown[1] < 1000  # one item, with what a frame costs beside it
    caller.lose()
    assert peer.buffered_bytes == 0
    assert world.left_over() == []


def test_what_is_ended_for_memory_writes_only_why() -> None:
    """Its output is part of what is too much."""
    world = World(CoreSettings(max_buffered_bytes=10))
    caller = world.caller()
    raw = frames.encode_keepalive(bytes(1000), respond=True)
    world.core.receive(caller.peer, framed(raw), world.now)
    assert weighed(world) == [caller]
    assert [frame.name for frame in caller.received()] == ["ERROR"]


def test_a_connection_that_is_ending_is_closed_rather_than_another_ended() -> None:
    world = World(CoreSettings(max_buffered_bytes=100))
    ending, other = world.caller(), world.caller()
    other.send_bytes(half_a_frame(60))
    world.core.end(ending.peer, "closed-by-operator", "enough", world.now)
    world.pump()
    ending.peer.unsent_bytes = 70
    assert weighed(world) == [ending]
    assert not other.is_closed
