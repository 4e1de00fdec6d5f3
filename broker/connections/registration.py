"""What peers offer: a ROUTE_SETUP makes a route of a connection, or changes the one that it has.

    spec "Handling ROUTE_SETUP Frames": a broker MUST only allow one connection for a given Route Id; it MUST close the
    existing route, and remove it from the table, and replace it.

Decides whether the frame is one, and whose route is in the table after it. Whoever calls ends the connections that
have to end, and tells other brokers of routes that joined and left.
"""

from typing import Final

from broker.access.holders import holder_of
from broker.access.identities import ANONYMOUS
from broker.access.roles import Obstacle, Roles
from broker.connections.admission import OBSERVE, OFF, REQUIRED
from broker.connections.drains import Drains
from broker.connections.ending import Ending
from broker.connections.rate_limits import SPENT, TokenBucket
from broker.event_log.log import EventLog
from broker.event_log.route_events import owner_text, tell_route
from broker.events import DENIED, ROUTE_JOINED, ROUTE_LEFT, ROUTE_REMOVED, ROUTE_REPLACED, TAG, VALUE
from broker.forwarding.engine import Engine
from broker.forwarding.mime_translation import COMPOSITE
from broker.forwarding.peer import Peer
from broker.forwarding.request import is_of_another
from broker.forwarding.settings import Settings
from broker.routing.health.loads import Load
from broker.routing.table import Route, Table, announced_tags
from rsocket_wire.errors import CONNECTION_ERROR, BrokerError
from rsocket_wire.wire.frames import Address, RouteSetup, decode_frame
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import ROUTE_ID, ZONE
from rsocket_wire.wire.tags import Tag


class Announcement:
    """A ROUTE_SETUP that was read, and what has to happen before its route joins."""

    def __init__(self, setup: RouteSetup | None, ending: Ending | None, replaced: Route | None) -> None:
        self.setup: Final = setup  # None: it is refused, and `ending` ends the connection that sent it
        self.ending: Final = ending  # else of the connection that has its Route Id so far; None: there is none
        self.replaced: Final = replaced  # who has its Route Id so far, here or at another broker; None: nobody


