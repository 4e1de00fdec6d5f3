"""The routes of the whole cluster, as this broker knows them: what brokers say of routes becomes routes in the table.

    ROUTE_ADD, ROUTE_REMOVE ──► gossip (per route and broker, the newest counts) ──► the newest live one ──► table
    our own routes          ──► gossip ──► news for the neighbours

    spec "Emitting ROUTE_ADD Frames": frames will be ignored if the information in the table has a newer timestamp.
    spec "Handling ROUTE_SETUP Frames": a broker cluster MUST only allow one connection for a given Route Id.

Decides which broker has a route (D-08, D-09, D-47, D-97). Does not know links: what is to be told stands in `updates`.
"""

from typing import Final

from broker.access.holders import holder_in, is_kept
from broker.cluster.contradictions import Contradictions
from broker.cluster.gossip import GossipEntry, GossipState, redirect_key, revocation_key
from broker.cluster.member import Member
from broker.cluster.messages import RedirectMessage, RevocationMessage
from broker.cluster.state import ClusterState
from broker.connections.drains import Drains
from broker.connections.ending import Ending
from broker.event_log.route_events import owner_text, tell_route
from broker.events import ROUTE_ADDED, ROUTE_REMOVED, ROUTE_UNSAID
from broker.forwarding.engine import Engine
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.peer import Peer
from broker.routing.bitmaps import Slots
from broker.routing.table import Route
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.frames import RouteAdd, RouteRemove, decode_frame
from rsocket_wire.wire.ids import ID_BYTES
from rsocket_wire.wire.keys import BROKER_EXTENSION, Key
from rsocket_wire.wire.tags import Tag, filled

# What a broker adds to a ROUTE_ADD of its own ("A Broker MAY chose to add additional tags"), as the last tag: letters,
# together. Those that are not known say nothing. D-63. Capital ones, and what belongs to them, are `access.holders`'.
STATE: Final = Key.extension(BROKER_EXTENSION, 1)
MAX_STAMP_MS: Final = 1 << 52  # in 140,000 years: a later one could never be outdone
IS_DRAINING: Final = b"d"  # it gets no new requests
IS_CONGESTED: Final = b"c"  # it gets some only when nobody else is left
IS_BEHIND: Final = b"w"  # it has much to read: callers that send it more wait, as those do that its own broker has


REPLACED: Final = "replaced"
TAKEN: Final = "route-taken"


class Update:
    """One entry that the neighbours are to be told, but for the one that has told us."""

    def __init__(self, entry: GossipEntry, from_peer: int) -> None:
        self.entry: Final = entry
        self.from_peer: Final = from_peer  # number of a connection; 0: none


class ReplacedElsewhere(Ending):
    """A connection ends, or its route leaves, because one with its Route Id is at another broker (D-09, D-97)."""

    def __init__(self, peer: Peer, word: str, text: str, route_id: bytes) -> None:
        super().__init__(peer, word, text)
        self.route_id: Final = route_id
        self.may_finish: Final = word == REPLACED  # else it is another identity's, and nobody has moved


