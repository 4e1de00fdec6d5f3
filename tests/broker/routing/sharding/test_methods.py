"""Shard methods: which of a set of routes owns a key, and how few keys move when the set changes."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.routing.sharding import maglev, rings
from broker.routing.sharding.hashes import key_hash, weight
from broker.routing.sharding.maglev import MaglevTable
from broker.routing.sharding.methods import NAMES, ShardMethods
from broker.routing.sharding.rings import Ring, points_of
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route
from tests.broker.routing.made import route, shard_method

KEYS = [key_hash([f"user-{number}".encode()]) for number in range(100_000)]

# What each method gave when it was written: the owners of the first 20 KEYS among `uuids(7)`, by number.
VECTORS = {
    "rendezvous": [3, 2, 6, 6, 1, 1, 2, 5, 1, 5, 5, 1, 5, 4, 2, 3, 2, 1, 2, 3],
    "maglev": [1, 5, 4, 0, 3, 3, 2, 5, 4, 1, 4, 4, 1, 2, 4, 0, 6, 0, 2, 2],
    "ring": [4, 4, 0, 1, 2, 3, 4, 6, 2, 0, 6, 5, 1, 1, 1, 3, 0, 4, 4, 4],
    "jump": [3, 5, 6, 5, 0, 4, 4, 4, 5, 4, 4, 6, 6, 2, 2, 6, 2, 0, 0, 4],
    "modulo": [3, 0, 3, 1, 5, 2, 4, 3, 1, 5, 2, 6, 2, 4, 1, 1, 3, 3, 3, 4],
}


def uuids(count: int) -> list[Route]:
    """Routes whose ids look like everybody's; number n is the same route in every list, and not the n-th by id."""
    return [Route(hashlib.md5(b"route %d" % number).digest(), "orders", [], None) for number in range(count)]


def owners(name: str, routes: list[Route], keys: list[int] = KEYS) -> list[Route]:
    by = shard_method(name)
    among = ShardTables(routes)
    return [by.choose(among, key) for key in keys]


def indices(name: str, routes: list[Route], keys: list[int]) -> list[int]:
    """OwnerCache, as positions in the list."""
    numbers = {each.id: number for number, each in enumerate(routes)}
    return [numbers[owner.id] for owner in owners(name, routes, keys)]


def moved(before: list[Route], after: list[Route]) -> list[tuple[bytes, bytes]]:
    """Old and new owner of each key that has another one."""
    return [(old.id, new.id) for old, new in zip(before, after, strict=True) if old.id != new.id]


# Always the same


@pytest.mark.parametrize("name", NAMES)
def test_owners_of_no_method_ever_change(name: str) -> None:
    """D-36: brokers of different versions must agree; these vectors are part of the protocol between them."""
    assert indices(name, uuids(7), KEYS[:20]) == VECTORS[name]


