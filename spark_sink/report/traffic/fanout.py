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
_IS_STREAM: Final = "model IN ('request_stream', 'request_channel')"
_ANSWERS: Final = (("branches", "asked"), ("items_out", "answers"))
_WENT: Final = f"routing = '{MULTICAST}' AND outcome <> '{REJECTED}'"  # multicasts that some route got


@dataclass(frozen=True)
class Fanout:
    """The multicasts to one service."""

    service: str
    multicasts: int
    branches: int
    counts: list[tuple[int, int]]  # of single requests: routes, and how many went to so many; empty: none recorded
    asked: int = 0  # branches of streams and channels, which may have an answer from each route
    answers: int = 0  # items that came back from these
    incomplete: int = 0  # single requests of them with fewer items than routes: some route gave none

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
    streams = ", ".join(f"CASE WHEN {_IS_STREAM} THEN {name} ELSE 0 END AS {new}" for name, new in _ANSWERS)
    went = f"(SELECT service, requests, branches, {streams} FROM sums WHERE {_WENT})"
    top, count = reader.top("service", went, MAX_FANOUTS, ["branches", "asked", "answers"])
    reader.number("places", ["service"], top)
    counts: dict[int, list[tuple[int, int]]] = {}
    incomplete = [0] * len(top)
    for place, routes, requests, fewer in reader.rows(
        "SELECT place, branches, sum(greatest(weight, 1))::BIGINT, "
        f"coalesce(sum(greatest(weight, 1)) FILTER ({_IS_STREAM} AND items_out < branches), 0)::BIGINT "
        f"FROM {reader.rows_of(REQUESTS, begin_us)} JOIN places USING (service) WHERE {_WENT} "
        "GROUP BY place, branches ORDER BY place, branches"
    ):
        counts.setdefault(place, []).append((routes, requests))
        incomplete[place] += fewer
    rows = [
        Fanout(service, multicasts, branches, counts.get(place, []), asked, answers, incomplete[place])
        for place, (service, multicasts, branches, asked, answers) in enumerate(top)
    ]
    return Fanouts(rows, count)
