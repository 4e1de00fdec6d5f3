"""What events tell of a route: who it is, where it comes from, how long it was there."""

from broker.event_log.log import EventLog
from broker.events import DENIED, REQUESTS_DROPPED, ROUTE_ADDED, ROUTE_JOINED, SLOW_PEER_ENDED
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.denials import Denied
from broker.forwarding.traffic.drops import Dropped
from broker.routing.table import Route
from rsocket_wire.wire.ids import id_text


def tell_route(
    event_log: EventLog,
    kind: int,
    route: Route,
    peer: str,
    at_ms: int,
    reason: str = "",
    detail: str = "",
    principal: str = "",
) -> None:
    """A route came or went. `peer`, `principal`: of its owner; a route that left has none any more."""
    has_come = kind in (ROUTE_JOINED, ROUTE_ADDED)
    uptime_ms = 0 if has_come else max(0, at_ms - route.joined_at_ms)
    tags, requests = route.tag_texts(), route.load.requests
    event_log.tell(
        kind, at_ms, route.id_text, route.service, tags, peer, reason, detail, uptime_ms, requests, principal
    )


def tell_peer(
    event_log: EventLog,
    kind: int,
    peer: Peer,
    at_ms: int,
    route_id: str,
    reason: str,
    detail: str,
    role: str = "",
    principal: str = "",
) -> None:
    """Something happened to a connection. `role`: if that is told; `principal`: if it is not that of the connection."""
    uptime_ms = max(0, at_ms - peer.connected_at_ms)
    service, requests = peer.caller_service, peer.requests
    principal = principal or peer.principal
    event_log.tell(
        kind, at_ms, route_id, service, None, peer.name, reason, detail, uptime_ms, requests, principal, role
    )


def tell_slow(event_log: EventLog, peer: Peer, at_ms: int, word: str, text: str) -> None:
    """A connection is about to be ended for what waits for it; `word` as in its PeerClosed."""
    route = peer.route
    route_id = route.id_text if isinstance(route, Route) and route.slot >= 0 else ""
    service, principal = peer.caller_service, peer.principal
    event_log.tell(
        SLOW_PEER_ENDED, at_ms, route_id, service, peer=peer.name, reason=word, detail=text, principal=principal
    )


def tell_dropped(event_log: EventLog, dropped: Dropped, at_ms: int) -> None:
    """Requests found no room, and nobody else could be told."""
    said = f"{dropped.broker}: " if dropped.peer else ""
    waits_for = "the link" if dropped.peer else "its routes"
    text = f"{said}{dropped.requests_n} fire-and-forgets or pushes dropped: too many bytes wait for {waits_for}"
    event_log.tell(
        REQUESTS_DROPPED,
        at_ms,
        service=dropped.service,
        peer=dropped.peer,
        reason="over-limit",
        detail=text,
        requests=dropped.requests_n,
    )


def tell_denied(event_log: EventLog, denied: Denied, at_ms: int) -> None:
    """Requests that the role of their caller does not allow, refused or only observed."""
    event_log.tell(
        DENIED,
        at_ms,
        peer=denied.peer,
        reason="denied",
        detail=denied.detail,
        requests=denied.requests_n,
        principal=denied.principal,
        role=denied.role,
    )


def owner_text(owner: object) -> str:
    """`tcp 10.0.0.4:5123` for a connection, `broker <uuid>` for another broker."""
    if isinstance(owner, Peer):
        return owner.name
    return f"broker {id_text(owner.id)}" if isinstance(owner, Remote) else ""


def principal_of(owner: object) -> str:
    """Of a connection its identity; of another broker's route nobody says it."""
    return owner.principal if isinstance(owner, Peer) else ""
