"""Latency histograms of tables: merging many by adding, and percentiles of the sum.

A histogram is a list of bucket numbers and a list of counts (`broker.events` says what a bucket is). Whole columns of
them are merged at once with numpy; no Python object per row or bucket.
"""

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.events import MAX_BUCKET, bucket_high_us, bucket_low_us

BUCKETS: Final = MAX_BUCKET + 1


def merged(groups: Any, group_count: int, buckets: pa.ChunkedArray, counts: pa.ChunkedArray) -> Any:
    """Sum of the histograms of each group: array of shape (group_count, BUCKETS), int64.

    `groups`: one group number per row, int64 array; `buckets` and `counts`: list<int64> columns of as many rows. A
    group takes 577 numbers: where strangers name the groups, the caller says first which ones he wants."""
    lengths = pa.compute.fill_null(pa.compute.list_value_length(buckets), 0).to_numpy()
    flat_buckets = np.clip(pa.compute.list_flatten(buckets).to_numpy(), 0, MAX_BUCKET)
    flat_counts = pa.compute.list_flatten(counts).to_numpy()
    cells = np.repeat(groups, lengths) * BUCKETS + flat_buckets
    sums = np.zeros(group_count * BUCKETS, np.int64)
    np.add.at(sums, cells, flat_counts)  # bincount would add in floats
    return sums.reshape(group_count, BUCKETS)


def percentile_us(histogram: Any, fraction: float) -> int:
    """The middle of the bucket that holds the value at `fraction` (0.99), microseconds: at most 1/32 wrong.

    0 for an empty histogram. Of n values it is the one of rank ceil(fraction * n), counted from 1."""
    total = int(histogram.sum())
    if total == 0:
        return 0
    rank = max(1, math.ceil(fraction * total))
    bucket = int(np.searchsorted(np.cumsum(histogram), rank))
    return (bucket_low_us(bucket) + bucket_high_us(bucket) - 1) // 2
