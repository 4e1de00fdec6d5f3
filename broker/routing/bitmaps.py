"""The typed face of pyroaring: sets of slot numbers. Nothing else in the house imports it, but for `cluster.gossip`."""

from array import array
from typing import Final

from pyroaring import BitMap

MAX_LISTED: Final = 16  # large sets that are listed, four bytes for each slot; the one listed first gives way


class Slots:
    """A set of slot numbers (0..2^32-1)."""

    __slots__ = ("_listed", "bits")

    def __init__(self, bits: BitMap | None = None) -> None:
        self.bits: BitMap = BitMap() if bits is None else bits
        self._listed: array[int] | None = None  # all slots, ascending; None unless they are asked for often

    def add(self, slot: int) -> None:
        """Adds a slot; once is as good as twice."""
        self.bits.add(slot)
        self._listed = None

    def discard(self, slot: int) -> None:
        """Takes a slot out, if it is in."""
        self.bits.discard(slot)
        self._listed = None

    def add_all(self, other: "Slots") -> None:
        """Adds the slots of another set."""
        self.bits |= other.bits
        self._listed = None

    def has(self, slot: int) -> bool:
        """The slot is in the set."""
        found: bool = slot in self.bits
        return found

    def copy(self) -> "Slots":
        """A set of its own with the same slots."""
        return Slots(self.bits.copy())

    def meet(self, other: "Slots") -> "Slots":
        """The slots that are in both: the bitwise AND of the specification."""
        return Slots(self.bits & other.bits)

    def join(self, other: "Slots") -> "Slots":
        """The slots that are in either."""
        return Slots(self.bits | other.bits)

    def without(self, other: "Slots") -> "Slots":
        """The slots that are in this set and not in the other."""
        return Slots(self.bits - other.bits)

    def meets(self, other: "Slots") -> bool:
        """Some slot is in both."""
        found: bool = self.bits.intersect(other.bits)
        return found

    def equals(self, other: "Slots") -> bool:
        """The same slots are in both."""
        found: bool = self.bits == other.bits
        return found

    def key(self) -> bytes:
        """Bytes that stand for the set in a dict: at most 8 KiB for each 65,536 slots.

        Different sets have different ones, equal sets equal ones, however they came about; but for a bitmap that was
        made of a range.
        """
        found: bytes = self.bits.serialize()
        return found

    def size(self) -> int:
        """How many slots."""
        return len(self.bits)

    def slot_at(self, position: int) -> int:
        """The slot at a position 0 ≤ position < size, in ascending order."""
        if self._listed is not None:
            return self._listed[position]
        slot: int = self.bits[position]
        return slot

    def list_all(self) -> None:
        """Makes `slot_at` quick until the set changes; a bitmap counts up to the position each time."""
        self._listed = self.bits.to_array()

    def is_listed(self) -> bool:
        """`slot_at` is quick."""
        return self._listed is not None

    def unlist(self) -> None:
        """Gives the memory of `list_all` back."""
        self._listed = None

    def to_list(self) -> list[int]:
        """All slots, ascending."""
        return list(self.bits)


class ListedSets:
    """The large sets that are listed: so many, and no more."""

    def __init__(self) -> None:
        self._sets: list[Slots] = []  # in the order in which they were listed

    def enlist(self, slots: Slots) -> None:
        """Lists one that is not listed now."""
        if len(self._sets) >= MAX_LISTED:
            self._sets.pop(0).unlist()
        slots.list_all()
        self._sets.append(slots)
