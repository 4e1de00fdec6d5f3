"""The typed face of pyroaring: sets of slot numbers. Nothing else in the house imports pyroaring."""

from pyroaring import BitMap


class Slots:
    """A set of slot numbers (0..2^32-1)."""

    __slots__ = ("bits",)

    def __init__(self, bits: BitMap | None = None) -> None:
        self.bits: BitMap = BitMap() if bits is None else bits

    def add(self, slot: int) -> None:
        """Adds a slot; once is as good as twice."""
        self.bits.add(slot)

    def discard(self, slot: int) -> None:
        """Takes a slot out, if it is in."""
        self.bits.discard(slot)

    def has(self, slot: int) -> bool:
        """The slot is in the set."""
        found: bool = slot in self.bits
        return found

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

    def size(self) -> int:
        """How many slots."""
        return len(self.bits)

    def slot_at(self, position: int) -> int:
        """The slot at a position 0 ≤ position < size, in ascending order."""
        slot: int = self.bits[position]
        return slot

    def to_list(self) -> list[int]:
        """All slots, ascending."""
        return list(self.bits)
