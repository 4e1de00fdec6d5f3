"""Requests as tables of texts: traffic, outcomes, latencies, balance, multicasts, callers, rejections."""

from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.reading import Record
from spark_sink.report.section import SPARK_WIDTH, Draw, Section, over_time, table
from spark_sink.report.texts import (
    PERCENTILES,
    bytes_of,
    change_of,
    latencies_of,
    latency_of,
    length_of,
    named,
    number_of,
    rate_of,
    share_of,
    short_ids,
    span_of,
    sparkline,
    step_of,
)
from spark_sink.report.times import SECOND_US
from spark_sink.report.traffic import plots
from spark_sink.report.traffic.fanout import routes_at
from spark_sink.report.traffic.instances import ENOUGH
from spark_sink.report.traffic.latencies import P99
from spark_sink.tables import FAILED_OUTCOMES

NO_ANSWERS: Final = "No request that waits for an answer reached a route."
NO_MULTICAST: Final = "No multicast reached a route."
NO_REJECTION: Final = "No request was rejected."
NO_REQUESTS: Final = "No requests are recorded."
_LATENCIES: Final = " | ".join(f">{name}" for name in PERCENTILES)


def services_section(facts: Facts) -> Section:
    """With the plot where there is none over time."""
    traffic = facts.traffic
    bins = traffic.bins
    rows = list(zip(traffic.services, traffic.service_requests, traffic.over_time, strict=False))
    others = traffic.service_count - len(rows)
    if others > 0:
        rows.append((f"{number_of(others)} others", sum(traffic.over_time[-1]), traffic.over_time[-1]))
    cells = [
        [name, count, share_of(count, traffic.requests), sparkline(counts, SPARK_WIDTH)] for name, count, counts in rows
    ]
    columns, note = (
        "service | >requests | >share | over time",
        f"One block stands for {length_of(bins.step_s)} or more.",
    )
    if bins.count < 2:
        columns, note, cells = columns.removesuffix(" | over time"), "", [row[:-1] for row in cells]
    plot = ("services", plots.services_plot) if bins.count == 1 else None
    return table("Busiest services", columns, cells, note, NO_REQUESTS, is_brief=True, plot=plot)


def traffic_section(facts: Facts) -> Section:
    cells = [
        [
            *row.pick("service model requests errors"),
            *latencies_of(row.latencies_us),
            latency_of(row.max_us) if row.latencies_us else None,
        ]
        for row in facts.traffic.rows
    ]
    columns = f"service | model | >requests | >errors | {_LATENCIES} | >max"
    note = (
        f"Errors: outcome {', '.join(FAILED_OUTCOMES)}. Latencies: from the first frame to the end, of requests that "
        "reached a route, in models that have an answer; percentiles are at most 1/32 from the truth."
    )
    count = facts.traffic.row_count, "row"
    return table("Requests per service and model", columns, cells, note, of=count, is_brief=True)


def volume_section(facts: Facts) -> Section:
    cells = [[row.service, row.model, *row.sizes[:2], *map(bytes_of, row.sizes[2:])] for row in facts.traffic.rows]
    columns = "service | model | >items in | >items out | >bytes in | >bytes out"
    return table("Payloads and bytes", columns, cells, of=(facts.traffic.row_count, "row"))


def before_section(facts: Facts) -> Section:
    """Only where the tables tell of the time before."""
    traffic, before = facts.traffic, facts.before
    latencies = traffic.latencies.all_us
    length_s = (before.to_us - before.from_us) / SECOND_US
    p99_us = latencies[P99] if latencies else None
    both = traffic, before
    cells = [
        ["requests", traffic.requests, before.requests, change_of(traffic.requests, before.requests)],
        ["requests per second", *(rate_of(one.requests, length_s) for one in both), None],
        ["errors", traffic.errors, before.errors, change_of(traffic.errors, before.errors)],
        ["share of errors", *(share_of(one.errors, one.requests) for one in both), None],
        ["p99", latency_of(p99_us), latency_of(before.p99_us), change_of(p99_us or 0, before.p99_us or 0)],
    ]
    note = f"Before: {span_of(before.from_us, before.to_us)}."
    columns = " | >this time | >before | >change"
    return table("Beside the same length of time before", columns, cells, note, is_brief=True)


