"""What the choosers have in common: the interface, what is remembered of an address, and draws among warming routes.

A chooser picks which of the candidates gets a unicast request, by order, chance or load. State that belongs to an
address (whose turn it is) lives with the address, never in one counter for all: two callers that alternate between two
services would otherwise always meet the same instances. docs/choosing.md says which chooser fits when.
"""

from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.rng import Rng
from broker.routing.table import Route

MAX_DRAWS: Final = 8  # of routes that are passed over because they warm up; the last one drawn gets the request
_FINE: Final = 1 << 16  # steps of a chance


class Turn:
    """What choosers remember of one address; outlives the generations of its candidates.

    The first position is drawn: addresses that are met only once (each with a trace id of its own) shall not all meet
    the first route.
    """

    __slots__ = ("matched", "position", "zones")

    def __init__(self) -> None:
        self.position = -1  # until the first choice
        self.matched: Candidates | None = None  # all candidates, masked or not; None while nobody is there
        self.zones: dict[bytes, Zone] = {}  # by the caller's zone, see `zone_first`


class Zone:
    """The routes in a caller's zone and the others, for one address; outlives them as its turns do."""

    def __init__(self) -> None:
        self.among: Candidates | None = None  # what the next four are good for; None while nobody asks
        self.local: Candidates | None = None  # None when nobody is
        self.rest: Candidates | None = None  # None when nobody is, or while none is needed
        self.share_n = 0  # of `share_of` requests go to local ones
        self.share_of = 1
        self.local_turn: Final = Turn()
        self.rest_turn: Final = Turn()

    def forget(self) -> None:
        """Gives the sets of routes back, and goes on with the turns."""
        self.among = self.local = self.rest = None

    def size(self) -> int:
        """Routes in both sets."""
        local_n = self.local.size if self.local is not None else 0
        return local_n + (self.rest.size if self.rest is not None else 0)


class Chooser:
    """Picks one of at least one candidates."""

    def choose(self, among: Candidates, turn: Turn, rng: Rng, zone: bytes, now: float) -> Route:
        """The route that gets the request. `zone` of the caller, empty if unknown; `now` seconds, monotonic."""
        raise NotImplementedError


def draw(among: Candidates, rng: Rng, now: float) -> int:
    """A position, each with the same chance, of a route that warms up as much less as its share is."""
    position = rng.below(among.size)
    if now >= among.warm_at:
        return position
    draws = 1
    while draws < MAX_DRAWS and is_passed_over(among.route_at(position), rng, now):
        position = rng.below(among.size)
        draws += 1
    return position


def another(first: int, size: int, rng: Rng) -> int:
    """A position 0 ≤ x < size, size ≥ 2, that is not `first`; each other one with the same chance."""
    second = rng.below(size - 1)
    return second + 1 if second >= first else second


def is_passed_over(route: Route, rng: Rng, now: float) -> bool:
    """A route that warms up is drawn and not taken, as often as its share is less than a full one."""
    load = route.load
    return now < load.warm_at and rng.below(_FINE) >= int(load.share(now) * _FINE)


def is_left_out(route: Route, beside: Route, rng: Rng, now: float) -> bool:
    """A route that warms up is not compared with one that was drawn, as often as its share is less than that one's."""
    if now >= route.load.warm_at:
        return False
    return rng.below(_FINE) >= int(route.load.share(now) / beside.load.share(now) * _FINE)
