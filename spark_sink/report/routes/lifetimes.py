"""How long routes stayed: those that left, those that are still there, and those that come and go all the time.

Only routes of a broker's own are looked at; another broker's copy of them would tell the same stay again. A stay that
nobody ended is known from RouteJoined or from the last snapshot of the run, and lasts until the run was heard of last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.events import ROUTE_JOINED, ROUTE_LEFT, ROUTE_REPLACED
from spark_sink.history.records import DIED, RUNNING
from spark_sink.report.cluster.runs import RunFacts, RunKey
from spark_sink.report.groups import encoded, group, last_of, micros, numbers
from spark_sink.report.reading import NAMES

MAX_SHOWN_ROUTES: Final = 40
MAX_SHOWN_STAYS: Final = 2000  # bars that a browser draws at once
MAX_FLAPPING: Final = 20
SHORT_MS: Final = 60_000  # a stay that is shorter is a short one
FLAPS: Final = 3  # so many short stays …
FLAP_WINDOW_US: Final = 600_000_000  # … that ended within 10 minutes are flapping

STILL_THERE: Final = "still there"
BROKER_STOPPED: Final = "broker stopped"
BROKER_DIED: Final = "broker died"


@dataclass(frozen=True)
class Lifetime:
    """One stay of a route at a broker."""

    broker_id: str
    route_id: str
    service: str
    from_us: int
    to_us: int
    ended_as: str  # `left`, `replaced`, … of the table `sessions`, or one of the constants above
    reason: str


@dataclass(frozen=True)
class RouteLifetimes:
    """The stays of one route, the first one first."""

    route_id: str
    service: str
    lifetimes: list[Lifetime]


@dataclass(frozen=True)
class Flapping:
    """A route that comes and goes."""

    route_id: str
    service: str
    ends_us: list[int]  # when its short stays ended, ascending


@dataclass(frozen=True)
class ServiceLifetimes:
    """The stays of all routes of one service."""

    service: str
    routes: int
    open: int
    ended: int
    short: int
    median_ms: int | None  # of those that ended; None: none did


@dataclass(frozen=True)
class Lifetimes:
    shown: list[RouteLifetimes]  # the most stays first, then the longest there
    route_count: int
    ended: int
    open: int
    left_out: int  # stays of shown routes that would be too many to draw
    flapping: list[Flapping]  # the most short stays first
    flapping_count: int
    services: list[ServiceLifetimes]  # with the most routes
    service_count: int


@dataclass(frozen=True)
class _Columns:
    """All stays as columns; `open` after the ended ones."""

    table: pa.Table  # broker_id, route_id, service, end, reason
    from_us: Any
    to_us: Any
    ended: int


MAX_SERVICES: Final = 30


def lifetimes_of(sessions: pa.Table, lifecycle: pa.Table, last: pa.Table, runs: Mapping[RunKey, RunFacts]) -> Lifetimes:
    """`sessions`: rows of a broker's own routes; `lifecycle`: rows; `last`: rows of last snapshots; `runs`: all."""
    columns = _columns(sessions, lifecycle, last, runs)
    routes = group(columns.table, ["route_id"])
    counts = routes.sums(np.ones(len(routes.of_row), np.int64))
    lengths = routes.sums(np.maximum(columns.to_us - columns.from_us, 0))
    order = np.lexsort((-lengths, -counts))
    shown, left_out, drawn = [], 0, 0
    by_route = np.argsort(routes.of_row, kind="stable")
    begins = np.searchsorted(routes.of_row[by_route], np.arange(routes.count + 1))
    for number in order[:MAX_SHOWN_ROUTES].tolist():
        mine = by_route[begins[number] : begins[number + 1]]
        mine = mine[np.argsort(columns.from_us[mine], kind="stable")]
        kept = mine[len(mine) - min(len(mine), max(1, MAX_SHOWN_STAYS - drawn)) :]  # the latest
        left_out += len(mine) - len(kept)
        drawn += len(kept)
        lifetimes = [_stay(columns, int(place)) for place in kept]
        shown.append(RouteLifetimes(routes.key(number)[0], lifetimes[-1].service, lifetimes))
    flapping, flapping_count = _flapping(sessions)
    services, service_count = _services(columns, numbers(sessions, "uptime_ms"))
    total = len(routes.of_row)
    return Lifetimes(
        shown=shown,
        route_count=routes.count,
        ended=columns.ended,
        open=total - columns.ended,
        left_out=left_out,
        flapping=flapping,
        flapping_count=flapping_count,
        services=services,
        service_count=service_count,
    )


