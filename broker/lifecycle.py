"""The life of a connection: accepted, registered, suspended, moved, ended; and what peers say on stream 0.

    make_peer ──► first frame: SETUP ──► admission ──► ROUTE_SETUP, BROKER_INFO ──► … ──► end, lost, left ──► its route
                               RESUME ──► its suspended peer goes on          leaves, its streams end, callers that
                                                                              waited go on

Holds the components that decide about connections (`broker.connections`, `broker.cluster`) and carries out what they
decide. Streams other than 0, and when time passes, are the core's.
"""

from typing import Final

from broker.access.certificates import RevokedCertificates
from broker.access.revocations import Revocations
from broker.access.roles import Role, Roles
from broker.cluster.cluster import Cluster
from broker.cluster.replication import ReplacedElsewhere
from broker.cluster.state import ClusterState
from broker.connections.admission import OFF, Admission
from broker.connections.back_pressure import BackPressure
from broker.connections.close_reasons import CloseReasons
from broker.connections.deadlines import overdue
from broker.connections.drains import Drains
from broker.connections.ending import Ending, say_ending
from broker.connections.handshake import Handshake
from broker.connections.limits import ConnectionLimits
from broker.connections.migration import Departure, Migration
from broker.connections.rate_limits import SPENT, TokenBucket
from broker.connections.registration import Registration
from broker.connections.renewals import Renewals
from broker.connections.review import Review, is_admitted
from broker.connections.sessions import Sessions
from broker.event_log.route_events import tell_peer, tell_slow
from broker.events import PEER_CLOSED, ROLES_CHANGED
from broker.forwarding.engine import Engine
from broker.forwarding.lease_grants import GRANTED_MS, GRANTED_N
from broker.forwarding.peer import Peer
from broker.routing.rng import Rng
from broker.routing.table import Route
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_SETUP, Refusal
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.connection import CLOSES, NEW, NOTHING, is_fatal
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.notices import renewals_in
from rsocket_wire.timers import Timers
from rsocket_wire.wire.frames import ADDRESS


