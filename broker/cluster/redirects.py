"""Redirects: an operator sends the requests of one service to another, at every broker of the cluster (D-55).

Decides how many there may be; which one of a service counts, the newest, `gossip` decides. Where requests go because of
it, `routing.query` decides; the ADDRESS that the destination sees is the caller's.
"""

from typing import Final

from broker.cluster.gossip import redirect_key
from broker.cluster.messages import RedirectMessage
from broker.cluster.replication import Replication
from broker.cluster.state import ClusterState
from broker.events import REDIRECT_REMOVED, REDIRECT_SET
from broker.routing.query import Query
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.frames import MAX_NAME_BYTES

MAX_REDIRECTS: Final = 1000  # services; more than a thousand rules are nobody's plan


class Redirects:
    """All of them."""

    def __init__(self, state: ClusterState, query: Query, replication: Replication) -> None:
        self.by_service: Final[dict[str, RedirectMessage]] = {}  # bounded by MAX_REDIRECTS
        self._id: Final = state.id
        self._event_log: Final = state.event_log
        self._query: Final = query
        self._replication: Final = replication
        self._gossip: Final = replication.gossip  # also those that were removed, as tombstones

    def set(self, service: str, to: str, now: float) -> None:
        """Sets a redirect, and has the others told. BrokerError "bad-redirect", "over-limit"."""
        for name in (service, to):
            if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
                text = f"a service's name of {len(name.encode())} bytes, 1..{MAX_NAME_BYTES} are allowed"
                raise BrokerError("bad-redirect", text)
        if service == to:
            raise BrokerError("bad-redirect", f"{service!r} cannot be redirected to itself")
        if not self._has_room(service):
            raise BrokerError(
                "over-limit", f"{self._gossip.redirects_n} redirects are set, the limit is {MAX_REDIRECTS}"
            )
        self._say(service, to, now)

    def remove(self, service: str, now: float) -> bool:
        """Removes a redirect, and has the others told; False when there was none."""
        if service not in self.by_service:
            return False
        self._say(service, "", now)
        return True

    def receive(self, message: RedirectMessage, raw: bytes, from_peer: int, now: float) -> None:
        """Takes what some broker's operator said, unless something newer is known, or there are too many."""
        service = message.service
        if not self._has_room(service) or not self._replication.publish_redirect(message, raw, from_peer, now):
            return
        at_ms = self._event_log.wall(now)
        if message.to:
            self.by_service[service] = message
            self._event_log.tell(REDIRECT_SET, at_ms, service=service, detail=f"requests go to {message.to}")
        elif self.by_service.pop(service, None) is not None:
            self._event_log.tell(REDIRECT_REMOVED, at_ms, service=service, detail="requests go there again")
        self._query.set_redirects({name: redirect.to for name, redirect in self.by_service.items()})

    def _say(self, service: str, to: str, now: float) -> None:
        at_ms = self._replication.stamp(redirect_key(service), self._event_log.wall(now))
        message = RedirectMessage(at_ms, self._id, service, to)
        self.receive(message, message.encode(), 0, now)

    def _has_room(self, service: str) -> bool:
        return self._gossip.redirects_n < MAX_REDIRECTS or self._gossip.find(redirect_key(service)) is not None
