"""Snapshots and digests: at each moment the table that events tell is the table that the broker had."""

import random

import pytest

from broker.core import CoreSettings
from broker.event_log.snapshots import PIECE
from broker.events import (
    ROUTE_ADDED,
    ROUTE_JOINED,
    ROUTE_LEFT,
    ROUTE_REMOVED,
    ROUTE_REPLACED,
    ROUTE_SEEN,
    SLOW_PEER_ENDED,
    TABLE_DIGEST,
    LifecycleEvent,
)
from broker.routing.digest import Digest, route_mark
from rsocket_wire.wire.ids import id_text
from tests.fakes import START_MS, Wire, World, orders, route_id
from tests.topology import LINKED_S, Net, line, linked

SNAPSHOTS = CoreSettings(snapshot_s=10.0, flow_interval_s=1000.0)


def digest_of(routes: dict[str, LifecycleEvent]) -> str:
    digest = Digest()
    for event in routes.values():
        digest.add(route_mark(event.route_id, event.service, event.tags))
    return digest.text


def rebuilt(events: list[LifecycleEvent]) -> dict[str, LifecycleEvent]:
    """The table after these events, by their numbers, from nothing."""
    routes: dict[str, LifecycleEvent] = {}
    for event in sorted(events, key=lambda event: event.seq):
        if event.kind in (ROUTE_JOINED, ROUTE_ADDED):
            assert event.route_id not in routes, "who was there is taken out first"
            routes[event.route_id] = event
        elif event.kind in (ROUTE_LEFT, ROUTE_REMOVED, ROUTE_REPLACED) and event.route_id:
            del routes[event.route_id]
    return routes


def test_a_snapshot_tells_every_route_and_then_the_digest() -> None:
    world = World(SNAPSHOTS)
    world.service("orders", 1, region="eu")
    world.now += 2.0
    world.service("stock", 2)
    world.events()
    world.advance(7.9)
    assert world.events() == []
    world.advance(0.1)
    first, second, last = world.events()
    assert (first.kind, first.service, first.detail, first.uptime_ms) == (ROUTE_SEEN, "orders", "0", 10_000)
    assert (second.kind, second.service, second.detail, second.uptime_ms) == (ROUTE_SEEN, "stock", "1", 8_000)
    assert [event.peer for event in (first, second)] == ["tcp 127.0.0.1:1"] * 2
    assert [event.at_ms for event in (first, second, last)] == [START_MS + 10_000] * 3
    assert [event.seq for event in (first, second, last)] == list(range(first.seq, first.seq + 3))
    assert last.kind == TABLE_DIGEST
    assert last.tags == [
        ("digest", digest_of({event.route_id: event for event in (first, second)})),
        ("routes", "2"),
        ("local", "2"),
        ("generation", str(world.core.table.generation)),
    ]


def test_without_snapshots_there_are_none() -> None:
    world = World()
    world.service("orders", 1)
    world.events()
    world.advance(50.0)
    assert world.events() == []


def test_an_empty_table_has_a_digest_too() -> None:
    world = World(SNAPSHOTS)
    world.events()
    world.advance(10.0)
    [only] = world.events()
    assert (only.kind, dict(only.tags)["digest"]) == (TABLE_DIGEST, "0" * 32)


@pytest.mark.parametrize("seed", range(6))
def test_the_table_that_events_tell_has_the_digest_of_the_broker(seed: int) -> None:
    rng = random.Random(seed)
    world = World(SNAPSHOTS, seed=seed)
    there: dict[int, Wire] = {}
    events: list[LifecycleEvent] = []
    for _ in range(150):
        number = rng.randrange(1, 8)
        if rng.random() < 0.6 or number not in there:
            there[number] = world.service(rng.choice("ab"), number, region=rng.choice(["eu", "us"]))
        else:
            there.pop(number).lose()
        world.advance(rng.random())
        events += world.events()
    digests = [event for event in events if event.kind == TABLE_DIGEST]
    assert len(digests) > 3
    for told in digests:
        before = [event for event in events if event.seq < told.seq]
        assert digest_of(rebuilt(before)) == dict(told.tags)["digest"]
        count = int(dict(told.tags)["routes"])
        seen = [event for event in before if event.kind == ROUTE_SEEN][-count:] if count else []
        assert digest_of({event.route_id: event for event in seen}) == dict(told.tags)["digest"]
    assert digest_of(rebuilt(events)) == world.core.table.digest.text


def test_a_large_table_is_told_in_pieces_as_it_was_at_its_moment() -> None:
    world = World(CoreSettings(snapshot_s=10.0, flow_interval_s=1000.0, max_connections_per_address=0))
    wires = [world.service("orders", number + 1) for number in range(2 * PIECE + 1)]
    events = world.events()
    world.now += 10.0
    world.core.tick(world.now, world.at_ms)
    assert world.events() == []  # this tick looks at them all, which is enough for one
    world.core.tick(world.now, world.at_ms)
    first = world.events()
    assert [event.kind for event in first] == [ROUTE_SEEN] * PIECE
    assert world.core.next_deadline() <= world.now
    wires[-1].lose()  # it was there
    world.service("stock", 5000)  # it was not
    world.core.tick(world.now, world.at_ms)
    world.core.tick(world.now, world.at_ms)
    rest = world.events()
    seen = first + [event for event in rest if event.kind == ROUTE_SEEN]
    [told] = [event for event in rest if event.kind == TABLE_DIGEST]
    assert [event.seq for event in seen] == list(range(first[0].seq, told.seq))
    assert seen[-1].peer == "tcp 127.0.0.1:1"
    assert digest_of({event.route_id: event for event in seen}) == dict(told.tags)["digest"]
    assert digest_of(rebuilt([*events, *first, *rest])) == world.core.table.digest.text
    world.advance(9.0)
    assert world.events() == []


