"""Percentiles of latencies from histograms, which DuckDB adds up bucket by bucket.

A bucket holds latencies that differ by at most 1/16, so its middle is at most 1/32 wrong; and no percentile is beyond
the slowest request.
"""

from typing import Any, Final, TypeAlias

from broker.events import MAX_BUCKET, bucket_high_us, bucket_low_us
from spark_sink.report.reading import TableReader

FRACTIONS: Final = (0.5, 0.9, 0.99, 0.999)
P99: Final = FRACTIONS.index(0.99)

Percentiles: TypeAlias = tuple[int, ...]  # µs, as FRACTIONS


def buckets_of(rows: str, keys: str, condition: str) -> str:
    """A query: the buckets of these rows, `keys`, `bucket`, `count` and the slowest of the rows they are from."""
    return (
        f"SELECT {keys}, bucket, sum(count)::BIGINT AS count, max(slowest) AS slowest FROM (SELECT {keys}, "
        f"unnest(latency_buckets) AS bucket, unnest(latency_counts) AS count, latency_max_us AS slowest "
        f"FROM {rows} WHERE {condition}) GROUP BY {keys}, bucket HAVING sum(count) > 0 AND bucket >= 0"
    )


def percentile_buckets(source: str, keys: str) -> str:
    """A query: keys, the bucket of each of FRACTIONS as `b0`, `b1` …, their requests as `count`, and `slowest`.
    `source`: what `buckets_of` gives. Of n values it is the one of rank ceil(fraction * n), counted from 1."""
    ranks = ", ".join(
        f"min(bucket) FILTER (upto >= ceil({fraction}::DOUBLE * count)) AS b{number}"
        for number, fraction in enumerate(FRACTIONS)
    )
    return (
        f"SELECT {keys}, {ranks}, any_value(count)::BIGINT AS count, max(slowest) AS slowest FROM ("
        f"SELECT {keys}, bucket, slowest, sum(n) OVER (PARTITION BY {keys} ORDER BY bucket) AS upto, "
        f"sum(n) OVER (PARTITION BY {keys}) AS count FROM ("
        f"SELECT {keys}, bucket, sum(count) AS n, max(slowest) AS slowest FROM {source} GROUP BY {keys}, bucket)"
        f") GROUP BY {keys}"
    )


def percentiles_of(reader: TableReader, source: str, keys: str) -> dict[Any, Percentiles]:
    """By key, a tuple; groups without a latency are not there."""
    width = len(FRACTIONS) + 2
    return {
        tuple(row[:-width]): tuple(middle_us(bucket, row[-1]) for bucket in row[-width:-2])
        for row in reader.rows(percentile_buckets(source, keys))
    }


def middle_us(bucket: int, slowest_us: int) -> int:
    """What a bucket tells of the latencies in it."""
    bucket = min(max(bucket, 0), MAX_BUCKET)
    return min((bucket_low_us(bucket) + bucket_high_us(bucket) - 1) // 2, slowest_us)
