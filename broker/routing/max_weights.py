"""The largest weight of all routes of a table, and of each ServiceName: an upper bound for drawing by weight.

Only weights above 1 are counted, so that names without weights take no memory. Does not know which route it is.

    by ServiceName     orders   {5: 2, 80: 1}     80, until that route leaves; then 5
"""

from typing import Final

from rsocket_wire.wire.keys import SERVICE_NAME
from rsocket_wire.wire.tags import Tag


class Tally:
    """How many routes have each weight above 1."""

    def __init__(self) -> None:
        self.counts: Final[dict[int, int]] = {}  # by weight: no more than routes, and than weights
        self.max_weight = 1

    def add(self, weight: int) -> None:
        """One more has it."""
        self.counts[weight] = self.counts.get(weight, 0) + 1
        self.max_weight = max(self.max_weight, weight)

    def remove(self, weight: int) -> None:
        """One less has it. Looks at all weights, a few, when the last route with the largest one goes."""
        left_n = self.counts[weight] - 1
        if left_n:
            self.counts[weight] = left_n
            return
        del self.counts[weight]
        if weight == self.max_weight:
            self.max_weight = max(self.counts) if self.counts else 1


class MaxWeights:
    """The weights of the routes of one table."""

    def __init__(self) -> None:
        self._of_all: Final = Tally()
        self._by_service: Final[dict[bytes, Tally]] = {}  # by the token of the tag: bounded by the tags of routes

    def joined(self, tags: list[Tag], weight: int) -> None:
        """A route with these tags is in the table."""
        if weight <= 1:
            return
        self._of_all.add(weight)
        for token in _services_of(tags):
            tally = self._by_service.get(token)
            if tally is None:
                tally = self._by_service[token] = Tally()
            tally.add(weight)

    def left(self, tags: list[Tag], weight: int) -> None:
        """A route that had joined with these tags and this weight is in the table no more."""
        if weight <= 1:
            return
        self._of_all.remove(weight)
        for token in _services_of(tags):
            tally = self._by_service[token]
            tally.remove(weight)
            if not tally.counts:
                del self._by_service[token]

    def among(self, wanted: list[Tag]) -> int:
        """No route that has all of these tags is heavier. Exact for a service name alone; else a bound."""
        for tag in wanted:
            if tag.key == SERVICE_NAME:
                tally = self._by_service.get(tag.token())
                return tally.max_weight if tally is not None else 1
        return self._of_all.max_weight

    def size(self) -> int:
        """How many service names have routes of a weight above 1."""
        return len(self._by_service)


def _services_of(tags: list[Tag]) -> list[bytes]:
    return [tag.token() for tag in tags if tag.key == SERVICE_NAME]
