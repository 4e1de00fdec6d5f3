"""What the other brokers can fill, and what happens when it is full."""

from broker.cluster.cluster import EXPIRE_S
from broker.cluster.links.handshakes import LINK_STREAMS_N
from broker.cluster.membership import FORGET_S
from tests.conformance.links import AT_MS, Broker, cluster, entries, kept
from tests.conformance.scripts import heard, ident, route_add, route_remove


def test_so_many_routes_of_others_and_no_more() -> None:
    """Tombstones and brokers are among the entries; a known route may change, and go."""
    world = cluster(max_routes=5)  # two brokers, and three routes
    other = Broker(world).link()
    for number in range(1, 6):
        other.say(route_add(number, AT_MS, "orders", broker=other.id))
    assert [id for id, _, _ in kept(world)] == [ident(1), ident(2), ident(3)]
    assert (world.core.cluster.adverts_ignored > 0, other.wire.is_closed) == (True, False)
    other.say(route_add(3, AT_MS + 1, "stock", broker=other.id), route_remove(2, AT_MS + 1, broker=other.id))
    assert kept(world) == [(ident(1), "orders", AT_MS), (ident(3), "stock", AT_MS + 1)]


def test_so_many_routes_of_brokers_that_cannot_be_reached_are_kept_for_later() -> None:
    world = cluster(max_routes=10)
    other = Broker(world).link()
    far = ident(0xBA)
    other.say(*[route_add(number, AT_MS, "orders", broker=far) for number in range(1, 21)])
    replication = world.core.cluster.replication
    assert (replication.early_n, len(replication.early[far]), replication.ignored_n, kept(world)) == (10, 10, 10, [])
    world.advance(0.5)
    other.wire.lose()
    world.advance(FORGET_S + EXPIRE_S)
    assert (replication.early_n, replication.early) == (0, {})


def test_a_link_may_begin_more_requests_than_a_client() -> None:
    world = cluster()
    before = world.connect().peer.max_streams
    other = Broker(world).link()
    assert (before, other.wire.peer.max_streams) == (world.core.settings.max_streams_per_connection, LINK_STREAMS_N)


def test_routes_that_come_and_go_in_masses_do_not_keep_those_out_that_stay() -> None:
    """The oldest tombstone makes room; an older one does not come in."""
    world = cluster(max_routes=5)
    other = Broker(world).link()
    for number in range(1, 10):
        other.say(route_add(number, AT_MS + number, "orders", broker=other.id))
        other.say(route_remove(number, AT_MS + number + 100, broker=other.id))
    other.say(route_add(20, AT_MS + 200, "orders", broker=other.id))
    assert [id for id, _, _ in kept(world)] == [ident(20)]
    adverts = world.core.cluster.replication.gossip
    assert (adverts.size(), adverts.refused_n) == (5, 0)
    other.say(route_add(1, AT_MS + 1, "orders", broker=other.id))  # forgotten before its time: its broker says it again
    assert [id for id, _, _ in kept(world)] == [ident(20), ident(1)]
    other.say(route_remove(1, AT_MS + 201, broker=other.id))
    assert [id for id, _, _ in kept(world)] == [ident(20)]
    other.say(route_remove(30, AT_MS, broker=other.id))
    assert adverts.size() == 5


def test_a_full_picture_of_others_does_not_keep_our_own_routes_from_them() -> None:
    world = cluster(max_routes=5)
    other = Broker(world).link()
    for number in range(1, 6):
        other.say(route_add(number, AT_MS, "orders", broker=other.id))
    heard(other.wire)
    world.service("ours", 77)
    world.core.cluster.set_redirect("a", "b", world.now)
    world.pump()
    assert [len(entries(raw)) for raw in heard(other.wire)] == [1, 1]
