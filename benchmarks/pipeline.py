"""How fast the pipeline turns event files into tables: catching up, from the event to the table, and with many files.

    python -m benchmarks.pipeline                          the first three, with both engines, about eight minutes
    python -m benchmarks.pipeline catch-up [ENGINE]        events per second of the whole pipeline, on 2 cores
    python -m benchmarks.pipeline delay [ENGINE [EVERY]]   from event to table, p50 and p99, with 0.5 s segments
    python -m benchmarks.pipeline small [ENGINE]           CPU for each of 20,000 segments of a few records
    python -m benchmarks.pipeline formats                  plain files and tables of Delta: catch-up, live batches

The segments are those of a broker that writes all requests: 20,000 a second over 4,000 flows with zipf weights, and the
flow records of each second. Tables are compared with the sums of what was written.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker.events import bucket_of
from spark_sink.delta_log import LOG
from spark_sink.event_files.batches import parquet_bytes
from spark_sink.event_files.footer import segment_metadata
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import ARCHIVE, Disk, seal, segment_name
from spark_sink.pipeline import FORMATS, PARQUET
from spark_sink.pipeline.batch import BatchWriter
from spark_sink.pipeline.compaction import compact
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.folders import check_folders
from spark_sink.pipeline.local import LocalEngine, found
from spark_sink.pipeline.pipeline import Pipeline
from spark_sink.pipeline.spark import SparkEngine
from spark_sink.schema import ARROW_SCHEMAS, FLOWS, REQUESTS
from spark_sink.session import open_session
from spark_sink.tables import COLUMNS, TRAFFIC, read_table
from spark_sink.tables import REQUESTS as REQUEST_TABLE

RATE: Final = 20_000  # requests a second
FLOW_COUNT: Final = 4_000
CATCH_UP_S: Final = 150  # of traffic: 3 million requests
SMALL_FILES: Final = 20_000
WARM_S: Final = 30.0  # before anything is measured: the first batches load classes, and Java compiles
DELAY_S: Final = 40.0
LIVE_BATCHES: Final = 150
Engine = SparkEngine | LocalEngine
HEADER: Final = Header("7f3a0000-0000-4000-8000-000000000001", "bench", 1_795_000_000_000, "bench")


class Traffic:
    """Makes segments, and knows how many requests are in them."""

    def __init__(self, events: Path) -> None:
        self._events: Final = events
        self._chance: Final = np.random.default_rng(7)
        weights = 1.0 / np.arange(1, FLOW_COUNT + 1)
        self._weights: Final = weights / weights.sum()
        self._flows: Final = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(FLOW_COUNT)]
        self._services: Final = [f"service-{number % 50}" for number in range(FLOW_COUNT)]
        self._seq = 1
        self.requests = 0  # that the flow records count
        self.single_requests = 0
        self.flow_records = 0
        self.number = 0

    def write(self, seconds: float, at_s: float, *, has_requests: bool = True) -> None:
        """The segments of so much traffic that ended at this wall time: flow records, then single requests."""
        count = int(RATE * seconds)
        flows = self._chance.choice(FLOW_COUNT, count, p=self._weights)
        latencies = self._chance.lognormal(6.5, 1.0, count).astype(np.int64)
        self.number += 1
        self._seal(FLOWS, self._flow_records(flows, latencies, at_s, seconds))
        self.requests += count
        if has_requests:
            self._seal(REQUESTS, self._requests(flows, latencies, at_s, seconds))
            self.single_requests += count

    def _seal(self, source: str, columns: dict[str, Any]) -> None:
        schema, rows = ARROW_SCHEMAS[source], len(columns["seq"])
        nothing = {pa.string(): "", pa.int64(): 0}
        columns |= {"broker_id": HEADER.broker_id, "broker_name": HEADER.broker_name, "epoch": HEADER.epoch}
        arrays = []
        for field in schema:
            value = columns.get(field.name, nothing.get(field.type))
            array = (
                value
                if hasattr(value, "__len__") and not isinstance(value, str)
                else pa.repeat(pa.scalar(value, field.type), rows)
            )
            arrays.append(
                pa.array(array).cast(field.type) if not isinstance(array, pa.Array) else array.cast(field.type)
            )
        data = parquet_bytes(pa.Table.from_arrays(arrays, schema=schema), segment_metadata(HEADER, source, 0))
        seal(self._events / source, segment_name(HEADER.broker_id, HEADER.epoch, self.number), data, Disk())

    def _numbers(self, count: int) -> Any:
        self._seq += count
        return np.arange(self._seq - count, self._seq)

    def _texts(self, flows: Any) -> dict[str, Any]:
        places = pa.array(flows)
        texts = {"route_id": self._flows, "service": self._services, "caller_service": self._services}
        return {name: pa.array(values).take(places) for name, values in texts.items()} | {
            "address": pc.binary_join_element_wise("service=", pa.array(self._services).take(places), ""),
            "model": "request_response",
            "routing": "unicast",
            "outcome": "completed",
        }

    def _requests(self, flows: Any, latencies: Any, at_s: float, seconds: float) -> dict[str, Any]:
        ended = np.sort((at_s - self._chance.random(len(flows)) * seconds) * 1e6).astype(np.int64)
        return self._texts(flows) | {
            "seq": self._numbers(len(flows)),
            "event_time": ended,
            "started_at": ended - latencies,
            "duration_us": latencies,
            "choice": self._numbers(len(flows)),
            "bytes_in": np.full(len(flows), 76),
            "bytes_out": np.full(len(flows), 76),
            "branches": 1,
            "weight": 1,
        }

    def _flow_records(self, flows: Any, latencies: Any, at_s: float, seconds: float) -> dict[str, Any]:
        used, places = np.unique(flows, return_inverse=True)
        self.flow_records += len(used)
        requests = np.bincount(places)
        sums = np.bincount(places, latencies).astype(np.int64)
        largest = np.zeros(len(used), np.int64)
        np.maximum.at(largest, places, latencies)
        buckets = np.array([bucket_of(int(latency)) for latency in latencies])
        cells, counts = np.unique(places * 2000 + buckets, return_counts=True)
        offsets = pa.array(np.searchsorted(cells // 2000, np.arange(len(used) + 1)).astype(np.int32))
        at_us = int(at_s * 1e6)
        return self._texts(used) | {
            "seq": self._numbers(len(used)),
            "event_time": np.full(len(used), at_us),
            "started_at": np.full(len(used), at_us - int(seconds * 1e6)),
            "interval_ms": np.full(len(used), int(seconds * 1000)),
            "requests": requests,
            "branches": requests,
            "bytes_in": requests * 76,
            "bytes_out": requests * 76,
            "latency_sum_us": sums,
            "latency_max_us": largest,
            "latency_buckets": pa.ListArray.from_arrays(offsets, pa.array(cells % 2000)),
            "latency_counts": pa.ListArray.from_arrays(offsets, pa.array(counts)),
        }


def catch_up(engine: Engine, folder: Path, table_format: str = PARQUET) -> None:
    """Everything is there; how long until it is in the tables?"""
    traffic = Traffic(folder / "events")
    now_s = time.time()
    for second in range(CATCH_UP_S):
        traffic.write(1.0, now_s - CATCH_UP_S + second)
    began, cpu = time.monotonic(), cpu_s(engine)
    run_once(engine, folder, table_format)
    took, used = time.monotonic() - began, cpu_s(engine) - cpu
    check(folder / "tables", traffic)
    events = traffic.requests + traffic.flow_records
    print(
        f"{name_of(engine)}, {table_format}, catch-up: {events} events ({traffic.flow_records} of them flow records) "
        f"in {took:.1f} s: {events / took:,.0f} events/s; CPU {used / events * 1e6:.2f} us per event"
    )


def run_once(engine: Engine, folder: Path, table_format: str | None = None) -> None:
    """All that is there."""
    pipeline = Pipeline(str(folder / "events"), str(folder / "tables"), "local[2]", None, table_format=table_format)
    pipeline.run_queries(engine)


def name_of(engine: Engine) -> str:
    """As the option spells it."""
    return "local" if isinstance(engine, LocalEngine) else "spark"


def check(tables: Path, traffic: Traffic) -> None:
    """The tables are exact, or all figures are worth nothing."""
    counted = pc.sum(read_table(tables, TRAFFIC, ["requests"])["requests"]).as_py()
    listed = read_table(tables, REQUEST_TABLE, ["seq"]).num_rows
    if (counted, listed) != (traffic.requests, traffic.single_requests):
        sys.exit(
            f"{traffic.requests} requests were written, traffic counts {counted}; "
            f"{traffic.single_requests} single ones, requests has {listed}"
        )


def cpu_s(engine: Engine) -> float:
    """CPU time of this process and of Spark's Java and its workers, user and system, those that have ended too."""
    used = _cpu_of("self")
    if engine.session is not None:
        java = engine.session._jvm.java.lang.ProcessHandle.current().pid()
        used += sum(_cpu_of(process) for process in _with_children(java))
    return used