class Replication:
    """One broker's copy."""

    def __init__(self, state: ClusterState, engine: Engine, drains: Drains, is_open: bool) -> None:
        """`is_open`: other brokers can link to this one."""
        self._id: Final = state.id
        self._is_open: Final = is_open
        self._members: Final = state.members
        self._table: Final = engine.query.table
        self._engine: Final = engine
        self._drains: Final = drains
        self._event_log: Final = state.event_log
        self._endings: Final = state.endings
        self._drains_seen = 0  # of the masks, as they were when states were said
        self._was_leaving = (False, False)  # the broker; likewise
        self._congested_seen = Slots()
        self._congestions_seen = 0
        self._losing = ""  # why routes leave just now; empty: because their broker says so
        # Route Ids whose connections are about to end for others at other brokers; bounded by the connections.
        self._replaced: Final[set[bytes]] = set()
        self._said: dict[bytes, bytes] = {}  # by Route Id: the state that our own routes were announced with
        self.gossip: Final = GossipState(state.settings.max_routes)
        self.contradictions: Final = Contradictions()
        # Of brokers that cannot be reached (yet): by broker id and key; bounded by `max_routes` in all.
        self.early: dict[bytes, dict[bytes, GossipEntry]] = {}
        self.early_n = 0
        self.updates: list[Update] = []
        self.applied_n = 0  # what others said of routes and was news
        self.ignored_n = 0  # and what was none
        self.unadvertised_n = 0  # times that a route of ours could not be told, because no ROUTE_ADD can say it

    def digest(self, at_ms: int) -> bytes:
        """Returns 8 bytes that are equal on two brokers that know the same, at the same time."""
        self.gossip.expire(at_ms)
        return self.gossip.digest()

    # Our own routes

    def advertise_route(self, route: Route, now: float, at_least_ms: int = 0) -> None:
        """Tells the others of one of our own routes. `at_least_ms`: the timestamp must be as new."""
        state = self._state_of(route, now)
        key = route_key(route.id, self._id)
        # As old as its connection, whenever its state changes: a newer one at another broker must win (D-09).
        at_ms = self.stamp(key, max(at_least_ms, route.timestamp_ms))
        tags = with_state(route.tags, state)
        try:
            raw = RouteAdd(self._id, route.id, at_ms, route.service, tags).encode()
        except BrokerError as error:  # values that could be read and cannot be written (D-21)
            self._log_unadvertised(route, key, at_ms, error, now)
            return
        self._said[route.id] = state
        route.timestamp_ms = at_ms
        self._publish(GossipEntry(key, at_ms, raw, False), 0, now, True)
        self.settle(route.id, now, None)  # another identity's at another broker may be the older one

    def _log_unadvertised(self, route: Route, key: bytes, at_ms: int, error: BrokerError, now: float) -> None:
        """Withdraws what others remember of a route, because no ROUTE_ADD can say what it is now."""
        if self._is_open:
            self.unadvertised_n += 1
            tell_route(
                self._event_log, ROUTE_UNSAID, route, owner_text(route.owner), self._event_log.wall(now), "", error.text
            )
        self._said.pop(route.id, None)
        self._publish(GossipEntry(key, at_ms, RouteRemove(self._id, route.id, at_ms).encode(), True), 0, now)

    def withdraw_route(self, route_id: bytes, now: float, at_least_ms: int = 0) -> None:
        """Tells the others that we do not have that route (any more)."""
        self._said.pop(route_id, None)
        key = route_key(route_id, self._id)
        at_ms = self.stamp(key, max(at_least_ms, self._event_log.wall(now)))
        self._publish(GossipEntry(key, at_ms, RouteRemove(self._id, route_id, at_ms).encode(), True), 0, now)
        if route_id not in self._replaced:
            self.settle(route_id, now, None)  # another broker may have it still: it has not heard of ours

    def advertise_states(self, now: float) -> None:
        """Tells of our own routes whose state has changed: draining, congested."""
        masks = self._table.masks
        leaving = (self._engine.is_draining, self._drains.is_leaving)
        if (
            masks.drains == self._drains_seen
            and leaving == self._was_leaving
            and masks.congested.equals(self._congested_seen)
            and self._engine.congestions_n == self._congestions_seen
        ):
            return
        self._drains_seen = masks.drains
        self._was_leaving = leaving
        self._congested_seen = masks.congested.copy()
        self._congestions_seen = self._engine.congestions_n
        for route_id, said in list(self._said.items()):
            route = self._table.find(route_id)
            if route is not None and isinstance(route.owner, Peer) and self._state_of(route, now) != said:
                self.advertise_route(route, now)

    def advertise_state(self, route: Route, now: float) -> None:
        """Tells of one of our own routes at once, if its state has changed."""
        said = self._said.get(route.id)
        if said is not None and self._table.find(route.id) is route and self._state_of(route, now) != said:
            self.advertise_route(route, now)

    # Of brokers, redirects and revocations

    def publish_info(self, member: Member, from_peer: int, now: float) -> None:
        """Publishes what a broker that can be reached, or this one, says of itself."""
        self._publish(GossipEntry(b"I" + member.id, member.timestamp_ms, member.raw, False), from_peer, now)

    def publish_redirect(self, message: RedirectMessage, raw: bytes, from_peer: int, now: float) -> bool:
        """Publishes what an operator said, here or elsewhere; returns whether it was news."""
        entry = GossipEntry(redirect_key(message.service), message.timestamp_ms, raw, not message.to)
        return self._publish(entry, from_peer, now)

    def publish_revocation(self, message: RevocationMessage, raw: bytes, from_peer: int, now: float) -> bool:
        """As `publish_redirect`."""
        entry = GossipEntry(revocation_key(message.principal), message.timestamp_ms, raw, not message.before_ms)
        return self._publish(entry, from_peer, now)

    def stamp(self, key: bytes, at_ms: int) -> int:
        """Returns a timestamp for what we say of a key: newer than the last one, whatever the clock did (D-08)."""
        old = self.gossip.find(key)
        return at_ms if old is None or old.timestamp_ms < at_ms else old.timestamp_ms + 1

    # What others say

    def receive(self, raw: bytes, frame: RouteAdd | RouteRemove, from_peer: int, now: float) -> None:
        """Takes a ROUTE_ADD or ROUTE_REMOVE of a neighbour, about a route of any broker."""
        if frame.timestamp_ms > MAX_STAMP_MS:
            self.ignored_n += 1
            return
        is_removed = isinstance(frame, RouteRemove)
        entry = GossipEntry(route_key(frame.route_id, frame.broker_id), frame.timestamp_ms, raw, is_removed)
        if frame.broker_id == self._id:
            self._receive_of_us(entry, frame.route_id, from_peer, now)
            return
        member = self._members.get(frame.broker_id)
        if member is None or not member.is_reachable:
            self._keep_early(frame.broker_id, entry)
            return
        if self._apply(entry, from_peer, now):
            self.settle(frame.route_id, now, frame if isinstance(frame, RouteAdd) else None)

    def reached(self, broker_id: bytes, now: float) -> None:
        """Lets count what was heard of a broker's routes: there is a way to it now."""
        early = self.early.pop(broker_id, None)
        if early is None:
            return
        self.early_n -= len(early)
        for entry in early.values():
            if self._apply(entry, 0, now):
                self.settle(entry.key[1 : 1 + ID_BYTES], now, None)

    def lost(self, broker_id: bytes, now: float) -> None:
        """Takes a broker's routes out at once: there is no way to it any more."""
        route_ids = [entry.key[1 : 1 + ID_BYTES] for entry in self.gossip.routes_of(broker_id)]
        self.gossip.forget_broker(broker_id)
        self._losing = "broker-left"
        for route_id in route_ids:
            self.settle(route_id, now, None)
        self._losing = ""

    def forget_early(self, broker_id: bytes) -> None:
        """Forgets what was heard of the routes of a broker that nobody has reached for long."""
        early = self.early.pop(broker_id, None)
        if early is not None:
            self.early_n -= len(early)

    def settle_replaced(self, route_id: bytes, now: float) -> None:
        """Puts another broker's route into the place of one whose connection here has given way."""
        self._replaced.discard(route_id)
        self.settle(route_id, now, None)

    def settle(self, route_id: bytes, now: float, frame: RouteAdd | None) -> None:
        """Puts the newest of what brokers say of a route into the table. `frame`: what has just been said, decoded.

        The newest of the identity that was there first, where brokers keep the Route Id for it (D-97).
        """
        best = _choose(self.gossip.route_entries(route_id))
        route = self._table.find(route_id)
        if best is None:
            if route is not None and isinstance(route.owner, Remote):
                self._tell_gone(route, self._losing or "left", now)
                self._table.leave(route)
            return
        broker_id = best.key[1 + ID_BYTES :]
        if broker_id == self._id:
            return
        if frame is None or frame.broker_id != broker_id or frame.timestamp_ms != best.timestamp_ms:
            decoded = decode_frame(best.raw)
            assert isinstance(decoded, RouteAdd)  # no other is live
            frame = decoded
        self._put(frame, self._members[broker_id], route, now)

    def _put(self, frame: RouteAdd, member: Member, route: Route | None, now: float) -> None:
        tags, state = without_state(frame.tags)
        new = Route(frame.route_id, frame.service_name, tags, member.remote)
        new.holder = holder_in(state)
        if route is not None:
            owner = route.owner
            if isinstance(owner, Peer):
                if route.id not in self._replaced:
                    self._replaced.add(route.id)
                    self._endings.append(_give_way(owner, route, new, member))
                return
            is_same = owner is member.remote and route.service == new.service and route.tags == new.tags
            if is_same and route.holder == new.holder:
                route.timestamp_ms = frame.timestamp_ms
                self._mask(route, state, now)
                return
        there = self._table.find(new.id)
        if there is not None:
            self._tell_gone(there, "changed" if there.owner is member.remote else "replaced", now)
        at_ms = self._event_log.wall(now)
        self._table.join(new, at_ms, now, None, frame.timestamp_ms)
        tell_route(self._event_log, ROUTE_ADDED, new, owner_text(new.owner), at_ms)
        masks = self._table.masks
        masks.put(masks.remote, new.slot)
        if not member.is_mate:
            masks.put(masks.elsewhere, new.slot)
        self._mask(new, state, now)
        self._engine.route_opened(new, now)

    def _tell_gone(self, route: Route, reason: str, now: float) -> None:
        """Tells that a route of another broker is about to leave the table."""
        tell_route(self._event_log, ROUTE_REMOVED, route, owner_text(route.owner), self._event_log.wall(now), reason)

    def _mask(self, route: Route, state: bytes, now: float) -> None:
        """Sets the masks of a route by what its own broker says of its state."""
        route.load.is_leaving = IS_DRAINING in state
        route.load.is_behind = IS_BEHIND in state
        was_draining = self._table.masks.draining.has(route.slot)
        self._drains.mask(route)
        masks = self._table.masks
        masks.set(masks.congested, route.slot, IS_CONGESTED in state)
        if was_draining and not masks.draining.has(route.slot):
            self._engine.route_opened(route, now)

    def _receive_of_us(self, entry: GossipEntry, route_id: bytes, from_peer: int, now: float) -> None:
        """Answers what somebody passes on that we have said ourselves, in this life or before."""
        ours = self.gossip.find(entry.key)
        if ours is not None and ours.timestamp_ms >= entry.timestamp_ms:
            return
        route = self._table.find(route_id)
        is_here = route is not None and isinstance(route.owner, Peer)
        if entry.is_removed and not is_here:
            self._apply(entry, from_peer, now)  # true, and all shall know the same
        elif not self.contradictions.may(entry.key, now):
            self.ignored_n += 1
        elif route is not None and is_here:
            self.advertise_route(route, now, entry.timestamp_ms + 1)
        else:
            self.withdraw_route(route_id, now, entry.timestamp_ms + 1)

    def _keep_early(self, broker_id: bytes, entry: GossipEntry) -> None:
        old = self.early.get(broker_id, {}).get(entry.key)
        if old is not None and old.timestamp_ms >= entry.timestamp_ms:
            return
        if old is None:
            if self.early_n >= self.gossip.max_entries:
                self.ignored_n += 1
                return
            self.early_n += 1
        self.early.setdefault(broker_id, {})[entry.key] = entry

    def _apply(self, entry: GossipEntry, from_peer: int, now: float) -> bool:
        """Applies what somebody says of a route; returns whether it was news."""
        is_news = self._publish(entry, from_peer, now)
        if is_news:
            self.applied_n += 1
        else:
            self.ignored_n += 1
        return is_news

    def _publish(self, entry: GossipEntry, from_peer: int, now: float, is_ours: bool = False) -> bool:
        """Keeps an entry, and has the others told, if it is news. `is_ours`: there is room for it in any case."""
        if not self.gossip.apply(entry, self._event_log.wall(now), is_ours):
            return False
        self.updates.append(Update(entry, from_peer))
        return True

    def _state_of(self, route: Route, now: float) -> bytes:
        masks = self._table.masks
        state = b""
        if self._engine.is_draining or masks.draining.has(route.slot):
            state += IS_DRAINING
        if masks.congested.has(route.slot) or self._drains.is_leaving:  # D-54: not while somebody else has it
            state += IS_CONGESTED
        owner = route.owner
        if isinstance(owner, Peer) and (owner.is_congested or now < owner.told_until):
            state += IS_BEHIND
        return state + route.holder


