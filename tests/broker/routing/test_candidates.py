"""Candidates: the routes behind a set of slots."""

import pytest

from broker.routing.candidates import ASKED_LARGE, LISTED, Candidates
from tests.broker.routing.made import all_of, joined, numbers, route_id, slots, table_of


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
    assert numbers(Candidates(table, slots(late.slot, 2), 1).routes()) == [9, 3]


def test_large_set_that_is_asked_often_is_listed_and_answers_as_before() -> None:
    table = table_of(LISTED + 1)
    candidates = all_of(table)
    for _ in range(ASKED_LARGE):
        candidates.route_at(LISTED)
    assert not candidates.slots.is_listed()
    before = [candidates.slots.slot_at(position) for position in (0, 1, LISTED)]
    candidates.route_at(5)
    assert candidates.slots.is_listed()
    assert [candidates.route_at(position).slot for position in (0, 1, LISTED)] == before


def test_small_set_lists_its_routes_and_not_its_slots() -> None:
    candidates = all_of(table_of(LISTED))
    for position in range(2 * ASKED_LARGE):
        candidates.route_at(position)
    assert not candidates.slots.is_listed()


def test_routes_of_a_set_are_found_by_slot_and_by_tag() -> None:
    table = table_of(2)
    tagged = joined(table, 3, region="eu")
    joined(table, 4, "billing", region="us")
    candidates = all_of(table)
    part = candidates.among(candidates.slots.without(all_of(table_of(2)).slots))
    assert part is not None
    assert numbers(part.routes()) == [3, 4]
    assert part.find_at(tagged.slot) is tagged
    assert (part.find_at(0), part.find_at(-1), part.find_at(99)) == (None, None, None)
    found = part.find_tagged(tagged.tags[0].token())
    assert found is not None
    assert found.to_list() == [tagged.slot]
    assert part.find_tagged(b"nobody") is None
    assert part.among(found.without(found)) is None
