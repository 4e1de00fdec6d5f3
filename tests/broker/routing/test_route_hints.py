"""What routes say of themselves by tags."""

import pytest

from broker.routing.route_hints import MAX_WEIGHT, is_down, weight_of
from broker.routing.table import Table
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import AT_MS, joined, route


@pytest.mark.parametrize("value, weight", [("1", 1), ("7", 7), ("65535", MAX_WEIGHT), ("00012", 12)])
def test_weight_is_a_whole_number(value: str, weight: int) -> None:
    """D-35."""
    assert weight_of([Tag.of("region", "eu"), Tag.of("weight", value)]) == weight


@pytest.mark.parametrize("value", [None, "", "0", "-1", "65536", "000001", "99999", "1.5", "1e3", "heavy", " 7", "٣"])
def test_anything_else_weighs_one(value: str | None) -> None:
    """D-35: a weight of 0 is none; who wants no requests says so by `health`, or is drained."""
    assert weight_of([Tag.of("weight", value)]) == 1
    assert weight_of([Tag.of("region", "9")]) == 1
    assert weight_of([]) == 1


def test_first_weight_that_is_one_counts() -> None:
    assert weight_of([Tag.of("weight", "x"), Tag.of("weight", "3"), Tag.of("weight", "9")]) == 3


@pytest.mark.parametrize(
    "value, found", [("down", True), ("DOWN", True), ("out", True), ("up", False), ("", False), (None, False)]
)
def test_route_calls_itself_unhealthy(value: str | None, found: bool) -> None:
    """D-34."""
    assert is_down([Tag.of("region", "down"), Tag.of("health", value)]) is found


def test_weight_and_health_follow_the_tags_of_a_route_and_nothing_else_is_lost() -> None:
    table = Table()
    first = joined(table, 1, weight="5", health="down")
    other = joined(table, 2)
    load = first.load
    table.masks.put(table.masks.ejected, first.slot)
    assert (load.weight, other.load.weight, table.masks.unhealthy.to_list()) == (5, 1, [first.slot])
    changed = route(1, weight="7")
    table.join(changed, AT_MS, 0.0, load)
    assert (changed.load is load, load.weight, table.masks.unhealthy.to_list()) == (True, 7, [])
    assert table.masks.ejected.to_list() == [changed.slot]
    again = route(1, health="out")
    table.join(again, AT_MS, 0.0, load)
    assert (load.weight, table.masks.unhealthy.to_list()) == (1, [again.slot])
    table.leave(again)
    assert (table.masks.unhealthy.to_list(), table.masks.ejected.to_list()) == ([], [])
