"""A count of distinct keys that fits into memory: exact up to a bound, beyond it an estimate from a part of the keys.

Key hashes are spread evenly, so those whose last bits are zero stand for all: whenever there are too many, one more bit
has to be zero, and each key that is left stands for twice as many.
"""

from typing import Final

from msgspec import Struct

MAX_KEYS: Final = 100_000  # of one service in one unit, some 100 bytes each; beyond it +-0.6 % of their number


class Keys(Struct):
    """Distinct key hashes of shard requests, and of each whether its owner is another one."""

    moved: dict[int, bool] = {}
    bits: int = 0  # last bits of a hash that are zero

    def add(self, key_hash: int, *, is_moved: bool) -> None:
        """A request with this key; once moved is moved."""
        if key_hash & ((1 << self.bits) - 1):
            return
        self.moved[key_hash] = is_moved or self.moved.get(key_hash, False)
        if len(self.moved) > MAX_KEYS:
            self._thin(self.bits + 1)

    def merge(self, other: "Keys") -> None:
        """Adds those of another count."""
        if other.bits > self.bits:
            self._thin(other.bits)
        for key_hash, is_moved in other.moved.items():
            self.add(key_hash, is_moved=is_moved)

    @property
    def is_exact(self) -> bool:
        """All are there."""
        return self.bits == 0

    @property
    def keys_n(self) -> int:
        """How many there are."""
        return len(self.moved) << self.bits

    @property
    def moved_n(self) -> int:
        """How many of them have moved."""
        return sum(self.moved.values()) << self.bits

    def _thin(self, bits: int) -> None:
        self.bits = bits
        mask = (1 << bits) - 1
        self.moved = {key_hash: is_moved for key_hash, is_moved in self.moved.items() if not key_hash & mask}
