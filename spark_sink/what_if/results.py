"""What a replay found: numbers of one unit, which add up to those of all.

Travels from Spark's workers as JSON. Knows neither tables nor plots.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from spark_sink.what_if.keys import Keys


class RouteLoad(Struct):
    """One route, as it really was and as it would have been."""

    service: str
    real_requests: int = 0
    requests: int = 0
    real_peak: int = 0  # requests in flight at once, at one broker
    peak: int = 0
    was_there: bool = False  # in the table at some time; so it counts, even with no request
    is_there: bool = False  # likewise, as asked
    is_copy: bool = False


class Compared(Struct):
    """Choices of one method, with the real settings: how many came out as they really did."""

    choices: int = 0
    same: int = 0


class ShardMoves(Struct):
    """Shard requests of one service."""

    requests: int = 0
    moved_requests: int = 0
    keys: Keys = field(default_factory=Keys)


class UnitResult(Struct):
    """Of one unit of an epoch, or of all of them together."""

    rows: int = 0  # records that were replayed
    requests: int = 0  # that they stand for, and that are counted
    routes: dict[str, RouteLoad] = {}  # unicast and shard requests
    compared: dict[str, Compared] = {}  # by method
    moved_requests: int = 0  # that went to another route than they really did
    unroutable: dict[str, dict[str, int]] = {}  # service -> tag -> requests that found a route and would find none
    newly_routed: dict[str, int] = {}  # service -> requests that found none and would find one
    still_refused: dict[str, int] = {}  # code word -> requests that were refused and would be again
    shards: dict[str, ShardMoves] = {}  # by service
    multicast_requests: int = 0
    real_branches: int = 0
    branches: int = 0
    not_replayed: dict[str, int] = {}  # why -> requests that were taken as they were
    first_us: int = 0  # of the requests that are counted; 0: there are none
    last_us: int = 0

    def route(self, route_id: str, service: str) -> RouteLoad:
        """The numbers of a route."""
        found = self.routes.get(route_id)
        if found is None:
            found = self.routes[route_id] = RouteLoad(service)
        return found

    def merge(self, other: "UnitResult") -> None:
        """Adds the numbers of another unit."""
        self.rows += other.rows
        self.requests += other.requests
        self.moved_requests += other.moved_requests
        self.multicast_requests += other.multicast_requests
        self.real_branches += other.real_branches
        self.branches += other.branches
        for name, load in other.routes.items():
            mine = self.route(name, load.service)
            mine.real_requests += load.real_requests
            mine.requests += load.requests
            mine.real_peak = max(mine.real_peak, load.real_peak)
            mine.peak = max(mine.peak, load.peak)
            mine.was_there |= load.was_there
            mine.is_there |= load.is_there
            mine.is_copy |= load.is_copy
        for name, compared in other.compared.items():
            total = self.compared.setdefault(name, Compared())
            total.choices += compared.choices
            total.same += compared.same
        for service, tags in other.unroutable.items():
            _add(self.unroutable.setdefault(service, {}), tags)
        _add(self.newly_routed, other.newly_routed)
        _add(self.still_refused, other.still_refused)
        _add(self.not_replayed, other.not_replayed)
        for service, moves in other.shards.items():
            mine_of = self.shards.setdefault(service, ShardMoves())
            mine_of.requests += moves.requests
            mine_of.moved_requests += moves.moved_requests
            mine_of.keys.merge(moves.keys)
        if other.first_us:
            self.first_us = min(self.first_us or other.first_us, other.first_us)
            self.last_us = max(self.last_us, other.last_us)


def merged(results: Iterable[UnitResult]) -> UnitResult:
    """All of them together."""
    total = UnitResult()
    for result in results:
        total.merge(result)
    return total


def _add(sums: dict[str, int], more: dict[str, int]) -> None:
    for name, number in more.items():
        sums[name] = sums.get(name, 0) + number
