"""How long the requests of a route took, and its share while it warms up."""

from math import exp

import pytest

from broker.routing.health.loads import BAD, DECAY_S, FAILED_US, GOOD, MAX_FAILED_US, NEITHER
from tests.broker.routing.made import WARM, answer, joined, load_of, loaded, table_of


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


@pytest.mark.parametrize("age_s, share", [(0.0, 0.1), (50.0, 0.55), (100.0, 1.0), (500.0, 1.0)])
def test_share_of_a_new_route_grows_evenly_from_a_tenth_to_the_whole(age_s: float, share: float) -> None:
    load = joined(table_of(0, policy=WARM), 1, now=1000.0).load
    assert load.share(1000.0 + age_s) == pytest.approx(share)


def test_without_slow_start_a_new_route_has_its_full_share_at_once() -> None:
    load = joined(table_of(0), 1, now=1000.0).load
    assert [load.share(now) for now in (0.0, 1000.0, 1001.0)] == [1.0, 1.0, 1.0]
