"""Which instance is slow: each route beside the median one of its service; and routes put together by a tag.

A single slow route decides the p99 of its whole service, but not that of the median route. Latencies are those of the
model that the plots show. Routes are compared by the buckets of their percentiles, for buckets grow with what is in
them: the same distance is the same factor.
"""

from typing import Final

from broker import events as kinds
from spark_sink.report.reading import Record, TableReader
from spark_sink.report.traffic.latencies import P99, middle_us, percentile_buckets, percentiles

MAX_INSTANCES: Final = 20
MAX_VALUES: Final = 30
ENOUGH: Final = 100  # answered requests that a p99 is of; routes with fewer come last
TO_ROUTES: Final = "(FROM sums WHERE route_id <> '')"


def instances_of(reader: TableReader) -> Record:
    """Routes of services with several, the slowest first by p99 relative to that of the service's median route. Of the
    tables `sums` and `answered`, which has the histograms of one model."""
    sums = "sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors"
    medians = (f"quantile_disc(b{number}, 0.5) OVER (PARTITION BY service) AS mid{number}" for number in (0, P99))
    routes = percentile_buckets("(FROM answered WHERE route_id <> '')", "service, route_id")
    latencies = (
        f"{middle_us('b0')} AS p50_us, {middle_us(f'b{P99}')} AS p99_us, {middle_us('mid0', 'most')} AS median_p50_us, "
        f"{middle_us(f'mid{P99}', 'most')} AS median_p99_us"
    )
    rows, count = reader.ranked(
        "SELECT service, route_id, one.requests, one.errors, every.requests AS service_requests, "
        f"every.errors AS service_errors, {latencies}, count(*) OVER () AS total FROM "
        f"(SELECT *, {', '.join(medians)}, max(slowest) OVER (PARTITION BY service) AS most FROM ({routes})) "
        f"JOIN (SELECT service, route_id, {sums} FROM sums GROUP BY ALL) AS one USING (service, route_id) "
        f"JOIN (SELECT service, {sums}, count(DISTINCT route_id) AS routes FROM {TO_ROUTES} GROUP BY service) AS every "
        "USING (service) WHERE routes > 1 "
        f"ORDER BY count >= {ENOUGH} DESC, b{P99} - mid{P99} DESC, count DESC, service, route_id LIMIT {MAX_INSTANCES}"
    )
    return Record(rows=rows, count=count)


def by_tag(reader: TableReader, tag: str) -> Record:
    """Requests by the values of a tag, the most first; the value of routes without it is empty. No rows: no route has
    it. Of the tables `sums`, `answered`, `snapshots`, `left_routes` and `told`."""
    sources = ("snapshots", "left_routes", f"told WHERE kind = {kinds.ROUTE_JOINED}")
    parts = [f"SELECT route_id, map_extract(tags, ?)[1] AS value FROM {source}" for source in sources]
    known = (
        f"SELECT route_id, max(value) AS value FROM ({' UNION ALL '.join(parts)}) WHERE value <> '' GROUP BY route_id"
    )
    reader.make("tagged", known, [tag] * len(parts))
    if not reader.rows("SELECT 1 FROM tagged LIMIT 1"):
        return Record(tag=tag, rows=[], count=0)
    sums, answered = (
        f"(SELECT {table}.*, coalesce(value, '') AS value FROM {table} LEFT JOIN tagged USING (route_id) "
        "WHERE route_id <> '')"
        for table in ("sums", "answered")
    )
    top = reader.top("by_value", "value", sums, MAX_VALUES, ", sum(errors)::BIGINT AS errors")
    rows = reader.records(
        "SELECT value, coalesce(routes, 0) AS routes, requests, errors, latencies_us FROM by_value "
        "LEFT JOIN (SELECT value, count(*) AS routes FROM tagged GROUP BY value) USING (value) "
        f"LEFT JOIN ({percentiles(answered, 'value')}) USING (value) ORDER BY place"
    )
    return Record(tag=tag, rows=rows, count=top.count)
