"""Who was let in and who was not, what roles did not allow, and what operators have changed."""

from typing import Final

from spark_sink.report.reading import Record, TableReader
from spark_sink.tables import ACCESS, CHANGES, DENIALS

MAX_ACCESS: Final = 30
MAX_DENIALS: Final = 30
MAX_CHANGES: Final = 30
_ADMITTED: Final = "event = 'Admitted'"
_IDENTITY: Final = "event, principal, role, word, reason"
_ASKED: Final = "principal, role, asked, service, tag, tag_value, reason"
_CHANGED: Final = "principal, role, peer, operation, subject, word"


def access_of(reader: TableReader, begin_us: int) -> Record:
    """`rows`: how often an identity was let in, or refused for one reason; refused ones first, then the most.
    `denied_rows`: what an identity has asked and its role does not allow, the most first. `changed_rows`: what somebody
    has changed by the REST API, or was refused, the latest first."""
    rows, denied, changed = (reader.rows_of(table, begin_us) for table in (ACCESS, DENIALS, CHANGES))
    found, count = reader.ranked(_counted(rows, _IDENTITY, f"{_ADMITTED}, ", MAX_ACCESS))
    denied_rows, denied_count = reader.ranked(_counted(denied, _ASKED, "", MAX_DENIALS))
    changed_rows, changed_count = reader.ranked(_counted(changed, _CHANGED, "last_us DESC, ", MAX_CHANGES))
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
        changed_rows=changed_rows,
        changed_count=changed_count,
    )


def _sum(only: str) -> str:
    return f"coalesce(sum(times) FILTER ({only}), 0)::BIGINT"


def _counted(rows: str, keys: str, order: str, limit: int) -> str:
    return (
        f"SELECT {keys}, sum(times)::BIGINT AS times, min(first_at) AS first_us, max(last_at) AS last_us, "
        f"count(*) OVER () AS total FROM {rows} GROUP BY {keys} ORDER BY {order}times DESC, {keys} LIMIT {limit}"
    )
