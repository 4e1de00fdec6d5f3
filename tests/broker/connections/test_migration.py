"""Clients learn of other brokers, and go there before theirs leaves (D-54): what the broker does for it."""

import pytest

from broker.connections.migration import DIAL_S, MOVED_S, SETTLE_S, TELL_EVERY_S, TOLD_PER_TICK_N
from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_CLOSE, REJECTED_SETUP
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.notices import HAS_MOVED_ENTRY, MAX_NOTICE_URLS, MAY_BE_TOLD_ENTRY, Notice, find_notice
from rsocket_wire.wire.frames import BrokerInfo, decode_frame
from tests.fakes import Frame, Wire, World, address, announcement, error, route_id
from tests.topology import Net, line, linked, route_text, star

ORDERS = address(service="orders")
MOVED = frames.encode_metadata_push(HAS_MOVED_ENTRY)
WITHIN_S, GRACE_S = 4.0, 10.0
B2 = "tcp://b2.example:7878"


def client(world: World, number: int = 0, entry: bytes = MAY_BE_TOLD_ENTRY) -> Wire:
    """A client that may be told of other brokers; with a number it offers `orders`."""
    offer = announcement(number, "orders") if number else b""
    return world.caller(data_mime="a/b", metadata=offer + entry)


def told(wire: Wire) -> list[tuple[list[str], bool, int]]:
    """What the client was told since the last look, and it was told nothing else."""
    pushes = wire.received()
    assert [frame.kind for frame in pushes] == [frames.METADATA_PUSH] * len(pushes)
    notices = [find_notice(frame.raw[6:]) for frame in pushes]
    return [(each.urls, each.is_draining, each.move_within_ms) for each in notices if each is not None]


def leave(net: Net, name: str = "b1") -> World:
    """One of the brokers is about to go; its clients have been asked to move."""
    world = net.worlds[name]
    assert world.core.leave(WITHIN_S, GRACE_S, net.now)
    net.advance(0.1)
    return world


def welcomed(*numbers: int) -> tuple[Net, World, list[Wire]]:
    """Two brokers, the first one's world, and clients of that which were told of the other; see `client`."""
    net = linked(line(2))
    world = net.worlds["b1"]
    wires = [client(world, number) for number in numbers]
    net.advance(TELL_EVERY_S)
    assert [told(wire) for wire in wires] == [[([B2], False, 0)]] * len(wires)
    return net, world, wires


def test_a_client_is_told_of_the_other_brokers_after_its_setup() -> None:
    net = linked(line(3))
    wire = client(net.worlds["b2"])
    net.advance(TELL_EVERY_S)
    again = client(net.worlds["b2"])
    assert [told(wire), told(again)] == [[(["tcp://b1.example:7878", "tcp://b3.example:7878"], False, 0)]] * 2


def test_what_it_is_told_is_the_broker_info_of_its_own_broker() -> None:
    net = linked(line(2))
    wire = client(net.worlds["b1"])
    net.advance(TELL_EVERY_S)
    raw = wire.one().raw[6:]
    frame = decode_frame(raw[raw.index(b"forwarding") + 13 :])
    assert isinstance(frame, BrokerInfo)
    assert (frame.broker_id, [(tag.key.name, tag.value) for tag in frame.metadata]) == (
        net.worlds["b1"].core.broker_id,
        [("client-url", B2)],
    )


@pytest.mark.parametrize("entry", [b"", MAY_BE_TOLD_ENTRY[:-1] + b"\x02", MAY_BE_TOLD_ENTRY[:-1], HAS_MOVED_ENTRY])
def test_who_does_not_say_that_it_may_be_told_is_told_nothing(entry: bytes) -> None:
    net = linked(line(2))
    wire = client(net.worlds["b1"], entry=entry)
    net.advance(3 * TELL_EVERY_S)
    assert not net.worlds["b1"].core.leave(WITHIN_S, GRACE_S, net.now)
    net.advance(3 * TELL_EVERY_S)
    assert [frame for frame in wire.received() if frame.kind == frames.METADATA_PUSH] == []


def test_a_broker_that_is_alone_tells_nothing_and_its_clients_cannot_move() -> None:
    world = World()
    wire = client(world, 1)
    world.advance(3)
    assert not world.core.leave(WITHIN_S, GRACE_S, world.now)
    assert wire.received() == []


