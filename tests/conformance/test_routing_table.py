"""What a routing table makes of the frames between brokers: the newest word counts."""

from itertools import permutations

import pytest

from tests.conformance import scripts
from tests.conformance.links import AT_MS, NO_ROUTE, OCTETS, OURS, Broker, added, ask, cluster, kept, neighbours, ours
from tests.conformance.scripts import FORWARDING, REGION, destination, heard, ident, route_add, route_remove, uuid


@pytest.mark.parametrize(("at_ms", "is_applied"), [(AT_MS - 1, False), (AT_MS, False), (AT_MS + 1, True)])
def test_route_add_is_applied_when_the_entry_is_older(at_ms: int, is_applied: bool) -> None:
    """D-08: "only … if the table entry's timestamp is older": not when they are equal."""
    world = cluster()
    other = Broker(world).link()
    other.say(route_add(1, AT_MS, "orders", broker=other.id))
    assert kept(world) == [(ident(1), "orders", AT_MS)]
    generation = world.core.table.generation
    other.say(route_add(1, at_ms, "newer", broker=other.id))
    assert kept(world) == ([(ident(1), "newer", at_ms)] if is_applied else [(ident(1), "orders", AT_MS)])
    assert (world.core.table.generation > generation) == is_applied


@pytest.mark.parametrize(("at_ms", "is_applied"), [(AT_MS - 1, False), (AT_MS, False), (AT_MS + 1, True)])
def test_route_remove_is_applied_when_the_entry_is_older(at_ms: int, is_applied: bool) -> None:
    """D-08."""
    world = cluster()
    other = Broker(world).link()
    other.say(*[route_add(number, AT_MS, "orders", broker=other.id) for number in (1, 2)])
    other.say(route_remove(1, at_ms, broker=other.id))
    assert kept(world) == [(ident(number), "orders", AT_MS) for number in ([2] if is_applied else [1, 2])]


def test_route_remove_of_nobody_changes_no_route() -> None:
    world = cluster()
    one, two = Broker(world, 0xB2).link(), Broker(world, 0xB3).link()
    one.say(route_add(1, AT_MS, "orders", broker=one.id))
    generation = world.core.table.generation
    one.say(route_remove(2, AT_MS + 1, broker=one.id))
    two.say(route_remove(1, AT_MS + 1, broker=two.id))
    assert (kept(world), world.core.table.generation) == ([(ident(1), "orders", AT_MS)], generation)


def test_updates_that_come_in_any_order_leave_the_newest() -> None:
    """The timestamp decides, and not the order of arrival; and what was removed does not come back."""
    for last in (True, False):
        for order in permutations(range(4)):
            world = cluster()
            other = Broker(world).link()
            updates = [route_add(1, AT_MS + place, f"name-{place}", broker=other.id) for place in range(4)]
            if last:
                updates[3] = route_remove(1, AT_MS + 3, broker=other.id)
            for place in order:
                other.say(updates[place])
            assert kept(world) == ([] if last else [(ident(1), "name-3", AT_MS + 3)]), order


LATEST_MS = 2**52  # a later time could never be outdone


def absurd(other: Broker, at_ms: int) -> list[tuple[str, bytes]]:
    """All that a broker can say with that timestamp."""
    note = b"\x03" + scripts.u64(at_ms) + other.id + b"\x05stock\x05other"
    return [
        (FORWARDING, ours(at_ms)),
        (FORWARDING, other.info(at_ms, *neighbours(OURS), ("state", "draining"))),
        (FORWARDING, route_add(1, at_ms, "stolen", broker=other.id)),
        (FORWARDING, route_add(1, at_ms, "stolen", broker=OURS)),
        (FORWARDING, route_remove(1, at_ms, broker=OURS)),
        (FORWARDING, route_remove(1, at_ms, broker=other.id)),
        ("message/x.rsocket.broker.cluster.v0", note),
    ]


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("at_ms", [LATEST_MS, LATEST_MS + 1, 2**63 - 1])
def test_timestamps_that_could_never_be_outdone_are_not_taken(place: int, at_ms: int) -> None:
    """D-08: the newest word counts; so there must be one that is newer. The link stays."""
    world = cluster()
    orders, other, third = destination(world, 1, "orders"), Broker(world).link(), Broker(world, 0xB3).link()
    other.told(), third.told()
    digest = world.core.cluster.digest(world.now)
    other.wire.send(scripts.push(scripts.composite(absurd(other, at_ms)[place])))
    is_news = world.core.cluster.digest(world.now) != digest
    assert (is_news, other.wire.is_closed, third.wire.is_closed) == (at_ms == LATEST_MS, False, False)
    assert (world.core.cluster.replication.ignored_n == 0, bool(heard(third.wire))) == (is_news, is_news)
    destination(world, 1, "orders")
    world.core.cluster.set_redirect("stock", "orders", world.now)
    assert (kept(world)[0][:2], orders.is_closed) == ((ident(1), "orders"), True)


