"""Leases: how many requests one side lets the other one make, and for how long.

Decides whether one more request is covered. RSocket protocol 1.0, "Lease Semantics".
"""


class Lease:
    """What was granted last: the newest grant is the only one that counts."""

    def __init__(self) -> None:
        self.until = 0.0  # seconds, monotonic; nothing is granted before the first grant
        self._left_n = 0

    def grant(self, requests_n: int, until: float) -> None:
        """So many requests, up to that moment."""
        self._left_n = requests_n
        self.until = until

    def covers(self, now: float) -> bool:
        """One more request would be covered."""
        return self._left_n > 0 and now < self.until

    def take(self, now: float) -> bool:
        """One more request; False when it is not covered."""
        if not self.covers(now):
            return False
        self._left_n -= 1
        return True
