"""Leases: requests that a connection grants, one by one (D-19). A route without a grant left gets no request.

    RSocket protocol, "LEASE frame": Time-To-Live and Number of Requests; a later LEASE takes the place of an earlier.

Decides when the mask `unleased` is on; who is chosen instead is the query's.
"""

from typing import Final

from broker.routing.health.masks import Masks


class Lease:
    """The grants of one connection."""

    __slots__ = ("_masks", "left_n", "slot", "until")

    def __init__(self, masks: Masks) -> None:
        self._masks: Final = masks
        self.left_n = 0  # requests that may still be sent
        self.until = 0.0  # seconds, monotonic: when the grants end
        self.slot = -1  # of the connection's route; -1 while it has none in the table

    def join(self, slot: int) -> None:
        """The connection's route is in the table now, in this slot."""
        self.slot = slot
        self._mask()

    def grant(self, requests_n: int, ttl_s: float, now: float) -> None:
        """A LEASE came; 0 of either takes all grants back."""
        self.left_n = requests_n if ttl_s > 0 else 0
        self.until = now + ttl_s
        self._mask()

    def spend(self) -> None:
        """A request was sent."""
        self.left_n -= 1
        if self.left_n <= 0:
            self._mask()

    def end(self, now: float) -> None:
        """The time is up, unless a later LEASE has come."""
        if now >= self.until:
            self.left_n = 0
            self._mask()

    def _mask(self) -> None:
        self._masks.set(self._masks.unleased, self.slot, self.left_n <= 0)
