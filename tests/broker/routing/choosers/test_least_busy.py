"""How busy a route is, and the chooser that takes the least busy one."""

import pytest

from broker.routing.candidates import LISTED
from broker.routing.choosers.chooser import Chooser
from broker.routing.choosers.least_busy import EXACT, LeastBusy, weighted_in_flight
from broker.routing.choosers.power_of_two import PowerOfTwo
from tests.broker.routing.made import all_of, counted, is_likely, loaded, picks, route_id, table_of


def test_weighted_in_flight_counts_the_request_to_come_and_weighs() -> None:
    table = loaded({1: 0, 2: 3, 3: 3}, weights={3: 2})
    loads = [route.load for route in table.routes()]
    assert [weighted_in_flight(load) for load in loads] == [1.0, 4.0, 2.0]


def test_least_busy_takes_the_route_with_the_fewest_in_flight() -> None:
    table = loaded({1: 5, 2: 4, 3: 6, 4: 9})
    assert set(picks(LeastBusy(), all_of(table), 50)) == {2}


def test_least_busy_fills_routes_in_proportion_to_their_weights() -> None:
    table = loaded({1: 0, 2: 0, 3: 0}, weights={2: 2, 3: 5})
    among = all_of(table)
    for _ in range(80):
        number = picks(LeastBusy(), among, 1)[0]
        found = table.find(route_id(number))
        assert found is not None
        found.load.began(False)
    assert [route.load.in_flight for route in table.routes()] == [10, 20, 50]


def test_least_busy_of_equals_is_drawn() -> None:
    table = loaded({1: 2, 2: 1, 3: 1, 4: 7, 5: 1})
    assert is_likely(counted(LeastBusy(), all_of(table), 3000), {2: 1, 3: 1, 5: 1})


@pytest.mark.parametrize("count, is_always_found", [(EXACT, True), (EXACT + 1, False)])
def test_least_busy_is_exact_up_to_its_bound_and_draws_beyond(count: int, is_always_found: bool) -> None:
    busy = dict.fromkeys(range(1, count + 1), 3)
    busy[count] = 0
    found = counted(LeastBusy(), all_of(loaded(busy)), 300)
    assert (set(found) == {count}) is is_always_found
    assert found[count] > 300 * 0.5  # 1 - (32/33)^32 is 0.63


@pytest.mark.parametrize("chooser", [LeastBusy(), PowerOfTwo()])
def test_many_candidates_are_drawn_from_without_a_list(chooser: Chooser) -> None:
    found = set(picks(chooser, all_of(table_of(LISTED + 50)), 400))
    assert len(found) > 200
    assert found <= set(range(1, LISTED + 51))
