"""Peers that take nothing more: congested ones end when they read nothing for `stuck_s`, ended ones after `CLOSE_S`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.core import Core
from broker.edge.link import Link, Loop
from broker.forwarding.peer import Peer

LOOK_S: Final = 1.0  # between two looks at what the system holds for a peer for which it takes nothing
# In which an ended peer must take some of its last bytes: one that reads nothing would stay for ever.
CLOSE_S: Final = 3.0
MAX_CLOSE_S: Final = 60.0  # for all of them: the rest of a frame, and the reason why it ends


class CongestedPeer:
    """A congested peer: how many bytes this system had taken for it at the last look, and since when it reads nothing.

    What waits says nothing about that: it grows while others send, however fast the peer reads. Nor does what this
    system takes, while it takes nothing: it may hold megabytes that the peer reads at leisure.
    """

    def __init__(self, peer: Peer, taken_bytes: int, now: float) -> None:
        self.peer = peer
        self.took(taken_bytes, now)

    def took(self, taken_bytes: int, now: float) -> None:
        """This system has taken more for it, because the peer has read something."""
        self.taken_bytes = taken_bytes
        self.since = now
        self.unconfirmed_bytes = -1  # at the last look; -1: nobody has looked since
        self.look_at = now

    def looked(self, unconfirmed_bytes: int, now: float) -> None:
        """This system has taken no more: what it holds shrinks by what the peer reads."""
        if unconfirmed_bytes < self.unconfirmed_bytes:
            self.since = now
        self.unconfirmed_bytes = unconfirmed_bytes
        self.look_at = now + LOOK_S


class ClosingPeer:
    """An ended peer that has not taken its last bytes yet."""

    def __init__(self, peer: Peer, confirmed_bytes: int, now: float, look_at: float) -> None:
        self.peer = peer
        self.confirmed_bytes = confirmed_bytes  # at the last look
        self.look_at = look_at  # seconds, monotonic
        self.until = now + MAX_CLOSE_S


class SlowPeers:
    """Those of one shell."""

    def __init__(
        self, core: Core, links: dict[int, Link], stuck_s: float, loop: Loop, clock: Callable[[], float]
    ) -> None:
        """`links`: by peer id, the shell's own. `clock`: seconds, monotonic."""
        self.close_s = CLOSE_S
        self._core: Final = core
        self._links: Final = links
        self._stuck_s: Final = stuck_s
        self._loop: Final = loop
        self._clock: Final = clock
        self._congested: Final[dict[int, CongestedPeer]] = {}  # by peer id
        self._closing: Final[deque[ClosingPeer]] = deque()  # whose last bytes are awaited, by when they are looked at

    def congest(self, peer: Peer, link: Link) -> None:
        """The peer's transport has more to write than its high mark."""
        if peer.id not in self._congested:
            self._congested[peer.id] = CongestedPeer(peer, _taken_bytes(peer, link), self._loop.time())
        self._core.congested(peer)

    def forget(self, peer: Peer) -> None:
        """The peer is congested no more, or gone."""
        self._congested.pop(peer.id, None)

    def close(self, peer: Peer, link: Link) -> None:
        """The peer has ended: its transport is closed when it has taken its last bytes."""
        link.end()
        if not peer.pending_bytes:
            link.close()
        if link.pending_bytes():
            self._core.lifecycle.remember_close_reason(peer, self._clock())
        now = self._loop.time()
        self._closing.append(ClosingPeer(peer, _confirmed_bytes(peer, link), now, now + self.close_s))

    def drop(self, peer: Peer, link: Link) -> None:
        """Closes the transport at once, with what waits for it."""
        self._core.lifecycle.remember_close_reason(peer, self._clock())
        peer.take_output()
        self.forget(peer)
        link.abort()

    def look(self) -> None:
        """Ends and closes those that have had their time."""
        self._abort_overdue()
        self._end_stuck()

    def _abort_overdue(self) -> None:
        """Closes the transports of ended peers that have not taken their last bytes, once they take no more of them."""
        now = self._loop.time()
        while self._closing and self._closing[0].look_at <= now:
            closing = self._closing.popleft()
            link = self._links.get(closing.peer.id)
            if link is None:
                continue
            confirmed = _confirmed_bytes(closing.peer, link)
            if confirmed <= closing.confirmed_bytes or now >= closing.until:
                link.abort()
                continue
            closing.confirmed_bytes = confirmed
            closing.look_at = now + self.close_s
            self._closing.append(closing)

    def _end_stuck(self) -> None:
        """Ends the peers that have read nothing for too long."""
        now = self._loop.time()
        for each in list(self._congested.values()):
            peer = each.peer
            if peer.is_ending:
                continue  # see `_abort_overdue`
            link = self._links[peer.id]
            taken = _taken_bytes(peer, link)
            if taken > each.taken_bytes:
                each.took(taken, now)
                continue
            if now >= each.look_at or now - each.since >= self._stuck_s:
                each.looked(link.unconfirmed_bytes(), now)
            if now - each.since >= self._stuck_s:
                waiting = link.pending_bytes() + peer.pending_bytes
                text = f"the peer has {waiting} unread bytes and read none for {self._stuck_s:g} s (limits.stuck_s)"
                self._core.lifecycle.stuck(peer, text, self._clock())
                self.drop(peer, link)


def _taken_bytes(peer: Peer, link: Link) -> int:
    """Returns how many bytes this system has accepted for the peer, ever."""
    return peer.bytes_out - link.pending_bytes()


def _confirmed_bytes(peer: Peer, link: Link) -> int:
    """What the peer's system has confirmed, but for what TLS adds: to be compared with what it was before."""
    return _taken_bytes(peer, link) - link.unconfirmed_bytes()
