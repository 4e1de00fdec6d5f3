"""A branch: one route's part of a multicast, with what it was asked for and the items of it that wait.

Decides how far a branch may run ahead of the caller (D-44). Does not know the other branches, nor how answers are put
together: whatever arrives goes to the trunk.

    asked_n    items asked for and not whole yet   ┐ together at most `reach_n`, and no more than fits into
    waiting    whole items, the oldest first       ┘ the branch's share of bytes (but one, whatever its size)
    partial    the fragments of the item that is arriving
"""

from typing import Final

from broker.forwarding.peer import Peer, Stream
from broker.routing.health.loads import GOOD, NEITHER
from broker.routing.table import Route
from rsocket_wire.rsocket.frames import encode_cancel
from rsocket_wire.rsocket.framing import FrameCursor

PIECE_BYTES: Final = 64  # what a frame that waits costs beside its content: or fragments of 2 bytes would cost 30 times


class Trunk(Stream):
    """The call that branches belong to, as they see it."""

    is_finished: bool

    def drop_branch(self, branch: "Branch") -> None:
        """Forgets a branch whose stream has ended, for both sides."""

    def from_branch(self, branch: "Branch", frame: FrameCursor) -> None:
        """A frame of the branch's route."""

    def branch_lost(self, branch: "Branch", now: float) -> None:
        """The peer of the branch is gone."""


class Item:
    """A whole item that waits: its frames behind the stream id."""

    __slots__ = ("frames", "next", "size")

    def __init__(self, frames: list[bytes], size: int) -> None:
        self.frames: Final = frames
        self.size: Final = size  # bytes, PIECE_BYTES included
        self.next: Item | None = None  # the one behind it; None: it is the youngest


class Branch(Stream):
    """A stream of its own, in the table of its route's peer only."""

    __slots__ = (
        "_first",
        "_last",
        "_trunk",
        "asked_n",
        "granted_n",
        "is_deaf",
        "is_done",
        "is_over",
        "item_bytes",
        "number",
        "partial",
        "partial_bytes",
        "reach_n",
        "route",
        "server",
        "stream_id",
        "verdict",
        "waiting_bytes",
        "waiting_n",
    )

    def __init__(self, trunk: Trunk, number: int, server: Peer, route: Route | None, is_deaf: bool) -> None:
        self._trunk: Final = trunk
        self.number: Final = number  # among the branches of the call
        self.server: Final = server
        self.route: Final = route  # None: it is a copy for other brokers, see `copies`
        self.stream_id: Final = server.open_id()
        self.is_deaf = is_deaf  # it gets no more of the caller's items
        self.is_done = False  # it sends no more
        self.is_over = False  # the call has forgotten it
        self.verdict = NEITHER  # on the route: how its stream ended
        self.asked_n = 0
        self.reach_n = 0  # grows by one with each item, up to the prefetch: doubles with each round trip
        self.granted_n = 0  # channel items that it asked of the caller, ever
        self.item_bytes = 1  # the size to reckon with: that of the largest item, slowly forgotten
        self.partial: list[bytes] = []
        self.partial_bytes = 0
        self.waiting_n = 0
        self.waiting_bytes = 0
        self._first: Item | None = None
        self._last: Item | None = None

    def from_route(self, frame: FrameCursor) -> None:
        if not self._trunk.is_finished:  # else its CANCEL is on the way
            self._trunk.from_branch(self, frame)

    def route_lost(self, stream_id: int, peer: Peer, now: float) -> None:
        self.lost(now)

    def lost(self, now: float) -> None:
        """It has ended without a word."""
        if self._trunk.is_finished:
            self._trunk.drop_branch(self)
        else:
            self._trunk.branch_lost(self, now)

    def shed(self, peer: Peer, text: str, now: float) -> bool:
        is_unseen = peer.waits_whole(self.stream_id)
        peer.drop_stream(self.stream_id)
        if not is_unseen:
            peer.send(encode_cancel(self.stream_id))
        self.lost(now)
        return True

    @property
    def service(self) -> str:
        """Whose answer it is, for the caller."""
        assert self.route is not None  # or it is a copy
        return self.route.service

    def complete(self) -> None:
        """Its answer is whole."""
        self.is_done = True
        self.verdict = GOOD

    def wanted_n(self, credit_n: int, share_bytes: int) -> int:
        """How many items to ask it for now: what fills its window, or 0 while over half of that is asked for already.

        The window is what `reach_n`, the caller's credit and the share leave room for beside the items that wait; one
        item, whatever its size, when nothing of it waits.
        """
        window = min(self.reach_n, credit_n) - self.waiting_n
        fits = (share_bytes - self.waiting_bytes) // self.item_bytes
        if window > fits:
            window = fits
        if window < 1 and not self.waiting_n:
            window = 1
        more = window - self.asked_n
        return more if more > 0 and more * 2 >= window else 0

    def came(self, size: int, prefetch_n: int) -> None:
        """An item of `size` bytes is whole."""
        self.asked_n -= 1
        if self.reach_n < prefetch_n:
            self.reach_n += 1
        if size >= self.item_bytes:
            self.item_bytes = size
        else:
            self.item_bytes -= (self.item_bytes - size) >> 3

    def hold(self, raw: bytes) -> int:
        """Keeps a frame of the item that is arriving; what it costs in bytes."""
        size = len(raw) + PIECE_BYTES
        self.partial.append(raw)
        self.partial_bytes += size
        return size

    def close_item(self, prefetch_n: int) -> None:
        """The item that was arriving is whole, and waits."""
        item = Item(self.partial, self.partial_bytes)
        self.came(item.size, prefetch_n)
        self.partial = []
        self.partial_bytes = 0
        if self._last is None:
            self._first = item
        else:
            self._last.next = item
        self._last = item
        self.waiting_n += 1
        self.waiting_bytes += item.size

    def take_item(self) -> Item:
        """The oldest item that waits; there must be one."""
        item = self._first
        assert item is not None
        self._first = item.next
        if self._first is None:
            self._last = None
        self.waiting_n -= 1
        self.waiting_bytes -= item.size
        return item

    def drop_partial(self) -> int:
        """Forgets the item that will never be whole; what it cost in bytes."""
        size = self.partial_bytes
        self.partial = []
        self.partial_bytes = 0
        return size
