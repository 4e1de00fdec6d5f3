"""The chooser that draws one of the candidates."""

from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import Chooser, Turn, draw
from broker.routing.rng import Rng
from broker.routing.table import Route


class Random(Chooser):
    """Each with the same chance: knows nothing, so nothing can make it go wrong, many brokers at once included."""

    def choose(self, among: Candidates, turn: Turn, rng: Rng, zone: bytes, now: float) -> Route:
        return among.route_at(draw(among, rng, now))
