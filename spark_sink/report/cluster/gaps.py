"""What is missing in the records, so that nobody trusts a number that is incomplete."""

from dataclasses import dataclass
from typing import Final

from spark_sink.report.reading import TableReader
from spark_sink.tables import GAPS

MAX_GAPS: Final = 50


@dataclass(frozen=True)
class Gap:
    at_us: int
    broker: str
    epoch: int
    first_seq: int
    last_seq: int
    records: int
    requests: int
    reason: str
    detail: str


@dataclass(frozen=True)
class Gaps:
    rows: list[Gap]  # the latest first
    count: int
    records: int
    requests: int
    reasons: list[tuple[str, int]]  # and how many gaps each has, the most first


def gaps_of(reader: TableReader, begin_us: int) -> Gaps:
    gaps = reader.rows_of(GAPS, begin_us)
    latest = reader.rows(
        "SELECT us, coalesce(nullif(broker_name, ''), broker_id), epoch, first_seq, last_seq, records, requests, "
        f"reason, detail FROM {gaps} ORDER BY us DESC, broker_id, first_seq LIMIT {MAX_GAPS}"
    )
    reasons = reader.rows(f"SELECT reason, count(*) AS n FROM {gaps} GROUP BY reason ORDER BY n DESC, reason")
    sums = "count(*), coalesce(sum(records), 0)::BIGINT, coalesce(sum(requests), 0)::BIGINT"
    [(count, records, requests)] = reader.rows(f"SELECT {sums} FROM {gaps}")
    return Gaps([Gap(*row) for row in latest], count, records, requests, [(reason, n) for reason, n in reasons])
