"""The whole broker as one machine without I/O: bytes and time go in, bytes and events come out.

    connected(name, …) / receive(peer, data, now) / lost(peer, …)    what happened outside
    go_on(peer, now) / work(now)                                     more of what was received, a part at a time
    tick(now, at_ms) / next_deadline()                               time passed; when to tick at the latest
    take_writes()                                                    peers with bytes to write
    take_events()                                                    what happened inside

Decides the life of peers and of the routes that they offer: SETUP, ROUTE_SETUP, keepalive, replacement, loss, end.
Requests are the engine's. Nothing here reads a clock, waits, logs or raises on what a peer sends.
"""

from typing import Final

from broker.cluster.cluster import Cluster
from broker.cluster.settings import ClusterSettings
from broker.connections.close_reasons import CloseReasons
from broker.connections.closed import ClosedPeer
from broker.connections.deadlines import Deadlines
from broker.connections.drains import Drains
from broker.connections.ends import Ends
from broker.connections.limits import ConnectionLimits
from broker.connections.migration import Migration
from broker.connections.protection import Protection
from broker.connections.rate_limits import SPENT, TokenBucket
from broker.connections.registration import Registration
from broker.connections.sessions import Move, Sessions
from broker.event_log.histogram import Histogram
from broker.event_log.log import EventLog
from broker.event_log.route_events import tell_dropped, tell_slow
from broker.event_log.snapshots import Snapshots
from broker.event_log.start_event import started_tags
from broker.events import (
    BROKER_STARTED,
    BROKER_STOPPED,
    PEER_CLOSED,
    PEER_CONNECTED,
    FlowRecord,
    LifecycleEvent,
)
from broker.forwarding.engine import ZERO_N, Engine
from broker.forwarding.interbroker.remote import is_behind
from broker.forwarding.lease_grants import GRANTED_MS, GRANTED_N, LeaseGrants
from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from broker.forwarding.outbound import PUSHES, Total
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings
from broker.forwarding.traffic.request_log import RequestRows
from broker.routing.policies import Policies
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.table import Route, Table
from rsocket_wire.errors import CANCELED, CONNECTION_CLOSE, CONNECTION_ERROR, REJECTED_SETUP, InvalidFrame, Refusal
from rsocket_wire.rsocket.connection import CLOSES, NEW, NOTHING, OPEN, is_fatal
from rsocket_wire.rsocket.frames import (
    CANCEL,
    ERROR,
    EXT,
    FOLLOWS,
    HEADER_BYTES,
    IGNORE,
    KEEPALIVE,
    KIND_NAMES,
    LEASE,
    METADATA,
    METADATA_PUSH,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    RESPOND,
    RESUME,
    RESUME_OK,
    decode_lease,
    decode_resume,
    encode_cancel,
    encode_error,
    encode_lease,
    encode_request_n,
    has_position,
    is_sound,
    keepalive_position,
)
from rsocket_wire.rsocket.framing import LENGTH_BYTES, FrameCursor
from rsocket_wire.rsocket.metadata import ABSENT, BROKEN
from rsocket_wire.rsocket.notices import Notice, client_id_of
from rsocket_wire.timers import NEVER
from rsocket_wire.wire.frames import ADDRESS, BROKER_INFO
from rsocket_wire.wire.ids import id_text

CoreSettings = Settings

TOLD_S: Final = 0.1  # for which other brokers hold a route to be behind at least
ALL_FRAMES: Final = 1 << 60
SMALL_BYTES: Final = 1 << 10  # of an answer that waits, with its cost: an ERROR in its place would cost as much
FED_BYTES: Final = 64 << 20  # more may wait for a peer while callers are paused for it: what they had sent before that

_LOOKED_AT: Final = METADATA | FOLLOWS  # flags of frames that do not simply pass

COMPILED: Final = not __file__.endswith(".py")


class FarRoute:
    """A route of another broker that is behind, and the callers that are not read from because they feed it."""

    __slots__ = ("feeders", "route")

    def __init__(self, route: Route) -> None:
        self.route: Final = route
        self.feeders: Final[dict[int, Peer]] = {}  # by id


