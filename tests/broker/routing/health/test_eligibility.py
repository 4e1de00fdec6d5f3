"""Who is chosen while masks, leases and limits keep requests away: the query with the masks of its table."""

import pytest

from broker.routing.policies import Policies, Policy
from broker.routing.query import Query
from broker.routing.table import Table
from rsocket_wire.errors import REJECTED
from rsocket_wire.wire.frames import MULTICAST, SHARD
from rsocket_wire.wire.keys import SHARD_KEY
from tests.broker.routing.made import CALLER, address, chosen, joined, number_of, numbers, query_of, resolve, table_of

ORDERS = address(service="orders")


def put(table: Table, mask: str, *which: int) -> None:
    """Puts routes, by number, behind a mask."""
    for route in table.routes():
        if number_of(route) in which:
            table.masks.put(getattr(table.masks, mask), route.slot)


def take(table: Table, mask: str, *which: int) -> None:
    for route in table.routes():
        if number_of(route) in which:
            table.masks.take(getattr(table.masks, mask), route.slot)


def blocked(query: Query, raw: bytes) -> tuple[str, int]:
    """What a request is refused with that nobody may get; also the answer to whether anybody could."""
    target = resolve(query, raw)
    if target.routing == MULTICAST:
        assert query.members(target) == []
    else:
        assert query.choose(target, b"", CALLER, 0.0) is None
    refusal = target.blocked
    assert refusal is not None
    could = query.find_block(target, 0.0)
    assert could is not None
    assert could.message == refusal.message
    return refusal.message, refusal.code


# Masks


def test_masks_of_others_leave_the_candidates_as_they_are() -> None:
    table = table_of(3)
    joined(table, 9, "billing")
    query = query_of(table)
    target = resolve(query, ORDERS)
    query.choose(target, b"", CALLER, 0.0)
    assert target.eligible is target.candidates
    put(table, "ejected", 9)
    query.choose(target, b"", CALLER, 0.0)
    assert target.eligible is target.candidates


def test_who_may_be_chosen_stays_known_while_other_masks_change() -> None:
    table = table_of(3)
    joined(table, 9, "billing")
    query = query_of(table)
    put(table, "ejected", 1)
    target = resolve(query, ORDERS)
    query.choose(target, b"", CALLER, 0.0)
    before = target.eligible
    assert before is not None
    assert numbers(before.routes()) == [2, 3]
    put(table, "congested", 9)
    query.choose(target, b"", CALLER, 0.0)
    assert target.eligible is before


def test_requests_in_panic_are_counted() -> None:
    """D-34."""
    table = table_of(4)
    query = query_of(table)
    put(table, "ejected", 1, 2)
    assert set(chosen(query, ORDERS, 4)) == {3, 4}
    assert query.panics == 0
    put(table, "ejected", 3)
    assert set(chosen(query, ORDERS, 8)) == {1, 2, 3, 4}
    assert query.panics == 8
    take(table, "ejected", 3)
    assert set(chosen(query, ORDERS, 4)) == {3, 4}
    assert query.panics == 8


def test_threshold_of_panic_is_the_services_that_is_asked_for() -> None:
    table = Table(Policies(Policy(), {"orders": Policy(panic_percent=0)}))
    for number in (1, 2):
        joined(table, number, "orders", region="eu")
    query = query_of(table)
    put(table, "ejected", 1, 2)
    text = "unhealthy: 2 of 2 routes with service=orders are ejected or unhealthy"
    assert blocked(query, ORDERS) == (text, REJECTED)
    assert set(chosen(query, address(region="eu"), 4)) == {1, 2}


# Limits


def test_route_at_its_limit_gets_nothing_until_one_has_ended() -> None:
    table = table_of(2, policy=Policy(max_in_flight_per_route=2))
    query = query_of(table)
    first, second = table.routes()
    for route in (first, first, second):
        route.load.began(True)
    assert set(chosen(query, ORDERS, 3)) == {2}
    second.load.began(True)
    text = "over-limit: of 2 routes with service=orders: 2 have as many requests in flight as they may"
    text += "; protection.max_in_flight_per_route is 2"
    assert blocked(query, ORDERS) == (text, REJECTED)
    target = resolve(query, ORDERS)
    assert target.blocked_service is first.load.service
    first.load.ended(True, 0, 1000, 0.0)
    assert set(chosen(query, ORDERS, 3)) == {1}


