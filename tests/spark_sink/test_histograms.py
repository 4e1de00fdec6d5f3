import math
from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from broker.events import bucket_high_us, bucket_low_us, bucket_of
from spark_sink.histograms import BUCKETS, merged, percentile_us

LATENCIES = st.lists(st.integers(0, 10**9), min_size=1, max_size=60)


def histogram(latencies: list[int]) -> tuple[list[int], list[int]]:
    counts = Counter(map(bucket_of, latencies))
    return list(counts), list(counts.values())


@given(LATENCIES, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_percentile_is_in_the_bucket_of_the_true_one(latencies: list[int], fraction: float) -> None:
    sums = np.zeros(BUCKETS, np.int64)
    for bucket, count in zip(*histogram(latencies), strict=True):
        sums[bucket] += count
    truth = sorted(latencies)[math.ceil(fraction * len(latencies)) - 1]
    bucket = bucket_of(truth)
    assert bucket_low_us(bucket) <= percentile_us(sums, fraction) < bucket_high_us(bucket)
    assert abs(percentile_us(sums, fraction) - truth) <= truth / 32 + 1 or truth > 2**39


def test_percentile_of_nothing_is_zero() -> None:
    assert percentile_us(np.zeros(BUCKETS, np.int64), 0.99) == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 10**7), max_size=20)), max_size=10))
def test_merged_histograms_count_every_value_in_its_group(rows: list[tuple[int, list[int]]]) -> None:
    made = [histogram(latencies) for _, latencies in rows]
    sums = merged(
        np.array([group for group, _ in rows], np.int64),
        3,
        pa.chunked_array([pa.array([buckets for buckets, _ in made], pa.list_(pa.int64()))]),
        pa.chunked_array([pa.array([counts for _, counts in made], pa.list_(pa.int64()))]),
    )
    expected = np.zeros((3, BUCKETS), np.int64)
    for group, latencies in rows:
        for latency in latencies:
            expected[group, bucket_of(latency)] += 1
    assert (sums == expected).all()


def test_row_without_a_histogram_adds_nothing() -> None:
    lists = pa.chunked_array([pa.array([[5], None, [5]], pa.list_(pa.int64()))])
    sums = merged(np.array([0, 0, 1], np.int64), 2, lists, lists)
    assert (sums[0, 5], sums[1, 5], sums.sum()) == (5, 5, 10)
