"""Many latencies in little memory: counts by size, each within 1/64 of the truth."""

from __future__ import annotations

from collections import Counter
from typing import Final

EXACT: Final = 128  # microseconds; shorter ones are counted as they are
_BITS: Final = 7  # that larger ones keep


class Latencies:
    """Of requests, in microseconds."""

    def __init__(self) -> None:
        self._counts: Final[Counter[int]] = Counter()  # the smallest latency of a size -> how many
        self.number = 0
        self.sum_us = 0
        self.max_us = 0

    def add(self, seconds: float) -> None:
        """One more."""
        us = max(0, round(seconds * 1e6))
        shift = max(0, us.bit_length() - _BITS)
        self._counts[us >> shift << shift] += 1
        self.number += 1
        self.sum_us += us
        self.max_us = max(self.max_us, us)

    @property
    def mean_us(self) -> int:
        """0 when there is none."""
        return round(self.sum_us / self.number) if self.number else 0

    def percentile_us(self, percent: float) -> int:
        """So many of a hundred took no longer, within 1/64; 0 when there is none."""
        left = percent / 100 * self.number
        for us, count in sorted(self._counts.items()):
            left -= count
            if left <= 0:
                return us
        return self.max_us