def test_broker_whose_clock_can_never_be_outdone_is_refused() -> None:
    world = cluster()
    other = Broker(world)
    raw = other.info(LATEST_MS + 1, ("nonce", other.nonce))
    other.wire = scripts.connected(world, scripts.setup(scripts.COMPOSITE, scripts.forwarding(raw), OCTETS))
    text = "bad-broker: its timestamp is 4503599627370497 ms, the latest allowed is 4503599627370496"
    assert (heard(other.wire), other.wire.is_closed) == ([scripts.error(0, scripts.REJECTED_SETUP, text)], True)


def test_route_that_another_broker_adds_is_found_by_its_tags() -> None:
    world = cluster()
    other = Broker(world).link()
    tags: list[scripts.AnyTag] = [
        (REGION, "eu"),
        ("color", "red"),
        (scripts.SERVICE_NAME, "orders"),
        (scripts.ROUTE_ID, uuid(7)),
    ]
    other.say(route_add(7, AT_MS, "orders", *tags, broker=other.id))
    assert scripts.tags_in_table(world) == [
        [
            ("io.rsocket.routing.Region", "eu"),
            ("color", "red"),
            ("io.rsocket.routing.ServiceName", "orders"),
            ("io.rsocket.routing.RouteId", uuid(7)),
        ]
    ]


def test_route_add_without_the_default_tags_gets_them() -> None:
    """A broker that adds none to what it sends cannot take a service away from who asks for it by name."""
    world = cluster()
    other = Broker(world).link()
    other.say(route_add(7, AT_MS, "orders", broker=other.id))
    assert scripts.tags_in_table(world) == [
        [("io.rsocket.routing.ServiceName", "orders"), ("io.rsocket.routing.RouteId", uuid(7))]
    ]


def test_newer_connection_with_a_route_id_at_another_broker_ends_the_one_here() -> None:
    """D-09: "a broker cluster MUST only allow one connection for a given Route Id"."""
    world = cluster()
    other = Broker(world).link()
    orders = destination(world, 1, "orders")
    assert other.told() == [added(1, AT_MS, "orders")]
    other.say(route_add(1, AT_MS, "older", broker=ident(0xB0)), route_add(1, AT_MS - 1, "older", broker=other.id))
    assert (heard(orders), orders.is_closed) == ([], False)
    other.say(route_add(1, AT_MS + 1, "orders", broker=other.id))
    text = f"replaced: another connection came with the Route Id {uuid(1)} at the broker b9"
    assert (heard(orders), orders.is_closed) == ([scripts.error(0, scripts.CONNECTION_CLOSE, text)], True)
    assert kept(world) == [(ident(1), "orders", AT_MS + 1)]
    assert other.told() == [route_remove(1, AT_MS + 1, broker=OURS)]


def test_newer_connection_with_a_route_id_here_takes_the_place_of_that_at_another_broker() -> None:
    """D-09: the route of the other broker leaves the table, and that broker is told."""
    world = cluster()
    other = Broker(world).link()
    other.say(route_add(1, AT_MS + 50, "orders", (REGION, "us"), broker=other.id))
    orders = destination(world, 1, "orders", (REGION, "eu"))
    assert other.told() == [added(1, AT_MS + 51, "orders", (REGION, "eu"))]
    assert kept(world) == [(ident(1), "orders", AT_MS + 51)]
    other.say(route_remove(1, AT_MS + 60, broker=other.id))  # late, and about its own
    caller = ask(world)
    assert (heard(caller), [raw[:4] for raw in heard(orders)]) == ([], [b"\0\0\0\2"])


def test_route_add_of_ours_from_an_earlier_life_is_removed() -> None:
    world = cluster()
    one, two = Broker(world, 0xB2).link(), Broker(world, 0xB3).link()
    one.told()
    one.say(added(1, AT_MS + 77, "orders"))
    gone = route_remove(1, AT_MS + 78, broker=OURS)
    assert (one.told(), two.told(), kept(world)) == ([gone], [gone], [])


def test_routes_of_a_broker_leave_with_the_last_way_to_it() -> None:
    world = cluster()
    other = Broker(world).link()
    other.say(route_add(1, AT_MS, "orders", broker=other.id))
    assert kept(world) == [(ident(1), "orders", AT_MS)]
    other.wire.lose()
    assert (kept(world), heard(ask(world))) == ([], [NO_ROUTE])
