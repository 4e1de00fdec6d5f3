"""The same length of time before the one that the report tells, so far as the tables reach back."""

from typing import Final

from spark_sink.report.reading import Record, TableReader
from spark_sink.report.times import SECOND_US
from spark_sink.report.traffic.facts import HAS_LATENCY, IS_ERROR
from spark_sink.report.traffic.grains import Source, table_of, totals_of
from spark_sink.report.traffic.latencies import P99, buckets_of, percentiles_of
from spark_sink.tables import TRAFFIC

DAY_US: Final = 86_400 * SECOND_US


def period_before(reader: TableReader, source: Source, model: str) -> Record | None:
    """Requests, errors and p99 of this model. None: all is told, or the tables begin later, as far as a day without
    requests before it tells."""
    if not source.begin_us or source.high_us is None:
        return None
    to_us = source.begin_us
    from_us = 2 * to_us - source.high_us - source.grain_s * SECOND_US
    earlier = reader.rows_of(table_of(TRAFFIC, source.grain_s), from_us - DAY_US, from_us + source.grain_s * SECOND_US)
    if not reader.rows(f"SELECT 1 FROM {earlier} LIMIT 1"):
        return None
    totals = totals_of(reader, TRAFFIC, from_us, to_us)
    sums = ", ".join(f"coalesce(sum(requests) FILTER ({which}), 0)::BIGINT" for which in ("true", IS_ERROR))
    [(requests, errors)] = reader.rows(f"SELECT {sums} FROM {totals}")
    reader.make("earlier", buckets_of(totals, "model", f"{HAS_LATENCY} AND model = ?"), [model])
    latencies = percentiles_of(reader, "earlier", "model").get((model,))
    p99_us = latencies[P99] if latencies else None  # None: no request has one
    return Record(from_us=from_us, to_us=to_us, requests=requests, errors=errors, p99_us=p99_us)
