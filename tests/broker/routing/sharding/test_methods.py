"""Shard methods: which of a set of routes owns a key, and how few keys move when the set changes."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.routing.sharding import maglev, rings
from broker.routing.sharding.hashes import key_hash
from broker.routing.sharding.methods import ShardMethods
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route
from rsocket_wire.methods import SHARD_METHODS
from tests.broker.routing.made import route, shard_method
from tests.broker.routing.sharding.owners import KEYS, moved, owners, uuids

# What each method gave when it was written: the owners of the first 20 KEYS among `uuids(7)`, by number.
VECTORS = {
    "rendezvous": [3, 2, 6, 6, 1, 1, 2, 5, 1, 5, 5, 1, 5, 4, 2, 3, 2, 1, 2, 3],
    "maglev": [1, 5, 4, 0, 3, 3, 2, 5, 4, 1, 4, 4, 1, 2, 4, 0, 6, 0, 2, 2],
    "ring": [4, 4, 0, 1, 2, 3, 4, 6, 2, 0, 6, 5, 1, 1, 1, 3, 0, 4, 4, 4],
    "jump": [3, 5, 6, 5, 0, 4, 4, 4, 5, 4, 4, 6, 6, 2, 2, 6, 2, 0, 0, 4],
    "modulo": [3, 0, 3, 1, 5, 2, 4, 3, 1, 5, 2, 6, 2, 4, 1, 1, 3, 3, 3, 4],
}


def indices(name: str, routes: list[Route], keys: list[int]) -> list[int]:
    """OwnerCache, as positions in the list."""
    numbers = {each.id: number for number, each in enumerate(routes)}
    return [numbers[owner.id] for owner in owners(name, routes, keys)]


# Always the same


@pytest.mark.parametrize("name", SHARD_METHODS)
def test_owners_of_no_method_ever_change(name: str) -> None:
    """D-36: brokers of different versions must agree; these vectors are part of the protocol between them."""
    assert indices(name, uuids(7), KEYS[:20]) == VECTORS[name]


@given(
    name=st.sampled_from(SHARD_METHODS),
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


@pytest.mark.parametrize("name", SHARD_METHODS)
def test_only_route_owns_every_key(name: str) -> None:
    only = uuids(1)
    assert owners(name, only, [0, 1, 2**31 - 1, *KEYS[:20]]) == only * 23


@pytest.mark.parametrize("name", SHARD_METHODS)
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
    "name, more", [("rendezvous", 0.06), ("maglev", 0.06), ("ring", 0.25), ("jump", 0.06), ("modulo", 0.06)]
)
def test_keys_are_spread_evenly(name: str, more: float) -> None:
    routes = uuids(10)
    found = Counter(owner.id for owner in owners(name, routes))
    mean = len(KEYS) / 10
    assert sum(found.values()) == len(KEYS)
    assert all(mean * (1 - more) <= found[each.id] <= mean * (1 + more) for each in routes)


@pytest.mark.parametrize("name", SHARD_METHODS)
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
