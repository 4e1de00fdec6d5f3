"""Multicast: one request to all routes that match, and what the models have in common.

Decides, per the four rules of the specification ("Multicast Routing"), what each branch gets of the caller and when
the call ends. What the caller gets to see of the answers differs by model:

    fire_and_forget   nothing; every branch gets it: this file
    request_response  the first answer: `first_answer`
    request_stream    the branches' items as one stream: `merge`
    request_channel   the same, and the caller's items go to every branch: `channel`

Branches are those routes that matched when the request came: who joins later is not added. A branch that leaves counts
as complete, or ends a stream or channel with an error (`multicast_on_leave`, D-14).

What is done for more branches than a turn has room for is a step of the call (`steps`); the caller is not listened to
before it is done. Branches may answer meanwhile. The content of a large frame is cut out once and shared by all.
"""

from typing import Final

from broker.forwarding.multicast.steps import CallSteps, Step, StepQueue
from broker.forwarding.multicast.window import Window
from broker.forwarding.outbound import LARGE_BYTES
from broker.forwarding.peer import Peer
from broker.forwarding.rights import Rights
from broker.forwarding.stream import Stream
from broker.forwarding.traffic.flows import CALLER_LOST, CANCELLED, COMPLETED, FAILED, ROUTE_LOST, Flow
from broker.forwarding.unicast import is_request_n, spare_for_link, verdict_of
from broker.routing.health.loads import BAD, GOOD, NEITHER, Load
from broker.routing.table import Route
from rsocket_wire.errors import CANCELED, Refusal
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.timers import Timer

NO_WINDOW: Final = Window()  # where no items are merged


class Branch(Stream):
    """One route's part of the call: a stream of its own, in the table of its route's peer only."""

    __slots__ = (
        "_call",
        "granted_n",
        "is_input_done",
        "is_done",
        "is_over",
        "number",
        "route",
        "server",
        "stream_id",
        "verdict",
        "window",
    )

    def __init__(self, call: "MulticastCall", server: Peer, route: Route | None) -> None:
        self._call: Final = call
        self.number: Final = call.opened_n  # among the branches of the call
        self.server: Final = server
        self.route: Final = route  # None: it stands for all routes behind a link
        self.stream_id: Final = server.open_id()
        self.is_input_done = call.caller_done  # it gets no more of the caller's items
        self.is_done = False  # it sends no more
        self.is_over = False  # the call has forgotten it
        self.verdict = NEITHER  # on the route: how its stream ended
        self.granted_n = 0  # channel items that it asked of the caller, ever
        self.window = NO_WINDOW  # of a stream or channel: its own, from its first frame on

    def from_route(self, frame: FrameCursor) -> None:
        if not self._call.is_finished:  # else its CANCEL is on the way
            self._call.from_branch(self, frame)

    def route_lost(self, now: float) -> None:
        self.lost(now)

    def lost(self, now: float) -> None:
        """It has ended without a word."""
        if self._call.is_finished:
            self._call.drop_branch(self)
        else:
            self._call.branch_lost(self, now)

    def deny(self, text: str, now: float) -> None:
        self.server.send(frames.encode_cancel(self.stream_id))
        self.lost(now)

    def shed(self, text: str, now: float) -> bool:
        self.server.take_back(self.stream_id)
        self.lost(now)
        return True

    def is_within(self, rights: Rights) -> bool:
        """Its caller may still reach all that it stands for."""
        return self.route is None or rights.allow(self.route, self.server)

    @property
    def service(self) -> str:
        """Whose answer it is, for the caller."""
        assert self.route is not None  # or it has a name of its own
        return self.route.service

    def complete(self) -> None:
        """Its answer is whole."""
        self.is_done = True
        self.verdict = GOOD


