"""Who was let in and who was not, and what roles did not allow."""

from typing import Final

from spark_sink.report.reading import Record, TableReader
from spark_sink.tables import ACCESS, DENIALS

MAX_ACCESS: Final = 30
MAX_DENIALS: Final = 30
_ADMITTED: Final = "event = 'Admitted'"
_IDENTITY: Final = "event, principal, role, word, reason"
_ASKED: Final = "principal, role, asked, service, tag, tag_value, reason"


def access_of(reader: TableReader, begin_us: int) -> Record:
    """`rows`: how often an identity was let in, or refused for one reason; refused ones first, then the most.
    `denied_rows`: what an identity has asked and its role does not allow, the most first."""
    rows, denied = (reader.rows_of(table, begin_us) for table in (ACCESS, DENIALS))
    found, count = reader.ranked(_counted(rows, _IDENTITY, f"{_ADMITTED}, ", MAX_ACCESS))
    denied_rows, denied_count = reader.ranked(_counted(denied, _ASKED, "", MAX_DENIALS))
    [(admitted_n, refused_n)] = reader.rows(f"SELECT {_sum(_ADMITTED)}, {_sum(f'NOT ({_ADMITTED})')} FROM {rows}")
    [(denied_n,)] = reader.rows(f"SELECT {_sum('true')} FROM {denied}")
    return Record(
        admitted=admitted_n,
        refused=refused_n,
        rows=found,
        count=count,
        denied=denied_n,
        denied_rows=denied_rows,
        denied_count=denied_count,
    )


def _sum(only: str) -> str:
    return f"coalesce(sum(times) FILTER ({only}), 0)::BIGINT"


def _counted(rows: str, keys: str, order: str, limit: int) -> str:
    return (
        f"SELECT {keys}, sum(times)::BIGINT AS times, min(first_at) AS first_us, max(last_at) AS last_us, "
        f"count(*) OVER () AS total FROM {rows} GROUP BY {keys} ORDER BY {order}times DESC, {keys} LIMIT {limit}"
    )
