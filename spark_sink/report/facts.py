"""Every number of the report, decided once: printers and plots only lay out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from broker import events as kinds
from spark_sink.errors import BadFolder
from spark_sink.report.cluster.facts import Cluster, cluster_of
from spark_sink.report.cluster.gaps import Gaps, gaps_of
from spark_sink.report.cluster.losses import with_losses
from spark_sink.report.cluster.runs import Heard, RunFacts, RunKey, runs_of
from spark_sink.report.groups import group, micros, numbers
from spark_sink.report.reading import TableReader
from spark_sink.report.routes.lifetimes import Lifetimes, lifetimes_of
from spark_sink.report.routes.snapshots import COLUMNS as SNAPSHOT_COLUMNS
from spark_sink.report.routes.snapshots import PAIR, Snapshots, snapshots_of
from spark_sink.report.times import MINUTE_US
from spark_sink.report.traffic.balance import MULTICAST, Balances, balances_of
from spark_sink.report.traffic.callers import Callers, Rejections, callers_of, rejections_of
from spark_sink.report.traffic.facts import Traffic, traffic_of
from spark_sink.report.traffic.fanout import SINGLE_COLUMNS, Fanouts, fanouts_of
from spark_sink.tables import (
    CALLERS,
    FAILED_OUTCOMES,
    GAPS,
    LIFECYCLE,
    REJECTIONS,
    REQUESTS,
    ROUTES,
    SESSIONS,
    TRAFFIC,
    check_tables,
    table_schema,
)
from spark_sink.timestamps import moment_at

_TOLD: Final = (
    *(kinds.BROKER_DIED, kinds.BROKER_JOINED, kinds.BROKER_LEFT, kinds.BROKER_STARTED, kinds.BROKER_STOPPED),
    *(kinds.LINK_DOWN, kinds.LINK_UP, kinds.ROUTE_JOINED, kinds.ROUTE_LEFT, kinds.ROUTE_REPLACED, kinds.TABLE_DIGEST),
)
_RUN: Final = ("broker_id", "broker_name", "epoch")
_ROUTE: Final = ("route_id", "service")
_TOLD_COLUMNS: Final = (*_RUN, "seq", "event_time", "kind", *_ROUTE, "tags", "reason", "detail", "uptime_ms")
_SESSION_COLUMNS: Final = (*_RUN, "seq", *_ROUTE, "joined_at", "left_at", "uptime_ms", "ended_as", "reason")


@dataclass(frozen=True)
class EventCount:
    event: str
    count: int
    first_us: int
    last_us: int


@dataclass(frozen=True)
class Facts:
    """All that the report tells."""

    since: datetime | None  # what was asked for; None: all there is
    first: datetime | None  # of all records; None: there are none
    last: datetime | None
    traffic: Traffic
    balances: Balances
    fanouts: Fanouts
    lifetimes: Lifetimes
    callers: Callers
    rejections: Rejections
    cluster: Cluster
    events: list[EventCount]
    gaps: Gaps

    @property
    def is_empty(self) -> bool:
        return self.first is None


def read_facts(tables: Path, since: datetime | None = None) -> Facts:
    """Everything that the tables tell from `since` on, rounded down to the minute. BadFolder: there are none, or they
    cannot be read."""
    if not tables.is_dir():
        raise BadFolder(f"there is no folder {tables}: make tables with rsocket-broker pipeline run --tables {tables}")
    check_tables(tables)
    since = None if since is None else since.astimezone(UTC).replace(second=0, microsecond=0)
    reader = TableReader(tables, since)
    traffic = reader.table(TRAFFIC, table_schema(TRAFFIC).names)
    callers = reader.table(
        CALLERS, ("caller_service", "caller_route", "service", "outcome", "requests", "bytes_in", "bytes_out")
    )
    rejections = reader.table(REJECTIONS, table_schema(REJECTIONS).names)
    singles = reader.table(REQUESTS, SINGLE_COLUMNS, ds.field("routing") == MULTICAST)
    gaps = reader.table(GAPS, table_schema(GAPS).names)
    sessions = reader.table(SESSIONS, _SESSION_COLUMNS, ds.field("is_local") == 1)
    told = reader.table(LIFECYCLE, _TOLD_COLUMNS, ds.field("kind").isin(_TOLD))
    named = reader.table(LIFECYCLE, ("event", *_RUN, "event_time"))
    events, event_times = _events(named)
    heard = Heard()
    heard.add_rows(sessions, "left_at")
    heard.add_rows(named, "event_time")
    snapshots, runs = _snapshots(reader, told, heard)
    joined = told.filter(pa.array(numbers(told, "kind") == kinds.ROUTE_JOINED))
    there = pa.concat_tables([snapshots.there, *(group(rows, PAIR).keys(PAIR) for rows in (sessions, joined))])
    times = [_traffic_times(traffic, runs), micros(sessions, "left_at"), micros(gaps, "event_time"), event_times]
    times.append(np.array([at_us for _, at_us in snapshots.heard.runs.values()], np.int64))
    moments = np.concatenate(times)
    return Facts(
        since=since,
        first=moment_at(int(moments.min())) if len(moments) else None,
        last=moment_at(int(moments.max())) if len(moments) else None,
        traffic=traffic_of(traffic),
        balances=balances_of(traffic, there),
        fanouts=fanouts_of(traffic, singles),
        lifetimes=lifetimes_of(sessions, told, snapshots.last, runs),
        callers=callers_of(callers),
        rejections=rejections_of(rejections),
        cluster=cluster_of(traffic, told, runs, FAILED_OUTCOMES),
        events=events,
        gaps=gaps_of(gaps),
    )


def _snapshots(reader: TableReader, told: pa.Table, heard: Heard) -> tuple[Snapshots, dict[RunKey, RunFacts]]:
    """`heard`: runs that tables told of; those of the snapshots are added."""
    digests = {key: run.digest_us for key, run in runs_of(told, heard).items() if run.digest_us is not None}
    snapshots = reader.scan(ROUTES, SNAPSHOT_COLUMNS, lambda pieces: snapshots_of(pieces, digests))
    for key, (name, at_us) in snapshots.heard.runs.items():
        heard.add(key, name, at_us)
    return snapshots, with_losses(runs_of(told, heard), told)


def _traffic_times(traffic: pa.Table, runs: dict[RunKey, RunFacts]) -> Any:
    """Moments (µs) between which the requests came, int64 array: a minute in which a broker's first known run began
    does so with that run."""
    minutes = micros(traffic, "minute")
    brokers = group(traffic, ["broker_id"])
    first = np.full(brokers.count, np.iinfo(np.int64).max)
    np.minimum.at(first, brokers.of_row, minutes)
    known = {run.broker_id: run for run in sorted(runs.values(), key=lambda run: run.epoch, reverse=True)}
    for number in range(brokers.count):
        run_of = known.get(brokers.key(number)[0])
        started_us = None if run_of is None else run_of.started_us
        if started_us is not None and started_us // MINUTE_US * MINUTE_US == first[number]:
            first[number] = started_us
    return np.append(first, max(first.max(), minutes.max())) if len(minutes) else minutes


def _events(rows: pa.Table) -> tuple[list[EventCount], Sequence[int]]:
    """How often each event came; and the first and the last moment of any."""
    times = micros(rows, "event_time")
    groups = group(rows, ["event"])
    counts = groups.sums(1)
    first = np.full(groups.count, np.iinfo(np.int64).max)
    np.minimum.at(first, groups.of_row, times)
    last = groups.maxima(times)
    found = [
        EventCount(groups.key(number)[0], int(counts[number]), int(first[number]), int(last[number]))
        for number in range(groups.count)
    ]
    place = {name: number for number, name in kinds.KIND_NAMES.items()}
    found.sort(key=lambda one: (place.get(one.event, len(place) + 1), one.event))
    return found, [int(times.min()), int(times.max())] if len(times) else []
