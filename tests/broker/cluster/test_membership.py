"""The brokers of a cluster as one of them knows them: namesakes, those that are gone, and when links are told."""

from broker.cluster.cluster import EXPIRE_S
from broker.cluster.membership import ADVERTISE_N, ADVERTISE_S, FORGET_S
from broker.core import CoreSettings
from rsocket_wire.rsocket.frames import REQUEST_FNF
from rsocket_wire.wire.frames import BROKER_INFO, MULTICAST
from tests.broker.cluster.test_contradictions import said
from tests.conformance.links import AT_MS, OURS, Broker, cluster
from tests.fakes import address
from tests.topology import LINKED_S, Net, line, linked, route_text


def test_brokers_with_one_name_that_are_no_neighbours_are_told_by_those_that_know_both() -> None:
    """Requests that meet both are refused as loops: whoever looks for the reason finds it."""
    names = {"b1": "same", "b4": "same"}
    edges = [("b1", "b2"), ("b2", "b3"), ("b3", "b4")]
    net = linked(
        Net(["b1", "b2", "b3", "b4"], edges, make=lambda name: CoreSettings(broker_name=names.get(name, name)))
    )
    ids = {name: net.worlds[name].core.id_text for name in net.names}
    text = "has the same name, names must be unique in a cluster"
    assert said(net, "b1") == [("bad-broker", f"same ({ids['b4']}), 3 hops by way of b2; {ids['b1']} {text}")]
    assert said(net, "b2") == [("bad-broker", f"same ({ids['b4']}), 2 hops by way of b3; {ids['b1']} {text}")]
    net.kill("b4")
    server = net.worlds["b1"].service("orders", 1)
    net.pump()
    caller = net.worlds["b3"].caller()
    caller.request(REQUEST_FNF, 1, address(MULTICAST, service="orders"), b"ping")
    net.pump()
    assert server.one().data == b"ping"  # the one that stayed is still found by its name


def test_a_broker_that_begins_anew_under_another_name_gets_copies_under_that() -> None:
    net = linked(line(3))
    net.kill("b3")
    net.make = lambda name: CoreSettings(broker_name="new" if name == "b3" else name)
    server = net.start("b3").service("orders", 1)
    net.advance(LINKED_S)
    assert net.table("b1") == {route_text(1): "new"}
    caller = net.worlds["b1"].caller()
    caller.request(REQUEST_FNF, 1, address(MULTICAST, service="orders"), b"ping")
    net.pump()
    assert server.one().data == b"ping"


def test_a_broker_that_nobody_reaches_is_forgotten_in_the_end() -> None:
    world = cluster()
    other = Broker(world).link()
    other.wire.lose()
    world.advance(FORGET_S - 1)
    members = world.core.cluster.members
    assert [(member.name, member.is_reachable) for member in members.values()] == [("b1", True), ("b9", False)]
    world.advance(1 + EXPIRE_S)
    assert [member.name for member in members.values()] == ["b1"]
    Broker(world).link(AT_MS + 90_000)
    assert [(member.name, member.is_reachable) for member in members.values()] == [("b1", True), ("b9", True)]


def test_so_many_links_that_come_up_at_once_are_told_at_once_and_the_rest_together() -> None:
    world = cluster()
    first = Broker(world).link()
    world.advance(1.0)
    first.told()
    others = [Broker(world, 0xC0 + number) for number in range(ADVERTISE_N + 3)]
    for other in others:
        other.dial()
        other.prove()
    words = [raw for raw in first.told() if raw[4] >> 2 == BROKER_INFO and raw[6:22] == OURS]
    assert [raw.count(b"neighbour") for raw in words] == [2 + number for number in range(ADVERTISE_N)]
    world.advance(ADVERTISE_S)
    (word,) = [raw for raw in first.told() if raw[4] >> 2 == BROKER_INFO and raw[6:22] == OURS]
    assert word.count(b"neighbour") == 1 + len(others)


def test_brokers_that_are_gone_give_way_to_those_that_come() -> None:
    """One that crashes again and again, each time with another id."""
    world = cluster(max_brokers=3)
    for number in range(10):
        Broker(world, 0xC0 + number).link().wire.lose()
        world.advance(0.1)
    members = world.core.cluster.members
    assert (len(members), [member.is_reachable for member in members.values()]) == (3, [True, False, False])
    first, second = Broker(world, 0xE0).link(), Broker(world, 0xE1).link()
    assert set(members) == {OURS, first.id, second.id}
