"""How long routes stayed: those that left, those that are still there, and those that come and go all the time.

Only routes of a broker's own are looked at; another broker's copy of them would tell the same stay again. A stay that
nobody ended is known from RouteJoined or from the last snapshot of the run, and lasts until the run was heard of last.
"""

from typing import Final

from broker.events import ROUTE_JOINED, ROUTE_LEFT, ROUTE_REPLACED
from spark_sink.history.records import DIED, RUNNING
from spark_sink.report.reading import Record, TableReader

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
# Each stay of a route at a broker. `ended_as`: `left`, `replaced`, … of the table `sessions`, or a constant from above.
_STAYS: Final = f"""
SELECT broker_id, route_id, service, coalesce(joined_at, us - uptime_ms * 1000) AS from_us, us AS to_us,
    ended_as, reason, uptime_ms, false AS is_open FROM left_routes
UNION ALL SELECT broker_id, route_id, service, since, greatest(since, last_us), CASE state WHEN '{RUNNING}' THEN
    '{STILL_THERE}' WHEN '{DIED}' THEN '{BROKER_DIED}' ELSE '{BROKER_STOPPED}' END, '', 0, true
    FROM ({_OPEN}) JOIN runs USING (broker_id, epoch)
"""
_COLUMNS: Final = ("broker_id", "route_id", "service", "from_us", "to_us", "ended_as", "reason")


def lifetimes_of(reader: TableReader) -> Record:
    """Of the tables `left_routes`, `told`, `snapshots` and `runs`."""
    reader.make("stays", _STAYS)
    [(ended, open_)] = reader.rows("SELECT count(*) FILTER (NOT is_open), count(*) FILTER (is_open) FROM stays")
    # The routes that are shown: the most stays first, then the longest there. `before`: stays of those above it.
    order = "n DESC, length DESC, route_id"
    reader.make(
        "shown_routes",
        f"SELECT *, sum(n) OVER (ORDER BY {order}) - n AS before FROM (SELECT route_id, count(*) AS n, "
        "sum(greatest(to_us - from_us, 0)) AS length, count(*) OVER () AS total FROM stays GROUP BY route_id "
        f"ORDER BY {order} LIMIT {MAX_SHOWN_ROUTES})",
    )
    stay = ", ".join(f"'{column}': {column}" for column in _COLUMNS)
    shown, route_count = reader.ranked(
        f"SELECT route_id, max_by(service, (from_us, to_us)) AS service, list({{{stay}}} ORDER BY from_us, to_us) AS "
        "lifetimes, any_value(total) AS total FROM (FROM stays JOIN shown_routes USING (route_id) QUALIFY row_number() "
        "OVER (PARTITION BY route_id ORDER BY from_us DESC, to_us DESC) <= "  # the latest
        f"greatest(1, {MAX_SHOWN_STAYS} - before)) GROUP BY route_id, n, length ORDER BY {order}"
    )
    [(told,)] = reader.rows("SELECT coalesce(sum(n), 0)::BIGINT FROM shown_routes")
    flapping, flapping_count = _flapping(reader)
    services, service_count = reader.ranked(
        "SELECT service, count(DISTINCT route_id) AS routes, count(*) FILTER (is_open) AS open, "
        "count(*) FILTER (NOT is_open) AS ended, count(*) FILTER (NOT is_open AND uptime_ms < "
        f"{SHORT_MS}) AS short, quantile_disc(uptime_ms, 0.5) FILTER (NOT is_open) AS median_ms, "
        f"count(*) OVER () AS total FROM stays GROUP BY service ORDER BY routes DESC, service LIMIT {MAX_SERVICES}"
    )
    return Record(
        shown=shown,
        route_count=route_count,
        ended=ended,
        open=open_,
        left_out=told - sum(len(route.lifetimes) for route in shown),  # stays of shown routes, too many to draw
        flapping=flapping,
        flapping_count=flapping_count,
        services=services,  # with the most routes
        service_count=service_count,
    )


def _flapping(reader: TableReader) -> tuple[list[Record], int]:
    """Routes that come and go, the most short stays first; `ends_us`: when these ended, ascending."""
    reader.make(
        "short",
        f"SELECT route_id, service, us, lead(us, {FLAPS - 1}) OVER (PARTITION BY route_id ORDER BY us) - us "
        f"<= {FLAP_WINDOW_US} AS is_flap FROM left_routes WHERE uptime_ms < {SHORT_MS}",
    )
    routes = (
        "SELECT route_id, max_by(service, us) AS of, count(*) AS n, count(*) OVER () AS total FROM short "
        f"GROUP BY route_id HAVING bool_or(is_flap) ORDER BY n DESC, route_id LIMIT {MAX_FLAPPING}"
    )
    return reader.ranked(
        f"SELECT route_id, of AS service, list_reverse(max(us, {MAX_SHOWN_STAYS})) AS ends_us, total FROM short "
        f"JOIN ({routes}) USING (route_id) GROUP BY route_id, of, n, total ORDER BY n DESC, route_id"
    )
