"""Times the choice among 10 to 100 000 routes with the `broker` package that is found first, and prints JSON.

One address, known, that so many routes match: CPU time of `Query.resolve` and `Query.choose` from an interpreted loop
that is measured empty and taken off. The least of several repeats counts: what others do on the machine only adds.
"""

import json
import time
from collections.abc import Callable
from typing import Final

from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.table import Route, Table
from rsocket_wire.wire.frames import SHARD, Address
from rsocket_wire.wire.keys import LB_METHOD, SERVICE_NAME, SHARD_KEY, STICKY_ROUTE_KEY
from rsocket_wire.wire.tags import Tag

SIZES: Final = (10, 100, 1_000, 10_000, 100_000)
ZONES: Final = 4
CALLS: Final = 5_000
REPEATS: Final = 7
CHOOSERS: Final = (
    "round_robin", "random", "weighted", "least_busy", "power_of_two", "peak_ewma", "zone_first", "sticky",
)  # fmt: skip
ZONE: Final = b"zone-1"
ORIGIN: Final = b"origin-route-id."


def table_of(size: int) -> Table:
    """Routes of one service in ZONES zones, of weights 1, 2 and 3, with up to four requests in flight."""
    table = Table()
    for number in range(size):
        tags = [Tag.of("zone", f"zone-{number % ZONES}"), Tag.of("weight", str(number % 3 + 1))]
        route = Route(number.to_bytes(16, "big"), "orders", tags, None)
        table.join(route, 1)
        for _ in range(number % 5):
            route.load.began(False)
    return table


def address(*hints: Tag, flags: int = 0) -> bytes:
    """An ADDRESS of the service, with hints; those that name a tag name `user`."""
    tags = [Tag.of(SERVICE_NAME, "orders")]
    if any(tag.key in (SHARD_KEY, STICKY_ROUTE_KEY) for tag in hints):
        tags.append(Tag.of("user", "7"))
    return Address(ORIGIN, tags, list(hints), b"", flags).encode()


def time_choices(table: Table, raw: bytes) -> float:
    """Microseconds per request to a known address."""
    query = Query(table, Rng(1))
    return _least_us(lambda: _ask(query, raw)) - _least_us(lambda: _loop(raw))


def time_changes(table: Table) -> float:
    """Microseconds per request when a mask of one of the routes has changed before each; the change is taken off."""
    query = Query(table, Rng(1))
    raw = address()

    def ask() -> None:
        query.choose(query.resolve(raw, 0, len(raw)), ZONE, ORIGIN, 100.0)

    def nothing() -> None: ...

    return _least_us(lambda: _change(table, ask)) - _least_us(lambda: _change(table, nothing))


def _least_us(run: Callable[[], None]) -> float:
    """Of CPU time for each of the CALLS of a run."""
    spent = []
    for _ in range(REPEATS):
        begun_at = time.process_time()
        run()
        spent.append(time.process_time() - begun_at)
    return min(spent) / CALLS * 1e6


def _ask(query: Query, raw: bytes) -> None:
    for _ in range(CALLS):
        query.choose(query.resolve(raw, 0, len(raw)), ZONE, ORIGIN, 100.0)


def _loop(raw: bytes) -> None:
    for _ in range(CALLS):
        len(raw)


def _change(table: Table, then: Callable[[], None]) -> None:
    masks = table.masks
    for number in range(CALLS):
        (masks.take if number & 1 else masks.put)(masks.congested, 3)
        then()


def figures() -> dict[str, dict[str, float]]:
    """Microseconds by what was asked and number of routes."""
    found: dict[str, dict[str, float]] = {}
    for size in SIZES:
        table = table_of(size)
        asked = {name: address(Tag.of(LB_METHOD, name)) for name in CHOOSERS}
        asked["sticky by a tag"] = address(Tag.of(LB_METHOD, "random"), Tag.of(STICKY_ROUTE_KEY, "user"))
        asked["shard"] = address(Tag.of(SHARD_KEY, "user"), flags=SHARD)
        for name, raw in asked.items():
            found.setdefault(name, {})[str(size)] = time_choices(table, raw)
        for slot in range(0, size, 10):
            table.masks.put(table.masks.ejected, slot)
        name = "round_robin, a tenth ejected"
        found.setdefault(name, {})[str(size)] = time_choices(table, asked["round_robin"])
        name = "the same, and a mask changes before each request"
        found.setdefault(name, {})[str(size)] = time_changes(table)
    return found


if __name__ == "__main__":
    print(json.dumps(figures()))
