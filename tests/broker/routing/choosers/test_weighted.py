"""Weighted: chances in proportion to the weight tags."""

import pytest

from broker.routing.candidates import LISTED, Candidates
from broker.routing.choosers.weighted import Weighted, route_of, weight_of_all
from tests.broker.routing import made


def test_each_gets_its_part() -> None:
    table = made.loaded({1: 0, 2: 0, 3: 0, 4: 0}, weights={2: 2, 3: 3, 4: 4})
    found = made.counted(Weighted(), made.all_of(table), 10_000)
    assert made.is_likely(found, {1: 1, 2: 2, 3: 3, 4: 4})


def orders_beside(heavy: int) -> Candidates:
    """Routes 1, 2, 3 of weights 1, 2, 5, as if one that is far heavier could be among them."""
    table = made.loaded({1: 0, 2: 0, 3: 0}, weights={2: 2, 3: 5})
    return Candidates(table, made.all_of(table).slots, heavy)


def test_each_gets_its_part_when_nearly_no_draw_is_taken() -> None:
    """Then all are looked at."""
    assert made.is_likely(made.counted(Weighted(), orders_beside(65_535), 8000), {1: 1, 2: 2, 3: 5})


def test_each_gets_its_part_where_both_ways_are_mixed() -> None:
    """Three draws find somebody in about half of the choices."""
    assert made.is_likely(made.counted(Weighted(), orders_beside(13), 8000), {1: 1, 2: 2, 3: 5})


def test_heavy_one_of_many_gets_its_part() -> None:
    """A canary the other way round: beyond the list, one of 1101 weighs as much as all the others."""
    table = made.table_of(1100)
    assert table.size() > LISTED
    made.joined(table, 5000, weight="1100")
    found = made.counted(Weighted(), made.all_of(table), 2000)
    assert abs(found[5000] - 1000) < 100


@pytest.mark.parametrize("number, found", [(0, 1), (1, 2), (2, 2), (3, 3), (4, 4), (8, 4)])
def test_route_of_a_number_among_the_weights(number: int, found: int) -> None:
    routes = made.loaded({1: 0, 2: 0, 3: 0, 4: 0}, weights={2: 2, 4: 5}).routes()
    assert weight_of_all(routes) == 9
    assert made.number_of(route_of(routes, number)) == found


def test_heavy_route_counts_for_its_own_service_and_while_it_is_there() -> None:
    """Or one that came once would make every choice look at all routes."""
    table = made.loaded({1: 0, 2: 0}, weights={2: 3})
    query = made.query_of(table)

    def heaviest() -> int:
        candidates = made.resolve(query, made.address(ServiceName="orders")).candidates
        assert candidates is not None
        return candidates.max_weight

    made.joined(table, 8, "billing", weight="65535")
    assert heaviest() == 3
    heavy = made.joined(table, 9, weight="65535")
    assert heaviest() == 65_535
    table.leave(heavy)
    assert heaviest() == 3
