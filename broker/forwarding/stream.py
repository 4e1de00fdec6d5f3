"""A stream, as the tables of streams of one or two peers see it.

Each of them does nothing with what it has no use for. Knows no peers.
"""

from typing import Final

from broker.routing.health.loads import Load
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.timers import Timed


class Stream(Timed):
    """One stream of one or two peers, as the peers' tables of streams see it."""

    __slots__ = ()

    def from_caller(self, frame: FrameCursor) -> None:
        """A frame of the peer that began the stream."""

    def from_route(self, frame: FrameCursor) -> None:
        """A frame of the peer that serves the stream."""

    def awaited_at(self, load: Load) -> int:
        """How many request/responses of it are in flight at this load: more than one of a multicast at most."""
        return 0

    def caller_lost(self, now: float) -> None:
        """The peer that began it is gone."""

    def route_lost(self, now: float) -> None:
        """A peer that served it is gone; the stream is taken out of that peer's table before."""

    def deny(self, text: str, now: float) -> None:
        """The peer that serves it may do so no more: its part ends, and if that was all, the stream with `denied:`."""

    def shed(self, text: str, now: float) -> bool:
        """Too much waits for a peer, most of it of this stream: ends it with `over-limit:`, and nothing of it waits.

        False: what waits is not of this stream, but of one that had its id before.
        """
        return False


class HeldCredit:
    """Credit of one stream that waits."""

    __slots__ = ("n", "stream")

    def __init__(self, stream: Stream, n: int) -> None:
        self.stream: Final = stream
        self.n = n  # at most MAX_N
