"""Random histories of brokers, the segments that a writer makes of them, and what was true after each record."""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from broker.events import (
    BROKER_LOAD,
    BROKER_STARTED,
    BROKER_STOPPED,
    EVENTS_DROPPED,
    FLOW_FIELDS,
    PEER_CONNECTED,
    ROUTE_ADDED,
    ROUTE_JOINED,
    ROUTE_LEFT,
    ROUTE_REMOVED,
    ROUTE_REPLACED,
    ROUTE_SEEN,
    TABLE_DIGEST,
    FlowRecord,
    LifecycleEvent,
)
from broker.routing.digest import Digest, distinct, route_mark
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import wal_name
from spark_sink.event_files.wal import Ledger, WalHead, encode_wal_frame
from tests.spark_sink.records import NOON_MS, arrow_of, put_segments, rows_frame

Tags = list[tuple[str, str]]
Row = LifecycleEvent | FlowRecord

ODD_TEXTS = ("", "eu", "a,b", "größe", "\u202eabc", "日本", "🦀🦀", "a=b c", "\x00", "e\u0301", "ﬀ")
NAMES = ("io.rsocket.routing.Region", "io.rsocket.routing.Zone", "version", "größe", "🦀", "x y", "", "health")


class TrueRoute:
    """A route in the broker's table."""

    def __init__(self, service: str, tags: Tags, peer: str, joined_ms: int) -> None:
        self.service, self.tags, self.peer, self.joined_ms = service, tags, peer, joined_ms
        self.requests = 0


class History:
    """One run of one broker. A method is something that happens; `rows` are its records, `digests` what was true."""

    def __init__(self, number: int = 1, epoch: int = 1_700_000_000_000, at_ms: int = NOON_MS, name: str = "") -> None:
        self.header = Header(
            broker_id=f"7f3a0000-0000-4000-8000-{number:012d}", broker_name=name or f"broker-{number}", epoch=epoch
        )
        self.at_ms = at_ms
        self.table: dict[str, TrueRoute] = {}
        self.rows: list[Row] = []
        self.digests: list[str] = []  # after each of the rows
        self._digest = Digest()
        self.tell(BROKER_STARTED, tags=[("version", "1"), ("seed", "7")])

    @property
    def seq(self) -> int:
        return self.rows[-1].seq if self.rows else 0

    def tell(self, kind: int, **fields: Any) -> None:
        self._add(LifecycleEvent(kind, self.seq + 1, self.at_ms, **fields))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self.digests.append(self._digest.text)

    def join(self, route_id: str, service: str, tags: Tags, peer: str) -> None:
        self._digest.add(route_mark(route_id, service, tags))
        self.table[route_id] = TrueRoute(service, tags, peer, self.at_ms)
        kind = ROUTE_ADDED if peer.startswith("broker ") else ROUTE_JOINED
        self.tell(kind, route_id=route_id, service=service, tags=tags, peer=peer)

    def leave(self, route_id: str, kind: int | None = None, reason: str = "left") -> None:
        route = self.table.pop(route_id)
        self._digest.take(route_mark(route_id, route.service, route.tags))
        if kind is None:
            kind = ROUTE_REMOVED if route.peer.startswith("broker ") else ROUTE_LEFT
        self.tell(
            kind,
            route_id=route_id,
            service=route.service,
            tags=route.tags,
            peer=route.peer,
            reason=reason,
            uptime_ms=max(0, self.at_ms - route.joined_ms),
            requests=route.requests,
        )

    def change(self, route_id: str, tags: Tags) -> None:
        route = self.table[route_id]
        self.leave(route_id, ROUTE_REPLACED, "changed")
        self.join(route_id, route.service, tags, route.peer)

    def replace(self, route_id: str, peer: str) -> None:
        route = self.table[route_id]
        self.leave(route_id, ROUTE_REMOVED if route.peer.startswith("broker ") else ROUTE_REPLACED, "replaced")
        self.join(route_id, route.service, route.tags, peer)

    def snapshot(self) -> None:
        for slot, (route_id, route) in enumerate(self.table.items()):
            self.tell(
                ROUTE_SEEN,
                route_id=route_id,
                service=route.service,
                tags=route.tags,
                peer=route.peer,
                uptime_ms=max(0, self.at_ms - route.joined_ms),
                requests=route.requests,
                detail=str(slot),
            )
        local = sum(not route.peer.startswith("broker ") for route in self.table.values())
        counts = [("routes", str(len(self.table))), ("local", str(local)), ("generation", str(self.seq))]
        self.tell(TABLE_DIGEST, tags=[("digest", self._digest.text), *counts])

    def flow(self, requests: int = 1) -> None:
        fields: dict[str, Any] = dict.fromkeys(FLOW_FIELDS, "")
        fields |= dict.fromkeys(("items_in", "items_out", "bytes_in", "bytes_out", "latency_sum_us"), 0)
        fields |= {"seq": self.seq + 1, "at_ms": self.at_ms, "interval_ms": 1000, "service": "orders"}
        fields |= {"requests": requests, "branches": requests, "latency_max_us": 0, "histogram": []}
        self._add(FlowRecord(**fields))

    def stop(self) -> None:
        for route_id in [each for each, route in self.table.items() if not route.peer.startswith("broker ")]:
            self.leave(route_id, reason="broker-stopped")
        self.tell(BROKER_STOPPED)

    def late_snapshots(self, rng: random.Random) -> list[Row]:
        """The rows in the order in which a broker tells them: pieces of snapshots come behind younger events."""
        told: list[Row] = []
        waiting: list[Row] = []
        for row in self.rows:
            if isinstance(row, LifecycleEvent) and row.kind in (ROUTE_SEEN, TABLE_DIGEST):
                waiting.append(row)
                continue
            told.append(row)
            pieces = rng.randint(0, 3)
            told += waiting[:pieces]
            waiting = waiting[pieces:]
        return told + waiting

    def drop(self, first_seq: int, last_seq: int, reason: str = "not-taken") -> None:
        """These records get lost, and are told: the last of them is the telling one."""
        lost = [row for row in self.rows if first_seq <= row.seq <= last_seq]
        tags = [("records", str(len(lost))), ("first_seq", str(first_seq)), ("last_seq", str(last_seq))]
        told = LifecycleEvent(EVENTS_DROPPED, last_seq, self.at_ms, tags=tags, reason=reason, detail="lost")
        self.rows[first_seq - 1 : last_seq] = [told]

    def digest_at(self, at_ms: int) -> str:
        """Of the table behind the last record that is not later."""
        return next(
            digest for row, digest in zip(self.rows[::-1], self.digests[::-1], strict=True) if row.at_ms <= at_ms
        )


