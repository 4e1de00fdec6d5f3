"""How evenly a service's requests fall on its routes: max/mean and the Gini coefficient.

A route that was there and got nothing counts with 0. Multicast is left out, since it goes to all. Requests by address
and by shard key are told apart, for a shard is as uneven as its keys are.
"""

from typing import Final

from broker.routing.balance import gini, max_over_mean
from spark_sink.report.reading import Record, TableReader

MAX_BALANCES: Final = 30
MAX_LOADS: Final = 100  # dots per service; of more routes every n-th, by load, and always the first and the last
MULTICAST: Final = "multicast"
TO_ONE: Final = f"(FROM sums WHERE route_id <> '' AND routing <> '{MULTICAST}')"


def balances_of(reader: TableReader) -> Record:
    """Of the services with the most requests. Of the tables `sums` and `there`, which has `service` and `route_id` of
    all routes that were there."""
    top = reader.top("balanced", "service, routing", TO_ONE, MAX_BALANCES)
    return Record(rows=[_balance(reader, one.service, one.routing) for one in top.rows], count=top.count)


def _balance(reader: TableReader, service: str, routing: str) -> Record:
    """The requests of one service and routing type, over its routes."""
    routes = reader.rows(
        f"SELECT sum(requests)::BIGINT AS n, route_id FROM ("
        f"SELECT route_id, requests FROM {TO_ONE} WHERE service = ? AND routing = ? UNION ALL "
        "SELECT route_id, 0 FROM there WHERE service = ?) GROUP BY route_id ORDER BY n, route_id DESC",
        [service, routing, service],
    )
    loads = [load for load, _ in routes]
    dots = min(len(loads), MAX_LOADS)
    places = sorted({round(number * (len(loads) - 1) / max(1, dots - 1)) for number in range(dots)})
    return Record(
        service=service,
        routing=routing,
        routes=len(loads),
        requests=sum(loads),
        idle=loads.count(0),  # routes without a request
        busiest=routes[-1][1],
        max=loads[-1],
        max_per_mean=max_over_mean(loads),
        gini=gini(loads),
        loads=[loads[place] for place in places],  # ascending
    )