def test_clients_are_told_when_the_others_change_and_at_most_once_a_second() -> None:
    net = linked(line(3))
    wire = client(net.worlds["b1"])
    net.advance(TELL_EVERY_S)
    assert len(told(wire)) == 1
    net.kill("b3")
    net.advance(TELL_EVERY_S + 0.1)
    assert told(wire) == [([B2], False, 0)]
    for _ in range(4):
        net.start("b3")
        net.advance(0.2)
        net.kill("b3")
        net.advance(0.2)
    assert len(told(wire)) <= 2
    net.advance(10)
    told(wire)
    net.advance(10)
    assert told(wire) == []  # nothing has changed


def test_a_broker_that_leaves_is_no_place_to_go() -> None:
    net = linked(star(3))
    client(net.worlds["b2"])
    wire = client(net.worlds["b1"])
    net.advance(TELL_EVERY_S)
    told(wire)
    leave(net, "b2")
    net.advance(TELL_EVERY_S)
    assert told(wire) == [(["tcp://b3.example:7878"], False, 0)]


def test_more_clients_than_may_be_told_at_once_are_told_in_the_next_ticks() -> None:
    net = linked(line(2))
    world = net.worlds["b1"]
    wires = [client(world) for _ in range(TOLD_PER_TICK_N + 1)]
    world.core.lifecycle.migration.set_urls([B2], net.now)
    world.core.tick(net.now, world.at_ms)
    world.pump()
    assert sum(len(told(wire)) for wire in wires) == TOLD_PER_TICK_N
    assert world.core.next_deadline() <= net.now
    world.core.tick(net.now, world.at_ms)
    world.pump()
    assert sum(len(told(wire)) for wire in wires) == 1


def test_no_more_urls_are_told_than_a_client_takes() -> None:
    world = World()
    wire = client(world)
    world.core.lifecycle.migration.set_urls([f"tcp://h{number}:1" for number in range(MAX_NOTICE_URLS + 9)], world.now)
    world.core.lifecycle.migration.tick(world.now)
    world.pump()
    ((urls, _, _),) = told(wire)
    assert urls == [f"tcp://h{number}:1" for number in range(MAX_NOTICE_URLS)]


def test_a_url_that_no_tag_can_hold_is_left_out() -> None:
    read = find_notice(Notice(["tcp://" + "x" * 130, B2], False, 0).encode(route_id(1), 0)[6:])
    assert read is not None
    assert read.urls == [B2]


# Leaving


def test_clients_are_asked_to_move_and_served_until_they_have() -> None:
    net, world, (service, caller) = welcomed(1, 0)
    leave(net)
    assert [told(service), told(caller)] == [[([B2], True, 4000)]] * 2
    caller.request(frames.REQUEST_RESPONSE, 1, ORDERS)
    service.answer(service.one().stream_id, b"still here")
    assert caller.one().data == b"still here"
    newcomer = client(world)
    assert newcomer.received() == [error(0, REJECTED_SETUP, "draining: the broker takes no new connections")]
    assert not world.core.engine.is_draining
    net.advance(WITHIN_S + DIAL_S)
    assert world.core.engine.is_draining


def test_other_brokers_send_requests_to_its_routes_only_while_nobody_else_has_them() -> None:
    net, _, (old,) = welcomed(1)
    there = net.worlds["b2"]
    leave(net)
    told(old)
    caller = there.caller()
    caller.request(frames.REQUEST_FNF, 1, ORDERS)
    net.pump()
    assert old.one().kind == frames.REQUEST_FNF
    new = client(there, 2)
    for number in range(1, 5):
        caller.request(frames.REQUEST_FNF, 2 * number + 1, ORDERS)
    net.pump()
    assert [frame.kind for frame in new.received() if frame.kind != frames.METADATA_PUSH] == [frames.REQUEST_FNF] * 4
    assert old.received() == []


def moved_service() -> tuple[Net, Wire, Wire, Wire, Frame]:
    """A service that has connected to b2 too, while b1 leaves and a request of b1's caller runs on the old one."""
    net, here, (old,) = welcomed(1)
    caller = here.caller()
    caller.request(frames.REQUEST_RESPONSE, 1, ORDERS)
    asked = old.one()
    leave(net)
    assert told(old) == [([B2], True, 4000)]
    new = client(net.worlds["b2"], 1)
    net.pump()
    return net, old, new, caller, asked


