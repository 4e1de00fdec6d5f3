"""What tests of batches share: events of two days, what the tables say."""

import random
from pathlib import Path
from typing import Any

import msgspec

from broker.events import LifecycleEvent
from spark_sink.pipeline import PARQUET
from spark_sink.tables import GAPS, read_table
from tests.spark_sink.pipeline.folders import BEFORE_MIDNIGHT_MS, EventSource, seal, seal_frames
from tests.spark_sink.records import NOON_MS, Event, definition, events, header_with, request

DAY_MS = 86_400_000
OTHER = header_with(broker_id="8e4b0000-0000-4000-8000-000000000002", broker_name="two")


def seal_requests(folder: Path, seqs: range, at_ms: int = NOON_MS) -> None:
    rng = random.Random(seqs.start)
    rows: list[Any] = [definition(flow) for flow in (1, 2)]
    rows += [request(rng, seq, rng.randint(1, 2), at_ms + (seq - seqs.start) * 1000) for seq in seqs]
    seal_frames(folder, [msgspec.msgpack.encode(rows)])


def told(seq: int, kind: int, at_ms: int = NOON_MS, **fields: Any) -> LifecycleEvent:
    return LifecycleEvent(kind, seq, at_ms, **fields)


def gaps(tables: Path) -> list[tuple[str, str, int, int, int]]:
    rows = read_table(tables, GAPS).to_pylist()
    return sorted((row["reason"], row["broker_id"], row["epoch"], row["first_seq"], row["records"]) for row in rows)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/date=*/*"))


def filled(
    folder: Path, table_format: str = PARQUET, batches: int = 3, count: int = 20, at_ms: int = NOON_MS
) -> tuple[EventSource, list[Event]]:
    """Tables of some batches of `count` records and ten requests."""
    folder.mkdir(exist_ok=True)
    source, records = EventSource(folder / "events", folder / "tables", table_format), list[Event]()
    for number in range(batches):
        more = events(89 + number, count, at_ms, first_seq=len(records) + 1)
        seal(source.events, more, header=header_with(first_number=100 * number + 1))
        seal_requests(source.events, range(1000 + 10 * number, 1010 + 10 * number))
        records += more
        source.run()
    return source, records


def two_days(folder: Path) -> list[Event]:
    records = events(4, 60, BEFORE_MIDNIGHT_MS)
    seal(folder, records, each=30)
    seal_requests(folder, range(1000, 1100), BEFORE_MIDNIGHT_MS + 50_000)  # 100 s around midnight
    return records
