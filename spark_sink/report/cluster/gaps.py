"""What is missing in the records, so that nobody trusts a number that is incomplete."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from spark_sink.report.groups import encoded, group, micros, numbers

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


def gaps_of(table: pa.Table) -> Gaps:
    """`table`: rows of `gaps`."""
    reasons = group(table, ["reason"])
    counts = reasons.sums(1)
    order = np.lexsort((numbers(table, "first_seq"), encoded(table["broker_id"])[1], -micros(table, "event_time")))
    latest = table.take(pa.array(order[:MAX_GAPS]))
    times = micros(latest, "event_time").tolist()
    rows = [
        Gap(
            at_us,
            row["broker_name"] or row["broker_id"] or "",
            reason=row["reason"] or "",
            detail=row["detail"] or "",
            **{name: row[name] or 0 for name in ("epoch", "first_seq", "last_seq", "records", "requests")},
        )
        for at_us, row in zip(times, latest.to_pylist(), strict=True)
    ]
    return Gaps(
        rows,
        len(table),
        int(numbers(table, "records").sum()),
        int(numbers(table, "requests").sum()),
        [(reasons.key(number)[0], int(counts[number])) for number in reasons.top(counts, reasons.count)],
    )
