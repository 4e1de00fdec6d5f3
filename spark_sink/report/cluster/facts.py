"""The brokers, what they did, the links between them, and how many routes each knew over time.

A link is told by both of its ends; each end's record counts. Whether it is up is asked of the last run of a broker:
as many LinkUp as LinkDown, and it is down. Brokers with one name, and one that came back with another id, are told
apart by their ids; an event of a link has only the neighbour's name, and means the one that started last.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from broker.events import LINK_DOWN, LINK_UP, TABLE_DIGEST
from spark_sink.history.records import RUNNING
from spark_sink.report.cluster.runs import RunFacts, RunKey, latest_of
from spark_sink.report.groups import group, is_in, micros, numbers
from spark_sink.report.texts import short_id
from spark_sink.report.times import Bins

MAX_BROKERS: Final = 40  # of a picture and a table
MAX_LINKS: Final = 100  # rows


@dataclass(frozen=True)
class BrokerFacts:
    """One broker over all its runs in this time."""

    broker_id: str
    name: str  # with a piece of the id where several have it
    runs: int
    state: str  # of the last run
    version: str
    core: str
    requests: int  # that came to it from callers of its own
    errors: int
    routes: int | None  # of its last snapshot; None: it wrote none
    local: int | None
    routes_over_time: list[int | None]  # of its own, per bin: the last snapshot in it


@dataclass(frozen=True)
class Link:
    """What one broker told of its links to another."""

    broker_id: str
    broker: str  # name
    neighbour_id: str  # empty: a broker without records
    neighbour: str  # name
    ups: int
    downs: int
    is_up: bool
    up_ms: int  # how long those that ended had been up, together
    reason: str  # of the last LinkDown, or empty


@dataclass(frozen=True)
class Cluster:
    brokers: list[BrokerFacts]  # with the most requests
    broker_count: int
    links: list[Link]
    link_count: int
    bins: Bins  # of routes_over_time


def cluster_of(
    traffic: pa.Table, lifecycle: pa.Table, runs: Mapping[RunKey, RunFacts], failed: Sequence[str]
) -> Cluster:
    """`traffic`: partials; `lifecycle`: rows; `runs`: all; `failed`: outcomes that are errors."""
    requests, errors, names = _requests(traffic, failed)
    by_broker: dict[str, list[RunFacts]] = {}
    for run in sorted(runs.values(), key=lambda run: run.epoch):
        by_broker.setdefault(run.broker_id, []).append(run)
    ids = sorted(by_broker.keys() | requests.keys(), key=lambda one: (-requests.get(one, 0), one))
    titles = _titles({one: by_broker[one][-1].name if one in by_broker else names[one] for one in ids})
    snapshots = lifecycle.filter(pa.array(numbers(lifecycle, "kind") == TABLE_DIGEST))
    bins = Bins(micros(snapshots, "event_time") // 1_000_000 * 1_000_000, grain_s=1)
    local = _local_over_time(snapshots, bins, ids[:MAX_BROKERS])
    brokers = []
    for place, broker_id in enumerate(ids[:MAX_BROKERS]):
        told = by_broker.get(broker_id, [])
        last = told[-1] if told else RunFacts(broker_id, names[broker_id], 0, 0, RUNNING)
        brokers.append(
            BrokerFacts(
                broker_id=broker_id,
                name=titles[broker_id],
                runs=max(1, len(told)),
                state=last.state,
                version=last.version,
                core=last.core,
                requests=requests.get(broker_id, 0),
                errors=errors.get(broker_id, 0),
                routes=last.routes,
                local=last.local,
                routes_over_time=local[place],
            )
        )
    links = _links(lifecycle, runs, titles)
    return Cluster(brokers, len(ids), links[:MAX_LINKS], len(links), bins)


def _requests(traffic: pa.Table, failed: Sequence[str]) -> tuple[dict[str, int], dict[str, int], dict[str, str]]:
    groups = group(traffic, ["broker_id", "broker_name"])
    counts = numbers(traffic, "requests")
    sums, errors = groups.sums(counts), groups.sums(np.where(is_in(traffic, "outcome", failed), counts, 0))
    by_id: Counter[str] = Counter()
    errors_by_id: Counter[str] = Counter()
    names: dict[str, str] = {}
    for number in range(groups.count):
        broker_id, names[broker_id] = groups.key(number)
        by_id[broker_id] += int(sums[number])
        errors_by_id[broker_id] += int(errors[number])
    return by_id, errors_by_id, names


def _local_over_time(snapshots: pa.Table, bins: Bins, ids: Sequence[str]) -> list[list[int | None]]:
    rows: list[list[int | None]] = [[None] * bins.count for _ in ids]
    if len(snapshots) == 0:
        return rows
    snapshots = snapshots.sort_by([("event_time", "ascending")])
    counts = pa.compute.map_lookup(snapshots["tags"], pa.scalar("local"), "first").to_pylist()
    places = {broker_id: place for place, broker_id in enumerate(ids)}
    of_bin = bins.of(micros(snapshots, "event_time")).tolist()
    for broker_id, place, count in zip(snapshots["broker_id"].to_pylist(), of_bin, counts, strict=True):
        if broker_id in places and count is not None and count.isdecimal():
            rows[places[broker_id]][place] = int(count)
    return rows


def _titles(names: Mapping[str, str]) -> dict[str, str]:
    """What each broker (by id) is called, so that no two are called the same where their ids do not begin alike."""
    counts = Counter(names.values())
    return {one: f"{name} ({short_id(one)})" if counts[name] > 1 else name for one, name in names.items()}


def _links(lifecycle: pa.Table, runs: Mapping[RunKey, RunFacts], titles: Mapping[str, str]) -> list[Link]:
    """Those that are up first, then by names."""
    kinds = numbers(lifecycle, "kind")
    rows = lifecycle.filter(pa.array((kinds == LINK_UP) | (kinds == LINK_DOWN))).sort_by(
        [("epoch", "ascending"), ("seq", "ascending")]
    )
    latest = latest_of(runs)
    # by name: the broker that started last
    ids = {run.name: run.broker_id for run in sorted(runs.values(), key=lambda run: run.epoch)}
    known = sorted(ids, key=len, reverse=True)
    found: dict[tuple[str, str], _LinkCount] = {}
    columns = ["broker_id", "epoch", "kind", "detail", "reason", "uptime_ms"]
    for row in rows.select(columns).to_pylist():
        last = latest[row["broker_id"]]
        one = found.setdefault((row["broker_id"], _neighbour(row["detail"] or "", known)), _LinkCount())
        one.add(row, row["epoch"] == last.epoch and last.state == RUNNING)
    links = []
    for (broker_id, name), one in found.items():
        ends = broker_id, titles[broker_id], ids.get(name, ""), titles.get(ids.get(name, ""), name)
        links.append(Link(*ends, one.ups, one.downs, one.open_n > 0, one.up_ms, one.reason))
    return sorted(links, key=lambda link: (not link.is_up, link.broker, link.neighbour))


class _LinkCount:
    """While its records are added."""

    def __init__(self) -> None:
        self.ups = self.downs = self.up_ms = self.open_n = 0
        self.reason = ""

    def add(self, row: Mapping[str, object], may_be_up: bool) -> None:
        if row["kind"] == LINK_UP:
            self.ups += 1
            self.open_n += may_be_up
            return
        self.downs += 1
        self.open_n = max(0, self.open_n - may_be_up)
        uptime_ms = row["uptime_ms"]
        assert isinstance(uptime_ms, int)  # bigint
        self.up_ms += uptime_ms
        self.reason = str(row["reason"] or "")


def _neighbour(detail: str, names: Sequence[str]) -> str:
    """The name that a link event's detail begins with: a known one, or all before the first colon."""
    for name in names:
        if name and (detail == name or detail.startswith(f"{name}: ")):
            return name
    return detail.partition(": ")[0]
