"""How many routes a multicast went to: each count where single requests were recorded, else the average.

A multicast that no route matched went nowhere and is among the rejections, not here.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_sink.report.groups import encoded, group, is_in, numbers
from spark_sink.report.traffic.balance import MULTICAST
from spark_sink.report.traffic.facts import REJECTED

MAX_FANOUTS: Final = 20
SINGLE_COLUMNS: Final = ("service", "routing", "outcome", "branches", "weight")  # of the table `requests`


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


def fanouts_of(traffic: pa.Table, requests: pa.Table) -> Fanouts:
    """`requests`: SINGLE_COLUMNS of single requests; empty where none were recorded."""
    traffic = traffic.filter(pa.array(_went(traffic)))
    services = group(traffic, ["service"])
    sums, branches = services.sums(numbers(traffic, "requests")), services.sums(numbers(traffic, "branches"))
    requests = requests.filter(pa.array(_went(requests)))
    names, codes = encoded(requests["service"])
    places = {name: place for place, name in enumerate(names.to_pylist())}
    routes, weights = numbers(requests, "branches"), np.maximum(numbers(requests, "weight"), 1)
    rows = []
    for number in services.top(sums, MAX_FANOUTS):
        [service] = services.key(number)
        mine = codes == places.get(service, -1)
        values, of_row = np.unique(routes[mine], return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, of_row, weights[mine])
        pairs = list(zip(values.tolist(), counts.tolist(), strict=True))
        rows.append(Fanout(service, int(sums[number]), int(branches[number]), pairs))
    return Fanouts(rows, int((sums > 0).sum()))


def _went(table: pa.Table) -> Any:
    """Multicasts that some route got."""
    return is_in(table, "routing", [MULTICAST]) & ~is_in(table, "outcome", [REJECTED])
