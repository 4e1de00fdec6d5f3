"""Routes, brokers and the records themselves as tables of texts."""

from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.routes import plots
from spark_sink.report.routes.lifetimes import FLAPS, SHORT_MS
from spark_sink.report.section import Section, over_time, shown_of, table
from spark_sink.report.texts import (
    count_of,
    duration_of,
    end_of,
    latency_of,
    moment_of,
    short_id,
    short_ids,
    step_of,
)

NO_ROUTES: Final = "No routes are recorded."


def service_lifetimes_section(facts: Facts) -> Section:
    lifetimes = facts.lifetimes
    cells = [[*row.pick("service routes open ended short"), duration_of(row.median_ms)] for row in lifetimes.services]
    columns = "service | >routes | >open | >ended | >short | >median lifetime"
    note = f"Open: no end is recorded. Short: under {SHORT_MS // 1000} s. The median is over ended lifetimes."
    count = lifetimes.service_count, "service"
    return table("Route lifetimes per service", columns, cells, note, NO_ROUTES, of=count, is_brief=True)


def flapping_section(facts: Facts) -> Section:
    rows = facts.lifetimes.flapping
    short = short_ids(row.route_id for row in rows)
    cells = [
        [row.service, short[row.route_id], len(row.ends_us), moment_of(row.ends_us[0]), moment_of(row.ends_us[-1])]
        for row in rows
    ]
    return table(
        "Flapping routes",
        "service | route | >short lifetimes | first end | last end",
        cells,
        nothing=f"No route had {FLAPS} lifetimes shorter than {SHORT_MS // 1000} s within 10 minutes.",
        of=(facts.lifetimes.flapping_count, "route"),
        is_brief=True,
        plot=("flapping", plots.flapping_plot),
    )


def lifetimes_section(facts: Facts) -> Section:
    shown, left = facts.lifetimes.shown, facts.lifetimes.left_out
    names = {broker.broker_id: broker.name for broker in facts.cluster.brokers}
    short = short_ids(route.route_id for route in shown)
    cells = [
        [
            lifetime.service,
            short[lifetime.route_id],
            names.get(lifetime.broker_id, lifetime.broker_id),
            moment_of(lifetime.from_us),
            moment_of(lifetime.to_us),
            duration_of(max(0, lifetime.to_us - lifetime.from_us) // 1000),
            end_of(lifetime.ended_as, lifetime.reason),
        ]
        for route in shown
        for lifetime in route.lifetimes
    ]
    columns = "service | route | broker | from (UTC) | to (UTC) | >length | end"
    note = shown_of(len(shown), facts.lifetimes.route_count, "route")
    note += f" {count_of(left, 'earlier lifetime')} of theirs are left out." if left else ""
    return table("Route lifetimes", columns, cells, note, NO_ROUTES, plot=("stays", plots.lifetimes_plot))


def brokers_section(facts: Facts) -> Section:
    cells = [
        [
            row.name,
            short_id(row.broker_id),
            row.state,
            row.runs,
            " ".join(filter(None, row.pick("version core"))),
            *row.pick("requests errors local routes"),
        ]
        for row in facts.cluster.brokers
    ]
    columns = "broker | id | state | >runs | version | >requests | >errors | >own routes | >all routes"
    note = "Running: as far as the records tell. Routes: of the last snapshot."
    count = facts.cluster.broker_count, "broker"
    return table("Brokers", columns, cells, note, "No brokers are recorded.", of=count, is_brief=True)


def links_section(facts: Facts) -> Section:
    cells = [
        [
            *link.pick("broker neighbour"),
            "up" if link.is_up else "down",
            *link.pick("ups downs"),
            duration_of(link.up_ms),
            link.reason,
        ]
        for link in facts.cluster.links
    ]
    return table(
        "Brokers and links",
        "broker | neighbour | state | >went up | >went down | >was up | last reason",
        cells,
        nothing="No link between brokers came or went.",
        of=(facts.cluster.link_count, "link"),
        is_brief=True,
        plot=("cluster", plots.cluster_plot),
    )


def routes_over_time_section(facts: Facts) -> Section:
    cluster = facts.cluster
    told = [broker for broker in cluster.brokers if any(count is not None for count in broker.routes_over_time)]
    title = f"Own routes of brokers per {step_of(cluster.bins.step_s)}"
    names, lines = [broker.name for broker in told], [broker.routes_over_time for broker in told]
    nothing = "" if told else "No snapshot of a broker's table is recorded."
    return over_time(title, cluster.bins, names, lines, ("routes", plots.routes_plot), nothing)


def loads_section(facts: Facts) -> Section:
    loads = facts.loads
    cells = [
        [
            moment_of(start),
            row.broker,
            None if (cpu := row.cpu_permille[place]) is None else f"{cpu / 10:.1f}",
            latency_of(row.loop_lag_max_us[place]),
            row.connections[place],
            row.in_flight[place],
        ]
        for place, start in enumerate(loads.bins.starts())
        for row in loads.rows
    ]
    title = f"Load of brokers, the most in each {step_of(loads.bins.step_s)}"
    columns = "from (UTC) | broker | >CPU, % of a core | >lag of the loop | >connections | >in flight"
    note = shown_of(len(loads.rows), loads.count, "broker")
    return table(title, columns, cells, note, plot=("loads", plots.loads_plot))


def gaps_section(facts: Facts) -> Section:
    cells = [
        [
            moment_of(row.at_us),
            *row.pick("broker reason records requests"),
            f"{row.first_seq} to {row.last_seq}" if row.last_seq else None,
            row.detail,
        ]
        for row in facts.gaps.rows
    ]
    columns = "at (UTC) | broker | reason | >records | >requests | numbers | detail"
    nothing = "No gap is known: every record that a broker numbered is here."
    count = facts.gaps.count, "gap"
    return table("Gaps in the records", columns, cells, nothing=nothing, of=count, is_brief=True)


def events_section(facts: Facts) -> Section:
    cells = [[row.event, row.count, moment_of(row.first_us), moment_of(row.last_us)] for row in facts.events]
    return table("Lifecycle events", "event | >count | first | last", cells)
