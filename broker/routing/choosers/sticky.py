"""Sticky choices: who was chosen for a caller, or for the value of a tag, is chosen again (D-35).

    key                                        choice
    what is selected, and values of tags   ->  load of a route, used until       the longest unused first
    what is selected, and the origin       ->  …

Decides how long a choice is remembered. Who is chosen first is for a chooser.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.health.loads import Load
from broker.routing.table import Route
from rsocket_wire.wire.ints import u16_bytes
from rsocket_wire.wire.tags import Tag

MAX_CHOICES: Final = 65_536  # each some 350 bytes, 23 MiB in all; at the bound the longest unused is forgotten
KEY_BYTES: Final = 16  # of a hash that nobody can aim at: keys are as long as callers like


class Choice:
    """Who was chosen."""

    __slots__ = ("load", "until")

    def __init__(self, load: Load, until: float) -> None:
        self.load: Final = load  # stays when the route's tags change
        self.until = until  # seconds, monotonic; later with every use


class Sticky:
    """All sticky choices of one broker."""

    def __init__(self, limit: int = MAX_CHOICES) -> None:
        self._limit: Final = limit
        self._choices: Final[OrderedDict[bytes, Choice]] = OrderedDict()

    def find(self, key: bytes, among: Candidates, ttl_s: float, now: float) -> Route | None:
        """The route that was chosen before, if it may be chosen now; else it is forgotten."""
        choice = self._choices.get(key)
        if choice is None:
            return None
        route = among.find_at(choice.load.slot) if now < choice.until else None
        if route is None:
            del self._choices[key]
            return None
        choice.until = now + ttl_s
        self._choices.move_to_end(key)
        return route

    def remember(self, key: bytes, route: Route, ttl_s: float, now: float) -> None:
        """The route was chosen, and nobody is remembered for the key."""
        for _ in range(2):  # two out for one in: what is over does not stay for long
            if self._choices and self._choices[next(iter(self._choices))].until <= now:
                self._choices.popitem(False)
        if len(self._choices) >= self._limit:
            self._choices.popitem(False)
        self._choices[key] = Choice(route.load, now + ttl_s)

    def size(self) -> int:
        """How many choices are remembered."""
        return len(self._choices)


def sticky_key(selectors: list[Tag], named: list[Tag]) -> bytes:
    """16 bytes for what is selected and for the tags that StickyRouteKey names; their order does not matter."""
    digest = blake2b(digest_size=KEY_BYTES)
    for tags in (selectors, named):
        digest.update(u16_bytes(len(tags)))
        for token in sorted([tag.token() for tag in tags]):
            digest.update(u16_bytes(len(token)))
            digest.update(token)
    key: bytes = digest.digest()
    return key
