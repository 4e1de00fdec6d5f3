"""What the report costs: tables of a million requests, read and told on a terminal and as a page.

The tables are made here, as the pipeline makes them of one hour: partials per minute, broker, route, model and outcome,
and a table `requests` with each request as a row of its own. `python -m benchmarks.report`; a minute.

`python -m benchmarks.report --days 30 --routes 10000` makes tables of a month instead: days, hours, and minutes of the
last week, in which each route has requests in every minute. Four minutes of CPU and half a gigabyte of disk.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from broker.events import KIND_NAMES, bucket_of
from spark_sink.tables import TIMES, table_schema

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MINUTES = 60
MODELS = ("request_response", "request_response", "request_response", "request_stream", "fire_and_forget")
OUTCOMES = (("completed", ""), ("error", ""), ("rejected", "no-route"), ("cancelled", ""))
# Tables of a month. `r`: a route's number; `t`: seconds from the begin of the day.
ORIGIN = (
    "printf('%08d-0000-4000-8000-000000000000', r % {brokers}) AS broker_id, 'broker-' || r % {brokers} AS broker_name"
)
SERVICE = "printf('service-%03d', r % {services}) AS service"
ROUTE = "printf('%08x-0000-4000-8000-000000000000', r)"
MONTH_KEYS = {
    "traffic": f"{SERVICE}, {ROUTE} AS route_id, 'request_response' AS model, 'unicast' AS routing",
    "callers": f"'shop' AS caller_service, {ROUTE} AS caller_route, {SERVICE}, 'request_response' AS model",
}
MONTH_SUMS = (
    *(("requests", 1), ("branches", 1), ("items_in", 1), ("items_out", 1), ("bytes_in", 90), ("bytes_out", 120)),
    *(("latency_sum_us", 900), ("latency_max_us", 40)),
)
MONTH_ROUTES = f"""SELECT make_timestamptz(({{begin}} + t) * 1000000) AS seen_at, {ORIGIN}, 1::BIGINT AS epoch,
    t * {{routes}} + r AS seq, {ROUTE} AS route_id, {SERVICE}, MAP {{{{'region': 'r' || r % 3}}}} AS tags,
    'tcp 10.0.0.4:5123' AS peer, t * 1000 AS uptime_ms, t AS requests
FROM range(0, 86400, 60) AS times(t), range({{routes}}) AS numbers(r)"""
MONTH_EVENTS = f"""SELECT make_timestamptz(({{begin}} + t) * 1000000) AS event_time, {ORIGIN}, 1::BIGINT AS epoch,
    {{begin}} + t AS seq, {{kind}}::BIGINT AS kind, 'TableDigest' AS event, '' AS route_id, '' AS service,
    MAP {{{{'routes': '{{routes}}', 'local': '{{routes}}'}}}} AS tags, '' AS peer, '' AS reason, '' AS detail,
    0::BIGINT AS uptime_ms, 0::BIGINT AS requests, 0::BIGINT AS choices