class Core(Ends):
    """One broker."""

    __slots__ = (
        "_announced",
        "_behind",
        "_congested",
        "_congestion",
        "_deadlines",
        "_event_log",
        "_dirty",
        "_fanouts",
        "_fed",
        "_decisions",
        "_feedings",
        "_flow_at",
        "_flow_at_ms",
        "_flow_ms",
        "_flow_from",
        "_fragments",
        "_keepalives",
        "_close_reasons",
        "_refused",
        "_relays",
        "_retries",
        "_small_bytes",
        "_snapshots",
        "_suspects",
        "_told",
        "_turned",
        "_registration",
        "_over",
        "added",
        "broker_id",
        "cluster",
        "limits",
        "drains",
        "engine",
        "migration",
        "frames_in",
        "id_text",
        "lag",
        "outbound",
        "protection",
        "query",
        "sessions",
        "settings",
        "started_at_ms",
        "table",
    )

    def __init__(
        self,
        settings: Settings,
        broker_id: bytes,
        dice: Rng,
        now: float,
        at_ms: int,
        cluster: ClusterSettings | None = None,
        entropy: bytes = b"",
    ) -> None:
        """`now` seconds, monotonic; `at_ms` the same moment in milliseconds since the epoch.

        `cluster`: None for a broker to which no other may link. `entropy`: see `Cluster`.
        """
        self.settings: Final = settings
        self.broker_id: Final = broker_id
        self.id_text: Final = id_text(broker_id)
        self.started_at_ms: Final = at_ms
        self.table: Final = Table(Policies(settings.policy, settings.policies))
        seed = dice.below(1 << 32)
        # Nobody else rolls the choosers' dice, so that whoever knows the seed can repeat what they chose.
        self.query: Final = Query(self.table, Rng(seed), settings.strict_hints, settings.max_lookup_cache)
        self.engine: Final = Engine(settings, self.query)
        self._fanouts: Final = self.engine.steps
        self._feedings: Final = self.engine.congested_requests
        self._decisions: Final = self.engine.decisions
        self._retries: Final = self.engine.retries
        self._event_log: Final = EventLog(now, at_ms, self.query, self.engine.request_log)
        self.sessions: Final = Sessions(settings, self.table.loads.masks, self._event_log)
        self._dirty: Final[list[Peer]] = []  # peers with output or about to close; the peers append themselves
        self._behind: Final[dict[int, FarRoute]] = {}  # by number; bounded by the callers that wait for them
        self._congested: Final[list[Peer]] = []  # peers that have just become so
        self._told: Final[dict[int, Peer]] = {}  # by id, of whose routes other brokers hold that they are behind
        self._fed: Final[list[Peer]] = []  # congested peers that were just sent requests; they append themselves
        self._turned: Final[list[Peer]] = []  # peers whose reading stops or goes on
        self.outbound: Final = Total(settings.max_buffered_bytes)
        self._over: Final = self.outbound.over
        self._deadlines: Final = Deadlines()
        self.limits: Final = ConnectionLimits(settings, self)
        self._close_reasons: Final = CloseReasons()
        self.migration: Final = Migration(broker_id, settings.drain_grace_s, self.table, self._event_log, self)
        self.drains: Final = Drains(self.table, self.engine, self._event_log, self, self.migration, self.limits.peers)
        self.cluster: Final = Cluster(
            cluster if cluster is not None else ClusterSettings(),
            broker_id,
            settings.broker_name if settings.broker_name else f"broker-{self.id_text[:8]}",
            settings.require_annotations,
            self.table,
            self.engine,
            self.drains,
            self._event_log,
            self,
            dice,
            entropy,
            now,
            at_ms,
        )
        self._congestion: Final = self.cluster.congestion
        self._registration: Final = Registration(
            settings, self.table, self.engine, self.drains, self._event_log, self, self.cluster
        )
        self.protection: Final = Protection(self.table, self.engine.breakers, self._event_log)
        self._announced: Final = self.engine.announced
        self._relays: Final = self.engine.ingress
        self._suspects: Final = self.table.loads.suspects
        self._refused: Final = self.engine.breakers.changes
        self._keepalives: Final = TokenBucket(settings.max_keepalives_per_s, "limits.max_keepalives_per_s")
        self._fragments: Final = TokenBucket(settings.max_small_fragments_per_s, "limits.max_small_fragments_per_s")
        self._small_bytes: Final = settings.min_fragment_bytes - LENGTH_BYTES  # shorter fragments are small
        self.frames_in = 0  # received, ever
        # Both are measured by the edge.
        self.added: Final = Histogram()  # what the broker adds to each frame: from arrival to the end of the writing
        self.lag: Final = Histogram()  # how late its ticks are
        self._flow_at = now + settings.flow_interval_s
        self._flow_from = now
        self._flow_at_ms = at_ms  # of the interval that is over: its end, and how long it was
        self._flow_ms = 0
        self._snapshots: Final = Snapshots(self.table, self.query, self._event_log, settings.snapshot_s, now)
        tags = started_tags(settings, cluster.mates if cluster is not None else [], seed, COMPILED)
        self._event_log.tell(BROKER_STARTED, at_ms, tags=tags, detail="compiled" if COMPILED else "interpreted")

    # What happens outside

    def connected(self, name: str, framed: bool, now: float, address: str = "", principal: str = "") -> Peer:
        """A connection was accepted. `framed`: its bytes are a stream with 24-bit lengths, else messages.

        `address`, `principal`: where it comes from and who it is, as far as limits count it; empty where there is none.
        """
        peer = self._make_peer(name, framed, now, 1)
        crowd = self.limits.enter(peer, address, principal, self.sessions.suspended_n)
        if crowd:
            self.end(peer, "over-limit", crowd, now, REJECTED_SETUP)
        else:
            self._watch(peer, now + self.settings.setup_timeout_s)
        return peer

    def dialled(self, name: str, framed: bool, now: float, url: str, address: str = "", principal: str = "") -> Peer:
        """A connection to another broker is there, which `cluster.take_dials` had asked for; else as `connected`."""
        peer = self._make_peer(name, framed, now, 0)
        # One too many or not: a broker that is full of clients needs the others more than ever.
        self.limits.enter(peer, address, principal, self.sessions.suspended_n)
        setup = self.cluster.dialled(peer, url, now)
        peer.connection.begin(setup)
        self.engine.set_mimes(peer, setup)
        peer.frame.max_bytes = self.settings.max_frame_bytes
        peer.send(setup.encode())
        self._watch(peer, now + peer.connection.lifetime_s)
        return peer

    def receive(self, peer: Peer, data: bytes, now: float, most_n: int = ALL_FRAMES) -> bool:
        """Bytes from a peer: any piece of the stream when framed, else exactly one message.

        True when they are more work than `most_n` frames that simply pass: then `go_on` is to be called until it says
        False, and nothing more is to be received from this peer before that.
        """
        if peer.is_ending or peer.is_lost:
            return False
        peer.heard_at = now
        peer.bytes_in += len(data)
        peer.frame.feed(data, now)
        return self._work_off(peer, now, most_n)

    def go_on(self, peer: Peer, now: float, most_n: int = ALL_FRAMES) -> bool:
        """Deals with more of the frames that `receive` has left; True when there are still more."""
        if peer.is_ending or peer.is_lost:
            return False
        peer.heard_at = now  # until now it has not been read from, so nothing of its silence is its own
        if peer.held_n:
            return True
        peer.frame.now = now
        return self._work_off(peer, now, most_n)

    def _work_off(self, peer: Peer, now: float, most_n: int) -> bool:
        if self._fed:
            self._let_be(now)  # what was let go since by time, or by somebody's end
        frame = peer.frame
        session = peer.session
        begins = peer.begins
        frames = 0
        engine = self.engine
        extra_n = engine.extra_n
        while frame.advance():
            frames += 1
            stream_id = frame.stream_id
            if stream_id:
                if session is not None and has_position(frame.kind):
                    session.received(frame.end - frame.start)
                stream = peer.streams.get(stream_id)
                if stream is None:
                    self._handle_new(peer, frame)
                    if engine.extra_n != extra_n:
                        most_n -= engine.extra_n - extra_n
                        extra_n = engine.extra_n
                elif (frame.flags & _LOOKED_AT or frame.kind == ERROR) and not self._passes(peer, frame):
                    pass
                elif stream_id & 1 == begins:  # the peer began it
                    stream.from_caller(frame)
                    if self._decisions:
                        engine.carry_out()
                else:
                    if self._fed:
                        self._pause(peer)  # for what it has asked as a caller
                    stream.from_route(frame)
                    if self._retries:
                        engine.retry(frame)
                    if self._fed:  # its answer let something go on that had waited
                        self._let_be(now)
            else:
                self._handle_zero(peer, frame)
                session = peer.session  # a SETUP began it
                most_n -= ZERO_N + engine.extra_n - extra_n
                extra_n = engine.extra_n
            if frames >= most_n or peer.held_n:
                break
        is_left = (frames >= most_n or peer.held_n > 0) and frame.has_more()
        self.frames_in += frames
        if frame.fault and not peer.is_ending:
            self.end(peer, "bad-frame", frame.fault, now)
        if self._fed:
            self._pause(peer)
        if self._over:
            self._shed(now)
        if self._feedings:
            self._pause_for_routes()
        if self._congestion.has_relief:
            self._look_at_behind(now)
        if self._congested:
            self._tell_congested(now)
        if self._announced:
            self._read_announced(now)
        if self._suspects:
            self.protection.judge(now)
        if self._refused:
            self.protection.tell_opened(now)
        return (is_left or peer.held_n > 0) and not peer.is_ending

    def has_work(self) -> bool:
        """Work that is done a part at a time is left: `work` is to be called in each turn."""
        return self._fanouts.has_work() or self.engine.flows.has_records()

    def work(self, now: float) -> None:
        """A turn of what goes to many branches, and of the records of flows."""
        if self.engine.flows.has_records():
            self._tell_flows(False)
        done_n = 0
        while self._fanouts.has_work() and done_n < MAX_BRANCHES_PER_TURN:
            if self._fed:
                self._let_be(now)
            fanout, branches_n = self._fanouts.advance(now)
            done_n += max(1, branches_n)
            if self._fed:
                self._pause(fanout.caller)
        if self._over:
            self._shed(now)

    def congested(self, peer: Peer) -> None:
        """The peer's transport is to be written no more to, for now: what is sent to the peer waits in the core.

        Callers that send it more are not read from (`take_turned`), and REQUEST_N frames that it sends wait: it has not
        read what it asked for before. A service is never held up because one of those that it answers reads slowly;
        what waits is bounded (`_shed`).
        """
        if peer.is_lost:
            return
        peer.set_blocked(True)
        if not peer.is_congested:
            peer.is_congested = True
            self._mask_congested(peer)
            self.engine.congestions_n += 1
            self._congested.append(peer)

    def relieved(self, peer: Peer, now: float) -> None:
        """The peer's transport may be written to again.

        To be called once more when all that waited was taken: only then those that waited for the peer are read from.
        """
        peer.set_blocked(False)
        if not peer.pending_bytes:
            self._release(peer, now)

    def _release(self, peer: Peer, now: float) -> None:
        """The peer takes all that is written to it again, or is gone: those that waited for it go on."""
        if peer.is_congested:
            peer.is_congested = False
            self._mask_congested(peer)
            self.engine.congestions_n += 1
        for stream_id, credit in peer.take_credit().items():
            if peer.streams.get(stream_id) is credit.stream:
                frame = self.engine.cursor(encode_request_n(stream_id, credit.n), now)
                if stream_id & 1 == peer.begins:
                    credit.stream.from_caller(frame)
                else:
                    credit.stream.from_route(frame)
        feeders = peer.feeders
        if not feeders:
            return
        peer.feeders = {}
        self._let_go_on(peer.id, feeders, now)

    def _let_go_on(self, key: int, feeders: dict[int, Peer], now: float) -> None:
        """What these have fed takes more again; `key` in their `feeds`."""
        for feeder in feeders.values():
            if feeder.link is not None:
                self._congestion.relieved(feeder, now)
                continue
            if feeder.feeds.pop(key, None) is None:
                continue
            if not feeder.feeds:
                feeder.heard_at = now  # what it said meanwhile was not read
                self._turned.append(feeder)

    def _hold_up(self, caller: Peer, key: int, feeders: dict[int, Peer]) -> None:
        """The caller is not read from until what it feeds takes more again."""
        caller.feeds[key] = feeders
        if len(caller.feeds) == 1:
            self._turned.append(caller)

    def _pause_for_routes(self) -> None:
        """Callers have just sent requests to routes of other brokers that are behind: as if they were here.

        A link is told of it where that is news to it; it is always read from.
        """
        for feeding in self._feedings:
            caller = feeding.caller
            route = feeding.route
            if caller.link is not None:
                self._congestion.fed(caller, caller.heard_at)
                continue
            if route is None or caller.is_lost or not is_behind(route):
                continue
            far = self._behind.get(route.number)
            if far is None:
                far = self._behind[route.number] = FarRoute(route)
            if caller.id not in far.feeders:
                far.feeders[caller.id] = caller
                self._hold_up(caller, -route.number, far.feeders)
        self._feedings.clear()

    def _look_at_behind(self, now: float) -> None:
        """Routes of other brokers that have caught up, or left."""
        self._congestion.has_relief = False
        for number, far in list(self._behind.items()):
            if far.route.slot < 0 or not is_behind(far.route) or not far.feeders:
                del self._behind[number]
                self._let_go_on(-number, far.feeders, now)

    def _tell_congested(self, now: float) -> None:
        """Other brokers hear at once that a route of ours is behind, and that it is no more not before TOLD_S."""
        for peer in self._congested:
            route = peer.route
            if peer.is_congested and isinstance(route, Route) and route.slot >= 0:
                peer.told_until = now + TOLD_S
                self._told[peer.id] = peer
                self.cluster.say_state(route, now)
        self._congested.clear()

    def _tell_relieved(self, now: float) -> None:
        """Other brokers hear that routes of ours are behind no more."""
        for peer in list(self._told.values()):
            if now < peer.told_until or (peer.is_congested and not peer.is_lost):
                continue
            del self._told[peer.id]
            route = peer.route
            if isinstance(route, Route) and route.slot >= 0:
                self.cluster.say_state(route, now)

    def _shed(self, now: float) -> None:
        """Too much waits for some peers, or for all: the requests that hold most end until the rest fits. D-72"""
        total = self.outbound
        limit = self.settings.max_pending_bytes
        option = f"the limit is {limit} (limits.max_pending_bytes)"
        for peer_id in total.over:
            queue = total.queues.get(peer_id)
            peer = self.limits.peers.get(peer_id)
            if queue is None or peer is None:
                continue
            is_fed = bool(peer.feeders) or peer.link is not None
            fed_limit = limit + FED_BYTES if is_fed else limit
            of_callers = f", and {FED_BYTES} for what callers had sent already" if is_fed else ""
            while queue.is_over(fed_limit):
                text = f"{queue.held_bytes} bytes wait for the connection, {option}{of_callers}"
                if not self.shed_largest(peer, f"{text}; this request has most of them", now):
                    self._hold_back(peer, text, now)
                    break
        total.over.clear()
        while total.used_bytes > total.limit_bytes:
            text = f"{total.used_bytes} bytes wait in the broker, the limit is {total.limit_bytes}"
            text += " (limits.max_buffered_bytes)"
            peer = self.limits.peers.get(total.find_largest())
            if peer is not None and self.shed_largest(peer, f"{text}; this request has most of them", now):
                continue
            peer = self.limits.peers.get(total.find_fullest())
            assert peer is not None  # queues are those of peers that are there, and something waits
            text += f", {peer.pending_bytes} of them for this connection"
            peer.drop_output()
            self.end_slow(peer, "over-limit", text, now)

    def shed_largest(self, peer: Peer, text: str, now: float) -> bool:
        """Ends the request of which most waits for the peer, or drops a METADATA_PUSH.

        False: what waits are the broker's own frames, or answers as small as the ERROR that would stand for them.
        """
        stream_id = peer.find_largest()
        if not stream_id:
            return False
        if stream_id == PUSHES:
            peer.drop_push()
            self._count_dropped(peer)
            return True
        stream = peer.streams.get(stream_id)
        if stream is not None and stream.shed(text, now):
            return True
        if stream_id & 1 == peer.begins:  # the rest of an answer that has come whole
            if peer.held_of(stream_id) <= SMALL_BYTES:
                return False
            peer.drop_stream(stream_id)
            peer.send(encode_error(stream_id, CANCELED, f"over-limit: {text}"))
            return True
        kind = peer.first_kind(stream_id)
        peer.drop_stream(stream_id)
        if kind == REQUEST_FNF:
            self._count_dropped(peer)
        elif not REQUEST_RESPONSE <= kind <= REQUEST_CHANNEL and kind != CANCEL:
            peer.send(encode_cancel(stream_id))  # the route has seen the request, and what ended it is dropped
        return True

    def _count_dropped(self, peer: Peer) -> None:
        """A fire-and-forget or push for it was dropped."""
        if peer.link is not None:
            self.engine.drops.add_of_link(peer.name, peer.link.name)
        else:
            self.engine.drops.add(peer.caller_service)

    def _hold_back(self, peer: Peer, text: str, now: float) -> None:
        """Too much waits that nobody can be asked to do without: the peer is not read from until it has read.

        Such are the ERRORs for requests that it sends and sends.
        """
        if peer.link is not None:
            self.end_slow(peer, "over-limit", text, now)
        elif peer.is_congested and peer.id not in peer.feeders:
            peer.feeders[peer.id] = peer
            self._hold_up(peer, peer.id, peer.feeders)

    def _mask_congested(self, peer: Peer) -> None:
        """Requests that may go elsewhere do."""
        route = peer.route
        if isinstance(route, Route) and route.slot >= 0:
            masks = self.table.masks
            if peer.is_congested:
                masks.put(masks.congested, route.slot)
            elif masks.congested.has(route.slot):
                masks.take(masks.congested, route.slot)

    def has_turned(self) -> bool:
        """Somebody is to be read from no more, or again."""
        return len(self._turned) > 0

    def take_turned(self) -> list[Peer]:
        """Peers that are to be read from no more, or again: see `Peer.is_paused`."""
        turned = self._turned[:]
        self._turned.clear()
        return turned

    def lost(self, peer: Peer, reason: str, now: float) -> None:
        """The transport is gone. `reason` for people, unless the connection was ended for a better one.

        A peer with a session is suspended.
        """
        if peer.is_lost:
            return
        if not peer.is_ending:
            if peer.session is not None:
                self._suspend(peer, "left", reason, now)
                return
            peer.end_reason = "left"
            peer.end_detail = reason
            self._let_go(peer, now)
        self._forget(peer, now)

    def left(self, peer: Peer, reason: str, now: float) -> None:
        """The other end has closed the connection; the transport still has to write what was written to it before.

        The peer has no session.
        """
        if peer.is_ending or peer.is_lost:
            return
        peer.end("left", reason)
        self._let_go(peer, now)

    def stuck(self, peer: Peer, text: str, now: float) -> None:
        """The peer's transport has taken nothing for too long: it is closed, and the peer ended or suspended."""
        if peer.session is not None:
            self._suspend(peer, "slow-peer", text, now)
        else:
            self.end_slow(peer, "slow-peer", text, now)

    def end_slow(self, peer: Peer, word: str, text: str, now: float) -> None:
        if not peer.is_ending and not peer.is_lost:
            tell_slow(self._event_log, peer, self._event_log.wall(now), word, text)
        self.end(peer, word, text, now)

    def end(self, peer: Peer, word: str, text: str, now: float, code: int = 0) -> None:
        """Ends a connection with an ERROR on stream 0; its route leaves and its streams end at once.

        `code` 0 means the RSocket code of the word, or what stands for it in the state of the connection.
        """
        if peer.is_ending or peer.is_lost:
            return
        is_suspended = peer.is_suspended
        if is_suspended:
            self.limits.set_away(peer, False)
        refusal = Refusal(word, text)
        if (peer.is_blocked or peer.is_torn or is_suspended) and peer.client_id:
            self._close_reasons.remember(peer.client_id, refusal.message, now)
        if not peer.is_torn:
            peer.send(encode_error(0, code if code else self._connection_code(peer, refusal), refusal.message))
        peer.end(word, text)
        self._let_go(peer, now)
        if is_suspended:
            self._forget(peer, now)

    def untold(self, peer: Peer, now: float) -> None:
        """The peer was ended and may not hear why: not all that goes before the ERROR is taken, or will ever be."""
        if peer.is_ending and peer.client_id and peer.end_reason != "left":
            self._close_reasons.remember(peer.client_id, f"{peer.end_reason}: {peer.end_detail}", now)
            peer.client_id = b""  # once: it may have come again, and been told, before its old transport is gone

    def outbid(self, peer: Peer, text: str, now: float) -> None:
        if not self.migration.let_finish(peer, text, now):
            self.end(peer, "replaced", text, now)

    def withdraw(self, peer: Peer, reason: str, now: float) -> None:
        self._registration.withdraw(peer, reason, now)

    def stop(self, text: str, now: float) -> None:
        """Tells all peers CONNECTION_CLOSE and ends them; the last events are there to be taken."""
        self.engine.is_draining = True
        for peer in self.peers():
            self.end(peer, "broker-stopped", text, now)
        self._end_flows(now)
        self._tell_flows(True)
        self._snapshots.finish()
        at_ms = self._event_log.wall(now)
        uptime_ms = max(0, at_ms - self.started_at_ms)
        self._event_log.tell(BROKER_STOPPED, at_ms, detail=text, uptime_ms=uptime_ms)

    def leave(self, within_s: float, grace_s: float, now: float) -> bool:
        """Asks clients to move to other brokers within that time, and serves them; False when none can (D-54).

        `grace_s`: for what runs on connections that they leave behind. It is over when `migration.is_over`.
        """
        may_move = self.migration.begin(within_s, grace_s, now)
        if may_move:
            self.cluster.leave(now)
        return may_move

    def drain(self) -> None:
        """No new requests from now on; those that run go on."""
        self.engine.is_draining = True

    # Time

    def tick(self, now: float, at_ms: int) -> None:
        """Time passed: `now` monotonic seconds, `at_ms` the wall clock."""
        self._event_log.set_clock(now, at_ms)
        peer = self._deadlines.take_due(now)
        while peer is not None:
            self._look_at(peer, now)
            peer = self._deadlines.take_due(now)
        self.cluster.tick(now)
        timed = self.engine.timers.take_due(now)
        while timed is not None:
            timed.expire(now)
            self.engine.carry_out()
            timed = self.engine.timers.take_due(now)
        if self._suspects:  # a deadline that passes is an error, too
            self.protection.judge(now)
        self.protection.tick(now)
        if self.engine.pending.size:
            self.engine.look_again(self.table.masks.generation, now)
        migration = self.migration
        if migration.wants_urls(now):
            migration.set_urls(self.cluster.client_urls(), now)
        migration.tick(now)
        if migration.is_over:
            self.engine.is_draining = True
        if not self.drains.is_idle():
            self.drains.close_leaving(now)
        self._end_overrun(now)
        if self._over:
            self._shed(now)
        if self._feedings:  # of requests that have waited
            self._pause_for_routes()
        if self._behind:
            self._look_at_behind(now)
        if self._congested:
            self._tell_congested(now)
        if self._told:
            self._tell_relieved(now)
        for dropped in self.engine.drops.take(now):
            tell_dropped(self._event_log, dropped, at_ms)
        if now >= self._flow_at:
            self._end_flows(now)
        if self.engine.flows.has_records():
            self._tell_flows(False)
        self._snapshots.tick(now)

    def next_deadline(self) -> float:
        """When to tick at the latest, monotonic seconds."""
        rooms_at = min(self.engine.timers.first(), self.protection.next_at(), self.drains.next_at())
        rooms_at = min(rooms_at, self.migration.next_at(), self._snapshots.next_at())
        return min(self._flow_at, self._deadlines.first(), rooms_at, self.cluster.next_at())

    # What comes out

    def has_writes(self) -> bool:
        """Somebody has bytes to be written, or is to be closed."""
        return len(self._dirty) > 0

    def take_writes(self) -> list[Peer]:
        """Peers with output (`Peer.take_output`) or to be closed after it (`Peer.is_ending`)."""
        peers = self._dirty[:]
        self._dirty.clear()
        return peers

    def write_later(self, peer: Peer) -> None:
        """The peer, which was taken, is to be written to in the next turn."""
        self._dirty.append(peer)

    def take_moves(self) -> list[Move]:
        """Transports to move, in order; nothing of a peer may be written or read before.

        Where a move says that there are frames, it is as if `receive` had said so of its peer.
        """
        return self.sessions.take_moves()

    def take_events(self) -> list[LifecycleEvent | FlowRecord]:
        """What happened since the last call; in order, but for the routes of a snapshot."""
        return self._event_log.take()

    @property
    def events_n(self) -> int:
        """How many events wait to be taken."""
        return self._event_log.waiting_n

    def has_requests(self) -> bool:
        """Single requests have ended since they were taken."""
        return bool(self.engine.request_log.rows)

    def take_requests(self) -> RequestRows | None:
        """Single requests that ended since the last call; None where there are none."""
        return self.engine.request_log.take()

    @property
    def events_dropped(self) -> int:
        """Events that found nobody to take them in time."""
        return self._event_log.dropped

    @property
    def closed(self) -> list[ClosedPeer]:
        """The latest connections that ended, oldest first."""
        return self.limits.closed.latest

    @property
    def closed_by_reason(self) -> dict[str, int]:
        """How many connections ever closed, by code word or "left"."""
        return self.limits.closed.by_reason

    def peers(self) -> list[Peer]:
        """All connections, oldest first."""
        return list(self.limits.peers.values())

    # Inside

    def _make_peer(self, name: str, framed: bool, now: float, begins: int) -> Peer:
        number = self.limits.accepted_n + 1
        at_ms = self._event_log.wall(now)
        return Peer(number, name, framed, self.settings, self._dirty, self._fed, self.outbound, now, at_ms, begins)

    def _let_be(self, now: float) -> None:
        """Congested peers were sent requests that no caller has just sent: nobody is to blame for that."""
        self._end_overrun(now)
        for fed in self._fed:
            fed.is_fed = False
        self._fed.clear()

    def _pause(self, caller: Peer) -> None:
        """The caller has just sent requests to congested peers, or too many to suspended ones.

        A link is always read from: others speak on it, too. When it is another link that is congested, it is told so
        instead; of routes all brokers are told (`_tell_congested`).
        """
        self._end_overrun(caller.heard_at)
        for fed in self._fed:
            fed.is_fed = False
            if fed is caller or caller.is_lost:
                continue
            if fed.is_congested and caller.id not in fed.feeders:
                fed.feeders[caller.id] = caller
                if caller.link is None:
                    self._hold_up(caller, fed.id, fed.feeders)
                elif fed.link is not None:
                    self._congestion.fed(caller, caller.heard_at)
        self._fed.clear()

    def _floods(self, peer: Peer, frame: FrameCursor) -> bool:
        """A frame that may be a small fragment: whether it is one too many, and the connection was ended for it."""
        if frame.kind != PAYLOAD and not REQUEST_RESPONSE <= frame.kind <= REQUEST_CHANNEL:
            return False  # the bit means something else there, or nothing
        if peer.link is not None:
            return False  # of many callers, each of which is measured where it is connected
        at = self._fragments.spend(peer.fragments_at, frame.now)
        if at != SPENT:
            peer.fragments_at = at
            return False
        shortest = self.settings.min_fragment_bytes
        text = f"fragments of less than {shortest} bytes: {self._fragments.too_many}"
        self.end(peer, "over-limit", text, frame.now)
        return True

    def _handle_keepalive(self, peer: Peer, frame: FrameCursor) -> None:
        if frame.flags & RESPOND:
            at = self._keepalives.spend(peer.keepalives_at, frame.now)
            if at == SPENT:
                self.end(peer, "over-limit", f"KEEPALIVEs to be answered: {self._keepalives.too_many}", frame.now)
                return
            peer.keepalives_at = at
        session = peer.session
        if session is not None:
            session.acknowledge(keepalive_position(frame.data, frame.start, frame.end))
        elif not frame.flags & RESPOND and self.cluster.knows(peer):
            self.cluster.heard(peer, frame.data[frame.start + 14 : frame.end], frame.now)
        answer = peer.connection.handle_keepalive(frame, session.received_position if session is not None else 0)
        if answer is not None:
            peer.send(answer)

    def _handle_new(self, peer: Peer, frame: FrameCursor) -> None:
        if peer.connection.state != OPEN:
            self._handle_first(peer, frame)
            return
        if peer.link is not None and self._relays.joins_at_once(peer, frame):
            return
        if frame.flags & FOLLOWS and frame.end - frame.start < self._small_bytes and self._floods(peer, frame):
            return
        fault = ""
        if frame.kind > RESUME_OK or frame.kind == 0:
            if is_fatal(frame.kind, frame.flags):
                fault = f"frame type 0x{frame.kind:02x} on stream {frame.stream_id} is unknown and may not be ignored"
            else:
                self.engine.ignored += 1
        else:
            fault = self.engine.handle_request(peer, frame)
        if fault:
            self.end(peer, "bad-frame", fault, frame.now)

    def _read_announced(self, now: float) -> None:
        """ROUTE_SETUPs that came with requests."""
        for announcement in self._announced:
            if not announcement.peer.is_ending:
                self._registration.announce(announcement.peer, announcement.raw, CONNECTION_ERROR, now)
        self._announced.clear()

    def _passes(self, peer: Peer, frame: FrameCursor) -> bool:
        """A frame of an open stream that may be one of a flood, or may be broken: whether it goes on.

        A broken one is its sender's fault, so its sender's end: "the frame is invalid and the receiver MUST send an
        ERROR[CONNECTION_ERROR] frame and close the underlying transport connection on reception unless the frame's
        IGNORE flag is set." D-33
        """
        size = frame.end - frame.start
        if frame.flags & FOLLOWS and size < self._small_bytes and self._floods(peer, frame):
            return False
        if is_sound(frame):
            return True
        if frame.flags & IGNORE:
            self.engine.ignored += 1
            return False
        text = f"{KIND_NAMES[frame.kind]} of {size} bytes on stream {frame.stream_id} is too short for what it declares"
        self.end(peer, "bad-frame", text, frame.now)
        return False

    def _handle_zero(self, peer: Peer, frame: FrameCursor) -> None:
        connection = peer.connection
        kind = frame.kind
        if connection.state == NEW:
            self._handle_first(peer, frame)
        elif kind == KEEPALIVE:
            self._handle_keepalive(peer, frame)
        elif kind == METADATA_PUSH:
            self._handle_push(peer, frame)
        elif kind == LEASE:
            self._handle_lease(peer, frame)
        elif kind == ERROR:
            verdict = connection.handle_error(frame)
            if verdict == CLOSES and peer.streams:
                self.sessions.close(peer)
                self._registration.withdraw(peer, "left", frame.now)  # the peer closes when its streams have ended
            elif verdict != NOTHING:
                text = frame.data[frame.start + 10 : min(frame.end, frame.start + 266)].decode("utf-8", "replace")
                said = f": {text}" if connection.is_dialled and text else ""
                peer.end("left", f"the peer sent an ERROR on stream 0{said}")
                self._let_go(peer, frame.now)
        elif kind == RESUME:
            # "A Server that receives a RESUME frame after a SETUP frame, SHOULD send an ERROR[CONNECTION_ERROR]", and
            # the same for one after a previous RESUME frame.
            self.end(peer, "bad-frame", "RESUME must be the first frame of a connection", frame.now)
        elif is_fatal(kind, frame.flags):
            name = KIND_NAMES.get(kind, f"type 0x{kind:02x}") if kind != EXT else "EXT"
            self.end(peer, "bad-frame", f"frame {name} on stream 0 is unknown and may not be ignored", frame.now)
        else:
            self.engine.ignored += 1

    def _handle_lease(self, peer: Peer, frame: FrameCursor) -> None:
        """The peer says how many requests it takes; one that did not ask for leases has nothing to grant."""
        ttl_ms, requests_n = decode_lease(frame.data, frame.start, frame.end)
        if peer.granting is None or ttl_ms < 0:
            self.engine.ignored += 1
        else:
            was_open = peer.granting.lease.left_n > 0
            peer.granting.granted(requests_n, ttl_ms, frame.now)
            route = peer.route
            if isinstance(route, Route) and route.slot >= 0 and requests_n and not was_open:
                self.engine.route_opened(route, frame.now)

    def _handle_first(self, peer: Peer, frame: FrameCursor) -> None:
        sessions = self.sessions
        if sessions.is_offered and frame.kind == RESUME and not frame.stream_id:
            self._handle_resume(peer, frame)
            return
        refusal = peer.connection.handle_first(frame, sessions.is_offered)
        if refusal is not None:
            self.end(peer, refusal.word, refusal.text, frame.now)
            return
        setup = peer.connection.setup
        assert setup is not None  # handle_first accepted it
        if peer.is_extra and self.limits.is_over(peer):  # the suspended ones keep their places
            self.end(peer, "over-limit", self.limits.refusal_of(peer), frame.now, REJECTED_SETUP)
            return
        self.engine.set_mimes(peer, setup)
        peer.frame.max_bytes = self.settings.max_frame_bytes
        metadata = setup.metadata or b""
        at, to = self.engine.find_address(peer, metadata, 0, len(metadata), False) if metadata else (ABSENT, 0)
        greets = at >= 0 and to - at >= 6 and metadata[at + 4] >> 2 == BROKER_INFO
        if self.drains.is_leaving and not greets:  # links come again: routes that nobody else has are still asked
            self.end(peer, "draining", "the broker takes no new connections", frame.now, REJECTED_SETUP)
            return
        if setup.wants_resume:
            if sessions.find(setup.token) is not None:
                # "A server should not accept a SETUP with a Token that is currently already being used"
                self.end(peer, "token-in-use", "another connection has this resume token", frame.now, REJECTED_SETUP)
                return
            sessions.open(peer, setup.token)
        self._watch(peer, frame.now + peer.connection.lifetime_s)
        self._event_log.tell(PEER_CONNECTED, self._event_log.wall(frame.now), peer=peer.name)
        if setup.wants_lease:
            peer.granting = LeaseGrants(self.table.masks, self.engine.timers, frame.now)
            peer.send(encode_lease(GRANTED_MS, GRANTED_N))
        if metadata:
            if greets:
                self.cluster.greeted(peer, metadata[at:to], frame.now)
            elif at >= 0:
                self._registration.announce(peer, metadata[at:to], REJECTED_SETUP, frame.now)
            elif at != ABSENT:
                what = "has too many entries" if at == BROKEN else "breaks off"
                text = f"the composite metadata of the SETUP {what}"
                self.end(peer, "bad-route", text, frame.now, REJECTED_SETUP)
            if not peer.is_ending:
                self.migration.greet(peer, setup.metadata_mime, metadata)
                peer.client_id = client_id_of(metadata)
                last_end = self._close_reasons.take(peer.client_id, frame.now) if peer.client_id else ""
                if last_end:
                    told = Notice(self.migration.urls, False, 0, last_end)
                    peer.send(told.encode(self.broker_id, self._event_log.wall(frame.now)))

    def _handle_resume(self, newcomer: Peer, frame: FrameCursor) -> None:
        """A RESUME as the first frame: the peer that it means goes on with this transport."""
        now = frame.now
        try:
            resume = decode_resume(frame.data, frame.start, frame.end)  # its version: the SETUP's holds (D-39)
        except InvalidFrame as error:
            self.end(newcomer, "bad-frame", error.text, now)
            return
        peer = self.sessions.find(resume.token)
        session = peer.session if peer is not None else None
        is_other = peer is not None and peer.principal != "" and peer.principal != newcomer.principal
        if peer is None or session is None or is_other:  # who is known may not be followed by somebody else
            self.end(newcomer, "unknown-session", "there is no session to resume, connect again with a SETUP", now)
            return
        obstacle = session.obstacle(resume.received_position, resume.first_position)
        if obstacle:
            self.end(newcomer, "cannot-resume", obstacle, now)
            # "On receiving an ERROR[REJECTED_RESUME] frame, the client MUST NOT attempt resumption again."
            self.end(peer, "cannot-resume", obstacle, now, CONNECTION_ERROR)
            self._close_reasons.take(peer.client_id, now)  # the newcomer has just been told
            return
        if not session.is_suspended:
            # The client knows sooner than we that its old socket is dead.
            self._suspend(peer, "left", f"resumed by {newcomer.name}", now)
        self.limits.set_away(peer, False)
        self.sessions.resume(peer, session, newcomer, resume, now)
        self._forget(newcomer, now)
        if peer.granting is not None:
            peer.resend(encode_lease(GRANTED_MS, GRANTED_N))
        self._watch(peer, now + peer.connection.lifetime_s)

    def _suspend(self, peer: Peer, reason: str, text: str, now: float) -> None:
        """The peer's transport is gone; it may come back."""
        session = peer.session
        if session is None or session.is_suspended:
            return
        self._release(peer, now)
        self.sessions.suspend(peer, session, reason, text, now)
        self.limits.set_away(peer, True)
        if peer.granting is not None:
            # "LEASE semantics MUST be restarted upon a new connection": what it has granted counts no more.
            peer.granting.granted(0, 0, now)
        self._watch(peer, now + self.sessions.ttl_s)

    def _end_overrun(self, now: float) -> None:
        """Ends the suspended peers for which too much waits: what did not fit is lost, so nobody can resume them."""
        for peer in self._fed:
            session = peer.session
            if session is not None and session.is_overrun:
                text = f"more than {session.limit_bytes} bytes waited for it, or too many for all that are suspended"
                self.end_slow(peer, "resume-overrun", text, now)

    def _forget(self, peer: Peer, now: float) -> None:
        """The peer is no more."""
        peer.forget()
        self._release(peer, now)
        for feeders in peer.feeds.values():
            feeders.pop(peer.id, None)
        peer.feeds = {}
        peer.look_at = NEVER
        self.limits.leave(peer)

    def _handle_push(self, peer: Peer, frame: FrameCursor) -> None:
        at, to = self.engine.find_in_push(peer, frame)
        is_request = to - at >= 6 and frame.data[at + 4] >> 2 == ADDRESS
        if self.cluster.knows(peer) and not is_request:
            self.cluster.pushed(peer, frame.data[frame.start + HEADER_BYTES : frame.end], frame.now)
        elif to - at < 6:
            if not self.migration.heard(peer, frame.data[frame.start + HEADER_BYTES : frame.end], frame.now):
                self.engine.ignored += 1  # nothing for a broker in it, and a push has no answer
        elif is_request:
            self.engine.handle_push(peer, frame, at, to)
        else:
            self._registration.announce(peer, frame.data[at:to], CONNECTION_ERROR, frame.now)

    def _let_go(self, peer: Peer, now: float) -> None:
        """The connection serves nobody any more: its route leaves, the streams of both kinds end."""
        at_ms = self._event_log.wall(now)
        self.sessions.close(peer)
        self._registration.withdraw(peer, peer.end_reason, now)
        self.cluster.lost(peer, now)
        self.migration.forget(peer, now)
        peer.take_credit()
        self._release(peer, now)
        if peer.granting is not None:
            peer.granting.close()
        for stream_id in list(peer.streams):
            stream = peer.streams.get(stream_id)
            if stream is None:
                continue  # another stream's end took it along
            if stream_id & 1 == peer.begins:
                stream.caller_lost(now)
                self.engine.carry_out()
            else:
                del peer.streams[stream_id]
                stream.route_lost(now)
        self.engine.forget_mimes(peer)  # no sooner: while its streams end, what it waits for may still come
        if peer.connection.state != NEW or peer.end_reason != "left":
            uptime_ms = max(0, at_ms - peer.connected_at_ms)
            self._event_log.tell(
                PEER_CLOSED,
                at_ms,
                service=peer.caller_service,
                peer=peer.name,
                reason=peer.end_reason,
                detail=peer.end_detail,
                uptime_ms=uptime_ms,
                requests=peer.requests,
            )
        self.limits.closed.add(peer, at_ms)

    def _watch(self, peer: Peer, at: float) -> None:
        """Looks at the peer at that moment, and not at the one that was meant before."""
        self._deadlines.put(peer, at, len(self.limits.peers))

    def _look_at(self, peer: Peer, now: float) -> None:
        """A peer's deadline has come: the SETUP is late, the peer is silent for too long, or all is well."""
        if peer.is_ending or peer.is_lost:
            return
        if peer.connection.state == NEW:
            waited_s = now - peer.connected_at
            self.end(peer, "setup-timeout", f"no SETUP within {waited_s:.1f} s", now)
            return
        if peer.is_suspended:
            self.end(peer, "resume-timeout", f"nobody resumed it within {self.sessions.ttl_s:g} s", now)
            return
        if peer.granting is not None and peer.granting.is_due(peer.requests, now):
            peer.send(encode_lease(GRANTED_MS, GRANTED_N))
        lifetime_s = peer.connection.lifetime_s
        if peer.is_paused or peer.held_n or peer.frame.has_more():
            peer.heard_at = now  # what it says waits where we do not read it
        late_at = peer.heard_at + lifetime_s
        if late_at <= now:
            text = f"nothing arrived for {now - peer.heard_at:.1f} s, {peer.connection.lifetime_text}"
            if peer.session is not None:
                self._suspend(peer, "keepalive-timeout", text, now)
            else:
                self.end(peer, "keepalive-timeout", text, now)
            return
        self._watch(peer, late_at)  # later than now, so that `tick` comes to an end

    def _connection_code(self, peer: Peer, refusal: Refusal) -> int:
        """The RSocket code on stream 0: the codes of requests and of the setup only fit where they belong."""
        if CONNECTION_ERROR <= refusal.code <= CONNECTION_CLOSE:
            return refusal.code
        if peer.connection.state != NEW:
            return CONNECTION_ERROR
        return refusal.code if refusal.code < CONNECTION_ERROR else REJECTED_SETUP

    def _end_flows(self, now: float) -> None:
        """The interval is over; what is left of the one before becomes records first."""
        self._tell_flows(True)
        self._flow_at_ms = self._event_log.wall(now)
        self._flow_ms = max(0, int((now - self._flow_from) * 1000))  # the wall clock may have been put back
        self.engine.flows.end_interval()
        self._flow_from = now
        self._flow_at = now + self.settings.flow_interval_s

    def _tell_flows(self, all_of_them: bool) -> None:
        """Flows of the interval that is over become records; all of them, or as many as a turn has time for."""
        records = self.engine.flows.take_records(self._event_log.next_seq, self._flow_at_ms, self._flow_ms, all_of_them)
        self._event_log.add_flows(records)
