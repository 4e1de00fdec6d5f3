"""How many routes a multicast went to: each count where single requests were recorded, else the average.

A multicast that no route matched went nowhere and is among the rejections, not here.
"""

from collections.abc import Sequence
from typing import Final

from spark_sink.report.reading import Record, TableReader
from spark_sink.report.traffic.balance import MULTICAST
from spark_sink.report.traffic.facts import REJECTED
from spark_sink.tables import REQUESTS

MAX_FANOUTS: Final = 20
_IS_STREAM: Final = "model IN ('request_stream', 'request_channel')"  # which may have an answer from each route
_WENT: Final = f"routing = '{MULTICAST}' AND outcome <> '{REJECTED}'"  # multicasts that some route got


def fanouts_of(reader: TableReader, begin_us: int) -> Record:
    """Per service, those with the most multicasts first. Of the table `sums`, and of the single requests from
    `begin_us` on.

    `branches` are routes that all multicasts went to, `asked` are those of streams, and `answers` the items that came
    back from these. `counts`, of single requests: routes, and how many went to so many; empty: none were recorded.
    `incomplete`: streams of these with fewer items than routes, so some route gave none."""
    streams = ", ".join(
        f"coalesce(sum({name}) FILTER ({_IS_STREAM}), 0)::BIGINT AS {new}"
        for name, new in (("branches", "asked"), ("items_out", "answers"))
    )
    more = f", sum(branches)::BIGINT AS all_branches, {streams}"
    top = reader.top("multicasts", "service", f"(FROM sums WHERE {_WENT})", MAX_FANOUTS, more)
    singles = (
        "SELECT place, branches, sum(greatest(weight, 1))::BIGINT AS n, "
        f"coalesce(sum(greatest(weight, 1)) FILTER ({_IS_STREAM} AND items_out < branches), 0)::BIGINT AS fewer "
        f"FROM {reader.rows_of(REQUESTS, begin_us)} JOIN multicasts USING (service) WHERE {_WENT} GROUP BY ALL"
    )
    counts = "list([branches, n] ORDER BY branches) AS counts, sum(fewer) AS fewer"
    rows = reader.records(
        "SELECT service, requests AS multicasts, all_branches AS branches, coalesce(counts, []) AS counts, asked, "
        f"answers, coalesce(fewer, 0)::BIGINT AS incomplete FROM multicasts "
        f"LEFT JOIN (SELECT place, {counts} FROM ({singles}) GROUP BY place) USING (place) "
        "ORDER BY place"
    )
    return Record(rows=rows, count=top.count)


def routes_at(fraction: float, counts: Sequence[tuple[int, int]]) -> int | None:
    """The routes of the single request at `fraction` of these `counts`. None: none were recorded."""
    left = fraction * sum(count for _, count in counts)
    for routes, count in counts:
        left -= count
        if left <= 1e-9:
            return routes
    return counts[-1][0] if counts else None
