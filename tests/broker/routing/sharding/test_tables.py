"""The tables that are built of a set of routes: by Route Id, and good for as long as these are the same."""

from broker.routing.sharding.tables import ShardTables
from tests.broker.routing.made import numbers, route


def test_what_is_built_is_taken_over_while_the_route_ids_are_the_same() -> None:
    older = ShardTables([route(3), route(1), route(2)])
    assert numbers(older.by_id) == [1, 2, 3]
    built = (older.maglev, older.ring)
    same, other = ShardTables([route(2, zone="b"), route(3), route(1)]), ShardTables([route(1), route(2), route(4)])
    same.take_over(older)
    other.take_over(older)
    assert (same.maglev, same.ring) == built
    assert (other.must_deal, other.must_point) == (True, True)