def requests_by_tag_section(facts: Facts) -> Section:
    by_tag = facts.by_tag
    cells = [
        [
            *row.pick("value routes requests errors"),
            share_of(row.errors, row.requests),
            *latencies_of(row.latencies_us),
        ]
        for row in by_tag.rows
    ]
    tag = named(by_tag.tag)
    columns = [f"<{tag}", *f">routes | >requests | >errors | >share | {_LATENCIES}".split(" | ")]
    note = "Requests to one route, by its tag. - is for routes without it."
    nothing = f"No route has the tag {tag}."
    return table(f"Requests by {tag}", columns, cells, note, nothing, of=(by_tag.count, "value"), is_brief=True)


def over_time_section(facts: Facts) -> Section:
    traffic = facts.traffic
    title = f"Requests per {step_of(traffic.bins.step_s)} and service"
    names = [*traffic.services, "others"]
    return over_time(title, traffic.bins, names, traffic.over_time, ("services", plots.services_plot))


def errors_over_time_section(facts: Facts) -> Section:
    traffic = facts.traffic
    title = f"Errors per {step_of(traffic.bins.step_s)} and service"
    names, lines = [*traffic.services, "others"], traffic.service_errors_over_time
    nothing = "" if traffic.errors else "No request ended with an error."
    return over_time(title, traffic.bins, names, lines, ("errors", plots.errors_plot), nothing)


def deadlines_section(facts: Facts) -> Section:
    cells = [
        [row.service, row.requests, row.deadlines, share_of(row.deadlines, row.requests)]
        for row in facts.traffic.deadlines
    ]
    columns, nothing = "service | >requests | >deadlines | >share", "No request passed its deadline."
    return table("Requests that passed their deadline", columns, cells, "", nothing, is_brief=bool(cells))


def instances_section(facts: Facts) -> Section:
    rows = facts.instances.rows
    short = short_ids(row.route_id for row in rows)
    cells = [
        [
            row.service,
            short[row.route_id],
            rate_of(row.requests, facts.traffic.seconds),
            share_of(row.errors, row.requests),
            share_of(row.service_errors, row.service_requests),
            *map(latency_of, row.pick("p50_us median_p50_us p99_us median_p99_us")),
        ]
        for row in rows
    ]
    columns = "service | route | >rate | >errors | >of all | >p50 | >median | >p99 | >median p99"
    note = (
        "Of all: errors of all routes of the service. Median: of its median route. Routes with fewer than "
        f"{ENOUGH} answers come last."
    )
    return table(
        "Slowest routes beside their service",
        columns,
        cells,
        note,
        "No service had answers from two routes.",
        of=(facts.instances.count, "route"),
        is_brief=True,
        plot=("instances", plots.instances_plot),
    )


def outcomes_section(facts: Facts) -> Section:
    """With the plot where there is none over time."""
    cells = [
        [one.outcome, one.word, one.requests, share_of(one.requests, facts.traffic.requests)]
        for one in facts.traffic.outcomes
    ]
    columns = "outcome | code word | >requests | >share"
    plot = ("outcomes", plots.outcomes_plot) if facts.traffic.bins.count == 1 else None
    return table("Outcomes", columns, cells, nothing=NO_REQUESTS, is_brief=True, plot=plot)


def outcomes_over_time_section(facts: Facts) -> Section:
    traffic = facts.traffic
    title = f"Outcomes per {step_of(traffic.bins.step_s)}"
    lines = [*traffic.outcomes_over_time, map(share_of, traffic.errors_over_time, traffic.all_over_time)]
    names = [*traffic.outcome_names, "errors"]
    return over_time(title, traffic.bins, names, lines, ("outcomes", plots.outcomes_plot))


def latency_over_time_section(facts: Facts) -> Section:
    bins, latencies = facts.traffic.bins, facts.traffic.latencies
    title = f"Latency per {step_of(bins.step_s)}, {latencies.model or 'no requests'}"
    lines = zip(*map(latencies_of, latencies.over_time), strict=True)
    nothing = "" if latencies.all_us else NO_ANSWERS
    return over_time(title, bins, PERCENTILES, lines, ("percentiles", plots.percentiles_plot), nothing)


def latency_of_services_section(facts: Facts) -> Section:
    latencies = facts.traffic.latencies
    cells = [
        [service, *latencies_of(percentiles)]
        for service, percentiles in zip(latencies.services, latencies.of_services, strict=True)
    ]
    return table(
        f"Latency per service, {latencies.model or 'no requests'}",
        f"service | {_LATENCIES}",
        cells,
        nothing=NO_ANSWERS,
        of=(latencies.service_count, "service"),
        plot=("latencies", plots.latencies_plot),
    )