@given(
    name=st.sampled_from(NAMES),
    ids=st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=12, unique=True),
    keys=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20),
    data=st.data(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_order_in_which_routes_are_met_does_not_matter(
    name: str, ids: list[int], keys: list[int], data: st.DataObject
) -> None:
    """D-36: brokers meet the same routes in other orders."""
    other = data.draw(st.permutations(ids))
    expected = [owner.id for owner in owners(name, [route(number) for number in ids], keys)]
    assert [owner.id for owner in owners(name, [route(number) for number in other], keys)] == expected


@pytest.mark.parametrize("name", NAMES)
def test_only_route_owns_every_key(name: str) -> None:
    only = uuids(1)
    assert owners(name, only, [0, 1, 2**31 - 1, *KEYS[:20]]) == only * 23


@pytest.mark.parametrize("name", NAMES)
def test_smallest_and_largest_hashes_have_owners(name: str) -> None:
    routes = uuids(5)
    assert all(owner in routes for owner in owners(name, routes, [0, 1, 2**31 - 2, 2**31 - 1]))


@pytest.mark.parametrize(
    "name, plain",
    [
        ("Rendezvous", "rendezvous"),
        ("highest-random-weight", "rendezvous"),
        ("HRW", "rendezvous"),
        ("MAGLEV", "maglev"),
        ("ring_hash", "ring"),
        ("Ketama", "ring"),
        ("consistent hash", "ring"),
        ("jump-hash", "jump"),
        ("jump_consistent_hash", "jump"),
        ("mod", "modulo"),
    ],
)
def test_names_of_others_are_understood(name: str, plain: str) -> None:
    assert shard_method(name).name == plain


@pytest.mark.parametrize("name", ["", "murmur", "rendezvous2", "round_robin", "\x00", "maglev:ring"])
def test_unknown_names_find_nothing(name: str) -> None:
    assert ShardMethods().find(name) is None


# Which keys move


@pytest.mark.parametrize("count", [2, 8])
def test_rendezvous_moves_keys_to_the_route_that_joins_and_no_others(count: int) -> None:
    routes = uuids(count + 1)
    moves = moved(owners("rendezvous", routes[:-1]), owners("rendezvous", routes))
    assert {new for _, new in moves} == {routes[-1].id}
    assert len(moves) <= len(KEYS) * (1 / (count + 1) + 0.01)


def test_rendezvous_moves_keys_of_the_route_that_leaves_and_no_others() -> None:
    routes = uuids(8)
    moves = moved(owners("rendezvous", routes), owners("rendezvous", routes[1:]))
    assert {old for old, _ in moves} == {routes[0].id}
    assert len(moves) <= len(KEYS) * (1 / 8 + 0.01)


@pytest.mark.parametrize("gone", [0, 3, 7])
def test_ring_moves_keys_of_the_changed_route_and_no_others(gone: int) -> None:
    """Its share is less even: at most a quarter more than 1/N."""
    routes = uuids(8)
    fewer = routes[:gone] + routes[gone + 1 :]
    leaving = moved(owners("ring", routes), owners("ring", fewer))
    assert {old for old, _ in leaving} == {routes[gone].id}
    assert len(leaving) <= len(KEYS) * 1.25 / 8
    joining = moved(owners("ring", fewer), owners("ring", routes))
    assert joining == [(new, old) for old, new in leaving]


@pytest.mark.parametrize("count", [128, 129, 200, 400])
def test_ring_of_many_routes_moves_little_more_though_all_have_fewer_points(count: int) -> None:
    """One after the other loses a point: as many keys again as go to the route that joins."""
    routes = uuids(count + 1)
    moves = moved(owners("ring", routes[:-1]), owners("ring", routes))
    assert len(moves) <= len(KEYS) * 3 / (count + 1)


@pytest.mark.parametrize("count, others", [(2, 0.005), (8, 0.01), (50, 0.02)])
def test_maglev_moves_few_keys_between_routes_that_stay(count: int, others: float) -> None:
    routes = uuids(count + 1)
    moves = moved(owners("maglev", routes[:-1]), owners("maglev", routes))
    to_the_new_one = [new for _, new in moves if new == routes[-1].id]
    assert len(to_the_new_one) <= len(KEYS) * (1 / (count + 1) + 0.01)
    assert len(moves) - len(to_the_new_one) <= len(KEYS) * others


def test_jump_moves_only_the_share_of_a_route_that_joins_with_the_last_id() -> None:
    routes = sorted(uuids(9), key=lambda each: each.id)
    moves = moved(owners("jump", routes[:-1]), owners("jump", routes))
    assert {new for _, new in moves} == {routes[-1].id}
    assert len(moves) <= len(KEYS) * (1 / 9 + 0.01)


def test_jump_moves_nearly_all_keys_when_the_route_with_the_first_id_leaves() -> None:
    routes = sorted(uuids(8), key=lambda each: each.id)
    assert len(moved(owners("jump", routes), owners("jump", routes[1:]))) >= len(KEYS) * 0.9


def test_modulo_moves_nearly_all_keys() -> None:
    routes = uuids(9)
    moves = moved(owners("modulo", routes[:-1]), owners("modulo", routes))
    assert len(KEYS) * 0.8 <= len(moves) <= len(KEYS) * 0.95


# How evenly keys are spread


@pytest.mark.parametrize(
    "name, more", [("rendezvous", 0.03), ("maglev", 0.03), ("ring", 0.25), ("jump", 0.03), ("modulo", 0.03)]
)
def test_keys_are_spread_evenly(name: str, more: float) -> None:
    routes = uuids(10)
    found = Counter(owner.id for owner in owners(name, routes))
    mean = len(KEYS) / 10
    assert sum(found.values()) == len(KEYS)
    assert all(mean * (1 - more) <= found[each.id] <= mean * (1 + more) for each in routes)


@pytest.mark.parametrize("name", NAMES)
def test_keys_that_count_up_are_spread_evenly_too(name: str) -> None:
    routes = uuids(4)
    found = Counter(owner.id for owner in owners(name, routes, [key_hash([b"%d" % key]) for key in range(20_000)]))
    assert all(5000 * 0.8 <= found[each.id] <= 5000 * 1.2 for each in routes)


def test_keys_of_a_route_that_leaves_are_spread_over_the_others() -> None:
    routes = uuids(5)
    for name in ("rendezvous", "maglev", "ring"):
        moves = moved(owners(name, routes), owners(name, routes[1:]))
        heirs = Counter(new for old, new in moves if old == routes[0].id)
        mean = sum(heirs.values()) / 4
        assert all(mean * 0.5 <= heirs[each.id] <= mean * 1.5 for each in routes[1:]), name


# Tables


def test_shares_in_a_maglev_table_differ_by_one_entry() -> None:
    for count in (1, 2, 7, 1000):
        table = MaglevTable(uuids(count))
        shares = Counter(table.position_of(entry) for entry in range(maglev.ENTRIES))
        assert sorted(shares) == list(range(count))
        assert max(shares.values()) - min(shares.values()) <= 1


def test_number_of_entries_is_a_prime() -> None:
    """Or the walk of a route would not meet all of them."""
    assert all(maglev.ENTRIES % divisor for divisor in range(2, int(maglev.ENTRIES**0.5) + 1))


def test_routes_share_the_points_of_a_ring() -> None:
    for count in (1, 2, 128):
        assert [points_of(each, count) for each in uuids(count)] == [rings.POINTS_PER_ROUTE] * count
    for count in (129, 1000, 10_000, rings.MAX_ROUTES):
        points = [points_of(each, count) for each in uuids(count)]
        part = rings.MAX_POINTS / count
        assert all(int(part) <= each <= int(part) + 1 for each in points)
        assert abs(sum(points) - rings.MAX_POINTS) <= rings.MAX_POINTS * 0.02


def test_key_belongs_to_the_next_point_and_behind_the_last_to_the_first() -> None:
    routes = uuids(3)
    ring = Ring(routes)
    points = sorted((weight(each, number), position) for position, each in enumerate(routes) for number in range(128))
    edges = [point + step for point, _ in points for step in (-1, 0, 1)]
    for key in [0, 2**31 - 1, *edges, *KEYS[:100]]:
        expected = next((position for point, position in points if point >= key), points[0][1])
        assert ring.position_of(key) == expected


@pytest.mark.parametrize("name, bound", [("maglev", maglev.MAX_ROUTES), ("ring", rings.MAX_ROUTES)])
def test_more_routes_than_a_table_can_name_are_sharded_by_rendezvous(name: str, bound: int) -> None:
    """A table has at least one entry or point of each route; it is the last size that fits, and one more."""
    routes = uuids(bound + 1)
    fits, too_many = ShardTables(routes[:-1]), ShardTables(routes)
    by = shard_method(name)
    assert by.choose(fits, KEYS[0]) in routes
    assert fits.held_bytes() > too_many.held_bytes()
    assert by.choose(too_many, KEYS[0]) is shard_method("rendezvous").choose(too_many, KEYS[0])
    assert too_many.held_bytes() == 400 + 8 * (bound + 1)
