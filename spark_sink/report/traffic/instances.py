"""Which instance is slow: each route beside the median one of its service; and routes put together by a tag.

A single slow route decides the p99 of its whole service, but not that of the median route. Latencies are those of the
model that the plots show. Routes are compared by the buckets of their percentiles, for buckets grow with what is in
them: the same distance is the same factor.
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
    median_p50_us: int  # of the median route of the service
    median_p99_us: int


@dataclass(frozen=True)
class Instances:
    rows: list[Instance]  # the slowest first, by p99 relative to the median route's
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
    sums = "sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors"
    medians = (f"quantile_disc(b{number}, 0.5) OVER (PARTITION BY service) AS mid{number}" for number in (0, P99))
    routes = percentile_buckets("(FROM answered WHERE route_id <> '')", "service, route_id")
    rows = reader.rows(
        f"SELECT count(*) OVER (), b0, b{P99}, mid0, mid{P99}, slowest, most, "
        "service, route_id, one.requests, one.errors, every.requests, every.errors FROM "
        f"(SELECT *, {', '.join(medians)}, max(slowest) OVER (PARTITION BY service) AS most FROM ({routes})) "
        f"JOIN (SELECT service, route_id, {sums} FROM sums GROUP BY ALL) AS one USING (service, route_id) "
        f"JOIN (SELECT service, {sums}, count(DISTINCT route_id) AS routes FROM {TO_ROUTES} GROUP BY service) AS every "
        "USING (service) WHERE routes > 1 "
        f"ORDER BY count >= {ENOUGH} DESC, b{P99} - mid{P99} DESC, count DESC, service, route_id LIMIT {MAX_INSTANCES}"
    )
    found = []
    for _, b50, b99, mid50, mid99, slowest, most, *named in rows:
        own = middle_us(b50, slowest), middle_us(b99, slowest)
        latencies = *own, middle_us(mid50, most), middle_us(mid99, most)
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
