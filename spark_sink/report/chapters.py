"""The facts as tables of texts, in chapters: what a terminal, Markdown and the page's tables are printed from."""

from dataclasses import replace

from spark_sink.report.facts import Facts
from spark_sink.report.routes.sections import (
    brokers_section,
    events_section,
    flapping_section,
    gaps_section,
    lifetimes_section,
    links_section,
    routes_over_time_section,
    service_lifetimes_section,
)
from spark_sink.report.section import Chapter, Figure
from spark_sink.report.texts import (
    NO_NAME,
    count_of,
    duration_of,
    latency_of,
    named,
    number_of,
    plain,
    share_of,
    span_of,
)
from spark_sink.report.traffic.sections import (
    balance_section,
    by_tag_section,
    by_word_section,
    callers_section,
    fanout_counts_section,
    fanout_section,
    latency_of_services_section,
    latency_over_time_section,
    outcomes_over_time_section,
    outcomes_section,
    over_time_section,
    p99_over_time_section,
    rejections_section,
    services_section,
    traffic_section,
    volume_section,
)


def headline(facts: Facts) -> list[Figure]:
    """What a reader wants to know first."""
    traffic, gaps = facts.traffic, facts.gaps
    latencies = traffic.latencies
    if traffic.services:
        share = share_of(traffic.service_requests[0], traffic.requests)
        busiest = Figure("busiest service", named(traffic.services[0]), f"{share} of the requests")
    else:
        busiest = Figure("busiest service", NO_NAME)
    names = [named(broker.name) for broker in facts.cluster.brokers[:3]]
    more = facts.cluster.broker_count - len(names)
    length_ms = 0 if facts.first is None or facts.last is None else (facts.last - facts.first).total_seconds() * 1000
    return [
        Figure("requests", number_of(traffic.requests), f"to {count_of(traffic.service_count, 'service')}"),
        Figure("errors", number_of(traffic.errors), share_of(traffic.errors, traffic.requests), traffic.errors > 0),
        Figure("p99", latency_of(None if latencies.all_us is None else latencies.all_us[2]), plain(latencies.model)),
        busiest,
        Figure("brokers", number_of(facts.cluster.broker_count), ", ".join(names) + (f" +{more}" if more > 0 else "")),
        Figure("span", duration_of(int(length_ms)), span_of(facts.first, facts.last)),
        Figure(
            "gaps",
            number_of(gaps.count),
            f"{count_of(gaps.records, 'record')} missing" if gaps.count else "none is known",
            gaps.count > 0,
        ),
    ]


def warning(facts: Facts) -> str:
    """What is to be said before any number, or empty."""
    gaps = facts.gaps
    if not gaps.count:
        return ""
    reasons = ", ".join(f"{plain(reason)} ({number_of(count)})" for reason, count in gaps.reasons)
    return (
        f"The records are incomplete: {count_of(gaps.count, 'gap')}, {count_of(gaps.records, 'record')} with "
        f"{count_of(gaps.requests, 'request')} missing as far as is known: {reasons}. Counts are too low by that."
    )


def chapters(facts: Facts) -> list[Chapter]:
    """All tables, in the order of the page. What has one moment alone has no table over time."""
    services, outcomes = services_section(facts), outcomes_section(facts)
    latency, cluster = [latency_of_services_section(facts)], [links_section(facts), brokers_section(facts)]
    if facts.traffic.bins.count == 1:
        traffic, ended = [replace(services, plot="services")], [replace(outcomes, plot="outcomes")]
    else:
        traffic, ended = [over_time_section(facts), services], [outcomes_over_time_section(facts), outcomes]
        latency = [latency_over_time_section(facts), *latency, p99_over_time_section(facts)]
    traffic += [traffic_section(facts), volume_section(facts)]
    if facts.cluster.bins.count != 1:
        cluster.append(routes_over_time_section(facts))
    return [
        Chapter("traffic", "Traffic", traffic),
        Chapter("outcomes", "Outcomes", ended),
        Chapter("latency", "Latency", latency),
        Chapter("balance", "Balance", [balance_section(facts)]),
        Chapter("fanout", "Multicast", [fanout_section(facts), fanout_counts_section(facts)]),
        Chapter(
            "routes", "Routes", [lifetimes_section(facts), flapping_section(facts), service_lifetimes_section(facts)]
        ),
        Chapter("callers", "Callers", [callers_section(facts)]),
        Chapter("rejections", "Rejections", [by_tag_section(facts), by_word_section(facts), rejections_section(facts)]),
        Chapter("cluster", "Cluster", cluster),
        Chapter("records", "Records", [gaps_section(facts), events_section(facts)]),
    ]
