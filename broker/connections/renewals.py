"""Clients that log in anew on an open connection, which so goes on when its credentials expire (D-100).

    METADATA_PUSH ──► receive ──► cannot be read, or may not be: refused at once
                          └─────► asked ── take_asks ──► the edge verifies them ──► renew: all rights are those of
                                                                    │               the new ones
                                                                    └─────────────► refuse: they stay as they were

Meanwhile the connection goes on, with the rights that it has, and until these end. Decides what may be renewed: the
same identity by the same kind of credentials. What is acceptable at all, `admission` decides, and what follows from the
new rights, the caller.
"""

from typing import Final

from broker.access.identities import JWT, USER, kind_of
from broker.connections.admission import NOT_ACCEPTED, UNAUTHENTICATED, UNAVAILABLE, Admission, Ask
from broker.connections.ending import Ending
from broker.connections.migration import Migration
from broker.event_log.log import EventLog
from broker.forwarding.peer import Peer
from rsocket_wire.errors import InvalidFrame
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.rsocket.notices import MAY_BE_TOLD, RENEWED, said_by_client
from rsocket_wire.wire.authentication import BEARER, decode_authentication

MAX_RENEWALS: Final = 20  # of one connection in WINDOW_S; a client sends one in minutes, after a refusal in 5 s
WINDOW_S: Final = 60.0


class Renewals:
    """Of the connections of one broker."""

    def __init__(self, broker_id: bytes, admission: Admission, migration: Migration, event_log: EventLog) -> None:
        self._broker_id: Final = broker_id
        self._admission: Final = admission
        self._migration: Final = migration
        self._event_log: Final = event_log

    def receive(self, peer: Peer, renewals: list[bytes], now: float) -> Ending | None:
        """Reads what a client says in a METADATA_PUSH, see `notices.renewals_in`. None: it goes on."""
        setup = peer.connection.setup
        if not self._admission.is_on or setup is None or setup.metadata_mime != COMPOSITE_MIME:
            return None
        if not peer.max_streams or peer.link is not None or peer.begins != 1:  # a broker, or it has not proved that yet
            return None
        login = peer.login
        if now - login.renewals_from >= WINDOW_S:
            login.renewals_from = now
            login.renewals_n = 0
        login.renewals_n += 1
        if login.renewals_n > MAX_RENEWALS:
            return Ending(peer, "over-limit", f"more than {MAX_RENEWALS} renewals came within {WINDOW_S:g} s")
        if login.is_renewing:
            text = "other credentials of this connection are being verified"
            self._tell_refusal(peer, UNAVAILABLE, text, text, now)
        elif len(renewals) > 1:
            text = "the credentials cannot be read: the METADATA_PUSH has them more than once"
            self._tell_refusal(peer, UNAUTHENTICATED, text, text, now)
        else:
            self._ask(peer, renewals[0], now)
        return None

    def renew(self, peer: Peer, principal: str, expires_at: float, issued_at_ms: int, now: float) -> bool:
        """The credentials hold, see `Admission.admit`. False: not for this connection; it goes on as it was."""
        login = peer.login
        login.is_renewing = False
        if principal != peer.principal:
            self._tell_refusal(peer, UNAUTHENTICATED, NOT_ACCEPTED, f"they are those of {principal}", now)
            return False
        if not self._admission.renew(peer, expires_at, issued_at_ms, now):
            self._tell_refusal(peer, UNAUTHENTICATED, NOT_ACCEPTED, f"those of {principal} are revoked", now)
            return False
        return True

    def refuse(self, peer: Peer, word: str, text: str, reason: str, now: float) -> None:
        """They do not hold, or cannot be verified, see `Admission.refuse`; the connection goes on as it was."""
        peer.login.is_renewing = False
        self._tell_refusal(peer, word, text, reason, now)

    def confirm(self, peer: Peer, now: float) -> None:
        """Tells the client that it has the rights of its new credentials, and for how long."""
        self._tell(peer, RENEWED, now)

    def welcome(self, peer: Peer, now: float) -> None:
        """Tells a client that was let in for how long, if that has an end and it may be told."""
        setup = peer.connection.setup
        if not peer.login.expires_at or setup is None or setup.metadata_mime != COMPOSITE_MIME:
            return
        if said_by_client(setup.metadata or b"") == MAY_BE_TOLD:
            self._tell(peer, "", now)

    def _ask(self, peer: Peer, raw: bytes, now: float) -> None:
        """Has them verified, or refuses them."""
        try:
            credentials = decode_authentication(raw)
        except InvalidFrame as error:
            text = f"the credentials cannot be read: {error.text}"
            self._tell_refusal(peer, UNAUTHENTICATED, text, text, now)
            return
        kind = JWT if credentials.type == BEARER else USER
        unfit = self._admission.find_unfit(peer, kind, credentials)
        if unfit is not None:
            self._tell_refusal(peer, UNAUTHENTICATED, unfit.text, unfit.reason, now)
        elif kind != kind_of(peer.principal):
            self._tell_refusal(peer, UNAUTHENTICATED, NOT_ACCEPTED, f"{kind} for {peer.principal or 'nobody'}", now)
        else:
            peer.login.is_renewing = True
            self._admission.asks.append(Ask(peer, kind, credentials))

    def _tell_refusal(self, peer: Peer, word: str, text: str, reason: str, now: float) -> None:
        """`text` is for the client, `reason` for operators."""
        self._admission.count_refusal(peer, word, f"renewal: {reason}", now)
        self._tell(peer, f"{word}: {text}", now)

    def _tell(self, peer: Peer, login: str, now: float) -> None:
        expires_at = peer.login.expires_at
        expires_in_ms = max(1, int((expires_at - now) * 1000)) if expires_at else 0
        notice = self._migration.notice(expires_in_ms=expires_in_ms, login=login)
        peer.send(notice.encode(self._broker_id, self._event_log.wall(now)))