class Registration:
    """The routes of one broker's own connections."""

    def __init__(
        self, settings: Settings, roles: Roles, table: Table, engine: Engine, drains: Drains, event_log: EventLog
    ) -> None:
        self._settings: Final = settings
        self._table: Final = table
        self._engine: Final = engine
        self._drains: Final = drains
        self._event_log: Final = event_log
        self._roles: Final = roles
        self._rate: Final = TokenBucket(settings.max_route_setups_per_s, "limits.max_route_setups_per_s")

    def read(self, peer: Peer, raw: bytes, code: int, now: float) -> Announcement:
        """Reads a broker frame of a SETUP or METADATA_PUSH, which should be a ROUTE_SETUP.

        `code` if it is none: a client that is set up "MUST ignore an ERROR[… REJECTED_SETUP …] frame".
        """
        at = self._rate.spend(peer.announcements_at, now)
        if at == SPENT:
            return _refused(peer, "over-limit", f"ROUTE_SETUPs: {self._rate.too_many}", code)
        peer.announcements_at = at
        try:
            setup = decode_frame(raw)
        except BrokerError as error:
            return _refused(peer, "bad-route", error.text, code)
        if isinstance(setup, Address):
            text = "an ADDRESS belongs to a request, a SETUP carries a ROUTE_SETUP"
            return _refused(peer, "bad-route", text, code)
        if not isinstance(setup, RouteSetup):
            # D-20
            text = f"a broker frame of kind {setup.kind} on a connection that is no link"
            return _refused(peer, "no-cluster", text, code)
        if self._roles.is_on or self._settings.auth_mode != OFF:
            text = self._obstacle(peer, setup.route_id, setup.service_name, setup.tags, now)
            if text:
                return _refused(peer, "denied", text, code)
        policy = self._table.loads.policies.of(setup.service_name)
        if policy.identity and self._engine.mimes[peer.mimes].kind != COMPOSITE:  # D-102
            text = f"{setup.service_name} is told who its callers are (identity), for which it needs composite metadata"
            return _refused(peer, "bad-route", text, code)
        limit = self._settings.max_tags_per_route
        if len(setup.tags) > limit:
            text = f"{len(setup.tags)} tags, limits.max_tags_per_route is {limit}"
            return _refused(peer, "bad-route", text, code)
        old = self._table.find(setup.route_id)
        ending: Ending | None = None
        if old is not None and old is not peer.route:
            # D-97: an identity keeps what it has.
            mode = self._settings.auth_mode
            if mode != OFF and is_of_another(old, peer, mode == OBSERVE):
                text = f"the Route Id {old.id_text} is that of a route of another identity"
                self._tell_denied(peer, setup.service_name, None, "route-taken", text, now)
                if mode == REQUIRED:
                    return _refused(peer, "route-taken", text, code)
            # Spec "Handling ROUTE_SETUP Frames": MUST close the existing route, remove it and replace it. D-09
            owner = old.owner
            if isinstance(owner, Peer):  # else its own broker does, when it hears of this one
                text = f"another connection came with the Route Id {old.id_text}"
                ending = Ending(owner, "replaced", text)
        usage = self._engine.denials.quotas.find(peer)
        text = usage.refusal_of_route(peer, old) if usage is not None else ""
        if text:
            self._tell_denied(peer, setup.service_name, None, "over-limit", text, now)
            if self._settings.auth_mode == REQUIRED:
                return _refused(peer, "over-limit", text, code)
        return Announcement(setup, ending, old)

    def judge_again(self, peer: Peer, now: float) -> Ending | None:
        """Looks at the route of a peer, since roles have changed; None: it may keep it, or that is only observed."""
        route = peer.route
        if not self._roles.is_on or not isinstance(route, Route) or self._table.find(route.id) is not route:
            return None
        text = self._obstacle(peer, route.id, route.service, route.tags, now)
        return Ending(peer, "denied", text, CONNECTION_ERROR) if text else None

    def _obstacle(self, peer: Peer, route_id: bytes, service: str, own_tags: list[Tag], now: float) -> str:
        """Why the peer may not have this route; empty: it may, or that is only observed."""
        tags = announced_tags(route_id, service, own_tags)
        own_id = id_text(route_id)
        who = peer.principal or ANONYMOUS
        role = self._roles.find(peer.principal) if self._roles.is_on else None
        obstacle = role.find_obstacle(tags, peer.principal, False) if role is not None else None
        text = role.refusal(obstacle, False) if role is not None else f"{who} has no role" if self._roles.is_on else ""
        foreign = [tag for tag in tags if tag.key == ROUTE_ID and tag.value != own_id]
        if foreign:
            obstacle = Obstacle(ROUTE_ID.short_name, foreign[0].value or "")
            text = "a tag of this route is the Route Id of another one"
        if not text:
            return ""
        self._tell_denied(peer, service, obstacle, "denied", text, now)
        return text if self._settings.auth_mode == REQUIRED else ""

    def _tell_denied(
        self, peer: Peer, service: str, obstacle: Obstacle | None, word: str, text: str, now: float
    ) -> None:
        """Tells operators that the peer may not have a route, or that it should not have it."""
        role = self._roles.find(peer.principal) if self._roles.is_on else None
        self._event_log.tell(
            DENIED,
            self._event_log.wall(now),
            "",
            service,
            [(TAG, obstacle.tag), (VALUE, obstacle.value)] if obstacle is not None else None,
            peer=peer.name,
            reason=word,
            detail=f"{peer.principal or ANONYMOUS}: {text}",
            principal=peer.principal,
            role=role.name if role is not None else "",
        )

    def join(self, peer: Peer, setup: RouteSetup, old: Route | None, now: float) -> Route | None:
        """Makes the peer's route (`peer.route`) of a ROUTE_SETUP; `old` had its Route Id when it was read.

        Returns the route that the peer had until now under another Route Id, and that has left for it; None: none.
        """
        mine = peer.route
        route = Route(setup.route_id, setup.service_name, setup.tags, peer)
        if self._settings.auth_mode != OFF:
            route.holder = holder_of(peer.principal, self._settings.auth_mode == OBSERVE)
        at_ms = self._event_log.wall(now)
        stamp_ms = max(at_ms, old.timestamp_ms + 1) if old is not None else at_ms  # D-08, whatever the clocks did
        load: Load | None = None
        renamed: Load | None = None  # of the same connection, under another service name
        was_ejected = False
        left: Route | None = None  # of the same connection, under another Route Id
        if isinstance(mine, Route) and self._table.find(mine.id) is mine:  # else it was withdrawn
            self._tell(ROUTE_REPLACED, mine, peer, at_ms, "changed")
            if mine.service == route.service:
                load = mine.load
            else:
                renamed = mine.load
                was_ejected = renamed.ejected_until > 0
            if mine.id != route.id:  # else `join` takes its place
                self._table.leave(mine, load is not None)
                left = mine
        there = self._table.find(route.id)
        if there is not None and there is not mine:  # another broker's
            tell_route(self._event_log, ROUTE_REMOVED, there, owner_text(there.owner), at_ms, "replaced")
        self._table.join(route, at_ms, now, load, stamp_ms)
        # Before anybody hears of it: what they do then happens to a table that has it.
        self._tell(ROUTE_JOINED, route, peer, at_ms, "")
        if renamed is not None:
            self._carry_blame(renamed, was_ejected, route.load, now)
        if peer.granting is not None:
            route.load.lease = peer.granting.lease
            route.load.lease.join(route.slot)
        self._drains.mask(route)
        if peer.is_congested:
            self._table.masks.put(self._table.masks.congested, route.slot)
        peer.route = route
        peer.origin = route.id
        peer.zone = zone_of(route, self._settings.zone)
        peer.caller_service = route.service
        peer.flows = {}  # they name the old route as the caller
        peer.latest_flow = None
        self._engine.route_opened(route, now)
        return left

    def _carry_blame(self, old: Load, was_ejected: bool, load: Load, now: float) -> None:
        """Carries its errors and ejections over to a route's new service name: it must not shake them off so (D-37).

        One that was ejected is judged anew, with the room of its new service; its time begins anew too.
        """
        load.take_blame(old)
        load.ejections_n = old.ejections_n - 1 if was_ejected else old.ejections_n  # the judge counts this one again
        load.relieved_at = now if was_ejected else old.relieved_at
        limit = load.service.policy.eject_after_errors
        if limit and (was_ejected or (load.errors_n >= limit and load.is_believed(now))):
            self._table.loads.suspects.append(load)

    def withdraw(self, peer: Peer, reason: str, now: float) -> Route | None:
        """Withdraws the peer's route; requests that it serves go on. Returns it, None when it was not in the table."""
        route = peer.route
        if isinstance(route, Route) and self._table.leave(route):
            kind = ROUTE_REPLACED if reason == "replaced" else ROUTE_LEFT
            self._tell(kind, route, peer, self._event_log.wall(now), reason)
            return route
        return None

    def _tell(self, kind: int, route: Route, peer: Peer, at_ms: int, reason: str) -> None:
        tell_route(self._event_log, kind, route, peer.name, at_ms, reason, peer.end_detail, peer.principal)


def _refused(peer: Peer, word: str, text: str, code: int) -> Announcement:
    return Announcement(None, Ending(peer, word, text, code), None)


def zone_of(route: Route, default: str) -> bytes:
    """Returns where a caller is that offers this route: the value of its Zone tag, or the broker's zone."""
    for tag in route.tags:
        if tag.key == ZONE and tag.raw is not None:
            return tag.raw
    return default.encode()
