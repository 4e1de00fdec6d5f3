"""Who may prove now that it is a broker: places for connections between the first BROKER_INFO and the proof (D-65).

    strangers     32 places, 8 of one address      who comes when all are taken gets the place
    known ones    the other 32, and what is free   of whoever has had it for longest

A place is needed for as long as three messages take, so whoever has one for longest is likely to prove nothing: who
holds places in vain keeps nobody away, and must be faster than a proof to do so. The halves do not touch each other, so
that strangers keep no known broker away, however many addresses they have. Known are the addresses of brokers that are
dialled, because somebody configured or a linked broker told that, and of those that have proved who they are.

Wrong proofs slow their address down: what comes from there is answered later, so that nobody guesses fast (`guesses`).
"""

from typing import Final

from broker.cluster.links.neighbour import Neighbour
from broker.connections.guesses import Guesses

MAX_GREETING: Final = 64  # connections that have said they are brokers and not proved it
MAX_STRANGERS: Final = 32  # of them from addresses of which no broker is known; the others are kept for known ones
MAX_PER_ADDRESS: Final = 8  # of these strangers from one address
MAX_KNOWN: Final = 2048  # addresses of brokers: all that are dialled, and as many that dial


class Displaced:
    """A connection that has to leave its place to another one."""

    def __init__(self, neighbour: Neighbour, what: str, number: int, limit: int) -> None:
        self.neighbour: Final = neighbour
        self.text: Final = (
            f"{number} {what} were proving that they are brokers, the limit is {limit}; this one, the oldest, was "
            "closed for a new one"
        )


class Admissions:
    """The places of one broker."""

    def __init__(self) -> None:
        self.guesses: Final = Guesses()  # at the secret
        self._places: Final[dict[int, Neighbour]] = {}  # by number of the connection, oldest first
        self._known: Final[dict[str, bool]] = {}  # addresses of brokers; first that which was not met for longest

    def size(self) -> int:
        """Places that are taken."""
        return len(self._places)

    def know(self, address: str) -> None:
        """Notes that a broker is there, or was."""
        if not address:
            return
        self._known.pop(address, False)
        self._known[address] = True
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def is_known(self, address: str) -> bool:
        """A broker is there, or was; what has no address came through a Unix socket, whose folder says who may."""
        return not address or address in self._known

    def enter(self, neighbour: Neighbour) -> Displaced | None:
        """Gives it a place; returns who has to leave for it, None where there was room."""
        displaced = self._displaced(neighbour.peer.address)
        self._places[neighbour.peer.id] = neighbour
        return displaced

    def leave(self, neighbour: Neighbour) -> None:
        """Takes the place of one that has proved who it is, or is gone; nothing happens to one that has none."""
        self._places.pop(neighbour.peer.id, None)

    def _displaced(self, address: str) -> Displaced | None:
        """Who has to leave when one more comes from that address."""
        strangers: list[Neighbour] = []
        known: list[Neighbour] = []
        for each in self._places.values():
            (known if self.is_known(each.peer.address) else strangers).append(each)
        if not self.is_known(address):
            same = [each for each in strangers if each.peer.address == address]
            if len(same) >= MAX_PER_ADDRESS:
                return Displaced(same[0], f"connections of {address}", len(same), MAX_PER_ADDRESS)
            if len(strangers) >= MAX_STRANGERS:
                text = "connections from addresses of which no broker is known"
                return Displaced(strangers[0], text, len(strangers), MAX_STRANGERS)
        if len(self._places) < MAX_GREETING:
            return None
        # Known ones have more than their half, or exactly that.
        return Displaced((known or strangers)[0], "connections", len(self._places), MAX_GREETING)
