"""Requests that wait for a route (D-10, D-40): held as they came, until one matches or the time is up.

    spec "Creating list of Routable Destinations": 3. Wait for the route to become available with a timeout. If the
    timeout expires, send an error to the client.

Decides which of them a joining route may concern; the engine then looks again and passes them on in the order in which
they came. Bounded in number, per connection and in bytes.
"""

from typing import Final

from broker.forwarding.reassembly import COUNT, REFUSE_PENDING, Decision, Reassembly
from broker.forwarding.settings import Settings
from broker.forwarding.stream import Stream
from broker.forwarding.traffic.flows import CALLER_LOST, CANCELLED, FAILED
from broker.forwarding.unicast import is_request_n
from broker.routing.table import Route
from broker.routing.targets import Target
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.resumption import FRAME_COST
from rsocket_wire.timers import Timer, Timers

LOOKED_AT: Final = 256  # in one tick: some hundred microseconds


class PendingRequest(Stream):
    """One request that waits; in the caller's table only."""

    __slots__ = ("_room", "caller", "held", "is_over", "is_urgent", "number", "target", "timer", "token")

    def __init__(self, room: "PendingRequests", held: Reassembly, target: Target, number: int, is_urgent: bool) -> None:
        self.held: Final = held  # its frames so far
        self.caller: Final = held.caller
        self.target: Final = target
        self.number: Final = number  # 1, 2, 3 … in the order in which they came
        self.is_urgent: Final = is_urgent  # its own deadline ends the wait, not the broker's time-out
        self.token = token_of(target)  # by which it is found, as long as the target is not redirected elsewhere
        self.timer: Timer | None = None  # from the moment when it enters
        self.is_over = False
        self._room: Final = room

    def from_caller(self, frame: FrameCursor) -> None:
        kind = frame.kind
        held = self.held
        if kind == frames.CANCEL:
            self._room.give_up(self, CANCELLED, frame.now)
        elif kind == frames.ERROR and held.kind == frames.REQUEST_CHANNEL:
            self._room.give_up(self, FAILED, frame.now)
        elif kind == frames.PAYLOAD:
            self._room.hold_more(self, frame)
        elif kind == frames.REQUEST_N and held.kind >= frames.REQUEST_STREAM and is_request_n(frame):
            held.more_n = min(held.more_n + frames.initial_n(frame.data, frame.start), frames.MAX_N)

    def caller_lost(self, now: float) -> None:
        self._room.give_up(self, CALLER_LOST, now)

    def expire(self, now: float) -> None:
        self.timer = None
        self._room.run_out(self, now)