FROM range(0, 86400, 60) AS times(t), range({{brokers}}) AS numbers(r)"""
KINDS = {name: number for number, name in KIND_NAMES.items()}
SEED = 6


class Size:
    """How large the tables are to be."""

    def __init__(self, requests: int, brokers: int, services: int, routes: int) -> None:
        self.requests = requests
        self.brokers = brokers
        self.services = services
        self.routes = routes


def make_tables(folder: Path, size: Size) -> dict[str, int]:
    """Writes them; rows of each table."""
    rng = np.random.default_rng(SEED)
    service_of = rng.integers(0, size.services, size.routes)
    service_of[: size.services] = np.arange(size.services)
    service_names = np.array([f"service-{number:03d}" for number in range(size.services)], object)
    route_ids = np.array([f"{number:08x}-0000-4000-8000-000000000000" for number in range(size.routes)], object)
    weight = 1 / np.arange(1, size.routes + 1) ** 0.7
    route = rng.choice(size.routes, size.requests, p=weight / weight.sum())
    second = np.sort(rng.integers(0, MINUTES * 60, size.requests))
    broker = rng.integers(0, size.brokers, size.requests)
    outcome = rng.choice(len(OUTCOMES), size.requests, p=[0.95, 0.02, 0.02, 0.01])
    model = rng.integers(0, len(MODELS), size.requests)
    routing = rng.choice(3, size.requests, p=[0.7, 0.2, 0.1])
    routings = np.array(["unicast", "shard", "multicast"], object)
    duration = rng.lognormal(6.5, 1.2, size.requests).astype(np.int64) + 5 * (route % 100)
    branches = np.where(outcome == 2, 0, np.where(routing == 2, 1 + duration % 9, 1))
    at = np.array([int(NOON.timestamp()) * 1_000_000]) + second * 1_000_000
    route_id = np.where((routing == 2) | (outcome == 2), "", route_ids[route])
    texts = {
        "broker_id": np.array([f"{number:08d}-0000-4000-8000-000000000000" for number in range(size.brokers)], object)[
            broker
        ],
        "broker_name": np.array([f"broker-{number}" for number in range(size.brokers)], object)[broker],
        "service": service_names[service_of[route]],
        "route_id": route_id,
        "model": np.array(MODELS, object)[model],
        "routing": routings[routing],
        "outcome": np.array([pair[0] for pair in OUTCOMES], object)[outcome],
        "word": np.array([pair[1] for pair in OUTCOMES], object)[outcome],
        "caller_service": np.array(["", "shop", "kiosk", "web"], object)[route % 4],
        "caller_route": route_ids[(route * 7) % size.routes],
        "address": np.array([f"service=service-{number:03d}" for number in range(size.services)], object)[
            service_of[route]
        ],
        "emptied_by": np.where(outcome == 2, np.array([f"region={n}" for n in range(30)], object)[route % 30], ""),
    }
    minute = at // 60_000_000 * 60_000_000
    ones = np.ones(size.requests, np.int64)
    numbers = {"requests": ones, "branches": branches, "items_in": ones, "items_out": ones, "bytes_in": ones * 90}
    numbers |= {"bytes_out": ones * 120, "latency_sum_us": duration, "latency_max_us": duration}
    rows = pa.table({"minute": minute, **texts, **numbers})
    counts = {}
    single = {"event_time": at, "started_at": at, "epoch": ones, "seq": np.arange(size.requests), "weight": ones}
    counts["requests"] = _write(
        folder, "requests", pa.table({**single, **texts, "branches": branches, "duration_us": duration})
    )
    for table in ("callers", "rejections"):
        schema = table_schema(table)
        some = rows.filter(pa.compute.equal(rows["outcome"], "rejected")) if table == "rejections" else rows
        keys = [field.name for field in schema if field.name in rows.column_names and field.name not in numbers]
        sums = [(name, "max" if name == "latency_max_us" else "sum") for name in schema.names if name in numbers]
        made = some.group_by(keys).aggregate(sums).rename_columns(keys + [name for name, _ in sums])
        counts[table] = _write(folder, table, made)
    counts["traffic"] = _write(folder, "traffic", _traffic(rows, duration))
    for table, made in _histories(size, route_ids, service_names[service_of]).items():
        counts[table] = _write(folder, table, made)
    return counts


def _traffic(rows: pa.Table, duration: Any) -> pa.Table:
    buckets = np.fromiter(map(bucket_of, duration.tolist()), np.int64, len(duration))
    rows = rows.append_column("bucket", pa.array(buckets))
    keys = ["minute", "broker_id", "broker_name", "service", "route_id", "model", "routing", "outcome", "word"]
    sums = [
        (name, "sum")
        for name in ("requests", "branches", "items_in", "items_out", "bytes_in", "bytes_out", "latency_sum_us")
    ]
    fine = rows.group_by([*keys, "bucket"]).aggregate([*sums, ("latency_max_us", "max")])
    names = [name for name, _ in sums]
    fine = fine.rename_columns([*keys, "bucket", *names, "latency_max_us"])
    grouped = fine.group_by(keys, use_threads=False).aggregate(
        [*((name, "sum") for name in names), ("latency_max_us", "max"), ("bucket", "list"), ("requests", "list")]
    )
    return grouped.rename_columns([*keys, *names, "latency_max_us", "latency_buckets", "latency_counts"])


def _histories(size: Size, route_ids: Any, services: Any) -> dict[str, pa.Table]:
    """Snapshots of every minute, stays, links and digests."""
    origins = [(f"{number:08d}-0000-4000-8000-000000000000", f"broker-{number}") for number in range(size.brokers)]
    broker = np.arange(size.routes) % size.brokers
    ids, names = (np.array([origin[place] for origin in origins], object)[broker] for place in (0, 1))
    seen = [NOON + timedelta(minutes=minute) for minute in range(MINUTES)]
    snapshots = [
        pa.table(
            {
                "seen_at": [at] * size.routes,
                "broker_id": ids,
                "broker_name": names,
                "epoch": [1] * size.routes,
                "seq": np.arange(size.routes) + place * (size.routes + 1),
                "route_id": route_ids,
                "service": services,
                "peer": ["tcp 10.0.0.4:5123"] * size.routes,
                "uptime_ms": [60_000 * (place + 1)] * size.routes,
            }
        )
        for place, at in enumerate(seen)
    ]
    events: list[dict[str, Any]] = []
    sessions: list[dict[str, Any]] = []
    for number, (broker_id, name) in enumerate(origins):
        own = {"broker_id": broker_id, "broker_name": name, "epoch": 1}
        local = int((broker == number).sum())

        def tell(kind: str, at: datetime, own: dict[str, Any] = own, **values: Any) -> None:
            events.append(own | {"seq": len(events), "event_time": at, "kind": KINDS[kind], "event": kind} | values)

        tell("BrokerStarted", NOON, tags=[("version", "0.1.0"), ("core", "compiled")])
        for other in (number + 1, number + 2):
            if size.brokers > 1:
                tell("LinkUp", NOON, detail=origins[other % size.brokers][1])
        if number % 7 == 3:
            tell("LinkDown", NOON, detail=origins[(number + 1) % size.brokers][1], reason="stuck", uptime_ms=9000)
        for place, at in enumerate(seen):
            tags = [("routes", str(size.routes)), ("local", str(local - place % 5))]
            tell("TableDigest", at, tags=tags, seq=(place + 1) * (size.routes + 1))
        for place in range(0, size.routes, max(1, size.routes // 200)):
            if place % size.brokers == number:
                for turn in range(1 + place % 6):
                    left_at = NOON + timedelta(minutes=5 * turn + 1)
                    row = {"seq": turn, "route_id": f"old-{place:06x}", "service": services[place], "is_local": 1}
                    row |= {"left_at": left_at, "joined_at": left_at - timedelta(seconds=40), "uptime_ms": 40_000}
                    sessions.append(
                        own | row | {"ended_as": "left", "reason": "left" if turn % 2 else "keepalive-timeout"}
                    )
    gap = {
        "event_time": NOON + timedelta(minutes=17),
        "broker_id": origins[0][0],
        "broker_name": "broker-0",
        "epoch": 1,
    }
    gap |= {
        "first_seq": 5,
        "last_seq": 900,
        "records": 896,
        "requests": 4711,
        "reason": "backlog-full",
        "detail": "stuck",
    }
    made = {"lifecycle": events, "sessions": sessions, "gaps": [gap]}
    tables = {table: pa.Table.from_pylist(mine, schema=table_schema(table)) for table, mine in made.items()}
    return {"routes": pa.concat_tables(snapshots), **tables}


def _write(folder: Path, table: str, rows: pa.Table) -> int:
    """One file; columns that the rows lack are empty."""
    schema = table_schema(table)
    empty = {"string": "", "int64": 0}
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            columns.append(rows[field.name].cast(field.type))
        else:
            value = pa.scalar(empty.get(str(field.type)), field.type)
            columns.append(pa.repeat(value, len(rows)))
    path = folder / table / f"date={NOON:%Y-%m-%d}"
    path.mkdir(parents=True, exist_ok=True)
    made = pa.table(columns, schema=schema).sort_by(TIMES[table])
    pq.write_table(made, path / "batch-0000000000.parquet", compression="zstd", compression_level=1)
    return len(rows)


def month_sums(size: Size, grain: str, seconds: int, keys: str, *, has_latency: bool) -> str:
    """A query: the sums of a day. One route in a hundred fails in one piece of time of three; counts and latencies of a
    row are one of sixteen kinds."""
    width = 4 if grain == "minute" else 24
    kinds = [[1 + (place * kind) % 5 * seconds // 60 for place in range(width)] for kind in range(1, 17)]
    buckets = [list(range(90 + kind, 90 + kind + width)) for kind in range(1, 17)]
    sums = [f"{sum(one)}" for one in kinds]
    count = f"[{', '.join(sums)}][1 + k]"
    histogram = f", {buckets}[1 + k]::BIGINT[] AS latency_buckets, {kinds}[1 + k]::BIGINT[] AS latency_counts"
    numbers = ", ".join(f"({count} * {n})::BIGINT AS {name}" for name, n in MONTH_SUMS)
    outcome = "CASE WHEN r % 100 = 99 AND k < 5 THEN 'error' ELSE 'completed' END AS outcome, '' AS word"
    keys = f"{ORIGIN}, {keys}".format(brokers=size.brokers, services=size.services)
    return (
        f"SELECT make_timestamptz(({{begin}} + t) * 1000000) AS {grain}, {keys}, {outcome}, {numbers}"
        f"{histogram if has_latency else ''} FROM (SELECT *, (hash(t, r) % 16)::BIGINT AS k FROM "
        f"range(0, 86400, {seconds}) AS times(t), range({size.routes}) AS numbers(r))"
    )


def make_month(folder: Path, size: Size, days: int, minute_days: int) -> dict[str, int]:
    """Roll-ups of so many days, and for the last of them minutes and snapshots of the routing table, too. Rows of each
    table."""
    connection = duckdb.connect(config={"memory_limit": "1GB", "threads": 2})
    counts: dict[str, int] = {}

    def write(table: str, day: int, query: str) -> None:
        """`day`: of the last ones, 0 is the last; the query's `t` counts seconds from its begin on."""
        begin = int(NOON.timestamp()) // 86_400 * 86_400 - day * 86_400
        path = folder / table / f"date={datetime.fromtimestamp(begin, UTC):%Y-%m-%d}"
        path.mkdir(parents=True)
        rows = connection.sql(query.replace("{begin}", str(begin)))
        rows.write_parquet(str(path / "batch-0000000000.parquet"), compression="zstd")
        counts[table] = counts.get(table, 0) + 1

    for grain, seconds, kept in (("day", 86_400, days), ("hour", 3600, days), ("minute", 60, minute_days)):
        for table, keys in MONTH_KEYS.items():
            name = table if grain == "minute" else f"{table}_by_{grain}"
            for day in range(kept if name != "callers" else 0):  # nobody reads minutes of callers here
                write(name, day, month_sums(size, grain, seconds, keys, has_latency=table == "traffic"))
    for day in range(minute_days):
        write(
            "routes",
            day,
            MONTH_ROUTES.format(begin="{begin}", brokers=size.brokers, services=size.services, routes=size.routes),
        )
    for day in range(days):
        write(
            "lifecycle",
            day,
            MONTH_EVENTS.format(begin="{begin}", brokers=size.brokers, routes=size.routes, kind=KINDS["TableDigest"]),
        )
    return {
        table: connection.sql(f"SELECT count(*) FROM '{folder}/{table}/*/*.parquet'").fetchall()[0][0]
        for table in counts
    }