def route_key(route_id: bytes, broker_id: bytes) -> bytes:
    """Of what one broker says of one route, see `gossip`."""
    return b"R" + route_id + broker_id


def _choose(entries: list[GossipEntry]) -> GossipEntry | None:
    """What counts of what brokers say of one route; None: nobody has it."""
    newest = _newest(entries)
    if newest is None or len(entries) == 1:
        return newest
    if not is_kept(_holder_in(newest)):
        return newest
    first = newest
    for entry in entries:
        is_older = (entry.timestamp_ms, entry.key) < (first.timestamp_ms, first.key)
        if is_older and is_kept(_holder_in(entry)):
            first = entry
    holder = _holder_in(first)
    return _newest([entry for entry in entries if _holder_in(entry) == holder])


def _newest(entries: list[GossipEntry]) -> GossipEntry | None:
    best: GossipEntry | None = None
    for entry in entries:
        if best is None or (entry.timestamp_ms, entry.key) > (best.timestamp_ms, best.key):
            best = entry
    return best


def _holder_in(entry: GossipEntry) -> bytes:
    """Whose Route Id it is at the broker that says so."""
    frame = decode_frame(entry.raw)
    assert isinstance(frame, RouteAdd)  # no other is live
    return holder_in(without_state(frame.tags)[1])


