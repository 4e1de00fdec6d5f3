"""Moments at which something ends by itself, or is to be looked at: a wait, a deadline, a lease, an ejection, a peer.

A heap of timers; one that is not needed any more is only marked, and swept out when most of them are.
"""

from heapq import heapify, heappop, heappush
from typing import Final

NEVER: Final = float("inf")
_KEPT: Final = 64  # cancelled timers that are not worth a sweep


class Timed:
    """What can be over by time."""

    __slots__ = ()

    def expire(self, now: float) -> None:
        """Its moment has come."""


class Timer:
    """One moment of one thing."""

    __slots__ = ("_timers", "at", "timed")

    def __init__(self, timers: "Timers", at: float, timed: Timed) -> None:
        self.at: Final = at  # seconds, monotonic
        self.timed: Timed | None = timed  # None once it was cancelled or has rung
        self._timers: Final = timers

    def __lt__(self, other: "Timer") -> bool:
        return self.at < other.at

    def cancel(self) -> None:
        """Does not ring any more."""
        if self.timed is not None:
            self.timed = None
            self._timers.cancelled()


class Timers:
    """The timers of one part of a broker or client."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []  # at most one for each thing that is timed, twice that with the cancelled ones
        self._cancelled_n = 0  # of those in the heap

    def put(self, at: float, timed: Timed) -> Timer:
        """Rings once, at that moment."""
        timer = Timer(self, at, timed)
        heappush(self._heap, timer)
        return timer

    def cancelled(self) -> None:
        """One of them is not needed any more."""
        self._cancelled_n += 1
        if self._cancelled_n > _KEPT and self._cancelled_n * 2 > len(self._heap):
            self._heap = [each for each in self._heap if each.timed is not None]
            heapify(self._heap)
            self._cancelled_n = 0

    def take_due(self, now: float) -> Timed | None:
        """What is over, once; None when nothing more is."""
        heap = self._heap
        while heap and heap[0].at <= now:
            timer = heappop(heap)
            timed = timer.timed
            if timed is not None:
                timer.timed = None
                return timed
            self._cancelled_n -= 1
        return None

    def first(self) -> float:
        """The earliest moment, which may have been cancelled; NEVER when there is none."""
        return self._heap[0].at if self._heap else NEVER

    def size(self) -> int:
        """How many are kept, cancelled ones included."""
        return len(self._heap)
