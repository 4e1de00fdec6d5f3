"""What is missing in the records, so that nobody trusts a number that is incomplete."""

from typing import Final

from spark_sink.report.reading import Record, TableReader
from spark_sink.tables import GAPS

MAX_GAPS: Final = 50


def gaps_of(reader: TableReader, begin_us: int) -> Record:
    """The latest first; their sums; and how many gaps each reason has, the most first."""
    gaps = reader.rows_of(GAPS, begin_us)
    rows, count = reader.ranked(
        "SELECT us AS at_us, coalesce(nullif(broker_name, ''), broker_id) AS broker, epoch, first_seq, last_seq, "
        "records, requests, reason, detail, count(*) OVER () AS total "
        f"FROM {gaps} ORDER BY us DESC, broker_id, first_seq LIMIT {MAX_GAPS}"
    )
    reasons = reader.rows(f"SELECT reason, count(*) AS n FROM {gaps} GROUP BY reason ORDER BY n DESC, reason")
    sums = "coalesce(sum(records), 0)::BIGINT, coalesce(sum(requests), 0)::BIGINT"
    [(records, requests)] = reader.rows(f"SELECT {sums} FROM {gaps}")
    return Record(rows=rows, count=count, records=records, requests=requests, reasons=reasons)
