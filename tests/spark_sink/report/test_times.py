import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sink.report.times import MAX_BINS, MINUTE_US, SECOND_US, Bins, bins_of

MINUTES = st.integers(0, 60 * 24 * 366 * 60)


@given(MINUTES, MINUTES)
def test_bins_hold_every_minute_and_are_few(one: int, other: int) -> None:
    low_us, high_us = min(one, other) * MINUTE_US, max(one, other) * MINUTE_US
    bins = bins_of(low_us, high_us)
    step_us = bins.step_s * SECOND_US
    assert 1 <= bins.count <= MAX_BINS
    assert bins.first_us <= low_us < bins.first_us + step_us
    assert (high_us - bins.first_us) // step_us == bins.count - 1
    assert bins.of("us") == f"((us - {bins.first_us}) // {step_us})"


@pytest.mark.parametrize("minutes, step_s", [(1, 60), (120, 60), (121, 120), (24 * 60, 900), (7 * 24 * 60, 7200)])
def test_steps_are_round(minutes: int, step_s: int) -> None:
    assert bins_of(0, (minutes - 1) * MINUTE_US).step_s == step_s


@pytest.mark.parametrize("seconds, step_s", [(1, 1), (120, 1), (121, 2), (3600, 30), (24 * 3600, 900)])
def test_bins_of_seconds_are_no_shorter_than_a_second(seconds: int, step_s: int) -> None:
    assert bins_of(0, (seconds - 1) * SECOND_US, grain_s=1).step_s == step_s


def test_bins_of_nothing_are_none() -> None:
    assert bins_of(None, None) == Bins(60, 0, 0)
    assert bins_of(None, None).starts() == []
