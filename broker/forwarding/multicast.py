"""Multicast: one request to all routes that match, and what the models have in common.

Decides, per the four rules of the specification ("Multicast Routing"), what each branch gets of the caller and when
the call ends. What the caller gets to see of the answers differs by model:

    fire_and_forget   nothing; every branch gets it: this file
    request_response  the first answer: `first_answer`
    request_stream    the branches' items as one stream: `merge`
    request_channel   the same, and the caller's items go to every branch: `channel`

Branches are those routes that matched when the request came: who joins later is not added. A branch that leaves counts
as complete, or ends a stream or channel with an error (`multicast_on_leave`, D-14).
"""

from typing import Final

from broker.errors import CANCELED, Refusal
from broker.forwarding.branches import Branch, Trunk
from broker.forwarding.copies import Copy
from broker.forwarding.flows import CALLER_LOST, CANCELLED, COMPLETED, FAILED, ROUTE_LOST, Flow
from broker.forwarding.peers import Peer
from broker.forwarding.splices import is_request_n, verdict_of
from broker.forwarding.timers import Timer
from broker.routing.table import Route
from broker.rsocket.frames import (
    CANCEL,
    COMPLETE,
    ERROR,
    FOLLOWS,
    HEADER_BYTES,
    NEXT,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_N,
    REQUEST_RESPONSE,
    encode_cancel,
    encode_error,
    initial_n,
)
from broker.rsocket.framing import FrameCursor