class MulticastCall(Stream):
    """The branches and the end of the call; alone it is a fire-and-forget. In the caller's table only."""

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_body",
        "_body_of",
        "_completes",
        "_steps",
        "_queue",
        "_items_in",
        "_items_out",
        "_opened_at",
        "branches",
        "caller",
        "caller_done",
        "caller_id",
        "choice",
        "flow",
        "is_finished",
        "is_opening",
        "is_whole",
        "model",
        "opened_n",
        "rights",
        "routes_n",
        "timer",
    )

    def __init__(self, queue: StepQueue, caller: Peer, caller_id: int, flow: Flow, model: int, now: float) -> None:
        self.caller: Final = caller
        self.caller_id: Final = caller_id
        self.flow = flow  # where it is counted; another one of the same kind when the broker ends it
        self.model: Final = model
        self.branches: dict[int, Branch] = {}  # open ones by number; bounded by the routes that matched
        self.is_whole = False  # all fragments of the request have come
        self.caller_done = False  # nothing more is taken from the caller
        self.is_opening = True  # not all branches have the first frame
        self.is_finished = False
        self.timer: Timer | None = None  # when the caller has set a deadline (D-41)
        self.rights: Rights | None = None  # None: those with which the caller has asked are in force
        self._opened_at: Final = now
        self.opened_n = 0  # branches, ever
        self.choice = 0  # see `RequestContext.choice`
        self.routes_n = 0  # that it goes to, of other brokers, too
        self._completes = False  # see `Splice`: the first frame of a fragmented channel request said COMPLETE
        self._items_in = 0
        self._items_out = 0
        self._bytes_in = 0
        self._bytes_out = 0
        self._queue: Final = queue
        self._steps: CallSteps | None = None  # None until something must be done in steps
        self._body = b""  # content of the large frame that is being passed on, and
        self._body_of = b""  # the bytes that it stands in

    @property
    def wants_branches(self) -> bool:
        """More of them may be opened."""
        return not self.is_finished

    def may_at_once(self, branches_n: int, now: float) -> bool:
        """So many branches may be served at once; else by a step (`add_step`), which comes behind all others."""
        if self._steps is not None and self._steps.steps:
            return False
        return self._queue.may(branches_n, now)

    def add_step(self, step: Step) -> None:
        if self._steps is None:
            self._steps = CallSteps(self.caller)
        self._queue.add(self._steps, step)

    def enter(self, flags: int, size: int) -> None:
        """Takes its place in the caller's table, before the first branch opens."""
        self.caller.streams[self.caller_id] = self
        self.caller.begun += 1
        self._bytes_in += size
        if flags & frames.FOLLOWS:
            self._completes = self.model == frames.REQUEST_CHANNEL and flags & frames.COMPLETE != 0
            return
        self.is_whole = True
        self._items_in = 1
        self.caller_done = self.model != frames.REQUEST_CHANNEL or flags & frames.COMPLETE != 0

    def open_branch(self, server: Peer, route: Route, frame: FrameCursor) -> None:
        """Begins the request at one route; `frame` is readable for it (see `translate`)."""
        route.load.began(self.model == frames.REQUEST_RESPONSE, self.caller.id)
        self.enter_branch(Branch(self, server, route), frame)

    def enter_branch(self, branch: Branch, frame: FrameCursor) -> None:
        """Begins the request at a new branch."""
        self.opened_n += 1
        self.branches[branch.number] = branch
        branch.server.streams[branch.stream_id] = branch
        self.first_frame(branch, frame)

    def first_frame(self, branch: Branch, frame: FrameCursor) -> None:
        """Sends the request to the branch."""
        self.pass_to(branch, frame)

    def pass_to(self, branch: Branch, frame: FrameCursor) -> None:
        """Sends a frame of the caller to the branch."""
        if frame.end - frame.start < LARGE_BYTES:
            branch.server.forward(frame, branch.stream_id)
        else:
            head = frame.data[frame.start + 4 : frame.start + frames.HEADER_BYTES]
            branch.server.forward_shared(branch.stream_id, head, self.body_of(frame, frames.HEADER_BYTES))

    def body_of(self, frame: FrameCursor, head_bytes: int) -> bytes:
        """What follows the head of a large frame; the same bytes for all branches."""
        if self._body_of is not frame.data or len(self._body) != frame.end - frame.start - head_bytes:
            self._body_of = frame.data
            self._body = frame.data[frame.start + head_bytes : frame.end]
        return self._body

    def forget_body(self) -> None:
        """The frame has been passed on."""
        self._body_of = b""
        self._body = b""

    def opened(self, now: float) -> None:
        """All branches have the first frame."""
        self.is_opening = False
        self.forget_body()
        if self.model == frames.REQUEST_FNF and self.caller_done:
            self.finish(COMPLETED, now)

    def awaited_at(self, load: Load) -> int:
        if self.model != frames.REQUEST_RESPONSE:
            return 0
        awaited_n = 0
        for branch in self.branches.values():
            if branch.route is not None and branch.route.load is load:
                awaited_n += 1
        return awaited_n

    def from_caller(self, frame: FrameCursor) -> None:
        if frame.kind == frames.PAYLOAD:
            if not self.caller_done:
                self.payload_of_caller(frame)
        elif frame.kind == frames.CANCEL:
            self.caller.drop_stream(self.caller_id)
            self.finish(CANCELLED, frame.now)
        elif frame.kind == frames.REQUEST_N:
            if is_request_n(frame) and self.caller.is_congested:  # it has not read what it has asked for before
                self.caller.hold_credit(self.caller_id, self, frames.initial_n(frame.data, frame.start))
            elif is_request_n(frame):
                self.credit_of_caller(frames.initial_n(frame.data, frame.start), frame.now)
        elif frame.kind == frames.ERROR:
            self.error_of_caller(frame)

    def caller_lost(self, now: float) -> None:
        self.finish(CALLER_LOST, now)

    def shed(self, text: str, now: float) -> bool:
        self.caller.drop_stream(self.caller_id)
        self.fail(Refusal("over-limit", text, CANCELED), FAILED, now)
        return True

    def expire(self, now: float) -> None:
        """The caller's deadline has passed."""
        text = f"{len(self.branches)} routes have not ended the request within {now - self._opened_at:.3f} s"
        self.fail(Refusal("deadline", text, CANCELED), FAILED, now)

    def narrow(self, rights: Rights, now: float) -> None:
        """The caller has other rights: branches beyond them end, and with the last one the call, with `denied:`."""
        self.rights = rights
        beyond = [branch for branch in self.branches.values() if not branch.is_within(rights)]
        if beyond and len(beyond) == len(self.branches) and not self.is_opening:
            self.deny(rights.text, now)
            return
        for branch in beyond:
            branch.deny(rights.text, now)

    def deny(self, text: str, now: float) -> None:
        if self.model != frames.REQUEST_FNF:  # which has no answer
            self.tell_failed(Refusal("denied", text, CANCELED))
        self.flow = self.flow.ended_with("denied")
        self.finish(FAILED, now)

    def payload_of_caller(self, frame: FrameCursor) -> None:
        """A fragment of the request goes to all; the caller is not done."""
        if self.is_too_wide(frame):
            return
        self._bytes_in += frame.end - frame.start
        flags = frame.flags
        is_last = not flags & frames.FOLLOWS or flags & frames.COMPLETE != 0
        if is_last:  # "A PAYLOAD with both F and C flags set, implicitly ignores the F flag."
            self.is_whole = True
            if is_item(frame):
                self._items_in += 1
        is_channel = self.model == frames.REQUEST_CHANNEL
        completes = is_last and (flags & frames.COMPLETE != 0 or not is_channel or self._completes)
        if completes:
            self.caller_done = True
        self.pass_to_all(frame, completes)

    def pass_to_all(self, frame: FrameCursor, completes: bool) -> None:
        """A frame of the caller goes to all that listen; `completes`: it is the last one of its half."""
        if not self.may_at_once(len(self.branches), frame.now):
            self.add_step(Passing(self, frame.data[frame.start : frame.end], completes))
            return
        for branch in self.branches.values():
            if not branch.is_input_done:
                self.pass_to(branch, frame)
        self.forget_body()
        if completes:
            self.caller_completed(frame.now)

    def is_too_wide(self, frame: FrameCursor) -> bool:
        """The frame would hold too much at so many branches, and the call has ended: its bytes count for each."""
        size = frame.end - frame.start
        limit = self.caller.settings.max_buffered_bytes
        if size * len(self.branches) <= limit:
            return False
        text = (
            f"{size} bytes to {len(self.branches)} routes are {size * len(self.branches)} bytes, the limit is {limit}"
        )
        self.fail(Refusal("over-limit", f"{text} (limits.max_buffered_bytes)", CANCELED), FAILED, frame.now)
        return True

    def caller_completed(self, now: float) -> None:
        """All branches have all that the caller will send."""
        if self.model == frames.REQUEST_FNF:
            self.finish(COMPLETED, now)

    def credit_of_caller(self, n: int, now: float) -> None:
        """The caller asked for more items."""

    def error_of_caller(self, frame: FrameCursor) -> None:
        """The caller says ERROR, which it may in a channel only."""

    def from_branch(self, branch: Branch, frame: FrameCursor) -> None:
        if self.model == frames.REQUEST_FNF and frame.kind == frames.ERROR:  # no answer: it wants no more fragments
            branch.verdict = verdict_of(frame)
            self.drop_branch(branch)

    def branch_lost(self, branch: Branch, now: float) -> None:
        self.drop_branch(branch)
        if not self.branches and not self.is_opening:
            self.finish(ROUTE_LOST, now)

    def drop_branch(self, branch: Branch) -> None:
        """Forgets a branch whose stream has ended, for both sides."""
        self.branches.pop(branch.number, None)
        self._forget(branch)

    def fail(self, refusal: Refusal, outcome: int, now: float) -> None:
        """Ends the call with an error of the broker's own."""
        self.tell_failed(refusal)
        if outcome == FAILED:
            self.flow = self.flow.ended_with(refusal.word)
        self.finish(outcome, now)

    def tell_failed(self, refusal: Refusal) -> None:
        """Tells the caller of that error."""
        self.caller.send(frames.encode_error(self.caller_id, refusal.code, refusal.message))

    def finish(self, outcome: int, now: float) -> None:
        """Cancels the branches that are open, forgets all, counts the request."""
        if self.is_finished:
            return
        self.is_finished = True
        self.forget_body()
        self.leave(list(self.branches.values()), self.model != frames.REQUEST_FNF or outcome != COMPLETED, b"", now)
        self.branches = {}
        self.caller.streams.pop(self.caller_id, None)
        self.caller.begun -= 1
        if self.timer is not None:
            self.timer.cancel()
        latency_us = int((now - self._opened_at) * 1e6)
        self.flow.count(
            outcome,
            latency_us,
            self._items_in,
            self._items_out,
            self._bytes_in,
            self._bytes_out,
            self._opened_at,
            self.choice,
            self.routes_n,
        )

    def leave(self, branches: list[Branch], cancels: bool, error: bytes, now: float) -> None:
        """Forgets branches that are no more of the call: with a CANCEL, or if they listen with this `error`.

        `error`: of the caller, behind its stream id; empty: none.
        """
        if not branches:
            return
        if not self.may_at_once(len(branches), now):
            self.add_step(Leaving(self, branches, cancels, error))
            return
        for branch in branches:
            self.end_branch(branch, cancels, error)

    def end_branch(self, branch: Branch, cancels: bool, error: bytes) -> None:
        """Ends a branch that `leave` has named, if it has not ended by itself since."""
        if branch.is_over:
            return
        if error and not branch.is_input_done:
            branch.server.request(branch.stream_id.to_bytes(4, "big") + error)
        elif cancels:
            branch.server.send(frames.encode_cancel(branch.stream_id))
        self._forget(branch)

    def to_caller(self, raw: bytes) -> None:
        """Writes a frame to the caller whose bytes behind the stream id are `raw`."""
        self._bytes_out += len(raw) + 4
        self.caller.send(self.caller_id.to_bytes(4, "big") + raw)

    def _forget(self, branch: Branch) -> None:
        branch.is_over = True
        branch.server.streams.pop(branch.stream_id, None)
        # Its latency says nothing here: the other branches and the caller's credit are in it.
        if branch.route is not None:
            caller = self.caller
            if branch.verdict == BAD:
                spare_for_link(branch.route.load, caller)
            branch.route.load.ended(
                self.model == frames.REQUEST_RESPONSE, branch.verdict, 0, 0.0, caller.id, caller.shared_origin
            )


