"""Connections that ended: the latest ones for the operator, and how many there were for each reason."""

from typing import Final

from broker.forwarding.peer import Peer
from broker.routing.table import Route

MAX_CLOSED: Final = 1_000  # closed connections that are remembered


class ClosedPeer:
    """What is remembered of a connection that ended."""

    def __init__(self, peer: Peer, closed_at_ms: int) -> None:
        route = peer.route
        self.id: Final = peer.id
        self.name: Final = peer.name
        self.reason: Final = peer.end_reason
        self.detail: Final = peer.end_detail
        self.route_id: Final = route.id_text if isinstance(route, Route) else ""
        self.service: Final = route.service if isinstance(route, Route) else ""
        self.connected_at_ms: Final = peer.connected_at_ms
        self.closed_at_ms: Final = closed_at_ms
        self.bytes_in: Final = peer.bytes_in
        self.bytes_out: Final = peer.bytes_out


class Closed:
    """The connections that ended."""

    def __init__(self) -> None:
        self.latest: Final[list[ClosedPeer]] = []  # MAX_CLOSED of them, oldest first
        self.by_reason: Final[dict[str, int]] = {}  # all that ever closed; reasons are code words or "left"
        self.bytes_in = 0  # of all that are gone
        self.bytes_out = 0

    def add(self, peer: Peer, at_ms: int) -> None:
        """Counts one more. `at_ms`: milliseconds, wall clock."""
        self.by_reason[peer.end_reason] = self.by_reason.get(peer.end_reason, 0) + 1
        self.latest.append(ClosedPeer(peer, at_ms))
        if len(self.latest) > MAX_CLOSED:
            del self.latest[: MAX_CLOSED // 10]

    def sum_up(self, peer: Peer) -> None:
        """Adds its bytes when its transport is gone as well: it has received and written all that it ever will."""
        self.bytes_in += peer.bytes_in
        self.bytes_out += peer.bytes_out
