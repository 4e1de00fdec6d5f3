"""The first frame of a connection: a SETUP that begins one, or a RESUME that goes on with one whose socket broke.

    SETUP  ──► read ──► admission ──► accept ──► refused, or accepted with what its metadata holds: a ROUTE_SETUP, a
                                                 BROKER_INFO, or nothing
    RESUME ──► find ──► refused, or the suspended peer that goes on with this transport (D-39)

Decides whether the connection is accepted and says what has to end; `Lifecycle` ends, registers and links.
"""

from typing import Final

from broker.connections.close_reasons import CloseReasons
from broker.connections.drains import Drains
from broker.connections.ending import Ending
from broker.connections.limits import ConnectionLimits
from broker.connections.migration import Migration
from broker.connections.sessions import Sessions
from broker.event_log.log import EventLog
from broker.events import PEER_CONNECTED
from broker.forwarding.arrival import FOR_BROKERS, FOR_CLIENTS
from broker.forwarding.engine import Engine
from broker.forwarding.lease_grants import GRANTED_MS, GRANTED_N, LeaseGrants
from broker.forwarding.peer import Peer
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_RESUME, REJECTED_SETUP, InvalidFrame
from rsocket_wire.rsocket.frames import RESUME, Resume, decode_resume, encode_lease
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import ABSENT, BROKEN
from rsocket_wire.rsocket.notices import client_id_of
from rsocket_wire.rsocket.resumption import Session
from rsocket_wire.wire.frames import BROKER_INFO

NO_CLIENTS: Final = "this listener is for other brokers (cluster.listen), clients connect to those of server.listen"
NO_BROKERS: Final = "this listener is for clients (server.listen), other brokers connect to those of cluster.listen"


class AcceptedSetup:
    """What a SETUP leads to."""

    def __init__(self, ending: Ending | None, broker_frame: bytes | None = None, is_broker: bool = False) -> None:
        self.ending: Final = ending  # None: the connection is accepted
        self.broker_frame: Final = broker_frame  # of its metadata; None: there is none
        self.is_broker: Final = is_broker  # that frame is a BROKER_INFO


class FoundSession:
    """What a RESUME leads to."""

    def __init__(
        self, endings: list[Ending], peer: Peer | None, session: Session | None, resume: Resume | None
    ) -> None:
        self.endings: Final = endings  # empty: it is resumed, and none of the others is None
        self.peer: Final = peer  # whose session it is; None: nobody's
        self.session: Final = session
        self.resume: Final = resume  # None: the frame is invalid


