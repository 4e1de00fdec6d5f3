"""Who acknowledged how many messages after how long, and which became dead letters."""

from typing import Final

from broker.events import DEAD, DELIVERED
from spark_sink.report.percentiles import make_took
from spark_sink.report.reading import Record, TableReader
from spark_sink.tables import MESSAGES

MAX_DESTINATIONS: Final = 15
MAX_DEAD: Final = 15


def messages_of(reader: TableReader, begin_us: int) -> Record:
    """`rows`: acknowledgements by exchange and destination, the most first. `dead_rows`: dead letters by exchange and
    reason, the same. Percentiles are exact: the least time within which so many were there."""
    rows = reader.rows_of(MESSAGES, begin_us)
    took = make_took(reader, f"{rows} WHERE outcome = '{DELIVERED}'", "exchange, destination")
    found, count = reader.ranked(
        f"SELECT * RENAME (n AS delivered), count(*) OVER () AS total FROM ({took}) "
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
