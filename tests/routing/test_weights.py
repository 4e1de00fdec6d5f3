"""Weighted: chances in proportion to the weight tags."""

from collections import Counter

import pytest

from broker.routing.candidates import LISTED, Candidates
from broker.routing.weights import TRIES, Weighted, place_of, sums_of
from tests.routing.made import all_of, counted, is_likely, joined, loaded, table_of


def test_each_gets_its_part() -> None:
    table = loaded({1: 0, 2: 0, 3: 0, 4: 0}, weights={2: 2, 3: 3, 4: 4})
    found = counted(Weighted(), all_of(table), 10_000)
    assert is_likely(found, {1: 1, 2: 2, 3: 3, 4: 4})


def orders_beside(heavy: int) -> Candidates:
    """Routes 1, 2, 3 of weights 1, 2, 5, in a table with one of another service that is far heavier."""
    table = loaded({1: 0, 2: 0, 3: 0}, weights={2: 2, 3: 5})
    orders = all_of(table).slots
    joined(table, 9, "billing", weight=str(heavy))
    found = all_of(table).among(orders)
    assert found is not None
    return found


def test_each_gets_its_part_when_others_are_far_heavier() -> None:
    """Then nearly no draw is taken, and the weights are added up."""
    orders = orders_beside(65_535)
    found = counted(Weighted(), orders, 8000)
    assert orders.weights == [1, 3, 8]
    assert is_likely(found, {1: 1, 2: 2, 3: 5})


def test_each_gets_its_part_where_both_ways_are_mixed() -> None:
    """Every choice is the first among its candidates: TRIES draws find somebody in about half of them."""
    added_up = 0
    tally: Counter[int] = Counter()
    for seed in range(1, 3001):
        orders = orders_beside(4 * TRIES)
        tally += counted(Weighted(), orders, 1, seed=seed * 7919)
        added_up += bool(orders.weights)
    assert 1000 < added_up < 2000
    assert is_likely(tally, {1: 1, 2: 2, 3: 5})


def test_without_weights_all_have_the_same_chance() -> None:
    assert is_likely(counted(Weighted(), all_of(table_of(4)), 4000), dict.fromkeys(range(1, 5), 1))


def test_heavy_one_of_many_gets_its_part() -> None:
    """A canary the other way round: beyond the list, one of 1100 weighs as much as all the others."""
    table = table_of(LISTED + 76)
    joined(table, 5000, weight="1100")
    found = counted(Weighted(), all_of(table), 2000)
    assert abs(found[5000] - 1000) < 100


@pytest.mark.parametrize("number, place", [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3), (8, 3)])
def test_place_of_a_number_in_the_sums(number: int, place: int) -> None:
    table = loaded({1: 0, 2: 0, 3: 0, 4: 0}, weights={2: 2, 4: 5})
    sums = sums_of(all_of(table))
    assert sums == [1, 3, 4, 9]
    assert place_of(sums, number) == place
