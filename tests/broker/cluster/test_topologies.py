"""Many brokers in one process: whatever breaks, tables agree, requests arrive and never circle."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.rsocket import frames
from rsocket_wire.wire.frames import MULTICAST, ROUTE_REMOVE
from tests.fakes import Frame, Wire, address
from tests.invariants import check_masks
from tests.topology import LINKED_S, Net, line, linked, ring, route_text, star

DIGEST_ROUND_S = 2.0
SHAPES = {"line": lambda: line(5), "ring": lambda: ring(4), "star": lambda: star(5)}


def offer(net: Net, name: str, service: str, number: int) -> Wire:
    """A service at one broker; known everywhere when this returns."""
    wire = net.worlds[name].service(service, number)
    net.pump()
    return wire


def ask(net: Net, name: str, service: str, caller: Wire | None = None, stream_id: int = 1) -> Wire:
    """A request/response at one broker."""
    caller = caller or net.worlds[name].caller()
    caller.request(frames.REQUEST_RESPONSE, stream_id, address(service=service), b"ping")
    net.pump()
    return caller


def answered(net: Net, caller: Wire, server: Wire) -> None:
    """The request that `server` has just got is answered, and the answer comes."""
    asked = server.one()
    assert (asked.name, asked.data) == ("REQUEST_RESPONSE", b"ping")
    server.answer(asked.stream_id, b"pong")
    net.pump()
    assert caller.one().data == b"pong"


def reached(net: Net, name: str, service: str, server: Wire) -> Wire:
    """A request at one broker reaches this server, and its answer the caller."""
    caller = ask(net, name, service)
    answered(net, caller, server)
    return caller


def agree(net: Net) -> None:
    """All brokers have the same routes, at the same brokers."""
    tables = list(net.tables().values())
    assert all(table == tables[0] for table in tables), net.tables()
    assert len(net.digests()) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_service_at_any_broker_is_reached_from_every_broker_by_the_shortest_way(shape: str) -> None:
    net = linked(SHAPES[shape]())
    services = {name: offer(net, name, f"at-{name}", number) for number, name in enumerate(net.names, 1)}
    agree(net)
    for name in net.names:
        members = {member.name: member for member in net.worlds[name].core.cluster.members.values()}
        assert set(members) == set(net.names)
        for other in net.names:
            reached(net, name, f"at-{other}", services[other])
    hops = {name: net.worlds[name].core.engine.annotations for name in net.names}
    assert all(each.loops_refused == 0 for each in hops.values())
    most = {"line": 4, "ring": 2, "star": 2}[shape]
    for name in net.names:
        assert max(member.hops_n for member in net.worlds[name].core.cluster.members.values()) <= most
        assert len(hops[name].hop_counts) <= most + 1, hops[name].hop_counts


def test_a_broken_link_of_a_ring_is_routed_around() -> None:
    net = linked(ring(4))
    service = offer(net, "b2", "orders", 1)
    caller = reached(net, "b1", "orders", service)
    net.cut = {("b1", "b2"), ("b2", "b1")}
    net.break_link("b1", "b2")
    ask(net, "b1", "orders", caller, 3)
    answered(net, caller, service)
    members = {member.name: member for member in net.worlds["b1"].core.cluster.members.values()}
    assert (members["b2"].hops_n, members["b2"].next_hop) == (3, "b4")


def test_the_routes_of_a_broker_that_dies_leave_everywhere_at_once() -> None:
    net = linked(star(4))
    offer(net, "b3", "orders", 1)
    keeps = offer(net, "b2", "others", 2)
    agree(net)
    net.kill("b3")
    assert net.table("b1") == net.table("b2") == net.table("b4") == {route_text(2): "b2"}
    reached(net, "b4", "others", keeps)


def test_nothing_heard_one_way_is_as_bad_as_nothing_at_all() -> None:
    net = linked(ring(3))
    offer(net, "b2", "orders", 1)
    net.cut = {("b1", "b2")}  # b2 hears nothing of b1
    net.advance(4.0)
    members = {member.name: member for member in net.worlds["b1"].core.cluster.members.values()}
    assert (members["b2"].hops_n, members["b2"].next_hop) == (2, "b3")
    agree(net)


def test_a_broker_that_comes_back_is_complete_within_two_seconds() -> None:
    net = linked(line(3))
    service = offer(net, "b1", "orders", 1)
    net.kill("b3")
    net.advance(5.0)
    net.start("b3")
    net.advance(2.0)
    agree(net)
    assert net.table("b3") == {route_text(1): "b1"}
    reached(net, "b3", "orders", service)


def test_two_islands_that_join_know_each_other_and_each_route_once() -> None:
    net = Net(["b1", "b2", "b3", "b4"], [("b1", "b2"), ("b3", "b4"), ("b2", "b3")])
    net.part(["b1", "b2"], ["b3", "b4"])
    net.advance(LINKED_S)
    offer(net, "b1", "orders", 1)
    offer(net, "b4", "orders", 2)
    net.advance(1.0)
    older = offer(net, "b1", "moved", 3)
    net.advance(1.0)
    newer = offer(net, "b4", "moved", 3)
    assert net.table("b2") == {route_text(1): "b1", route_text(3): "b1"}
    assert net.table("b3") == {route_text(2): "b4", route_text(3): "b4"}
    net.heal()
    net.advance(2 * DIGEST_ROUND_S)
    agree(net)
    assert net.table("b2") == {route_text(1): "b1", route_text(2): "b4", route_text(3): "b4"}
    assert older.is_closed
    assert older.frames[-1].text.startswith("replaced: another connection came with the Route Id")
    assert not newer.is_closed


def test_a_route_that_moves_is_one_connection_in_the_whole_cluster() -> None:
    net = linked(line(3))
    old = offer(net, "b1", "orders", 1)
    net.advance(0.1)
    new = offer(net, "b3", "orders", 1)
    agree(net)
    assert net.table("b2") == {route_text(1): "b3"}
    assert old.is_closed
    reached(net, "b1", "orders", new)
    net.advance(2 * DIGEST_ROUND_S)
    agree(net)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [frames.REQUEST_FNF, frames.REQUEST_STREAM])
def test_each_member_of_a_multicast_gets_exactly_one_copy(shape: str, kind: int) -> None:
    net = linked(SHAPES[shape]())
    members = [offer(net, net.names[number % len(net.names)], "orders", number + 1) for number in range(11)]
    caller = net.worlds["b2"].caller()
    caller.request(kind, 1, address(MULTICAST, service="orders"), b"all", 100)
    net.pump()
    asked = [member.one() for member in members]
    assert [frame.data for frame in asked] == [b"all"] * 11
    if kind == frames.REQUEST_FNF:
        return
    for number, (member, frame) in enumerate(zip(members, asked, strict=True)):
        member.send(frames.encode_payload(frame.stream_id, frames.NEXT | frames.COMPLETE, b"%d" % number))
        net.pump()
    got = caller.received()
    assert sorted(frame.data for frame in got if frame.flags & frames.NEXT) == sorted(b"%d" % n for n in range(11))
    assert got[-1].flags & frames.COMPLETE


def test_a_held_back_route_remove_costs_one_bounce_and_no_loop() -> None:
    net = linked(line(3))
    offer(net, "b2", "orders", 1)
    here = offer(net, "b3", "orders", 2)

    def is_remove(a: str, b: str, frame: Frame) -> bool:
        return (
            (a, b) == ("b2", "b1")
            and bytes([ROUTE_REMOVE << 2]) + b"\0" in frame.raw
            and frame.kind == frames.METADATA_PUSH
        )

    net.holds = is_remove
    gone = next(wire for wire in net.worlds["b2"].wires.values() if wire.peer.caller_service == "orders")
    gone.lose()
    net.pump()
    assert net.table("b1")[route_text(1)] == "b2"  # stale
    caller = net.worlds["b1"].caller()
    for stream_id in (1, 3):
        ask(net, "b1", "orders", caller, stream_id)
        answered(net, caller, here)
    hops = {name: world.core.engine.annotations for name, world in net.worlds.items()}
    assert hops["b1"].retried_n == 1
    assert all(each.loops_refused == 0 for each in hops.values())
    net.release()
    agree(net)


def test_three_thousand_routes_are_there_when_the_link_is_up() -> None:
    net = line(2)
    net.cut = {("b1", "b2"), ("b2", "b1")}
    for number in range(1, 3_001):
        net.worlds["b1"].service(f"s{number % 50}", number)
    net.heal()
    net.advance(2.0)
    assert len(net.table("b2")) == 3_000
    agree(net)


def test_a_route_whose_newer_connection_left_again_unheard_is_found_where_it_stayed() -> None:
    """The digests agree: nobody but the broker that it left again can notice."""
    net = linked(line(2))
    stays = offer(net, "b2", "orders", 1)
    net.drops = lambda a, b, frame: a == "b1" and frame.kind == frames.METADATA_PUSH
    net.worlds["b1"].service("orders", 1).lose()
    net.pump()
    net.drops = None
    net.advance(2 * DIGEST_ROUND_S)
    agree(net)
    assert net.table("b1") == {route_text(1): "b2"}
    reached(net, "b1", "orders", stays)


def test_a_broker_that_is_drained_is_linked_again_after_a_break() -> None:
    """What goes through it has no other way, and its clients need another broker to go to."""
    net = linked(line(3))
    stays = offer(net, "b3", "orders", 1)
    net.worlds["b2"].core.lifecycle.drains.drain_broker(60.0, 60.0, False, net.now)
    net.break_link("b1", "b2")
    net.break_link("b2", "b3")
    assert net.table("b1") == {}
    net.advance(LINKED_S)
    assert net.tables() == {name: {route_text(1): "b3"} for name in net.names}
    reached(net, "b1", "orders", stays)
    late = net.worlds["b2"].caller()
    assert (late.one().text, late.is_closed) == ("draining: the broker takes no new connections", True)


def test_a_link_that_was_about_to_be_one_when_the_broker_was_drained_stays() -> None:
    net = line(2)
    net.holds = lambda a, b, frame: a == "b2" and frame.kind == frames.METADATA_PUSH
    net.pump()
    net.worlds["b2"].core.lifecycle.drains.drain_broker(0.5, 0.5, True, net.now)
    net.release()
    link = net.link("b1", "b2")
    net.advance(3.0)
    assert (link.is_lost, net.worlds["b1"].core.cluster.digest_mismatches) == (False, 0)


def test_a_broker_that_is_full_of_clients_still_dials_others() -> None:
    net = Net(["b1", "b2"], [("b1", "b2")], make=lambda name: CoreSettings(broker_name=name, max_connections=2))
    net.kill("b2")
    full = [net.worlds["b1"].service("orders", number) for number in (1, 2)]
    net.start("b2")
    net.advance(LINKED_S)
    assert net.tables() == {name: {route_text(1): "b1", route_text(2): "b1"} for name in net.names}
    late = net.worlds["b1"].connect()
    text = "over-limit: 3 connections are open, limits.max_connections is 2"
    assert (late.one().text, late.is_closed) == (text, True)
    assert not any(wire.is_closed for wire in full)


def test_a_url_at_which_several_brokers_are_reached_is_told_once_and_not_by_these() -> None:
    """D-53: clients are told of other places, never of the one that they would come back to."""
    net = Net(["w1", "w2", "v1", "v2"], [("w2", "w1"), ("v1", "w1"), ("v2", "v1"), ("v2", "w2")])
    for name, world in net.worlds.items():
        world.core.cluster._settings.client_urls[:] = [f"tcp://{name[0]}.example:7878"]
    net.pump()
    net.advance(1)
    found = {name: world.core.cluster.membership.client_urls() for name, world in net.worlds.items()}
    theirs, ours = ["tcp://v.example:7878"], ["tcp://w.example:7878"]
    assert found == {"w1": theirs, "w2": theirs, "v1": ours, "v2": ours}


@pytest.mark.parametrize("service", ["orders", "stock"])
def test_a_connection_that_says_another_route_id_leaves_the_old_one_to_another_broker(service: str) -> None:
    """D-09: what b1 has under the old id is a far route at b2, and the connection's new route is a near one.

    `service`: the name that it has there.
    """
    net = linked(line(2))
    first = net.worlds["b1"].service("orders", 1, region="eu")
    net.pump()
    b2 = net.worlds["b2"]
    other = b2.service("orders", 3)
    second = b2.service("orders", 1, region="us")
    second.announce(2, service)  # before b1 hears of the first one
    check_masks(b2.core)
    caller = b2.caller()
    caller.request(frames.REQUEST_FNF, 1, address(MULTICAST, service="orders", region="eu"))
    b2.core.tick(b2.now, b2.at_ms)
    for number in range(4):
        caller.request(frames.REQUEST_RESPONSE, 2 * number + 3, address(service=service))
    got = [len(wire.received()) for wire in (second, other)]
    assert got == ([2, 2] if service == "orders" else [4, 0])
    net.pump()
    net.advance(3.0)
    for world in net.worlds.values():
        check_masks(world.core)
    assert first.is_closed  # the second connection had its id, once
    expected = {route_text(2): "b2", route_text(3): "b2"}
    assert net.tables() == {"b1": expected, "b2": expected}
