"""Sticky choices: who was chosen is chosen again, as long as somebody asks and the route may be chosen."""

from collections import Counter

import pytest

from broker.routing.choosers.sticky import KEY_BYTES, Sticky, sticky_key
from broker.routing.policies import Policies, Policy
from broker.routing.query import Query
from broker.routing.table import Table
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST, Address
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, STICKY_ROUTE_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.routing import made

BY_USER: list[tuple[Key, str | None]] = [(STICKY_ROUTE_KEY, "user")]


def asked(query: Query, raw: bytes, now: float = 0.0, origin: bytes = b"o" * 16) -> int:
    """The number of the route that is chosen."""
    return made.number_of(query.choose(made.resolve(query, raw), b"", origin, now))


def of_user(user: str, hints: list[tuple[Key, str | None]] | None = None) -> bytes:
    return made.address(hints=BY_USER if hints is None else hints, service="orders", user=user)


# By the value of a tag


def test_first_choice_is_the_choosers() -> None:
    """D-35."""
    query = made.query_of(made.table_of(4))
    firsts = Counter(asked(query, of_user(str(number))) for number in range(400))
    assert made.is_likely(firsts, dict.fromkeys((1, 2, 3, 4), 1))
    table = made.table_of(2)
    table.routes()[0].load.began(False)
    hints: list[tuple[Key, str | None]] = [*BY_USER, (LB_METHOD, "least_busy")]
    least = made.query_of(table)
    assert {asked(least, of_user(str(number), hints)) for number in range(20)} == {2}


def test_with_strict_hints_a_tag_that_no_route_has_selects_nobody() -> None:
    """D-22 is ours; `test_model` has it."""
    query = made.query_of(made.table_of(3), strict_hints=True)
    assert made.found(query, of_user("8")) == "no-route: no route has user=8"


def test_hint_of_a_one_map_address_is_read_and_does_not_take_part() -> None:
    """D-12."""
    query = made.query_of(made.table_of(3))
    tags = [Tag(STICKY_ROUTE_KEY, b"user"), Tag.of("service", "orders"), Tag.of("user", "7")]
    raw = Address(made.route_id(1), tags, flags=UNICAST).encode()
    number = asked(query, raw)
    assert [asked(query, raw) for _ in range(4)] == [number] * 4
    assert asked(query, of_user("7")) == number


def test_what_else_is_selected_makes_another_choice_and_the_order_does_not() -> None:
    table = made.table_of(9, region="eu")
    query = made.query_of(table)
    one = made.address(hints=BY_USER, service="orders", region="eu", user="7")
    same = made.address(hints=BY_USER, user="7", region="eu", service="orders")
    assert asked(query, one) == asked(query, same)
    asked(query, of_user("7"))
    assert query.sticky.size() == 2


def test_several_keys_are_one_choice_together() -> None:
    query = made.query_of(made.table_of(9))
    both: list[tuple[Key, str | None]] = [(STICKY_ROUTE_KEY, "user"), (STICKY_ROUTE_KEY, "item")]
    for user, item in (("1", "1"), ("1", "2"), ("2", "1"), ("1", "1")):
        asked(query, made.address(hints=both, service="orders", user=user, item=item))
    assert query.sticky.size() == 3


def test_key_that_names_no_tag_says_nothing() -> None:
    """D-35: a hint binds nobody; without any key of a tag the request is like any other."""
    query = made.query_of(made.table_of(3))
    for name in ("device", "", "x" * 127):
        raw = made.address(hints=[(STICKY_ROUTE_KEY, name)], service="orders")
        assert sorted(asked(query, raw) for _ in range(3)) == [1, 2, 3]
    assert query.sticky.size() == 0


@pytest.mark.parametrize("flags", [MULTICAST, SHARD])
def test_only_unicast_requests_are_sticky(flags: int) -> None:
    query = made.query_of(made.table_of(3))
    raw = made.address(flags, [*BY_USER, (SHARD_KEY, "service"), (LB_METHOD, "sticky")], service="orders", user="7")
    assert made.found(query, raw) == "no-route: no route has user=7"


# By the origin


def test_sticky_method_without_a_key_keeps_the_route_of_an_origin() -> None:
    """D-35."""
    query = made.query_of(made.table_of(4))
    raw = made.address(hints=[(LB_METHOD, "sticky")], service="orders")
    origins = [bytes([number]) * 16 for number in range(40)]
    first = [asked(query, raw, origin=origin) for origin in origins]
    assert [asked(query, raw, origin=origin) for origin in origins] == first
    assert Counter(first) == {1: 10, 2: 10, 3: 10, 4: 10}
    assert query.remembered() == 1


def test_policy_of_a_service_may_be_sticky() -> None:
    table = Table(Policies(Policy(), {"orders": Policy(chooser="sticky")}))
    for number in (1, 2, 3):
        made.joined(table, number, "orders")
        made.joined(table, number + 10, "billing")
    query = made.query_of(table)
    assert len({asked(query, made.address(service="orders")) for _ in range(6)}) == 1
    assert len({asked(query, made.address(service="billing")) for _ in range(6)}) == 3
    other = made.address(hints=[(LB_METHOD, "round_robin")], service="orders")
    assert sorted(asked(query, other) for _ in range(3)) == [1, 2, 3]


# How long


