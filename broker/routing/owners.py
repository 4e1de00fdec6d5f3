"""Whose key it is: the owner among the candidates of an address, for many keys of one service.

What the shard methods build of a set of routes (lists, Maglev's table, rings) is kept by the tags that selected the
routes, and good for one generation:

    ServiceName=carts  ─►  generation 7, routes 1 2 3 …, ring      key 5 ─► 2    key 6 ─► 3    key 7 ─► 2

Knows neither how an owner is found (`shard_methods`) nor who may get a request.
"""

from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.route_sets import RouteSet
from broker.routing.shard_methods import ShardMethod
from broker.routing.table import Route
from broker.wire.ints import u16_bytes
from broker.wire.tags import Tag

# Of all that is kept: 480 services with a Maglev table each, or as many again with rings. Beyond it what was not used
# for longest is forgotten, and built anew when somebody asks.
MAX_HELD_BYTES: Final = 32 * 1024 * 1024


class Owners:
    """The owners of keys, for one broker."""

    __slots__ = ("_limit_bytes", "_sets", "held_bytes")

    def __init__(self, limit_bytes: int = MAX_HELD_BYTES) -> None:
        """`limit_bytes`: of all that is kept; 0: nothing is."""
        self._limit_bytes: Final = limit_bytes
        self._sets: Final[dict[bytes, _Kept]] = {}  # by the selecting tags, the longest unused first
        self.held_bytes = 0  # memory of what is kept

    def choose(self, method: ShardMethod, among: Candidates, tags: list[Tag], generation: int, key: int) -> Route:
        """The route that owns a key hash.

        `among`: at least one route, all that have `tags` at this `generation`. A generation ends with each route that
        joins or leaves anywhere; where the Route Ids are the same as before, what was built of them stays.
        """
        if among.size == 1:
            return among.route_at(0)
        name = _name_of(tags)
        kept = self._sets.pop(name, None)
        if kept is None:
            kept = _Kept(generation, RouteSet(among.routes()))
        else:
            self.held_bytes -= kept.held_bytes
            if kept.generation != generation:
                older = kept
                kept = _Kept(generation, RouteSet(among.routes()))
                kept.routes.take_over(older.routes)
        owner = method.choose(kept.routes, key)
        kept.held_bytes = kept.routes.held_bytes() + len(name)
        self._sets[name] = kept
        self.held_bytes += kept.held_bytes
        while self.held_bytes > self._limit_bytes:
            longest = next(iter(self._sets))
            self.held_bytes -= self._sets.pop(longest).held_bytes
        return owner

    def size(self) -> int:
        """How many sets of routes are kept."""
        return len(self._sets)


class _Kept:
    __slots__ = ("generation", "held_bytes", "routes")

    def __init__(self, generation: int, routes: RouteSet) -> None:
        self.generation: Final = generation
        self.routes: Final = routes
        self.held_bytes = 0  # as it was counted last


def _name_of(tags: list[Tag]) -> bytes:
    parts: list[bytes] = []
    for tag in tags:
        token = tag.token()
        parts.append(u16_bytes(len(token)))
        parts.append(token)
    return b"".join(parts)
