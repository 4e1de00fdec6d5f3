"""Candidates: the routes behind a set of slots."""

import pytest

from broker.routing.bitmaps import Slots
from broker.routing.candidates import LISTED, Candidates
from tests.routing.made import all_of, joined, numbers, route_id, table_of


@pytest.mark.parametrize("count", [1, 5, LISTED, LISTED + 1])
def test_routes_stand_in_the_order_of_their_slots(count: int) -> None:
    candidates = all_of(table_of(count))
    assert candidates.size == count
    assert numbers(candidates.routes()) == list(range(1, count + 1))


@pytest.mark.parametrize("count", [3, LISTED + 1])
def test_position_gives_the_same_route_however_often_it_is_asked(count: int) -> None:
    candidates = all_of(table_of(count))
    for position in (0, count - 1, 1, 0, count - 1, 1):
        assert numbers([candidates.route_at(position)]) == [position + 1]


def test_only_slots_of_the_set_are_candidates() -> None:
    table = table_of(3)
    first = table.find(route_id(1))
    assert first is not None
    table.leave(first)
    late = joined(table, 9)
    slots = Slots()
    for slot in (late.slot, 2):
        slots.add(slot)
    assert numbers(Candidates(table, slots).routes()) == [9, 3]