def _give_way(owner: Peer, route: Route, new: Route, member: Member) -> ReplacedElsewhere:
    """How the connection ends whose route is one of another broker's from now on."""
    if is_kept(route.holder) and is_kept(new.holder) and route.holder != new.holder:
        text = f"the Route Id {route.id_text} is that of a route of another identity at the broker {member.name}"
        return ReplacedElsewhere(owner, TAKEN, text, route.id)
    # D-09: a newer connection with this Route Id came at another broker.
    text = f"another connection came with the Route Id {route.id_text} at the broker {member.name}"
    return ReplacedElsewhere(owner, REPLACED, text, route.id)


def with_state(tags: list[Tag], state: bytes) -> list[Tag]:
    """What a ROUTE_ADD says of a route with these tags.

    A client may say a tag of that key, too: then ours is behind it, empty where there is nothing to say, so that the
    client's is never taken for it. D-63
    """
    said = filled(tags)
    if state or any(tag.key == STATE for tag in tags):
        said.append(Tag(STATE, state))
    return said


def without_state(said: list[Tag]) -> tuple[list[Tag], bytes]:
    """The tags of the route, and its state, of the tags of a ROUTE_ADD."""
    if not said or said[-1].key != STATE:
        return said, b""
    return said[:-1], said[-1].raw or b""
