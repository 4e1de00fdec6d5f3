"""A histogram of how long something took, in the buckets that flows have (`events.bucket_of`)."""

from typing import Final

from broker.events import MAX_BUCKET, bucket_of


class Histogram:
    """Adding costs a few list reads, and memory is the same whatever is added."""

    __slots__ = ("max_us", "numbers", "sum_us")

    def __init__(self) -> None:
        self.numbers: Final[list[int]] = [0] * (MAX_BUCKET + 1)  # by bucket
        self.sum_us = 0
        self.max_us = 0

    @property
    def number(self) -> int:
        """All that was added."""
        return sum(self.numbers)

    def add(self, seconds: float, number: int) -> None:
        """So many took so long; a negative duration counts as none."""
        us = int(seconds * 1e6)
        if us < 0:
            us = 0
        self.numbers[bucket_of(us)] += number
        self.sum_us += us * number
        if us > self.max_us:
            self.max_us = us