def _with_children(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children")
    threads = children.parent.parent.iterdir() if children.exists() else ()
    below = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    return [process, *(each for child in below for each in _with_children(child))]


def _cpu_of(process: object) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / 100


def delay(engine: Engine, folder: Path, every: str) -> None:
    """Segments of 0.5 s come all the time; how old is an event when it is in a table?"""
    traffic = Traffic(folder / "events")
    traffic.write(0.5, time.time())
    pipeline = Pipeline(str(folder / "events"), str(folder / "tables"), "local[2]", every)
    runs = threading.Thread(target=pipeline.run_queries, args=(engine,))
    runs.start()
    sealed: dict[str, float] = {}  # segment -> when its oldest event happened
    seen: dict[str, float] = {}  # segment -> when it was archived, which is after it was in the last of the tables
    feeds = threading.Thread(target=_feed, args=(traffic, sealed))
    feeds.start()
    while (feeds.is_alive() or len(seen) < len(sealed)) and runs.is_alive():
        for path in (folder / "events" / ARCHIVE).glob(f"**/{REQUESTS}/*.parquet"):
            if path.name in sealed and path.name not in seen:
                seen[path.name] = path.stat().st_ctime
        time.sleep(0.05)
    pipeline._stop(0, None)
    runs.join()
    run_once(engine, folder)
    check(folder / "tables", traffic)
    # Events of a segment are spread over its 0.5 s.
    ages = np.concatenate([seen[name] - sealed[name] - np.linspace(0, 0.5, 20) for name in seen])
    p50, p99 = np.percentile(ages, [50, 99])
    print(
        f"{name_of(engine)}, event to table, 0.5 s segments, trigger {every!r}: "
        f"p50 {p50:.2f} s, p99 {p99:.2f} s ({len(seen)} segments)"
    )


def _feed(traffic: Traffic, sealed: dict[str, float]) -> None:
    began = due = time.monotonic()
    while due < began + WARM_S + DELAY_S:
        due += 0.5
        time.sleep(max(0.0, due - time.monotonic()))
        now_s = time.time()
        if due > began + WARM_S:
            sealed[segment_name(HEADER.broker_id, HEADER.epoch, traffic.number + 1)] = now_s - 0.5
        traffic.write(0.5, now_s)


def small(engine: Engine, folder: Path) -> None:
    """Segments of a second in which little happened."""
    traffic = Traffic(folder / "events")
    now_s = time.time()
    for second in range(SMALL_FILES):
        traffic.write(0.0002, now_s - SMALL_FILES + second, has_requests=False)
    began, cpu = time.monotonic(), cpu_s(engine)
    run_once(engine, folder)
    took, used = time.monotonic() - began, cpu_s(engine) - cpu
    check(folder / "tables", traffic)
    print(
        f"{name_of(engine)}, {SMALL_FILES} segments of {traffic.flow_records / SMALL_FILES:.0f} records: "
        f"{took:.1f} s, CPU {used / SMALL_FILES * 1000:.2f} ms a file"
    )


def live(folder: Path, table_format: str) -> None:
    """Batches of little, one after another, as a pipeline has them that keeps up."""
    (folder / "events").mkdir(parents=True)
    traffic, engine, cpus = Traffic(folder / "events"), LocalEngine(), list[float]()
    events, tables = LocalFileSystem(folder / "events"), LocalFileSystem(folder / "tables")
    check_folders(events, tables, is_once=False, wanted=table_format)
    writer = BatchWriter(events.root, tables.root)
    for _ in range(LIVE_BATCHES):
        traffic.write(0.05, time.time())
        cpu = cpu_s(engine)
        writer.write(None, engine.work_on(events, found(events)))
        cpus.append(cpu_s(engine) - cpu)
    check(folder / "tables", traffic)
    print(f"{table_format}, batch of {RATE // 20} requests: CPU {np.mean(cpus) * 1000:.0f} ms; {sizes(folder)}")
    compact(tables, engine, "2999-01-01")
    check(folder / "tables", traffic)
    print(f"{table_format}, compacted: {sizes(folder)}")


def sizes(folder: Path) -> str:
    """Of the tables and of their logs."""
    paths = [path for path in (folder / "tables").glob("*/*/*") if path.parent.parent.name in COLUMNS]
    logs = sum(path.stat().st_size for path in paths if path.parent.name == LOG)
    return f"{(sum(path.stat().st_size for path in paths) - logs) / 1e6:.1f} MB, logs {logs / 1e6:.1f} MB"


def main(arguments: Sequence[str]) -> None:
    what, name, every = [*arguments, *["all", "both", ""][len(arguments) :]]
    engines: list[Engine] = [LocalEngine()] if name != "spark" else []
    if name != "local" and what != "formats":
        engines.append(SparkEngine(open_session("local[2]")))
    with tempfile.TemporaryDirectory(prefix="pipeline-") as folder:
        for table_format in FORMATS if what == "formats" else ():
            catch_up(LocalEngine(), Path(folder) / f"{table_format}-all", table_format)
            live(Path(folder) / f"{table_format}-live", table_format)
        for engine in engines:
            here = Path(folder) / name_of(engine)
            if what in ("all", "catch-up"):
                catch_up(engine, here / "warm")
                catch_up(engine, here / "catch-up")
            if what in ("all", "delay"):
                for number, trigger in enumerate([every] if every else ["0 seconds", "5 seconds"]):
                    delay(engine, here / f"delay{number}", trigger)
            if what in ("all", "small"):
                small(engine, here / "small")
            if engine.session is not None:
                engine.session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
