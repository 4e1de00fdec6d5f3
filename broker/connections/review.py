"""All connections judged anew, because roles or credentials have changed: a part of them in each turn of the loop.

    begin ──► take ──► a connection ──► `Admission` and `Registration` judge it
               └─────► None: this turn has had its part

Decides whom to look at and when; connections that come meanwhile are judged by what is in force already. Knows neither
roles nor identities.
"""

from typing import Final

from broker.forwarding.peer import Peer
from rsocket_wire.rsocket.connection import OPEN

LOOKS_N: Final = 400  # connections in one turn; 2 ms at 5 µs each, which a look takes interpreted
ENDING_N: Final = 20  # looks that the end of one counts as: its route leaves, and its requests end


class Review:
    """Of the connections of one broker."""

    def __init__(self, peers: dict[int, Peer]) -> None:
        self.unjudged: Final[list[int]] = []  # ids, the oldest last; empty: all are judged
        self.gone: Final[set[str]] = set()  # principals whose credentials hold no longer
        self._peers: Final = peers
        self._looks_n = 0  # that are left in this turn

    def begin(self, gone: set[str]) -> None:
        """Has all connections judged, from the first one on."""
        if not self.unjudged:
            self.gone.clear()
        self.gone.update(gone)
        self.unjudged[:] = sorted(self._peers, reverse=True)

    def begin_turn(self) -> None:
        """`take` may give as many as fit into a turn."""
        self._looks_n = LOOKS_N

    def take(self) -> Peer | None:
        """The next one that was let in as a client; None: there is none, or not in this turn."""
        while self.unjudged and self._looks_n > 0:
            self._looks_n -= 1
            peer = self._peers.get(self.unjudged.pop())
            if peer is not None and _is_client(peer):
                return peer
        return None

    def ended(self) -> None:
        """The one that was taken last has to end."""
        self._looks_n -= ENDING_N


def _is_client(peer: Peer) -> bool:
    if peer.is_ending or peer.is_lost or peer.link is not None or not peer.begins:
        return False
    # Without streams it is a broker that has not proved it yet, and serves nobody.
    return peer.connection.state == OPEN and not peer.login.is_asked and peer.max_streams > 0
