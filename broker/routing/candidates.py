"""The routes that match one address, before one is chosen."""

from typing import Final

from broker.routing.bitmaps import Slots
from broker.routing.table import Route, Table

LISTED: Final = 1024  # routes; up to here an address that is asked again keeps a list, beyond it reads the bitmap
_ASKED_OFTEN: Final = 2  # a list pays from the third look on; most uncached addresses are looked at once


class Candidates:
    """A set of routes, ordered by slot. Valid for one generation of the table, at least one route."""

    __slots__ = ("_asked", "_routes", "_slots", "_table", "size")

    def __init__(self, table: Table, slots: Slots) -> None:
        self.size: Final = slots.size()
        self._table: Final = table
        self._slots: Final = slots
        self._routes: list[Route] = []  # empty until asked often
        self._asked = 0

    def route_at(self, position: int) -> Route:
        """The route at 0 ≤ position < size."""
        if self._routes:
            return self._routes[position]
        if self.size <= LISTED:
            self._asked += 1
            if self._asked > _ASKED_OFTEN:
                self._routes = self.routes()
                return self._routes[position]
        return self._table.route_at(self._slots.slot_at(position))

    def routes(self) -> list[Route]:
        """All of them."""
        return [self._table.route_at(slot) for slot in self._slots.to_list()]
