"""The chooser that takes the candidates in turn."""

from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import MAX_DRAWS, Chooser, Turn, is_passed_over
from broker.routing.rng import Rng
from broker.routing.table import Route


class RoundRobin(Chooser):
    """Each in turn, by address, from one that is drawn: the evenest, where all requests and routes are alike."""

    def choose(self, among: Candidates, turn: Turn, rng: Rng, zone: bytes, now: float) -> Route:
        position = turn.position
        if position < 0:
            position = rng.below(among.size)
        elif position >= among.size:
            position = 0
        turn.position = position + 1
        route = among.route_at(position)
        return route if now >= among.warm_at else self._choose_warm(route, among, turn, rng, now)

    def _choose_warm(self, route: Route, among: Candidates, turn: Turn, rng: Rng, now: float) -> Route:
        """The next one that is not passed over."""
        draws = 1
        while draws < MAX_DRAWS and is_passed_over(route, rng, now):
            position = turn.position if turn.position < among.size else 0
            turn.position = position + 1
            route = among.route_at(position)
            draws += 1
        return route
