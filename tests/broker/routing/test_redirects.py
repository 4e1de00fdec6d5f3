"""Redirects (D-55) and locality (D-52): what a query finds instead of what the ADDRESS names, and what comes first."""

from __future__ import annotations

from broker.routing.bitmaps import Slots
from broker.routing.query import Query
from broker.routing.table import Table
from rsocket_wire.wire.frames import MULTICAST, SHARD
from rsocket_wire.wire.keys import SHARD_KEY
from tests.broker.routing.made import (
    CALLER,
    address,
    chosen,
    joined,
    number_of,
    numbers,
    query_of,
    resolve,
    slots,
    table_of,
)

ORDERS = address(service="orders")


def two_services() -> tuple[Table, Query]:
    """Routes 1 and 2 are `orders`, 11 and 12 `orders-next`; 2 and 12 are in `eu`."""
    table = Table()
    for number, name, region in ((1, "orders", "us"), (2, "orders", "eu"), (11, "orders-next", "us")):
        joined(table, number, name, region=region)
    joined(table, 12, "orders-next", region="eu")
    return table, query_of(table)


def far(table: Table, *which: int) -> Slots:
    """Puts routes, by number, behind the mask of those that other brokers have; their slots."""
    moved = slots(*[route.slot for route in table.routes() if number_of(route) in which])
    for slot in moved.to_list():
        table.masks.put(table.masks.remote, slot)
        table.masks.put(table.masks.elsewhere, slot)
    return moved


def test_a_redirected_service_is_looked_for_under_its_other_name_with_the_same_tags() -> None:
    """D-55."""
    _, query = two_services()
    asked = address(service="orders", region="eu")
    target = resolve(query, asked)
    assert (set(chosen(query, ORDERS, 8)), chosen(query, asked, 2), target.redirected) == ({1, 2}, [2, 2], "")
    query.set_redirects({"orders": "orders-next"})
    assert (set(chosen(query, ORDERS, 8)), chosen(query, asked, 2)) == ({11, 12}, [12, 12])
    assert resolve(query, asked) is target
    assert (target.redirected, target.service, target.asked_service) == ("orders-next", "orders-next", "orders")
    assert target.label == "service=orders-next region=eu"
    query.set_redirects({})
    assert (chosen(query, asked, 2), target.redirected, target.label) == ([2, 2], "", "service=orders region=eu")


def test_a_redirect_is_one_step() -> None:
    """D-55: of a -> b, b -> c, a goes to b; so redirects never go round."""
    table, query = two_services()
    query.set_redirects({"orders": "orders-next", "orders-next": "orders"})
    assert set(chosen(query, ORDERS, 4)) == {11, 12}
    assert set(chosen(query, address(service="orders-next"), 4)) == {1, 2}
    assert table.size() == 4


def test_a_redirect_to_nobody_says_so() -> None:
    _, query = two_services()
    query.set_redirects({"orders": "gone"})
    refusal = resolve(query, ORDERS).refusal
    assert refusal is not None
    assert refusal.message == "no-route: no route has service=gone"


def test_redirects_hold_for_multicast_and_shard_requests() -> None:
    """D-55."""
    _, query = two_services()
    query.set_redirects({"orders": "orders-next"})
    assert numbers(query.members(resolve(query, address(MULTICAST, service="orders")))) == [11, 12]
    keyed = address(SHARD, [(SHARD_KEY, "customer")], service="orders", customer="7")
    direct = address(SHARD, [(SHARD_KEY, "customer")], service="orders-next", customer="7")
    assert chosen(query, keyed, 1) == chosen(query, direct, 1)


def test_what_another_broker_redirected_is_found_whatever_this_one_knows() -> None:
    """D-55."""
    _, query = two_services()
    target = query.resolve_as(ORDERS, 0, len(ORDERS), "orders-next")
    assert query.resolve_as(ORDERS, 0, len(ORDERS), "orders-next") is target
    query.set_redirects({"orders": "gone"})
    query.refresh(target)
    route = query.choose(target, b"", CALLER, 0.0)
    assert route is not None
    assert number_of(route) in (11, 12)


def test_routes_of_this_broker_come_first_and_those_of_others_when_none_is_left() -> None:
    """D-52."""
    table = table_of(4)
    query = query_of(table)
    far(table, 1, 2)
    assert sorted(chosen(query, ORDERS, 4)) == [3, 3, 4, 4]
    for route in table.routes():
        if number_of(route) in (3, 4):
            table.masks.put(table.masks.draining, route.slot)
    assert sorted(chosen(query, ORDERS, 4)) == [1, 1, 2, 2]


def test_even_locality_makes_no_difference_between_brokers() -> None:
    """D-52."""
    table = table_of(4)
    query = query_of(table)
    query.prefers_local = False
    far(table, 1, 2)
    assert sorted(chosen(query, ORDERS, 4)) == [1, 2, 3, 4]


def test_a_congested_route_of_this_broker_is_worse_than_a_free_one_of_another() -> None:
    """D-52: local first only among those that may be chosen."""
    table = table_of(2)
    query = query_of(table)
    far(table, 1)
    for route in table.routes():
        if number_of(route) == 2:
            table.masks.put(table.masks.congested, route.slot)
    assert chosen(query, ORDERS, 2) == [1, 1]


def test_who_owns_a_key_and_whom_a_multicast_reaches_does_not_depend_on_where_routes_are() -> None:
    """D-52."""
    table = table_of(4)
    query = query_of(table)
    keyed = address(SHARD, [(SHARD_KEY, "customer")], service="orders", customer="7")
    owner = chosen(query, keyed, 1)
    far(table, *owner)
    assert chosen(query, keyed, 1) == owner
    assert numbers(query.members(resolve(query, address(MULTICAST, service="orders")))) == [1, 2, 3, 4]


def test_a_choice_besides_some_routes_never_falls_on_them() -> None:
    """D-50."""
    table = table_of(3)
    query = query_of(table)
    target = resolve(query, ORDERS)
    barred = far(table, 1, 3)
    found = [query.choose_excluding(target, barred, b"", CALLER, 0.0) for _ in range(4)]
    assert [number_of(route) for route in found if route is not None] == [2, 2, 2, 2]
    barred = far(table, 1, 2, 3)
    assert query.choose_excluding(target, barred, b"", CALLER, 0.0) is None
    assert target.blocked is not None
    assert target.blocked.message == "no-route: none of the 3 routes with service=orders can be reached from here"


def test_a_key_has_no_other_owner_when_its_own_is_barred() -> None:
    """D-50."""
    table = table_of(3)
    query = query_of(table)
    keyed = address(SHARD, [(SHARD_KEY, "customer")], service="orders", customer="7")
    target = resolve(query, keyed)
    owner = chosen(query, keyed, 1)
    other = far(table, *({1, 2, 3} - set(owner)))
    kept = query.choose_excluding(target, other, b"", CALLER, 0.0)
    assert kept is not None
    assert number_of(kept) == owner[0]
    assert query.choose_excluding(target, far(table, *owner), b"", CALLER, 0.0) is None
    assert target.blocked is not None
    assert target.blocked.word == "no-route"
