"""How the clients of a broker learn of other brokers, and go there before this one leaves (D-54).

    greet: a client may be told ──► told when the others change ── begin ──► asked to move ── hear:─ it has ──┐
                                                                                                              ▼
    let_finish: its Route Id came at another broker ──► its route leaves at once ────────────────────────► leaves
                                                                 nothing runs on it, or the grace is over: closed

While the broker is leaving it serves its clients as ever: each has another broker before this one refuses anything.
Decides who is told what, and when a connection that is not needed any more may be closed without losing a request:
the core withdraws its route and closes it. What other brokers there are, the cluster says.
"""

from typing import Final

from broker.connections.ending import Ending
from broker.event_log.log import EventLog
from broker.forwarding.peer import Peer
from broker.routing.table import Route, Table
from rsocket_wire.errors import CONNECTION_CLOSE
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.rsocket.notices import HAS_MOVED, MAX_NOTICE_URLS, MAY_BE_TOLD, Notice, said_by_client
from rsocket_wire.timers import NEVER

TELL_EVERY_S: Final = 1.0  # changes of the other brokers within it are told together
TOLD_PER_TICK_N: Final = 500  # clients; the others are told in the next ticks
MOVED_S: Final = 2.0  # between the word of a client that it has moved and that of its new broker, in either order
DIAL_S: Final = 2.0  # for the last to connect elsewhere, when the time to move is over
SETTLE_S: Final = 0.2  # after the last has moved: requests that other brokers had sent before they knew


class Departure:
    """A connection that is closed as soon as nothing can be lost with it."""

    __slots__ = ("has_moved", "is_settled", "last_at", "peer", "reason", "settle_at", "text")

    def __init__(self, peer: Peer, reason: str, text: str, settle_at: float, last_at: float) -> None:
        self.peer: Final = peer
        self.reason = reason  # code word
        self.text = text
        self.settle_at: Final = settle_at  # seconds, monotonic: nothing new comes from then on, whoever has not said so
        self.last_at: Final = last_at  # and here it is closed, whatever runs
        self.has_moved = False  # the client has said that nothing new comes from it
        self.is_settled = False  # nothing new comes from it, and nothing is sent to it: its route is elsewhere


