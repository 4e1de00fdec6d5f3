"""Choosers: which of the candidates gets a unicast request.

Decides by order or chance; state that belongs to an address (whose turn it is) lives with the address, never in one
counter for all: two callers that alternate between two services would otherwise always meet the same instances.
"""

from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.dice import Dice
from broker.routing.table import Route

ROUND_ROBIN: Final = "roundrobin"
RANDOM: Final = "random"


class Turn:
    """Whose turn it is at one address; outlives the generations of its candidates.

    The first is drawn: addresses that are met only once (each with a trace id of its own) shall not all meet the first
    route.
    """

    __slots__ = ("position",)

    def __init__(self) -> None:
        self.position = -1  # until the first choice


class Chooser:
    """Picks one of at least one candidates."""

    def choose(self, candidates: Candidates, turn: Turn, dice: Dice) -> Route:
        """The route that gets the request."""
        raise NotImplementedError


class RoundRobin(Chooser):
    """Each in turn, by address, from one that is drawn."""

    def choose(self, candidates: Candidates, turn: Turn, dice: Dice) -> Route:
        position = turn.position
        if position < 0:
            position = dice.below(candidates.size)
        elif position >= candidates.size:
            position = 0
        turn.position = position + 1
        return candidates.route_at(position)


class Random(Chooser):
    """Each with the same chance."""

    def choose(self, candidates: Candidates, turn: Turn, dice: Dice) -> Route:
        return candidates.route_at(dice.below(candidates.size))


def choosers() -> dict[str, Chooser]:
    """All choosers by their plain name."""
    return {ROUND_ROBIN: RoundRobin(), RANDOM: Random()}


def plain_name(method: str) -> str:
    """`Round-Robin`, `round_robin` and `roundrobin` are one method."""
    return method.lower().replace("-", "").replace("_", "")
