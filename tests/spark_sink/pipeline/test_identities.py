"""The tables of identities: who was let in and who was not, what roles did not allow, who has called or changed."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from broker.events import ADMITTED, AUTH_REFUSED, CHANGED, DENIED, REVOKED, FlowRecord
from spark_sink.pipeline.compaction import compact
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.local import LocalEngine
from spark_sink.tables import ACCESS, CALLS, CHANGES, COLUMNS, DENIALS, read_table
from tests.spark_sink.pipeline.batches import told
from tests.spark_sink.pipeline.folders import EventSource, seal
from tests.spark_sink.records import NOON_MS, Event, flow, header_with

NOON = datetime(2023, 11, 15, 12, tzinfo=UTC)
ORDERS = "jwt:orders-7"
DRAINED = [("operation", "drain"), ("subject", "region=eu")]
IN_THE_WAY = [("tag", "region"), ("value", "mars")]
MADE = ("minute", "day", "broker_id", "broker_name")


def rows(tables: Path, table: str) -> list[tuple[Any, ...]]:
    """The rows without their broker and the minute or day."""
    names = [column.name for column in COLUMNS[table] if column.name not in MADE]
    return sorted(tuple(row[name] for name in names) for row in read_table(tables, table).to_pylist())


def call(seq: int, principal: str, outcome: str, requests: int) -> FlowRecord:
    record = flow(random.Random(1), seq)._replace(at_ms=NOON_MS, principal=principal, outcome=outcome, word="")
    return record._replace(service="billing", address="service=billing region=eu", requests=requests)


def test_access_denials_and_changes_tell_who_what_how_often_and_when_and_calls_who_has_called_what(
    tmp_path: Path,
) -> None:
    source = EventSource(tmp_path / "events", tmp_path / "tables")
    for batch in (0, 1):
        seq, at_ms = 100 * batch, NOON_MS + 5000 * batch
        records: list[Event] = [
            told(seq + 1, ADMITTED, at_ms, principal=ORDERS, role="orders", reason="jwt", detail=ORDERS),
            told(seq + 2, ADMITTED, at_ms, reason="anonymous", detail="anonymous"),
            told(seq + 3, AUTH_REFUSED, at_ms, reason="unauthenticated", detail="jwt: it is for another audience"),
            told(seq + 4, REVOKED, at_ms, principal="user:ada", reason="revoked", detail="gone"),
            told(
                seq + 5, DENIED, at_ms, principal=ORDERS, role="orders", service="orders", detail="no", tags=IN_THE_WAY
            ),
            told(seq + 6, DENIED, at_ms + 1000, detail="may not", reason="denied", requests=40),
            told(seq + 7, CHANGED, at_ms, principal="token:ci", role="operator", peer="admin ::1", tags=DRAINED),
            told(seq + 8, CHANGED, at_ms, peer="admin ::1", reason="no-such-drain", tags=DRAINED),
            call(seq + 9, ORDERS, "completed", 3),
            call(seq + 10, "", "completed", 5),
        ]
        seal(source.events, records, header=header_with(first_number=100 * batch + 1))
        source.run()
    tables = source.tables
    first, last = NOON, NOON + timedelta(seconds=5)
    assert compact(LocalFileSystem(tables), LocalEngine(), "2023-11-16").days
    assert rows(tables, ACCESS) == [
        ("Admitted", "anonymous", "", "", "", 2, first, last),
        ("Admitted", ORDERS, "orders", "", "", 2, first, last),
        ("AuthRefused", "", "", "unauthenticated", "jwt: it is for another audience", 2, first, last),
        ("Revoked", "user:ada", "", "revoked", "gone", 2, first, last),
    ]
    later = timedelta(seconds=1)
    assert rows(tables, DENIALS) == [
        ("anonymous", "", "address", "", "", "", "may not", 80, first + later, last + later),
        (ORDERS, "orders", "announce", "orders", "region", "mars", "no", 2, first, last),
    ]
    assert rows(tables, CHANGES) == [
        ("", "", "admin ::1", "drain", "region=eu", "no-such-drain", 2, first, last),
        ("token:ci", "operator", "admin ::1", "drain", "region=eu", "", 2, first, last),
    ]
    assert rows(tables, CALLS) == [(ORDERS, "billing", "service=billing region=eu", "completed", "", 6)]
    assert {row["day"] for row in read_table(tables, CALLS).to_pylist()} == {NOON.replace(hour=0)}
