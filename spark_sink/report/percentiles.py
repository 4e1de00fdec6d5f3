"""Exact percentiles of milliseconds by DuckDB, which need not hold all of them in memory."""

from typing import Final

from spark_sink.report.reading import TableReader

PERCENTILES: Final = {"p50_ms": 0.5, "p99_ms": 0.99}


def make_took(reader: TableReader, source: str, keys: str) -> str:
    """A query: of each group its keys, `n` rows, `again`, those with several `tries`, p50_ms and p99_ms, the least
    time within which so many were there, and max_ms. `source`: of which the rows are, with `after_ms`."""
    # How many took each millisecond: these are fewer than rows.
    reader.make(
        "took",
        f"SELECT {keys}, after_ms, count(*) AS n, count(*) FILTER (tries > 1) AS again FROM {source} GROUP BY ALL",
    )
    within = "SELECT *, sum(n) OVER (one ORDER BY after_ms) AS n_within, sum(n) OVER one AS n_all FROM took"
    quantiles = ", ".join(
        f"min(after_ms) FILTER (n_within >= {part} * n_all) AS {name}" for name, part in PERCENTILES.items()
    )
    return (
        f"SELECT {keys}, sum(n)::BIGINT AS n, sum(again)::BIGINT AS again, {quantiles}, max(after_ms) AS max_ms "
        f"FROM ({within} WINDOW one AS (PARTITION BY {keys})) GROUP BY {keys}"
    )