class Lifecycle:
    """The connections of one broker."""

    def __init__(self, engine: Engine, state: ClusterState, rng: Rng, entropy: bytes, now: float) -> None:
        """`entropy`: see `Cluster`."""
        settings, table, event_log = engine.settings, engine.query.table, state.event_log
        self.settings: Final = settings
        self.engine: Final = engine
        self._event_log: Final = event_log
        self.dirty: Final[list[Peer]] = []  # peers with output or about to close; the peers append themselves
        self.sessions: Final = Sessions(settings, table.masks, event_log)
        self.deadlines: Final = Timers()  # when peers are looked at: one of each
        self.limits: Final = ConnectionLimits(settings)
        self.roles: Final = Roles(list(settings.roles))
        engine.ingress.roles = self.roles
        self.revocations: Final = Revocations()
        self.review: Final = Review(self.limits.peers, settings.auth_mode != OFF)
        self.admission: Final = Admission(settings, self.roles, self.revocations, self.limits, event_log)
        self.back_pressure: Final = BackPressure(settings, engine, table.masks, self.limits)
        self.migration: Final = Migration(state.id, settings.drain_grace_s, table, event_log)
        self.drains: Final = Drains(table, engine, event_log, self.migration, self.limits.peers)
        self._renewals: Final = Renewals(state.id, self.admission, self.migration, event_log)
        self.cluster: Final = Cluster(state, engine, self.drains, self.revocations, self.review, rng, entropy, now)
        self._close_reasons: Final = CloseReasons()
        self._registration: Final = Registration(settings, self.roles, table, engine, self.drains, event_log)
        self._handshake: Final = Handshake(
            state.id, engine, event_log, self.limits, self.sessions, self.migration, self.drains, self._close_reasons
        )
        self._keepalives: Final = TokenBucket(settings.max_keepalives_per_s, "limits.max_keepalives_per_s")

    def make_peer(self, name: str, framed: bool, now: float, begins: int) -> Peer:
        number = self.limits.accepted_n + 1
        at_ms = self._event_log.wall(now)
        to_check, outbound = self.back_pressure.to_check, self.back_pressure.outbound
        return Peer(number, name, framed, self.settings, self.dirty, to_check, outbound, now, at_ms, begins)

    # Ends

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
            say_ending(peer, refusal, code)
        peer.end(word, text)
        self._let_go(peer, now)
        if is_suspended:
            self._forget(peer, now)

    def end_slow(self, peer: Peer, word: str, text: str, now: float) -> None:
        """As `end`, for what waits for the peer, which is told as an event of its own."""
        if not peer.is_ending and not peer.is_lost:
            tell_slow(self._event_log, peer, self._event_log.wall(now), word, text)
        self.end(peer, word, text, now)

    def carry_out(self, ending: Ending, now: float) -> None:
        """Ends a connection as a component has decided."""
        if ending.is_slow:
            self.end_slow(ending.peer, ending.word, ending.text, now)
        else:
            self.end(ending.peer, ending.word, ending.text, now, ending.code)

    def remember_close_reason(self, peer: Peer, now: float) -> None:
        """The peer was ended and may not hear why: not all that goes before the ERROR is taken, or will ever be."""
        if peer.is_ending and peer.client_id and peer.end_reason != "left":
            self._close_reasons.remember(peer.client_id, f"{peer.end_reason}: {peer.end_detail}", now)
            peer.client_id = b""  # once: it may have come again, and been told, before its old transport is gone

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
            while total > limit and self.back_pressure.shed_largest(peer, text.format(held), now):
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

    def shed(self, now: float) -> None:
        """Too much waits for some peers, or for all."""
        while (ending := self.back_pressure.shed(now)) is not None:
            self.carry_out(ending, now)

    def end_overrun(self, now: float) -> None:
        """Ends the suspended peers for which too much waits: what did not fit is lost, so nobody can resume them."""
        for peer in self.back_pressure.to_check:
            ending = self.sessions.overrun_of(peer)
            if ending is not None:
                self.carry_out(ending, now)

    def end_for_cluster(self, now: float) -> None:
        """Ends the connections that the cluster has decided to end, and lets it go on with what waited for that."""
        while (ending := self.cluster.take_ending()) is not None:
            is_moved = isinstance(ending, ReplacedElsewhere) and ending.may_finish
            if is_moved and self.migration.let_finish(ending.peer, ending.text, now):
                self._withdraw(ending.peer, "replaced", now)
            else:
                self.carry_out(ending, now)
            self.cluster.ended(ending, now)

    # Rights

    def set_roles(self, roles: list[Role], now: float) -> None:
        """These are the roles from now on; connections that are there are judged anew, see `judge_some`."""
        self.roles.replace(roles)
        text = f"there are {len(roles)}, {len(self.limits.peers)} connections are judged anew"
        self._event_log.tell(ROLES_CHANGED, self._event_log.wall(now), detail=text)
        self.review.begin()

    def set_revocations(self, before_ms: dict[str, int]) -> None:
        """These are those of the configured file from now on."""
        self.revocations.of_file = before_ms
        self.review.begin()

    def set_revoked_certificates(self, revoked: RevokedCertificates) -> None:
        """These are those of the configured lists from now on."""
        self.revocations.certificates = revoked
        self.review.begin_all()

    def judge_some(self, now: float) -> None:
        """A turn of the connections that are judged anew."""
        self.review.begin_turn()
        while (peer := self.review.take()) is not None:
            has_ended = self.end_revoked(peer, now)
            if not has_ended and self.review.is_on and is_admitted(peer):
                has_ended = not self._judge_anew(peer, self.review.gone, now)
            if has_ended:
                self.review.ended()

    def end_revoked(self, peer: Peer, now: float) -> bool:
        """Ends a connection for its certificate, which TLS took for a good one; False: it is one."""
        return self._end_judged(self.admission.judge_certificate(peer, now), now)

    def _judge_anew(self, peer: Peer, gone: set[str], now: float) -> bool:
        """Looks at a connection whose rights may have changed, see `Admission.judge_again`; False: it has ended."""
        ending = self.admission.judge_again(peer, gone, now)
        if self._end_judged(ending or self._registration.judge_again(peer, now), now):
            return False
        self.engine.set_role(peer, self.roles.find(peer.principal), now)
        return True

    def _end_judged(self, ending: Ending | None, now: float) -> bool:
        """Ends a connection that was judged, and the requests that it serves: who has asked is told why. None: it may
        stay."""
        if ending is not None:
            self._deny_requests(ending.peer, now)
            self.carry_out(ending, now)
        return ending is not None

    def _deny_requests(self, peer: Peer, now: float) -> None:
        text = f"the connection that served {peer.caller_service} may do so no more"
        for stream_id in list(peer.streams):
            stream = peer.streams.get(stream_id)
            if stream is not None and stream_id & 1 != peer.begins:
                stream.deny(text, now)

    # Routes

    def announce(self, peer: Peer, raw: bytes, code: int, now: float) -> None:
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

    # Time

    def watch(self, peer: Peer, at: float) -> None:
        """Looks at the peer at that moment, and not at the one that was meant before."""
        if peer.look_timer is not None:
            peer.look_timer.cancel()
        if peer.login.expires_at and at > peer.login.expires_at:
            at = peer.login.expires_at
        peer.look_timer = self.deadlines.put(at, peer)

    def tick(self, now: float) -> None:
        """Looks at the peers whose moment has come."""
        while (peer := self.deadlines.take_due(now)) is not None:
            assert isinstance(peer, Peer)  # see `watch`
            self._look_at(peer, now)

    def depart(self, now: float) -> None:
        """Lets clients go that have another broker, and connections that are drained."""
        migration = self.migration
        if migration.wants_urls(now):
            migration.set_urls(self.cluster.membership.client_urls(), now)
        for departure in migration.tick(now):
            self._depart(departure, now)
        migration.look_whether_over(now)
        if migration.is_over:
            self.engine.is_draining = True
        for leaving in self.drains.take_due(now):
            ending = self.drains.look_at(leaving, now)
            if ending is not None:
                self.carry_out(ending, now)

    # Stream 0

    def handle_zero(self, peer: Peer, frame: FrameCursor) -> None:
        connection = peer.connection
        kind = frame.kind
        if connection.state == NEW:
            self.handle_first(peer, frame)
        elif kind == frames.KEEPALIVE:
            self._handle_keepalive(peer, frame)
        elif kind == frames.METADATA_PUSH:
            self._handle_push(peer, frame)
        elif kind == frames.LEASE:
            self._handle_lease(peer, frame)
        elif kind == frames.ERROR:
            verdict = connection.handle_error(frame)
            if verdict == CLOSES and peer.streams:
                self.sessions.close(peer)
                self._withdraw(peer, "left", frame.now)  # the peer closes when its streams have ended
            elif verdict != NOTHING:
                text = frame.data[frame.start + 10 : min(frame.end, frame.start + 266)].decode("utf-8", "replace")
                said = f": {text}" if connection.is_dialled and text else ""
                peer.end("left", f"the peer sent an ERROR on stream 0{said}")
                self._let_go(peer, frame.now)
        elif kind == frames.RESUME:
            # "A Server that receives a RESUME frame after a SETUP frame, SHOULD send an ERROR[CONNECTION_ERROR]", and
            # the same for one after a previous RESUME frame.
            self.end(peer, "bad-frame", "RESUME must be the first frame of a connection", frame.now)
        elif is_fatal(kind, frame.flags):
            name = frames.KIND_NAMES.get(kind, f"type 0x{kind:02x}") if kind != frames.EXT else "EXT"
            self.end(peer, "bad-frame", f"frame {name} on stream 0 is unknown and may not be ignored", frame.now)
        else:
            self.engine.ignored += 1

    def handle_first(self, peer: Peer, frame: FrameCursor) -> None:
        now = frame.now
        if self._handshake.is_resume(frame):
            self._handle_resume(peer, frame)
            return
        ending = self._handshake.read(peer, frame)
        if ending is None and self.admission.is_on:
            ending = self._judge(peer, now)
        if ending is not None:
            self.carry_out(ending, now)
        elif not peer.login.is_asked:
            self._let_in(peer, now)

    def _judge(self, peer: Peer, now: float) -> Ending | None:
        """See `Admission.judge`. What says that it is a broker proves that otherwise, and until then asks nothing."""
        if self.cluster.handshakes.is_open and self._handshake.is_of_broker(peer):
            peer.max_streams = 0
            return None
        ending = self.admission.judge(peer, now)
        if peer.login.is_asked:
            self.watch(peer, now + self.settings.setup_timeout_s)
        return ending

    def admit(self, peer: Peer, principal: str, expires_at: float, issued_at_ms: int, now: float) -> None:
        """The credentials of a connection hold, see `Admission.admit`; nothing if it has ended."""
        if peer.is_ending or peer.is_lost:
            return
        if peer.login.is_renewing:
            is_renewed = self._renewals.renew(peer, principal, expires_at, issued_at_ms, now)
            if is_renewed and self._judge_anew(peer, set(), now):
                self._renewals.confirm(peer, now)
                # It may end sooner than before.
                self.watch(peer, now + self.sessions.ttl_s if peer.is_suspended else now)
        elif peer.login.is_asked:
            self._go_on(peer, self.admission.admit(peer, principal, expires_at, issued_at_ms, now), now)

    def refuse(self, peer: Peer, word: str, text: str, reason: str, now: float) -> None:
        """They do not, see `Admission.refuse`; nothing if it has ended."""
        if peer.is_ending or peer.is_lost:
            return
        if peer.login.is_renewing:
            self._renewals.refuse(peer, word, text, reason, now)
        elif peer.login.is_asked:
            self._go_on(peer, self.admission.refuse(peer, word, text, reason, now), now)

    def _go_on(self, peer: Peer, ending: Ending | None, now: float) -> None:
        """A connection was judged."""
        if ending is not None:
            self.carry_out(ending, now)
        else:
            self._let_in(peer, now)

    def _let_in(self, peer: Peer, now: float) -> None:
        """The connection begins: its SETUP was read, and it is admitted."""
        if self.roles.is_on and peer.max_streams:  # else it is a broker that has not proved it yet
            self.engine.set_role(peer, self.roles.find(peer.principal), now)
        accepted = self._handshake.accept(peer, now)
        if accepted.ending is not None:
            self.carry_out(accepted.ending, now)
            return
        self.watch(peer, now + peer.connection.lifetime_s)
        raw = accepted.broker_frame
        if raw is not None and accepted.is_broker:
            self.cluster.handshakes.greeted(peer, raw, now)
            self.end_for_cluster(now)
        elif raw is not None:
            self.announce(peer, raw, REJECTED_SETUP, now)
        if not peer.is_ending:
            self._handshake.welcome(peer, now)
            self._renewals.welcome(peer, now)

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
        self.limits.exchange(peer, newcomer)
        self.sessions.resume(peer, found.session, newcomer, found.resume, now)
        self._forget(newcomer, now)
        if peer.granting is not None:
            peer.resend(frames.encode_lease(GRANTED_MS, GRANTED_N))
        self.watch(peer, now + peer.connection.lifetime_s)

    def _handle_keepalive(self, peer: Peer, frame: FrameCursor) -> None:
        if frame.flags & frames.RESPOND:
            at = self._keepalives.spend(peer.keepalives_at, frame.now)
            if at == SPENT:
                self.end(peer, "over-limit", f"KEEPALIVEs to be answered: {self._keepalives.too_many}", frame.now)
                return
            peer.keepalives_at = at
        session = peer.session
        if session is not None:
            session.acknowledge(frames.keepalive_position(frame.data, frame.start, frame.end))
        elif not frame.flags & frames.RESPOND and self.cluster.knows(peer):
            self.cluster.received_keepalive(peer, frame.data[frame.start + 14 : frame.end], frame.now)
        answer = peer.connection.handle_keepalive(frame, session.received_position if session is not None else 0)
        if answer is not None:
            peer.send(answer)

    def _handle_lease(self, peer: Peer, frame: FrameCursor) -> None:
        """The peer says how many requests it takes; one that did not ask for leases has nothing to grant."""
        ttl_ms, requests_n = frames.decode_lease(frame.data, frame.start, frame.end)
        if peer.granting is None or ttl_ms < 0:
            self.engine.ignored += 1
        else:
            was_open = peer.granting.lease.left_n > 0
            peer.granting.granted(requests_n, ttl_ms, frame.now)
            route = peer.route
            if isinstance(route, Route) and route.slot >= 0 and requests_n and not was_open:
                self.engine.route_opened(route, frame.now)

    def _handle_push(self, peer: Peer, frame: FrameCursor) -> None:
        now = frame.now
        start = frame.start + frames.HEADER_BYTES  # of the metadata, whatever the M flag says: D-25
        at, to, has_claim = self.engine.find_address(peer, frame.data, start, frame.end, False)
        is_request = to - at >= 6 and frame.data[at + 4] >> 2 == ADDRESS
        if self.cluster.knows(peer) and not is_request:
            self._handle_link(peer, frame.data[start : frame.end], now)
        elif to - at < 6:
            self._handle_word(peer, frame.data[start : frame.end], now)
        elif is_request:
            if peer.max_streams:  # else it is a broker that has not proved it yet
                self.engine.handle_push(peer, frame, at, to, has_claim)
        else:
            self.announce(peer, frame.data[at:to], CONNECTION_ERROR, now)

    def _handle_word(self, peer: Peer, metadata: bytes, now: float) -> None:
        """A METADATA_PUSH of a client that has no broker frame: it has moved, or logs in anew."""
        departure = self.migration.receive(peer, metadata, now)
        renewals = renewals_in(metadata) if departure is None else []
        if departure is not None:
            self._depart(departure, now)
        elif renewals:
            ending = self._renewals.receive(peer, renewals, now)
            if ending is not None:
                self.carry_out(ending, now)
        else:
            self.engine.ignored += 1  # nothing for a broker in it, and a push has no answer

    def _handle_link(self, peer: Peer, metadata: bytes, now: float) -> None:
        """A METADATA_PUSH of another broker: one entry after the other, as each may end connections."""
        for entry in self.cluster.entries_of(peer, metadata, now):
            self.cluster.receive(peer, entry.mime, metadata[entry.start : entry.end], now)
            self.end_for_cluster(now)
            if peer.is_ending:
                break
        self.end_for_cluster(now)
        self.cluster.flush()

    # Inside

    def release(self, peer: Peer, now: float) -> None:
        """The peer takes all that is written to it again, or is gone: those that waited for it go on."""
        for link in self.back_pressure.release(peer, now):
            self.cluster.congestion.relieved(link, now)

    def _suspend(self, peer: Peer, reason: str, text: str, now: float) -> None:
        """The peer's transport is gone; it may come back."""
        session = peer.session
        if session is None or session.is_suspended:
            return
        self.release(peer, now)
        self.sessions.suspend(peer, session, reason, text, now)
        self.limits.set_away(peer, True)
        if peer.granting is not None:
            # "LEASE semantics MUST be restarted upon a new connection": what it has granted counts no more.
            peer.granting.granted(0, 0, now)
        self.watch(peer, now + self.sessions.ttl_s)

    def _forget(self, peer: Peer, now: float) -> None:
        """The peer is no more."""
        peer.forget()
        self.release(peer, now)
        self.back_pressure.forget(peer)
        if peer.look_timer is not None:
            peer.look_timer.cancel()
        self.limits.leave(peer)
        self.engine.denials.quotas.leave(peer)

    def _let_go(self, peer: Peer, now: float) -> None:
        """The connection serves nobody any more: its route leaves, the streams of both kinds end."""
        at_ms = self._event_log.wall(now)
        self.sessions.close(peer)
        self._withdraw(peer, peer.end_reason, now)
        self.cluster.lost(peer, now)
        self.end_for_cluster(now)
        self.migration.forget(peer, now)
        peer.take_credit()
        self.release(peer, now)
        if peer.granting is not None:
            peer.granting.close()
        for stream_id in list(peer.streams):
            stream = peer.streams.get(stream_id)
            if stream is None:
                continue  # another stream's end took it along
            if stream_id & 1 == peer.begins:
                stream.caller_lost(now)
                self.engine.apply_decisions()
            else:
                del peer.streams[stream_id]
                stream.route_lost(now)
        self.engine.forget_mimes(peer)  # no sooner: while its streams end, what it waits for may still come
        if peer.connection.state != NEW or peer.end_reason != "left":
            tell_peer(self._event_log, PEER_CLOSED, peer, at_ms, "", peer.end_reason, peer.end_detail)
        self.limits.closed.add(peer, at_ms)

    def _look_at(self, peer: Peer, now: float) -> None:
        """A peer's deadline has come: the SETUP is late, the peer is silent for too long, or all is well."""
        if peer.is_ending or peer.is_lost:
            return
        if peer.login.is_asked:
            self._go_on(peer, self.admission.late(peer, now), now)
            return
        if peer.login.expires_at and now >= peer.login.expires_at:
            expired = self.admission.expire(peer, now)
            if expired is not None:
                self.carry_out(expired, now)
                return
        if not peer.is_suspended and peer.granting is not None and peer.granting.is_due(peer.requests, now):
            peer.send(frames.encode_lease(GRANTED_MS, GRANTED_N))
        ending = overdue(peer, self.sessions.ttl_s, now)
        if ending is None:
            self.watch(peer, peer.heard_at + peer.connection.lifetime_s)  # later than now: `tick` comes to an end
        elif ending.word == "keepalive-timeout" and peer.session is not None:
            self._suspend(peer, ending.word, ending.text, now)
        else:
            self.carry_out(ending, now)
