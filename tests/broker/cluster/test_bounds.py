"""What the other brokers can fill, and what happens when it is full."""

from __future__ import annotations

import pytest

from broker.cluster.cluster import EXPIRE_S
from broker.cluster.gossip import EXPIRY_STEP_S, TOMBSTONE_S
from broker.cluster.links.handshakes import LINK_STREAMS_N
from broker.cluster.links.neighbour import BATCH_BYTES, BATCH_N, UP, Neighbour
from broker.cluster.membership import ADVERTISE_N, ADVERTISE_S, FORGET_S
from broker.cluster.redirects import MAX_REDIRECTS
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.frames import BROKER_INFO
from tests.conformance.links import AT_MS, OURS, Broker, cluster, entries, kept
from tests.conformance.scripts import FORWARDING, composite, heard, ident, push, route_add, route_remove
from tests.fakes import World


def neighbour(world: World) -> tuple[Neighbour, Broker]:
    """A link that is up, from here; and the broker there."""
    other = Broker(world).link()
    (found,) = world.core.cluster.links()
    assert found.stage == UP
    return found, other


@pytest.mark.parametrize(
    ("count", "frames"), [(0, []), (1, [1]), (BATCH_N, [BATCH_N]), (2 * BATCH_N + 1, [200, 200, 1])]
)
def test_one_push_has_so_many_entries_and_no_more(count: int, frames: list[int]) -> None:
    world = cluster()
    found, other = neighbour(world)
    found.push([composite((FORWARDING, b"%06d" % number)) for number in range(count)])
    world.pump()
    pushed = [entries(raw) for raw in heard(other.wire)]
    assert [len(each) for each in pushed] == frames
    assert [content for each in pushed for _, content in each] == [b"%06d" % number for number in range(count)]


def test_one_push_has_so_many_bytes_or_one_entry() -> None:
    world = cluster()
    found, other = neighbour(world)
    head = len(composite((FORWARDING, b"")))
    sizes = [BATCH_BYTES // 2 - head, BATCH_BYTES // 2 - head, 1, BATCH_BYTES * 2, 1]
    found.push([composite((FORWARDING, bytes(size))) for size in sizes])
    world.pump()
    assert heard(other.wire) == [
        push(composite((FORWARDING, bytes(sizes[0])), (FORWARDING, bytes(sizes[1])))),
        push(composite((FORWARDING, b"\0"))),
        push(composite((FORWARDING, bytes(sizes[3])))),
        push(composite((FORWARDING, b"\0"))),
    ]


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


def test_a_link_may_begin_more_requests_than_a_client() -> None:
    world = cluster()
    before = world.connect().peer.max_streams
    other = Broker(world).link()
    assert (before, other.wire.peer.max_streams) == (world.core.settings.max_streams_per_connection, LINK_STREAMS_N)


def test_so_many_services_are_redirected_and_no_more() -> None:
    world = cluster()
    set_redirect = world.core.cluster.set_redirect
    for number in range(MAX_REDIRECTS):
        set_redirect(f"s{number}", "orders", world.now)
    text = f"over-limit: {MAX_REDIRECTS} redirects are set, the limit is {MAX_REDIRECTS}"
    with pytest.raises(BrokerError, match=text):
        set_redirect("one-more", "orders", world.now)
    set_redirect("s7", "stock", world.now)
    assert (len(world.core.cluster.redirects), world.core.cluster.redirects["s7"].to) == (MAX_REDIRECTS, "stock")


def test_redirects_that_were_removed_take_no_place_for_ever() -> None:
    """They do as long as their tombstones are there: an older word must not bring them back."""
    world = cluster()
    others = world.core.cluster
    for number in range(MAX_REDIRECTS):
        others.set_redirect(f"s{number}", "orders", world.now)
        others.remove_redirect(f"s{number}", world.now)
    with pytest.raises(BrokerError, match="over-limit"):
        others.set_redirect("one-more", "orders", world.now)
    world.advance(TOMBSTONE_S + EXPIRY_STEP_S + EXPIRE_S)
    assert others.replication.gossip.size() == 1  # this broker
    others.set_redirect("one-more", "orders", world.now)
    assert list(others.redirects) == ["one-more"]


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
