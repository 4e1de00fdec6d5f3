"""The owners of keys: what is kept of sets of routes, for how long, how much, and how much is built in a second."""

import pytest

from broker.routing.candidates import Candidates
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.sharding.cache import FRESH_S, MAX_BUILT_PER_S, MAX_HELD_BYTES, OwnerCache
from broker.routing.sharding.hashes import key_hash
from broker.routing.table import Table
from rsocket_wire.errors import REJECTED
from rsocket_wire.methods import SHARD_METHODS
from rsocket_wire.wire.frames import SHARD, Address
from rsocket_wire.wire.keys import SERVICE_NAME, SHARD_KEY, SHARD_METHOD, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.routing import made

KEYS = [key_hash([f"user-{number}".encode()]) for number in range(100)]
FEW = KEYS[:6]
KEY_OF_ADA = key_hash([b"ada"])
TABLE_BYTES = 65_498  # of a Maglev table


def choose(
    owners: OwnerCache, name: str, among: Candidates, keys: list[int] = KEYS, generation: int = 1, now: float = 0.0
) -> list[int]:
    """The numbers of the owners of keys; none where nothing may be built."""
    found = [owners.choose(made.shard_method(name), among, generation, key, now) for key in keys]
    return made.numbers([each for each in found if each is not None])


def sets_of(table: Table, count: int) -> list[Candidates]:
    """Different sets of two routes."""
    size = table.size()
    pairs = [(one, other) for one in range(size) for other in range(one)][:count]
    assert len(pairs) == count
    found = [made.all_of(table).among(made.slots(*pair)) for pair in pairs]
    return [each for each in found if each is not None]


# What is kept


def test_what_is_kept_answers_as_if_it_was_built_anew() -> None:
    """Through joins, leaves and routes in other places: a slot is soon another route's."""
    kept, fresh = OwnerCache(), OwnerCache(limit_bytes=0)
    table = made.table_of(5)
    now = 0.0
    for change in ("", "join", "leave", "other", "again", "swap"):
        if change == "join":
            made.joined(table, 9)
        elif change in ("leave", "other", "swap"):
            left = [
                table.find(made.route_id(number)) for number in {"leave": (2,), "other": (4,), "swap": (1, 5)}[change]
            ]
            for each in left:
                assert each is not None
                table.leave(each)
            for number in {"leave": (), "other": (7,), "swap": (1, 5)}[change]:
                made.joined(
                    table, number
                )  # other: as many as before, and not the same ones; swap: in each other's slots
        elif change == "again":
            table.join(made.route(3, zone="b"), made.AT_MS + 1)  # a new route with an id that was there
        for name in SHARD_METHODS:
            for key in KEYS[:20]:  # `fresh` builds a table for each
                now += 1.0
                found = kept.choose(made.shard_method(name), made.all_of(table), table.generation, key, now)
                assert found is not None
                assert found is fresh.choose(made.shard_method(name), made.all_of(table), table.generation, key, now)
                assert table.find(found.id) is found  # and no route that was there before
    assert (fresh.size(), fresh.held_bytes) == (0, 0)


