"""The shell around the core: carries bytes in and out, and lets time pass.

Decides nothing about RSocket. Every peer's output is written once per turn of the loop, whatever number of frames it
is; at once where one peer is read from at a time, since waiting would gather nothing. A peer that does not take what is
written to it is `congested`: callers that send it requests are not read from until it is relieved. It is ended if it
reads nothing for `stuck_s`. Of what one connection sends so much is worked off in a turn that the others have theirs.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.connections.admission import Ask
from broker.core import Core
from broker.edge.link import Link, Loop
from broker.edge.memory import Memory
from broker.edge.origins import NOWHERE, Origin
from broker.edge.slow_peers import SlowPeers
from broker.events import FlowRecord, LifecycleEvent
from broker.forwarding.arrival import Arrival
from broker.forwarding.outbound import LARGE_BYTES
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.request_log import RequestRows
from broker.load_meter import LoadMeter

HIGH_MARK_BYTES: Final = 1 << 20  # waiting for a peer, above which it is congested; see `tcp` for TLS
LOW_MARK_BYTES: Final = 1 << 18  # and below which it is relieved
WRITE_BYTES: Final = 256 << 10  # at a time to a transport, of what has waited for it
TICK_S: Final = 0.05  # how exact the core's deadlines are, and how long an event waits at most
# How long a single request waits: a kill -9 costs 20 ms of them, where the loop is 5 ms late at most.
REQUESTS_S: Final = 0.015
# Without a read: a new turn, those of one turn are some 3 µs apart; a guess, wrong it costs one write.
QUIET_S: Final = 10e-6
WEIGH_S: Final = 1.0  # how often it is added up what all connections hold back
WEIGH_PARTS: Final = 20  # a part of them with each tick
# Of one connection in one turn of the loop; the rest is left for the next turns, so that nobody waits for a flood.
SLICE_FRAMES: Final = 256  # worked off before the time is looked at, fewer of those that are more work than others
SLICE_MESSAGES: Final = 32  # the same for messages, each of which is received by itself
TURN_S: Final = 0.00025  # after which the others have their turn: 5 requests to new addresses with ten tags take it
EVENTS_N: Final = 100  # which are handed out in the middle of a flood; fewer wait for the next tick
TURN_BYTES: Final = 128 << 10  # read at once; then nothing more in this turn: libuv would read 32 times 256,000
FLUSH_BYTES: Final = 1 << 20  # of large output, handed to all transports together


class PendingInput:
    """A connection of which more was read than is worked off in one turn: it is not read from until that is done."""

    def __init__(self, peer: Peer, has_frames: bool, since: float) -> None:
        self.peer = peer
        self.has_frames = has_frames  # the core has frames of it that it has not looked at
        self.later: deque[bytes] = deque()  # what came behind them; bounded by what one read of a transport gives
        self.since = since  # when it was received, seconds, monotonic
        # Set once the connection is over, in one way or another: what it had sent before that counts.
        self.fault: tuple[str, str] | None = None  # code word and text of what followed
        self.left_reason: str | None = None  # the other end has closed
        self.lost_reason: str | None = None  # the transport is gone


class Shell:
    """One core on one event loop."""

    def __init__(
        self,
        core: Core,
        stuck_s: float,
        on_events: Callable[[list[LifecycleEvent | FlowRecord]], None],
        loop: Loop | None = None,
        on_requests: Callable[[RequestRows], None] | None = None,
        load_meter: LoadMeter | None = None,
        clock: Callable[[], float] = time.monotonic,
        quiet_s: float = QUIET_S,
        turn_s: float = TURN_S,
        on_asks: Callable[[list[Ask]], None] | None = None,
    ) -> None:
        """`loop`: None is the running one. `on_requests` gets single requests `REQUESTS_S` after the first of them;
        None where the core writes none. `load_meter`: None where nobody reads of the load. `clock`: seconds, monotonic.
        `on_asks` gets credentials to be verified, and answers each by `admit` or `refuse`; None where none are asked.
        """
        self._clock = clock
        self._quiet_s = quiet_s
        self.turn_s = turn_s  # seconds of one connection in one turn of the loop
        self.core = core
        self._on_events = on_events
        self._on_requests = on_requests
        self._load_meter = load_meter
        self._on_asks = on_asks
        self._links: dict[int, Link] = {}  # by peer id
        self._unsent: dict[int, Peer] = {}  # by id: written to since their transport was last seen to be empty
        self._pending_input: dict[int, PendingInput] = {}  # by peer id
        self._memory = Memory()
        self._is_working_off = False
        self._messages_n = 0  # of one connection in this turn, one after another
        self._messages_of: Peer | None = None  # of whom
        self._messages_from = 0.0  # when the first of them came, seconds, monotonic
        self._loop: Loop = asyncio.get_running_loop() if loop is None else loop
        self.slow_peers: Final = SlowPeers(core, self._links, stuck_s, self._loop, clock)
        self._is_waking = False
        self._reads = 0  # since the last writing
        self._was_alone = True  # not more than one read came before the last writing
        self._busy_at = 0.0  # when the last read was done with, seconds, monotonic
        self._timer: asyncio.TimerHandle | None = None  # None before `start` and after `stop`
        self._requests_timer: asyncio.TimerHandle | None = None  # None: no single request waits
        self._weigh_at = self._loop.time() + WEIGH_S
        self._arrived_at = 0.0  # of the first bytes that the next writing is due to, seconds, monotonic; 0.0: none
        self._written_at = 0.0  # when that writing was done
        self._frames_seen = 0  # until then
        self.lag_s = 0.0  # how late the last tick was

    def start(self) -> None:
        """Begins to tick; hands out what happened until now."""
        self._hand_out()
        self._tick_at = self._loop.time() + TICK_S
        self._timer = self._loop.call_at(self._tick_at, self._tick)

    def stop(self) -> None:
        """Writes what is left, hands out the last events, ticks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.flush()
        self._hand_out()

    def connected(self, name: str, framed: bool, link: Link, origin: Origin = NOWHERE) -> Peer:
        """Takes a transport that was accepted."""
        arrival = Arrival(list(origin.names), origin.entrance)
        peer = self.core.connected(name, framed, self._clock(), origin.address, origin.proof, arrival)
        self._links[peer.id] = link
        self.wake()
        return peer

    def dialled(self, name: str, framed: bool, link: Link, url: str, origin: Origin = NOWHERE) -> Peer:
        """Takes a transport to another broker, at that URL."""
        arrival = Arrival(list(origin.names))
        peer = self.core.dialled(name, framed, self._clock(), url, origin.address, origin.proof, arrival)
        self._links[peer.id] = link
        self.wake()
        return peer

    def received(self, peer: Peer, data: bytes) -> None:
        """Bytes of a peer."""
        now = self._clock()
        if self._pending_input:
            pending = self._pending_input.get(peer.id)
            if pending is not None:
                pending.later.append(data)
                return
        has_frames = self.core.receive(peer, data, now, SLICE_FRAMES) and self._work_off(peer, now + self.turn_s)
        if has_frames or len(data) >= TURN_BYTES or (not peer.is_framed and self._is_long(peer, now)):
            self._defer(peer, has_frames, now)
        if peer.is_lost:
            self._move()  # it was a newcomer that resumed another peer
        self._reads += 1
        if self._was_alone and now - self._busy_at > self._quiet_s:
            self._arrived_at = self._arrived_at or now
            self.flush()  # saves 2 µs of a request's latency, compiled; done for all it would cost many callers a third
            self._busy_at = self._written_at
            return
        if not self._arrived_at:  # else the writing that is due takes this along
            if self.core.has_writes():
                self._arrived_at = now
            else:
                self._frames_seen = self.core.frames_in  # they lead to no writing
            self.wake()
        self._busy_at = self._clock()

    def rest(self, peer: Peer) -> None:
        """Reads from the peer again in the next turn: its link has read much that gave few frames."""
        if peer.id not in self._pending_input:
            self._defer(peer, False, self._clock())

    def _work_off(self, peer: Peer, until: float) -> bool:
        """Works frames off of what was received, until that time; True when there are more."""
        now = self._clock()
        while now < until and not peer.held_n:
            if not self.core.go_on(peer, now, SLICE_FRAMES):
                return False
            now = self._clock()
        return True

    def _is_long(self, peer: Peer, now: float) -> bool:
        """Tells whether the connection has sent messages for longer than its turn takes; each is received alone."""
        if self._messages_of is not peer:
            self._messages_of = peer
            self._messages_from = now
            self._messages_n = 0
        self._messages_n += 1
        return self._messages_n % SLICE_MESSAGES == 0 and now - self._messages_from > self.turn_s

    def _defer(self, peer: Peer, has_frames: bool, now: float) -> None:
        """Reads nothing more from the connection before the next turn, and until what was read is worked off."""
        link = self._links.get(peer.id)
        if link is None or peer.is_ending or peer.is_lost:
            return
        if peer.login.is_asked:
            self._hand_out_asks()
        else:
            self._work_off_soon()
        self._pending_input[peer.id] = PendingInput(peer, has_frames, now)
        link.pause()

    def admit(self, peer: Peer, principal: str, expires_at: float, issued_at_ms: int) -> None:
        """See `Core.admit`: what the peer has sent meanwhile is worked off."""
        self.core.admit(peer, principal, expires_at, self._clock(), issued_at_ms)
        self._work_off_soon()
        self.wake()

    def refuse_credentials(self, peer: Peer, word: str, text: str, reason: str) -> None:
        """See `Core.refuse`."""
        self.core.refuse(peer, word, text, reason, self._clock())
        self._work_off_soon()
        self.wake()

    def _hand_out_asks(self) -> None:
        asks = self.core.take_asks()
        if asks and self._on_asks is not None:
            self._on_asks(asks)

    def _work_off_soon(self) -> None:
        """In the next turn of the loop."""
        if not self._is_working_off:
            self._is_working_off = True
            self._loop.call_soon(self._work_off_pending)

    def _work_off_pending(self) -> None:
        """A turn of each connection with pending input, and of what goes to many."""
        self._is_working_off = False
        self._hand_out_asks()
        self.core.work(self._clock())
        if self.core.events_n >= EVENTS_N:
            self._hand_out()
        has_pending = False
        for peer_id, pending in list(self._pending_input.items()):
            if self._pending_input.get(peer_id) is not pending:
                continue  # the peer was resumed on another transport meanwhile
            peer = pending.peer
            if peer.login.is_asked and not peer.is_ending:
                continue  # until it is admitted, or refused
            has_pending = True
            now = self._clock()
            until = now + self.turn_s
            self._arrived_at = self._arrived_at or pending.since
            if pending.has_frames:
                pending.has_frames = self.core.go_on(peer, now, SLICE_FRAMES) and self._work_off(peer, until)
            while pending.later and not pending.has_frames:
                data = pending.later.popleft()
                pending.has_frames = self.core.receive(peer, data, now, SLICE_FRAMES) and self._work_off(peer, until)
                now = self._clock()
                if now >= until or peer.is_lost:
                    break
            if peer.is_lost:
                self._move()  # as in `received`; what is left is the other peer's
            if peer.login.is_asked:
                self._hand_out_asks()
            if pending.has_frames or pending.later or self._pending_input.get(peer_id) is not pending:
                continue
            del self._pending_input[peer_id]
            if pending.fault is not None:
                self.core.end(peer, *pending.fault, self._clock())
            if pending.lost_reason is not None:
                self._lose(peer, pending.lost_reason)
            elif pending.left_reason is not None:
                self._leave(peer, pending.left_reason)
            elif not peer.is_paused and (link := self._links.get(peer_id)) is not None:
                link.resume()
        self._move()
        if has_pending and self._pending_input:
            self._work_off_soon()
        if not self.core.has_writes():
            self._frames_seen = self.core.frames_in  # they lead to no writing
            self._arrived_at = 0.0
        self.wake()

    def refuse(self, peer: Peer, word: str, text: str) -> None:
        """Ends, with this code word and text, the connection of a peer whose bytes cannot even be given to the core."""
        pending = self._pending_input.get(peer.id)
        if pending is not None and not peer.is_ending:
            pending.fault = (word, text)
            return
        self.core.end(peer, word, text, self._clock())
        self.wake()

    def left(self, peer: Peer, reason: str) -> None:
        """The other end has closed the connection: it serves nobody any more, and has `CLOSE_S` to take what waits."""
        pending = self._pending_input.get(peer.id)
        if pending is not None and not peer.is_ending:
            pending.left_reason = reason
        else:
            self._leave(peer, reason)

    def _leave(self, peer: Peer, reason: str) -> None:
        link = self._links.get(peer.id)
        if link is None or peer.is_ending:
            return
        if peer.session is None:
            self.core.lifecycle.left(peer, reason, self._clock())
            self.wake()
            return
        link.serve(None)  # what it has not taken waits in its session
        link.close()
        self._loop.call_at(self._loop.time() + self.slow_peers.close_s, link.abort)
        self._lose(peer, reason)

    def lost(self, peer: Peer, reason: str) -> None:
        """A transport is gone."""
        pending = self._pending_input.get(peer.id)
        if pending is not None and not peer.is_ending:
            pending.lost_reason = reason
            self._links.pop(peer.id, None)
            self.slow_peers.forget(peer)
            self._unsent.pop(peer.id, None)
            return
        self._lose(peer, reason)

    def _lose(self, peer: Peer, reason: str) -> None:
        self._links.pop(peer.id, None)
        self._pending_input.pop(peer.id, None)
        self.core.lost(peer, reason, self._clock())
        self._move()
        self.slow_peers.forget(peer)
        self._unsent.pop(peer.id, None)
        self._apply_read_changes()
        self.wake()

    def congested(self, peer: Peer) -> None:
        """A transport has more to write than its high mark."""
        link = self._links.get(peer.id)
        if link is not None:
            self.slow_peers.congest(peer, link)

    def relieved(self, peer: Peer) -> None:
        """A transport has less to write than its low mark again."""
        self.core.relieved(peer, self._clock())
        if not peer.is_congested:
            self.slow_peers.forget(peer)
        self._apply_read_changes()
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
        if self._is_waking:
            return
        if self.core.has_work() or self.core.has_asks():
            self._work_off_soon()
        if self.core.has_writes():
            self._is_waking = True
            self._loop.call_soon(self._woken)
        elif self._on_requests is not None:
            self._gather_requests()

    def _woken(self) -> None:
        self._is_waking = False
        self.flush()

    def flush(self) -> None:
        """Writes what the core has, now; what is too much for one turn, in the next."""
        self._was_alone = self._reads <= 1
        self._reads = 0
        self._messages_of = None
        core = self.core
        if core.read_changes:
            self._apply_read_changes()
        room_bytes = FLUSH_BYTES
        for peer in core.take_writes():
            link = self._links.get(peer.id)
            if link is None:
                continue
            pending_bytes = peer.pending_bytes
            if pending_bytes and not peer.is_blocked:
                if pending_bytes < LARGE_BYTES:
                    peer.unsent_bytes = link.write(peer.take_output())
                elif room_bytes > 0:
                    self._write_large(peer, link)
                    room_bytes -= pending_bytes - peer.pending_bytes
                else:
                    core.write_later(peer)
                    continue
                self._unsent[peer.id] = peer
            if peer.is_congested and not peer.is_blocked and not peer.pending_bytes:  # all is written, or was dropped
                core.relieved(peer, self._clock())
                self.slow_peers.forget(peer)
            if peer.is_ending:
                self.slow_peers.close(peer, link)
        if self._arrived_at:
            # What has just been written has been here since its bytes arrived, at most since the first ones. Those that
            # arrived later in the turn were in the kernel while the first were handled, so it is the truth about them.
            self._written_at = self._clock()
            frames = core.frames_in
            core.added.add(self._written_at - self._arrived_at, frames - self._frames_seen)
            self._frames_seen = frames
            self._arrived_at = 0.0
        if self._on_requests is not None:
            self._gather_requests()
        if core.has_more():
            self.wake()

    def _write_large(self, peer: Peer, link: Link) -> None:
        """Writes what waits for the peer, a part at a time, until its transport has enough."""
        pieces = peer.take_output(WRITE_BYTES)
        while pieces:
            peer.unsent_bytes = link.write(pieces)
            if peer.is_blocked or not peer.pending_bytes:
                break
            pieces = peer.take_output(WRITE_BYTES)

    def _tick(self) -> None:
        self.lag_s = max(0.0, self._loop.time() - self._tick_at)
        self.core.lag.add(self.lag_s, 1)
        now = self._clock()
        self.core.tick(now, time.time_ns() // 1_000_000)
        if self._load_meter is not None:
            self._load_meter.look(self.lag_s, now)
        if self._pending_input:  # of those that were asked, some were let in or ended because it took too long
            self._work_off_soon()
        self.slow_peers.look()
        if self._loop.time() >= self._weigh_at:
            self._look_at_unsent()
        if self.core.lifecycle.limits.weigh_part(WEIGH_PARTS):
            self._weigh()
        queued = self.core.lifecycle.back_pressure.outbound
        self._memory.look(max(self.core.lifecycle.limits.buffered_bytes, queued.used_bytes), queued.take_most())
        self._move()
        self._apply_read_changes()
        self.wake()
        self._hand_out()
        self._tick_at = self._loop.time() + TICK_S
        self._timer = self._loop.call_at(self._tick_at, self._tick)

    def _look_at_unsent(self) -> None:
        """Tells the core what the transports hold back."""
        self._weigh_at = self._loop.time() + WEIGH_S
        for peer in list(self._unsent.values()):
            link = self._links.get(peer.id)
            peer.unsent_bytes = link.pending_bytes() if link is not None else 0
            if not peer.unsent_bytes:
                del self._unsent[peer.id]

    def _weigh(self) -> None:
        """Closes connections that the core gives when all together hold back too much."""
        self._look_at_unsent()
        for peer in self.core.lifecycle.weigh(self._clock()):
            link = self._links.get(peer.id)
            if link is not None and peer.unsent_bytes:
                self.slow_peers.drop(peer, link)  # else the ERROR that it is owed is written, and then it is closed

    def _move(self) -> None:
        """Gives transports to the peers that were resumed on them, and closes those that peers have lost."""
        for move in self.core.take_moves():
            peer = move.peer
            self.slow_peers.forget(peer)
            self._pending_input.pop(peer.id, None)  # not looked at, so not confirmed: it will be sent again
            old = self._links.pop(peer.id, None)
            if old is not None:
                old.serve(None)
                old.abort()
            if move.newcomer is not None:
                self._hand_over(move.newcomer, peer, move.has_frames)

    def _hand_over(self, newcomer: Peer, peer: Peer, has_frames: bool) -> None:
        """Gives that peer the newcomer's transport, with what it has given. `has_frames`: some is in the core."""
        pending = self._pending_input.pop(newcomer.id, None)
        link = self._links.pop(newcomer.id, None)
        if link is not None:
            link.serve(peer)
            self._links[peer.id] = link
            if peer.is_paused:
                link.pause()
        if not has_frames and pending is None:
            return
        rest = PendingInput(peer, has_frames, self._clock())
        if pending is not None:
            rest.later = pending.later
            rest.lost_reason = pending.lost_reason
        self._pending_input[peer.id] = rest
        self._work_off_soon()
        if link is not None:
            link.pause()

    def _apply_read_changes(self) -> None:
        """Stops and begins to read where the core says so."""
        for peer in self.core.take_read_changes():
            link = self._links.get(peer.id)
            if link is not None:
                if peer.is_paused:
                    link.pause()
                elif peer.id not in self._pending_input:
                    link.resume()

    def _gather_requests(self) -> None:
        """Starts the timer with the first single request that has ended, if any has: an idle broker has no timer."""
        if self._requests_timer is None and self._timer is not None and self.core.has_requests():
            self._requests_timer = self._loop.call_at(self._loop.time() + REQUESTS_S, self._hand_out)

    def _hand_out_requests(self) -> None:
        if self._requests_timer is not None:
            self._requests_timer.cancel()
            self._requests_timer = None
        requests = self.core.take_requests()
        if requests is not None and self._on_requests is not None:
            self._on_requests(requests)

    def _hand_out(self) -> None:
        """Hands out all that was told until now, so that a kill leaves no hole in front of what was handed out."""
        if self._on_requests is not None:
            self._hand_out_requests()
        events = self.core.take_events()
        if events or self.core.query.remarks.untold:  # who takes the events takes those, too
            self._on_events(events)