class PendingRequests:
    """All requests of one broker that wait."""

    def __init__(self, decisions: list[Decision], timers: Timers, settings: Settings) -> None:
        self._decisions: Final = decisions  # the engine's
        self._timers: Final = timers
        self._max: Final = settings.max_waiting
        self._max_per_peer: Final = settings.max_waiting_per_connection
        self._max_bytes: Final = settings.max_waiting_bytes  # per connection, with FRAME_COST for each frame
        self._by_token: dict[bytes, dict[int, PendingRequest]] = {}  # bounded by `max_waiting`; by number, so in order
        self._by_number: dict[int, PendingRequest] = {}  # the same ones
        self._looked_to = 0  # number of the last one that was looked at
        self.is_behind = False  # the look at all of them has not come to the end
        self.size = 0
        self.bytes_n = 0  # of the frames of all of them
        self.waited_n = 0  # that ever waited

    def refusal_of(self, held: Reassembly) -> str:
        """Why the request cannot wait, or an empty text."""
        caller = held.caller
        if self.size >= self._max:
            return f"{self.size} requests wait already, limits.max_waiting is {self._max}"
        if caller.waiting_n >= self._max_per_peer:
            waiting = f"{caller.waiting_n} requests of this connection wait already"
            return f"{waiting}, limits.max_waiting_per_connection is {self._max_per_peer}"
        if caller.waiting_bytes + held.cost_bytes > self._max_bytes:
            waiting = f"{caller.waiting_bytes} bytes of requests of this connection wait already"
            return f"{waiting}, {held.cost_bytes} more would pass limits.max_waiting_bytes: {self._max_bytes}"
        return ""

    def enter(self, held: Reassembly, target: Target, until: float, is_urgent: bool) -> None:
        """Lets a request wait that has no refusal and is in no table; `until` seconds, monotonic."""
        self.waited_n += 1
        waiter = PendingRequest(self, held, target, self.waited_n, is_urgent)
        caller = held.caller
        caller.streams[held.caller_id] = waiter
        caller.begun += 1
        caller.waiting_n += 1
        caller.waiting_bytes += held.cost_bytes
        self.bytes_n += held.held_bytes
        self.size += 1
        self._by_token.setdefault(waiter.token, {})[waiter.number] = waiter
        self._by_number[waiter.number] = waiter
        waiter.timer = self._timers.put(until, waiter)

    def take_matching(self, route: Route) -> list[PendingRequest]:
        """Those that may have waited for this route, in the order in which they came; they stay until they `leave`."""
        found: list[PendingRequest] = []
        if not self.size:
            return found
        for token in route.tokens:
            waiters = self._by_token.get(token)
            if waiters is not None:
                found.extend(waiters.values())
        if len(found) > 1:
            found.sort(key=lambda waiter: waiter.number)
        return found

    def next_some(self) -> list[PendingRequest]:
        """The next LOOKED_AT of them, in order; from the first one again when the last call came to the end."""
        if not self.is_behind:
            self._looked_to = 0
        found: list[PendingRequest] = []
        self.is_behind = False
        for number, waiter in self._by_number.items():
            if number > self._looked_to:
                if len(found) == LOOKED_AT:
                    self.is_behind = True
                    break
                found.append(waiter)
        if found:
            self._looked_to = found[-1].number
        return found

    def renew(self, waiter: PendingRequest) -> None:
        """Its target was looked up anew: after a redirect it waits for routes of another service."""
        token = token_of(waiter.target)
        if token != waiter.token:
            self._forget_token(waiter)
            waiter.token = token
            self._by_token.setdefault(token, {})[waiter.number] = waiter

    def leave(self, waiter: PendingRequest) -> None:
        """It waits no more; its stream is in no table."""
        waiter.is_over = True
        held = waiter.held
        caller = waiter.caller
        del caller.streams[held.caller_id]
        caller.begun -= 1
        caller.waiting_n -= 1
        caller.waiting_bytes -= held.cost_bytes
        self.bytes_n -= held.held_bytes
        self.size -= 1
        del self._by_number[waiter.number]
        self._forget_token(waiter)
        if waiter.timer is not None:
            waiter.timer.cancel()
            waiter.timer = None

    def _forget_token(self, waiter: PendingRequest) -> None:
        waiters = self._by_token[waiter.token]
        del waiters[waiter.number]
        if not waiters:
            del self._by_token[waiter.token]

    def give_up(self, waiter: PendingRequest, outcome: int, now: float) -> None:
        """Its caller does not want it any more."""
        self.leave(waiter)
        self._decisions.append(Decision(COUNT, waiter.held, waiter.target, now, outcome))

    def run_out(self, waiter: PendingRequest, now: float) -> None:
        """Its time is up."""
        self.leave(waiter)
        word = "deadline" if waiter.is_urgent else "no-route"
        self._decisions.append(Decision(REFUSE_PENDING, waiter.held, waiter.target, now, word=word))

    def hold_more(self, waiter: PendingRequest, frame: FrameCursor) -> None:
        """Another fragment of it; behind its last one only a channel has more to say."""
        held = waiter.held
        if held.is_over and held.kind != frames.REQUEST_CHANNEL:
            return
        size = frame.end - frame.start
        cost = size + FRAME_COST
        if waiter.caller.waiting_bytes + cost > self._max_bytes or held.is_crowded:
            self.leave(waiter)
            self._decisions.append(Decision(REFUSE_PENDING, held, waiter.target, frame.now, word="over-limit"))
            return
        if held.is_over:
            held.hold_later(frame)
        else:
            held.hold(frame)
        waiter.caller.waiting_bytes += cost
        self.bytes_n += size


def token_of(target: Target) -> bytes:
    """A tag that every route must carry which the target can match: it is looked for among the tags of who joins."""
    wanted = target.selectors if target.selectors else target.wanted
    return wanted[-1].token()
