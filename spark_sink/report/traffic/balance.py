"""How evenly a service's requests fall on its routes: max/mean and the Gini coefficient.

A route that was there and got nothing counts with 0. Multicast is left out, since it goes to all. Requests by address
and by shard key are told apart, for a shard is as uneven as its keys are.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.routing.balance import gini, max_over_mean
from spark_sink.report.groups import encoded, group, is_in, numbers

MAX_BALANCES: Final = 30
MAX_LOADS: Final = 100  # dots per service; of more routes every n-th, by load, and always the first and the last
MULTICAST: Final = "multicast"


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


def balances_of(traffic: pa.Table, there: pa.Table) -> Balances:
    """`traffic`: partials; `there`: `service` and `route_id` of all routes that were there."""
    is_single = ~is_in(traffic, "route_id", [""]) & ~is_in(traffic, "routing", [MULTICAST])
    traffic = traffic.filter(pa.array(is_single))
    services = group(traffic, ["service", "routing"])
    per_service = services.sums(numbers(traffic, "requests"))
    top = services.top(per_service, MAX_BALANCES)
    names, known = encoded(there["service"])
    known_ids = there["route_id"].combine_chunks()
    places = {name: place for place, name in enumerate(names.to_pylist())}
    rows = []
    for number in top:
        service, routing = services.key(number)
        mine = traffic.filter(pa.array(services.of_row == number))
        served = group(mine, ["route_id"])
        loads = served.sums(numbers(mine, "requests"))
        busiest = served.key(int(np.argmax(loads)))[0]
        offered = known_ids.filter(pa.array(known == places.get(service, -1))).unique()
        used = served.keys(["route_id"])["route_id"]
        idle = int(pa.compute.sum(pa.compute.invert(pa.compute.is_in(offered, value_set=used))).as_py() or 0)
        loads = np.concatenate([np.zeros(idle, np.int64), np.sort(loads)])
        rows.append(_balance(service, routing, busiest, loads))
    return Balances(rows, int((per_service > 0).sum()))


def _balance(service: str, routing: str, busiest: str, loads: Any) -> Balance:
    largest, total = int(loads[-1]), int(loads.sum())
    places = np.unique(np.linspace(0, len(loads) - 1, min(len(loads), MAX_LOADS)).round().astype(np.int64))
    return Balance(
        service=service,
        routing=routing,
        routes=len(loads),
        requests=total,
        idle=int((loads == 0).sum()),
        busiest=busiest,
        max=largest,
        max_per_mean=max_over_mean(loads.tolist()),
        gini=gini(loads.tolist()),
        loads=loads[places].tolist(),
    )
