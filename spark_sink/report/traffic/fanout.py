"""How many routes a multicast went to: each count where single requests were recorded, else the average.

A multicast that no route matched went nowhere and is among the rejections, not here.
"""

from dataclasses import dataclass
from typing import Final

from spark_sink.report.reading import TableReader
from spark_sink.report.traffic.balance import MULTICAST
from spark_sink.report.traffic.facts import REJECTED
from spark_sink.tables import REQUESTS

MAX_FANOUTS: Final = 20
_WENT: Final = f"routing = '{MULTICAST}' AND outcome <> '{REJECTED}'"  # multicasts that some route got


@dataclass(frozen=True)
class Fanout:
    """The multicasts to one service."""

    service: str
    multicasts: int
    branches: int
    counts: list[tuple[int, int]]  # of single requests: routes, and how many went to so many; empty: none recorded

    @property
    def average(self) -> float:
        return self.branches / self.multicasts

    def percentile(self, fraction: float) -> int | None:
        """Of the single requests: the routes of the one at `fraction`. None: none were recorded."""
        left = fraction * sum(count for _, count in self.counts)
        for routes, count in self.counts:
            left -= count
            if left <= 1e-9:
                return routes
        return self.counts[-1][0] if self.counts else None


@dataclass(frozen=True)
class Fanouts:
    rows: list[Fanout]  # of the services with the most multicasts
    count: int


def fanouts_of(reader: TableReader, begin_us: int) -> Fanouts:
    """Of the table `sums`, and of the single requests from `begin_us` on."""
    top, count = reader.top("service", f"(FROM sums WHERE {_WENT})", MAX_FANOUTS, ["branches"])
    reader.number("places", ["service"], top)
    counts: dict[int, list[tuple[int, int]]] = {}
    for place, routes, requests in reader.rows(
        "SELECT place, branches, sum(greatest(weight, 1))::BIGINT "
        f"FROM {reader.rows_of(REQUESTS, begin_us)} JOIN places USING (service) WHERE {_WENT} "
        "GROUP BY place, branches ORDER BY place, branches"
    ):
        counts.setdefault(place, []).append((routes, requests))
    rows = [
        Fanout(service, multicasts, branches, counts.get(place, []))
        for place, (service, multicasts, branches) in enumerate(top)
    ]
    return Fanouts(rows, count)