def test_choice_is_forgotten_when_nobody_has_used_it_for_the_ttl() -> None:
    """D-35: since the last use, not since the first."""
    query = made.query_of(made.table_of(50, policy=Policy(sticky_ttl_s=10.0)))
    raw = of_user("7")
    number = asked(query, raw, now=100.0)
    assert [asked(query, raw, now=now) for now in (109.0, 118.0, 127.9)] == [number] * 3
    assert asked(query, raw, now=137.9) != number


def test_ttl_of_zero_makes_nobody_sticky() -> None:
    query = made.query_of(made.table_of(3, policy=Policy(sticky_ttl_s=0.0)))
    raw = made.address(hints=[(LB_METHOD, "sticky")], service="orders")
    assert sorted(asked(query, raw) for _ in range(3)) == [1, 2, 3]
    assert made.found(query, of_user("7")) == [1, 2, 3]
    assert len({asked(query, of_user("7")) for _ in range(3)}) == 3
    assert query.sticky.size() == 0


def test_choice_is_kept_when_there_was_only_one_route() -> None:
    table = made.table_of(1)
    query = made.query_of(table)
    assert asked(query, of_user("7")) == 1
    made.joined(table, 2)
    made.joined(table, 3)
    assert {asked(query, of_user("7")) for _ in range(6)} == {1}


@pytest.mark.parametrize("mask", ["draining", "full", "unleased", "ejected", "unhealthy", "congested"])
def test_choice_is_forgotten_when_its_route_may_not_be_chosen(mask: str) -> None:
    """D-35: and not taken up again when it may."""
    table = made.table_of(9)
    query = made.query_of(table)
    first = asked(query, of_user("7"))
    slot = table.routes()[first - 1].slot
    table.masks.put(getattr(table.masks, mask), slot)
    second = asked(query, of_user("7"))
    assert second != first
    table.masks.take(getattr(table.masks, mask), slot)
    assert {asked(query, of_user("7")) for _ in range(9)} == {second}


def test_choice_goes_with_a_route_whose_tags_change_and_ends_with_one_that_leaves() -> None:
    table = made.table_of(9)
    query = made.query_of(table)
    first = asked(query, of_user("7"))
    old = table.routes()[first - 1]
    changed = made.route(first, region="us")
    table.join(changed, made.AT_MS, 0.0, old.load)
    assert {asked(query, of_user("7")) for _ in range(5)} == {first}
    table.leave(changed)
    again = made.route(first)
    table.join(again, made.AT_MS, 0.0)
    assert asked(query, of_user("7")) != first


def test_route_that_no_longer_matches_is_not_chosen() -> None:
    table = made.table_of(3, region="eu")
    query = made.query_of(table)
    raw = made.address(hints=BY_USER, service="orders", region="eu", user="7")
    first = asked(query, raw)
    moved = made.route(first, region="us")
    table.join(moved, made.AT_MS, 0.0, table.routes()[first - 1].load)
    assert first not in {asked(query, raw) for _ in range(5)}


# What is remembered


def test_choices_are_bounded_and_the_longest_unused_is_forgotten() -> None:
    among = made.all_of(made.table_of(1))
    only = among.route_at(0)
    sticky = Sticky(limit=3)
    for key in (b"a", b"b", b"c"):
        sticky.remember(key, only, 10.0, 0.0)
    assert sticky.find(b"a", among, 10.0, 1.0) is only
    sticky.remember(b"d", only, 10.0, 2.0)
    assert sticky.size() == 3
    assert [sticky.find(key, among, 10.0, 3.0) is only for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]


def test_choices_whose_time_is_over_make_room() -> None:
    only = made.table_of(1).routes()[0]
    sticky = Sticky(limit=100)
    for number in range(50):
        sticky.remember(b"%d" % number, only, 10.0, 0.0)
    for number in range(25):
        sticky.remember(b"new %d" % number, only, 10.0, 20.0)
    assert sticky.size() == 25


def test_route_that_has_left_is_forgotten_with_all_that_it_held() -> None:
    table = made.table_of(2)
    query = made.query_of(table)
    number = asked(query, of_user("7"))
    gone = table.routes()[number - 1]
    table.leave(gone)
    assert asked(query, of_user("7")) == made.numbers(table.routes())[0]
    assert query.sticky.size() == 1


def test_key_is_short_whatever_callers_say_and_tells_apart_what_differs() -> None:
    def tags(*pairs: tuple[str, str | None]) -> list[Tag]:
        return [Tag.of(key, value) for key, value in pairs]

    different = [
        sticky_key(tags(("a", "b")), tags(("c", "d"))),
        sticky_key(tags(("a", "b"), ("c", "d")), []),
        sticky_key([], tags(("a", "b"), ("c", "d"))),
        sticky_key(tags(("a", "b")), tags(("c", "e"))),
        sticky_key(tags(("a", "b")), tags(("c", None))),
        sticky_key(tags(("a", "bc")), tags(("d", ""))),
        sticky_key(tags(("k" * 127, "v" * 127)), tags(("x" * 127, "y" * 127))),
    ]
    assert len(set(different)) == len(different)
    assert {len(key) for key in different} == {KEY_BYTES}
    one = sticky_key(tags(("a", "b"), ("c", "d")), tags(("e", "f"), ("g", "h")))
    assert one == sticky_key(tags(("c", "d"), ("a", "b")), tags(("g", "h"), ("e", "f")))