def random_tags(rng: random.Random) -> Tags:
    """Some twice, some without value, in odd writing."""
    return [(rng.choice(NAMES), rng.choice(ODD_TEXTS)) for _ in range(rng.randint(0, 6))]


def random_step(history: History, rng: random.Random) -> None:
    """Something happens; perhaps at the same millisecond as what was before."""
    history.at_ms += rng.choice((0, 0, 1, 3, 250, 2000))
    there = list(history.table)
    kind = rng.randint(0, 11)
    if kind <= 3 or not there:
        route_id = f"{rng.randrange(60):032x}"
        peer = rng.choice(("tcp 10.0.0.4:5123", "unix", "broker 7f3a0000-0000-4000-8000-000000000002"))
        if route_id in history.table:
            history.replace(route_id, peer)
        else:
            history.join(route_id, rng.choice(("orders", "stock", "größe 🦀")), random_tags(rng), peer)
    elif kind <= 5:
        history.leave(rng.choice(there))
    elif kind == 6:
        history.change(rng.choice(there), random_tags(rng))
    elif kind == 7:
        route_id = rng.choice(there)
        tags = history.table[route_id].tags
        history.change(route_id, rng.sample(tags, len(tags)) + tags[:1])
    elif kind == 8:
        history.replace(rng.choice(there), f"tcp 10.0.0.9:{rng.randint(1, 9)}")
    elif kind == 9:
        if history.seq % 2:
            history.tell(PEER_CONNECTED, peer="tcp 10.0.0.4:5123")
        else:
            history.tell(BROKER_LOAD, tags=[("cpu_permille", "250"), ("in_flight", "3")])
    else:
        history.table[rng.choice(there)].requests += 3
        history.flow(3)


def random_history(
    seed: int,
    steps: int,
    snapshot_ms: int = 60_000,
    epoch: int = 1_700_000_000_000,
    at_ms: int = NOON_MS,
    number: int = 1,
) -> History:
    rng = random.Random(seed)
    history = History(number, epoch, at_ms)
    due_ms = at_ms + snapshot_ms
    for _ in range(steps):
        random_step(history, rng)
        if snapshot_ms and history.at_ms >= due_ms:
            history.snapshot()
            due_ms = history.at_ms + snapshot_ms
    return history


def by_second(rows: Sequence[Row], roll_ms: int = 1000) -> list[list[Row]]:
    """Rows of one log each, as a writer rolls them: what comes in the time from the first on."""
    logs: list[list[Row]] = []
    for row in rows:
        is_late = isinstance(row, LifecycleEvent) and row.kind in (ROUTE_SEEN, TABLE_DIGEST)
        if not logs or (not is_late and not 0 <= row.at_ms - logs[-1][0].at_ms < roll_ms):
            logs.append([])
        logs[-1].append(row)
    return logs


def write_segments(
    events: Path,
    history: History,
    rows: Sequence[Row] | None = None,
    first_number: int = 1,
    place: Callable[[str, int], Path] | None = None,
    roll_ms: int = 1000,
) -> int:
    """Of all rows, or these; the number of the next log. `place`: where a segment of this source and number lies."""
    number = first_number
    before: Counter[str] = Counter()  # rows of a source in earlier segments
    for log in by_second(history.rows if rows is None else rows, roll_ms):
        of = arrow_of(rows_frame(log), history.header)
        for path in put_segments(events, history.header, of, number, before, place):
            os.utime(path, (log[0].at_ms / 1000 + 1, log[0].at_ms / 1000 + 1))
        before.update({source: len(table) for source, table in of.items()})
        number += 1
    return number


def write_log(events: Path, history: History, rows: Sequence[Row], number: int, torn: bytes = b"") -> Path:
    """A log that no segment has been made of."""
    folder = events / "_tmp"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / wal_name(history.header.broker_id, history.header.epoch, number)
    head = encode_wal_frame(0, 0, msgspec.msgpack.encode(WalHead(history.header, Ledger())))
    path.write_bytes(head + encode_wal_frame(1, len(rows), rows_frame(rows)) + torn)
    return path


def tags_of(route: TrueRoute) -> dict[str, str]:
    return {name: value or "" for name, value in distinct(route.tags).items()}
