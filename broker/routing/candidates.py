"""The routes that match one address, before one is chosen."""

from typing import Final

from broker.routing.bitmaps import Slots
from broker.routing.table import Route, Table

LISTED: Final = 256  # routes; up to here an address that is asked again keeps a list of them, beyond it one of slots
_ASKED_OFTEN: Final = 2  # a list pays from the third look on; most uncached addresses are looked at once
ASKED_LARGE: Final = 64  # a list of 100 000 slots takes 30 µs to make, and saves about 1 µs each time


class Candidates:
    """A set of routes, ordered by slot. Valid for one generation of the table, at least one route."""

    __slots__ = ("_asked", "_keeps_list", "_routes", "_table", "max_weight", "size", "slots", "warm_at")

    def __init__(self, table: Table, slots: Slots, max_weight: int, keeps_list: bool = True) -> None:
        """`max_weight`: none of the routes in `slots` has a larger weight. `keeps_list`: of up to `LISTED` routes."""
        self.max_weight: Final = max_weight
        self.size: Final = slots.size()
        self.slots: Final = slots
        self.warm_at: Final = table.loads.warm_at  # seconds, monotonic: from then on none of them warms up
        self._keeps_list: Final = keeps_list
        self._table: Final = table
        self._routes: list[Route] = []  # empty until asked often
        self._asked = 0

    def route_at(self, position: int) -> Route:
        """The route at 0 ≤ position < size."""
        if self._routes:
            return self._routes[position]
        if self.size <= LISTED:
            self._asked += 1
            if self._asked > _ASKED_OFTEN and self._keeps_list:
                self._routes = self.routes()
                return self._routes[position]
        elif self._asked <= ASKED_LARGE:
            self._asked += 1
            if self._asked > ASKED_LARGE and not self.slots.is_listed():
                self._table.listed.enlist(self.slots)
        return self._table.route_at(self.slots.slot_at(position))

    def routes(self) -> list[Route]:
        """All of them."""
        return [self._table.route_at(slot) for slot in self.slots.to_list()]

    def find_at(self, slot: int) -> Route | None:
        """The route in a slot, if it is one of them; -1 is no slot."""
        return self._table.route_at(slot) if slot >= 0 and self.slots.has(slot) else None

    def find_tagged(self, token: bytes) -> Slots | None:
        """The slots of those that carry a tag (`Tag.token()`); None when nobody in the whole table does."""
        tagged = self._table.index.find(token)
        return None if tagged is None else self.slots.meet(tagged)

    def among(self, slots: Slots, keeps_list: bool = True) -> "Candidates | None":
        """Those of them in `slots`, all of which are theirs; None when there are none."""
        return Candidates(self._table, slots, self.max_weight, keeps_list) if slots.size() else None

    def listed_n(self) -> int:
        """Entries of the list of routes that is kept."""
        return len(self._routes)
