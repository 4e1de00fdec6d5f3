"""Who is let in: what a connection has proved by its transport, and what its SETUP says to prove more.

    SETUP ──► judge ──► its certificate, or user of this machine, will do: let in
                 │  └─► nothing that would do, or nothing that can be read: refused
                 └────► credentials: asked ── take_asks ──► the edge verifies them ──► admit  ──► let in
                                       │                                           └─► refuse ─┐
                                       └── limits.setup_timeout_s is over ─────────────────────┴─► refused

Meanwhile nothing of the connection is looked at. `observe`: all is judged and told, and nobody is refused.

Decides what is acceptable (`auth.mode`, `auth.accept`) and what a stranger is told: never which half was wrong. Whether
a password or a token holds, the edge finds out. Brokers prove who they are in another way (D-46): until they have,
nothing is asked of them here, and nothing but that proof is taken from them.
"""

from typing import Final

from broker.access.identities import ANONYMOUS, JWT, USER, kind_of
from broker.access.revocations import Revocations
from broker.access.roles import Roles
from broker.connections.ending import Ending
from broker.connections.limits import ConnectionLimits
from broker.event_log.log import EventLog
from broker.event_log.route_events import tell_peer
from broker.events import ADMITTED, AUTH_REFUSED, REVOKED
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_SETUP, InvalidFrame
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, entries
from rsocket_wire.wire.authentication import (
    AUTHENTICATION_ID,
    AUTHENTICATION_MIME,
    BEARER,
    Credentials,
    decode_authentication,
)

OFF: Final = "off"
OBSERVE: Final = "observe"
REQUIRED: Final = "required"
MAX_SECRET_BYTES: Final = 16 << 10  # of a password or a token; tokens of the field have 1 or 2 KiB

UNAUTHENTICATED: Final = "unauthenticated"
UNAVAILABLE: Final = "auth-unavailable"
EXPIRED: Final = "expired"
DENIED: Final = "denied"
TAKEN_BACK: Final = "revoked"
NOT_ACCEPTED: Final = "the credentials are not accepted"  # all that a stranger learns


class Ask:
    """Credentials for the edge to verify."""

    def __init__(self, peer: Peer, kind: str, credentials: Credentials) -> None:
        self.peer: Final = peer
        self.kind: Final = kind  # JWT or USER
        self.credentials: Final = credentials


class Unfit:
    """Why credentials are not even verified."""

    def __init__(self, text: str, reason: str) -> None:
        self.text: Final = text  # for who has sent them
        self.reason: Final = reason  # for operators