@pytest.mark.parametrize("name", SHARD_METHODS)
def test_the_same_routes_share_what_is_built_whatever_tags_found_them(name: str) -> None:
    """Or somebody who writes the same tags otherwise each time would have a table built for each request."""
    table = made.table_of(2, a="1", b="2", c="3")
    made.joined(table, 3, "billing", a="1")
    query = Query(table, Rng(1))
    tags = [
        Tag(SERVICE_NAME, b"orders"),
        *(Tag.of(key, value) for key, value in {"a": "1", "b": "2", "c": "3"}.items()),
    ]
    hints = [Tag(SHARD_KEY, b"user"), Tag(SHARD_METHOD, name.encode())]
    found: list[int] = []
    for turn in range(4 * MAX_BUILT_PER_S):
        written = [tags[0]] * (1 + turn // 16 % 8) + [each for bit, each in enumerate(tags) if turn >> bit & 1]
        written = written[::-1] if turn % 3 else written
        raw = Address(made.CALLER, [*written, Tag(Key.text("user"), b"ada")], hints, b"", SHARD).encode()
        chosen = query.choose(query.resolve(raw, 0, len(raw)), b"", made.CALLER, 0.0)
        assert chosen is not None
        found += made.numbers([chosen])
    assert found == choose(OwnerCache(), name, made.all_of(made.table_of(2)), [KEY_OF_ADA]) * len(found)
    assert query.owner_cache.size() == 1


def test_keys_of_one_service_share_what_is_built() -> None:
    owners = OwnerCache()
    among = made.all_of(made.table_of(5))
    choose(owners, "maglev", among, KEYS[:1])
    held = owners.held_bytes
    assert (owners.size(), held > TABLE_BYTES) == (1, True)
    choose(owners, "maglev", among, KEYS)
    assert (owners.size(), owners.held_bytes) == (1, held)


@pytest.mark.parametrize("name", ["maglev", "ring"])
def test_table_of_the_same_routes_outlives_a_generation(name: str) -> None:
    """Routes of others come and go all the time, and routes change their tags."""
    owners = OwnerCache()
    table = made.table_of(5)
    choose(owners, name, made.all_of(table), FEW, 1)
    held = owners.held_bytes
    choose(owners, "modulo", made.all_of(table), FEW, 2)  # needs no table, and yet it is there
    assert owners.held_bytes == held
    table.join(made.route(3, zone="b"), made.AT_MS + 1)
    choose(owners, "modulo", made.all_of(table), FEW, 3)
    assert owners.held_bytes == held
    left = table.find(made.route_id(3))
    assert left is not None
    table.leave(left)
    made.joined(table, 6)  # in its slot
    choose(owners, "modulo", made.all_of(table), FEW, 4)
    assert owners.held_bytes < held
    assert owners.size() == 1


def test_nothing_is_kept_of_an_only_route() -> None:
    owners = OwnerCache()
    for name in SHARD_METHODS:
        assert choose(owners, name, made.all_of(made.table_of(1))) == [1] * len(KEYS)
    assert (owners.size(), owners.held_bytes) == (0, 0)


# What is forgotten


def held_of_one(table: Table) -> int:
    owners = OwnerCache()
    choose(owners, "maglev", sets_of(table, 1)[0], FEW)
    return owners.held_bytes


def is_kept(owners: OwnerCache, among: Candidates, now: float) -> bool:
    """Asking for what is kept adds nothing."""
    held = owners.held_bytes
    choose(owners, "modulo", among, FEW[:1], now=now)
    return owners.held_bytes == held and owners.size() * held_of_one(made.table_of(9)) == held


def test_beyond_the_limit_the_longest_unused_is_forgotten() -> None:
    table = made.table_of(9)
    a, b, c, d = sets_of(table, 4)
    owners = OwnerCache(limit_bytes=3 * held_of_one(table))
    for turn, among in enumerate((a, b, c, a, b, c, a, c, d)):
        choose(owners, "maglev", among, FEW[:1], now=turn * FRESH_S)
        assert owners.held_bytes == owners.size() * held_of_one(table)
    assert owners.size() == 3
    assert [is_kept(owners, among, 100.0) for among in (a, c, d)] == [True] * 3
    assert not is_kept(owners, b, 200.0)


def test_what_was_used_only_once_is_forgotten_before_what_was_used_again() -> None:
    table = made.table_of(9)
    a, b, c, d = sets_of(table, 4)
    owners = OwnerCache(limit_bytes=3 * held_of_one(table))
    for turn, among in enumerate((a, a, b, b, c, d)):
        choose(owners, "maglev", among, FEW[:1], now=turn * FRESH_S)
    assert [is_kept(owners, among, 100.0) for among in (a, b, d)] == [True] * 3


def test_what_is_in_use_is_not_forgotten_for_a_flood_of_sets_used_once() -> None:
    table = made.table_of(40)
    mine, *others = sets_of(table, 100)
    limit_bytes = 3 * held_of_one(table)
    owners = OwnerCache(limit_bytes=limit_bytes)
    choose(owners, "maglev", mine, FEW)
    for turn, other in enumerate(others):
        now = turn * 0.9 * FRESH_S / 10
        choose(owners, "maglev", other, FEW[:1], now=now)
        assert owners.held_bytes <= limit_bytes
        if turn % 10 == 9:
            assert is_kept(owners, mine, now)


def test_new_sets_get_a_place_among_those_that_are_not_in_use() -> None:
    """Or what once was used twice would hold it for ever."""
    table = made.table_of(9)
    a, b, c, d = sets_of(table, 4)
    owners = OwnerCache(limit_bytes=3 * held_of_one(table))
    for among in (a, a, b, b, c, c):
        choose(owners, "maglev", among, FEW[:1], now=0.0)
    choose(owners, "maglev", d, FEW[:1], now=FRESH_S / 2)
    assert [is_kept(owners, among, FRESH_S / 2) for among in (a, b, c)] == [True] * 3
    choose(owners, "maglev", d, FEW[:1], now=2 * FRESH_S)
    assert [is_kept(owners, among, 2 * FRESH_S) for among in (b, c, d)] == [True] * 3


def test_a_million_sets_do_not_fill_the_memory() -> None:
    owners = OwnerCache(limit_bytes=1_000_000)
    for among in sets_of(made.table_of(101), 5_000):
        choose(owners, "rendezvous", among, KEYS[:1])
        assert owners.held_bytes <= 1_000_000
    assert 1_000 < owners.size() < 5_000
    assert MAX_HELD_BYTES == 32 * 1024 * 1024


# What is built in a second


@pytest.mark.parametrize("name", ["maglev", "ring"])
def test_so_many_tables_are_built_in_a_second_and_no_more(name: str) -> None:
    owners = OwnerCache()
    sets = sets_of(made.table_of(30), 3 * MAX_BUILT_PER_S)
    assert [len(choose(owners, name, among, FEW, now=50.0)) for among in sets] == [6] * MAX_BUILT_PER_S + [0] * 200
    assert owners.size() == MAX_BUILT_PER_S  # what was refused takes no place
    assert [len(choose(owners, name, among, FEW, now=50.0)) for among in sets[:100]] == [6] * 100  # they are there
    assert [len(choose(owners, name, among, FEW, now=50.1)) for among in sets[100:]] == [6] * 10 + [0] * 190
    assert [len(choose(owners, name, among, FEW, now=60.0)) for among in sets[110:]] == [6] * 100 + [0] * 90


def test_methods_that_build_nothing_have_no_such_bound() -> None:
    """Nor do lists of so few routes."""
    sets = sets_of(made.table_of(30), 3 * MAX_BUILT_PER_S)
    for name in ("rendezvous", "jump", "modulo"):
        assert {len(choose(OwnerCache(), name, among, FEW)) for among in sets} == {6}


@pytest.mark.parametrize("size, is_bound", [(1000, False), (1001, True)])
def test_to_sort_more_than_a_thousand_routes_counts_as_a_table(size: int, is_bound: bool) -> None:
    everybody = made.all_of(made.table_of(size + 1))
    owners = OwnerCache()
    found: list[int] = []
    for gone in range(MAX_BUILT_PER_S + 1):
        among = everybody.among(everybody.slots.without(made.slots(gone)))
        assert among is not None
        found.append(len(choose(owners, "jump", among, FEW[:1])))
    assert found == [1] * MAX_BUILT_PER_S + [0 if is_bound else 1]


def test_request_beyond_the_bound_is_refused_and_served_when_it_comes_again() -> None:
    """D-36: never by another method, or brokers would not agree."""
    table = made.table_of(2, a="1")
    made.joined(table, 3)
    query = Query(table, Rng(1))
    for among in sets_of(made.table_of(30), MAX_BUILT_PER_S):
        choose(query.owner_cache, "ring", among, FEW)
    hints = [Tag(SHARD_KEY, b"user"), Tag(SHARD_METHOD, b"maglev")]
    tags = [Tag(SERVICE_NAME, b"orders"), Tag.of("a", "1"), Tag(Key.text("user"), b"ada")]
    raw = Address(made.CALLER, tags, hints, b"", SHARD).encode()
    target = query.resolve(raw, 0, len(raw))
    for _ in range(2):
        assert query.choose(target, b"", made.CALLER, 0.0) is None
        text = "over-limit: the routes with service=orders a=1 have no shard table yet, and 100 a second are built"
        assert target.blocked is not None
        assert (target.blocked.message, target.blocked.code) == (text, REJECTED)
        assert target.blocked_service is None  # it is no limit of the service
        assert query.find_block(target, 0.0) is target.blocked
    chosen = query.choose(target, b"", made.CALLER, 0.1)
    assert chosen is not None
    assert made.numbers([chosen]) == choose(OwnerCache(), "maglev", made.all_of(made.table_of(2)), [KEY_OF_ADA])
    assert query.find_block(target, 0.1) is None