def _columns(sessions: pa.Table, lifecycle: pa.Table, last: pa.Table, runs: Mapping[RunKey, RunFacts]) -> _Columns:
    left = micros(sessions, "left_at")
    joined = np.where(
        pa.compute.is_null(sessions["joined_at"]).to_numpy(zero_copy_only=False).astype(bool),
        left - numbers(sessions, "uptime_ms") * 1000,  # nobody recorded it, but the end tells
        micros(sessions, "joined_at"),
    )
    texts = ["broker_id", "route_id", "service", "ended_as", "reason"]
    open_stays, from_us, to_us = _open(sessions, lifecycle, last, runs)
    table = pa.concat_tables([sessions.select(texts), open_stays.select(texts)])
    return _Columns(table, np.concatenate([joined, from_us]), np.concatenate([left, to_us]), len(sessions))


def _open(
    sessions: pa.Table, lifecycle: pa.Table, last: pa.Table, runs: Mapping[RunKey, RunFacts]
) -> tuple[pa.Table, Any, Any]:
    """Stays without an end: the routes whose latest record in a run is no end."""
    kinds = numbers(lifecycle, "kind")
    joins = lifecycle.filter(pa.array(kinds == ROUTE_JOINED))
    ends = lifecycle.filter(pa.array((kinds == ROUTE_LEFT) | (kinds == ROUTE_REPLACED)))
    parts = [
        (joins, micros(joins, "event_time"), 0),
        (ends, micros(ends, "event_time"), 1),
        (sessions, micros(sessions, "left_at"), 1),
        (last, micros(last, "seen_at") - numbers(last, "uptime_ms") * 1000, 0),
    ]
    columns = ["broker_id", "epoch", "seq", "route_id", "service"]
    rows = pa.concat_tables([part.select(columns) for part, _, _ in parts])
    since = np.concatenate([times for _, times, _ in parts])
    is_end = np.concatenate([np.full(len(part), flag, np.int64) for part, _, flag in parts])
    brokers, routes = encoded(rows["broker_id"])[1], encoded(rows["route_id"])[1]
    epochs, seqs = numbers(rows, "epoch"), numbers(rows, "seq")
    found = last_of(brokers, epochs, routes, by=(seqs, is_end))
    found = found[is_end[found] == 0]
    rows, since = rows.take(pa.array(found)), since[found]
    told = [runs[key] for key in zip(rows["broker_id"].to_pylist(), rows["epoch"].to_pylist(), strict=True)]
    words = {RUNNING: STILL_THERE, DIED: BROKER_DIED}
    ends_as = pa.array([words.get(run.state, BROKER_STOPPED) for run in told], NAMES)
    rows = rows.append_column("ended_as", ends_as).append_column("reason", pa.array([""] * len(told), NAMES))
    until = np.fromiter((run.last_us for run in told), np.int64, len(told))
    return rows, since, np.maximum(since, until)


def _stay(columns: _Columns, place: int) -> Lifetime:
    row = {name: columns.table[name][place].as_py() or "" for name in columns.table.column_names}
    return Lifetime(from_us=int(columns.from_us[place]), to_us=int(columns.to_us[place]), **row)


def _flapping(sessions: pa.Table) -> tuple[list[Flapping], int]:
    short = sessions.filter(pa.array(numbers(sessions, "uptime_ms") < SHORT_MS))
    routes = group(short, ["route_id"])
    ends = micros(short, "left_at")
    order = np.lexsort((ends, routes.of_row))
    of_row, ends = routes.of_row[order], ends[order]
    later = FLAPS - 1
    is_flap = (of_row[later:] == of_row[:-later]) & (ends[later:] - ends[:-later] <= FLAP_WINDOW_US)
    flapping = np.zeros(routes.count, np.int64)
    flapping[of_row[later:][is_flap]] = 1
    counts = routes.sums(np.ones(len(routes.of_row), np.int64)) * flapping
    begins = np.searchsorted(of_row, np.arange(routes.count + 1))
    found = []
    for number in routes.top(counts, MAX_FLAPPING):
        mine = slice(int(begins[number]), int(begins[number + 1]))
        service = short["service"][int(order[mine][-1])].as_py() or ""
        found.append(Flapping(routes.key(number)[0], service, ends[mine].tolist()))
    return found, int(flapping.sum())


def _services(columns: _Columns, uptimes_ms: Any) -> tuple[list[ServiceLifetimes], int]:
    services = group(columns.table, ["service"])
    names, routes = services.of_row, encoded(columns.table["route_id"])[1]
    pairs = np.unique(np.stack([names, routes], axis=1), axis=0)
    per_service = np.bincount(pairs[:, 0], minlength=services.count)
    is_ended = np.arange(len(names)) < columns.ended
    rows = []
    for number in services.top(per_service, MAX_SERVICES):
        mine = uptimes_ms[names[: columns.ended] == number]
        rows.append(
            ServiceLifetimes(
                service=services.key(number)[0],
                routes=int(per_service[number]),
                open=int(((names == number) & ~is_ended).sum()),
                ended=len(mine),
                short=int((mine < SHORT_MS).sum()),
                median_ms=int(np.sort(mine)[(len(mine) - 1) // 2]) if len(mine) else None,
            )
        )
    return rows, services.count
