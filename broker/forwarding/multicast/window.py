"""The window of a branch: what it was asked for, and the items of it that wait.

Decides how far a branch may run ahead of the caller (D-44). Does not know the other branches, nor how answers are put
together.

    asked_n    items asked for and not whole yet   ┐ together at most `reach_n`, and no more than fits into
    waiting    whole items, the oldest first       ┘ the branch's share of bytes (but one, whatever its size)
    partial    the fragments of the item that is arriving
"""

from typing import Final

PIECE_BYTES: Final = 64  # what a frame that waits costs beside its content: or fragments of 2 bytes would cost 30 times


class Item:
    """A whole item that waits: its frames behind the stream id."""

    __slots__ = ("frames", "next", "size")

    def __init__(self, frames: list[bytes], size: int) -> None:
        self.frames: Final = frames
        self.size: Final = size  # bytes, PIECE_BYTES included
        self.next: Item | None = None  # the one behind it; None: it is the youngest


class Window:
    """What a branch may send, and what it has sent that the caller did not get yet."""

    __slots__ = (
        "_first",
        "_last",
        "asked_n",
        "item_bytes",
        "partial",
        "partial_bytes",
        "reach_n",
        "waiting_bytes",
        "waiting_n",
    )

    def __init__(self, first_n: int = 0) -> None:
        """`first_n`: items that the branch was asked for at first."""
        self.asked_n = first_n
        self.reach_n = first_n  # grows by one with each item, up to the prefetch: doubles with each round trip
        self.item_bytes = 1  # the size to reckon with: that of the largest item, slowly forgotten
        self.partial: list[bytes] = []
        self.partial_bytes = 0
        self.waiting_n = 0
        self.waiting_bytes = 0
        self._first: Item | None = None
        self._last: Item | None = None

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