class Passing(Step):
    """A frame of the caller for all branches that listen."""

    def __init__(self, call: MulticastCall, raw: bytes, completes: bool) -> None:
        self._call: Final = call
        self._raw: Final = raw
        self._completes: Final = completes
        self._cursor: Final = FrameCursor(False)
        self._branches: list[Branch] | None = None  # those that are there when it begins
        self._done_n = 0

    def advance(self, most_n: int, now: float) -> int:
        call = self._call
        if call.is_finished:
            return 0
        if self._branches is None:
            self._branches = list(call.branches.values())
        branches = self._branches[self._done_n : self._done_n + most_n]
        self._done_n += len(branches)
        if branches:
            self._cursor.feed(self._raw, now)
            self._cursor.advance()
        for branch in branches:
            if not branch.is_input_done and not branch.is_over:
                call.pass_to(branch, self._cursor)
        if not branches:
            call.forget_body()
            if self._completes:
                call.caller_completed(now)
        return len(branches)


class Leaving(Step):
    """The end of branches that are no more of the call."""

    def __init__(self, call: MulticastCall, branches: list[Branch], cancels: bool, error: bytes) -> None:
        self._call: Final = call
        self._branches: Final = branches
        self._cancels: Final = cancels
        self._error: Final = error
        self._done_n = 0

    def advance(self, most_n: int, now: float) -> int:
        branches = self._branches[self._done_n : self._done_n + most_n]
        self._done_n += len(branches)
        for branch in branches:
            self._call.end_branch(branch, self._cancels, self._error)
        return len(branches)


def is_item(frame: FrameCursor) -> bool:
    """A PAYLOAD that ends an item, rather than one that only completes."""
    return frame.flags & frames.NEXT != 0 or frame.end - frame.start > frames.HEADER_BYTES
