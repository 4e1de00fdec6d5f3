"""Percentiles of latencies from histograms, which DuckDB adds up bucket by bucket.

A bucket holds latencies that differ by at most 1/16, so its middle is at most 1/32 wrong; and no percentile is beyond
the slowest request.
"""

from typing import Any, Final

from broker.events import MAX_BUCKET
from spark_sink.report.reading import TableReader

FRACTIONS: Final = (0.5, 0.9, 0.99, 0.999)
P99: Final = FRACTIONS.index(0.99)


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


def percentiles(source: str, keys: str) -> str:
    """A query: keys and `latencies_us`, as FRACTIONS; groups without a latency are not there."""
    middles = ", ".join(middle_us(f"b{number}") for number in range(len(FRACTIONS)))
    return f"SELECT {keys}, [{middles}] AS latencies_us FROM ({percentile_buckets(source, keys)})"


def percentiles_of(reader: TableReader, source: str, keys: str) -> dict[Any, list[int]]:
    """By key, a tuple."""
    return {tuple(key): latencies for *key, latencies in reader.rows(percentiles(source, keys))}


def middle_us(bucket: str, slowest: str = "slowest") -> str:
    """SQL: what a bucket of `broker.events.bucket_of` tells of the latencies in it."""
    number = f"least({bucket}, {MAX_BUCKET})::BIGINT"
    octave = f"greatest(({number} >> 4) - 1, 0)"  # so many low bits of a latency are lost
    return f"least((({number} - ({octave} << 4)) << {octave}) + ((1 << {octave}) - 1) // 2, {slowest})"
