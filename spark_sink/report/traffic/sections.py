"""Requests as tables of texts: traffic, outcomes, latencies, balance, multicasts, callers, rejections."""

from dataclasses import replace
from functools import partial
from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.reading import Record
from spark_sink.report.section import LATENCIES, SPARK_WIDTH, Draw, Section, of_records, over_time, table
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
    columns = "service | >requests | >share | over time"
    note = f"One block stands for {length_of(bins.step_s)} or more."
    if bins.count < 2:
        columns, note, cells = columns.removesuffix(" | over time"), "", [row[:-1] for row in cells]
    plot = ("services", plots.services_plot) if bins.count == 1 else None
    return table("Busiest services", columns, cells, note, NO_REQUESTS, plot=plot)


def traffic_section(facts: Facts) -> Section:
    columns = f"service | model | >requests | >errors | {LATENCIES} | >max = slowest(latencies_us, max_us)"
    note = (
        f"Errors: outcome {', '.join(FAILED_OUTCOMES)}. Latencies: from the first frame to the end, of requests that "
        "reached a route, in models that have an answer; percentiles are at most 1/32 from the truth."
    )
    rows, count = facts.traffic.rows, (facts.traffic.row_count, "row")
    formats = {"slowest": lambda latencies_us, max_us: latency_of(max_us if latencies_us else None)}
    title = "Requests per service and model"
    return of_records(title, columns, rows, note, of=count, formats=formats)


def volume_section(facts: Facts) -> Section:
    cells = [[row.service, row.model, *row.sizes[:2], *map(bytes_of, row.sizes[2:])] for row in facts.traffic.rows]
    columns = "service | model | >items in | >items out | >bytes in | >bytes out"
    return table("Payloads and bytes", columns, cells, of=(facts.traffic.row_count, "row"), is_brief=False)


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
    return table("Beside the same length of time before", columns, cells, note)


def requests_by_tag_section(facts: Facts) -> Section:
    by_tag = facts.by_tag
    tag = named(by_tag.tag)
    columns = f"value | >routes | >requests | >errors | >share = share(errors, requests) | {LATENCIES}"
    note = "Requests to one route, by its tag. - is for routes without it."
    nothing, count = f"No route has the tag {tag}.", (by_tag.count, "value")
    told = of_records(f"Requests by {tag}", columns, by_tag.rows, note, nothing, of=count)
    return replace(told, columns=[tag, *told.columns[1:]])


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
    rows, nothing = facts.traffic.deadlines, "No request passed its deadline."
    columns = "service | >requests | >deadlines | >share = share(deadlines, requests)"
    return of_records("Requests that passed their deadline", columns, rows, "", nothing, is_brief=bool(rows))


def instances_section(facts: Facts) -> Section:
    return of_records(
        "Slowest routes beside their service",
        "service | route = route(route_id) | >rate = rate(requests) | >errors = share(errors, requests) | "
        ">of all = share(service_errors, service_requests) | >p50 = latency(p50_us) | "
        ">median = latency(median_p50_us) | >p99 = latency(p99_us) | >median p99 = latency(median_p99_us)",
        facts.instances.rows,
        "Of all: errors of all routes of the service. Median: of its median route. Routes with fewer than "
        f"{ENOUGH} answers come last.",
        "No service had answers from two routes.",
        of=(facts.instances.count, "route"),
        plot=("instances", plots.instances_plot),
        formats={"rate": lambda requests: rate_of(requests, facts.traffic.seconds)},
    )


def outcomes_section(facts: Facts) -> Section:
    """With the plot where there is none over time."""
    traffic = facts.traffic
    cells = [[*row.pick("outcome word requests"), share_of(row.requests, traffic.requests)] for row in traffic.outcomes]
    plot = ("outcomes", plots.outcomes_plot) if traffic.bins.count == 1 else None
    columns = "outcome | code word | >requests | >share"
    return table("Outcomes", columns, cells, nothing=NO_REQUESTS, plot=plot)


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
    cells = [[name, *latencies_of(us)] for name, us in zip(latencies.services, latencies.of_services, strict=True)]
    title = f"Latency per service, {latencies.model or 'no requests'}"
    columns = ["service", *(f">{name}" for name in PERCENTILES)]
    count, plot = (latencies.service_count, "service"), ("latencies", plots.latencies_plot)
    return table(title, columns, cells, nothing=NO_ANSWERS, of=count, is_brief=False, plot=plot)


