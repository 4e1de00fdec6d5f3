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
    BROKER_STARTED,
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
RUNNING: Final = "running"  # there are later records of this run, or nobody knows of its end
STOPPED: Final = "stopped"  # it said BrokerStopped
DIED: Final = "died"  # its writer says so, or the broker began another run and had not stopped
MAX_RANGES: Final = 10_000  # of numbers, before they are joined to fewer

SEEN_SQL: Final = {  # how the table `routes` has those that are not its own, for Spark
    "event_time": "seen_at AS event_time",
    "kind": f"{ROUTE_SEEN}L AS kind",
    "reason": "'' AS reason",
    "detail": "'' AS detail",
    "choices": "0L AS choices",
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


class Window(NamedTuple):
    """Where an instant lies among the records of a run."""

    last: Position | None  # the record with the highest number of those that are not later; None: all are later
    after: Position | None  # the first record behind it; None: there is none (yet)


class Start(NamedTuple):
    """From where on a table is rebuilt."""

    seq: int  # of the first record that counts
    at_us: int
    is_whole: bool  # the broker's start, or a snapshot of all its routes; False: the first record that is there
    digest: Record | None  # of the snapshot


class State(NamedTuple):
    """A table as it was behind one record."""

    routes: dict[str, Record]  # by route id: the record that put it there
    latest_us: int  # the latest time on any record that made it


class Missing(NamedTuple):
    """Numbers of which no record is there."""

    ranges: list[tuple[int, int]]  # first and last, ascending
    told: list[Record]  # EventsDropped: what the broker or its writer say of missing records
    is_known: bool  # False: the reader cannot see the numbers of all records


class RecordReader:
    """Records of any broker. The base of `segment_reader`, `table_reader` and `spark_reader`; a run that is passed in
    is one of `runs`."""

    def __init__(self, problems: list[str]) -> None:
        self.problems: Final = problems  # sentences: files that were passed over, each once

    @property
    def near(self) -> "RecordReader":
        """Who looks for runs and moments: this one, unless a reader of long spans has another for it."""
        return self

    def runs(self) -> list[Run]:
        """All that there are, by broker and epoch."""
        raise NotImplementedError

    def first(self, run: Run) -> Position | None:
        """The earliest record that is there; None: none can be read."""
        raise NotImplementedError

    def ended(self, run: Run, kind: int) -> Position | None:
        """The record of its end, `BROKER_STOPPED` or `BROKER_DIED`; None: nobody told such an end, or not yet."""
        raise NotImplementedError

    def window(self, run: Run, at_us: int) -> Window:
        """Where the instant lies."""
        raise NotImplementedError

    def start(self, run: Run, seq: int) -> Start:
        """The latest record, not behind `seq`, from which on the table is known."""
        raise NotImplementedError

    def start_without_snapshot(self, run: Run, started: Position | None) -> Start:
        """The same, where no snapshot is whole. `started`: its BrokerStarted; None: that is not there."""
        if started is not None:
            return Start(started.seq, started.at_us, True, None)
        earliest = self.near.first(run)
        assert earliest is not None  # whoever asks has a record of this run
        return Start(earliest.seq, earliest.at_us, False, None)

    def states(self, run: Run, first: int, seen_until: int, stops: Sequence[int]) -> Iterator[State]:
        """The table behind each of the records `stops` (ascending), made of those from `first` on, of RouteSeen events
        only those up to `seen_until`. Each is to be used before the next is asked for."""
        raise NotImplementedError

    def digest_after(self, run: Run, seq: int, until_us: int) -> Record | None:
        """The first TableDigest behind this record, not later than `until_us`."""
        raise NotImplementedError

    def missing(self, run: Run, first: int, last: int) -> Missing:
        """Of the numbers from `first` to `last`."""
        raise NotImplementedError


def fold(routes: dict[str, Record], record: Record) -> None:
    """The table behind the record, made of the one before it: the newest word about a route counts."""
    if record.kind in PUTS:
        routes[record.route_id] = record
    elif record.kind in TAKES:
        routes.pop(record.route_id, None)
    elif record.kind == BROKER_STARTED:
        routes.clear()


def states_of(records: Iterable[Record], stops: Sequence[int]) -> Iterator[State]:
    """The table behind each of the records `stops` (ascending), made of these records, by their numbers. Each is to be
    used before the next is asked for."""
    left = list(stops)
    routes: dict[str, Record] = {}
    latest_us = 0
    for record in records:
        while left and record.seq > left[0]:
            yield State(routes, latest_us)
            left.pop(0)
        if not left:
            return
        fold(routes, record)
        latest_us = max(latest_us, record.at_us)
    for _ in left:
        yield State(routes, latest_us)


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
    """The runs that rows name, by broker and epoch, each with its rows."""
    order = [("broker_id", "ascending"), ("epoch", "ascending")]
    rows = rows.sort_by(order)
    runs = rows.group_by(["broker_id", "epoch"]).aggregate([("broker_name", "max"), ([], "count_all")])
    place = 0
    for run in runs.sort_by(order).to_pylist():
        yield Run(run["broker_id"], run["broker_name_max"] or "", run["epoch"]), rows.slice(place, run["count_all"])
        place += run["count_all"]


def seen_of(routes: pa.Table) -> pa.Table:
    """Rows of the table `routes` as RouteSeen events, see `SEEN_SQL`."""
    rows = routes.rename_columns(["event_time" if name == "seen_at" else name for name in routes.schema.names])
    for name, value in (("kind", ROUTE_SEEN), ("reason", ""), ("detail", ""), ("choices", 0)):
        rows = rows.append_column(name, pa.repeat(pa.scalar(value), len(rows)))
    return rows


def overlaps(dropped: Record, first: int, last: int) -> bool:
    """Does an EventsDropped tell of numbers between these?"""
    begin, end = dropped_range(dropped)
    return begin <= last and end >= first


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


class Numbers:
    """A set of numbers as ranges: a day of records is one range when none is missing."""

    def __init__(self) -> None:
        self._firsts: list[Any] = []  # arrays
        self._lasts: list[Any] = []
        self._ranges = 0

    def add(self, firsts: Any, lasts: Any) -> None:
        """Ranges, as `ranges_of` gives them."""
        self._firsts.append(firsts)
        self._lasts.append(lasts)
        self._ranges += len(firsts)
        if self._ranges > MAX_RANGES:
            self._join()

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges between these two, both included, of which no number is there."""
        self._join()
        gaps = []
        expected = first
        if self._ranges:
            for begin, end in zip(self._firsts[0].tolist(), self._lasts[0].tolist(), strict=True):
                if begin > expected:
                    gaps.append((expected, min(begin - 1, last)))
                expected = max(expected, end + 1)
                if expected > last:
                    break
        if expected <= last:
            gaps.append((expected, last))
        return gaps

    def _join(self) -> None:
        if not self._ranges:
            return
        firsts, lasts = np.concatenate(self._firsts), np.concatenate(self._lasts)
        order = np.argsort(firsts, kind="stable")
        firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
        is_new = np.concatenate(([True], firsts[1:] > lasts[:-1] + 1))
        ends = np.concatenate((np.flatnonzero(is_new)[1:] - 1, [len(lasts) - 1]))
        self._firsts, self._lasts = [firsts[is_new]], [lasts[ends]]
        self._ranges = len(self._firsts[0])
