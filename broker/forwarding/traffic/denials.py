"""Requests that the rights of their callers do not allow: who has asked, and how often (D-98).

Counts them by identity, so that of each is told at most once a second. Does not know roles, and refuses nothing.
"""

from typing import Final

from broker.access.identities import ANONYMOUS
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.quotas import Quotas

TOLD_S: Final = 1.0  # between two events of one identity
MAX_IDENTITIES: Final = 100  # that are told apart in this time; the others together, as the latest of them


class Denied:
    """What one identity has asked since it was told of."""

    def __init__(self) -> None:
        self.peer = ""  # name of the connection of the latest request
        self.principal = ""  # its identity; empty: anonymous
        self.role = ""  # what role that has; empty: none
        self.detail = ""  # who that was, and why
        self.requests_n = 0


class Denials:
    """All of one broker."""

    def __init__(self, is_on: bool) -> None:
        self.is_on: Final = is_on  # identities are judged here
        self.quotas: Final = Quotas()  # of those that have one
        self.by_end: Final = {"refused": 0, "observed": 0}  # requests, ever
        self._by_principal: dict[str, Denied] = {}  # since they were told of; bounded by MAX_IDENTITIES, and one more
        self._next_at = 0.0  # when they may be told of again, seconds, monotonic

    def note(self, peer: Peer, why: str, end: str) -> None:
        """A request of this peer is not allowed. `end`: refused, or observed."""
        self.by_end[end] += 1
        principal = peer.principal or ANONYMOUS
        key = principal
        if key not in self._by_principal and len(self._by_principal) >= MAX_IDENTITIES:
            key = ""
        denied = self._by_principal.get(key)
        if denied is None:
            denied = self._by_principal[key] = Denied()
        denied.peer = peer.name
        denied.principal = peer.principal
        reach = peer.login.reach
        denied.role = reach.role.name if reach is not None else ""
        denied.detail = f"{principal}: {why}"
        denied.requests_n += 1

    def take(self, now: float) -> list[Denied]:
        """Takes what was noted since the last time; empty before TOLD_S are over."""
        if now < self._next_at or not self._by_principal:
            return []
        taken = list(self._by_principal.values())
        self._by_principal = {}
        self._next_at = now + TOLD_S
        return taken