def test_a_service_that_has_moved_leaves_the_table_at_once_and_its_connection_when_it_is_idle() -> None:
    net, old, new, caller, asked = moved_service()
    assert (net.table("b1"), net.table("b2")) == (dict.fromkeys(net.table("b2"), "b2"), net.table("b1"))
    caller.request(frames.REQUEST_FNF, 3, ORDERS)
    net.pump()
    assert [frame.kind for frame in new.received()] == [frames.REQUEST_FNF]
    old.send(MOVED)
    net.advance(MOVED_S + 1)
    assert (old.received(), old.is_closed) == ([], False)
    old.answer(asked.stream_id, b"done")
    net.advance(0.1)
    assert [frame.data for frame in caller.received()] == [b"done"]
    text = f"replaced: another connection came with the Route Id {route_text(1)} at the broker b2"
    assert old.received() == [error(0, CONNECTION_CLOSE, text)]
    assert old.is_closed
    assert not new.is_closed


def test_what_it_sends_before_it_says_that_it_has_moved_is_served() -> None:
    """Its new broker may be quicker than itself."""
    net, old, new, _, asked = moved_service()
    old.answer(asked.stream_id, b"done")
    net.advance(0.2)
    assert not old.is_closed  # idle, but it has not said so
    old.request(frames.REQUEST_RESPONSE, 1, ORDERS, b"own")
    net.pump()
    own = new.one()
    old.send(MOVED)
    net.advance(0.2)
    assert not old.is_closed
    new.answer(own.stream_id, b"mine")
    net.advance(0.1)
    assert old.received()[0].data == b"mine"
    assert old.is_closed


def test_who_never_says_that_it_has_moved_is_closed_in_a_while() -> None:
    net, old, _, _, asked = moved_service()
    old.answer(asked.stream_id, b"done")
    net.advance(MOVED_S - 0.2)
    assert not old.is_closed
    net.advance(0.4)
    assert old.is_closed


def test_at_the_end_of_the_grace_time_it_is_closed_whatever_runs() -> None:
    net, old, _, caller, _ = moved_service()
    old.send(MOVED)
    net.advance(GRACE_S - 0.2)
    assert not old.is_closed
    net.advance(0.4)
    assert old.is_closed
    assert [frame.text.partition(":")[0] for frame in caller.received()] == ["route-lost"]


def test_a_service_that_says_that_it_moved_before_its_new_broker_does_is_served_until_then() -> None:
    net, here, (old,) = welcomed(1)
    caller = here.caller()
    leave(net)
    told(old)
    old.send(MOVED)
    net.advance(0.5)
    caller.request(frames.REQUEST_RESPONSE, 1, ORDERS)
    asked = old.one()
    old.answer(asked.stream_id, b"still here")
    assert caller.one().data == b"still here"
    new = client(net.worlds["b2"], 1)
    net.advance(0.1)
    assert old.is_closed
    caller.request(frames.REQUEST_FNF, 3, ORDERS)
    net.pump()
    assert [frame.kind for frame in new.received()] == [frames.REQUEST_FNF]


def test_its_route_leaves_in_a_while_when_no_other_broker_has_it() -> None:
    net, _, (old,) = welcomed(1)
    leave(net)
    old.send(MOVED)
    net.advance(MOVED_S + 0.1)
    assert (net.tables(), old.is_closed) == ({"b1": {}, "b2": {}}, True)


def test_a_caller_that_has_moved_is_closed_when_its_requests_have_ended() -> None:
    net, world, (caller,) = welcomed(0)
    service = world.service("orders", 1)
    caller.request(frames.REQUEST_STREAM, 1, ORDERS)
    asked = service.one()
    leave(net)
    told(caller)
    caller.send(MOVED)
    service.answer(asked.stream_id, b"item", frames.NEXT)
    net.advance(1)
    assert ([frame.data for frame in caller.received()], caller.is_closed) == ([b"item"], False)
    service.answer(asked.stream_id, b"last", frames.NEXT | frames.COMPLETE)
    net.advance(0.1)
    text = "draining: it moved to another broker, as requested"
    last, end = caller.received()
    assert (last.data, end) == (b"last", error(0, CONNECTION_CLOSE, text))


