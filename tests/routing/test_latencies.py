"""Peak EWMA: how long requests took, and who is chosen for it."""

from math import exp

import pytest

from broker.routing.latencies import UNKNOWN_US, PeakEwma, wait_us
from broker.routing.loads import BAD, DECAY_S, GOOD, NEITHER, Load
from tests.routing.made import all_of, counted, is_likely, loaded, picks, table_of


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


@pytest.mark.parametrize("verdict", [BAD, NEITHER])
def test_quick_error_is_no_sign_of_speed_and_a_late_one_is_one_of_slowness(verdict: int) -> None:
    load = load_of(50_000)
    answer(load, 10, 100.0 + DECAY_S, verdict)
    assert load.latency_us(100.0 + DECAY_S) == pytest.approx(50_000 * exp(-1))
    answer(load, 90_000, 100.0 + DECAY_S, verdict)
    assert load.latency_us(100.0 + DECAY_S) == 90_000.0


def test_only_request_responses_are_measured_and_only_when_somebody_wants_to_know() -> None:
    load = load_of()
    answer(load, 5000, 100.0, is_awaited=False)
    assert load.latency_us(100.0) == 0.0
    load.is_measured = False
    answer(load, 5000, 100.0)
    assert load.latency_us(100.0) == 0.0


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


def test_one_candidate_is_chosen() -> None:
    assert picks(PeakEwma(), all_of(table_of(1)), 3) == [1, 1, 1]