class Handshake:
    """What one broker makes of first frames."""

    def __init__(
        self,
        broker_id: bytes,
        engine: Engine,
        event_log: EventLog,
        limits: ConnectionLimits,
        sessions: Sessions,
        migration: Migration,
        drains: Drains,
        close_reasons: CloseReasons,
    ) -> None:
        self._broker_id: Final = broker_id
        self._engine: Final = engine
        self._event_log: Final = event_log
        self._limits: Final = limits
        self._sessions: Final = sessions
        self._migration: Final = migration
        self._drains: Final = drains
        self._close_reasons: Final = close_reasons

    def is_resume(self, frame: FrameCursor) -> bool:
        """Tells whether the frame asks to go on with another connection."""
        return self._sessions.is_offered and frame.kind == RESUME and not frame.stream_id

    def read(self, peer: Peer, frame: FrameCursor) -> Ending | None:
        """Reads the first frame of a connection, which should be a SETUP; None when it is one."""
        refusal = peer.connection.handle_first(frame, self._sessions.is_offered)
        if refusal is not None:
            return Ending(peer, refusal.word, refusal.text)
        setup = peer.connection.setup
        assert setup is not None  # it was read
        self._engine.set_mimes(peer, setup)
        metadata = setup.metadata or b""
        if metadata:
            login = peer.login
            login.frame_at, login.frame_to, _ = self._engine.find_address(peer, metadata, 0, len(metadata), False)
        return None

    def is_of_broker(self, peer: Peer) -> bool:
        """Tells whether a SETUP that was read says that a broker wants to link."""
        setup = peer.connection.setup
        at = peer.login.frame_at
        if setup is None or not setup.metadata or at < 0:
            return False
        return peer.login.frame_to - at >= 6 and setup.metadata[at + 4] >> 2 == BROKER_INFO

    def accept(self, peer: Peer, now: float) -> AcceptedSetup:
        """Accepts or refuses a connection whose SETUP was read, and that is admitted."""
        sessions = self._sessions
        setup = peer.connection.setup
        assert setup is not None  # `read` has it
        if peer.may_replace_suspended and self._limits.is_over(peer):  # the suspended ones keep their places
            return _rejected(peer, "over-limit", self._limits.refusal_of(peer))
        peer.frame.max_bytes = self._engine.settings.max_frame_bytes
        is_broker = self.is_of_broker(peer)
        if peer.arrival.entrance == (FOR_CLIENTS if is_broker else FOR_BROKERS):
            return _rejected(peer, "no-cluster", NO_BROKERS if is_broker else NO_CLIENTS)
        if self._drains.is_leaving and not is_broker:  # links come again: routes that nobody else has are still asked
            return _rejected(peer, "draining", "the broker takes no new connections")
        if setup.wants_resume:
            if sessions.find(setup.token) is not None:
                # "A server should not accept a SETUP with a Token that is currently already being used"
                return _rejected(peer, "token-in-use", "another connection has this resume token")
            sessions.open(peer, setup.token)
        self._event_log.tell(PEER_CONNECTED, self._event_log.wall(now), peer=peer.name)
        if setup.wants_lease:
            peer.granting = LeaseGrants(self._engine.query.table.masks, self._engine.timers, now)
            peer.send(encode_lease(GRANTED_MS, GRANTED_N))
        at = peer.login.frame_at
        if at >= 0 and setup.metadata:
            return AcceptedSetup(None, setup.metadata[at : peer.login.frame_to], is_broker)
        if at != ABSENT:
            what = "has too many entries" if at == BROKEN else "is truncated"
            return _rejected(peer, "bad-route", f"the composite metadata of the SETUP {what}")
        return AcceptedSetup(None)

    def welcome(self, peer: Peer, now: float) -> None:
        """Tells an accepted client where other brokers are, and why its connection before this one ended (D-73)."""
        setup = peer.connection.setup
        if setup is None or not setup.metadata:
            return
        self._migration.greet(peer, setup.metadata_mime, setup.metadata)
        peer.client_id = client_id_of(setup.metadata)
        reason = self._close_reasons.take(peer.client_id, now) if peer.client_id else ""
        if reason:
            peer.send(self._migration.notice(reason).encode(self._broker_id, self._event_log.wall(now)))

    def find(self, newcomer: Peer, frame: FrameCursor) -> FoundSession:
        """Reads a RESUME: the peer that it means goes on with the newcomer's transport."""
        if newcomer.arrival.entrance == FOR_BROKERS:
            return FoundSession([Ending(newcomer, "no-cluster", NO_CLIENTS, REJECTED_RESUME)], None, None, None)
        try:
            resume = decode_resume(frame.data, frame.start, frame.end)  # its version: the SETUP's holds (D-39)
        except InvalidFrame as error:
            return FoundSession([Ending(newcomer, "bad-frame", error.text)], None, None, None)
        peer = self._sessions.find(resume.token)
        session = peer.session if peer is not None else None
        if peer is None or session is None or not _may_follow(peer, newcomer):
            text = "there is no session to resume, connect again with a SETUP"
            return FoundSession([Ending(newcomer, "unknown-session", text)], None, None, resume)
        endings: list[Ending] = []
        obstacle = session.obstacle(resume.received_position, resume.first_position)
        if obstacle:
            # "On receiving an ERROR[REJECTED_RESUME] frame, the client MUST NOT attempt resumption again."
            endings.append(Ending(newcomer, "cannot-resume", obstacle))
            endings.append(Ending(peer, "cannot-resume", obstacle, CONNECTION_ERROR))
        return FoundSession(endings, peer, session, resume)


def _may_follow(peer: Peer, newcomer: Peer) -> bool:
    """Who is known may not be followed by somebody else, nor be heard by others (D-39, D-96)."""
    old, new = peer.proof, newcomer.proof
    if old.principal != new.principal and (old.principal or peer.principal):
        return False
    return peer.principal == old.principal or new.is_private or not old.is_private


def _rejected(peer: Peer, word: str, text: str) -> AcceptedSetup:
    return AcceptedSetup(Ending(peer, word, text, REJECTED_SETUP))
