"""The facts as tables of texts, in chapters: what a terminal, Markdown and the page's tables are printed from."""

from spark_sink.report import DEFAULT_TAG
from spark_sink.report.access.sections import admissions_section, changes_section, denials_section
from spark_sink.report.facts import Facts
from spark_sink.report.feed.sections import consumers_section, feeds_section, lacking_section, trouble_section
from spark_sink.report.messages.sections import dead_letters_section, deliveries_section
from spark_sink.report.routes import sections as routes
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
from spark_sink.report.traffic import sections as requests


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
    services, outcomes = requests.services_section(facts), requests.outcomes_section(facts)
    latency = [requests.latency_of_services_section(facts)]
    rejected = [requests.by_tag_section(facts), requests.by_word_section(facts), requests.rejections_section(facts)]
    stays = [routes.lifetimes_section(facts), routes.flapping_section(facts), routes.service_lifetimes_section(facts)]
    cluster = [routes.links_section(facts), routes.brokers_section(facts)]
    if facts.traffic.bins.count == 1:
        traffic, ended = [services], [outcomes]
    else:
        traffic = [requests.over_time_section(facts), services]
        ended = [requests.outcomes_over_time_section(facts), requests.errors_over_time_section(facts), outcomes]
        latency = [requests.latency_over_time_section(facts), *latency, requests.p99_over_time_section(facts)]
    traffic += [requests.traffic_section(facts), requests.volume_section(facts)]
    if facts.before is not None:
        traffic.insert(0, requests.before_section(facts))
    if facts.by_tag.rows or facts.by_tag.tag != DEFAULT_TAG:
        traffic.append(requests.requests_by_tag_section(facts))
    ended.append(requests.deadlines_section(facts))
    latency.append(requests.instances_section(facts))
    if facts.cluster.bins.count != 1:
        cluster.append(routes.routes_over_time_section(facts))
    if facts.loads.rows:
        cluster.append(routes.loads_section(facts))
    has_access = facts.access.rows or facts.access.denied_rows or facts.access.changed_rows
    access = [admissions_section(facts), denials_section(facts), changes_section(facts)]
    has_messages = facts.messages.delivered or facts.messages.dead
    messages = [deliveries_section(facts), dead_letters_section(facts)]
    files = [make(facts) for make in (feeds_section, consumers_section, lacking_section, trouble_section)]
    return [
        Chapter("traffic", "Traffic", traffic),
        Chapter("outcomes", "Outcomes", ended),
        Chapter("latency", "Latency", latency),
        Chapter("balance", "Balance", [requests.balance_section(facts)]),
        Chapter("fanout", "Multicast", [requests.fanout_section(facts), requests.fanout_counts_section(facts)]),
        Chapter("routes", "Routes", stays),
        Chapter("callers", "Callers", [requests.callers_section(facts)]),
        Chapter("rejections", "Rejections", rejected),
        *([Chapter("access", "Access", access)] if has_access else []),
        *([Chapter("messages", "Messages", messages)] if has_messages else []),
        *([Chapter("files", "Files", files)] if facts.files.rows else []),
        Chapter("cluster", "Cluster", cluster),
        Chapter("records", "Records", [routes.gaps_section(facts), routes.events_section(facts)]),
    ]
