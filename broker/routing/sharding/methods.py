"""Shard methods: which of a set of routes owns a key. The same on every broker that sees the same routes.

    method       cost of a key            built once per set   keys that move when a route joins or leaves
    ----------   ----------------------   ------------------   ---------------------------------------------------
    rendezvous   one hash per route       nothing              its own: 1/N, and never another
    maglev       one look                 a table              its own, and few others
    ring         log2 of the points       points, sorted       its own; beyond 128 routes as many others at most
    jump         ln N steps               nothing              its own if its Route Id is the last, else up to all
    modulo       one division             nothing              nearly all

Each is part of the protocol between brokers (D-36): it never changes without a new name. docs/sharding.md says which
one when.
"""

from typing import Final

from broker.routing.sharding import maglev, rings
from broker.routing.sharding.hashes import MASK, mix, weight
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route
from rsocket_wire.methods import SHARD_ALIASES, plain_name

RENDEZVOUS: Final = "rendezvous"
MAGLEV: Final = "maglev"
RING: Final = "ring"
JUMP: Final = "jump"
MODULO: Final = "modulo"
_JUMP_STEP: Final = 0x1E3779B9  # odd, so that 2^31 steps meet every state once


class ShardMethod:
    """Finds the owner of a key hash (31 bits) among at least one route."""

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def choose(self, routes: ShardTables, key: int) -> Route:
        """The route that owns the key."""
        raise NotImplementedError

    def must_build(self, routes: ShardTables) -> bool:
        """`choose` would first build something of all the routes that takes its time, and stays."""
        return False


class Rendezvous(ShardMethod):
    """The route with the largest weight for the key; equal weights: the larger Route Id."""

    def choose(self, routes: ShardTables, key: int) -> Route:
        among = routes.routes
        best = among[0]
        best_weight = weight(best, key)
        for position in range(1, len(among)):
            route = among[position]
            its_weight = weight(route, key)
            if its_weight > best_weight or (its_weight == best_weight and route.id > best.id):
                best = route
                best_weight = its_weight
        return best


class Maglev(ShardMethod):
    """The owner of the key's entry in Maglev's table; of more routes than entries, as rendezvous finds it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._of_too_many: Final = Rendezvous(RENDEZVOUS)

    def choose(self, routes: ShardTables, key: int) -> Route:
        if len(routes.routes) > maglev.MAX_ROUTES:
            return self._of_too_many.choose(routes, key)
        return routes.by_id[routes.maglev.position_of(key)]

    def must_build(self, routes: ShardTables) -> bool:
        return routes.must_deal and len(routes.routes) <= maglev.MAX_ROUTES


class RingHash(ShardMethod):
    """The route of the next point on the ring; of more routes than points, as rendezvous finds it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._of_too_many: Final = Rendezvous(RENDEZVOUS)

    def choose(self, routes: ShardTables, key: int) -> Route:
        if len(routes.routes) > rings.MAX_ROUTES:
            return self._of_too_many.choose(routes, key)
        return routes.by_id[routes.ring.position_of(key)]

    def must_build(self, routes: ShardTables) -> bool:
        return routes.must_point and len(routes.routes) <= rings.MAX_ROUTES


class Jump(ShardMethod):
    """Jump consistent hash over the positions by Route Id.

    Source: Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm" (2014); with our mixer for their
    generator and whole numbers for their fractions, so that every machine jumps alike.
    """

    def choose(self, routes: ShardTables, key: int) -> Route:
        size = len(routes.routes)
        state = key
        position = 0
        following = 0
        while following < size:
            position = following
            state = (state + _JUMP_STEP) & MASK
            following = ((position + 1) << 31) // (mix(state) + 1)
        return routes.by_id[position]

    def must_build(self, routes: ShardTables) -> bool:
        return routes.must_sort


class Modulo(ShardMethod):
    """The key's remainder is the position by Route Id."""

    def choose(self, routes: ShardTables, key: int) -> Route:
        return routes.by_id[key % len(routes.routes)]

    def must_build(self, routes: ShardTables) -> bool:
        return routes.must_sort


class ShardMethods:
    """All shard methods. They keep nothing of an address, so that one of each is enough."""

    def __init__(self) -> None:
        self.default: Final[ShardMethod] = Rendezvous(RENDEZVOUS)
        self._by_name: Final[dict[str, ShardMethod]] = {
            RENDEZVOUS: self.default,
            MAGLEV: Maglev(MAGLEV),
            RING: RingHash(RING),
            JUMP: Jump(JUMP),
            MODULO: Modulo(MODULO),
        }

    def find(self, name: str) -> ShardMethod | None:
        """The method of a name; None when nobody knows it."""
        plain = plain_name(name)
        return self._by_name.get(SHARD_ALIASES.get(plain, plain))