class Admission:
    """Who is let in to one broker."""

    def __init__(
        self, settings: Settings, roles: Roles, revocations: Revocations, limits: ConnectionLimits, event_log: EventLog
    ) -> None:
        self.is_on: Final = settings.auth_mode != OFF
        self.admitted_n = 0  # ever
        self.refused: Final[dict[str, int]] = {}  # by code word, ever; with `observe` those that would have been
        self.asks: Final[list[Ask]] = []  # that nobody has taken; bounded by max_connections
        self._is_required: Final = settings.auth_mode == REQUIRED
        self._accept: Final = settings.auth_accept
        self._roles: Final = roles
        self._revocations: Final = revocations
        self._limits: Final = limits
        self._event_log: Final = event_log

    def judge(self, peer: Peer, now: float) -> Ending | None:
        """Looks at a connection whose SETUP was read. None: it is let in, or `Login.is_asked`."""
        try:
            credentials = self._find_credentials(peer)
        except InvalidFrame as error:
            return self.refuse(peer, UNAUTHENTICATED, f"the credentials cannot be read: {error.text}", error.text, now)
        if credentials is None:
            kind = kind_of(peer.proof.principal)
            if kind in self._accept:
                return self.admit(peer, peer.proof.principal, 0.0, 0, now)
            if ANONYMOUS in self._accept:
                return self.admit(peer, "", 0.0, 0, now)
            text = f"the SETUP has no credentials, and the transport proves none; this broker accepts {self._accepted}"
            return self.refuse(peer, UNAUTHENTICATED, text, f"no credentials, and {kind} is not in auth.accept", now)
        kind = JWT if credentials.type == BEARER else USER
        unfit = self.find_unfit(peer, kind, credentials)
        if unfit is not None:
            return self.refuse(peer, UNAUTHENTICATED, unfit.text, unfit.reason, now)
        peer.login.is_asked = True
        peer.held_n += 1
        self.asks.append(Ask(peer, kind, credentials))
        return None

    def find_unfit(self, peer: Peer, kind: str, credentials: Credentials) -> Unfit | None:
        """Why these credentials of that kind are not verified; None: they are to be."""
        if not peer.proof.is_private:
            return Unfit("passwords and tokens are accepted over TLS only; use tls or wss", f"{kind} without TLS")
        if kind not in self._accept:
            return Unfit(f"{NOT_ACCEPTED}; this broker accepts {self._accepted}", f"{kind} is not in auth.accept")
        if len(credentials.secret) > MAX_SECRET_BYTES:
            return Unfit(NOT_ACCEPTED, f"{kind} of {len(credentials.secret)} bytes")
        return None

    def take_asks(self) -> list[Ask]:
        """Takes what is to be verified: each is answered by `admit` or `refuse` of the core, unless its peer ends."""
        asks = self.asks[:]
        self.asks.clear()
        return asks

    def admit(self, peer: Peer, principal: str, expires_at: float, issued_at_ms: int, now: float) -> Ending | None:
        """Lets the connection in as this principal; None unless there are too many of it.

        `expires_at`: seconds, monotonic; 0.0: it holds as long as the connection. `issued_at_ms`: since the epoch, of a
        token; 0: it does not say when.
        """
        self._answered(peer)
        peer.login.issued_at_ms = issued_at_ms if kind_of(principal) == JWT else peer.connected_at_ms
        if self._revocations.covers(principal or ANONYMOUS, peer.login.issued_at_ms):
            revoked = self._revoke(peer, principal or ANONYMOUS, REJECTED_SETUP, now)
            if revoked is not None:
                return revoked
        role = self._roles.find(principal)
        if self._roles.is_on and role is None:
            text = f"{principal or ANONYMOUS} has no role"
            refused = self.refuse(peer, DENIED, text, text, now, principal)
            if refused is not None:
                return refused
        surplus = self._limits.identify(peer, principal)
        if surplus:
            return Ending(peer, "over-limit", surplus, REJECTED_SETUP)
        most_n = role.quota.max_connections if role is not None else 0
        others_n = self._limits.connected_n(principal) - 1
        if role is not None and most_n and others_n >= most_n:
            text = f"{others_n} connections of {principal} are open, role.{role.name}.max_connections is {most_n}"
            refused = self.refuse(peer, "over-limit", text, text, now, principal)
            if refused is not None:
                return refused
        peer.login.expires_at = expires_at
        self.admitted_n += 1
        at_ms = self._event_log.wall(now)
        name = role.name if role is not None else ""
        tell_peer(self._event_log, ADMITTED, peer, at_ms, "", kind_of(principal), principal or ANONYMOUS, name)
        return None

    def refuse(self, peer: Peer, word: str, text: str, reason: str, now: float, principal: str = "") -> Ending | None:
        """Refuses the connection; with `observe` lets it in as who its transport says, None.

        `text` is for the stranger, `reason` for operators: neither holds a secret. `principal`: whose they are, if that
        is known.
        """
        self._answered(peer)
        self.count_refusal(peer, word, reason, now, principal)
        return Ending(peer, word, text, REJECTED_SETUP) if self._is_required else None

    def count_refusal(self, peer: Peer, word: str, reason: str, now: float, principal: str = "") -> None:
        """Tells operators that credentials are refused, or would be; as `refuse`."""
        self.refused[word] = self.refused.get(word, 0) + 1
        tell_peer(self._event_log, AUTH_REFUSED, peer, self._event_log.wall(now), "", word, reason, "", principal)

    def renew(self, peer: Peer, expires_at: float, issued_at_ms: int, now: float) -> bool:
        """The connection has other credentials of its principal from now on, else as `admit`; False: they are revoked
        already, and nothing changes."""
        at_ms = self._event_log.wall(now)
        issued_at_ms = issued_at_ms if kind_of(peer.principal) == JWT else at_ms
        if self._is_required and self._revocations.covers(peer.principal, issued_at_ms):
            return False
        peer.login.issued_at_ms = issued_at_ms
        peer.login.expires_at = expires_at
        role = self._roles.find(peer.principal)
        text = f"{peer.principal}, renewed"
        name = role.name if role is not None else ""
        tell_peer(self._event_log, ADMITTED, peer, at_ms, "", kind_of(peer.principal), text, name)
        return True

    def late(self, peer: Peer, now: float) -> Ending | None:
        """Nobody has answered in time; as `refuse`."""
        waited_s = now - peer.connected_at
        text = f"the credentials could not be verified within {waited_s:.1f} s; try again later"
        return self.refuse(peer, UNAVAILABLE, text, f"no answer within {waited_s:.1f} s", now)

    def expire(self, peer: Peer, now: float) -> Ending | None:
        """Its credentials hold no longer; None with `observe`."""
        peer.login.expires_at = 0.0
        text = "the token of this connection has expired; connect again with a new one"
        return self._cut_off(peer, Ending(peer, EXPIRED, text, CONNECTION_ERROR), AUTH_REFUSED, peer.principal, now)

    def judge_again(self, peer: Peer, gone: set[str], now: float) -> Ending | None:
        """Looks at a connection that was let in, since something has changed; None: it goes on, or `observe` lets it.

        `gone`: principals whose credentials hold no longer.
        """
        who = peer.principal or ANONYMOUS
        if who in gone or self._revocations.covers(who, peer.login.issued_at_ms):
            return self._revoke(peer, who, CONNECTION_ERROR, now)
        if self._roles.is_on and self._roles.find(peer.principal) is None:
            text = f"{who} has no role any more"
            return self._cut_off(peer, Ending(peer, DENIED, text, CONNECTION_ERROR), AUTH_REFUSED, text, now)
        return None

    def judge_certificate(self, peer: Peer, now: float) -> Ending | None:
        """Looks whether the certificate is revoked that the other end has shown, client or broker; None: it is not.

        Whatever `auth.mode` is: nobody gets through TLS with it any more, either.
        """
        if not self._revocations.certificates.covers(peer.proof.certificate):
            return None
        self.refused[TAKEN_BACK] = self.refused.get(TAKEN_BACK, 0) + 1
        text = "the certificate of this connection is revoked"
        tell_peer(self._event_log, REVOKED, peer, self._event_log.wall(now), "", TAKEN_BACK, text)
        return Ending(peer, TAKEN_BACK, text)

    def _revoke(self, peer: Peer, who: str, code: int, now: float) -> Ending | None:
        """The credentials of the connection hold no longer, see `_cut_off`. `code`: of the ERROR."""
        text = "the credentials of this connection hold no longer; connect again with others"
        principal = who if who != ANONYMOUS else ""
        return self._cut_off(peer, Ending(peer, TAKEN_BACK, text, code), REVOKED, who, now, principal)

    def _cut_off(
        self, peer: Peer, ending: Ending, kind: int, reason: str, now: float, principal: str = ""
    ) -> Ending | None:
        """Tells why it has lost its right; None with `observe`. `kind`: of the event; the others as of `refuse`."""
        self.refused[ending.word] = self.refused.get(ending.word, 0) + 1
        tell_peer(self._event_log, kind, peer, self._event_log.wall(now), "", ending.word, reason, "", principal)
        return ending if self._is_required else None

    @property
    def _accepted(self) -> str:
        return " or ".join(self._accept)

    def _answered(self, peer: Peer) -> None:
        if peer.login.is_asked:
            peer.login.is_asked = False
            peer.held_n -= 1

    def _find_credentials(self, peer: Peer) -> Credentials | None:
        """What the SETUP says; None: nothing. InvalidFrame."""
        setup = peer.connection.setup
        if setup is None or not setup.metadata or setup.metadata_mime != COMPOSITE_MIME:
            return None
        found: Credentials | None = None
        for entry in entries(setup.metadata) or ():  # what breaks off is refused when its route is looked for
            if entry.id == AUTHENTICATION_ID or entry.mime == AUTHENTICATION_MIME:
                if found is not None:
                    raise InvalidFrame("the SETUP has them more than once")
                found = decode_authentication(setup.metadata[entry.start : entry.end])
        return found
