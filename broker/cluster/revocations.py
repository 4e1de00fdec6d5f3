"""Revocations that operators set: told in the whole cluster, as redirects are (D-99).

Decides how many there may be; which one of a principal counts, the newest, `gossip` decides. What comes of one,
`connections.admission` decides.
"""

from typing import Final

from broker.access.identities import is_identity
from broker.access.revocations import MAX_REVOCATIONS, Revocations
from broker.cluster.gossip import revocation_key
from broker.cluster.messages import MAX_PRINCIPAL_BYTES, RevocationMessage
from broker.cluster.replication import Replication
from broker.cluster.state import ClusterState
from broker.connections.review import Review
from broker.events import ISSUED_BEFORE, REVOCATION_REMOVED, REVOCATION_SET
from rsocket_wire.errors import BrokerError

MAX_BEFORE_MS: Final = 253_402_300_799_999  # the end of the year 9999, for programs that read it as a date


class ToldRevocations:
    """All of them."""

    def __init__(self, state: ClusterState, revocations: Revocations, review: Review, replication: Replication) -> None:
        self.by_principal: Final[dict[str, RevocationMessage]] = {}  # bounded by MAX_REVOCATIONS
        self._id: Final = state.id
        self._event_log: Final = state.event_log
        self._revocations: Final = revocations
        self._review: Final = review
        self._replication: Final = replication
        self._gossip: Final = replication.gossip  # also those that were removed, as tombstones

    def set(self, principal: str, before_ms: int, now: float) -> None:
        """Revokes what was issued before that moment, and has the others told. BrokerError "bad-revocation",
        "over-limit"."""
        size = len(principal.encode())
        if size > MAX_PRINCIPAL_BYTES or not is_identity(principal):
            what = f"no identity of at most {MAX_PRINCIPAL_BYTES} bytes, as user:ada or jwt:orders-7"
            text = f"{principal[:80]!r} is {what}"
            raise BrokerError("bad-revocation", text)
        if not 0 < before_ms <= MAX_BEFORE_MS:
            raise BrokerError("bad-revocation", f"{before_ms} ms is not in 1..{MAX_BEFORE_MS}")
        if not self._has_room(principal):
            text = f"{self._gossip.revocations_n} revocations are set, the limit is {MAX_REVOCATIONS}"
            raise BrokerError("over-limit", text)
        self._say(principal, before_ms, now)

    def remove(self, principal: str, now: float) -> bool:
        """Removes a revocation, and has the others told; False when there was none."""
        if principal not in self.by_principal:
            return False
        self._say(principal, 0, now)
        return True

    def receive(self, message: RevocationMessage, raw: bytes, from_peer: int, now: float) -> None:
        """Takes what some broker's operator said, unless something newer is known, or there are too many."""
        principal = message.principal
        if not self._has_room(principal) or not self._replication.publish_revocation(message, raw, from_peer, now):
            return
        at_ms = self._event_log.wall(now)
        if message.before_ms:
            self.by_principal[principal] = message
            self._revocations.told[principal] = message.before_ms
            tags = [(ISSUED_BEFORE, str(message.before_ms))]
            self._event_log.tell(REVOCATION_SET, at_ms, tags=tags, detail=principal)
            self._review.begin()
        elif self.by_principal.pop(principal, None) is not None:
            del self._revocations.told[principal]
            self._event_log.tell(REVOCATION_REMOVED, at_ms, detail=principal)

    def _say(self, principal: str, before_ms: int, now: float) -> None:
        at_ms = self._replication.stamp(revocation_key(principal), self._event_log.wall(now))
        message = RevocationMessage(at_ms, self._id, principal, before_ms)
        self.receive(message, message.encode(), 0, now)

    def _has_room(self, principal: str) -> bool:
        return self._gossip.revocations_n < MAX_REVOCATIONS or self._gossip.find(revocation_key(principal)) is not None
