"""A chooser that goes by the routes' own `weight` tags."""

from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import MAX_DRAWS, Chooser, Turn, is_passed_over
from broker.routing.rng import Rng
from broker.routing.table import Route

TRIES: Final = 64  # draws of a route before all are looked at; enough unless one route outweighs nearly all


class Weighted(Chooser):
    """Each with a chance in proportion to its weight: for machines of different size, and for canaries.

    Exact in two ways that may be mixed. A route is drawn with the same chance as any other and taken with the chance
    weight / largest weight of its service: however many there are. If as many as there are, at most `TRIES`, were not
    taken, all are looked at once, and nothing of it is kept: sums for each address would be memory without bound.

        weights    1    2    1    5         a number below 9:  0 | 1 2 | 3 | 4 5 6 7 8
                                                               a | b   | c | d
    """

    def choose(self, among: Candidates, turn: Turn, rng: Rng, zone: bytes, now: float) -> Route:
        route = self._draw(among, rng)
        if now >= among.warm_at:
            return route
        draws = 1
        while draws < MAX_DRAWS and is_passed_over(route, rng, now):
            route = self._draw(among, rng)
            draws += 1
        return route

    def _draw(self, among: Candidates, rng: Rng) -> Route:
        max_weight = among.max_weight
        for _ in range(min(TRIES, among.size)):
            route = among.route_at(rng.below(among.size))
            if max_weight == 1 or rng.below(max_weight) < route.load.weight:
                return route
        routes = among.routes()
        return route_of(routes, rng.below(weight_of_all(routes)))


def weight_of_all(routes: list[Route]) -> int:
    """The sum of their weights."""
    return sum([route.load.weight for route in routes])


def route_of(routes: list[Route], number: int) -> Route:
    """The route in whose part of all weights a number 0 ≤ number < sum lies."""
    left = number
    for route in routes:
        left -= route.load.weight
        if left < 0:
            return route
    raise AssertionError("the number is below the sum")  # as its caller promised
