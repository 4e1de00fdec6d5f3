"""Peak EWMA: how long requests took, and who is chosen for it."""

from collections import Counter
from math import exp

import pytest

from broker.routing.choosers.chooser import Turn
from broker.routing.choosers.peak_ewma import UNKNOWN_US, PeakEwma, wait_us
from broker.routing.health.loads import BAD, DECAY_S, FAILED_US, GOOD, MAX_FAILED_US, NEITHER, Load
from broker.routing.rng import Rng
from tests.broker.routing.made import all_of, counted, is_likely, loaded, number_of, picks, table_of


def load_of(latency_us: int = 0, now: float = 100.0) -> Load:
    """The load of an idle route that somebody measures, with one answer behind it."""
    load = table_of(1).routes()[0].load
    load.is_measured = True
    if latency_us:
        answer(load, latency_us, now)
    return load


def answer(load: Load, latency_us: int, now: float, verdict: int = GOOD, is_awaited: bool = True) -> None:
    load.began(is_awaited)
    load.ended(is_awaited, verdict, latency_us, now)


def test_slow_answer_counts_at_once() -> None:
    load = load_of(1000)
    answer(load, 50_000, 100.0)
    assert load.latency_us(100.0) == 50_000.0


def test_latency_comes_down_with_time_also_when_nobody_asks() -> None:
    load = load_of(50_000)
    assert load.latency_us(100.0 + DECAY_S) == pytest.approx(50_000 / 2.718281828)
    assert load.latency_us(100.0 + 5 * DECAY_S) == pytest.approx(50_000 * exp(-5))
    assert load.latency_us(99.0) == 50_000.0


def test_quick_answer_brings_it_down_as_far_as_time_has_passed() -> None:
    load = load_of(50_000)
    answer(load, 1000, 100.0)
    assert load.latency_us(100.0) == 50_000.0
    answer(load, 1000, 100.0 + DECAY_S)
    kept = exp(-1)
    assert load.latency_us(100.0 + DECAY_S) == pytest.approx(50_000 * kept + 1000 * (1 - kept))


def test_what_was_given_up_early_is_no_sign_of_speed_and_late_it_is_one_of_slowness() -> None:
    load = load_of(50_000)
    answer(load, 10, 100.0 + DECAY_S, NEITHER)
    assert load.latency_us(100.0 + DECAY_S) == pytest.approx(50_000 * exp(-1))
    answer(load, 90_000, 100.0 + DECAY_S, NEITHER)
    assert load.latency_us(100.0 + DECAY_S) == 90_000.0


def test_error_keeps_the_latency_from_coming_down_and_the_next_in_a_row_double_it() -> None:
    load = load_of(50_000)
    found = []
    for latency_us in (10, 10, 0, 500_000):
        answer(load, latency_us, 100.0 + DECAY_S, BAD)
        found.append(load.latency_us(100.0 + DECAY_S))
    assert found == [50_000.0, 100_000.0, 200_000.0, 500_000.0]
    answer(load, 10, 100.0 + DECAY_S)
    answer(load, 10, 100.0 + DECAY_S, BAD)
    assert load.latency_us(100.0 + DECAY_S) == 500_000.0


def test_error_of_a_route_that_nobody_knows_counts_as_a_second() -> None:
    load = load_of()
    answer(load, 10, 100.0, BAD)
    assert load.latency_us(100.0) == FAILED_US


def test_errors_double_a_latency_up_to_a_bound_and_no_slower_one() -> None:
    load = load_of()
    for _ in range(2000):
        answer(load, 10, 100.0, BAD)
    assert load.latency_us(100.0) == MAX_FAILED_US
    answer(load, 90_000_000, 100.0, BAD)
    answer(load, 10, 100.0, BAD)
    assert load.latency_us(100.0) == 90_000_000.0


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


def test_errors_now_and_then_change_nothing() -> None:
    """One of ten answers of route 2 is an ERROR, never two in a row: it stays as fast as the other."""
    table = loaded({1: 0, 2: 0})
    one, other = (route.load for route in table.routes())
    for load in (one, other):
        load.is_measured = True
    for step in range(1000):
        for load in (one, other):
            is_error = load is other and step % 10 == 9
            answer(load, 5000, 100.0 + step * 0.01, BAD if is_error else GOOD)
    assert other.latency_us(110.0) == pytest.approx(one.latency_us(110.0), rel=0.01)


def test_only_request_responses_are_measured_and_only_when_somebody_wants_to_know() -> None:
    load = load_of()
    answer(load, 5000, 100.0, is_awaited=False)
    assert load.latency_us(100.0) == 0.0
    load.is_measured = False
    answer(load, 5000, 100.0)
    assert load.latency_us(100.0) == 0.0


def test_the_end_of_a_multicast_says_nothing_about_latencies() -> None:
    """When it was is not known: an error would have made the route look as if nothing was known of it."""
    load = load_of(5000)
    load.began(True)
    load.ended(True, BAD, 0, 0.0)
    assert load.latency_us(100.0) == 5000


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
