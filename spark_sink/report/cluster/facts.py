"""The brokers, what they did, the links between them, and how many routes each knew over time.

A link is told by both of its ends; each end's record counts. Whether it is up is asked of the last run of a broker:
as many LinkUp as LinkDown, and it is down. Brokers with one name, and one that came back with another id, are told
apart by their ids; an event of a link has only the neighbour's name, and means the one that started last.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.events import LINK_DOWN, LINK_UP, TABLE_DIGEST
from spark_sink.history.records import RUNNING
from spark_sink.report.cluster.runs import RunFacts, RunKey, latest_of
from spark_sink.report.reading import TableReader
from spark_sink.report.texts import short_id
from spark_sink.report.times import SECOND_US, Bins, bins_of

MAX_BROKERS: Final = 40  # of a picture and a table
MAX_LINKS: Final = 100  # rows
_SECOND: Final = f"us // {SECOND_US} * {SECOND_US}"


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


def cluster_of(reader: TableReader, runs: Mapping[RunKey, RunFacts]) -> Cluster:
    """`runs`: all. Of the tables `sums` and `told`."""
    counts: dict[str, tuple[int, int]] = {}
    names: dict[str, str] = {}
    for broker_id, names[broker_id], requests, errors in reader.rows(
        "SELECT broker_id, max(broker_name), sum(requests)::BIGINT, sum(errors)::BIGINT FROM sums GROUP BY broker_id"
    ):
        counts[broker_id] = requests, errors
    by_broker: dict[str, list[RunFacts]] = {}
    for run in sorted(runs.values(), key=lambda run: run.epoch):
        by_broker.setdefault(run.broker_id, []).append(run)
    ids = sorted(by_broker.keys() | counts.keys(), key=lambda one: (-counts.get(one, (0, 0))[0], one))
    titles = _titles({one: by_broker[one][-1].name if one in by_broker else names[one] for one in ids})
    bins, local = _local_over_time(reader, ids[:MAX_BROKERS])
    brokers = []
    for broker_id in ids[:MAX_BROKERS]:
        told = by_broker.get(broker_id, [])
        last = told[-1] if told else RunFacts(broker_id, names[broker_id], 0, 0, RUNNING)
        requests, errors = counts.get(broker_id, (0, 0))
        brokers.append(
            BrokerFacts(
                broker_id=broker_id,
                name=titles[broker_id],
                runs=max(1, len(told)),
                state=last.state,
                version=last.version,
                core=last.core,
                requests=requests,
                errors=errors,
                routes=last.routes,
                local=last.local,
                routes_over_time=local[broker_id],
            )
        )
    links = _links(reader, runs, titles)
    return Cluster(brokers, len(ids), links[:MAX_LINKS], len(links), bins)


def _local_over_time(reader: TableReader, ids: Sequence[str]) -> tuple[Bins, dict[str, list[int | None]]]:
    """Own routes of each broker per bin, of the last snapshot in it."""
    digests = f"(FROM told WHERE kind = {TABLE_DIGEST})"
    [(low_us, high_us)] = reader.rows(f"SELECT min({_SECOND}), max({_SECOND}) FROM {digests}")
    bins = bins_of(low_us, high_us, grain_s=1)
    rows: dict[str, list[int | None]] = {broker_id: [None] * bins.count for broker_id in ids}
    for broker_id, number, count in reader.rows(
        f"SELECT broker_id, {bins.of('us')} AS number, max_by(try_cast(map_extract(tags, 'local')[1] AS BIGINT), us) "
        f"FROM {digests} GROUP BY broker_id, number"
    ):
        if broker_id in rows:
            rows[broker_id][number] = count
    return bins, rows


def _titles(names: Mapping[str, str]) -> dict[str, str]:
    """What each broker (by id) is called, so that no two are called the same where their ids do not begin alike."""
    counts = Counter(names.values())
    return {one: f"{name} ({short_id(one)})" if counts[name] > 1 else name for one, name in names.items()}


def _links(reader: TableReader, runs: Mapping[RunKey, RunFacts], titles: Mapping[str, str]) -> list[Link]:
    """Those that are up first, then by names."""
    latest = latest_of(runs)
    # by name: the broker that started last
    ids = {run.name: run.broker_id for run in sorted(runs.values(), key=lambda run: run.epoch)}
    known = sorted(ids, key=len, reverse=True)
    found: dict[tuple[str, str], _LinkCount] = {}
    for broker_id, epoch, kind, detail, reason, uptime_ms in reader.each(
        f"SELECT broker_id, epoch, kind, detail, reason, uptime_ms FROM told WHERE kind IN ({LINK_UP}, {LINK_DOWN}) "
        "ORDER BY epoch, seq"
    ):
        last = latest[broker_id]
        one = found.setdefault((broker_id, _neighbour(detail, known)), _LinkCount())
        one.add(kind == LINK_UP, reason, uptime_ms, epoch == last.epoch and last.state == RUNNING)
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

    def add(self, is_up: bool, reason: str, uptime_ms: int, may_be_up: bool) -> None:
        if is_up:
            self.ups += 1
            self.open_n += may_be_up
            return
        self.downs += 1
        self.open_n = max(0, self.open_n - may_be_up)
        self.up_ms += uptime_ms
        self.reason = reason


def _neighbour(detail: str, names: Sequence[str]) -> str:
    """The name that a link event's detail begins with: a known one, or all before the first colon."""
    for name in names:
        if name and (detail == name or detail.startswith(f"{name}: ")):
            return name
    return detail.partition(": ")[0]
