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
from broker.cluster.replication import Outbid
from broker.cluster.settings import ClusterSettings
from broker.connections.backlog import Backlog
from broker.connections.close_reasons import CloseReasons
from broker.connections.closed import ClosedPeer
from broker.connections.deadlines import Deadlines, overdue
from broker.connections.drains import Drains
from broker.connections.ending import Ending, connection_code
from broker.connections.handshake import Handshake
from broker.connections.limits import ConnectionLimits
from broker.connections.migration import Departure, Migration
from broker.connections.protection import Protection
from broker.connections.rate_limits import SPENT, TokenBucket
from broker.connections.registration import Registration
from broker.connections.sessions import Move, Sessions
from broker.event_log.flow_intervals import FlowIntervals
from broker.event_log.histogram import Histogram
from broker.event_log.log import EventLog
from broker.event_log.route_events import tell_closed, tell_dropped, tell_slow
from broker.event_log.snapshots import Snapshots
from broker.event_log.start_event import started_tags
from broker.events import (
    BROKER_STARTED,
    BROKER_STOPPED,
    FlowRecord,
    LifecycleEvent,
)
from broker.forwarding.engine import ZERO_N, Engine
from broker.forwarding.lease_grants import GRANTED_MS, GRANTED_N
from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings
from broker.forwarding.traffic.request_log import SingleRequests
from broker.routing.policies import Policies
from broker.routing.query import Query
from broker.routing.rng import Dice
from broker.routing.table import Route, Table
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_SETUP, Refusal
from rsocket_wire.rsocket.connection import CLOSES, NEW, NOTHING, OPEN, is_fatal
from rsocket_wire.rsocket.frames import (
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
    REQUEST_RESPONSE,
    RESPOND,
    RESUME,
    RESUME_OK,
    decode_lease,
    encode_error,
    encode_lease,
    has_position,
    is_sound,
    keepalive_position,
)
from rsocket_wire.rsocket.framing import LENGTH_BYTES, FrameCursor
from rsocket_wire.timers import NEVER
from rsocket_wire.wire.frames import ADDRESS
from rsocket_wire.wire.ids import id_text

CoreSettings = Settings

ALL_FRAMES: Final = 1 << 60

_LOOKED_AT: Final = METADATA | FOLLOWS  # flags of frames that do not simply pass

COMPILED: Final = not __file__.endswith(".py")


