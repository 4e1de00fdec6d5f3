"""What peers offer: a ROUTE_SETUP makes a route of a connection, or changes the one that it has.

    spec "Handling ROUTE_SETUP Frames": a broker MUST only allow one connection for a given Route Id; it MUST close the
    existing route, and remove it from the table, and replace it.

Decides whether the frame is one, and whose route is in the table after it.
"""

from typing import Final

from broker.connections.drains import Drains
from broker.connections.ends import Ends
from broker.connections.heralds import Herald
from broker.connections.rate_limits import SPENT, TokenBucket
from broker.event_log.log import EventLog
from broker.event_log.route_events import owner_text, tell_route
from broker.events import ROUTE_JOINED, ROUTE_LEFT, ROUTE_REMOVED, ROUTE_REPLACED
from broker.forwarding.engine import Engine
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings
from broker.routing.health.loads import Load
from broker.routing.table import Route, Table
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.frames import Address, RouteSetup, decode_frame
from rsocket_wire.wire.keys import ZONE


class Registration:
    """The routes of one broker's own connections."""

    __slots__ = ("_event_log", "_drains", "_ends", "_engine", "_herald", "_rate", "_settings", "_table")

    def __init__(
        self,
        settings: Settings,
        table: Table,
        engine: Engine,
        drains: Drains,
        event_log: EventLog,
        ends: Ends,
        herald: Herald,
    ) -> None:
        self._settings: Final = settings
        self._table: Final = table
        self._engine: Final = engine
        self._drains: Final = drains
        self._event_log: Final = event_log
        self._ends: Final = ends
        self._herald: Final = herald
        self._rate: Final = TokenBucket(settings.max_route_setups_per_s, "limits.max_route_setups_per_s")

    def announce(self, peer: Peer, raw: bytes, code: int, now: float) -> None:
        """A broker frame in a SETUP or METADATA_PUSH: a ROUTE_SETUP makes or changes the peer's route.

        `code` if it cannot: a client that is set up "MUST ignore an ERROR[… REJECTED_SETUP …] frame".
        """
        at = self._rate.spend(peer.announcements_at, now)
        if at == SPENT:
            self._ends.end(peer, "over-limit", f"ROUTE_SETUPs: {self._rate.too_many}", now, code)
            return
        peer.announcements_at = at
        try:
            setup = decode_frame(raw)
        except BrokerError as error:
            self._ends.end(peer, "bad-route", error.text, now, code)
            return
        if isinstance(setup, Address):
            self._ends.end(
                peer, "bad-route", "an ADDRESS belongs to a request, a SETUP carries a ROUTE_SETUP", now, code
            )
            return
        if not isinstance(setup, RouteSetup):
            # D-20
            text = f"a broker frame of kind {setup.kind} from a connection that is no broker"
            self._ends.end(peer, "no-cluster", text, now, code)
            return
        limit = self._settings.max_tags_per_route
        if len(setup.tags) > limit:
            text = f"{len(setup.tags)} tags, limits.max_tags_per_route is {limit}"
            self._ends.end(peer, "bad-route", text, now, code)
            return
        self._join(peer, setup, now)

    def _join(self, peer: Peer, setup: RouteSetup, now: float) -> None:
        old = self._table.find(setup.route_id)
        mine = peer.route
        if old is not None and old is not mine:
            # Spec "Handling ROUTE_SETUP Frames": MUST close the existing route, remove it and replace it. D-09
            owner = old.owner
            if isinstance(owner, Peer):  # else its own broker does, when it hears of this one
                self._ends.end(owner, "replaced", f"another connection came with the Route Id {old.id_text}", now)
        route = Route(setup.route_id, setup.service_name, setup.tags, peer)
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
        if left is not None:
            # Not before: it may put another broker's route into the old slot, whose masks are the new route's.
            self._herald.route_left(left, now)
        self._herald.route_joined(route, now)

    def _carry_blame(self, old: Load, was_ejected: bool, load: Load, now: float) -> None:
        """A route with a new service name stays who it is: it must not shake off its errors and ejections so (D-37).

        One that was ejected is judged anew, with the room of its new service; its time begins anew too.
        """
        load.take_blame(old)
        load.ejections_n = old.ejections_n - 1 if was_ejected else old.ejections_n  # the judge counts this one again
        load.relieved_at = now if was_ejected else old.relieved_at
        limit = load.service.policy.eject_after_errors
        if limit and (was_ejected or (load.errors_n >= limit and load.is_believed(now))):
            self._table.loads.suspects.append(load)

    def withdraw(self, peer: Peer, reason: str, now: float) -> None:
        """The peer's route leaves, if it is (still) in the table; requests that it serves go on."""
        route = peer.route
        if isinstance(route, Route) and self._table.leave(route):
            kind = ROUTE_REPLACED if reason == "replaced" else ROUTE_LEFT
            self._tell(kind, route, peer, self._event_log.wall(now), reason)
            self._herald.route_left(route, now)  # who may put another broker's in its place

    def _tell(self, kind: int, route: Route, peer: Peer, at_ms: int, reason: str) -> None:
        tell_route(self._event_log, kind, route, peer.name, at_ms, reason, peer.end_detail)


def zone_of(route: Route, default: str) -> bytes:
    """Where a caller is that offers this route: the value of its Zone tag, or the broker's zone."""
    for tag in route.tags:
        if tag.key == ZONE and tag.raw is not None:
            return tag.raw
    return default.encode()
