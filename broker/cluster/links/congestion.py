"""Congested paths: a link on the path takes no more for now, and those that send requests along it shall wait. D-74

    b1 ──── b2 ══ ══ b3    b2 has much to write to b3, and reads from all links always: so it tells b1, which sends
                           requests that way. b1 does not read from callers that send more of them; a link that does
                           is told in its turn

What is told: all brokers to which the path from here is congested, except those whose next hop is the receiver (split
horizon). Only links that send requests along such a path are told, at once; and all of those, when it is relieved.

    an entry of a METADATA_PUSH, `message/x.rsocket.broker.behind.v0`: 16 bytes of id for each, all of them each time

Who does not know that entry ignores it. Knows no callers: `core` pauses them, see `Remote.is_behind`.
"""

from typing import Final

from broker.cluster.links.neighbour import Neighbour
from broker.cluster.member import Member
from broker.forwarding.peer import Peer
from rsocket_wire.errors import InvalidFrame
from rsocket_wire.rsocket.metadata import encode_entry
from rsocket_wire.timers import NEVER
from rsocket_wire.wire.ids import ID_BYTES

BEHIND_MIME: Final = b"message/x.rsocket.broker.behind.v0"
TOLD_S: Final = 0.05  # between two words to the same link that more ways are behind


class Congestion:
    """What one broker tells its links, and hears from them."""

    def __init__(self, members: dict[bytes, Member], neighbours: dict[int, Neighbour], max_brokers: int) -> None:
        """`members`: by id, `neighbours`: by number of the connection; both are kept by others."""
        self._members: Final = members
        self._neighbours: Final = neighbours
        self._max_brokers: Final = max_brokers
        self._told: Final[dict[int, Neighbour]] = {}  # links that were told of any, or are to be, by their number
        self._late_at = NEVER  # when somebody is to be told what it was too soon for, seconds, monotonic
        self.has_relief = False  # a neighbour has said that a way is behind no more; the core looks, and takes it away

    def requested(self, peer: Peer, now: float) -> None:
        """Tells a link that has just sent requests along a way that is behind."""
        neighbour = self._neighbours.get(peer.id)
        if neighbour is not None and neighbour.is_up:
            self._told[peer.id] = neighbour
            self._tell(neighbour, True, now)

    def relieved(self, peer: Peer, now: float) -> None:
        """Tells a link that a way along which it has sent requests is behind no more, if so."""
        neighbour = self._told.get(peer.id)
        if neighbour is not None:
            self._tell(neighbour, False, now)

    def receive(self, neighbour: Neighbour, raw: bytes, now: float) -> None:
        """Reads an entry of a neighbour that is up; InvalidFrame for what is none."""
        if len(raw) % ID_BYTES:
            text = f"{len(raw)} bytes are not a multiple of {ID_BYTES}, the length of a broker id"
            raise InvalidFrame(text, "bad-broker")
        link = neighbour.peer.link
        assert link is not None  # it is up
        to = min(len(raw), self._max_brokers * ID_BYTES)  # there are no more: the rest cannot be meant
        ids = {raw[at : at + ID_BYTES] for at in range(0, to, ID_BYTES)}
        if not link.behind <= ids:
            self.has_relief = True
        link.behind = ids
        for other in list(self._told.values()):
            self._tell(other, False, now)

    def tick(self, now: float) -> None:
        """Tells what it was too soon for, and what has changed with the ways."""
        self._late_at = NEVER
        for neighbour in list(self._told.values()):
            self._tell(neighbour, True, now)

    def next_at(self) -> float:
        """Returns when `tick` has something to do at the latest, seconds, monotonic."""
        return self._late_at

    def _tell(self, neighbour: Neighbour, may_add: bool, now: float) -> None:
        """Tells a link what is new to it. That less is behind is told at once: somebody waits for that."""
        peer = neighbour.peer
        if peer.is_ending or peer.is_lost:
            del self._told[peer.id]
            return
        told = neighbour.told_behind
        behind = self._behind_for(peer)
        if not behind and not told:
            del self._told[peer.id]
            return
        if not behind <= told:
            if may_add and now >= neighbour.behind_at:
                neighbour.behind_at = now + TOLD_S
            else:
                self._late_at = min(self._late_at, max(now, neighbour.behind_at))
                behind &= told
        if behind != told:
            neighbour.told_behind = behind
            neighbour.push([encode_entry(BEHIND_MIME, b"".join(sorted(behind)))])

    def _behind_for(self, peer: Peer) -> set[bytes]:
        """The brokers to which requests of this link have a way that is behind."""
        found: set[bytes] = set()
        for member in self._members.values():
            hop = member.remote.via
            if hop is not None and hop is not peer and (hop.is_congested or member.remote.is_behind):
                found.add(member.id)
        return found
