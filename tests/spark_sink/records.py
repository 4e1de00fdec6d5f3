"""Random records, the frames that carry them, and the same facts in plain Python to compare with."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import spark_sink
from broker.events import BROKER_DIED, KIND_NAMES, FileRecord, FlowRecord, LifecycleEvent, MessageRecord, bucket_of
from spark_sink.event_files.batches import FrameRows, parquet_bytes, tables_of
from spark_sink.event_files.folder import SOURCES
from spark_sink.event_files.footer import footer_of, segment_metadata
from spark_sink.event_files.frames import FrameSplitter, Header, decode_rows
from spark_sink.event_files.layout import Disk, segment_name
from spark_sink.writer.machine import Writer
from spark_sink.writer.settings import Settings

Event = FlowRecord | LifecycleEvent
RequestFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int]
DefinitionFields: TypeAlias = tuple[int, int, str, str, str, str, str, str, str, str, str, str, str]

HEADER = Header(broker_id="7f3a0000-0000-4000-8000-000000000001", broker_name="one", epoch=1_700_000_000_000)
NOON_MS = 1_700_049_600_000  # 2023-11-15 12:00:00 UTC
TOLD_BY_BROKERS = [kind for kind in KIND_NAMES if kind != BROKER_DIED]
WALL_S = NOON_MS / 1000
PROJECT = Path(spark_sink.__file__).parents[1]


def flow(rng: random.Random, seq: int, at_ms: int = NOON_MS) -> FlowRecord:
    """The requests of one interval, with the histogram of latencies that really were drawn."""
    latencies = [int(rng.lognormvariate(6.5, 1.2)) for _ in range(rng.randint(0, 12))]
    counts = Counter(map(bucket_of, latencies))
    ends = [("completed", "", ""), ("error", "", ""), ("rejected", "no-route", "region=mars"), ("cancelled", "", "")]
    outcome, word, emptied_by = rng.choice(ends)
    return FlowRecord(
        seq,
        at_ms + rng.randint(0, 200_000),
        1000,
        rng.choice(["", "caller-1", "caller-2"]),
        rng.choice(["", "web"]),
        "",
        rng.choice(["", "route-1", "route-2"]),
        rng.choice(["orders", "stock", "größe | [x]"]),
        "service=orders",
        rng.choice(["request_response", "request_stream"]),
        rng.choice(["unicast", "multicast"]),
        outcome,
        word,
        emptied_by,
        len(latencies),
        rng.randint(0, 9) if not word else 0,
        rng.randint(0, 9),
        rng.randint(0, 9),
        rng.randint(0, 2**40),
        rng.randint(0, 2**40),
        sum(latencies),
        max(latencies, default=0),
        sorted(counts.items()),
        rng.choice(["", "AAAEFA=="]),
    )


def lifecycle(rng: random.Random, seq: int, at_ms: int = NOON_MS) -> LifecycleEvent:
    return LifecycleEvent(
        rng.choice(TOLD_BY_BROKERS),
        seq,
        at_ms + rng.randint(0, 200_000),
        route_id=f"route-{rng.randint(1, 3)}",
        service="orders",
        tags=[("region", rng.choice(["eu", "us"])), ("zone", "")],
        peer="tcp 10.0.0.4:5123",
        reason=rng.choice(["", "keepalive-timeout"]),
        detail="ein Satz",
        uptime_ms=rng.randint(0, 10**7),
        requests=rng.randint(0, 100),
        choices=rng.randint(0, 10**6),
    )


def definition(flow: int, service: str = "orders") -> DefinitionFields:
    route, address = f"route-{flow}", f"service={service}"
    return (3, flow, "caller-1", "web", "", route, service, address, "request_response", "unicast", "", "", "AAAEFA==")


def request(rng: random.Random, seq: int, flow: int, at_ms: int = NOON_MS) -> RequestFields:
    started_us = at_ms * 1000 + rng.randint(0, 10**6)
    duration_us, outcome = int(rng.lognormvariate(6.5, 1.2)), rng.randint(0, 5)
    order, key_hash, branches = rng.randint(0, 9), rng.choice([-1, rng.randint(0, 2**31 - 1)]), rng.randint(0, 3)
    choice = order, order + rng.randint(0, 9), key_hash, branches
    items_in, items_out = rng.randint(0, 9), rng.randint(0, 9)
    bytes_in, bytes_out = rng.randint(0, 2**40), rng.randint(0, 2**40)
    return (2, seq, started_us, duration_us, flow, outcome, *choice, items_in, items_out, bytes_in, bytes_out)


def events(seed: int, count: int, at_ms: int = NOON_MS, first_seq: int = 1) -> list[Event]:
    """Nine flow records to one lifecycle event."""
    rng = random.Random(seed)
    return [(lifecycle if seq % 10 == 0 else flow)(rng, seq, at_ms) for seq in range(first_seq, first_seq + count)]


def rows_frame(records: Iterable[Event | MessageRecord | FileRecord]) -> bytes:
    """Their frame, without its length."""
    return msgspec.msgpack.encode([record.row() for record in records])


def arrow_of(frame: bytes, header: Header = HEADER) -> dict[str, pa.Table]:
    """What the writer makes of a frame of rows: source -> table."""
    known: dict[int, Any] = {}
    return tables_of(header, [FrameRows(decode_rows(frame), known)], known)


def put_segments(
    events: Path,
    header: Header,
    of: Mapping[str, pa.Table],
    number: int = 1,
    before: Mapping[str, int] | None = None,
    place: Callable[[str, int], Path] | None = None,
) -> list[Path]:
    """The segments of one number. `before`: rows of each source in those before it; `place`: folder of a source and
    number, its own without."""
    paths = []
    for source, table in of.items():
        folder = place(source, number) if place is not None else events / source
        folder.mkdir(parents=True, exist_ok=True)
        paths.append(folder / segment_name(header.broker_id, header.epoch, number))
        paths[-1].write_bytes(parquet_bytes(table, segment_metadata(header, source, (before or {}).get(source, 0))))
    return paths


def made_old(events: Path) -> None:
    """Every second segment of this folder becomes one of schema version 3, with the names that columns had then."""
    for path in sorted(path for source in ("flows", "lifecycle", "requests") for path in (events / source).glob("*"))[
        ::2
    ]:
        changed_s, told = path.stat().st_mtime, footer_of(pq.read_metadata(path).metadata)
        table = pq.read_table(path)
        old = {"event_time": "at", "choice": "order"}
        table = table.rename_columns([old.get(name, name) for name in table.schema.names])
        path.write_bytes(parquet_bytes(table, told | {"schema_version": "3"}))
        os.utime(path, (changed_s, changed_s))


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def copied(folder: Path, *numbers: int) -> list[Path]:
    """The segments of these numbers once more, under numbers that are higher by 9000."""
    copies = []
    for number in numbers:
        for path in sorted(folder.glob(f"*/*-{number:010d}.parquet")):
            copies.append(path.with_name(path.name.replace(f"-{number:010d}", f"-{9000 + number:010d}")))
            shutil.copy(path, copies[-1])
    return copies


def pulled(splitter: FrameSplitter) -> list[bytes]:
    """All frames that are whole."""
    frames = []
    while (frame := splitter.pull()) is not None:
        frames.append(frame)
    return frames


def frames_in(path: Path) -> list[bytes]:
    """What a file holds, and nothing else."""
    splitter = FrameSplitter()
    splitter.add(path.read_bytes())
    frames = pulled(splitter)
    assert splitter.left_bytes == 0
    return frames


def header_with(**changes: Any) -> Header:
    """HEADER, but for these fields."""
    return msgspec.structs.replace(HEADER, **changes)


def header_frame(**changes: object) -> bytes:
    return framed(msgspec.msgpack.encode(msgspec.to_builtins(HEADER) | changes))


def sealed(folder: Path, source: str) -> list[dict[str, Any]]:
    """All rows of the segments of a source, in the order of the names."""
    files = sorted(path for path in (folder / source).glob("*.parquet") if not path.name.startswith("."))
    return pa.concat_tables([pq.read_table(path) for path in files]).to_pylist() if files else []


def sealed_seqs(folder: Path) -> list[int]:
    """Sequence numbers of everything that is sealed and that the broker told, sorted."""
    return sorted(row["seq"] for source in SOURCES for row in told(folder, source))


def told(folder: Path, source: str) -> list[dict[str, Any]]:
    """The rows of the segments of a source, but for those of the writer itself."""
    return [row for row in sealed(folder, source) if row.get("kind") != BROKER_DIED]


def deaths(folder: Path) -> list[tuple[int, int]]:
    """Number and time (ms since the epoch) of each BrokerDied."""
    rows = [row for row in sealed(folder, "lifecycle") if row["kind"] == BROKER_DIED]
    return [(row["seq"], round(row["event_time"].timestamp() * 1000)) for row in rows]


def writer_of(folder: Path, header: Header = HEADER, **options: Any) -> Writer:
    """As its process makes it; it has not begun."""
    return Writer(folder, header, **{"disk": Disk(), "say": print, "settings": Settings(), **options})


def begun(folder: Path, header: Header = HEADER, now: float = 0.0, **options: Any) -> Writer:
    """At noon."""
    writer = writer_of(folder, header, **options)
    writer.begin(now, WALL_S)
    return writer


def writer_process(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """A real writer with pipes on all three ends."""
    return subprocess.Popen(
        [sys.executable, "-m", "spark_sink.writer", "--events", str(folder), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=PROJECT,
    )


def last_state(output: bytes) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(output.splitlines()[-1])
    return state


def requests_of(records: Sequence[Event]) -> int:
    return sum(record.requests for record in records if isinstance(record, FlowRecord))
