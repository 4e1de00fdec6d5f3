"""Moments at which a peer must be looked at, and whether it is late then: with its SETUP, a RESUME, or any frame."""

from heapq import heapify, heappop, heappush
from typing import Final

from broker.connections.ending import Ending
from broker.forwarding.peer import Peer
from rsocket_wire.rsocket.connection import NEW
from rsocket_wire.timers import NEVER


class Deadline:
    """A moment of one peer. Out of date, and ignored, when it is not the peer's `look_at`."""

    __slots__ = ("at", "peer")

    def __init__(self, at: float, peer: Peer) -> None:
        self.at: Final = at
        self.peer: Final = peer

    def __lt__(self, other: "Deadline") -> bool:
        return self.at < other.at


class Deadlines:
    """A heap with at most one valid moment per peer."""

    def __init__(self) -> None:
        self._heap: list[Deadline] = []  # see `put` for its bound

    def put(self, peer: Peer, at: float, peers_n: int) -> None:
        """Has the peer looked at then (seconds, monotonic), and not at the moment that was meant before.

        Moments of connections that are gone stay until their time comes, unless there are too many for `peers_n` peers.
        """
        peer.look_at = at
        heap = self._heap
        heappush(heap, Deadline(at, peer))
        if len(heap) > 2 * peers_n + 64:
            heap[:] = [item for item in heap if item.at == item.peer.look_at and not item.peer.is_ending]
            heapify(heap)

    def take_due(self, now: float) -> Peer | None:
        """Takes a peer whose moment has come; None when there is none more."""
        heap = self._heap
        while heap and heap[0].at <= now:
            deadline = heappop(heap)
            if deadline.at == deadline.peer.look_at:
                return deadline.peer
        return None

    def first(self) -> float:
        """Returns the earliest moment, which may be out of date; NEVER when there is none."""
        return self._heap[0].at if self._heap else NEVER

    def size(self) -> int:
        """Returns how many moments are kept, those out of date included."""
        return len(self._heap)


def overdue(peer: Peer, resume_ttl_s: float, now: float) -> Ending | None:
    """Returns how a peer ends that is late; None: it is not, until `lifetime_s` after `heard_at`.

    Word "keepalive-timeout": nothing arrives any more, and a peer with a session is suspended instead.
    """
    if peer.connection.state == NEW:
        return Ending(peer, "setup-timeout", f"no SETUP within {now - peer.connected_at:.1f} s")
    if peer.is_suspended:
        return Ending(peer, "resume-timeout", f"nobody resumed it within {resume_ttl_s:g} s")
    if peer.is_paused or peer.held_n or peer.frame.has_more():
        peer.heard_at = now  # what it sent waits where we do not read it
    if peer.heard_at + peer.connection.lifetime_s > now:
        return None
    text = f"nothing arrived for {now - peer.heard_at:.1f} s, {peer.connection.lifetime_text}"
    return Ending(peer, "keepalive-timeout", text)
