"""When a call's time is over: a heap, in which those that have ended in time are passed over and swept out.

Knows no clock: deadlines are moments of whoever asks, seconds.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from client_sdk.protocol.stream import Stream
from rsocket_wire.timers import NEVER

SWEEP_N: Final = 1024  # entries, at least, before those of ended calls are swept out; then at each doubling


class Deadlines:
    """The deadlines of open streams."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Stream]] = []  # at most twice the open streams, and SWEEP_N
        self._sweep_at_n = SWEEP_N
        self._tie = 0  # streams are not compared

    def add(self, stream: Stream, at: float) -> None:
        """The stream must have ended by then."""
        stream.deadline = at
        self._tie += 1
        heappush(self._heap, (at, self._tie, stream))
        if len(self._heap) >= self._sweep_at_n:
            self._sweep()

    def next(self) -> float:
        """The first deadline of an open stream; NEVER without one."""
        heap = self._heap
        while heap:
            if not heap[0][2].is_over:
                return heap[0][0]
            heappop(heap)
        return NEVER

    def take(self, now: float) -> Stream | None:
        """An open stream whose deadline has come; None when there is none (any more)."""
        if self.next() > now:
            return None
        return heappop(self._heap)[2]

    def _sweep(self) -> None:
        left: list[tuple[float, int, Stream]] = []
        for entry in self._heap:
            if not entry[2].is_over:
                left.append(entry)
        heapify(left)
        self._heap = left
        self._sweep_at_n = max(SWEEP_N, 2 * len(left))
