"""The chooser that takes the less busy of two candidates that it draws; see `least_busy` for how busy a route is."""

from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import Chooser, Turn, another, draw, is_left_out
from broker.routing.choosers.least_busy import weighted_in_flight
from broker.routing.rng import Rng
from broker.routing.table import Route


class PowerOfTwo(Chooser):
    """The less busy of two that are drawn: nearly as good as looking at all, and no herd runs to the same one.

    Source: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing" (1996).
    """

    def choose(self, among: Candidates, turn: Turn, rng: Rng, zone: bytes, now: float) -> Route:
        if among.size == 1:
            return among.route_at(0)
        first = draw(among, rng, now)
        one = among.route_at(first)
        other = among.route_at(another(first, among.size, rng))
        if now < among.warm_at and is_left_out(other, one, rng, now):
            return one
        return one if weighted_in_flight(one.load) <= weighted_in_flight(other.load) else other
