"""Shares: who holds how many of a bounded number of places, so that one caller does not hold them all (D-68).

While callers compete, each may hold at most half of the places; a single caller may hold all. A caller competes while
it holds places, and for ASK_S after it wanted one and half of them were taken. No place is taken away: a caller that
holds more than half when another one comes gets no more until it is below, so what becomes free is for others.

    limit 8, half 4      A holds 8, B asks: refused, there are none
                         A ends 1, asks: refused, B has asked lately      7 of A
                         B asks                                          7 of A, 1 of B
                         A ends 4, asks                                  4 of A, 1 of B: 3 are free for B and others

Decides who may have one more. Does not know what callers are: a number stands for each.
"""

from typing import Final

UNKNOWN: Final = -1
NOBODY: Final = -1
ASK_S: Final = 5.0  # how long somebody that has asked is expected to ask again: callers retry for so long


class Shares:
    """The places of one route, or of one service."""

    def __init__(self, limit_n: int, counts_all: bool) -> None:
        """`limit_n` places. `counts_all`: from the first one on; else some are taken already, nobody knows by whom."""
        self.half_n: Final = (limit_n + 1) // 2  # rounded up, or one of three places would be nobody's
        self._kept_n: Final = 2 * limit_n + 64
        self._counts_all: Final = counts_all
        # By caller: those that hold places, and others of which that is known; bounded by `_kept_n`.
        self._held: dict[int, int] = {}
        self.is_counting = counts_all  # somebody's places are counted: `began` and `ended` have something to do
        # Two that have asked, the latest ones, and when.
        self._latest = NOBODY
        self._latest_at = 0.0
        self._before = NOBODY
        self._before_at = 0.0

    def held(self, caller: int) -> int:
        """How many places it holds; UNKNOWN: whoever asks must count them, and say so by `know`."""
        return self._held.get(caller, 0 if self._counts_all else UNKNOWN)

    def know(self, caller: int, held_n: int) -> None:
        """It holds so many now."""
        if len(self._held) >= self._kept_n:
            self._held = {each: number for each, number in self._held.items() if number}
        self._held[caller] = held_n
        self.is_counting = True

    def began(self, caller: int) -> None:
        """It has one more."""
        held_n = self.held(caller)
        if held_n != UNKNOWN:
            self._held[caller] = held_n + 1

    def ended(self, caller: int) -> None:
        """It has one less."""
        held_n = self.held(caller)
        if held_n > 1:
            self._held[caller] = held_n - 1
        elif held_n == 1:
            del self._held[caller]
            self.is_counting = self._counts_all or len(self._held) > 0

    def ask(self, caller: int, now: float) -> None:
        """It wants one more."""
        if caller != self._latest:
            self._before = self._latest
            self._before_at = self._latest_at
            self._latest = caller
        self._latest_at = now

    def is_over(self, caller: int, held_n: int, taken_n: int, now: float) -> bool:
        """It has its half, `held_n` places, and others ask. `taken_n`: places that are taken."""
        if held_n < self.half_n:
            return False
        if taken_n > held_n:
            return True
        at = self._before_at if caller == self._latest else self._latest_at
        other = self._before if caller == self._latest else self._latest
        return other != NOBODY and now - at < ASK_S
