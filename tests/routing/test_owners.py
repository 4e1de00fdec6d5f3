"""The owners of keys: what is kept of sets of routes, for how long, and how much."""

from broker.routing.owners import MAX_HELD_BYTES, Owners
from broker.routing.shard_methods import NAMES, ShardMethod, ShardMethods
from broker.routing.shards import key_hash
from broker.routing.table import Table
from broker.wire.tags import Tag
from tests.routing.made import AT_MS, all_of, joined, route, table_of

KEYS = [key_hash([f"user-{number}".encode()]) for number in range(100)]
FEW = KEYS[:6]
ORDERS = [Tag.of("service", "orders")]
TABLE_BYTES = 65_498  # of a Maglev table


def method(name: str) -> ShardMethod:
    found = ShardMethods().find(name)
    assert found is not None
    return found


def choose(
    owners: Owners, name: str, table: Table, keys: list[int] = KEYS, tags: list[Tag] = ORDERS, generation: int = 0
) -> list[int]:
    """The numbers of the owners of keys among all routes of a table."""
    among = all_of(table)
    generation = generation or table.generation
    return [int.from_bytes(owners.choose(method(name), among, tags, generation, key).id, "big") for key in keys]


def test_what_is_kept_answers_as_if_it_was_built_anew() -> None:
    """Through joins, leaves and routes in other places: a slot is soon another route's."""
    kept, fresh = Owners(), Owners(limit_bytes=0)
    table = table_of(5)
    for change in ("", "join", "leave", "other", "again"):
        if change == "join":
            joined(table, 9)
        elif change == "leave":
            left = table.find(route(2).id)
            assert left is not None
            table.leave(left)
        elif change == "other":  # as many as before, and not the same ones
            left = table.find(route(4).id)
            assert left is not None
            table.leave(left)
            joined(table, 7)
        elif change == "again":
            table.join(route(3, zone="b"), AT_MS + 1)  # a new route with an id that was there
        for name in NAMES:
            assert choose(kept, name, table, FEW) == choose(fresh, name, table, FEW)
            for key in KEYS:
                found = kept.choose(method(name), all_of(table), ORDERS, table.generation, key)
                assert table.find(found.id) is found  # and no route that was there before
    assert (fresh.size(), fresh.held_bytes) == (0, 0)
    assert kept.size() == 1


def test_keys_of_one_service_share_what_is_built() -> None:
    owners = Owners()
    table = table_of(5)
    choose(owners, "maglev", table, KEYS[:1])
    held = owners.held_bytes
    assert (owners.size(), held > TABLE_BYTES) == (1, True)
    choose(owners, "maglev", table, KEYS)
    assert (owners.size(), owners.held_bytes) == (1, held)


def test_table_of_the_same_routes_outlives_a_generation() -> None:
    """Routes of others come and go all the time."""
    owners = Owners()
    table = table_of(5)
    choose(owners, "maglev", table, KEYS[:1])
    held = owners.held_bytes
    choose(owners, "modulo", table, FEW, generation=table.generation + 1)  # needs no table, and yet it is there
    assert owners.held_bytes == held
    joined(table, 6)
    choose(owners, "modulo", table, FEW, generation=table.generation + 1)
    assert owners.held_bytes < TABLE_BYTES


def test_each_selection_of_tags_has_its_own_routes() -> None:
    """Tags that are written one after another must not be taken for others."""
    owners = Owners()
    few, many = table_of(2), table_of(40)
    ab, ba = [Tag.of("a", "b"), Tag.of("c", "d")], [Tag.of("c", "d"), Tag.of("a", "b")]
    assert max(choose(owners, "rendezvous", few, tags=ab)) == 2
    assert max(choose(owners, "rendezvous", many, tags=ba)) > 2
    assert owners.size() == 2


def test_nothing_is_kept_of_an_only_route() -> None:
    owners = Owners()
    for name in NAMES:
        assert choose(owners, name, table_of(1)) == [1] * len(KEYS)
    assert (owners.size(), owners.held_bytes) == (0, 0)


def test_beyond_the_limit_the_longest_unused_is_forgotten() -> None:
    one = Owners()
    table = table_of(3)
    choose(one, "maglev", table, KEYS[:1], [Tag.of("service", "a")])
    owners = Owners(limit_bytes=3 * one.held_bytes)
    for service in ("a", "b", "c", "a", "d"):
        choose(owners, "maglev", table, KEYS[:1], [Tag.of("service", service)])
        assert owners.held_bytes == owners.size() * one.held_bytes
    assert owners.size() == 3
    held = owners.held_bytes
    for service in ("a", "c", "d"):  # they are there: nothing else is forgotten for them
        choose(owners, "modulo", table, KEYS[:1], [Tag.of("service", service)])
        assert owners.held_bytes == held
    choose(owners, "modulo", table, KEYS[:1], [Tag.of("service", "b")])
    assert owners.held_bytes < held


def test_a_million_selections_do_not_fill_the_memory() -> None:
    owners = Owners(limit_bytes=1_000_000)
    table = table_of(3)
    for number in range(5_000):
        choose(owners, "rendezvous", table, KEYS[:1], [Tag.of("service", "orders"), Tag.of("made-up", str(number))])
        assert owners.held_bytes <= 1_000_000
    assert 1_000 < owners.size() < 5_000
    assert MAX_HELD_BYTES == 32 * 1024 * 1024
