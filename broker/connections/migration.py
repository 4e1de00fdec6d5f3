"""How the clients of a broker learn of other brokers, and go there before this one leaves (D-54).

    greet: a client may be told ──► told when the others change ── begin ──► asked to move ── heard: it has ──┐
                                                                                                              ▼
    let_finish: its Route Id came at another broker ──► its route leaves at once ────────────────────────► going
                                                                 nothing runs on it, or the grace is over: closed

While the broker is leaving it serves its clients as ever: each has another broker before this one refuses anything.
Decides who is told what, and when a connection that is not needed any more may be closed without losing a request;
what other brokers there are, the cluster says.
"""

from typing import Final

from broker.connections.ends import Ends
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

    __slots__ = (
        "_broker_id",
        "_event_log",
        "_due",
        "_end_at",
        "_ends",
        "_going",
        "_grace_s",
        "_look_at",
        "_push",
        "_quiet_at",
        "_table",
        "_travellers",
        "_within_ms",
        "is_leaving",
        "is_over",
        "urls",
    )

    def __init__(self, broker_id: bytes, grace_s: float, table: Table, event_log: EventLog, ends: Ends) -> None:
        """`grace_s`: for what runs on connections that go, unless `begin` says otherwise."""
        self._broker_id: Final = broker_id
        self._table: Final = table
        self._event_log: Final = event_log
        self._ends: Final = ends
        self._grace_s = grace_s
        self.urls: list[str] = []  # where clients reach other brokers; bounded by MAX_NOTICE_URLS
        self._push = b""  # what clients are told; empty before anything is known
        # By number of the connection; both are bounded by the connections.
        self._travellers: dict[int, Peer] = {}  # clients that may be told, and have not moved
        self._going: dict[int, Departure] = {}
        self._due: list[int] = []  # travellers that are to be told
        self._look_at = 0.0  # when the list of other brokers is wanted next, seconds, monotonic
        self.is_leaving = False  # clients are asked to move, and served
        self.is_over = False  # it was leaving, and whoever could move has, or had the time
        self._end_at = NEVER  # when it is over at the latest
        self._quiet_at = 0.0  # and at the earliest
        self._within_ms = 0  # for how long clients may spread their moving

    # Who there is

    def greet(self, peer: Peer, metadata_mime: str, metadata: bytes) -> None:
        """A SETUP was accepted."""
        if metadata_mime == COMPOSITE_MIME and said_by_client(metadata) == MAY_BE_TOLD:
            self._travellers[peer.id] = peer
            if self.urls:
                peer.send(self._push)

    def forget(self, peer: Peer, now: float) -> None:
        """The connection ends."""
        if self._travellers.pop(peer.id, None) is not None or self._going.pop(peer.id, None) is not None:
            self._going.pop(peer.id, None)
            self._quiet_at = now + SETTLE_S

    def may_move(self, peer: Peer) -> bool:
        """The client was asked to move and has not said that it has."""
        return self.is_leaving and peer.id in self._travellers

    # What other brokers there are

    def wants_urls(self, now: float) -> bool:
        """It is time for `set_urls`."""
        return now >= self._look_at and len(self._travellers) > 0

    def set_urls(self, urls: list[str], now: float) -> None:
        """Where clients reach other brokers, the best first: such that can be reached and do not leave."""
        self._look_at = now + TELL_EVERY_S
        urls = urls[:MAX_NOTICE_URLS]
        if urls != self.urls:
            self.urls = urls
            self._tell_all(now)

    # Leaving

    def begin(self, within_s: float, grace_s: float, now: float) -> bool:
        """The broker is about to leave: asks its clients to move within that time; False when nobody can."""
        self._grace_s = grace_s
        if not self.urls or not self._travellers:
            return False
        self.is_leaving = True
        self.is_over = False
        self._end_at = now + within_s + DIAL_S
        self._quiet_at = now
        self._within_ms = int(within_s * 1000)
        self._tell_all(now)
        return True

    def stay(self, now: float) -> None:
        """The broker stays after all; who has moved has moved."""
        if self.is_leaving:
            self.is_leaving = False
            self.is_over = False
            self._end_at = NEVER
            self._tell_all(now)

    def heard(self, peer: Peer, metadata: bytes, now: float) -> bool:
        """A METADATA_PUSH that is for the broker itself: whether it says that the client has moved."""
        if peer.id not in self._travellers or said_by_client(metadata) != HAS_MOVED:
            return False
        del self._travellers[peer.id]
        going = self._go(peer, "draining", "it has moved to another broker, as this one had asked", now)
        going.has_moved = True
        self._quiet_at = now + SETTLE_S
        self._look(going, now)
        return True

    def let_finish(self, peer: Peer, text: str, now: float) -> bool:
        """Its Route Id came at another broker (D-09): the route leaves now, what runs may end.

        False when the broker does not leave, and has not asked this client: then it is not one and the same client.
        """
        if not self.is_leaving and peer.id not in self._going:
            return False
        going = self._go(peer, "replaced", text, now)
        if peer.id not in self._travellers:
            going.has_moved = True  # it cannot say so
        self._ends.withdraw(peer, "replaced", now)
        return True

    # Time

    def tick(self, now: float) -> None:
        """Tells whoever is to be told, and closes who may go."""
        for _ in range(min(len(self._due), TOLD_PER_TICK_N)):
            peer = self._travellers.get(self._due.pop())
            if peer is not None:
                peer.send(self._push)
        if self._going:
            for going in list(self._going.values()):
                self._look(going, now)
        if self.is_leaving and not self.is_over:
            self.is_over = now >= self._end_at or (now >= self._quiet_at and self._is_quiet())

    def next_at(self) -> float:
        """When a tick is wanted at the latest, seconds, monotonic; what ends is looked for in between."""
        if self._due:
            return 0.0
        at = self._look_at if self._travellers else NEVER
        if self.is_leaving and not self.is_over:
            at = min(at, self._end_at, self._quiet_at if self._is_quiet() else NEVER)
        for going in self._going.values():
            at = min(at, going.last_at if going.is_settled else going.settle_at)
        return at

    # Inside

    def _tell_all(self, now: float) -> None:
        """In this tick and the next ones."""
        notice = Notice(self.urls, self.is_leaving, self._within_ms if self.is_leaving else 0)
        self._push = notice.encode(self._broker_id, self._event_log.wall(now))
        self._due = list(self._travellers)

    def _is_quiet(self) -> bool:
        """Nobody is left who could send something new, or be sent it."""
        unsettled = [going for going in self._going.values() if not going.is_settled]
        return not self._travellers and not unsettled

    def _go(self, peer: Peer, reason: str, text: str, now: float) -> Departure:
        going = self._going.get(peer.id)
        if going is None:
            settle_at = now + min(MOVED_S, self._grace_s)
            going = self._going[peer.id] = Departure(peer, reason, text, settle_at, now + self._grace_s)
        elif reason == "replaced":
            going.reason = reason
            going.text = text
        return going

    def _look(self, going: Departure, now: float) -> None:
        peer = going.peer
        if not going.is_settled:
            route = peer.route
            is_here = isinstance(route, Route) and self._table.find(route.id) is route
            if now < going.settle_at and (is_here or not going.has_moved):
                return
            going.is_settled = True
            self._quiet_at = now + SETTLE_S
            self._travellers.pop(peer.id, None)
            if is_here:
                self._ends.withdraw(peer, "left", now)
        is_idle = not peer.streams and not peer.begun and not peer.waiting_n
        if is_idle or now >= going.last_at:
            del self._going[peer.id]
            self._ends.end(peer, going.reason, going.text, now, CONNECTION_CLOSE)