class Multicast(Trunk):
    """The branches and the end of the call; alone it is a fire-and-forget. In the caller's table only."""

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_completes",
        "_items_in",
        "_items_out",
        "_opened_at",
        "_opened_n",
        "branches",
        "caller",
        "caller_done",
        "caller_id",
        "flow",
        "is_finished",
        "is_whole",
        "model",
        "order",
        "routes_n",
        "timer",
    )

    def __init__(self, caller: Peer, caller_id: int, flow: Flow, model: int, now: float) -> None:
        self.caller: Final = caller
        self.caller_id: Final = caller_id
        self.flow: Final = flow
        self.model: Final = model
        self.branches: dict[int, Branch] = {}  # open ones by number; bounded by the routes that matched
        self.is_whole = False  # all fragments of the request have come
        self.caller_done = False  # nothing more is taken from the caller
        self.is_finished = False
        self.timer: Timer | None = None  # when the caller has set a deadline (D-41)
        self._opened_at: Final = now
        self._opened_n = 0  # branches, ever
        self.order = 0  # see `Desk.order`
        self.routes_n = 0  # that it goes to, of other brokers, too
        self._completes = False  # see `Splice`: the first frame of a fragmented channel request said COMPLETE
        self._items_in = 0
        self._items_out = 0
        self._bytes_in = 0
        self._bytes_out = 0

    def enter(self, flags: int, size: int) -> None:
        """Takes its place in the caller's table, before the first branch opens."""
        self.caller.streams[self.caller_id] = self
        self.caller.begun += 1
        self._bytes_in += size
        if flags & FOLLOWS:
            self._completes = self.model == REQUEST_CHANNEL and flags & COMPLETE != 0
            return
        self.is_whole = True
        self._items_in = 1
        self.caller_done = self.model != REQUEST_CHANNEL or flags & COMPLETE != 0

    def open_branch(self, server: Peer, route: Route, frame: FrameCursor) -> None:
        """Begins the request at one route; `frame` is readable for it (see `translate`)."""
        route.load.began(self.model == REQUEST_RESPONSE)
        self._enter_branch(Branch(self, self._opened_n, server, route, self.caller_done), frame)

    def open_copy(self, server: Peer, frame: FrameCursor) -> None:
        """Begins the request at another broker, for all routes behind this link."""
        self._enter_branch(Copy(self, self._opened_n, server, self.caller_done), frame)

    def _enter_branch(self, branch: Branch, frame: FrameCursor) -> None:
        self._opened_n += 1
        self.branches[branch.number] = branch
        branch.server.streams[branch.stream_id] = branch
        self.first_frame(branch, frame)

    def first_frame(self, branch: Branch, frame: FrameCursor) -> None:
        """Sends the request to the branch."""
        branch.server.forward(frame, branch.stream_id)

    def opened(self, now: float) -> None:
        """All branches have the first frame."""
        if self.model == REQUEST_FNF and self.caller_done:
            self.finish(COMPLETED, now)

    def from_caller(self, frame: FrameCursor) -> None:
        if frame.kind == PAYLOAD:
            if not self.caller_done:
                self.payload_of_caller(frame)
        elif frame.kind == CANCEL:
            self.caller.drop_stream(self.caller_id)
            self.finish(CANCELLED, frame.now)
        elif frame.kind == REQUEST_N:
            if is_request_n(frame) and self.caller.is_congested:  # it has not read what it has asked for before
                self.caller.hold_credit(self.caller_id, self, initial_n(frame.data, frame.start))
            elif is_request_n(frame):
                self.credit_of_caller(initial_n(frame.data, frame.start), frame.now)
        elif frame.kind == ERROR:
            self.error_of_caller(frame)

    def caller_lost(self, now: float) -> None:
        self.finish(CALLER_LOST, now)

    def shed(self, peer: Peer, text: str, now: float) -> bool:
        self.caller.drop_stream(self.caller_id)
        self.fail(Refusal("over-limit", text, CANCELED), FAILED, now)
        return True

    def expire(self, now: float) -> None:
        """The caller's deadline has passed."""
        text = f"{len(self.branches)} routes have not ended the request within {now - self._opened_at:.3f} s"
        self.fail(Refusal("deadline", text, CANCELED), FAILED, now)

    def payload_of_caller(self, frame: FrameCursor) -> None:
        """A fragment of the request goes to all; the caller is not done."""
        self._bytes_in += frame.end - frame.start
        for branch in self.branches.values():
            if not branch.is_deaf:
                branch.server.forward(frame, branch.stream_id)
        flags = frame.flags
        if flags & FOLLOWS and not flags & COMPLETE:
            return  # "A PAYLOAD with both F and C flags set, implicitly ignores the F flag."
        self.is_whole = True
        if is_item(frame):
            self._items_in += 1
        if flags & COMPLETE or self.model != REQUEST_CHANNEL or self._completes:
            self.caller_done = True
            self.caller_completed(frame.now)

    def caller_completed(self, now: float) -> None:
        """All branches have all that the caller will send."""
        if self.model == REQUEST_FNF:
            self.finish(COMPLETED, now)

    def credit_of_caller(self, n: int, now: float) -> None:
        """The caller asked for more items."""

    def error_of_caller(self, frame: FrameCursor) -> None:
        """The caller says ERROR, which it may in a channel only."""

    def from_branch(self, branch: Branch, frame: FrameCursor) -> None:
        if self.model == REQUEST_FNF and frame.kind == ERROR:  # it wants no more fragments, and there is no answer
            branch.verdict = verdict_of(frame)
            self.drop_branch(branch)

    def branch_lost(self, branch: Branch, now: float) -> None:
        self.drop_branch(branch)
        if not self.branches:
            self.finish(ROUTE_LOST, now)

    def drop_branch(self, branch: Branch) -> None:
        """Forgets a branch whose stream has ended, for both sides."""
        del self.branches[branch.number]
        self._forget(branch)

    def cancel_branch(self, branch: Branch) -> None:
        """Ends a branch from our side."""
        branch.server.send(encode_cancel(branch.stream_id))
        self.drop_branch(branch)

    def fail(self, refusal: Refusal, outcome: int, now: float) -> None:
        """Ends the call with an error of the broker's own."""
        self.caller.send(encode_error(self.caller_id, refusal.code, refusal.message))
        self.finish(outcome, now)

    def finish(self, outcome: int, now: float) -> None:
        """Cancels the branches that are open, forgets all, counts the request."""
        if self.is_finished:
            return
        self.is_finished = True
        for branch in self.branches.values():
            if self.model != REQUEST_FNF or outcome != COMPLETED:
                branch.server.send(encode_cancel(branch.stream_id))
            self._forget(branch)
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
            self.order,
            self.routes_n,
        )

    def to_caller(self, raw: bytes) -> None:
        """Writes a frame to the caller whose bytes behind the stream id are `raw`."""
        self._bytes_out += len(raw) + 4
        self.caller.send(self.caller_id.to_bytes(4, "big") + raw)

    def _forget(self, branch: Branch) -> None:
        branch.server.streams.pop(branch.stream_id, None)
        # Its latency says nothing here: the other branches and the caller's credit are in it.
        if branch.route is not None:
            branch.route.load.ended(self.model == REQUEST_RESPONSE, branch.verdict, 0, 0.0)


def is_item(frame: FrameCursor) -> bool:
    """A PAYLOAD that ends an item, rather than one that only completes."""
    return frame.flags & NEXT != 0 or frame.end - frame.start > HEADER_BYTES
