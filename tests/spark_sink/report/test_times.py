from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sink.report.times import MAX_BINS, MINUTE_US, Bins, parse_since

NOW = datetime(2026, 11, 22, 18, 30, tzinfo=UTC)
MINUTES = st.lists(st.integers(0, 60 * 24 * 366 * 60), min_size=1, max_size=40)


@pytest.mark.parametrize(
    "text, at",
    [
        ("2 hours", NOW - timedelta(hours=2)),
        ("1 hour ago", NOW - timedelta(hours=1)),
        (" 3 Days ", NOW - timedelta(days=3)),
        ("90seconds", NOW - timedelta(seconds=90)),
        ("15 minutes", NOW - timedelta(minutes=15)),
        ("2 weeks", NOW - timedelta(days=14)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T12:30", datetime(2026, 11, 20, 12, 30, tzinfo=UTC)),
        ("2026-11-20 12:30:05Z", datetime(2026, 11, 20, 12, 30, 5, tzinfo=UTC)),
        ("2026-11-20T12:30+02:00", datetime(2026, 11, 20, 10, 30, tzinfo=UTC)),
    ],
)
def test_since_reads_what_people_write(text: str, at: datetime) -> None:
    assert parse_since(text, NOW) == at
    assert parse_since(text, NOW).tzinfo is UTC


@pytest.mark.parametrize("text", ["", "yesterday", "2", "-2 hours", "2 lightyears", "999999999 weeks", "2026-13-01"])
def test_what_is_no_time_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is no time; write one like") as raised:
        parse_since(text, NOW)
    assert "\n" not in str(raised.value)


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