def p99_over_time_section(facts: Facts) -> Section:
    bins, latencies = facts.traffic.bins, facts.traffic.latencies
    title = f"p99 per {step_of(bins.step_s)} and service"
    lines = (map(latency_of, line) for line in latencies.p99_over_time)
    nothing = "" if latencies.services else NO_ANSWERS
    return over_time(title, bins, latencies.services, lines, ("p99", plots.p99_plot), nothing)


def balance_section(facts: Facts) -> Section:
    rows = facts.balances.rows
    short = short_ids(row.busiest for row in rows)
    cells = [
        [
            *row.pick("service routing routes idle requests max"),
            f"{row.max_per_mean:.2f}",
            f"{row.gini:.3f}",
            short[row.busiest],
        ]
        for row in rows
    ]
    return table(
        "Requests per route",
        "service | routing | >routes | >idle | >requests | >most | >max/mean | >Gini | busiest",
        cells,
        "Idle routes were there and got nothing. max/mean 1 and Gini 0: all alike. A fair balancer is uneven, too, "
        "where routes differ in their tags or in how long they were there. Multicasts are left out.",
        "No request went to a single route.",
        of=(facts.balances.count, "row"),
        is_brief=True,
        plot=("balance", plots.balance_plot),
    )


def fanout_section(facts: Facts) -> Section:
    cells = [
        [
            row.service,
            row.multicasts,
            f"{row.branches / row.multicasts:.2f}",
            sum(count for _, count in row.counts) if row.counts else None,
            *(routes_at(fraction, row.counts) for fraction in (0.0, 0.5, 1.0)),
            f"{row.answers / row.asked:.2f}" if row.asked else None,
            row.incomplete if row.asked and row.counts else None,
        ]
        for row in facts.fanouts.rows
    ]
    return table(
        "Multicast fan-out",
        "service | >multicasts | >average | >single | >least | >median | >most | >answers | >incomplete",
        cells,
        "Routes that a multicast went to. The average is of all; least, median, most and incomplete are of those that "
        "were recorded as single requests. Answers: items per route of streams; below 1 some routes gave none. "
        "Incomplete: streams with fewer items than routes.",
        NO_MULTICAST,
        of=(facts.fanouts.count, "service"),
        is_brief=True,
        plot=("fanouts", plots.fanouts_plot),
    )


def fanout_counts_section(facts: Facts) -> Section:
    cells = [[row.service, routes, count] for row in facts.fanouts.rows for routes, count in row.counts]
    columns = "service | >routes | >multicasts"
    nothing = NO_MULTICAST if not facts.fanouts.rows else "The brokers recorded no single requests, only their sums."
    plot = "fanout-counts", plots.fanout_counts_plot
    return table("Multicasts by number of routes", columns, cells, "", nothing, plot=plot)


def callers_section(facts: Facts) -> Section:
    callers = facts.callers
    short = short_ids(row.caller_route for row in callers.rows)
    cells = [
        [
            row.caller_service,
            short[row.caller_route],
            *row.pick("service requests errors"),
            *map(bytes_of, row.pick("bytes_in bytes_out")),
        ]
        for row in callers.rows
    ]
    return table(
        "Top callers",
        "caller | caller's route | called | >requests | >errors | >bytes in | >bytes out",
        cells,
        nothing="No callers are recorded.",
        of=(callers.count, "row"),
        is_brief=True,
        plot=("callers", plots.callers_plot),
    )


def by_tag_section(facts: Facts) -> Section:
    nothing = "No request was rejected for want of a route with a tag."
    note = "The tag of the address after which no route was left."
    return _ranking_section("Rejected by tag", "tag", facts.rejections.by_tag, note, nothing, ("tags", plots.tags_plot))


def by_word_section(facts: Facts) -> Section:
    ranking, plot = facts.rejections.by_word, ("words", plots.words_plot)
    return _ranking_section("Rejected by code word", "code word", ranking, "", NO_REJECTION, plot)


def _ranking_section(
    title: str, noun: str, ranking: Record, note: str, nothing: str, plot: tuple[str, Draw]
) -> Section:
    cells = list(zip(ranking.names, ranking.requests, strict=True))
    count = ranking.count, noun
    columns = f"{noun} | >requests"
    return table(title, columns, cells, note, nothing, of=count, is_brief=True, plot=plot)


def rejections_section(facts: Facts) -> Section:
    cells = [list(vars(row).values()) for row in facts.rejections.rows]
    columns, count = "service | caller | address | code word | emptied by | >requests", facts.rejections.count
    return table("Rejected requests", columns, cells, nothing=NO_REJECTION, of=(count, "row"))
