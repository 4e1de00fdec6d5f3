"""Zone first: requests stay near the caller as long as there are enough routes."""

from collections import Counter

import pytest

from broker.routing.candidates import LISTED
from broker.routing.choosers.chooser import Turn
from broker.routing.choosers.random import Random
from broker.routing.choosers.round_robin import RoundRobin
from broker.routing.choosers.zone_first import MAX_ROUTES, MAX_ZONES, ZoneFirst, kept_n
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.table import Table
from broker.routing.targets import Target
from rsocket_wire.wire.keys import LB_METHOD
from tests.broker.routing import made


def town(local: int = 10, others: int = 10) -> Table:
    """Routes 1…local in zone a, 101…100+others in zone b."""
    table = Table()
    for number in range(1, local + 1):
        made.joined(table, number, zone="a")
    for number in range(101, 101 + others):
        made.joined(table, number, zone="b")
    return table


def chosen_from_a(table: Table, gone: int, count: int = 2000) -> Counter[int]:
    """Who gets requests from zone a when the first so many of its routes may not be chosen."""
    matched = made.all_of(table)
    among = matched.among(matched.slots.without(made.slots(*[route.slot for route in table.routes()[:gone]])))
    assert among is not None
    turn = Turn()
    turn.matched = matched
    rng = Rng(1)
    chooser = ZoneFirst(RoundRobin())
    return Counter(made.number_of(chooser.choose(among, turn, rng, b"a", 0.0)) for _ in range(count))


@pytest.mark.parametrize("gone, percent", [(0, 100), (2, 100), (3, 98), (5, 70), (7, 42), (9, 14)])
def test_requests_spill_over_when_too_few_local_routes_are_left(gone: int, percent: int) -> None:
    """D-35: the share that stays is 1.4 times the part of the local routes that may be chosen, at most all."""
    found = chosen_from_a(town(), gone)
    assert min(found) == gone + 1
    spilt = sum(count for number, count in found.items() if number > 100)
    if percent == 100:
        assert spilt == 0
    else:
        assert made.is_likely(Counter({0: 2000 - spilt, 1: spilt}), {0: percent, 1: 100 - percent})


def test_what_stays_and_what_spills_over_is_even_within() -> None:
    found = chosen_from_a(town(), 5)
    local = [found[number] for number in range(6, 11)]
    others = [found[number] for number in range(101, 111)]
    assert max(local) - min(local) <= 1
    assert max(others) - min(others) <= 1


def test_nobody_is_left_in_the_zone() -> None:
    found = chosen_from_a(town(), 10)
    assert set(found) == set(range(101, 111))


def test_all_stay_when_there_is_no_other_zone() -> None:
    found = chosen_from_a(town(others=0), 9)
    assert found == {10: 2000}


@pytest.mark.parametrize("zone", [b"", b"mars", b"c"])
def test_caller_without_a_zone_or_from_one_without_routes_is_served_by_all(zone: bytes) -> None:
    table = town(2, 2)
    slots = made.all_of(table).slots
    made.joined(table, 201, "billing", zone="c")
    orders = made.all_of(table).among(slots)
    assert orders is not None
    turn = Turn()
    found = made.picks(ZoneFirst(RoundRobin()), orders, 8, turn=turn, zone=zone)
    assert Counter(found) == {1: 2, 2: 2, 101: 2, 102: 2}
    assert turn.zones == {}


def test_each_zone_has_its_own_turns() -> None:
    among = made.all_of(town(2, 2))
    turn = Turn()
    chooser = ZoneFirst(RoundRobin())
    found = [made.picks(chooser, among, 1, turn=turn, zone=zone)[0] for _ in range(4) for zone in (b"a", b"b")]
    assert sorted(found[0:4:2]) == [1, 2]
    assert sorted(found[1:4:2]) == [101, 102]
    assert found[4:] == found[:4]


