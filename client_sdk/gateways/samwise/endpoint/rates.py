"""How many requests a second callers may send: one bucket for all, and one for each. Time comes in as a parameter.

A bucket holds one second's requests and fills up evenly. What does not fit is refused, and costs nothing.
"""

from typing import Final

MAX_BUCKETS: Final = 65_536  # callers that are remembered; the one that was seen first is forgotten, its bucket full


class Rates:
    """Buckets of requests. A limit of 0 is none."""

    def __init__(self, max_per_s: int, max_per_caller_per_s: int) -> None:
        self.are_limited: Final = bool(max_per_s or max_per_caller_per_s)
        self._max_per_s: Final = max_per_s
        self._max_per_caller_per_s: Final = max_per_caller_per_s
        self._all: Final = _Bucket(max_per_s, 0.0)
        self._by_caller: Final[dict[bytes, _Bucket]] = {}

    def find_excess(self, caller: bytes, now: float) -> str:
        """Which limit this request is over; empty: none, and it is counted. `now`: seconds, monotonic."""
        bucket = self._bucket(caller, now) if self._max_per_caller_per_s else None
        if bucket is not None and bucket.level(now) < 1:
            return f"{self._max_per_caller_per_s} requests a second are allowed for one caller"
        if self._max_per_s and self._all.level(now) < 1:
            return f"{self._max_per_s} requests a second are allowed for all callers"
        if bucket is not None:
            bucket.tokens -= 1
        if self._max_per_s:
            self._all.tokens -= 1
        return ""

    def _bucket(self, caller: bytes, now: float) -> "_Bucket":
        bucket = self._by_caller.get(caller)
        if bucket is None:
            if len(self._by_caller) >= MAX_BUCKETS:
                del self._by_caller[next(iter(self._by_caller))]
            bucket = self._by_caller[caller] = _Bucket(self._max_per_caller_per_s, now)
        return bucket


class _Bucket:
    """Full at first."""

    __slots__ = ("_filled_at", "_per_s", "tokens")

    def __init__(self, per_s: int, now: float) -> None:
        self.tokens = float(per_s)
        self._per_s: Final = per_s
        self._filled_at = now

    def level(self, now: float) -> float:
        """How many requests it has room for."""
        self.tokens = min(float(self._per_s), self.tokens + (now - self._filled_at) * self._per_s)
        self._filled_at = now
        return self.tokens
