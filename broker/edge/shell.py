"""The shell around the core: carries bytes in and out, and lets time pass.

Decides nothing about RSocket. Every peer's output is written once per turn of the loop, whatever number of frames it
is; a peer that lets more than `max_pending_bytes` wait is ended.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.core import Core
from broker.events import FlowRecord, LifecycleEvent
from broker.forwarding.peers import Peer

TICK_S = 0.05  # how exact the core's deadlines are, and how long an event waits at most
CLOSE_S = 3.0  # for an ended peer to take its last bytes: one that reads nothing more would stay for ever


class Link(Protocol):
    """One transport, as the shell writes to it."""

    def pending_bytes(self) -> int:
        """Bytes handed over and not accepted by the peer's system yet."""

    def write(self, pieces: list[bytes]) -> None:
        """Writes without waiting; the pieces of a stream, or one message each."""

    def close(self) -> None:
        """Closes when all is written."""

    def abort(self) -> None:
        """Closes at once."""


class Shell:
    """One core on one event loop."""

    def __init__(
        self,
        core: Core,
        max_pending_bytes: int,
        on_events: Callable[[list[LifecycleEvent | FlowRecord]], None],
    ) -> None:
        self.core = core
        self._max_pending_bytes = max_pending_bytes
        self._on_events = on_events
        self._links: dict[int, Link] = {}  # by peer id
        self._closing: deque[tuple[float, int]] = deque()  # when to abort which peer's link, soonest first
        self._loop = asyncio.get_running_loop()
        self._is_waking = False
        self._timer: asyncio.TimerHandle | None = None  # None before `start` and after `stop`
        self.lag_s = 0.0  # how late the last tick was

    def start(self) -> None:
        """Begins to tick."""
        self._tick_at = self._loop.time() + TICK_S
        self._timer = self._loop.call_at(self._tick_at, self._tick)

    def stop(self) -> None:
        """Writes what is left, hands out the last events, ticks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.flush()
        self._hand_out()

    def connected(self, name: str, framed: bool, link: Link) -> Peer:
        """A transport was accepted."""
        peer = self.core.connected(name, framed, time.monotonic())
        self._links[peer.id] = link
        self.wake()
        return peer

    def received(self, peer: Peer, data: bytes) -> None:
        """Bytes of a peer."""
        self.core.receive(peer, data, time.monotonic())
        self.wake()

    def lost(self, peer: Peer, reason: str) -> None:
        """A transport is gone."""
        self.core.lost(peer, reason, time.monotonic())
        self._links.pop(peer.id, None)
        self.wake()

    def links_open(self) -> int:
        """Transports that are not gone yet."""
        return len(self._links)

    def abort_all(self) -> None:
        """Closes all transports at once."""
        for link in list(self._links.values()):
            link.abort()

    def wake(self) -> None:
        """Writes what the core has, at the end of this turn of the loop."""
        if not self._is_waking and self.core.has_writes():
            self._is_waking = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Writes what the core has, now."""
        self._is_waking = False
        for peer in self.core.take_writes():
            link = self._links.get(peer.id)
            if link is None:
                continue
            waiting = link.pending_bytes()
            if waiting > self._max_pending_bytes:
                # Only what waited before this write counts: one frame may be larger than the limit.
                text = f"{waiting} bytes wait to be read, the limit is {self._max_pending_bytes}"
                self.core.end(peer, "slow-peer", text, time.monotonic())
                peer.take_output()
                link.abort()
                continue
            pieces = peer.take_output()
            if pieces:
                link.write(pieces)
            if peer.is_ending:
                link.close()
                self._closing.append((self._loop.time() + CLOSE_S, peer.id))
        if self.core.has_writes():
            self.wake()

    def _tick(self) -> None:
        self.lag_s = max(0.0, self._loop.time() - self._tick_at)
        self.core.tick(time.monotonic(), time.time_ns() // 1_000_000)
        self._abort_overdue()
        self.wake()
        self._hand_out()
        self._tick_at = self._loop.time() + TICK_S
        self._timer = self._loop.call_at(self._tick_at, self._tick)

    def _abort_overdue(self) -> None:
        now = self._loop.time()
        while self._closing and self._closing[0][0] <= now:
            link = self._links.get(self._closing.popleft()[1])
            if link is not None:
                link.abort()

    def _hand_out(self) -> None:
        events = self.core.take_events()
        if events:
            self._on_events(events)
