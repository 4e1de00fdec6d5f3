"""Peak EWMA: who is chosen for how long requests took."""

from collections import Counter

import pytest

from broker.routing.choosers.chooser import Turn
from broker.routing.choosers.peak_ewma import UNKNOWN_US, PeakEwma, wait_us
from broker.routing.health.loads import BAD, GOOD
from broker.routing.rng import Rng
from tests.broker.routing.made import all_of, answer, counted, is_likely, load_of, loaded, number_of, picks


@pytest.mark.parametrize("well_n", [0, 2000])
def test_route_that_fails_at_once_gets_hardly_a_request(well_n: int) -> None:
    """One by one, a hundred in a second, and nobody is ejected: route 2 answers in 5 ms, or fails in 0.1 ms."""
    table = loaded({1: 0, 2: 0})
    among, chooser, turn, rng = all_of(table), PeakEwma(), Turn(), Rng(1)
    tally: Counter[int] = Counter()
    for step in range(well_n + 10_000):
        now = 100.0 + step * 0.01
        found = chooser.choose(among, turn, rng, b"", now)
        is_ill = number_of(found) == 2 and step >= well_n
        answer(found.load, 100 if is_ill else 5000, now, BAD if is_ill else GOOD)
        if step >= well_n:
            tally[number_of(found)] += 1
    assert 0 < tally[2] < 20


def test_wait_is_latency_times_requests_by_weight() -> None:
    table = loaded({1: 3}, weights={1: 2})
    load = table.routes()[0].load
    assert load.is_measured is False
    assert wait_us(load, 100.0) == UNKNOWN_US * 4 / 2
    assert load.is_measured is True
    answer(load, 1000, 100.0)
    assert wait_us(load, 100.0) == 1000 * 4 / 2


def test_route_that_nobody_knows_is_tried_and_then_waited_for() -> None:
    load = load_of()
    assert wait_us(load, 100.0) == 0.0
    load.began(True)
    assert wait_us(load, 100.0) == 2 * UNKNOWN_US


def test_route_is_unknown_again_when_its_latency_is_long_ago() -> None:
    load = load_of(1000)
    assert wait_us(load, 100.0 + 69.0) > 1.0  # 1000 µs are 1 µs after ln 1000 times 10 s
    assert wait_us(load, 100.0 + 70.0) == 0.0


def test_of_two_the_one_that_will_be_done_sooner_is_chosen() -> None:
    """Of 3 routes the slowest never wins against another; the fastest is in two thirds of the pairs."""
    table = loaded({1: 0, 2: 0, 3: 0})
    for latency_us, route in zip((30_000, 1000, 9000), table.routes(), strict=True):
        route.load.is_measured = True
        answer(route.load, latency_us, 100.0)
    assert is_likely(counted(PeakEwma(), all_of(table), 3000, now=101.0), {2: 2, 3: 1})


def test_fast_route_gets_more_requests_until_they_take_as_long() -> None:
    table = loaded({1: 9, 2: 0})
    for latency_us, route in zip((1000, 8000), table.routes(), strict=True):
        route.load.is_measured = True
        answer(route.load, latency_us, 100.0)
    assert set(picks(PeakEwma(), all_of(table), 20, now=100.0)) == {2}
    table.routes()[0].load.ended(False, GOOD, 0, 100.0)
    table.routes()[0].load.ended(False, GOOD, 0, 100.0)
    assert wait_us(table.routes()[0].load, 100.0) == 8000.0
    table.routes()[0].load.ended(False, GOOD, 0, 100.0)
    assert set(picks(PeakEwma(), all_of(table), 20, now=100.0)) == {1}


def test_route_that_was_slow_is_tried_again() -> None:
    table = loaded({1: 0, 2: 0})
    for latency_us, route in zip((1_000_000, 10_000), table.routes(), strict=True):
        route.load.is_measured = True
        answer(route.load, latency_us, 100.0)
    among = all_of(table)
    assert set(picks(PeakEwma(), among, 20, now=110.0)) == {2}
    fast = table.routes()[1].load
    for second in range(60):
        answer(fast, 10_000, 110.0 + second)
    assert 1 in picks(PeakEwma(), among, 20, now=170.0)
