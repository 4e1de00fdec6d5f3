"""What readers of events give time travel and what-if: records, runs of brokers, places in the order of their numbers.

A record is one row of `lifecycle`. A run is one life of a broker, named by its id and epoch; its records are numbered
1, 2, 3 … (`seq`) together with those of flows and requests. Here stand the words and the one rule that makes a table of
records (`fold`); where the records come from is the readers' matter.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from broker.events import (
    BROKER_DIED,
    BROKER_STARTED,
    BROKER_STOPPED,
    EVENTS_DROPPED,
    GATEWAYS,
    ROUTE_ADDED,
    ROUTE_JOINED,
    ROUTE_LEFT,
    ROUTE_REMOVED,
    ROUTE_REPLACED,
    ROUTE_SEEN,
)
from spark_sink.event_files.store import micros as micros

PUTS: Final = frozenset((ROUTE_JOINED, ROUTE_ADDED, ROUTE_SEEN))  # a route is in the table from here on
TAKES: Final = frozenset((ROUTE_LEFT, ROUTE_REPLACED, ROUTE_REMOVED))  # it is not
ENDS: Final = frozenset((BROKER_STOPPED, BROKER_DIED))  # of a run
NEAR_US: Final = 120_000_000  # a digest further away from an instant says nothing of it; brokers write one a minute
RUNNING: Final = "running"  # there are later records of this run, or nobody knows of its end
STOPPED: Final = "stopped"  # it said BrokerStopped
DIED: Final = "died"  # its writer says so, or the broker began another run and had not stopped

_SEEN: Final = {"kind": ROUTE_SEEN, "reason": "", "detail": "", "choices": 0}  # which the table `routes` does not say
SEEN_SQL: Final = {name: f"{value!r} AS {name}" for name, value in _SEEN.items()} | {
    "event_time": "seen_at AS event_time"
}


class Record(NamedTuple):
    """A lifecycle event."""

    seq: int
    at_us: int  # wall clock of its broker, microseconds since the epoch
    kind: int
    route_id: str
    service: str
    tags: dict[str, str]  # a tag without value has an empty one
    peer: str
    reason: str
    detail: str
    uptime_ms: int
    requests: int
    choices: int = 0  # that the broker had made by then

    @property
    def snapshot(self) -> range:
        """Of a TableDigest: the numbers of the RouteSeen events that it ends."""
        return range(self.seq - int(self.tags.get("routes") or 0), self.seq)


# Columns of `lifecycle` that a table is made of; segments of older writers have no `choices`
RECORD_COLUMNS: Final = tuple("event_time" if name == "at_us" else name for name in Record._fields if name != "choices")


class Run(NamedTuple):
    """One life of a broker."""

    broker_id: str
    broker_name: str
    epoch: int

    @property
    def key(self) -> tuple[str, int]:
        """What names it."""
        return self.broker_id, self.epoch

    @property
    def stream(self) -> str:
        """What the names of its segments begin with."""
        return f"{self.broker_id}-{self.epoch}"


class Position(NamedTuple):
    """A record of which only its place matters."""

    seq: int
    at_us: int


class Start(NamedTuple):
    """From where on a table is rebuilt."""

    seq: int  # of the first record that counts
    at_us: int
    is_whole: bool  # the broker's start, or a snapshot of all its routes; False: the first record that is there
    digest: Record | None  # of the snapshot


class Spot(NamedTuple):
    """Where an instant lies among the records of a run, and what its table is made of."""

    last: Position  # the record with the highest number of those that are not later
    after: Position | None  # the first record behind it; None: there is none (yet)
    start: Start  # the latest, not behind `last`, from which on the table is known
    digest: Record | None  # the first TableDigest behind `last`, if it is near
    logs: tuple[int, int] = (0, 0)  # of a folder of events: the first and the last in which all this is told

    @property
    def stops(self) -> list[tuple[int, Record | None]]:
        """The records behind which the table is wanted, ascending, each with the digest that it is."""
        digests = [digest for digest in (self.start.digest, self.digest) if digest is not None]
        stops: list[tuple[int, Record | None]] = [(digest.seq, digest) for digest in digests]
        stops.insert(int(self.start.digest is not None), (self.last.seq, None))
        return stops

    @property
    def seen_until(self) -> int:
        """RouteSeen events up to here count: the snapshot behind must not help the table it is compared with."""
        return self.start.digest.seq if self.start.digest is not None else 0 if self.start.is_whole else self.last.seq

    @property
    def end(self) -> int:
        """Up to this number nothing may be missing: what is missing before `after` may belong before the instant."""
        return self.last.seq if self.after is None else self.after.seq


class State(NamedTuple):
    """A table as it was behind one record."""

    routes: dict[str, Record]  # by route id: the record that put it there
    latest_us: int  # the latest time on any record that made it
    end: Record | None  # of the run: BrokerStopped or BrokerDied, if it was told by then


class Missing(NamedTuple):
    """Numbers of which no record is there."""

    ranges: list[tuple[int, int]]  # first and last, ascending
    told: list[Record]  # EventsDropped: what the broker or its writer say of missing records
    is_known: bool  # False: the reader cannot see the numbers of all records


def start_without_snapshot(started: Position | None, first: Position | None) -> Start:
    """Of a table where no snapshot is whole. `started`: BrokerStarted, if it is there; `first`: the first record."""
    if started is not None:
        return Start(started.seq, started.at_us, True, None)
    assert first is not None  # whoever asks has a record of this run
    return Start(first.seq, first.at_us, False, None)


def fold(routes: dict[str, Record], record: Record) -> None:
    """The table behind the record, made of the one before it: the newest word about a route counts."""
    if record.kind in PUTS:
        routes[record.route_id] = record
    elif record.kind in TAKES:
        routes.pop(record.route_id, None)
    elif record.kind == BROKER_STARTED:
        routes.clear()


def states_of(records: Iterable[Record], stops: Iterable[int]) -> Iterator[State]:
    """The table behind each of the records `stops` (ascending), made of these records, by their numbers. Each is to be
    used before the next is asked for."""
    left = list(stops)
    routes: dict[str, Record] = {}
    latest_us, end = 0, None
    for record in records:
        while left and record.seq > left[0]:
            yield State(routes, latest_us, end)
            left.pop(0)
        if not left:
            return
        fold(routes, record)
        if record.kind in ENDS:
            end = record
        if record.kind != EVENTS_DROPPED:
            latest_us = max(latest_us, record.at_us)
    for _ in left:
        yield State(routes, latest_us, end)


def records_of(rows: pa.Table) -> list[Record]:
    """Rows with at least `RECORD_COLUMNS`, in the order of their numbers."""
    names = [name for name in Record._fields if name in rows.schema.names]
    rows = rows.sort_by("seq")
    columns = {name: rows[name].to_pylist() for name in names if name != "tags"}
    columns["at_us"] = micros(rows["event_time"]).tolist()
    columns["tags"] = [{name: value or "" for name, value in pairs or ()} for pairs in rows["tags"].to_pylist()]
    columns["choices"] = rows["choices"].fill_null(0).to_pylist() if "choices" in names else [0] * len(rows)
    return [Record(*values) for values in zip(*(columns[name] for name in Record._fields), strict=True)]


def by_run(rows: pa.Table) -> Iterator[tuple[Run, pa.Table]]:
    """The runs of brokers that rows name, by broker and epoch, each with its rows."""
    order = [("broker_id", "ascending"), ("epoch", "ascending")]
    rows = rows.sort_by(order)
    runs = rows.group_by(["broker_id", "epoch"]).aggregate([("broker_name", "max"), ([], "count_all")])
    place = 0
    for run in runs.sort_by(order).to_pylist():
        if not run["broker_id"].startswith(GATEWAYS):
            yield Run(run["broker_id"], run["broker_name_max"] or "", run["epoch"]), rows.slice(place, run["count_all"])
        place += run["count_all"]


def seen_of(routes: pa.Table) -> pa.Table:
    """Rows of the table `routes` as RouteSeen events; `SEEN_SQL` does so in Spark."""
    rows = routes.rename_columns(["event_time" if name == "seen_at" else name for name in routes.schema.names])
    for name, value in _SEEN.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(value), len(rows)))
    return rows


def told_of(records: Iterable[Record], spot: Spot) -> list[Record]:
    """The EventsDropped that tell of numbers from the start to the end of the spot."""
    dropped = [(*dropped_range(record), record) for record in records if record.kind == EVENTS_DROPPED]
    return [record for begin, end, record in dropped if begin <= spot.end and end >= spot.start.seq]


def dropped_range(dropped: Record) -> tuple[int, int]:
    """The first and the last number that an EventsDropped tells of."""
    return int(dropped.tags.get("first_seq") or dropped.seq), int(dropped.tags.get("last_seq") or dropped.seq)


def ranges_of(numbers: Any) -> tuple[Any, Any]:
    """An int64 array in any order as ranges without gaps: their first and their last numbers, ascending."""
    numbers = np.unique(numbers)
    if not len(numbers):
        return numbers, numbers
    breaks = np.flatnonzero(np.diff(numbers) > 1)
    return numbers[np.concatenate(([0], breaks + 1))], numbers[np.concatenate((breaks, [len(numbers) - 1]))]


def gaps_between(there: Sequence[tuple[Any, Any]], first: int, last: int) -> list[tuple[int, int]]:
    """Ranges between these two, both included, of which no number is there. `there`: as `ranges_of` gives them, of any
    files: a day of records is one range when none is missing."""
    none = np.empty(0, np.int64)
    firsts, lasts = (np.concatenate([none, *(each[side] for each in there)]) for side in (0, 1))
    order = np.argsort(firsts, kind="stable")
    begins = np.maximum(np.maximum.accumulate(np.concatenate(([first - 1], lasts[order]))) + 1, first)
    ends = np.minimum(np.concatenate((firsts[order], [last + 1])) - 1, last)
    is_gap = begins <= ends
    return list(zip(begins[is_gap].tolist(), ends[is_gap].tolist(), strict=True))
