"""How evenly a service's requests fall on its routes: max/mean and the Gini coefficient.

A route that was there and got nothing counts with 0. Multicast is left out, since it goes to all. Requests by address
and by shard key are told apart, for a shard is as uneven as its keys are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker.routing.balance import gini, max_over_mean
from spark_sink.report.reading import TableReader

MAX_BALANCES: Final = 30
MAX_LOADS: Final = 100  # dots per service; of more routes every n-th, by load, and always the first and the last
MULTICAST: Final = "multicast"
TO_ONE: Final = f"(FROM sums WHERE route_id <> '' AND routing <> '{MULTICAST}')"


@dataclass(frozen=True)
class Balance:
    """The requests of one service and routing type, over its routes."""

    service: str
    routing: str
    routes: int
    requests: int
    idle: int  # routes without a request
    busiest: str  # route id
    max: int
    max_per_mean: float
    gini: float
    loads: list[int]  # ascending, at most MAX_LOADS of them


@dataclass(frozen=True)
class Balances:
    rows: list[Balance]  # of the services with the most requests
    count: int


def balances_of(reader: TableReader) -> Balances:
    """Of the tables `sums` and `there`, which has `service` and `route_id` of all routes that were there."""
    top, count = reader.top("service, routing", TO_ONE, MAX_BALANCES)
    rows = []
    for service, routing, _ in top:
        loads = reader.rows(
            f"SELECT sum(requests)::BIGINT AS n, route_id FROM ("
            f"SELECT route_id, requests FROM {TO_ONE} WHERE service = ? AND routing = ? UNION ALL "
            "SELECT route_id, 0 FROM there WHERE service = ?) GROUP BY route_id ORDER BY n, route_id DESC",
            [service, routing, service],
        )
        rows.append(_balance(service, routing, loads[-1][1], [load for load, _ in loads]))
    return Balances(rows, count)


def _balance(service: str, routing: str, busiest: str, loads: Sequence[int]) -> Balance:
    """`loads`: ascending."""
    last = len(loads) - 1
    dots = min(len(loads), MAX_LOADS)
    places = sorted({round(number * last / max(1, dots - 1)) for number in range(dots)})
    return Balance(
        service=service,
        routing=routing,
        routes=len(loads),
        requests=sum(loads),
        idle=loads.count(0),
        busiest=busiest,
        max=loads[-1],
        max_per_mean=max_over_mean(loads),
        gini=gini(loads),
        loads=[loads[place] for place in places],
    )
