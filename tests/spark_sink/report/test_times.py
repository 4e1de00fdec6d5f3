import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sink.report.times import MAX_BINS, MINUTE_US, Bins

MINUTES = st.lists(st.integers(0, 60 * 24 * 366 * 60), min_size=1, max_size=40)


@given(MINUTES)
def test_bins_hold_every_minute_and_are_few(minutes: list[int]) -> None:
    times = np.array(minutes, np.int64) * MINUTE_US
    bins = Bins(times)
    assert 1 <= bins.count <= MAX_BINS
    assert bins.first_us <= times.min() < bins.first_us + bins.step_s * 1_000_000
    step_us = bins.step_s * 1_000_000
    assert bins.of(times).tolist() == [(int(us) - bins.first_us) // step_us for us in times]
    assert bins.of(times).min() >= 0
    assert bins.of(times).max() == bins.count - 1
    assert bins.sums(0, 1, times, np.ones(len(times), np.int64)).sum() == len(minutes)


@pytest.mark.parametrize("minutes, step_s", [(1, 60), (120, 60), (121, 120), (24 * 60, 900), (7 * 24 * 60, 7200)])
def test_steps_are_round(minutes: int, step_s: int) -> None:
    assert Bins(np.array([0, minutes - 1]) * MINUTE_US).step_s == step_s


@pytest.mark.parametrize("seconds, step_s", [(1, 1), (120, 1), (121, 2), (3600, 30), (24 * 3600, 900)])
def test_bins_of_seconds_are_no_shorter_than_a_second(seconds: int, step_s: int) -> None:
    assert Bins(np.array([0, seconds - 1]) * 1_000_000, grain_s=1).step_s == step_s


def test_bins_of_nothing_are_none() -> None:
    bins = Bins(np.zeros(0, np.int64))
    assert (bins.count, bins.starts()) == (0, [])
