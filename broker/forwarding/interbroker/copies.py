"""A copy: the one branch of a multicast that stands for all its routes behind one link (D-51).

The broker at the other end makes one stream of what its routes, and those behind it, answer; so the copy is a branch
like any other, without a route of its own.
"""

from typing import Final

from broker.forwarding.interbroker.retry import STALE, is_refused
from broker.forwarding.multicast.branch import Branch, Trunk
from broker.forwarding.peer import Peer
from rsocket_wire.rsocket.frames import ERROR
from rsocket_wire.rsocket.framing import FrameCursor


class LinkBranch(Branch):
    """A branch towards other brokers. That nobody is there (any more) is no answer: then it has left."""

    __slots__ = ("_broker", "_is_heard")

    def __init__(self, trunk: Trunk, number: int, server: Peer, is_deaf: bool) -> None:
        super().__init__(trunk, number, server, None, is_deaf)
        self._broker: Final = server.link.name if server.link is not None else ""  # no address: callers get to see it
        self._is_heard = False

    @property
    def service(self) -> str:
        return self._broker

    def from_route(self, frame: FrameCursor) -> None:
        if not self._is_heard:
            self._is_heard = True
            if frame.kind == ERROR and is_refused(frame, STALE):
                self.lost(frame.now)
                return
        super().from_route(frame)
