"""The routes among which a key finds its owner, and the tables that are built of them once for many keys.

Knows no methods: which table is needed is for `methods`.
"""

from typing import Final

from broker.routing.sharding.maglev import MaglevTable
from broker.routing.sharding.rings import Ring
from broker.routing.table import Route

_SET_BYTES: Final = 400  # of the objects of a set without a table
_ROUTE_BYTES: Final = 8  # of a place in a list
_FEW: Final = 1000  # routes; to sort as many takes a tenth of a Maglev table


class ShardTables:
    """At least one route. Positions are by Route Id: never by slot, because slots differ between brokers (D-36)."""

    def __init__(self, routes: list[Route]) -> None:
        """`routes`: in any order, each Route Id once."""
        self.routes: Final = routes
        self._by_id: list[Route] = []  # empty until somebody needs it: to sort 10,000 routes takes milliseconds
        self._maglev: MaglevTable | None = None  # until a key is asked for by this method
        self._ring: Ring | None = None  # likewise

    @property
    def by_id(self) -> list[Route]:
        """The routes, by Route Id."""
        if not self._by_id:
            self._by_id = sorted(self.routes, key=lambda route: route.id)
        return self._by_id

    @property
    def must_sort(self) -> bool:
        """`by_id` is not there yet, and is so long that it takes its time."""
        return not self._by_id and len(self.routes) > _FEW

    @property
    def must_deal(self) -> bool:
        """`maglev` is not there yet."""
        return self._maglev is None

    @property
    def must_point(self) -> bool:
        """`ring` is not there yet."""
        return self._ring is None

    @property
    def maglev(self) -> MaglevTable:
        """Maglev's table of these routes, built when it is first asked for."""
        if self._maglev is None:
            self._maglev = MaglevTable(self.by_id)
        return self._maglev

    @property
    def ring(self) -> Ring:
        """The ring of these routes, built when it is first asked for."""
        if self._ring is None:
            self._ring = Ring(self.by_id)
        return self._ring

    def take_over(self, older: "ShardTables") -> None:
        """Takes the tables of a set that had the same Route Ids: what is built knows positions only."""
        if (older._maglev is None and older._ring is None) or len(older.routes) != len(self.routes):
            return
        # A route that has changed its tags is in the place where it was; only if others differ it takes sorted lists.
        if _have_same_ids(self.routes, older.routes) or _have_same_ids(self.by_id, older.by_id):
            self._maglev = older._maglev
            self._ring = older._ring

    def held_bytes(self) -> int:
        """Memory of the set and its tables, without the routes themselves; grows when a table is built."""
        held = _SET_BYTES + (len(self.routes) + len(self._by_id)) * _ROUTE_BYTES
        if self._maglev is not None:
            held += self._maglev.held_bytes()
        if self._ring is not None:
            held += self._ring.held_bytes()
        return held


def _have_same_ids(some: list[Route], others: list[Route]) -> bool:
    """In the same order."""
    return [each.id for each in some] == [each.id for each in others]
