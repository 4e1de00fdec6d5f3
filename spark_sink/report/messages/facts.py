"""Who acknowledged how many messages after how long, and which became dead letters."""

from typing import Final

from broker.events import DEAD, DELIVERED
from spark_sink.report.reading import Record, TableReader
from spark_sink.tables import MESSAGES

MAX_DESTINATIONS: Final = 15
MAX_DEAD: Final = 15
_PERCENTILES: Final = {"p50_ms": 0.5, "p99_ms": 0.99}


def messages_of(reader: TableReader, begin_us: int) -> Record:
    """`rows`: acknowledgements by exchange and destination, the most first. `dead_rows`: dead letters by exchange and
    reason, the same. Percentiles are exact: the least time within which so many were there."""
    rows = reader.rows_of(MESSAGES, begin_us)
    # How many took each millisecond: these are fewer than messages, and DuckDB need not hold them in memory.
    reader.make(
        "took",
        "SELECT exchange, destination, after_ms, count(*) AS n, count(*) FILTER (tries > 1) AS again "
        f"FROM {rows} WHERE outcome = '{DELIVERED}' GROUP BY ALL",
    )
    within = "SELECT *, sum(n) OVER (one ORDER BY after_ms) AS n_within, sum(n) OVER one AS n_all FROM took"
    quantiles = ", ".join(
        f"min(after_ms) FILTER (n_within >= {part} * n_all) AS {name}" for name, part in _PERCENTILES.items()
    )
    found, count = reader.ranked(
        f"SELECT exchange, destination, sum(n)::BIGINT AS delivered, sum(again)::BIGINT AS again, {quantiles}, "
        "max(after_ms) AS max_ms, count(*) OVER () AS total "
        f"FROM ({within} WINDOW one AS (PARTITION BY exchange, destination)) GROUP BY exchange, destination "
        f"ORDER BY delivered DESC, exchange, destination LIMIT {MAX_DESTINATIONS}"
    )
    dead, dead_count = reader.ranked(
        "SELECT exchange, reason, count(*) AS dead, max(tries) AS tries, max(us) AS last_us, count(*) OVER () AS total "
        f"FROM {rows} WHERE outcome = '{DEAD}' GROUP BY exchange, reason "
        f"ORDER BY dead DESC, exchange, reason LIMIT {MAX_DEAD}"
    )
    sums = ", ".join(f"count(*) FILTER (outcome = '{outcome}')" for outcome in (DELIVERED, DEAD))
    [(delivered_n, dead_n)] = reader.rows(f"SELECT {sums} FROM {rows}")
    return Record(delivered=delivered_n, rows=found, count=count, dead=dead_n, dead_rows=dead, dead_count=dead_count)
