"""Requests as tables of texts: traffic, outcomes, latencies, balance, multicasts, callers, rejections."""

from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.reading import Record
from spark_sink.report.section import PERCENTILES, SPARK_WIDTH, Section, over_time, shown_of
from spark_sink.report.texts import (
    NO_NAME,
    bytes_of,
    change_of,
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
from spark_sink.report.traffic.fanout import routes_at
from spark_sink.report.traffic.instances import ENOUGH
from spark_sink.report.traffic.latencies import FRACTIONS, P99
from spark_sink.tables import FAILED_OUTCOMES
from spark_sink.timestamps import moment_at

NO_ANSWERS: Final = "No request that waits for an answer reached a route."
NO_MULTICAST: Final = "No multicast reached a route."
NO_REJECTION: Final = "No request was rejected."


def services_section(facts: Facts) -> Section:
    traffic = facts.traffic
    cells = [
        [named(service), number_of(count), share_of(count, traffic.requests), sparkline(counts, SPARK_WIDTH)]
        for service, count, counts in zip(
            traffic.services, traffic.service_requests, traffic.over_time[:-1], strict=True
        )
    ]
    others = traffic.service_count - len(traffic.services)
    if others > 0:
        counts = traffic.over_time[-1]
        share = share_of(sum(counts), traffic.requests)
        cells.append([f"{number_of(others)} others", number_of(sum(counts)), share, sparkline(counts, SPARK_WIDTH)])
    columns = ["service", "requests", "share", "over time"]
    if traffic.bins.count < 2:
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    note = f"One block stands for {length_of(traffic.bins.step_s)} or more." if traffic.bins.count > 1 else ""
    return Section("Busiest services", columns, columns[1:3], cells, note, "No requests are recorded.", True)


def traffic_section(facts: Facts) -> Section:
    rows = facts.traffic.rows
    cells = [
        [
            named(row.service),
            row.model,
            number_of(row.requests),
            number_of(row.errors),
            *(latency_of(us) for us in row.latencies_us or (None,) * len(FRACTIONS)),
            latency_of(row.max_us) if row.latencies_us else NO_NAME,
        ]
        for row in rows
    ]
    numeric = ["requests", "errors", *PERCENTILES, "max"]
    note = (
        f"Errors: outcome {', '.join(FAILED_OUTCOMES)}. Latencies: from the first frame to the end, of requests that "
        "reached a route, in models that have an answer; percentiles are at most 1/32 from the truth. "
    ) + shown_of(len(rows), facts.traffic.row_count, "row")
    columns = ["service", "model", *numeric]
    return Section("Requests per service and model", columns, numeric, cells, note.rstrip(), is_brief=True)


def volume_section(facts: Facts) -> Section:
    rows = facts.traffic.rows
    cells = [
        [named(row.service), row.model, *map(number_of, row.sizes[:2]), *map(bytes_of, row.sizes[2:])] for row in rows
    ]
    numeric = ["items in", "items out", "bytes in", "bytes out"]
    note = shown_of(len(rows), facts.traffic.row_count, "row")
    return Section("Payloads and bytes", ["service", "model", *numeric], numeric, cells, note)


def before_section(facts: Facts) -> Section:
    """Only where the tables tell of the time before."""
    traffic, before = facts.traffic, facts.before
    assert before is not None
    latencies = traffic.latencies.all_us
    length_s = (before.to_us - before.from_us) / SECOND_US
    p99_us = latencies[P99] if latencies else None
    cells = [
        [
            "requests",
            number_of(traffic.requests),
            number_of(before.requests),
            change_of(traffic.requests, before.requests),
        ],
        ["requests per second", *(rate_of(one.requests, length_s) for one in (traffic, before)), NO_NAME],
        ["errors", number_of(traffic.errors), number_of(before.errors), change_of(traffic.errors, before.errors)],
        ["share of errors", *(share_of(one.errors, one.requests) for one in (traffic, before)), NO_NAME],
        ["p99", latency_of(p99_us), latency_of(before.p99_us), change_of(p99_us or 0, before.p99_us or 0)],
    ]
    columns = ["", "this time", "before", "change"]
    note = f"Before: {span_of(moment_at(before.from_us), moment_at(before.to_us))}."
    return Section("Beside the same length of time before", columns, columns[1:], cells, note, is_brief=True)


def requests_by_tag_section(facts: Facts) -> Section:
    by_tag = facts.by_tag
    cells = [
        [
            named(row.value),
            *map(number_of, (row.routes, row.requests, row.errors)),
            share_of(row.errors, row.requests),
            *(latency_of(us) for us in row.latencies_us or (None,) * len(FRACTIONS)),
        ]
        for row in by_tag.rows
    ]
    numeric = ["routes", "requests", "errors", "share", *PERCENTILES]
    note = (
        f"Requests to one route, by its tag. - is for routes without it. {shown_of(len(cells), by_tag.count, 'value')}"
    )
    nothing = f"No route has the tag {named(by_tag.tag)}."
    title = f"Requests by {named(by_tag.tag)}"
    return Section(title, [named(by_tag.tag), *numeric], numeric, cells, note.rstrip(), nothing, True)


def over_time_section(facts: Facts) -> Section:
    traffic = facts.traffic
    title = f"Requests per {step_of(traffic.bins.step_s)} and service"
    lines = (map(number_of, counts) for counts in traffic.over_time)
    return over_time(title, traffic.bins, [*map(named, traffic.services), "others"], lines, "services")


def errors_over_time_section(facts: Facts) -> Section:
    traffic = facts.traffic
    title = f"Errors per {step_of(traffic.bins.step_s)} and service"
    lines = (map(number_of, counts) for counts in traffic.service_errors_over_time)
    nothing = "" if traffic.errors else "No request ended with an error."
    return over_time(title, traffic.bins, [*map(named, traffic.services), "others"], lines, "errors", nothing)


def deadlines_section(facts: Facts) -> Section:
    rows = facts.traffic.deadlines
    cells = [
        [named(row.service), number_of(row.requests), number_of(row.deadlines), share_of(row.deadlines, row.requests)]
        for row in rows
    ]
    columns = ["service", "requests", "deadlines", "share"]
    nothing = "No request passed its deadline."
    return Section("Requests that passed their deadline", columns, columns[1:], cells, "", nothing, bool(rows))


def instances_section(facts: Facts) -> Section:
    rows = facts.instances.rows
    short = short_ids(row.route_id for row in rows)
    cells = [
        [
            named(row.service),
            short[row.route_id],
            rate_of(row.requests, facts.traffic.seconds),
            share_of(row.errors, row.requests),
            share_of(row.service_errors, row.service_requests),
            *map(latency_of, (row.p50_us, row.median_p50_us, row.p99_us, row.median_p99_us)),
        ]
        for row in rows
    ]
    numeric = ["rate", "errors", "of all", "p50", "median", "p99", "median p99"]
    note = (
        "Of all: errors of all routes of the service. Median: of its median route. Routes with fewer than "
        f"{ENOUGH} answers come last. "
    ) + shown_of(len(rows), facts.instances.count, "route")
    nothing = "No service had answers from two routes."
    columns = ["service", "route", *numeric]
    return Section(
        "Slowest routes beside their service", columns, numeric, cells, note.rstrip(), nothing, True, "instances"
    )


def outcomes_section(facts: Facts) -> Section:
    cells = [
        [one.outcome, named(one.word), number_of(one.requests), share_of(one.requests, facts.traffic.requests)]
        for one in facts.traffic.outcomes
    ]
    columns = ["outcome", "code word", "requests", "share"]
    return Section("Outcomes", columns, columns[2:], cells, nothing="No requests are recorded.", is_brief=True)


def outcomes_over_time_section(facts: Facts) -> Section:
    traffic = facts.traffic
    title = f"Outcomes per {step_of(traffic.bins.step_s)}"
    lines = [map(number_of, counts) for counts in traffic.outcomes_over_time]
    lines.append(map(share_of, traffic.errors_over_time, traffic.all_over_time))
    return over_time(title, traffic.bins, [*traffic.outcome_names, "errors"], lines, "outcomes")


def latency_over_time_section(facts: Facts) -> Section:
    bins, latencies = facts.traffic.bins, facts.traffic.latencies
    title = f"Latency per {step_of(bins.step_s)}, {latencies.model or 'no requests'}"
    lines = ([latency_of(us[place] if us else None) for us in latencies.over_time] for place in range(len(FRACTIONS)))
    return over_time(title, bins, PERCENTILES, lines, "percentiles", "" if latencies.all_us else NO_ANSWERS)


def latency_of_services_section(facts: Facts) -> Section:
    latencies = facts.traffic.latencies
    cells = [
        [named(service), *(latency_of(us) for us in percentiles)]
        for service, percentiles in zip(latencies.services, latencies.of_services, strict=True)
    ]
    title = f"Latency per service, {latencies.model or 'no requests'}"
    note = shown_of(len(cells), latencies.service_count, "service")
    columns = ["service", *PERCENTILES]
    return Section(title, columns, PERCENTILES, cells, note, NO_ANSWERS, plot="latencies")


def p99_over_time_section(facts: Facts) -> Section:
    bins, latencies = facts.traffic.bins, facts.traffic.latencies
    title = f"p99 per {step_of(bins.step_s)} and service"
    lines = (map(latency_of, line) for line in latencies.p99_over_time)
    nothing = "" if latencies.services else NO_ANSWERS
    return over_time(title, bins, list(map(named, latencies.services)), lines, "p99", nothing)


def balance_section(facts: Facts) -> Section:
    rows = facts.balances.rows
    short = short_ids(row.busiest for row in rows)
    cells = [
        [
            named(row.service),
            row.routing,
            *map(number_of, (row.routes, row.idle, row.requests, row.max)),
            f"{row.max_per_mean:.2f}",
            f"{row.gini:.3f}",
            short[row.busiest],
        ]
        for row in rows
    ]
    numeric = ["routes", "idle", "requests", "most", "max/mean", "Gini"]
    note = (
        "Idle routes were there and got nothing. max/mean 1 and Gini 0: all alike. A fair balancer is uneven, too, "
        "where routes differ in their tags or in how long they were there. Multicasts are left out. "
    ) + shown_of(len(rows), facts.balances.count, "row")
    columns = ["service", "routing", *numeric, "busiest"]
    nothing = "No request went to a single route."
    return Section("Requests per route", columns, numeric, cells, note.rstrip(), nothing, True, "balance")


def fanout_section(facts: Facts) -> Section:
    rows = facts.fanouts.rows
    cells = [
        [
            named(row.service),
            number_of(row.multicasts),
            f"{row.branches / row.multicasts:.2f}",
            number_of(sum(count for _, count in row.counts)) if row.counts else NO_NAME,
            *(number_of(routes_at(fraction, row.counts)) for fraction in (0.0, 0.5, 1.0)),
            f"{row.answers / row.asked:.2f}" if row.asked else NO_NAME,
            number_of(row.incomplete) if row.asked and row.counts else NO_NAME,
        ]
        for row in rows
    ]
    numeric = ["multicasts", "average", "single", "least", "median", "most", "answers", "incomplete"]
    note = (
        "Routes that a multicast went to. The average is of all; least, median, most and incomplete are of those that "
        "were recorded as single requests. Answers: items per route of streams; below 1 some routes gave none. "
        "Incomplete: streams with fewer items than routes. "
    ) + shown_of(len(rows), facts.fanouts.count, "service")
    return Section(
        "Multicast fan-out", ["service", *numeric], numeric, cells, note.rstrip(), NO_MULTICAST, True, "fanouts"
    )


def fanout_counts_section(facts: Facts) -> Section:
    cells = [
        [named(row.service), number_of(routes), number_of(count)]
        for row in facts.fanouts.rows
        for routes, count in row.counts
    ]
    columns = ["service", "routes", "multicasts"]
    nothing = NO_MULTICAST if not facts.fanouts.rows else "The brokers recorded no single requests, only their sums."
    return Section("Multicasts by number of routes", columns, columns[1:], cells, "", nothing, plot="fanout-counts")


def callers_section(facts: Facts) -> Section:
    short = short_ids(row.caller_route for row in facts.callers.rows)
    cells = [
        [
            named(row.caller_service),
            short[row.caller_route],
            named(row.service),
            number_of(row.requests),
            number_of(row.errors),
            bytes_of(row.bytes_in),
            bytes_of(row.bytes_out),
        ]
        for row in facts.callers.rows
    ]
    numeric = ["requests", "errors", "bytes in", "bytes out"]
    note = shown_of(len(cells), facts.callers.count, "row")
    columns = ["caller", "caller's route", "called", *numeric]
    return Section("Top callers", columns, numeric, cells, note, "No callers are recorded.", True, "callers")


def by_tag_section(facts: Facts) -> Section:
    nothing = "No request was rejected for want of a route with a tag."
    note = "The tag of the address after which no route was left. "
    return _ranking_section("Rejected by tag", "tag", facts.rejections.by_tag, note, nothing, "tags")


def by_word_section(facts: Facts) -> Section:
    return _ranking_section("Rejected by code word", "code word", facts.rejections.by_word, "", NO_REJECTION, "words")


def _ranking_section(title: str, noun: str, ranking: Record, note: str, nothing: str, plot: str) -> Section:
    cells = [[named(name), number_of(count)] for name, count in zip(ranking.names, ranking.requests, strict=True)]
    note = (note + shown_of(len(cells), ranking.count, noun)).rstrip()
    return Section(title, [noun, "requests"], ["requests"], cells, note, nothing, True, plot)


def rejections_section(facts: Facts) -> Section:
    rows = facts.rejections.rows
    cells = [
        [*map(named, (row.service, row.caller_service, row.address, row.word, row.emptied_by)), number_of(row.requests)]
        for row in rows
    ]
    columns = ["service", "caller", "address", "code word", "emptied by", "requests"]
    note = shown_of(len(rows), facts.rejections.count, "row")
    return Section("Rejected requests", columns, ["requests"], cells, note, NO_REJECTION)
