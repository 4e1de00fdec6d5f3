"""Maglev's table: a fixed number of entries, each owned by one route, dealt out in turns.

Every route has its own order of preference over all entries, a walk that begins at `offset` and goes on by `skip`. In
each turn every route, by position, takes the first entry of its walk that is free, until none is:

    entry                0    1    2    3    4    5    6
    route 0  3 0 4 1 …   0         ·    0              ·
    route 1  0 2 4 6 …   ·    ·    1         1         ·
    route 2  3 4 5 6 …                  ·    ·    2    ·

So the shares differ by one entry at most. Source: Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load
Balancer" (NSDI 2016), section 3.4. Knows positions, no keys of callers and no generations.
"""

from array import array
from typing import TYPE_CHECKING, Final

from broker.routing.sharding.hashes import weight
from broker.routing.table import Route

if TYPE_CHECKING:  # for the compiler alone: nothing of it is needed when this runs
    from mypy_extensions import i64

# A prime, so that every skip meets every entry. Nothing else is forwarded while a table is dealt: 2 ms for 8 to 1000
# routes and 3 ms for 10,000, compiled. The paper's 65,537 took 4 to 5, and 12 ms.
ENTRIES: Final = 32_749
MAX_ROUTES: Final = ENTRIES  # with more of them some would have no entry
_OFFSET_KEY: Final = 0x0FF5E7AB  # the keys for which a route's weights are its offset and its skip
_SKIP_KEY: Final = 0x5C1BAB1E


class MaglevTable:
    """Which position owns a key, of 1..MAX_ROUTES routes."""

    def __init__(self, routes: list[Route]) -> None:
        """`routes`: by Route Id, or brokers would not deal alike."""
        self._owners: Final = array("H", _deal(routes))

    def position_of(self, key: int) -> int:
        """The position of the route that owns a key hash."""
        position: int = self._owners[key % ENTRIES]
        return position

    def held_bytes(self) -> int:
        """Memory of the table."""
        return len(self._owners) * self._owners.itemsize


def _deal(routes: list[Route]) -> list[int]:
    """The position of the owner of each entry. Every step looks at 32,749 × ln 32,749 entries: machine words take 1.5
    to 2 ms compiled, plain ints 2.3 to 2.8.
    """
    owners = [-1] * ENTRIES
    at = [weight(route, _OFFSET_KEY) % ENTRIES for route in routes]  # the entry that a route looks at next
    skips = [weight(route, _SKIP_KEY) % (ENTRIES - 1) + 1 for route in routes]
    left: i64 = ENTRIES
    while True:
        for position in range(len(routes)):
            skip: i64 = skips[position]
            entry: i64 = at[position]
            while owners[entry] >= 0:
                entry += skip
                if entry >= ENTRIES:
                    entry -= ENTRIES
            owners[entry] = position
            at[position] = entry
            left -= 1
            if left == 0:
                return owners