class Migration:
    """The clients of one broker that can be told of others, and those that are about to go."""

    def __init__(self, broker_id: bytes, grace_s: float, table: Table, event_log: EventLog) -> None:
        """`grace_s`: for what runs on connections that go, unless `begin` says otherwise."""
        self._broker_id: Final = broker_id
        self._table: Final = table
        self._event_log: Final = event_log
        self._grace_s = grace_s
        self.urls: list[str] = []  # where clients reach other brokers; bounded by MAX_NOTICE_URLS
        self._push = b""  # what clients are told; empty before anything is known
        # By number of the connection; both are bounded by the connections.
        self._clients: dict[int, Peer] = {}  # clients that may be told, and have not moved
        self._departures: dict[int, Departure] = {}
        self._due: list[int] = []  # clients that are to be told
        self._look_at = 0.0  # when the list of other brokers is wanted next, seconds, monotonic
        self.is_leaving = False  # clients are asked to move, and served
        self.is_over = False  # it was leaving, and whoever could move has, or had the time
        self._end_at = NEVER  # when it is over at the latest
        self._quiet_at = 0.0  # and at the earliest
        self._within_ms = 0  # for how long clients may spread their moving

    # Who there is

    def greet(self, peer: Peer, metadata_mime: str, metadata: bytes) -> None:
        """Notes a peer whose SETUP was accepted."""
        if metadata_mime == COMPOSITE_MIME and said_by_client(metadata) == MAY_BE_TOLD:
            self._clients[peer.id] = peer
            if self.urls:
                peer.send(self._push)

    def forget(self, peer: Peer, now: float) -> None:
        """Forgets a peer whose connection ends."""
        if self._clients.pop(peer.id, None) is not None or self._departures.pop(peer.id, None) is not None:
            self._departures.pop(peer.id, None)
            self._quiet_at = now + SETTLE_S

    def may_move(self, peer: Peer) -> bool:
        """Tells whether the client was asked to move and has not said that it has."""
        return self.is_leaving and peer.id in self._clients

    def notice(self, last_end: str = "", expires_in_ms: int = 0, login: str = "") -> Notice:
        """What clients are told now, and what is for one of them alone."""
        within_ms = self._within_ms if self.is_leaving else 0
        return Notice(self.urls, self.is_leaving, within_ms, last_end, expires_in_ms, login)

    # What other brokers there are

    def wants_urls(self, now: float) -> bool:
        """Tells whether it is time for `set_urls`."""
        return now >= self._look_at and len(self._clients) > 0

    def set_urls(self, urls: list[str], now: float) -> None:
        """Sets where clients reach other brokers, the best first: such that can be reached and do not leave."""
        self._look_at = now + TELL_EVERY_S
        urls = urls[:MAX_NOTICE_URLS]
        if urls != self.urls:
            self.urls = urls
            self._tell_all(now)

    # Leaving

    def begin(self, within_s: float, grace_s: float, now: float) -> bool:
        """Asks clients to move within that time, as the broker is about to leave; False when nobody can."""
        self._grace_s = grace_s
        if not self.urls or not self._clients:
            return False
        self.is_leaving = True
        self.is_over = False
        self._end_at = now + within_s + DIAL_S
        self._quiet_at = now
        self._within_ms = int(within_s * 1000)
        self._tell_all(now)
        return True

    def stay(self, now: float) -> None:
        """Asks no more clients to move: the broker stays after all; who has moved has moved."""
        if self.is_leaving:
            self.is_leaving = False
            self.is_over = False
            self._end_at = NEVER
            self._tell_all(now)

    def receive(self, peer: Peer, metadata: bytes, now: float) -> Departure | None:
        """Reads a METADATA_PUSH that is for the broker itself; None: it does not say that the client has moved."""
        if peer.id not in self._clients or said_by_client(metadata) != HAS_MOVED:
            return None
        del self._clients[peer.id]
        departure = self._go(peer, "draining", "it moved to another broker, as requested", now)
        departure.has_moved = True
        self._quiet_at = now + SETTLE_S
        return departure

    def let_finish(self, peer: Peer, text: str, now: float) -> bool:
        """Lets a client finish whose Route Id came at another broker (D-09): its route is to be withdrawn now.

        False when the broker does not leave, and has not asked this client: then it is not one and the same client.
        """
        if not self.is_leaving and peer.id not in self._departures:
            return False
        departure = self._go(peer, "replaced", text, now)
        if peer.id not in self._clients:
            departure.has_moved = True  # it cannot say so
        return True

    # Time

    def tick(self, now: float) -> list[Departure]:
        """Tells clients what they are to be told; returns the departures to look at (`settle`, `ending_of`)."""
        for _ in range(min(len(self._due), TOLD_PER_TICK_N)):
            peer = self._clients.get(self._due.pop())
            if peer is not None:
                peer.send(self._push)
        return list(self._departures.values()) if self._departures else []

    def settle(self, departure: Departure, now: float) -> bool:
        """Decides whether anything new may still come on the connection; True: its route is to be withdrawn now."""
        if departure.is_settled:
            return False
        peer = departure.peer
        route = peer.route
        is_here = isinstance(route, Route) and self._table.find(route.id) is route
        if now < departure.settle_at and (is_here or not departure.has_moved):
            return False
        departure.is_settled = True
        self._quiet_at = now + SETTLE_S
        self._clients.pop(peer.id, None)
        return is_here

    def ending_of(self, departure: Departure, now: float) -> Ending | None:
        """Returns how the connection ends now; None: something runs on it, or may still come."""
        if not departure.is_settled:
            return None
        peer = departure.peer
        is_idle = not peer.streams and not peer.begun and not peer.waiting_n
        if not is_idle and now < departure.last_at:
            return None
        del self._departures[peer.id]
        return Ending(peer, departure.reason, departure.text, CONNECTION_CLOSE)

    def look_whether_over(self, now: float) -> None:
        """Looks whether all is over, after the departures of a tick were looked at."""
        if self.is_leaving and not self.is_over:
            self.is_over = now >= self._end_at or (now >= self._quiet_at and self._is_quiet())

    def next_at(self) -> float:
        """Returns when a tick is wanted at the latest, seconds, monotonic; what ends is looked for in between."""
        if self._due:
            return 0.0
        at = self._look_at if self._clients else NEVER
        if self.is_leaving and not self.is_over:
            at = min(at, self._end_at, self._quiet_at if self._is_quiet() else NEVER)
        for departure in self._departures.values():
            at = min(at, departure.last_at if departure.is_settled else departure.settle_at)
        return at

    # Inside

    def _tell_all(self, now: float) -> None:
        """Tells all clients, in this tick and the next ones."""
        self._push = self.notice().encode(self._broker_id, self._event_log.wall(now))
        self._due = list(self._clients)

    def _is_quiet(self) -> bool:
        """Tells whether nobody is left who could send something new, or be sent it."""
        unsettled = [departure for departure in self._departures.values() if not departure.is_settled]
        return not self._clients and not unsettled

    def _go(self, peer: Peer, reason: str, text: str, now: float) -> Departure:
        departure = self._departures.get(peer.id)
        if departure is None:
            settle_at = now + min(MOVED_S, self._grace_s)
            departure = self._departures[peer.id] = Departure(peer, reason, text, settle_at, now + self._grace_s)
        elif reason == "replaced":
            departure.reason = reason
            departure.text = text
        return departure
