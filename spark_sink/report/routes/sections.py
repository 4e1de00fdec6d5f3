"""Routes, brokers and the records themselves as tables of texts."""

from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.routes.lifetimes import FLAPS, SHORT_MS
from spark_sink.report.section import Section, over_time, shown_of
from spark_sink.report.texts import (
    NO_NAME,
    count_of,
    duration_of,
    latency_of,
    moment_of,
    named,
    number_of,
    plain,
    short_id,
    short_ids,
    step_of,
)
from spark_sink.timestamps import moment_at

NO_ROUTES: Final = "No routes are recorded."


def service_lifetimes_section(facts: Facts) -> Section:
    lifetimes = facts.lifetimes
    cells = [
        [
            named(row.service),
            *map(number_of, (row.routes, row.open, row.ended, row.short)),
            NO_NAME if row.median_ms is None else duration_of(row.median_ms),
        ]
        for row in lifetimes.services
    ]
    numeric = ["routes", "open", "ended", "short", "median lifetime"]
    note = (
        f"Open: no end is recorded. Short: under {SHORT_MS // 1000} s. The median is over ended lifetimes. "
    ) + shown_of(len(lifetimes.services), lifetimes.service_count, "service")
    return Section("Route lifetimes per service", ["service", *numeric], numeric, cells, note.rstrip(), NO_ROUTES, True)


def flapping_section(facts: Facts) -> Section:
    short = short_ids(row.route_id for row in facts.lifetimes.flapping)
    cells = [
        [
            named(row.service),
            short[row.route_id],
            number_of(len(row.ends_us)),
            moment_of(moment_at(row.ends_us[0])),
            moment_of(moment_at(row.ends_us[-1])),
        ]
        for row in facts.lifetimes.flapping
    ]
    columns = ["service", "route", "short lifetimes", "first end", "last end"]
    note = shown_of(len(cells), facts.lifetimes.flapping_count, "route")
    nothing = f"No route had {FLAPS} lifetimes shorter than {SHORT_MS // 1000} s within 10 minutes."
    return Section("Flapping routes", columns, columns[2:3], cells, note, nothing, True, "flapping")


def lifetimes_section(facts: Facts) -> Section:
    names = {broker.broker_id: broker.name for broker in facts.cluster.brokers}
    short = short_ids(lifetime.route_id for route in facts.lifetimes.shown for lifetime in route.lifetimes)
    cells = [
        [
            named(lifetime.service),
            short[lifetime.route_id],
            named(names.get(lifetime.broker_id, lifetime.broker_id)),
            moment_of(moment_at(lifetime.from_us)),
            moment_of(moment_at(lifetime.to_us)),
            duration_of(max(0, lifetime.to_us - lifetime.from_us) // 1000),
            end_of(lifetime.ended_as, lifetime.reason),
        ]
        for route in facts.lifetimes.shown
        for lifetime in route.lifetimes
    ]
    columns = ["service", "route", "broker", "from (UTC)", "to (UTC)", "length", "end"]
    note = shown_of(len(facts.lifetimes.shown), facts.lifetimes.route_count, "route")
    if facts.lifetimes.left_out:
        note += f" {count_of(facts.lifetimes.left_out, 'earlier lifetime')} of theirs are left out."
    return Section("Route lifetimes", columns, ["length"], cells, note, NO_ROUTES, plot="stays")


def end_of(end: str, reason: str) -> str:
    """`left: keepalive-timeout`; one word where both are the same."""
    return plain(end if reason in ("", end) else f"{end}: {reason}")


def brokers_section(facts: Facts) -> Section:
    cells = [
        [
            named(row.name),
            short_id(row.broker_id),
            row.state,
            number_of(row.runs),
            " ".join(filter(None, (plain(row.version), plain(row.core)))) or NO_NAME,
            *map(number_of, (row.requests, row.errors, row.local, row.routes)),
        ]
        for row in facts.cluster.brokers
    ]
    numeric = ["runs", "requests", "errors", "own routes", "all routes"]
    note = "Running: as far as the records tell. Routes: of the last snapshot. " + shown_of(
        len(cells), facts.cluster.broker_count, "broker"
    )
    columns = ["broker", "id", "state", "runs", "version", *numeric[1:]]
    return Section("Brokers", columns, numeric, cells, note.rstrip(), "No brokers are recorded.", True)


def links_section(facts: Facts) -> Section:
    cells = [
        [
            named(link.broker),
            named(link.neighbour),
            "up" if link.is_up else "down",
            number_of(link.ups),
            number_of(link.downs),
            duration_of(link.up_ms),
            named(link.reason),
        ]
        for link in facts.cluster.links
    ]
    columns = ["broker", "neighbour", "state", "went up", "went down", "was up", "last reason"]
    note = shown_of(len(cells), facts.cluster.link_count, "link")
    nothing = "No link between brokers came or went."
    return Section("Brokers and links", columns, columns[3:6], cells, note, nothing, True, "cluster")


def routes_over_time_section(facts: Facts) -> Section:
    cluster = facts.cluster
    told = [broker for broker in cluster.brokers if any(count is not None for count in broker.routes_over_time)]
    title = f"Own routes of brokers per {step_of(cluster.bins.step_s)}"
    lines = (map(number_of, broker.routes_over_time) for broker in told)
    nothing = "" if told else "No snapshot of a broker's table is recorded."
    return over_time(title, cluster.bins, [named(broker.name) for broker in told], lines, "routes", nothing)


def loads_section(facts: Facts) -> Section:
    loads = facts.loads
    numeric = ["CPU, % of a core", "lag of the loop", "connections", "in flight"]
    cells = [
        [
            moment_of(start),
            named(row.broker),
            NO_NAME if (cpu := row.cpu_permille[place]) is None else f"{cpu / 10:.1f}",
            latency_of(row.loop_lag_max_us[place]),
            number_of(row.connections[place]),
            number_of(row.in_flight[place]),
        ]
        for place, start in enumerate(loads.bins.starts())
        for row in loads.rows
    ]
    note = shown_of(len(loads.rows), loads.count, "broker")
    title = f"Load of brokers, the most in each {step_of(loads.bins.step_s)}"
    nothing = "The brokers recorded no load."
    return Section(title, ["from (UTC)", "broker", *numeric], numeric, cells, note, nothing, plot="loads")


def gaps_section(facts: Facts) -> Section:
    cells = [
        [
            moment_of(moment_at(row.at_us)),
            named(row.broker),
            row.reason,
            number_of(row.records),
            number_of(row.requests),
            f"{row.first_seq} to {row.last_seq}" if row.last_seq else NO_NAME,
            named(row.detail),
        ]
        for row in facts.gaps.rows
    ]
    columns = ["at (UTC)", "broker", "reason", "records", "requests", "numbers", "detail"]
    note = shown_of(len(cells), facts.gaps.count, "gap")
    nothing = "No gap is known: every record that a broker numbered is here."
    return Section("Gaps in the records", columns, columns[3:5], cells, note, nothing, True)


def events_section(facts: Facts) -> Section:
    cells = [
        [named(row.event), number_of(row.count), moment_of(moment_at(row.first_us)), moment_of(moment_at(row.last_us))]
        for row in facts.events
    ]
    return Section("Lifecycle events", ["event", "count", "first", "last"], ["count"], cells)
