"""Which instance is slow: each route beside all of its service, and routes put together by one of their tags.

Latencies are those of the model that the plots show. Two routes are compared by the buckets of their percentiles, for
buckets grow with what is in them: the same distance is the same factor.
"""

from dataclasses import dataclass
from typing import Final

from broker import events as kinds
from spark_sink.report.reading import TableReader
from spark_sink.report.traffic.latencies import P99, Percentiles, middle_us, percentile_buckets, percentiles_of

MAX_INSTANCES: Final = 20
MAX_VALUES: Final = 30
ENOUGH: Final = 100  # answered requests that a p99 is of; routes with fewer come last
TO_ROUTES: Final = "(FROM sums WHERE route_id <> '')"


@dataclass(frozen=True)
class Instance:
    """One route of several of a service."""

    service: str
    route_id: str
    requests: int
    errors: int
    service_requests: int  # to all its routes
    service_errors: int
    p50_us: int
    p99_us: int
    service_p50_us: int
    service_p99_us: int


@dataclass(frozen=True)
class Instances:
    rows: list[Instance]  # the slowest first, by p99 relative to the service's
    count: int


@dataclass(frozen=True)
class TagValue:
    """The routes with one value of a tag."""

    value: str  # empty: they do not have the tag
    routes: int  # that were there
    requests: int
    errors: int
    latencies_us: Percentiles | None  # as FRACTIONS; None: no request has one


@dataclass(frozen=True)
class ByTag:
    tag: str
    rows: list[TagValue]  # the most requests first; empty: no route has the tag
    count: int


def instances_of(reader: TableReader) -> Instances:
    """Of the tables `sums` and `answered`, which has the histograms of one model."""
    answered = "(FROM answered WHERE route_id <> '')"
    sums = "sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors"
    rows = reader.rows(
        f"SELECT count(*) OVER (), mine.b0, mine.b{P99}, mine.slowest, its.b0, its.b{P99}, its.slowest, "
        "service, route_id, one.requests, one.errors, every.requests, every.errors "
        f"FROM ({percentile_buckets(answered, 'service, route_id')}) AS mine "
        f"JOIN ({percentile_buckets(answered, 'service')}) AS its USING (service) "
        f"JOIN (SELECT service, route_id, {sums} FROM sums GROUP BY ALL) AS one USING (service, route_id) "
        f"JOIN (SELECT service, {sums}, count(DISTINCT route_id) AS routes FROM {TO_ROUTES} GROUP BY service) AS every "
        "USING (service) WHERE routes > 1 "
        f"ORDER BY mine.count >= {ENOUGH} DESC, mine.b{P99} - its.b{P99} DESC, mine.count DESC, service, route_id "
        f"LIMIT {MAX_INSTANCES}"
    )
    found = []
    for _, b0, b99, slowest, its_b0, its_b99, its_slowest, *named in rows:
        own = middle_us(b0, slowest), middle_us(b99, slowest)
        latencies = *own, middle_us(its_b0, its_slowest), middle_us(its_b99, its_slowest)
        found.append(Instance(*(*named, *latencies)))
    return Instances(found, rows[0][0] if rows else 0)


def by_tag(reader: TableReader, tag: str) -> ByTag:
    """Of the tables `sums`, `answered`, `snapshots`, `left_routes` and `told`."""
    sources = ("snapshots", "left_routes", f"told WHERE kind = {kinds.ROUTE_JOINED}")
    parts = [f"SELECT route_id, map_extract(tags, ?)[1] AS value FROM {source}" for source in sources]
    known = (
        f"SELECT route_id, max(value) AS value FROM ({' UNION ALL '.join(parts)}) WHERE value <> '' GROUP BY route_id"
    )
    reader.make("tagged", known, [tag] * len(parts))
    routes: dict[str, int] = dict(reader.rows("SELECT value, count(*) FROM tagged GROUP BY value"))
    if not routes:
        return ByTag(tag, [], 0)
    join = "LEFT JOIN tagged USING (route_id) WHERE route_id <> ''"
    sums = f"(SELECT coalesce(value, '') AS value, requests, errors FROM sums {join})"
    rows, count = reader.top("value", sums, MAX_VALUES, ["errors"])
    answered = f"(SELECT coalesce(value, '') AS value, bucket, count, slowest FROM answered {join})"
    latencies = percentiles_of(reader, answered, "value")
    return ByTag(
        tag,
        [
            TagValue(value, routes.get(value, 0), requests, errors, latencies.get((value,)))
            for value, requests, errors in rows
        ],
        count,
    )