def p99_over_time_section(facts: Facts) -> Section:
    bins, latencies = facts.traffic.bins, facts.traffic.latencies
    title = f"p99 per {step_of(bins.step_s)} and service"
    lines = (map(latency_of, line) for line in latencies.p99_over_time)
    nothing = "" if latencies.services else NO_ANSWERS
    return over_time(title, bins, latencies.services, lines, ("p99", plots.p99_plot), nothing)


def balance_section(facts: Facts) -> Section:
    return of_records(
        "Requests per route",
        "service | routing | >routes | >idle | >requests | >most = max | >max/mean = fixed(max_per_mean) | "
        ">Gini = exact(gini) | busiest = route(busiest)",
        facts.balances.rows,
        "Idle routes were there and got nothing. max/mean 1 and Gini 0: all alike. A fair balancer is uneven, too, "
        "where routes differ in their tags or in how long they were there. Multicasts are left out.",
        "No request went to a single route.",
        of=(facts.balances.count, "row"),
        plot=("balance", plots.balance_plot),
        formats={"exact": "{:.3f}".format},
    )


def fanout_section(facts: Facts) -> Section:
    return of_records(
        "Multicast fan-out",
        "service | >multicasts | >average = ratio(branches, multicasts) | >single = single(counts) | "
        ">least = least(counts) | >median = median(counts) | >most = most(counts) | >answers = ratio(answers, asked) | "
        ">incomplete = fewer(incomplete, asked, counts)",
        facts.fanouts.rows,
        "Routes that a multicast went to. The average is of all; least, median, most and incomplete are of those that "
        "were recorded as single requests. Answers: items per route of streams; below 1 some routes gave none. "
        "Incomplete: streams with fewer items than routes.",
        NO_MULTICAST,
        of=(facts.fanouts.count, "service"),
        plot=("fanouts", plots.fanouts_plot),
        formats={
            "ratio": lambda part, whole: f"{part / whole:.2f}" if whole else None,
            "single": lambda counts: sum(count for _, count in counts) if counts else None,
            "least": partial(routes_at, 0.0),
            "median": partial(routes_at, 0.5),
            "most": partial(routes_at, 1.0),
            "fewer": lambda number, asked, counts: number if asked and counts else None,
        },
    )


def fanout_counts_section(facts: Facts) -> Section:
    cells = [[row.service, routes, count] for row in facts.fanouts.rows for routes, count in row.counts]
    columns = "service | >routes | >multicasts"
    nothing = NO_MULTICAST if not facts.fanouts.rows else "The brokers recorded no single requests, only their sums."
    plot = "fanout-counts", plots.fanout_counts_plot
    return table("Multicasts by number of routes", columns, cells, "", nothing, is_brief=False, plot=plot)


def callers_section(facts: Facts) -> Section:
    return of_records(
        "Top callers",
        "caller = caller_service | caller's route = route(caller_route) | called = service | >requests | >errors | "
        ">bytes in = bytes(bytes_in) | >bytes out = bytes(bytes_out)",
        facts.callers.rows,
        nothing="No callers are recorded.",
        of=(facts.callers.count, "row"),
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
    return table(title, columns, cells, note, nothing, of=count, plot=plot)


def rejections_section(facts: Facts) -> Section:
    columns = "service | caller = caller_service | address | code word = word | emptied by = emptied_by | >requests"
    rows, count = facts.rejections.rows, (facts.rejections.count, "row")
    return of_records("Rejected requests", columns, rows, nothing=NO_REJECTION, of=count, is_brief=False)
