"""The whole broker as one machine without I/O: bytes and time go in, bytes and events come out.

    connected(name, …) / receive(peer, data, now) / lost(peer, …)    what happened outside
    go_on(peer, now) / work(now)                                     more of what was received, a part at a time
    take_asks() / admit(peer, …) / refuse(peer, …)                   credentials to be verified, and what came of it
    set_roles(…) / set_revocations(…) / take_back(…)                 rights have changed
    tick(now, at_ms) / next_deadline()                               time passed; when to tick at the latest
    take_writes()                                                    peers with bytes to write
    take_events()                                                    what happened inside

Drives `Lifecycle` (connections, their routes, stream 0) and `Engine` (requests), and lets time pass.
Nothing here reads a clock, waits, logs or raises on what a peer sends.
"""

from typing import Final

from broker.access.certificates import RevokedCertificates
from broker.access.identities import NO_PROOF, Proof
from broker.access.roles import Role
from broker.cluster.settings import ClusterSettings
from broker.cluster.state import ClusterState
from broker.connections.admission import Ask
from broker.connections.rate_limits import SPENT, TokenBucket
from broker.connections.sessions import Move
from broker.event_log.flow_intervals import FlowIntervals
from broker.event_log.health_events import HealthEvents
from broker.event_log.histogram import Histogram
from broker.event_log.log import EventLog
from broker.event_log.route_events import tell_denied, tell_dropped
from broker.event_log.snapshots import Snapshots
from broker.event_log.start_event import started_tags
from broker.events import (
    BROKER_LOAD,
    BROKER_STARTED,
    BROKER_STOPPED,
    CHANGED,
    FILES_RELOADED,
    FlowRecord,
    LifecycleEvent,
)
from broker.forwarding.arrival import NOTHING_SPECIAL, Arrival
from broker.forwarding.engine import ZERO_N, Engine
from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings
from broker.forwarding.traffic.request_log import RequestRows
from broker.lifecycle import Lifecycle
from broker.routing.policies import Policies
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.table import Table
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_SETUP
from rsocket_wire.rsocket.connection import OPEN
from rsocket_wire.rsocket.frames import (
    ERROR,
    FOLLOWS,
    IGNORE,
    KIND_NAMES,
    METADATA,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_RESPONSE,
    has_position,
    is_sound,
)
from rsocket_wire.rsocket.framing import LENGTH_BYTES, FrameCursor
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
        rng: Rng,
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
        seed = rng.below(1 << 32)
        # Nobody else draws from the choosers' numbers, so that whoever knows the seed can repeat what they chose.
        self.query: Final = Query(self.table, Rng(seed), settings.strict_hints, settings.max_lookup_cache)
        self.engine: Final = Engine(settings, self.query)
        self._fan_outs: Final = self.engine.steps.calls
        self._records_due: Final = self.engine.flows.over
        self._congested_requests: Final = self.engine.congested_requests
        self._decisions: Final = self.engine.decisions
        self._retries: Final = self.engine.retries
        self._event_log: Final = EventLog(now, at_ms, self.query, self.engine.request_log)
        name = settings.broker_name or f"broker-{self.id_text[:8]}"
        state = ClusterState(cluster or ClusterSettings(), broker_id, name, at_ms, self._event_log)
        self.lifecycle: Final = Lifecycle(self.engine, state, rng, entropy, now)
        self.cluster: Final = self.lifecycle.cluster
        self._dirty: Final = self.lifecycle.dirty
        self._back_pressure: Final = self.lifecycle.back_pressure
        self.read_changes: Final = self._back_pressure.read_changes  # not empty: call `take_read_changes`
        self._over: Final = self._back_pressure.outbound.over
        self._to_check: Final = self._back_pressure.to_check
        self.health: Final = HealthEvents(self.table, self.engine.breakers, self._event_log)
        self._announced: Final = self.engine.announced
        self._suspects: Final = self.table.loads.suspects
        self._fragments: Final = TokenBucket(settings.max_small_fragments_per_s, "limits.max_small_fragments_per_s")
        self._small_bytes: Final = settings.min_fragment_bytes - LENGTH_BYTES  # shorter fragments are small
        self.frames_in = 0  # received, ever
        # Both are measured by the edge.
        self.added: Final = Histogram()  # what the broker adds to each frame: from arrival to the end of the writing
        self.lag: Final = Histogram()  # how late its ticks are
        flow_s = settings.flow_interval_s
        self._flow_intervals: Final = FlowIntervals(self.engine.flows, self._event_log, flow_s, now, at_ms)
        self._snapshots: Final = Snapshots(self.table, self.query, self._event_log, settings.snapshot_s, now)
        tags = started_tags(settings, cluster.mates if cluster is not None else [], seed, COMPILED)
        self._event_log.tell(BROKER_STARTED, at_ms, tags=tags, detail="compiled" if COMPILED else "interpreted")

    # What happens outside

    def connected(
        self,
        name: str,
        framed: bool,
        now: float,
        address: str = "",
        proof: Proof = NO_PROOF,
        arrival: Arrival = NOTHING_SPECIAL,
    ) -> Peer:
        """A connection was accepted. `framed`: its bytes are a stream with 24-bit lengths, else messages.

        `address`: where it comes from, empty where there is none; `proof`: who its transport says it is.
        """
        peer = self.lifecycle.make_peer(name, framed, now, 1)
        peer.arrival = arrival
        refusal = self.lifecycle.limits.enter(peer, address, proof, self.lifecycle.sessions.suspended_n)
        if refusal:
            self.lifecycle.end(peer, "over-limit", refusal, now, REJECTED_SETUP)
        elif not self.lifecycle.end_revoked(peer, now):
            self.lifecycle.watch(peer, now + self.settings.setup_timeout_s)
        return peer

    def dialled(
        self,
        name: str,
        framed: bool,
        now: float,
        url: str,
        address: str = "",
        proof: Proof = NO_PROOF,
        arrival: Arrival = NOTHING_SPECIAL,
    ) -> Peer:
        """A connection to another broker is there, which `cluster.take_dials` had asked for; else as `connected`."""
        peer = self.lifecycle.make_peer(name, framed, now, 0)
        peer.arrival = arrival
        # One too many or not: a broker that is full of clients needs the others more than ever.
        self.lifecycle.limits.enter(peer, address, proof, self.lifecycle.sessions.suspended_n)
        if self.lifecycle.end_revoked(peer, now):
            return peer
        setup = self.cluster.dialled(peer, url, now)
        peer.connection.begin(setup)
        self.engine.set_mimes(peer, setup)
        peer.frame.max_bytes = self.settings.max_frame_bytes
        peer.send(setup.encode())
        self.lifecycle.watch(peer, now + peer.connection.lifetime_s)
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
        to_check = self._to_check
        if to_check:
            self._pause_nobody(now)  # what was let go since by time, or by somebody's end
        frame = peer.frame
        session = peer.session
        begins = peer.begins
        frames = 0
        is_left = False
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
                elif (frame.flags & _LOOKED_AT or frame.kind == ERROR or peer.items) and not self._passes(peer, frame):
                    engine.apply_decisions()
                elif stream_id & 1 == begins:  # the peer began it
                    stream.from_caller(frame)
                    if self._decisions:
                        engine.apply_decisions()
                else:
                    if to_check:
                        self._pause(peer)  # for what it has asked as a caller
                    stream.from_route(frame)
                    if self._retries:
                        engine.retry(frame)
                    if to_check:  # its answer let something go on that had waited
                        self._pause_nobody(now)
            else:
                self.lifecycle.handle_zero(peer, frame)
                session = peer.session  # a SETUP began it
                most_n -= ZERO_N + engine.extra_n - extra_n
                extra_n = engine.extra_n
            if frames >= most_n or peer.held_n:
                is_left = frame.has_more()
                break
        self.frames_in += frames
        if frame.fault and not peer.is_ending:
            self.lifecycle.end(peer, "bad-frame", frame.fault, now)
        if to_check:
            self._pause(peer)
        if self._over:
            self.lifecycle.shed(now)
        if self._congested_requests:
            self._pause_for_routes()
        if self.cluster.congestion.has_relief:
            self._release_routes(now)
        if self._back_pressure.congested:
            self._tell_congested(now)
        if self._announced:
            self._read_announced(now)
        if self._suspects:
            self.health.judge(now)
        if self.engine.breakers.changes:
            self.health.tell_opened(now)
        return (is_left or peer.held_n > 0) and not peer.is_ending

    def has_work(self) -> bool:
        """Work that is done a part at a time is left: `work` is to be called in each turn."""
        return bool(self._fan_outs or self._records_due or self.lifecycle.review.unjudged)

    def work(self, now: float) -> None:
        """A turn of what goes to many branches, of the records of flows, and of connections that are judged anew."""
        if self.lifecycle.review.unjudged:
            self.lifecycle.judge_some(now)
        if self._records_due:
            self._flow_intervals.write(False)
        done_n = 0
        while self._fan_outs and done_n < MAX_BRANCHES_PER_TURN:
            if self._to_check:
                self._pause_nobody(now)
            step, branches_n = self.engine.steps.advance(now)
            done_n += max(1, branches_n)
            if self._to_check:
                self._pause(step.caller)
        if self._over:
            self.lifecycle.shed(now)

    def congested(self, peer: Peer) -> None:
        """The peer's transport is to be written no more to, for now: what is sent to the peer waits in the core.

        Callers that send it more are not read from (`take_read_changes`), and REQUEST_N frames that it sends wait: it
        has not read what it asked for before. A service is never held up because one of those that it answers reads
        slowly; what waits is bounded (`BackPressure.shed`).
        """
        if not peer.is_lost:
            self._back_pressure.congest(peer)

    def relieved(self, peer: Peer, now: float) -> None:
        """The peer's transport may be written to again.

        To be called once more when all that waited was taken: only then those that waited for the peer are read from.
        """
        peer.set_blocked(False)
        if not peer.pending_bytes:
            self.lifecycle.release(peer, now)

    def take_read_changes(self) -> list[Peer]:
        """Peers that are to be read from no more, or again: see `Peer.is_paused`."""
        changes = self.read_changes[:]
        self.read_changes.clear()
        return changes

    def lost(self, peer: Peer, reason: str, now: float) -> None:
        """The transport is gone. `reason` for people, unless the connection was ended for a better one."""
        self.lifecycle.lost(peer, reason, now)

    def end(self, peer: Peer, word: str, text: str, now: float, code: int = 0) -> None:
        """See `Lifecycle.end`."""
        self.lifecycle.end(peer, word, text, now, code)

    def has_asks(self) -> bool:
        """Tells whether there are credentials to be verified."""
        return bool(self.lifecycle.admission.asks)

    def take_asks(self) -> list[Ask]:
        """Takes credentials to be verified; `admit` or `refuse` is the answer to each."""
        return self.lifecycle.admission.take_asks()

    def admit(self, peer: Peer, principal: str, expires_at: float, now: float, issued_at_ms: int = 0) -> None:
        """The peer's credentials are those of this principal; then `go_on` is to be called, as after `receive`.

        `expires_at`: until then, seconds, monotonic; 0.0: they do not expire. `issued_at_ms`: since the epoch; 0: they
        do not say when.
        """
        self.lifecycle.admit(peer, principal, expires_at, issued_at_ms, now)

    def refuse(self, peer: Peer, word: str, text: str, reason: str, now: float) -> None:
        """They do not hold, or cannot be verified; else as `admit`.

        `text` is for the stranger, `reason` for operators.
        """
        self.lifecycle.refuse(peer, word, text, reason, now)

    def set_roles(self, roles: list[Role], now: float) -> None:
        """These are the roles from now on; connections that are there are judged anew by `work`."""
        self.lifecycle.set_roles(roles, now)

    def set_revocations(self, before_ms: dict[str, int]) -> None:
        """These are those of the configured file from now on, by principal, else as `set_roles`."""
        self.lifecycle.set_revocations(before_ms)

    def set_revoked_certificates(self, revoked: RevokedCertificates) -> None:
        """Certificates that their authorities have revoked; connections with one of them, links too, end in `work`."""
        self.lifecycle.set_revoked_certificates(revoked)

    def take_back(self, gone: set[str]) -> None:
        """The credentials of these principals hold no longer; connections with them end in `work`."""
        self.lifecycle.review.take_back(gone)

    def stop(self, text: str, now: float) -> None:
        """Tells all peers CONNECTION_CLOSE and ends them; the last events are there to be taken."""
        self.engine.is_draining = True
        for peer in self.peers():
            self.lifecycle.end(peer, "broker-stopped", text, now)
        self._flow_intervals.finish(now)
        self._snapshots.finish()
        at_ms = self._event_log.wall(now)
        uptime_ms = max(0, at_ms - self.started_at_ms)
        self._event_log.tell(BROKER_STOPPED, at_ms, detail=text, uptime_ms=uptime_ms)

    def leave(self, within_s: float, grace_s: float, now: float) -> bool:
        """Asks clients to move to other brokers within that time, and serves them; False when none can (D-54).

        `grace_s`: for what runs on connections that they leave behind. It is over when `migration.is_over`.
        """
        may_move = self.lifecycle.migration.begin(within_s, grace_s, now)
        if may_move:
            self.cluster.leave(now)
        return may_move

    def drain(self) -> None:
        """No new requests from now on; those that run go on."""
        self.engine.is_draining = True

    def tell_load(self, cpu_permille: int, loop_lag_max_us: int, now: float) -> None:
        """Tells the load of the process, which the edge has measured since it last told, and what is there now.

        `cpu_permille`: 1000 is one core of the machine. `loop_lag_max_us`: the largest of what `lag` got.
        """
        numbers = {
            "cpu_permille": cpu_permille,
            "loop_lag_max_us": loop_lag_max_us,
            "connections": len(self.lifecycle.limits.peers),
            "in_flight": self.in_flight_n,
        }
        tags = [(name, str(number)) for name, number in numbers.items()]
        self._event_log.tell(BROKER_LOAD, self._event_log.wall(now), tags=tags)

    def tell_reloaded(self, options: str, now: float) -> None:
        """Tells that the files of these options were read again, which the edge has done."""
        self._event_log.tell(FILES_RELOADED, self._event_log.wall(now), detail=options)

    def tell_changed(
        self, tags: list[tuple[str, str]], peer: str, word: str, text: str, principal: str, role: str, now: float
    ) -> None:
        """Tells what an operator has changed, or was refused, which the REST API knows; see `events.CHANGED`."""
        at_ms = self._event_log.wall(now)
        self._event_log.tell(CHANGED, at_ms, "", "", tags, peer, word, text, principal=principal, role=role)

    # Time

    def tick(self, now: float, at_ms: int) -> None:
        """Time passed: `now` monotonic seconds, `at_ms` the wall clock."""
        self._event_log.set_clock(now, at_ms)
        self.lifecycle.tick(now)
        self.cluster.tick(now)
        self.lifecycle.end_for_cluster(now)
        timed = self.engine.timers.take_due(now)
        while timed is not None:
            timed.expire(now)
            self.engine.apply_decisions()
            timed = self.engine.timers.take_due(now)
        if self._suspects:  # a deadline that passes is an error, too
            self.health.judge(now)
        self.health.tick(now)
        if self.engine.pending.size:
            self.engine.look_again(self.table.masks.generation, now)
        self.lifecycle.depart(now)
        self.lifecycle.end_overrun(now)
        if self._over:
            self.lifecycle.shed(now)
        if self._congested_requests:  # of requests that have waited
            self._pause_for_routes()
        if self._back_pressure.behind:
            self._release_routes(now)
        if self._back_pressure.congested:
            self._tell_congested(now)
        if self._back_pressure.told_congested:
            for route in self._back_pressure.take_relieved(now):
                self.cluster.advertise_state(route, now)
        for dropped in self.engine.drops.take(now):
            tell_dropped(self._event_log, dropped, at_ms)
        for denied in self.engine.denials.take(now):
            tell_denied(self._event_log, denied, at_ms)
        self._flow_intervals.tick(now)
        self._snapshots.tick(now)

    def next_deadline(self) -> float:
        """When to tick at the latest, monotonic seconds."""
        rooms_at = min(self.engine.timers.first(), self.health.next_at(), self.lifecycle.drains.next_at())
        rooms_at = min(rooms_at, self.lifecycle.migration.next_at(), self._snapshots.next_at())
        return min(self._flow_intervals.next_at(), self.lifecycle.deadlines.first(), rooms_at, self.cluster.next_at())

    # What comes out

    def has_writes(self) -> bool:
        """Somebody has bytes to be written, or is to be closed."""
        return len(self._dirty) > 0

    def has_more(self) -> bool:
        """Tells whether there are writes, work, or credentials of connections that go on meanwhile."""
        if self._dirty or self._fan_outs or self._records_due:
            return True
        return bool(self.lifecycle.review.unjudged or self.lifecycle.admission.asks)

    def take_writes(self) -> list[Peer]:
        """Peers with output (`Peer.take_output`) or to be closed after it (`Peer.is_ending`)."""
        peers = self._dirty[:]
        self._dirty.clear()
        return peers

    def write_later(self, peer: Peer) -> None:
        """Has the peer, which was taken, written to in the next turn."""
        self._dirty.append(peer)

    def take_moves(self) -> list[Move]:
        """Transports to move, in order; nothing of a peer may be written or read before.

        Where a move says that there are frames, it is as if `receive` had said so of its peer.
        """
        return self.lifecycle.sessions.take_moves()

    def take_events(self) -> list[LifecycleEvent | FlowRecord]:
        """What happened since the last call; in order, but for the routes of a snapshot."""
        return self._event_log.take()

    @property
    def events_n(self) -> int:
        """How many events wait to be taken."""
        return self._event_log.waiting_n

    def has_requests(self) -> bool:
        """Tells whether single requests have ended since they were taken."""
        return bool(self.engine.request_log.rows)

    def take_requests(self) -> RequestRows | None:
        """Takes single requests that ended since the last call; None where there are none."""
        return self.engine.request_log.take()

    @property
    def events_dropped(self) -> int:
        """Events that found nobody to take them in time."""
        return self._event_log.dropped

    def peers(self) -> list[Peer]:
        """All connections, oldest first."""
        return list(self.lifecycle.limits.peers.values())

    @property
    def in_flight_n(self) -> int:
        """Requests in flight, each counted once: where it began."""
        return sum([peer.begun for peer in self.lifecycle.limits.peers.values()])

    # Inside

    def _release_routes(self, now: float) -> None:
        """Some way or route of another broker may be behind no more: those that waited for it go on."""
        self.cluster.congestion.has_relief = False
        for link in self._back_pressure.release_routes(now):
            self.cluster.congestion.relieved(link, now)

    def _pause(self, caller: Peer) -> None:
        """The caller has just sent requests to congested peers, or too many to suspended ones."""
        self.lifecycle.end_overrun(caller.heard_at)
        if self._back_pressure.pause(caller):
            self.cluster.congestion.requested(caller, caller.heard_at)

    def _pause_nobody(self, now: float) -> None:
        """Congested or suspended peers were sent requests that no caller has just sent."""
        self.lifecycle.end_overrun(now)
        self._back_pressure.pause_nobody()

    def _pause_for_routes(self) -> None:
        """Callers have just sent requests to routes of other brokers that are behind: as if they were here."""
        for link in self._back_pressure.pause_for_routes():
            self.cluster.congestion.requested(link, link.heard_at)

    def _tell_congested(self, now: float) -> None:
        """Other brokers hear at once that a route of ours is behind."""
        for route in self._back_pressure.take_congested(now):
            self.cluster.advertise_state(route, now)

    def _floods(self, peer: Peer, frame: FrameCursor) -> bool:
        """A frame that may be a small fragment: whether it is one too many, and the connection was ended for it."""
        # Elsewhere the bit means something else, or nothing; what a broker sends is measured where its callers connect.
        if (frame.kind != PAYLOAD and not REQUEST_RESPONSE <= frame.kind <= REQUEST_CHANNEL) or peer.link is not None:
            return False
        at = self._fragments.spend(peer.fragments_at, frame.now)
        if at != SPENT:
            peer.fragments_at = at
            return False
        text = f"fragments of less than {self.settings.min_fragment_bytes} bytes: {self._fragments.too_many}"
        self.lifecycle.end(peer, "over-limit", text, frame.now)
        return True

    def _handle_new(self, peer: Peer, frame: FrameCursor) -> None:
        if peer.connection.state != OPEN:
            self.lifecycle.handle_first(peer, frame)
            return
        if peer.link is not None and self.engine.ingress.joins_at_once(peer, frame):
            return
        if frame.flags & FOLLOWS or peer.items:
            if frame.flags & FOLLOWS and frame.end - frame.start < self._small_bytes and self._floods(peer, frame):
                return
            fault = self.engine.handle_first(peer, frame)
        else:
            fault = self.engine.handle_request(peer, frame)
        if fault:
            self.lifecycle.end(peer, "bad-frame", fault, frame.now)

    def _read_announced(self, now: float) -> None:
        """ROUTE_SETUPs that came with requests."""
        for announcement in self._announced:
            if not announcement.peer.is_ending:
                self.lifecycle.announce(announcement.peer, announcement.raw, CONNECTION_ERROR, now)
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
            return self.engine.later.pass_on(peer, frame)
        if frame.flags & IGNORE:
            self.engine.ignored += 1
            return False
        text = f"{KIND_NAMES[frame.kind]} of {size} bytes on stream {frame.stream_id} is too short for what it declares"
        self.lifecycle.end(peer, "bad-frame", text, frame.now)
        return False
