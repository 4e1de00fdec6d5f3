"""Routes, brokers and the records themselves as tables of texts."""

from dataclasses import replace
from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.routes import plots
from spark_sink.report.routes.lifetimes import FLAPS, SHORT_MS
from spark_sink.report.section import Section, of_records, over_time, shown_of, table
from spark_sink.report.texts import (
    count_of,
    duration_of,
    end_of,
    latency_of,
    moment_of,
    short_id,
    step_of,
)

NO_ROUTES: Final = "No routes are recorded."


def service_lifetimes_section(facts: Facts) -> Section:
    lifetimes = facts.lifetimes
    columns = "service | >routes | >open | >ended | >short | >median lifetime = duration(median_ms)"
    note = f"Open: no end is recorded. Short: under {SHORT_MS // 1000} s. The median is over ended lifetimes."
    title, count = "Route lifetimes per service", (lifetimes.service_count, "service")
    return of_records(title, columns, lifetimes.services, note, NO_ROUTES, of=count)


def flapping_section(facts: Facts) -> Section:
    return of_records(
        "Flapping routes",
        "service | route = route(route_id) | >short lifetimes = len(ends_us) | first end = first(ends_us) | "
        "last end = last(ends_us)",
        facts.lifetimes.flapping,
        nothing=f"No route had {FLAPS} lifetimes shorter than {SHORT_MS // 1000} s within 10 minutes.",
        of=(facts.lifetimes.flapping_count, "route"),
        plot=("flapping", plots.flapping_plot),
        formats={"len": len, "first": lambda us: moment_of(us[0]), "last": lambda us: moment_of(us[-1])},
    )


def lifetimes_section(facts: Facts) -> Section:
    shown, left = facts.lifetimes.shown, facts.lifetimes.left_out
    names = {broker.broker_id: broker.name for broker in facts.cluster.brokers}
    note = shown_of(len(shown), facts.lifetimes.route_count, "route")
    note += f" {count_of(left, 'earlier lifetime')} of theirs are left out." if left else ""
    return of_records(
        "Route lifetimes",
        "service | route = route(route_id) | broker = broker(broker_id) | from (UTC) = moment(from_us) | "
        "to (UTC) = moment(to_us) | >length = length(from_us, to_us) | end = end(ended_as, reason)",
        [lifetime for route in shown for lifetime in route.lifetimes],
        note,
        NO_ROUTES,
        is_brief=False,
        plot=("stays", plots.lifetimes_plot),
        formats={
            "broker": lambda broker_id: names.get(broker_id, broker_id),
            "length": lambda from_us, to_us: duration_of(max(0, to_us - from_us) // 1000),
            "end": end_of,
        },
    )


def brokers_section(facts: Facts) -> Section:
    return of_records(
        "Brokers",
        "broker = name | id = id(broker_id) | state | >runs | version = version(version, core) | >requests | >errors | "
        ">own routes = local | >all routes = routes",
        facts.cluster.brokers,
        "Running: as far as the records tell. Routes: of the last snapshot.",
        "No brokers are recorded.",
        of=(facts.cluster.broker_count, "broker"),
        formats={"id": short_id, "version": lambda version, core: " ".join(filter(None, (version, core)))},
    )


def links_section(facts: Facts) -> Section:
    """The brokers are drawn though there are no links."""
    told = of_records(
        "Brokers and links",
        "broker | neighbour | state = state(is_up) | >went up = ups | >went down = downs | >was up = duration(up_ms) | "
        "last reason = reason",
        facts.cluster.links,
        nothing="No link between brokers came or went.",
        of=(facts.cluster.link_count, "link"),
        plot=("cluster", plots.cluster_plot),
        formats={"state": lambda is_up: "up" if is_up else "down"},
    )
    return replace(told, draw=plots.cluster_plot)


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
    return table(title, columns, cells, note, is_brief=False, plot=("loads", plots.loads_plot))


def gaps_section(facts: Facts) -> Section:
    return of_records(
        "Gaps in the records",
        "at (UTC) = moment(at_us) | broker | reason | >records | >requests | numbers = span(first_seq, last_seq) | "
        "detail",
        facts.gaps.rows,
        nothing="No gap is known: every record that a broker numbered is here.",
        of=(facts.gaps.count, "gap"),
        formats={"span": lambda first_seq, last_seq: f"{first_seq} to {last_seq}" if last_seq else None},
    )


def events_section(facts: Facts) -> Section:
    columns = "event | >count | first = moment(first_us) | last = moment(last_us)"
    return of_records("Lifecycle events", columns, facts.events, is_brief=False)
