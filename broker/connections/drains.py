"""Drains: what somebody has taken out of service, and how its connections are sent away (D-42).

A route, a tag or the whole broker gets no new requests from the moment when it is drained, also when it comes back or
joins later; what runs may end. The connections that it concerns are told CONNECTION_CLOSE one after another, evenly
over `spread_s`, so that they do not all come back at once: each when its turn has come and nothing runs on it any more,
or `grace_s` after its turn at the latest.

        now            turn of one of them          at the latest
         |------ spread_s * i / n ------|------ grace_s ------|
         no new requests                idle: closed          closed, whatever runs

Decides who is masked, whose turn it is and who ends; the core carries it out.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from broker.connections.ending import Ending
from broker.connections.migration import DIAL_S, Migration
from broker.event_log.log import EventLog
from broker.events import DRAIN_ENDED, DRAIN_STARTED
from broker.forwarding.engine import Engine
from broker.forwarding.peer import Peer
from broker.routing.table import Route, Table, normal_tag
from rsocket_wire.errors import CONNECTION_CLOSE, BrokerError
from rsocket_wire.timers import NEVER
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import keys_named
from rsocket_wire.wire.tags import Tag

MAX_DRAINS: Final = 1000  # routes and tags; more must be ended first, a thousand rules are nobody's plan

ROUTE: Final = "route"
TAG: Final = "tag"
BROKER: Final = "broker"


class Drain:
    """One thing that is drained."""

    def __init__(
        self, kind: str, name: str, tokens: list[bytes], grace_s: float, spread_s: float, closes: bool, at_ms: int
    ) -> None:
        self.kind: Final = kind  # ROUTE, TAG or BROKER
        self.name: Final = name  # Route Id, `key=value`, or empty
        self.tokens: Final = tokens  # of the tag, or the Route Id; none of the broker
        self.grace_s: Final = grace_s
        self.spread_s: Final = spread_s
        self.closes: Final = closes  # its connections are closed; else they only get nothing new
        self.at_ms: Final = at_ms  # when it began
        self.left_n = 0  # connections that are still to be closed


class Leaving:
    """A connection that is to be closed for one drain; several drains may want it, the first that may closes it."""

    __slots__ = ("drain", "is_over", "last_at", "peer", "turn_at")

    def __init__(self, peer: Peer, drain: Drain, turn_at: float, last_at: float) -> None:
        self.peer: Final = peer
        self.drain: Final = drain
        self.turn_at: Final = turn_at  # seconds, monotonic: from here on it is closed when it is idle
        self.last_at: Final = last_at  # and here at the latest
        self.is_over = False  # it is closed, or its drain has ended

    def __lt__(self, other: "Leaving") -> bool:
        return self.turn_at < other.turn_at


class Drains:
    """All drains of one broker."""

    def __init__(
        self, table: Table, engine: Engine, event_log: EventLog, migration: Migration, peers: dict[int, Peer]
    ) -> None:
        """`peers`: all that there are, live."""
        self._table: Final = table
        self._query: Final = engine.query
        self._engine: Final = engine
        self._event_log: Final = event_log
        self._migration: Final = migration
        self._peers: Final = peers
        self._by_name: dict[str, Drain] = {}  # by kind and name; bounded by MAX_DRAINS
        self._tokens: dict[bytes, str] = {}  # of the tags and Route Ids that are drained: the key in `_by_name`
        # Both are bounded by the connections for each drain.
        self._waiting: list[Leaving] = []  # a heap: their turn has not come
        self._turned: list[Leaving] = []  # it has, and they are not idle yet

    # To begin one may raise BrokerError "over-limit": there are MAX_DRAINS others.

    def drain_route(self, route_id: bytes, grace_s: float, spread_s: float, closes: bool, now: float) -> int:
        """Gives the route of that id no new requests, now or when it comes. Returns how many routes that are."""
        route = self._table.find(route_id)
        found = [route] if route is not None else []
        at_ms = self._event_log.wall(now)
        self._begin(Drain(ROUTE, id_text(route_id), [route_id], grace_s, spread_s, closes, at_ms), found, now)
        return len(found)

    def drain_tag(self, tag: Tag, grace_s: float, spread_s: float, closes: bool, now: float) -> int:
        """Gives routes with the tag no new requests. Returns how many there are now.

        Also routes with the same tag under a key of text that is spelt like the well-known one: a drain has one name.
        """
        tag = normal_tag(tag)
        tags = [Tag(key, tag.raw) for key in keys_named(tag.key.short_name)]
        found = self._query.matching([tags])
        tokens = [each.token() for each in tags]
        self._begin(Drain(TAG, str(tag), tokens, grace_s, spread_s, closes, self._event_log.wall(now)), found, now)
        return len(found)

    def drain_broker(self, grace_s: float, spread_s: float, closes: bool, now: float) -> int:
        """Takes no new requests and no new connections. Returns how many connections the broker has.

        Clients that can move to another broker do so first (D-54). Links to other brokers stay.
        """
        drain = Drain(BROKER, "", [], grace_s, spread_s, closes, self._event_log.wall(now))
        may_move = self._migration.begin(spread_s, grace_s, now)
        self._add(drain, [peer for peer in self._peers.values() if peer.link is None], now)
        if not may_move:
            self._engine.is_draining = True
        return len(self._peers)

    def undrain_route(self, route_id: bytes, now: float) -> bool:
        """Puts it in service again; False when it was not drained. Connections whose turn has not come stay."""
        return self._end(ROUTE, id_text(route_id), now)

    def undrain_tag(self, tag: Tag, now: float) -> bool:
        """Puts it in service again; False when it was not drained."""
        return self._end(TAG, str(normal_tag(tag)), now)

    def undrain_broker(self, now: float) -> bool:
        """Puts it in service again; False when it was not drained."""
        self._engine.is_draining = False
        self._migration.stay(now)
        return self._end(BROKER, "", now)

    def covers(self, route: Route) -> bool:
        """Tells whether the route gets no new requests because of itself, one of its tags or its own broker."""
        for token in route.tokens:
            if token in self._tokens:
                return True
        return route.load.is_leaving or route.id in self._tokens

    def mask(self, route: Route) -> None:
        """Decides whether a route gets requests that has just joined, or has other tags."""
        masks = self._table.masks
        masks.set(masks.draining, route.slot, self.covers(route))  # it may have moved there with the load

    def take_due(self, now: float) -> list[Leaving]:
        """Takes the connections whose turn has come; each is to be looked at (`look_at`)."""
        while self._waiting and self._waiting[0].turn_at <= now:
            self._turned.append(heappop(self._waiting))
        turned = self._turned
        self._turned = []
        return turned

    def look_at(self, leaving: Leaving, now: float) -> Ending | None:
        """Returns how the connection ends now; None: it does not, or it does later, when its requests have ended."""
        peer = leaving.peer
        if leaving.is_over:
            return None
        is_link = peer.link is not None and leaving.drain.kind == BROKER  # it was none yet when the drain began
        if peer.is_ending or peer.is_lost or is_link:
            self._drop(leaving)
            return None
        if peer.streams and leaving.last_at > now:
            self._turned.append(leaving)
            return None
        self._drop(leaving)
        what = f"{leaving.drain.kind} {leaving.drain.name}".strip()
        left = f", {len(peer.streams)} requests end with it" if peer.streams else ""
        text = f"the {what} is taken out of service{left}"
        return Ending(peer, "draining", text, CONNECTION_CLOSE)

    def next_at(self) -> float:
        """Returns when the next turn comes, or the first's grace time is over; idleness is looked for in between."""
        at = self._waiting[0].turn_at if self._waiting else NEVER
        for leaving in self._turned:
            at = min(at, leaving.last_at)
        return at

    def all(self) -> list[Drain]:
        """Returns what is drained, in the order in which it was."""
        return list(self._by_name.values())

    @property
    def is_leaving(self) -> bool:
        """Tells whether the broker takes no new requests, or asks its clients to go elsewhere before it does not."""
        return self._engine.is_draining or self._migration.is_leaving

    def _begin(self, drain: Drain, routes: list[Route], now: float) -> None:
        self._add(drain, [peer for peer in [route.owner for route in routes] if isinstance(peer, Peer)], now)
        for route in routes:
            self._table.masks.put(self._table.masks.draining, route.slot)

    def _add(self, drain: Drain, peers: list[Peer], now: float) -> None:
        """Drains it, anew and with the new times where it is drained already. `peers`: whom it concerns now."""
        key = f"{drain.kind} {drain.name}"
        if len(self._by_name) >= MAX_DRAINS and key not in self._by_name:
            raise BrokerError("over-limit", f"{MAX_DRAINS} drains are there already, end some of them first")
        self._forget(key)
        self._by_name[key] = drain
        for token in drain.tokens:
            self._tokens[token] = key
        if drain.closes:
            self._send_away(drain, peers, now)
        what = f"{len(peers)} connections"
        seconds = drain.spread_s + drain.grace_s
        text = f"{what} are closed within {seconds:g} s" if drain.closes else f"{what} stay open"
        self._tell(DRAIN_STARTED, drain, text, drain.at_ms)

    def _send_away(self, drain: Drain, peers: list[Peer], now: float) -> None:
        for number, peer in enumerate(peers):
            turn_at = now + drain.spread_s * number / len(peers)
            if drain.kind == BROKER and self._migration.may_move(peer):
                turn_at = now + drain.spread_s + DIAL_S  # it is closed when it has moved; this is for want of a place
            heappush(self._waiting, Leaving(peer, drain, turn_at, turn_at + drain.grace_s))
        drain.left_n = len(peers)

    def _end(self, kind: str, name: str, now: float) -> bool:
        drain = self._forget(f"{kind} {name}")
        if drain is None:
            return False
        masks = self._table.masks
        for slot in masks.draining.to_list():
            route = self._table.route_at(slot)
            if not self.covers(route):
                masks.take(masks.draining, slot)
                self._engine.route_opened(route, now)
        at_ms = self._event_log.wall(now)
        seconds = (at_ms - drain.at_ms) / 1000
        self._tell(DRAIN_ENDED, drain, f"in service again after {seconds:.1f} s", at_ms)
        return True

    def _tell(self, kind: int, drain: Drain, text: str, at_ms: int) -> None:
        route_id = drain.name if drain.kind == ROUTE else ""
        detail = f"{drain.name}: {text}" if drain.name else text
        self._event_log.tell(kind, at_ms, route_id, reason=drain.kind, detail=detail)

    def _drop(self, leaving: Leaving) -> None:
        leaving.is_over = True
        leaving.drain.left_n -= 1

    def _forget(self, key: str) -> Drain | None:
        drain = self._by_name.pop(key, None)
        if drain is not None:
            self._tokens = {token: other for token, other in self._tokens.items() if other != key}
            for leaving in self._turned + self._waiting:
                if leaving.drain is drain and not leaving.is_over:
                    self._drop(leaving)
            self._waiting = [leaving for leaving in self._waiting if not leaving.is_over]
            heapify(self._waiting)
            self._turned = [leaving for leaving in self._turned if not leaving.is_over]
        return drain
