"""How busy a route is, and the chooser that takes the least busy one: a slow route gets fewer requests.

Two choosers compare `weighted_in_flight`: the requests in flight and the one to come, divided by the weight. A route of
weight 2 with four requests is as busy as one of weight 1 with two.

One that warms up is compared like any other, but less often: if it counted as busier, it would get nothing at all while
all are idle. Who is drawn first, and so by its share, wins among equals; others are left out as often as their share is
less than that one's. Two idle routes, one of them with a share s: that one gets s / (1 + s) of the requests.
"""

from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import Chooser, Turn, draw, is_left_out
from broker.routing.health.loads import Load
from broker.routing.rng import Rng
from broker.routing.table import Route

EXACT: Final = 32  # candidates that are all compared; beyond it so many are drawn, so that the cost stays flat


class LeastBusy(Chooser):
    """The least busy of all up to `EXACT` candidates, of as many that are drawn beyond; equals by chance.

    For few routes and long or uneven requests. Many brokers would all choose the same route: then take `PowerOfTwo`.
    """

    def choose(self, among: Candidates, turn: Turn, rng: Rng, zone: bytes, now: float) -> Route:
        if now < among.warm_at:
            return self._choose_warm(among, rng, now)
        size = among.size
        is_exact = size <= EXACT
        best = among.route_at(0 if is_exact else rng.below(size))
        best_cost = weighted_in_flight(best.load)
        equals_n = 1
        for number in range(1, size if is_exact else EXACT):
            route = among.route_at(number if is_exact else rng.below(size))
            cost = weighted_in_flight(route.load)
            if cost > best_cost:
                continue
            if cost < best_cost:
                equals_n = 0
            equals_n += 1
            if equals_n == 1 or rng.below(equals_n) == 0:  # each of the equals with the same chance
                best = route
                best_cost = cost
        return best

    def _choose_warm(self, among: Candidates, rng: Rng, now: float) -> Route:
        """The same while some warm up: the first one drawn wins among equals."""
        size = among.size
        is_exact = size <= EXACT
        first = best = among.route_at(draw(among, rng, now))
        best_cost = weighted_in_flight(best.load)
        equals_n = 0
        for number in range(size if is_exact else EXACT):
            route = among.route_at(number if is_exact else rng.below(size))
            cost = weighted_in_flight(route.load)
            if cost > best_cost or (cost == best_cost and best is first) or is_left_out(route, first, rng, now):
                continue
            equals_n = equals_n + 1 if cost == best_cost else 1
            if equals_n == 1 or rng.below(equals_n) == 0:
                best = route
                best_cost = cost
        return best


def weighted_in_flight(load: Load) -> float:
    """Requests in flight and the one that may come, divided by the weight."""
    return float(load.in_flight + 1) / float(load.weight)
