"""Sessions: connections that survive a broken socket, because their SETUP asked for it and the client comes back.

    connected ──socket lost, or silent for too long──► suspended ──RESUME with the token──► connected, on a new socket
        │                                                  │
        └─ERROR on stream 0, CONNECTION_CLOSE, any end─► ended ◄─resume_ttl_s over, too much waits, RESUME impossible─┘

A suspended peer keeps its route, its streams and its place among the connections. Its route stands behind the mask
`congested`: others are preferred, requests that find nobody else wait in its session. Decides which peer a token means
and moves transports between peers; when that is to happen, the core says. D-39
"""

from typing import Final

from broker.connections.ending import Ending
from broker.event_log.log import EventLog
from broker.event_log.route_events import tell_peer
from broker.events import PEER_RESUMED, PEER_SUSPENDED
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings
from broker.routing.health.masks import Masks
from broker.routing.table import Route
from rsocket_wire.rsocket.frames import Resume, encode_resume_ok
from rsocket_wire.rsocket.resumption import Budget, Session


class Move:
    """A transport for the edge to move: `peer` has lost its own, which is to be closed if it is still there.

    From now on `peer` has the transport that was `newcomer`'s; none when that is None.
    """

    def __init__(self, peer: Peer, newcomer: Peer | None, has_frames: bool = False) -> None:
        self.peer: Final = peer
        self.newcomer: Final = newcomer
        self.has_frames: Final = has_frames  # bytes came behind the RESUME: `Core.go_on` is to be called for `peer`


class Sessions:
    """All sessions of one broker. One peer each, so that the limit on connections bounds them, too."""

    def __init__(self, settings: Settings, masks: Masks, event_log: EventLog) -> None:
        self.ttl_s: Final = settings.resume_ttl_s
        self.budget: Final = Budget(settings.resume_total_bytes)
        self.suspended_n = 0  # now
        self.resumed_n = 0  # ever
        self._buffer_bytes: Final = settings.resume_buffer_bytes
        self._peers: Final[dict[bytes, Peer]] = {}  # by token; bounded by max_connections
        self._moves: Final[list[Move]] = []  # that nobody has taken; bounded by the frames of one turn
        self._masks: Final = masks
        self._event_log: Final = event_log

    @property
    def is_offered(self) -> bool:
        """Tells whether a SETUP may ask for it."""
        return self.ttl_s > 0

    def size(self) -> int:
        """Counts sessions, suspended ones included."""
        return len(self._peers)

    def find(self, token: bytes) -> Peer | None:
        """Returns whose session it is; None: there is none."""
        return self._peers.get(token)

    def open(self, peer: Peer, token: bytes) -> None:
        """Opens the session that the peer asked for; the token is free."""
        peer.session = Session(token, self._buffer_bytes, self.budget)
        self._peers[token] = peer

    def close(self, peer: Peer) -> None:
        """Closes the session, if any, of a peer that ends or has said that it will: it cannot be resumed any more."""
        session = peer.session
        if session is None:
            return
        if session.is_suspended:
            self.suspended_n -= 1
        session.close()
        del self._peers[session.token]
        peer.session = None

    def suspend(self, peer: Peer, session: Session, reason: str, text: str, now: float) -> None:
        """Suspends a peer whose transport is gone, or as good as gone: then the edge closes it (`take_moves`)."""
        session.suspend()
        peer.detach()
        self.suspended_n += 1
        self._moves.append(Move(peer, None))
        self._mask(peer, True)
        self._tell(PEER_SUSPENDED, peer, reason, text, now)

    def resume(self, peer: Peer, session: Session, newcomer: Peer, resume: Resume, now: float) -> None:
        """Lets the suspended peer go on with the newcomer's transport."""
        has_frames = peer.attach(newcomer, now)
        self.suspended_n -= 1
        self.resumed_n += 1
        self._moves.append(Move(peer, newcomer, has_frames))
        self._mask(peer, False)
        # "The server sends a RESUME_OK frame, indicating its last-received position", then what the client has missed.
        peer.resend(encode_resume_ok(session.received_position))
        frames = session.resume(resume.received_position)
        for raw in frames:
            peer.resend(raw)
        self._tell(PEER_RESUMED, peer, "", f"{len(frames)} frames are sent again", now)

    def overrun_of(self, peer: Peer) -> Ending | None:
        """Returns how a suspended peer ends for which too much waits: what did not fit is lost, and so is it."""
        session = peer.session
        if session is None or not session.is_overrun:
            return None
        text = f"more than {session.limit_bytes} bytes waited for it, or limits.resume_total_bytes was reached"
        return Ending(peer, "resume-overrun", text, is_slow=True)

    def take_moves(self) -> list[Move]:
        """Takes what the edge has to move, in order."""
        moves = self._moves[:]
        self._moves.clear()
        return moves

    def _mask(self, peer: Peer, is_suspended: bool) -> None:
        route = peer.route
        if isinstance(route, Route):
            self._masks.set(self._masks.congested, route.load.slot, is_suspended)

    def _tell(self, kind: int, peer: Peer, reason: str, text: str, now: float) -> None:
        route_id = peer.route.id_text if isinstance(peer.route, Route) else ""
        tell_peer(self._event_log, kind, peer, self._event_log.wall(now), route_id, reason, text)