def measure(folder: Path, options: list[str]) -> tuple[float, float, int]:
    """Wall and CPU seconds and the largest memory (KiB) of the command, from its start to its end."""
    code = (
        "import sys\n"
        "from broker.commands.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    [peak] = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "    print(peak, file=sys.stderr)\n"  # ru_maxrss would tell ours, which a child inherits
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = [sys.executable, "-c", code, "report", str(folder), *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, int(done.stderr.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--services", type=int, default=50)
    parser.add_argument("--routes", type=int, default=300)
    parser.add_argument("--days", type=int, default=0, help="tables of so many days instead, with roll-ups")
    parser.add_argument("--minute-days", type=int, default=7, help="of the last of which there are minutes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="leave the tables and the page in this new folder")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp())
    try:
        size = Size(options.requests, options.brokers, options.services, options.routes)
        if options.days:
            counts = make_month(folder, size, options.days, options.minute_days)
        else:
            counts = make_tables(folder, size)
        print(", ".join(f"{table} {count:,}" for table, count in sorted(counts.items())), "rows")
        for name, extra in (("terminal", []), ("terminal and page", ["--html", str(folder / "report.html")])):
            rounds = sorted(measure(folder, extra) for _ in range(options.rounds))
            wall, cpu, memory = rounds[len(rounds) // 2]
            print(f"{name:18} {wall:5.2f} s wall, {cpu:5.2f} s CPU, {memory / 1024:,.0f} MiB (median of {len(rounds)})")
    finally:
        if options.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
