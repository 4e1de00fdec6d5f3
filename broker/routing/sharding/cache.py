"""Whose key it is: the owner among the candidates of an address, for many keys of one set of routes.

What the shard methods build of a set of routes (lists, Maglev's table, rings) is kept by the slots of the routes, so
that it is one however the tags were written that found them, and good for one generation:

    slots 0 1 4  ─►  generation 7, routes 1 2 3, ring      key 5 ─► 2    key 6 ─► 3    key 7 ─► 2

Callers choose the tags, and with k tags there may be 2^k sets: so many are built in a second, and no more. Knows
neither how an owner is found (`methods`) nor who may get a request.
"""

from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.sharding.methods import ShardMethod
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route

# Of all that is kept: 480 services with a Maglev table each, or as many again with rings. Beyond it something is
# forgotten, and built anew when somebody asks.
MAX_HELD_BYTES: Final = 32 * 1024 * 1024
# On average, and at once: tables, rings and sorted lists of more than 1000 routes. A Maglev table takes 2 ms, and
# nothing else is forwarded meanwhile.
MAX_BUILT_PER_S: Final = 100
FRESH_S: Final = 1.0  # without use; before that a set is forgotten only if there are none but fresh ones


class OwnerCache:
    """The owners of keys, for one broker."""

    def __init__(self, limit_bytes: int = MAX_HELD_BYTES) -> None:
        """`limit_bytes`: of all that is kept; 0: nothing is."""
        self._limit_bytes: Final = limit_bytes
        # By `Slots.key`, the longest unused first; both together are bounded by `limit_bytes`.
        self._once: Final[dict[bytes, _Kept]] = {}  # was used when it was built, and not since
        self._again: Final[dict[bytes, _Kept]] = {}
        self._built_until = 0.0  # seconds, monotonic: what was built takes until then, at MAX_BUILT_PER_S
        self.held_bytes = 0  # memory of what is kept

    def choose(self, method: ShardMethod, among: Candidates, generation: int, key: int, now: float) -> Route | None:
        """The route that owns a key hash; None when too much was built within the last second to build more.

        `among`: at least one route, as they are at this `generation`. A generation ends with each route that joins or
        leaves anywhere; where the Route Ids are the same as before, what was built of them stays. `now`: seconds,
        monotonic.
        """
        if among.size == 1:
            return among.route_at(0)
        name = among.slots.key()
        kept = self._take(name)
        is_again = kept is not None
        if kept is None:
            kept = _Kept(generation, ShardTables(among.routes()))
        elif kept.generation != generation:
            kept.renew(generation, among.routes())
        owner: Route | None = None
        if not method.must_build(kept.routes) or self._may_build(now):
            owner = method.choose(kept.routes, key)
        elif not is_again:
            return None  # what cannot be used takes no place from others
        kept.held_bytes = kept.routes.held_bytes() + len(name)
        kept.used_at = now
        if is_again:
            self._again[name] = kept
        else:
            self._once[name] = kept
        self.held_bytes += kept.held_bytes
        while self.held_bytes > self._limit_bytes:
            self._forget_one(now)
        return owner

    def size(self) -> int:
        """How many sets of routes are kept."""
        return len(self._once) + len(self._again)

    def _take(self, name: bytes) -> "_Kept | None":
        kept = self._again.pop(name, None)
        if kept is None:
            kept = self._once.pop(name, None)
        if kept is not None:
            self.held_bytes -= kept.held_bytes
        return kept

    def _may_build(self, now: float) -> bool:
        until = max(self._built_until, now) + 1.0 / MAX_BUILT_PER_S
        if until > now + 1.0 + 0.5 / MAX_BUILT_PER_S:  # half of one more: sums of fractions are not exact
            return False
        self._built_until = until
        return True

    def _forget_one(self, now: float) -> None:
        """What was used only once goes first, then the longest unused; but of all that, first what is not fresh."""
        sets = self._once or self._again
        if self._once and self._again and _is_fresh(self._once, now) and not _is_fresh(self._again, now):
            sets = self._again
        self.held_bytes -= sets.pop(next(iter(sets))).held_bytes


class _Kept:
    __slots__ = ("generation", "held_bytes", "routes", "used_at")

    def __init__(self, generation: int, routes: ShardTables) -> None:
        self.generation = generation
        self.routes = routes
        self.held_bytes = 0  # as it was counted last
        self.used_at = 0.0  # seconds, monotonic

    def renew(self, generation: int, routes: list[Route]) -> None:
        """The slots have these routes now: nearly always the same ones, because it was others that have changed."""
        self.generation = generation
        older = self.routes
        if older.routes != routes:
            self.routes = ShardTables(routes)
            self.routes.take_over(older)


def _is_fresh(sets: dict[bytes, _Kept], now: float) -> bool:
    """The longest unused of at least one was used within FRESH_S."""
    return next(iter(sets.values())).used_at > now - FRESH_S