def test_turn_of_a_zone_goes_on_when_candidates_come_and_go() -> None:
    table = town(3, 1)
    turn = Turn()
    chooser = ZoneFirst(RoundRobin())
    first = made.picks(chooser, made.all_of(table), 2, turn=turn, zone=b"a")
    assert made.picks(chooser, made.all_of(table), 1, turn=turn, zone=b"a")[0] not in first


def test_within_the_zone_the_inner_chooser_decides() -> None:
    found = made.picks(ZoneFirst(Random()), made.all_of(town(4, 4)), 2000, zone=b"b")
    assert made.is_likely(Counter(found), dict.fromkeys(range(101, 105), 1))


def test_zones_that_are_remembered_are_bounded() -> None:
    """Zones are what callers say; at the bound all are forgotten and learnt again."""
    table = Table()
    for number in range(MAX_ZONES + 5):
        made.joined(table, number, zone=f"z{number}")
    among = made.all_of(table)
    turn = Turn()
    sizes = []
    for number in range(MAX_ZONES + 5):
        assert made.picks(ZoneFirst(RoundRobin()), among, 1, turn=turn, zone=b"z%d" % number) == [number]
        sizes.append(len(turn.zones))
    assert sizes == [1 + number % MAX_ZONES for number in range(MAX_ZONES + 5)]


def mixed(zones: int, routes: int) -> Table:
    """So many routes in each of the zones z0, z1, …"""
    table = Table()
    for number in range(zones * routes):
        made.joined(table, number + 1, zone=f"z{number % zones}")
    return table


def ask_all(query: Query, zones: int) -> Target:
    """Several requests from each zone to one address."""
    target = made.resolve(query, made.address(hints=[(LB_METHOD, "zone_first")], ServiceName="orders"))
    for zone in range(zones):
        for _ in range(4):
            query.choose(target, b"z%d" % zone, made.CALLER, 0.0)
    return target


@pytest.mark.parametrize("is_ill", [False, True])
def test_what_an_address_keeps_of_zones_is_bounded(is_ill: bool) -> None:
    """No list of routes for any zone, and only sets that fit the address as it is now."""
    table = mixed(16, 16)
    query = made.query_of(table)
    target = ask_all(query, 16)
    if is_ill:
        for each in table.routes()[::2]:  # an old set of candidates must not stay
            table.masks.put(table.masks.draining, each.slot)
        for zone in (13, 15, 14):
            query.choose(target, b"z%d" % zone, made.CALLER, 0.0)
    kept = [part for view in target.turn.zones.values() for part in (view.among, view.local, view.rest) if part]
    assert {part.listed_n() for part in kept if part is not target.eligible} <= {0}
    assert {id(view.among) for view in target.turn.zones.values() if view.among} == {id(target.eligible)}
    assert target.eligible is not None
    assert target.eligible.listed_n() <= LISTED
    assert len(target.turn.zones) == MAX_ZONES


def test_while_enough_routes_are_near_the_others_make_no_set() -> None:
    target = ask_all(made.query_of(mixed(3, 10)), 3)
    assert [(view.size(), view.rest) for view in target.turn.zones.values()] == [(10, None)] * 3


@pytest.mark.parametrize("routes, kept", [(MAX_ROUTES // 2, [MAX_ROUTES // 2] * 2), (MAX_ROUTES // 2 + 1, [0, 2049])])
def test_routes_in_the_sets_of_zones_are_bounded(routes: int, kept: list[int]) -> None:
    """Beyond it there are only those of the latest zone; turns go on."""
    target = ask_all(made.query_of(mixed(2, routes)), 2)
    assert [view.size() for view in target.turn.zones.values()] == kept
    assert kept_n(target.turn) == sum(kept)


def test_routes_without_a_zone_are_other_ones() -> None:
    table = made.table_of(2)
    made.joined(table, 3, zone="a")
    assert set(made.picks(ZoneFirst(RoundRobin()), made.all_of(table), 20, zone=b"a")) == {3}