class Core:
    """One broker."""

    def __init__(
        self,
        settings: Settings,
        broker_id: bytes,
        dice: Dice,
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
        self.query: Final = Query(self.table, Dice(seed), settings.strict_hints, settings.max_lookup_cache)
        self.engine: Final = Engine(settings, self.query)
        self._fanouts: Final = self.engine.fanouts
        self._feedings: Final = self.engine.feedings
        self._flows: Final = self.engine.flows
        self._event_log: Final = EventLog(now, at_ms, self.query, self.engine.singles)
        self.sessions: Final = Sessions(settings, self.table.loads.masks, self._event_log)
        self._dirty: Final[list[Peer]] = []  # peers with output or about to close; the peers append themselves
        self._deadlines: Final = Deadlines()
        self.limits: Final = ConnectionLimits(settings)
        self._backlog: Final = Backlog(settings, self.engine, self.table.loads.masks, self.limits)
        self.outbound: Final = self._backlog.outbound
        self._over: Final = self.outbound.over
        self._fed: Final = self._backlog.fed
        self._congested: Final = self._backlog.congested
        self._close_reasons: Final = CloseReasons()
        self.migration: Final = Migration(broker_id, settings.drain_grace_s, self.table, self._event_log)
        self.drains: Final = Drains(self.table, self.engine, self._event_log, self.migration, self.limits.peers)
        self.cluster: Final = Cluster(
            cluster if cluster is not None else ClusterSettings(),
            broker_id,
            settings.broker_name if settings.broker_name else f"broker-{self.id_text[:8]}",
            settings.require_annotations,
            self.table,
            self.engine,
            self.drains,
            self._event_log,
            dice,
            entropy,
            now,
            at_ms,
        )
        self._congestion: Final = self.cluster.congestion
        self._registration: Final = Registration(settings, self.table, self.engine, self.drains, self._event_log)
        self._handshake: Final = Handshake(
            settings,
            broker_id,
            self.engine,
            self.table.masks,
            self._event_log,
            self.limits,
            self.sessions,
            self.migration,
            self.drains,
            self._close_reasons,
        )
        self.protection: Final = Protection(self.table, self.engine.breakers, self._event_log)
        self._announced: Final = self.engine.announced
        self._relays: Final = self.engine.relays
        self._suspects: Final = self.table.loads.suspects
        self._refused: Final = self.engine.breakers.news
        self._keepalives: Final = TokenBucket(settings.max_keepalives_per_s, "limits.max_keepalives_per_s")
        self._fragments: Final = TokenBucket(settings.max_small_fragments_per_s, "limits.max_small_fragments_per_s")
        self._small_bytes: Final = settings.min_fragment_bytes - LENGTH_BYTES  # shorter fragments are small
        self.frames_in = 0  # received, ever
        # Both are measured by the edge.
        self.added: Final = Histogram()  # what the broker adds to each frame: from arrival to the end of the writing
        self.lag: Final = Histogram()  # how late its ticks are
        flow_s = settings.flow_interval_s
        self._flow_intervals: Final = FlowIntervals(self._flows, self._event_log, flow_s, now, at_ms)
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
            self._pause_nobody(now)  # what was let go since by time, or by somebody's end
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
                else:
                    if self._fed:
                        self._pause(peer)  # for what it has asked as a caller
                    stream.from_route(frame)
                    if self._fed:  # its answer let something go on that had waited
                        self._pause_nobody(now)
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
            self._release_routes(now)
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
        return self._fanouts.has_work() or self._flows.has_records()

    def work(self, now: float) -> None:
        """A turn of what goes to many branches, and of the records of flows."""
        if self._flows.has_records():
            self._flow_intervals.write(False)
        done_n = 0
        while self._fanouts.has_work() and done_n < MAX_BRANCHES_PER_TURN:
            if self._fed:
                self._pause_nobody(now)
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
        what waits is bounded (`Backlog.shed`).
        """
        if not peer.is_lost:
            self._backlog.congest(peer)

    def relieved(self, peer: Peer, now: float) -> None:
        """The peer's transport may be written to again.

        To be called once more when all that waited was taken: only then those that waited for the peer are read from.
        """
        peer.set_blocked(False)
        if not peer.pending_bytes:
            self._release(peer, now)

    def has_turned(self) -> bool:
        """Somebody is to be read from no more, or again."""
        return len(self._backlog.turned) > 0

    def take_turned(self) -> list[Peer]:
        """Peers that are to be read from no more, or again: see `Peer.is_paused`."""
        turned = self._backlog.turned[:]
        self._backlog.turned.clear()
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
        """As `end`, for what waits for the peer, which is told as an event of its own."""
        if not peer.is_ending and not peer.is_lost:
            tell_slow(self._event_log, peer, self._event_log.wall(now), word, text)
        self.end(peer, word, text, now)

    def carry_out(self, ending: Ending, now: float) -> None:
        """Ends a connection as a room has decided."""
        if ending.is_slow:
            self.end_slow(ending.peer, ending.word, ending.text, now)
        else:
            self.end(ending.peer, ending.word, ending.text, now, ending.code)

    def weigh(self, now: float) -> list[Peer]:
        """Adds up what waits for and of all connections. If it is too much, what holds most ends until the rest fits.

        First requests, then connections that hold something else. The transports of the peers that it returns are to be
        closed at once: what they have not written yet is part of what is too much.
        """
        limit = self.settings.max_buffered_bytes
        total = self.limits.weigh()
        given: list[Peer] = []
        if total <= limit:
            return given
        text = f"{total} bytes wait in the broker, {{}} of them for this connection, the limit is {limit}"
        text += " (limits.max_buffered_bytes)"
        for peer in self.limits.heaviest():
            held = peer.buffered_bytes
            while total > limit and self._backlog.shed_largest(peer, text.format(held), now):
                total -= held - peer.buffered_bytes
                held = peer.buffered_bytes
        for peer in self.limits.heaviest():
            if total <= limit:
                break
            held = peer.buffered_bytes
            peer.drop_output()
            self.end_slow(peer, "over-limit", text.format(held), now)
            given.append(peer)
            total -= held
        return given

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
            peer.send(encode_error(0, code if code else connection_code(peer, refusal), refusal.message))
        peer.end(word, text)
        self._let_go(peer, now)
        if is_suspended:
            self._forget(peer, now)

    def untold(self, peer: Peer, now: float) -> None:
        """The peer was ended and may not hear why: not all that goes before the ERROR is taken, or will ever be."""
        if peer.is_ending and peer.client_id and peer.end_reason != "left":
            self._close_reasons.remember(peer.client_id, f"{peer.end_reason}: {peer.end_detail}", now)
            peer.client_id = b""  # once: it may have come again, and been told, before its old transport is gone

    def stop(self, text: str, now: float) -> None:
        """Tells all peers CONNECTION_CLOSE and ends them; the last events are there to be taken."""
        self.engine.is_draining = True
        for peer in self.peers():
            self.end(peer, "broker-stopped", text, now)
        self._flow_intervals.finish(now)
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
        self._end_for_cluster(now)
        timed = self.engine.timers.take_due(now)
        while timed is not None:
            timed.expire(now)
            timed = self.engine.timers.take_due(now)
        if self._suspects:  # a deadline that passes is an error, too
            self.protection.judge(now)
        self.protection.tick(now)
        if self.engine.waiting.size:
            self.engine.look_again(self.table.masks.generation, now)
        migration = self.migration
        if migration.wants_urls(now):
            migration.set_urls(self.cluster.client_urls(), now)
        for departure in migration.tick(now):
            self._depart(departure, now)
        migration.look_whether_over(now)
        if migration.is_over:
            self.engine.is_draining = True
        if not self.drains.is_idle():
            for leaving in self.drains.take_turned(now):
                drained = self.drains.look_at(leaving, now)
                if drained is not None:
                    self.carry_out(drained, now)
        self._end_overrun(now)
        if self._over:
            self._shed(now)
        if self._feedings:  # of requests that have waited
            self._pause_for_routes()
        if self._backlog.behind:
            self._release_routes(now)
        if self._congested:
            self._tell_congested(now)
        if self._backlog.told:
            for route in self._backlog.take_relieved(now):
                self.cluster.say_state(route, now)
        for dropped in self.engine.drops.take(now):
            tell_dropped(self._event_log, dropped, at_ms)
        self._flow_intervals.tick(now)
        self._snapshots.tick(now)

    def next_deadline(self) -> float:
        """When to tick at the latest, monotonic seconds."""
        rooms_at = min(self.engine.timers.first(), self.protection.next_at(), self.drains.next_at())
        rooms_at = min(rooms_at, self.migration.next_at(), self._snapshots.next_at())
        return min(self._flow_intervals.next_at(), self._deadlines.first(), rooms_at, self.cluster.next_at())

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
        return bool(self.engine.singles.rows)

    def take_requests(self) -> SingleRequests | None:
        """Single requests that ended since the last call; None where there are none."""
        return self.engine.singles.take()

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

    def _end_for_cluster(self, now: float) -> None:
        """Ends the connections that the cluster has decided to end, and lets it go on with what waited for that."""
        ending = self.cluster.take_ending()
        while ending is not None:
            if isinstance(ending, Outbid) and self.migration.let_finish(ending.peer, ending.text, now):
                self._withdraw(ending.peer, "replaced", now)
            else:
                self.carry_out(ending, now)
            self.cluster.ended(ending, now)
            ending = self.cluster.take_ending()

    def _announce(self, peer: Peer, raw: bytes, code: int, now: float) -> None:
        """A broker frame in a SETUP or METADATA_PUSH: a ROUTE_SETUP makes or changes the peer's route, else it ends."""
        announcement = self._registration.read(peer, raw, code, now)
        if announcement.ending is not None:
            self.carry_out(announcement.ending, now)
        setup = announcement.setup
        if setup is None:
            return
        left = self._registration.join(peer, setup, announcement.replaced, now)
        if left is not None:
            # Not sooner: it may put another broker's route into the old slot, whose masks are the new route's.
            self.cluster.route_left(left, now)
        route = peer.route
        assert isinstance(route, Route)  # it has just joined
        self.cluster.route_joined(route, now)

    def _withdraw(self, peer: Peer, reason: str, now: float) -> None:
        """The peer's route leaves; what runs there goes on. `reason`: code word, or "left"."""
        route = self._registration.withdraw(peer, reason, now)
        if route is not None:
            self.cluster.route_left(route, now)  # which may put another broker's in its place

    def _depart(self, departure: Departure, now: float) -> None:
        """A client has another broker: its route is withdrawn, and then the connection ends, as soon as each can be."""
        if self.migration.settle(departure, now):
            self._withdraw(departure.peer, "left", now)
        ending = self.migration.ending_of(departure, now)
        if ending is not None:
            self.carry_out(ending, now)

    def _release(self, peer: Peer, now: float) -> None:
        """The peer takes all that is written to it again, or is gone: those that waited for it go on."""
        for link in self._backlog.release(peer, now):
            self._congestion.relieved(link, now)

    def _release_routes(self, now: float) -> None:
        """Some way or route of another broker may be behind no more: those that waited for it go on."""
        self._congestion.has_relief = False
        for link in self._backlog.release_routes(now):
            self._congestion.relieved(link, now)

    def _pause(self, caller: Peer) -> None:
        """The caller has just sent requests to congested peers, or too many to suspended ones."""
        self._end_overrun(caller.heard_at)
        if self._backlog.pause(caller):
            self._congestion.fed(caller, caller.heard_at)

    def _pause_nobody(self, now: float) -> None:
        """Congested or suspended peers were sent requests that no caller has just sent."""
        self._end_overrun(now)
        self._backlog.pause_nobody()

    def _pause_for_routes(self) -> None:
        """Callers have just sent requests to routes of other brokers that are behind: as if they were here."""
        for link in self._backlog.pause_for_routes():
            self._congestion.fed(link, link.heard_at)

    def _tell_congested(self, now: float) -> None:
        """Other brokers hear at once that a route of ours is behind."""
        for route in self._backlog.take_congested(now):
            self.cluster.say_state(route, now)

    def _shed(self, now: float) -> None:
        """Too much waits for some peers, or for all."""
        ending = self._backlog.shed(now)
        while ending is not None:
            self.carry_out(ending, now)
            ending = self._backlog.shed(now)

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
                self._announce(announcement.peer, announcement.raw, CONNECTION_ERROR, now)
        self._announced.clear()

    def _passes(self, peer: Peer, frame: FrameCursor) -> bool:
        """A frame of an open stream that may be one of a flood, or may be broken: whether it goes on.

        A broken one is its sender's fault, so its sender's end: "the frame is invalid and the receiver MUST send an
        ERROR[CONNECTION_ERROR] frame and close the underlying transport connection on reception unless the frame's
        IGNORE flag is set."
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
                self._withdraw(peer, "left", frame.now)  # the peer closes when its streams have ended
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
        now = frame.now
        if self._handshake.is_resume(frame):
            self._handle_resume(peer, frame)
            return
        accepted = self._handshake.accept(peer, frame)
        if accepted.ending is not None:
            self.carry_out(accepted.ending, now)
            return
        self._watch(peer, now + peer.connection.lifetime_s)
        if accepted.is_broker:
            self.cluster.greeted(peer, accepted.broker_frame, now)
            self._end_for_cluster(now)
        elif accepted.broker_frame:
            self._announce(peer, accepted.broker_frame, REJECTED_SETUP, now)
        if not peer.is_ending:
            self._handshake.welcome(peer, now)

    def _handle_resume(self, newcomer: Peer, frame: FrameCursor) -> None:
        """A RESUME as the first frame: the peer that it means goes on with this transport."""
        now = frame.now
        found = self._handshake.find(newcomer, frame)
        for ending in found.endings:
            self.carry_out(ending, now)
        peer = found.peer
        if peer is None or found.session is None or found.resume is None:
            return
        if found.endings:
            self._close_reasons.take(peer.client_id, now)  # the newcomer has just been told
            return
        if not found.session.is_suspended:
            # The client knows sooner than we that its old socket is dead.
            self._suspend(peer, "left", f"resumed by {newcomer.name}", now)
        self.limits.set_away(peer, False)
        self.sessions.resume(peer, found.session, newcomer, found.resume, now)
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
            ending = self.sessions.overrun_of(peer)
            if ending is not None:
                self.carry_out(ending, now)

    def _forget(self, peer: Peer, now: float) -> None:
        """The peer is no more."""
        peer.forget()
        self._release(peer, now)
        self._backlog.forget(peer)
        peer.look_at = NEVER
        self.limits.leave(peer)

    def _handle_push(self, peer: Peer, frame: FrameCursor) -> None:
        now = frame.now
        at, to = self.engine.find_in_push(peer, frame)
        is_request = to - at >= 6 and frame.data[at + 4] >> 2 == ADDRESS
        if self.cluster.knows(peer) and not is_request:
            self._handle_link(peer, frame.data[frame.start + HEADER_BYTES : frame.end], now)
        elif to - at < 6:
            departure = self.migration.hear(peer, frame.data[frame.start + HEADER_BYTES : frame.end], now)
            if departure is not None:
                self._depart(departure, now)
            else:
                self.engine.ignored += 1  # nothing for a broker in it, and a push has no answer
        elif is_request:
            self.engine.handle_push(peer, frame, at, to)
        else:
            self._announce(peer, frame.data[at:to], CONNECTION_ERROR, now)

    def _handle_link(self, peer: Peer, metadata: bytes, now: float) -> None:
        """A METADATA_PUSH of another broker: one entry after the other, as each may end connections."""
        for entry in self.cluster.entries_of(peer, metadata, now):
            self.cluster.hear(peer, entry.mime, metadata[entry.start : entry.end], now)
            self._end_for_cluster(now)
            if peer.is_ending:
                break
        self._end_for_cluster(now)
        self.cluster.flush()

    def _let_go(self, peer: Peer, now: float) -> None:
        """The connection serves nobody any more: its route leaves, the streams of both kinds end."""
        at_ms = self._event_log.wall(now)
        self.sessions.close(peer)
        self._withdraw(peer, peer.end_reason, now)
        self.cluster.lost(peer, now)
        self._end_for_cluster(now)
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
            else:
                del peer.streams[stream_id]
                stream.route_lost(stream_id, peer, now)
        self.engine.forget_mimes(peer)  # no sooner: while its streams end, what it waits for may still come
        if peer.connection.state != NEW or peer.end_reason != "left":
            tell_closed(self._event_log, peer, at_ms)
        self.limits.closed.add(peer, at_ms)

    def _watch(self, peer: Peer, at: float) -> None:
        """Looks at the peer at that moment, and not at the one that was meant before."""
        self._deadlines.put(peer, at, len(self.limits.peers))

    def _look_at(self, peer: Peer, now: float) -> None:
        """A peer's deadline has come: the SETUP is late, the peer is silent for too long, or all is well."""
        if peer.is_ending or peer.is_lost:
            return
        if not peer.is_suspended and peer.granting is not None and peer.granting.is_due(peer.requests, now):
            peer.send(encode_lease(GRANTED_MS, GRANTED_N))
        ending = overdue(peer, self.sessions.ttl_s, now)
        if ending is None:
            self._watch(peer, peer.heard_at + peer.connection.lifetime_s)  # later than now: `tick` comes to an end
        elif ending.word == "keepalive-timeout" and peer.session is not None:
            self._suspend(peer, ending.word, ending.text, now)
        else:
            self.carry_out(ending, now)