def test_it_is_over_soon_after_the_last_client_has_moved() -> None:
    net, world, wires = welcomed(0, 0)
    leave(net)
    wires[0].send(MOVED)
    net.advance(1)
    assert not world.core.lifecycle.migration.is_over
    wires[1].lose()  # which is as good
    net.advance(SETTLE_S / 2)
    assert not world.core.engine.is_draining
    net.advance(SETTLE_S)
    assert (world.core.lifecycle.migration.is_over, world.core.engine.is_draining) == (True, True)


def test_the_word_of_who_was_not_asked_counts_for_nothing() -> None:
    net = linked(line(2))
    world = net.worlds["b1"]
    wire = client(world, entry=b"")
    ignored = world.core.engine.ignored
    wire.send(MOVED)
    net.advance(1)
    assert (wire.is_closed, world.core.engine.ignored) == (False, ignored + 1)


def test_a_broker_that_does_not_leave_ends_who_is_replaced_elsewhere_at_once() -> None:
    """D-09"""
    net = linked(line(2))
    old = client(net.worlds["b1"], 1)
    client(net.worlds["b2"], 1)
    net.pump()
    assert old.is_closed


def test_a_broker_that_stays_after_all_tells_so_and_takes_connections() -> None:
    net, world, (wire,) = welcomed(0)
    world.core.lifecycle.drains.drain_broker(GRACE_S, WITHIN_S, True, net.now)
    net.advance(0.1)
    world.core.lifecycle.drains.undrain_broker(net.now)
    net.advance(0.1)
    assert told(wire) == [([B2], True, 4000), ([B2], False, 0)]
    net.advance(WITHIN_S + GRACE_S)
    assert (wire.is_closed, world.core.engine.is_draining) == (False, False)
    other = client(net.worlds["b2"])
    net.advance(TELL_EVERY_S)
    assert told(other) == [(["tcp://b1.example:7878"], False, 0)]


def test_a_drained_broker_asks_its_clients_first_and_closes_the_others_in_their_turn() -> None:
    """D-42"""
    net, world, (able,) = welcomed(0)
    unable = client(world, entry=b"")
    world.core.lifecycle.drains.drain_broker(GRACE_S, WITHIN_S, True, net.now)
    net.advance(WITHIN_S)
    assert told(able) == [([B2], True, 4000)]
    assert (able.is_closed, unable.is_closed, world.core.engine.is_draining) == (False, True, False)
    net.advance(DIAL_S + 0.1)
    assert (able.is_closed, world.core.engine.is_draining) == (True, True)
    assert net.worlds["b1"].core.cluster.links()  # those stay


def test_a_route_whose_state_changes_does_not_outbid_its_newer_connection_elsewhere() -> None:
    """D-09: what is said of the old one has the age of its connection, however late it is said."""
    net, _, (old,) = welcomed(1)
    net.holds = lambda who, to, frame: who == "b2"  # b1 does not know yet
    new = client(net.worlds["b2"], 1)
    net.pump()
    leave(net)  # and says that its routes are behind a mask
    net.release()
    net.advance(0.5)
    assert not new.is_closed
    assert set(net.table("b1").values()) == set(net.table("b2").values()) == {"b2"}
    old.send(MOVED)
    net.advance(0.1)
    assert old.is_closed


def test_an_error_of_the_client_ends_its_part_in_it() -> None:
    net, world, (wire,) = welcomed(0)
    leave(net)
    wire.send(frames.encode_error(0, CONNECTION_CLOSE, "bye"))
    net.advance(SETTLE_S + 0.1)
    assert world.core.engine.is_draining


def test_a_setup_with_an_entry_that_nobody_knows_is_as_good_as_one_without() -> None:
    world = World(CoreSettings())
    wire = client(world, 1, MAY_BE_TOLD_ENTRY[:20] + b"?" + MAY_BE_TOLD_ENTRY[21:])
    caller = world.caller()
    caller.request(frames.REQUEST_FNF, 1, ORDERS)
    assert wire.one().kind == frames.REQUEST_FNF
