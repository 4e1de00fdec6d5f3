"""How long routes stayed: those that left, those that are still there, and those that come and go all the time.

Only routes of a broker's own are looked at; another broker's copy of them would tell the same stay again. A stay that
nobody ended is known from RouteJoined or from the last snapshot of the run, and lasts until the run was heard of last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.events import ROUTE_JOINED, ROUTE_LEFT, ROUTE_REPLACED
from spark_sink.history.records import DIED, RUNNING
from spark_sink.report.cluster.runs import RunFacts, RunKey
from spark_sink.report.reading import TableReader

MAX_SHOWN_ROUTES: Final = 40
MAX_SHOWN_STAYS: Final = 2000  # bars that a browser draws at once
MAX_FLAPPING: Final = 20
MAX_SERVICES: Final = 30
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


_ENDED_AS: Final = {RUNNING: STILL_THERE, DIED: BROKER_DIED}

# The latest record of each route in a run: since when the route has been there, or that it ended.
_KEYS: Final = "SELECT broker_id, epoch, seq, route_id, service"
_ORDER: Final = "seq * 2 + is_end"
_OPEN: Final = f"""
SELECT broker_id, epoch, route_id, max_by(service, {_ORDER}) AS service, max_by(since, {_ORDER}) AS since FROM (
    {_KEYS}, us AS since, 0 AS is_end FROM told WHERE kind = {ROUTE_JOINED}
    UNION ALL {_KEYS}, us, 1 FROM told WHERE kind IN ({ROUTE_LEFT}, {ROUTE_REPLACED})
    UNION ALL {_KEYS}, us, 1 FROM left_routes
    UNION ALL {_KEYS}, us - uptime_ms * 1000, 0 FROM snapshots WHERE is_last AND is_local
) GROUP BY broker_id, epoch, route_id HAVING max_by(is_end, {_ORDER}) = 0
"""


def lifetimes_of(reader: TableReader, runs: Mapping[RunKey, RunFacts]) -> Lifetimes:
    """Of the tables `left_routes`, `told` and `snapshots`; `runs`: all."""
    told = [(*key, run.last_us, _ENDED_AS.get(run.state, BROKER_STOPPED)) for key, run in runs.items()]
    reader.number("runs", ["broker_id", "epoch BIGINT", "last_us BIGINT", "ended_as"], told)
    columns = "broker_id, route_id, service, from_us, to_us, ended_as, reason"
    reader.make(
        "stays",
        "SELECT broker_id, route_id, service, coalesce(joined_at, us - uptime_ms * 1000) AS from_us, us AS to_us, "
        "ended_as, reason, uptime_ms, false AS is_open FROM left_routes UNION ALL "
        "SELECT broker_id, route_id, service, since, greatest(since, last_us), ended_as, '', 0, true "
        f"FROM ({_OPEN}) JOIN runs USING (broker_id, epoch)",
    )
    [(ended, open_)] = reader.rows("SELECT count(*) FILTER (NOT is_open), count(*) FILTER (is_open) FROM stays")
    routes = reader.rows(
        "SELECT route_id, count(*) AS n, sum(greatest(to_us - from_us, 0)) AS length, count(*) OVER () FROM stays "
        f"GROUP BY route_id ORDER BY n DESC, length DESC, route_id LIMIT {MAX_SHOWN_ROUTES}"
    )
    reader.number("shown", ["route_id"], routes)
    stays: list[list[Lifetime]] = [[] for _ in routes]
    for place, *row in reader.rows(
        f"SELECT place, {columns} FROM stays JOIN shown USING (route_id) QUALIFY row_number() OVER (PARTITION BY place "
        f"ORDER BY from_us DESC, to_us DESC) <= {MAX_SHOWN_STAYS} ORDER BY place, from_us, to_us"
    ):
        stays[place].append(Lifetime(*row))
    shown, drawn = [], 0
    for (route_id, *_), mine in zip(routes, stays, strict=True):
        kept = mine[-max(1, MAX_SHOWN_STAYS - drawn) :]  # the latest
        drawn += len(kept)
        shown.append(RouteLifetimes(route_id, kept[-1].service, kept))
    flapping, flapping_count = _flapping(reader)
    services, service_count = _services(reader)
    return Lifetimes(
        shown=shown,
        route_count=routes[0][-1] if routes else 0,
        ended=ended,
        open=open_,
        left_out=sum(count for _, count, *_ in routes) - drawn,
        flapping=flapping,
        flapping_count=flapping_count,
        services=services,
        service_count=service_count,
    )


def _flapping(reader: TableReader) -> tuple[list[Flapping], int]:
    reader.make(
        "short",
        f"SELECT route_id, service, us, lead(us, {FLAPS - 1}) OVER (PARTITION BY route_id ORDER BY us) - us "
        f"<= {FLAP_WINDOW_US} AS is_flap FROM left_routes WHERE uptime_ms < {SHORT_MS}",
    )
    routes = reader.rows(
        "SELECT route_id, max_by(service, us), count(*) AS n, count(*) OVER () FROM short GROUP BY route_id "
        f"HAVING bool_or(is_flap) ORDER BY n DESC, route_id LIMIT {MAX_FLAPPING}"
    )
    reader.number("shown", ["route_id"], routes)
    ends: list[list[int]] = [[] for _ in routes]
    for place, end_us in reader.rows(
        "SELECT place, us FROM short JOIN shown USING (route_id) QUALIFY row_number() OVER (PARTITION BY place "
        f"ORDER BY us DESC) <= {MAX_SHOWN_STAYS} ORDER BY place, us"
    ):
        ends[place].append(end_us)
    found = [Flapping(row[0], row[1], mine) for row, mine in zip(routes, ends, strict=True)]
    return found, routes[0][-1] if routes else 0


def _services(reader: TableReader) -> tuple[list[ServiceLifetimes], int]:
    rows = reader.rows(
        "SELECT service, count(DISTINCT route_id) AS n, count(*) FILTER (is_open), count(*) FILTER (NOT is_open), "
        f"count(*) FILTER (NOT is_open AND uptime_ms < {SHORT_MS}), "
        "quantile_disc(uptime_ms, 0.5) FILTER (NOT is_open), count(*) OVER () "
        f"FROM stays GROUP BY service ORDER BY n DESC, service LIMIT {MAX_SERVICES}"
    )
    return [ServiceLifetimes(*row[:-1]) for row in rows], rows[0][-1] if rows else 0
