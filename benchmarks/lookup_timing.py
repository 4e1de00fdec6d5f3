"""Times routing lookups with the `broker` package that is found first, and prints JSON: the working half of lookup.py.

What is timed is a call of `Query.resolve` (and `Query.choose`) from an interpreted loop: the loop is measured empty and
taken off, the step from interpreted into compiled code is not.
"""

import json
import time
from collections.abc import Iterator
from statistics import median
from typing import Final

from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.table import Route, Table
from rsocket_wire.wire.frames import Address
from rsocket_wire.wire.keys import SERVICE_NAME
from rsocket_wire.wire.tags import Tag

ROUTES: Final = 100_000
SERVICES: Final = 1000  # values of ServiceName: 100 routes have each
REGIONS: Final = 10  # values of region: 10 000 routes have each
TIERS: Final = 2  # values of tier: 50 000 routes have each
KNOWN: Final = 256  # addresses in turn, where they are known
REPEATS: Final = 7  # of each measurement; the median counts
CACHED_CALLS: Final = 100_000
CHANGES: Final = 20  # of the table per repeat
BEFORE: Final = b"\xfe\x00\x00\x05\x04echo"  # an address is seldom the first bytes of a request's metadata


class Timing:
    """100 000 routes and the addresses that are asked for. Every measurement is in microseconds per lookup."""

    def __init__(self) -> None:
        self.table: Final = Table()
        for number in range(ROUTES):
            self.table.join(_route(number), 1)
        # Service and region run against each other, so that every pair of them is met by ten routes.
        self.sparse: Final = [
            _address(f"service-{service}", "region", f"r{region}")
            for region in range(REGIONS)
            for service in range(SERVICES)
        ]
        self.dense: Final = [
            _address(None, "region", f"r{region}", "tier", f"t{tier}")
            for region in range(REGIONS)
            for tier in range(TIERS)
        ]

    def measure_cached(self, is_chosen: bool) -> float:
        """The same addresses again and again, the table unchanged; with the choice of a route or without."""
        query = Query(self.table, Rng(1))
        calls = (self.sparse[:KNOWN] * (CACHED_CALLS // KNOWN + 1))[:CACHED_CALLS]
        _resolve_all(query, calls[:KNOWN])
        resolve = _resolve_and_choose_all if is_chosen else _resolve_all
        return median(resolve(query, calls) for _ in range(REPEATS))

    def measure_new(self) -> float:
        """Addresses that were never seen: they are decoded and looked up."""
        return median(_resolve_all(Query(self.table, Rng(1)), self.sparse) for _ in range(REPEATS))

    def measure_changed(self, addresses: list[bytes]) -> float:
        """Known addresses, each the first time after a route has joined: they are looked up."""
        query = Query(self.table, Rng(1))
        _resolve_all(query, addresses)
        return median(self._resolve_after_changes(query, addresses) for _ in range(REPEATS))

    def _resolve_after_changes(self, query: Query, addresses: list[bytes]) -> float:
        figures = []
        for _ in range(CHANGES):
            self.table.join(_route(0), 1)  # replaces itself
            figures.append(_resolve_all(query, addresses))
        return median(figures)


def _route(number: int) -> Route:
    tags = [
        Tag.of("region", f"r{number // SERVICES % REGIONS}"),
        Tag.of("tier", f"t{number // SERVICES // REGIONS % TIERS}"),
    ]
    return Route(number.to_bytes(16, "big"), f"service-{number % SERVICES}", tags, None)


def _address(service: str | None, *pairs: str) -> bytes:
    """Metadata with an ADDRESS in it that ends where the metadata ends."""
    tags = [Tag.of(SERVICE_NAME, service)] if service else []
    tags += [Tag.of(key, value) for key, value in zip(pairs[::2], pairs[1::2], strict=True)]
    return BEFORE + Address(b"origin-route-id.", tags).encode()


def _resolve_all(query: Query, addresses: list[bytes]) -> float:
    """Microseconds per address."""
    start = len(BEFORE)
    begun_at = time.perf_counter()
    for address in addresses:
        query.resolve(address, start, len(address))
    ended_at = time.perf_counter()
    return (ended_at - begun_at - _loop_s(addresses)) / len(addresses) * 1e6


def _resolve_and_choose_all(query: Query, addresses: list[bytes]) -> float:
    start = len(BEFORE)
    begun_at = time.perf_counter()
    for address in addresses:
        query.choose(query.resolve(address, start, len(address)), b"", b"", 0.0)
    ended_at = time.perf_counter()
    return (ended_at - begun_at - _loop_s(addresses)) / len(addresses) * 1e6


def _loop_s(addresses: list[bytes]) -> float:
    """Seconds of the loop without the lookup."""
    begun_at = time.perf_counter()
    for address in addresses:
        len(address)
    return time.perf_counter() - begun_at


def figures() -> Iterator[tuple[str, float]]:
    """What was measured, and microseconds."""
    timing = Timing()
    for address in timing.sparse + timing.dense:  # a benchmark of refusals would be a fast one
        assert Query(timing.table, Rng(1)).resolve(address, len(BEFORE), len(address)).refusal is None
    yield "cached", timing.measure_cached(is_chosen=False)
    yield "cached, and a route chosen", timing.measure_cached(is_chosen=True)
    yield "new: 100 and 10 000 routes have the tags, 10 both", timing.measure_new()
    yield "known, table changed: 100 and 10 000 routes, 10 both", timing.measure_changed(timing.sparse[:KNOWN])
    yield "known, table changed: 10 000 and 50 000 routes, 5 000 both", timing.measure_changed(timing.dense)


if __name__ == "__main__":
    print(json.dumps(dict(figures())))
