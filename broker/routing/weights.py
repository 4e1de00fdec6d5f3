"""A chooser that goes by the routes' own `weight` tags."""

from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.choosers import MAX_DRAWS, Chooser, Turn, is_passed_over
from broker.routing.dice import Dice
from broker.routing.table import Route

TRIES: Final = 8  # draws of a route before the weights are added up; enough unless most are far from the heaviest


class Weighted(Chooser):
    """Each with a chance in proportion to its weight: for machines of different size, and for canaries.

    Exact in two ways that may be mixed. A route is drawn with the same chance as any other and taken with the chance
    weight / heaviest of the table: no matter how many there are. If `TRIES` of them were not taken, the weights are
    added up, once for these candidates, and the place of a number in the sums is looked up.

        weights    1    2    1    5         a number below 9:  0 | 1 2 | 3 | 4 5 6 7 8
        sums       1    3    4    9                            a | b   | c | d
    """

    __slots__ = ()

    def choose(self, among: Candidates, turn: Turn, dice: Dice, zone: bytes, now: float) -> Route:
        route = self._draw(among, dice)
        if now >= among.warm_at:
            return route
        draws = 1
        while draws < MAX_DRAWS and is_passed_over(route, dice, now):
            route = self._draw(among, dice)
            draws += 1
        return route

    def _draw(self, among: Candidates, dice: Dice) -> Route:
        if not among.weights:
            heaviest = among.heaviest
            for _ in range(TRIES):
                route = among.route_at(dice.below(among.size))
                if dice.below(heaviest) < route.load.weight:
                    return route
            among.weights = sums_of(among)
        sums = among.weights
        return among.route_at(place_of(sums, dice.below(sums[-1])))


def sums_of(among: Candidates) -> list[int]:
    """The weights, each with those before it."""
    sums: list[int] = []
    total = 0
    for route in among.routes():
        total += route.load.weight
        sums.append(total)
    return sums


def place_of(sums: list[int], number: int) -> int:
    """The first position whose sum is over the number."""
    low = 0
    high = len(sums) - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > number:
            high = middle
        else:
            low = middle + 1
    return low
