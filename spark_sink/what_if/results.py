"""What a replay found: numbers of one unit, which add up to those of all.

Travels from Spark's workers as JSON. Knows neither tables nor plots.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, field

from spark_sink.what_if.keys import Keys

_LARGEST: Final = frozenset({"peak", "last_us"})  # numbers of which the largest counts, and not the sum


class Load(Struct):
    """What a route has, or would have."""

    requests: int = 0
    peak: int = 0  # requests in flight at once, at one broker
    in_flight: int = 0  # now
    is_there: bool = False  # in the table at some time; so it counts, even with no request

    def begin(self) -> None:
        """One more request is in flight."""
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)


class RouteLoad(Struct):
    """One route, as it really was and as it would have been."""

    service: str
    real: Load = field(default_factory=Load)
    asked: Load = field(default_factory=Load)
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


def merged(results: Iterable[UnitResult]) -> UnitResult:
    """All of them together, made of their parts: they are used up."""
    total = UnitResult()
    for result in results:
        _added(total, result)
    return total


def _added(one: Any, other: Any, name: str = "") -> Any:
    """Both together. `name`: of the field that they are."""
    if isinstance(one, Keys):
        one.merge(other)
    elif isinstance(one, Struct):
        for each in one.__struct_fields__:
            setattr(one, each, _added(getattr(one, each), getattr(other, each), each))
    elif isinstance(one, dict):
        for key, value in other.items():
            one[key] = _added(one[key], value) if key in one else value
    elif isinstance(one, bool) or name in _LARGEST:
        return max(one, other)
    elif name == "first_us":
        return min(one or other, other or one)
    elif isinstance(one, int):
        return one + other
    return one
