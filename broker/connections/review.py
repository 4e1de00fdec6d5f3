"""All connections judged anew, because rights have changed: a part of them in each turn of the event loop.

    begin ──► take ──► a connection ──► `Admission` and `Registration` judge it
               └─────► None: this turn has had its part

Decides whom to look at and when. Connections that come meanwhile are judged by what is in force already. What changes
meanwhile has all looked at once more when the others have been, so that changes without end keep nobody from its turn.
"""

from typing import Final

from broker.forwarding.peer import Peer
from rsocket_wire.rsocket.connection import OPEN

LOOKS_N: Final = 400  # connections in one turn; 2 ms at 5 µs each, which a look takes interpreted
ENDING_N: Final = 20  # looks that the end of one counts as: its route leaves, and its requests end
_ALL: Final = -1  # among the ids: all connections, from the oldest one on


class Review:
    """Of the connections of one broker."""

    def __init__(self, peers: dict[int, Peer], is_on: bool) -> None:
        self.unjudged: Final[list[int]] = []  # ids, the next one last; empty: all are judged
        self.gone: Final[set[str]] = set()  # principals whose credentials hold no longer
        self._peers: Final = peers
        self.is_on: Final = is_on  # else nobody is judged but by certificates
        self._looks_n = 0  # that are left in this turn

    def begin(self) -> None:
        """Has all connections judged."""
        if self.is_on:
            self.begin_all()

    def begin_all(self) -> None:
        """The same; where nobody is judged otherwise, by the certificates that they have shown."""
        if self.unjudged and self.unjudged[0] == _ALL:
            return
        if not self.unjudged:
            self.gone.clear()
        self.unjudged.insert(0, _ALL)

    def take_back(self, gone: set[str]) -> None:
        """As `begin`; credentials of these principals hold no longer."""
        self.begin()
        self.gone.update(gone)

    def begin_turn(self) -> None:
        """`take` may give as many as fit into a turn."""
        self._looks_n = LOOKS_N

    def take(self) -> Peer | None:
        """The next one; None: there is none, or not in this turn."""
        while self.unjudged and self._looks_n > 0:
            number = self.unjudged.pop()
            if number == _ALL:
                self.unjudged.extend(sorted(self._peers, reverse=True))
                continue
            self._looks_n -= 1
            peer = self._peers.get(number)
            if peer is not None and not peer.is_ending and not peer.is_lost:
                return peer
        return None

    def ended(self) -> None:
        """The one that was taken last has to end."""
        self._looks_n -= ENDING_N


def is_admitted(peer: Peer) -> bool:
    """It was let in as a client."""
    if peer.link is not None or not peer.begins:
        return False
    # Without streams it is a broker that has not proved it yet, and serves nobody.
    return peer.connection.state == OPEN and not peer.login.is_asked and peer.max_streams > 0