def test_a_snapshot_that_has_begun_is_whole_when_the_broker_stops() -> None:
    world = World(CoreSettings(snapshot_s=10.0, flow_interval_s=1000.0, max_connections_per_address=0))
    for number in range(PIECE + 1):
        world.service("orders", number + 1)
    world.events()
    world.now += 10.0
    world.core.tick(world.now, world.at_ms)
    world.core.stop("done", world.now)
    kinds = [event.kind for event in world.events()]
    assert (kinds.count(ROUTE_SEEN), kinds.count(TABLE_DIGEST)) == (PIECE + 1, 1)


# Routes of other brokers


def test_routes_of_another_broker_come_and_go_as_events() -> None:
    net = linked(line(2))
    one, two = (net.worlds[name] for name in net.names)
    one.events()
    service = two.service("orders", 7, region="eu")
    net.advance(1.0)
    [added] = [event for event in one.events() if event.kind == ROUTE_ADDED]
    broker = f"broker {id_text(two.core.broker_id)}"
    assert (added.route_id, added.service, added.peer) == (id_text(route_id(7)), "orders", broker)
    assert digest_of({added.route_id: added}) == one.core.table.digest.text == two.core.table.digest.text
    service.lose()
    net.advance(1.0)
    [removed] = [event for event in one.events() if event.kind == ROUTE_REMOVED]
    assert (removed.route_id, removed.peer, removed.reason) == (added.route_id, broker, "left")
    two.service("orders", 8)
    net.advance(1.0)
    one.events()
    net.kill(net.names[1])
    net.advance(30.0)
    [removed] = [event for event in one.events() if event.kind == ROUTE_REMOVED]
    assert (removed.route_id, removed.reason) == (id_text(route_id(8)), "broker-left")
    assert one.core.table.digest.text == "0" * 32


def test_a_broker_whose_clock_is_wrong_changes_no_times_of_another_brokers_events() -> None:
    """What it says of a route has the time of its clock, by which brokers know what is newer, and nothing else."""
    net = Net(["b1", "b2"], [("b1", "b2")])
    net.start("b2", skew_s=1e12)  # 30,000 years: later than files can say
    net.advance(LINKED_S)
    one, two = (net.worlds[name] for name in net.names)
    service = two.service("orders", 7)
    two.service("orders", 8)
    net.advance(1.0)
    known_ms = one.at_ms
    service.lose()
    net.advance(3.0)
    one.service("orders", 8)
    events = one.events()
    times = [(event.kind, event.at_ms, event.uptime_ms) for event in events if event.route_id]
    added, removed, replaced, joined = (times[0], *times[2:])
    assert [each[0] for each in (added, removed, replaced, joined)] == [
        *(ROUTE_ADDED, ROUTE_REMOVED, ROUTE_REMOVED, ROUTE_JOINED)
    ]
    assert known_ms - 1000 <= added[1] <= known_ms
    assert removed[2] == removed[1] - added[1]
    assert (joined[1], replaced[1]) == (one.at_ms, one.at_ms)
    assert replaced[2] == replaced[1] - times[1][1]


@pytest.mark.parametrize("seed", range(4))
def test_the_tables_of_a_cluster_are_what_their_events_tell(seed: int) -> None:
    """The same Route Ids at two brokers, in turn: who replaces whom must be told in the order in which it happened."""
    rng = random.Random(seed)
    net = linked(line(2))
    events: dict[str, list[LifecycleEvent]] = {name: [] for name in net.names}
    there: list[Wire] = []
    for _ in range(60):
        world = net.worlds[rng.choice(net.names)]
        if rng.random() < 0.7 or not there:
            there.append(world.service(rng.choice("ab"), rng.randrange(1, 4), region=rng.choice(["eu", "us"])))
        else:
            there.pop(rng.randrange(len(there))).lose()
        net.advance(rng.choice([0.05, 0.5]))
        for name in net.names:
            events[name] += net.worlds[name].events()
            assert digest_of(rebuilt(events[name])) == net.worlds[name].core.table.digest.text


# Peers that read too slowly


def test_a_connection_that_is_ended_because_all_hold_too_much_is_told_too() -> None:
    world, service, caller = orders(CoreSettings(max_buffered_bytes=10))
    world.events()
    caller.peer.unsent_bytes = 100
    assert world.core.lifecycle.weigh(world.now) == [caller.peer]
    told = [event for event in world.events() if event.kind == SLOW_PEER_ENDED]
    assert [(event.reason, event.route_id) for event in told] == [("over-limit", "")]
    assert not service.peer.is_ending
