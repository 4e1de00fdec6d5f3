"""What the choosers have in common: draws among routes that warm up."""

from collections import Counter

import pytest

from broker.routing.choosers.chooser import Chooser, Turn, another
from broker.routing.choosers.least_busy import EXACT, LeastBusy
from broker.routing.choosers.peak_ewma import PeakEwma
from broker.routing.choosers.power_of_two import PowerOfTwo
from broker.routing.choosers.random import Random
from broker.routing.choosers.round_robin import RoundRobin
from broker.routing.choosers.weighted import Weighted
from broker.routing.health.loads import GOOD
from broker.routing.rng import Rng
from broker.routing.table import Table
from tests.broker.routing.made import WARM, all_of, counted, is_likely, joined, number_of, picks, table_of


@pytest.mark.parametrize("chooser", [LeastBusy(), PowerOfTwo(), PeakEwma()])
def test_one_candidate_is_chosen(chooser: Chooser) -> None:
    assert picks(chooser, all_of(table_of(1)), 3) == [1, 1, 1]


@pytest.mark.parametrize("chooser", [Random(), Weighted()])
def test_new_route_is_passed_over_in_proportion_to_what_it_lacks(chooser: Chooser) -> None:
    """Two old ones and a new one that is half warm: 1 : 1 : 0.55."""
    table = table_of(2, policy=WARM)
    joined(table, 3, now=1000.0)
    found = counted(chooser, all_of(table), 6000, now=1050.0)
    assert is_likely(found, {1: 100, 2: 100, 3: 55})


@pytest.mark.parametrize("chooser", [RoundRobin(), Random(), Weighted(), LeastBusy(), PowerOfTwo(), PeakEwma()])
def test_where_all_routes_are_new_all_have_the_same_share(chooser: Chooser) -> None:
    table = table_of(0, policy=WARM)
    for number in (1, 2, 3):
        joined(table, number, now=1000.0)
    assert is_likely(counted(chooser, all_of(table), 3000, now=1000.0), {1: 1, 2: 1, 3: 1})


def one_by_one(chooser: Chooser, table: Table, now: float, count: int = 6000) -> Counter[int]:
    """Who gets requests that come one at a time, and take 5 ms each."""
    among, turn, rng = all_of(table), Turn(), Rng(1)
    found: Counter[int] = Counter()
    for _ in range(count):
        route = chooser.choose(among, turn, rng, b"", now)
        route.load.began(True)
        route.load.ended(True, GOOD, 5000, now)
        found[number_of(route)] += 1
    return found


@pytest.mark.parametrize("chooser", [RoundRobin(), Random(), Weighted(), LeastBusy(), PowerOfTwo(), PeakEwma()])
@pytest.mark.parametrize("age_s, percent", [(0.0, 10), (50.0, 55), (100.0, 100)])
def test_new_route_gets_its_share_also_of_requests_that_come_one_at_a_time(
    chooser: Chooser, age_s: float, percent: int
) -> None:
    """Of two idle ones: share / (1 + share)."""
    table = table_of(1, policy=WARM)
    joined(table, 2, now=1000.0)
    for route in table.routes():
        route.load.is_measured = True
        route.load.began(True)
        route.load.ended(True, GOOD, 5000, 1000.0 + age_s)
    assert is_likely(one_by_one(chooser, table, 1000.0 + age_s), {1: 100, 2: percent})


@pytest.mark.parametrize("count", [5, EXACT + 8])
def test_least_busy_of_many_gives_a_new_route_its_share(count: int) -> None:
    table = table_of(count, policy=WARM)
    joined(table, 99, now=1000.0)
    parts = {**dict.fromkeys(range(1, count + 1), 100), 99: 10}
    assert is_likely(one_by_one(LeastBusy(), table, 1000.0, 20_000), parts)


def test_new_route_that_is_the_busier_one_waits_and_the_less_busy_one_does_not_get_all() -> None:
    """While the old one is busy, the new one gets its share twice: drawn first, or left in when the other was."""
    table = table_of(1, policy=WARM)
    old, new = table.routes()[0], joined(table, 2, now=1000.0)
    old.load.began(True)
    for chooser in (LeastBusy(), PowerOfTwo()):
        assert is_likely(counted(chooser, all_of(table), 6000, now=1000.0), {1: 90, 2: 20})
    new.load.began(True)
    new.load.began(True)
    for chooser in (LeastBusy(), PowerOfTwo()):
        assert set(picks(chooser, all_of(table), 200, now=1000.0)) == {1}


def test_least_busy_of_old_ones_is_chosen_while_another_warms_up() -> None:
    """Equals among them by chance."""
    table = table_of(4, policy=WARM)
    for route in table.routes()[:2]:
        route.load.began(True)
    joined(table, 9, now=1000.0).load.began(True)
    assert is_likely(counted(LeastBusy(), all_of(table), 4000, now=1000.0), {3: 1, 4: 1})


def test_another_position_is_each_but_the_first() -> None:
    rng = Rng(3)
    assert {another(1, 4, rng) for _ in range(100)} == {0, 2, 3}
    assert {another(0, 2, rng) for _ in range(10)} == {1}
