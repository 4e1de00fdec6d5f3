"""Redirects: an operator sends the requests of one service to another, at every broker of the cluster (D-55).

Decides which redirect of a service counts: the newest. Where requests go because of it, `routing.query` decides; the
ADDRESS that the destination sees is the caller's.
"""

from typing import Final

from broker.cluster.gossip import GossipState
from broker.cluster.messages import RedirectMessage
from broker.event_log.log import EventLog
from broker.events import REDIRECT_REMOVED, REDIRECT_SET
from broker.routing.query import Query
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.frames import MAX_NAME_BYTES

MAX_REDIRECTS: Final = 1000  # services; more than a thousand rules are nobody's plan


class Redirects:
    """All of them."""

    def __init__(self, query: Query, event_log: EventLog) -> None:
        self.by_service: Final[dict[str, RedirectMessage]] = {}  # bounded by MAX_REDIRECTS
        self._latest: dict[str, RedirectMessage] = {}  # also of those that were removed; bounded as `by_service`
        self._query: Final = query
        self._event_log: Final = event_log

    def set(self, service: str, to: str, broker_id: bytes, at_ms: int) -> RedirectMessage:
        """Sets a redirect; returns what to tell the others. BrokerError "bad-redirect", "over-limit"."""
        for name in (service, to):
            if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
                text = f"a service's name of {len(name.encode())} bytes, 1..{MAX_NAME_BYTES} are allowed"
                raise BrokerError("bad-redirect", text)
        if service == to:
            raise BrokerError("bad-redirect", f"{service!r} cannot be redirected to itself")
        if service not in self._latest and len(self._latest) >= MAX_REDIRECTS:
            raise BrokerError("over-limit", f"{len(self._latest)} redirects are set, the limit is {MAX_REDIRECTS}")
        message = RedirectMessage(self._stamp(service, at_ms), broker_id, service, to)
        self.apply(message, at_ms)
        return message

    def remove(self, service: str, broker_id: bytes, at_ms: int) -> RedirectMessage | None:
        """Removes a redirect; returns what to tell the others, None when there was none."""
        if service not in self.by_service:
            return None
        message = RedirectMessage(self._stamp(service, at_ms), broker_id, service, "")
        self.apply(message, at_ms)
        return message

    def apply(self, message: RedirectMessage, at_ms: int) -> bool:
        """Takes what some broker's operator said; False when something newer is known, or there are too many."""
        latest = self._latest.get(message.service)
        if latest is not None:
            if (message.timestamp_ms, message.broker_id) <= (latest.timestamp_ms, latest.broker_id):
                return False
        elif len(self._latest) >= MAX_REDIRECTS:
            return False
        self._latest[message.service] = message
        if message.to:
            self.by_service[message.service] = message
            self._event_log.tell(REDIRECT_SET, at_ms, service=message.service, detail=f"requests go to {message.to}")
        elif self.by_service.pop(message.service, None) is not None:
            self._event_log.tell(REDIRECT_REMOVED, at_ms, service=message.service, detail="requests go there again")
        self._query.set_redirects({name: redirect.to for name, redirect in self.by_service.items()})
        return True

    def forget_removed(self, gossip: GossipState) -> None:
        """Forgets those that were removed, once their tombstones are gone: nobody can bring them back then."""
        self._latest = {
            name: message
            for name, message in self._latest.items()
            if message.to or gossip.find(redirect_key(name)) is not None
        }

    def _stamp(self, service: str, at_ms: int) -> int:
        latest = self._latest.get(service)
        return at_ms if latest is None or latest.timestamp_ms < at_ms else latest.timestamp_ms + 1


def redirect_key(service: str) -> bytes:
    """Of what is said of the redirect of a service, see `gossip`."""
    return b"S" + service.encode()