def test_service_at_its_limit_gets_nothing_until_one_has_ended() -> None:
    table = Table(Policies(Policy(), {"orders": Policy(max_in_flight_per_service=3)}))
    for number in (1, 2):
        joined(table, number, "orders", region="eu")
    joined(table, 3, "billing")
    query = query_of(table)
    load = table.routes()[0].load
    load.began(True)
    load.began(True)
    load.began(False)
    assert sorted(chosen(query, ORDERS, 2)) == [1, 2]
    load.began(True)
    text = "3 requests are in flight at service orders, protection.max_in_flight_per_service is 3"
    for raw in (ORDERS, address(region="eu"), address(SHARD, [(SHARD_KEY, "region")], service="orders", region="eu")):
        target = resolve(query, raw)
        assert query.choose(target, b"", CALLER, 0.0) is None
        assert target.blocked is not None
        assert (target.blocked.message, target.blocked.code) == (f"over-limit: {text}", REJECTED)
        assert target.blocked_service is load.service
    assert chosen(query, address(service="billing"), 1) == [3]
    load.ended(True, 0, 1000, 0.0)
    assert sorted(chosen(query, ORDERS, 2)) == [1, 2]


# Multicast


def test_multicast_to_nobody_is_refused() -> None:
    table = table_of(2)
    query = query_of(table)
    put(table, "draining", 1, 2)
    raw = address(MULTICAST, service="orders")
    assert blocked(query, raw) == ("draining: of 2 routes with service=orders: 2 are draining", REJECTED)
    take(table, "draining", 1)
    put(table, "unleased", 1)
    text = "no-lease: of 2 routes with service=orders: 1 have no lease left, 1 are draining"
    assert blocked(query, raw) == (text, REJECTED)
    take(table, "unleased", 1)
    assert query.find_block(resolve(query, raw), 0.0) is None


# Shards


def owners(query: Query, users: int = 60) -> list[int]:
    """Who owns the keys 0, 1, 2 …; 0 for a refusal."""
    raws = [address(SHARD, [(SHARD_KEY, "user")], service="orders", user=str(user)) for user in range(users)]
    return [chosen(query, raw, 1)[0] for raw in raws]


@pytest.mark.parametrize("mask", ["ejected", "unhealthy", "congested"])
def test_owner_of_a_key_gets_its_requests_however_it_does(mask: str) -> None:
    """D-34: all brokers must agree, and they see different masks."""
    table = table_of(3)
    query = query_of(table)
    before = owners(query)
    put(table, mask, 1)
    assert owners(query) == before


def test_keys_of_a_draining_route_find_another_owner_and_only_these() -> None:
    """D-34."""
    table = table_of(4)
    query = query_of(table)
    before = owners(query)
    put(table, "draining", 2)
    after = owners(query)
    assert 2 not in after
    assert [one for one, other in zip(before, after, strict=True) if one != other] == [2] * before.count(2)
    take(table, "draining", 2)
    assert owners(query) == before


@pytest.mark.parametrize(
    "mask, text",
    [
        ("unleased", "no-lease: the route that owns the key among those with service=orders has no lease left"),
        (
            "full",
            "over-limit: the route that owns the key among those with service=orders has 0 requests in flight, "
            "protection.max_in_flight_per_route is 1024",
        ),
    ],
)
def test_owner_that_may_not_get_the_request_is_replaced_by_nobody(mask: str, text: str) -> None:
    """D-34."""
    table = table_of(3)
    query = query_of(table)
    before = owners(query)
    put(table, mask, 2)
    assert owners(query) == [number if number != 2 else 0 for number in before]
    user = before.index(2)
    raw = address(SHARD, [(SHARD_KEY, "user")], service="orders", user=str(user))
    assert blocked(query, raw) == (text, REJECTED)
    take(table, mask, 2)
    assert owners(query) == before


def test_key_without_an_owner_is_refused_as_draining() -> None:
    table = table_of(2)
    query = query_of(table)
    put(table, "draining", 1, 2)
    raw = address(SHARD, [(SHARD_KEY, "user")], service="orders", user="7")
    assert blocked(query, raw) == ("draining: of 2 routes with service=orders: 2 are draining", REJECTED)


def test_owner_is_found_once_while_only_masks_change_that_do_not_matter_to_it() -> None:
    table = table_of(3)
    query = query_of(table)
    target = resolve(query, address(SHARD, [(SHARD_KEY, "user")], service="orders", user="7"))
    query.choose(target, b"", CALLER, 0.0)
    owned_at = target.owned_at
    put(table, "congested", 1, 2, 3)
    query.choose(target, b"", CALLER, 0.0)
    assert target.owned_at == owned_at
    put(table, "draining", 1)
    query.choose(target, b"", CALLER, 0.0)
    assert target.owned_at != owned_at
