"""What is granted between the broker and one connection that asked for leases in its SETUP (D-19), both ways.

    RSocket protocol, "Lease Semantics": with the L flag neither side sends requests before the other has granted some.

The broker itself grants without end: what a caller may send is bounded by other limits. What the connection grants is
kept exactly (`routing.health.leases`); here is the time of it.
"""

from typing import Final

from broker.routing.health.leases import Lease
from broker.routing.health.masks import Masks
from rsocket_wire.rsocket.frames import MAX_N
from rsocket_wire.timers import Timed, Timer, Timers

GRANTED_N: Final = MAX_N  # requests that the broker grants at a time
GRANTED_MS: Final = MAX_N  # 24 days
_RENEW_S: Final = GRANTED_MS / 2000.0
_RENEW_N: Final = GRANTED_N // 2


class LeaseGrants(Timed):
    """One connection's leases."""

    __slots__ = ("_granted_at", "_requests", "_timer", "_timers", "lease")

    def __init__(self, masks: Masks, timers: Timers, now: float) -> None:
        self.lease: Final = Lease(masks)  # what the connection grants
        self._timers: Final = timers
        self._timer: Timer | None = None  # rings when the lease ends
        self._granted_at = now  # when the broker granted, and
        self._requests = 0  # how many requests the connection had made by then

    def granted(self, requests_n: int, ttl_ms: int, now: float) -> None:
        """A LEASE came from the connection."""
        self.close()
        self.lease.grant(requests_n, ttl_ms / 1000.0, now)
        if self.lease.left_n > 0:
            self._timer = self._timers.put(self.lease.until, self)

    def is_due(self, requests: int, now: float) -> bool:
        """The broker should grant anew; if so it is taken as done. `requests`: that the connection has made, ever."""
        if now - self._granted_at < _RENEW_S and requests - self._requests < _RENEW_N:
            return False
        self._granted_at = now
        self._requests = requests
        return True

    def expire(self, now: float) -> None:
        self._timer = None
        self.lease.end(now)

    def close(self) -> None:
        """Nothing of it rings any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
