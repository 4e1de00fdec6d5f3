"""Chance, as a value that is passed in: a small seeded generator, the same interpreted and compiled."""

from typing import Final

_MASK: Final = 0xFFFFFFFF


class Rng:
    """Xorshift32: not for secrets, good enough to spread load, and a test knows what it will roll."""

    def __init__(self, seed: int) -> None:
        self._state = (seed & _MASK) or 0x9E3779B9  # zero would stay zero

    def below(self, n: int) -> int:
        """A number 0 ≤ x < n, n ≥ 1."""
        state = self._state
        state ^= (state << 13) & _MASK
        state ^= state >> 17
        state ^= (state << 5) & _MASK
        self._state = state
        return (state * n) >> 32
