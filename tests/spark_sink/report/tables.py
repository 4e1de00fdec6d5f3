"""Random tables as the pipeline makes them, written with pyarrow alone: rows as plain dicts and files of them."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from broker.events import KIND_NAMES, bucket_of
from spark_sink.tables import GRAINS, PARTIALS, TIMES, table_schema

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = dict[str, list[Row]]  # table -> rows

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
KINDS = {name: number for number, name in KIND_NAMES.items()}
OUTCOMES = (("completed", ""), ("error", ""), ("cancelled", ""), ("rejected", "no-route"), ("route_lost", "route-lost"))
ZERO = {"string": "", "int64": 0, "timestamp[us, tz=UTC]": NOON}


def write(folder: Path, rows: Rows, name: str = "batch-0000000000.parquet") -> None:
    """One file per table and day, columns that a row lacks empty."""
    for table, mine in rows.items():
        days: dict[str, list[Row]] = {}
        for row in mine:
            days.setdefault(f"{row[TIMES[table]]:%Y-%m-%d}", []).append(row)
        for day, of_day in days.items():
            path = folder / table / f"date={day}"
            path.mkdir(parents=True, exist_ok=True)
            pq.write_table(arrow(table, of_day), path / name)


def rolled_up(rows: Rows) -> Rows:
    """The same partials by the hour and by the day."""
    found: Rows = {}
    for table, finer, grain in ((partial.name, partial, grain) for partial in PARTIALS for grain in GRAINS[1:]):
        begin = {"minute": 0, "second": 0} if grain == "hour" else {"hour": 0, "minute": 0, "second": 0}
        mine = [row | {grain: row["minute"].replace(**begin)} for row in rows.get(table, [])]
        found[finer.rolled_up(grain).name] = [{key: row[key] for key in row if key != "minute"} for row in mine]
    return found


def arrow(table: str, rows: list[Row]) -> pa.Table:
    """The rows as the table has them."""
    schema = table_schema(table)
    empty = {field.name: ZERO.get(str(field.type)) for field in schema}
    return pa.Table.from_pylist([empty | row for row in rows], schema=schema)


def origin(number: int) -> Row:
    return {"broker_id": f"{number:08d}-0000-4000-8000-000000000000", "broker_name": f"broker-{number}"}


def histogram(latencies: list[int]) -> Row:
    counts = Counter(map(bucket_of, latencies))
    return {
        "latency_buckets": sorted(counts),
        "latency_counts": [counts[bucket] for bucket in sorted(counts)],
        "latency_sum_us": sum(latencies),
        "latency_max_us": max(latencies, default=0),
    }


def traffic_row(service: str = "orders", requests: int = 1, **values: Any) -> Row:
    """One partial of `traffic`; every latency 1000 us unless told."""
    row = origin(1) | {"minute": NOON, "service": service, "requests": requests, "branches": requests}
    row |= {"model": "request_response", "routing": "unicast", "outcome": "completed"}
    return row | histogram([1000] * requests) | values


def event_row(kind: str, seq: int = 1, **values: Any) -> Row:
    return (
        origin(1)
        | {"epoch": 1, "seq": seq, "event_time": NOON, "kind": KINDS[kind], "event": kind, "tags": []}
        | values
    )


def load_row(broker: int, minute: int, **values: Any) -> Row:
    """What a broker did in a minute: numbers that tell the broker and the minute."""
    tags = {
        "cpu_permille": broker * 100,
        "loop_lag_max_us": minute,
        "connections": broker,
        "in_flight": broker + minute,
    }
    row = event_row("BrokerStarted", 10_000 + minute, event_time=NOON + timedelta(minutes=minute, seconds=1), epoch=2)
    told = {"kind": 33, "event": "BrokerLoad", "tags": [(name, str(count)) for name, count in tags.items()]}
    return row | origin(broker) | told | {"route_id": ""} | values


def session_row(route_id: str, left_at: datetime, uptime_ms: int, seq: int = 1, **values: Any) -> Row:
    row = origin(1) | {
        "epoch": 1,
        "seq": seq,
        "route_id": route_id,
        "service": "orders",
        "is_local": 1,
        "ended_as": "left",
    }
    times = {"joined_at": left_at - timedelta(milliseconds=uptime_ms), "left_at": left_at, "uptime_ms": uptime_ms}
    return row | times | {"reason": "left", "tags": []} | values


class Made:
    """Random rows of all tables. What is odd about real ones is in them: partials of the same minute, empty names,
    histograms of nothing, joins that nobody recorded, runs that died, snapshots that were cut."""

    def __init__(self, seed: int, rows: int = 300, hours: float = 3) -> None:
        self._rng = random.Random(seed)
        self._hours = hours
        self.services = ["orders", "carts", "", "größe | <b>", *(f"service-{number}" for number in range(30))]
        self.routes = {f"{number:08x}-1111": self._rng.choice(self.services[:8]) for number in range(60)}
        self.rows: Rows = {
            "traffic": [self._traffic() for _ in range(rows)],
            "callers": [self._caller() for _ in range(rows)],
            "rejections": [self._rejection() for _ in range(rows // 2)],
            "requests": [self._request() for _ in range(rows)],
            "gaps": [self._gap() for _ in range(5)],
            "messages": [self._message() for _ in range(rows)],
            "sessions": [],
            "lifecycle": [],
            "routes": [],
        }
        for broker in range(1, 5):
            self._history(broker)
        for number in range(30):
            self._comings(f"{number:08x}-2222")
        self.rows["lifecycle"] += [load_row(broker, minute) for broker in (1, 2, 3) for minute in range(0, 150, 3)]

    def _at(self) -> datetime:
        return NOON + timedelta(microseconds=self._rng.randrange(int(self._hours * 3600e6)))

    def _minute(self) -> Row:
        return {"minute": self._at().replace(second=0, microsecond=0)} | origin(self._rng.randint(1, 4))

    def _asked(self) -> Row:
        outcome, word = self._rng.choice(OUTCOMES)
        model = self._rng.choice(["request_response", "request_response", "request_stream", "fire_and_forget"])
        service = self._rng.choice(self.services)
        return {"service": service, "outcome": outcome, "word": word, "model": model}

    def _sizes(self) -> Row:
        return {name: self._rng.randrange(2**45) for name in ("items_in", "items_out", "bytes_in", "bytes_out")}

    def _traffic(self) -> Row:
        row = self._minute() | self._asked() | self._sizes()
        latencies = [int(self._rng.lognormvariate(6.5, 1.8)) for _ in range(self._rng.randint(0, 30))]
        routing = self._rng.choice(["unicast", "unicast", "shard", "multicast"])
        route_id = ""
        if routing != "multicast" and row["outcome"] != "rejected":
            route_id = self._rng.choice(list(self.routes))
        branches = len(latencies) * self._rng.randint(1, 5) if routing == "multicast" else len(latencies)
        row |= {"routing": routing, "route_id": route_id, "requests": len(latencies), "latencies": latencies}
        return row | {"branches": 0 if row["outcome"] == "rejected" else branches} | histogram(latencies)

    def _caller(self) -> Row:
        caller = {
            "caller_service": self._rng.choice(["", "shop", "kiosk"]),
            "caller_route": self._rng.choice(["", *self.routes]),
        }
        return self._minute() | self._asked() | self._sizes() | caller | {"requests": self._rng.randint(0, 50)}

    def _rejection(self) -> Row:
        return self._minute() | {
            "service": self._rng.choice(self.services),
            "caller_service": self._rng.choice(["", "shop"]),
            "address": self._rng.choice(["service=orders region=mars", "service=carts"]),
            "word": self._rng.choice(["no-route", "overloaded"]),
            "emptied_by": self._rng.choice(["", *(f"region={number}" for number in range(20))]),
            "requests": self._rng.randint(0, 9),
        }

    def _request(self) -> Row:
        at = self._at()
        row = (
            origin(1)
            | self._asked()
            | {"event_time": at, "started_at": at, "epoch": 1, "weight": self._rng.choice([1, 1, 10])}
        )
        return row | {"routing": self._rng.choice(["unicast", "multicast"]), "branches": self._rng.randint(1, 9)}

    def _gap(self) -> Row:
        counts = {
            "first_seq": 10,
            "last_seq": 19,
            "records": self._rng.randint(0, 99),
            "requests": self._rng.randint(0, 999),
        }
        reason = self._rng.choice(["backlog-full", "broker-died", "bad-file"])
        return origin(1) | counts | {"event_time": self._at(), "epoch": 1, "reason": reason, "detail": "a sentence"}

    def _message(self) -> Row:
        rng = self._rng
        exchange, is_dead = rng.choice(("orders", "news", "<b>", "")), rng.random() < 0.2
        told = {"outcome": "dead", "reason": rng.choice(("no-route", "unroutable\x1b"))} if is_dead else {}
        after_ms = int(rng.lognormvariate(5, 4))
        row = origin(5) | {"epoch": 1, "event_time": self._at(), "exchange": exchange, "after_ms": after_ms}
        destination = "" if is_dead else rng.choice(("rabbit-1", "rabbit-2", *list(self.routes)[:8]))
        said = {"outcome": "delivered", "destination": destination, "reason": "", "tries": rng.choice((1, 1, 1, 4))}
        return row | said | told

    def _history(self, broker: int) -> None:
        """Two runs of a broker: the first stops or dies, the second stays."""
        at = NOON + timedelta(seconds=self._rng.random() * 600)
        for epoch in (1, 2):
            at = self._run(origin(broker) | {"epoch": epoch}, at, epoch == 1) + timedelta(seconds=5)

    def _run(self, own: Row, at: datetime, is_first: bool) -> datetime:
        rng = self._rng
        seq = 0
        here: dict[str, datetime] = {}

        def tell(kind: str, **values: Any) -> None:
            nonlocal seq
            seq += 1
            row = own | {"seq": seq, "event_time": at, "kind": KINDS[kind], "event": kind, "tags": [], "route_id": ""}
            self.rows["lifecycle"].append(row | values)

        tell("BrokerStarted", tags=[("version", "0.1.0"), ("core", "compiled")])
        for _ in range(60):
            at += timedelta(seconds=rng.choice([1, 20, 120]))
            what = rng.random()
            if what < 0.4:
                route_id = rng.choice(list(self.routes))
                if route_id in here:
                    self._end(own, here.pop(route_id), route_id, at, seq := seq + 1, "replaced")
                here[route_id] = at
                if rng.random() < 0.9:
                    tell("RouteJoined", route_id=route_id, service=self.routes[route_id])
            elif what < 0.7 and here:
                route_id = rng.choice(list(here))
                since = here.pop(route_id)
                tell("RouteLeft", route_id=route_id, service=self.routes[route_id], reason="keepalive-timeout")
                self._end(own, since, route_id, at, seq, "left")
            elif what < 0.8:
                name = rng.choice(["broker-1", "broker-2", "broker-3: odd"])
                if rng.random() < 0.5:
                    tell("LinkUp", detail=name)
                else:
                    tell("LinkDown", detail=f"{name}: it went", reason="socket-lost", uptime_ms=rng.randint(0, 10**6))
            else:
                routes = len(here) + 1
                for route_id, since in here.items():
                    self._seen(own, route_id, at, since, seq := seq + 1, "tcp 10.0.0.4:5123")
                self._seen(own, "far-away", at, at, seq := seq + 1, "broker x")
                if rng.random() < 0.8:
                    tell("TableDigest", tags=[("routes", str(routes)), ("local", str(len(here)))])
        if is_first and rng.random() < 0.5:
            tell("BrokerStopped")
        return at

    def _comings(self, route_id: str) -> None:
        """Stays of a route that may be flapping."""
        at = self._at()
        for turn in range(self._rng.randint(1, 8)):
            uptime_ms = self._rng.choice([1_000, 30_000, 59_999, 60_000])
            at += timedelta(seconds=self._rng.choice([100, 200, 300, 301]))
            self.rows["sessions"].append(session_row(route_id, at, uptime_ms, 1000 + turn, service="flappy"))

    def _end(self, own: Row, since: datetime, route_id: str, at: datetime, seq: int, end: str) -> None:
        uptime_ms = int((at - since).total_seconds() * 1000)
        row = session_row(route_id, at, uptime_ms, seq, ended_as=end, service=self.routes[route_id], reason=end) | own
        if self._rng.random() < 0.1:
            row["joined_at"] = None
        self.rows["sessions"].append(row)
        if self._rng.random() < 0.2:  # another broker tells it too
            self.rows["sessions"].append(row | origin(9) | {"is_local": 0, "ended_as": "removed"})

    def _seen(self, own: Row, route_id: str, at: datetime, since: datetime, seq: int, peer: str) -> None:
        uptime_ms = int((at - since).total_seconds() * 1000)
        row = own | {"seq": seq, "seen_at": at, "route_id": route_id, "service": self.routes.get(route_id, "far")}
        self.rows["routes"].append(row | {"peer": peer, "uptime_ms": uptime_ms, "tags": []})
