"""Multicast: one request to all matching routes, their answers merged into one.

Decides, per the four rules of the specification ("Multicast Routing"), what each branch gets and what the caller sees:

    fire_and_forget   every branch gets it
    request_response  the FIRST answer counts, an error too (D-13); the others are cancelled
    request_stream    the branches' items become one stream; an error cancels all
    request_channel   and the caller's items go to every branch

Credit is the broker's own ledger (D-14): the caller never gets more items than it asked for. Each branch may run
`multicast_prefetch_n` items ahead of the caller; what nobody asked for yet waits in its queue, in whole items, so the
fragments of two items never mix. The caller may send as many channel items as the slowest branch allows.
Branches are those routes that matched when the request came; a branch that leaves counts as complete, or ends the
stream (`multicast_on_leave`).
"""

from typing import Final

from broker.errors import CANCELED, Refusal
from broker.forwarding.flows import CALLER_LOST, CANCELLED, COMPLETED, FAILED, ROUTE_LOST, Flow
from broker.forwarding.peers import Peer, Stream
from broker.forwarding.splices import is_request_n, verdict_of
from broker.routing.loads import GOOD, NEITHER
from broker.routing.table import Route
from broker.rsocket.frames import (
    CANCEL,
    COMPLETE,
    ERROR,
    FOLLOWS,
    HEADER_BYTES,
    MAX_N,
    NEXT,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_N,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    encode_cancel,
    encode_error,
    encode_payload,
    encode_request_n,
    initial_n,
)
from broker.rsocket.framing import FrameCursor


class Branch(Stream):
    """One route's part of a multicast: a stream of its own, in the table of that route's peer only."""

    __slots__ = (
        "_call",
        "asked_n",
        "granted_n",
        "is_deaf",
        "is_done",
        "partial",
        "queue",
        "route",
        "server",
        "stream_id",
        "verdict",
    )

    def __init__(self, call: "Multicast", server: Peer, route: Route) -> None:
        self._call: Final = call
        self.server: Final = server
        self.route: Final = route
        self.stream_id: Final = server.open_id()
        self.asked_n = 0  # items asked for and not arrived
        self.granted_n = 0  # channel items that it asked of the caller, ever
        self.is_deaf = call.caller_done  # it gets no more of the caller's items
        self.is_done = False  # it sends no more
        self.queue: list[list[bytes]] = []  # whole items, each a list of frames; bounded by prefetch and bytes
        self.partial: list[bytes] = []  # the fragments of the item that is arriving
        self.verdict = NEITHER  # on the route: how its stream ended

    def complete(self) -> None:
        """Its answer is whole: the end of its stream, unless that is a channel whose other half is open."""
        self.is_done = True
        self.verdict = GOOD
        if self._call.model != REQUEST_CHANNEL:
            self.is_deaf = True

    def end(self) -> None:
        """Its stream has ended."""
        self.is_done = True
        self.is_deaf = True

    @property
    def is_over(self) -> bool:
        """Both halves have ended; items of it may still wait."""
        return self.is_done and self.is_deaf

    def from_route(self, frame: FrameCursor) -> None:
        self._call.from_branch(self, frame)

    def route_lost(self, stream_id: int, peer: Peer, now: float) -> None:
        self._call.branch_lost(self, now)


class Multicast(Stream):
    """What the models have in common: the branches, and the end of the call. In the caller's table only."""

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_completes",
        "_items_in",
        "_items_out",
        "_opened_at",
        "branches",
        "caller",
        "caller_done",
        "caller_id",
        "flow",
        "is_finished",
        "model",
    )

    def __init__(self, caller: Peer, caller_id: int, flow: Flow, model: int, now: float) -> None:
        self.caller: Final = caller
        self.caller_id: Final = caller_id
        self.flow: Final = flow
        self.model: Final = model
        self.branches: list[Branch] = []  # bounded by the routes that matched
        self.caller_done = False
        self.is_finished = False
        self._opened_at: Final = now
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
        self._items_in = 1
        self.caller_done = self.model != REQUEST_CHANNEL or flags & COMPLETE != 0

    def open_branch(self, server: Peer, route: Route, frame: FrameCursor) -> None:
        """Begins the request at one route; `frame` is readable for it (see `translate`)."""
        branch = Branch(self, server, route)
        self.branches.append(branch)
        server.streams[branch.stream_id] = branch
        route.load.requests += 1
        route.load.began(self.model == REQUEST_RESPONSE)
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
            self._payload_of_caller(frame)
        elif frame.kind == CANCEL:
            self.finish(CANCELLED, frame.now)
        elif frame.kind == REQUEST_N:
            if is_request_n(frame):
                self.credit_of_caller(initial_n(frame.data, frame.start), frame.now)
        elif frame.kind == ERROR and self.model == REQUEST_CHANNEL:
            self._bytes_in += frame.end - frame.start
            for branch in self.branches:
                if not branch.is_deaf:  # the others have ended this half: `finish` cancels what is left of them
                    branch.server.forward(frame, branch.stream_id)
                    branch.end()
            self.finish(FAILED, frame.now)

    def caller_lost(self, now: float) -> None:
        self.finish(CALLER_LOST, now)

    def credit_of_caller(self, n: int, now: float) -> None:
        """The caller asked for more items."""

    def from_branch(self, branch: Branch, frame: FrameCursor) -> None:
        """A frame of one of the routes."""
        if self.model == REQUEST_FNF and frame.kind == ERROR:  # it wants no more fragments, and there is no answer
            branch.verdict = verdict_of(frame)
            self.drop_branch(branch)

    def branch_lost(self, branch: Branch, now: float) -> None:
        """The peer of a branch is gone."""
        self.drop_branch(branch)
        if not self.branches:
            self.finish(ROUTE_LOST, now)

    def drop_branch(self, branch: Branch) -> None:
        """Forgets a branch that has ended by itself."""
        self._forget(branch)
        self.branches.remove(branch)

    def cancel_branch(self, branch: Branch) -> None:
        """Ends a branch from our side."""
        branch.server.send(encode_cancel(branch.stream_id))
        self.drop_branch(branch)

    def fail(self, refusal: Refusal, outcome: int, now: float) -> None:
        """Ends the call with an error of the broker's own."""
        self.caller.send(encode_error(self.caller_id, refusal.code, refusal.message))
        self.finish(outcome, now)

    def finish(self, outcome: int, now: float) -> None:
        """Cancels what is left of the branches, forgets all, counts the request."""
        if self.is_finished:
            return
        self.is_finished = True
        for branch in self.branches:
            if not branch.is_over and not (self.model == REQUEST_FNF and outcome == COMPLETED):
                branch.server.send(encode_cancel(branch.stream_id))
            self._forget(branch)
        self.branches = []
        self.caller.streams.pop(self.caller_id, None)
        self.caller.begun -= 1
        latency_us = int((now - self._opened_at) * 1e6)
        self.flow.count(outcome, latency_us, self._items_in, self._items_out, self._bytes_in, self._bytes_out)

    def to_caller(self, raw: bytes) -> None:
        """Writes a frame to the caller whose bytes behind the stream id are `raw`."""
        self._bytes_out += len(raw) + 4
        self.caller.send(self.caller_id.to_bytes(4, "big") + raw)

    def _payload_of_caller(self, frame: FrameCursor) -> None:
        if self.caller_done:
            return
        self._bytes_in += frame.end - frame.start
        for branch in self.branches:
            if not branch.is_deaf:
                branch.server.forward(frame, branch.stream_id)
        flags = frame.flags
        if flags & FOLLOWS and not flags & COMPLETE:
            return
        if is_item(frame):
            self._items_in += 1
        if flags & COMPLETE or self.model != REQUEST_CHANNEL or self._completes:
            self.caller_done = True
            self.caller_completed(frame.now)

    def caller_completed(self, now: float) -> None:
        """The caller has sent all that it will send."""
        if self.model == REQUEST_FNF:
            self.finish(COMPLETED, now)

    def _forget(self, branch: Branch) -> None:
        branch.server.streams.pop(branch.stream_id, None)
        # Its latency says nothing here: the other branches and the caller's credit are in it.
        branch.route.load.ended(self.model == REQUEST_RESPONSE, branch.verdict, 0, 0.0)
        self.caller.merging_bytes -= _size(branch.partial)
        for item in branch.queue:
            self.caller.merging_bytes -= _size(item)
        branch.queue = []
        branch.partial = []


class FirstAnswer(Multicast):
    """Request/response: the first branch that answers at all is the answer."""

    __slots__ = ("_is_decided",)

    def __init__(self, caller: Peer, caller_id: int, flow: Flow, model: int, now: float) -> None:
        super().__init__(caller, caller_id, flow, model, now)
        self._is_decided = False  # the first frame of an answer has passed; its branch is the only one left

    def from_branch(self, branch: Branch, frame: FrameCursor) -> None:
        if frame.kind != PAYLOAD and frame.kind != ERROR:
            return
        if not self._is_decided:
            self._is_decided = True
            for other in self.branches[:]:
                if other is not branch:
                    self.cancel_branch(other)
        if frame.kind == ERROR:
            branch.end()
            branch.verdict = verdict_of(frame)
            self.to_caller(frame.data[frame.start + 4 : frame.end])
            self.finish(FAILED, frame.now)
            return
        self.to_caller(frame.data[frame.start + 4 : frame.end])
        if frame.flags & COMPLETE or not frame.flags & FOLLOWS:
            self._items_out = 1 if is_item(frame) else 0
            branch.end()
            branch.verdict = GOOD
            self.finish(COMPLETED, frame.now)

    def branch_lost(self, branch: Branch, now: float) -> None:
        self.drop_branch(branch)
        if not self.branches:
            text = "every route that could have answered went away before one did"
            self.fail(Refusal("route-lost", text), ROUTE_LOST, now)


class Merge(Multicast):
    """Request/stream and request/channel: the branches' items as one stream."""

    __slots__ = ("_credit_n", "_granted_n", "_is_answered", "_turn")

    def __init__(self, caller: Peer, caller_id: int, flow: Flow, model: int, now: float, credit_n: int) -> None:
        super().__init__(caller, caller_id, flow, model, now)
        self._credit_n = credit_n  # items that the caller asked for and did not get yet
        self._granted_n = 0  # channel items that the caller was allowed to send
        self._is_answered = False  # COMPLETE was sent to the caller
        self._turn = -1  # index of the branch whose item was passed on last

    def first_frame(self, branch: Branch, frame: FrameCursor) -> None:
        branch.asked_n = min(self.caller.settings.multicast_prefetch_n, self._credit_n)
        head = branch.stream_id.to_bytes(4, "big") + frame.data[frame.start + 4 : frame.start + HEADER_BYTES]
        branch.server.request(
            head + branch.asked_n.to_bytes(4, "big") + frame.data[frame.start + HEADER_BYTES + 4 : frame.end]
        )

    def credit_of_caller(self, n: int, now: float) -> None:
        self._credit_n += n
        self._deliver(now)

    def from_branch(self, branch: Branch, frame: FrameCursor) -> None:
        kind = frame.kind
        if branch.is_over:
            return  # only its items still wait
        if kind == PAYLOAD:
            self._payload_of_branch(branch, frame)
        elif kind == ERROR and branch.is_done:
            branch.is_deaf = True  # its items were complete; what it can still end is the other half
            self._settle(branch, frame.now)
        elif kind == ERROR:
            # Spec: "An error message will cancel all streams."
            branch.verdict = verdict_of(frame)
            self.to_caller(frame.data[frame.start + 4 : frame.end])
            self.drop_branch(branch)
            self.finish(FAILED, frame.now)
        elif self.model == REQUEST_CHANNEL and kind == REQUEST_N:
            if is_request_n(frame):
                branch.granted_n += initial_n(frame.data, frame.start)
                self._grant()
        elif self.model == REQUEST_CHANNEL and kind == CANCEL:
            branch.is_deaf = True
            self._settle(branch, frame.now)

    def branch_lost(self, branch: Branch, now: float) -> None:
        self._leave(branch, f"a connection of {branch.route.service} went away in the middle of the multicast", now)

    def _leave(self, branch: Branch, text: str, now: float) -> None:
        """A branch that ended without saying so (D-14). Its whole items stay; if it was complete, nobody misses it."""
        if not branch.is_done and self.caller.settings.multicast_on_leave == "error":
            self.drop_branch(branch)
            self.fail(Refusal("route-lost", text), ROUTE_LOST, now)
            return
        branch.end()
        self.caller.merging_bytes -= _size(branch.partial)
        branch.partial = []
        self._settle(branch, now)

    def caller_completed(self, now: float) -> None:
        for branch in self.branches:
            branch.is_deaf = True
        for branch in self.branches[:]:
            self._settle(branch, now)

    def _payload_of_branch(self, branch: Branch, frame: FrameCursor) -> None:
        if branch.is_done:
            return
        flags = frame.flags
        is_last = flags & COMPLETE != 0
        has_item = flags & (NEXT | FOLLOWS) != 0 or len(branch.partial) > 0
        if has_item and branch.asked_n == 0:  # it breaks the protocol, and there is no room for its item
            if not is_last or (self.model == REQUEST_CHANNEL and not branch.is_deaf):
                branch.server.send(encode_cancel(branch.stream_id))
            self._leave(branch, f"a route of {branch.route.service} sent more items than it was asked for", frame.now)
            return
        if is_last:
            branch.complete()
        if has_item and not self._keep(branch, frame):
            return
        self._deliver(frame.now)
        if is_last:
            self._settle(branch, frame.now)

    def _keep(self, branch: Branch, frame: FrameCursor) -> bool:
        """Puts an item, or a fragment of one, into the queue; False when that is too much and the call has ended."""
        raw = _without_complete(frame)
        branch.partial.append(raw)
        self.caller.merging_bytes += len(raw)
        if branch.is_done or not frame.flags & FOLLOWS:
            branch.queue.append(branch.partial)
            branch.partial = []
            branch.asked_n -= 1
        limit = self.caller.settings.multicast_buffer_bytes
        text = ""
        if self.caller.merging_bytes > limit and self._credit_n == 0:
            text = f"more than {limit} bytes of items wait that the caller did not ask for"
        elif self.caller.merging_bytes > 2 * limit:
            text = f"more than {2 * limit} bytes of items that are not whole yet are held"
        if text:
            self.fail(Refusal("over-limit", text, CANCELED), FAILED, frame.now)
        return not text

    def _deliver(self, now: float) -> None:
        """Passes on what is asked for, one item of each branch in turn, and asks the branches for more."""
        progress = True
        while self._credit_n > 0 and progress:
            progress = False
            for _ in range(len(self.branches)):
                if self._credit_n == 0:
                    break
                self._turn = (self._turn + 1) % len(self.branches)
                branch = self.branches[self._turn]
                if branch.queue:
                    progress = True
                    item = branch.queue.pop(0)
                    self.caller.merging_bytes -= _size(item)
                    self._credit_n -= 1
                    self._items_out += 1
                    for raw in item:
                        self.to_caller(raw)
        for branch in self.branches[:]:
            if self.is_finished:
                return
            if branch.is_done:
                self._settle(branch, now)
            else:
                self._ask(branch)

    def _ask(self, branch: Branch) -> None:
        """Keeps the branch's window open: at most the prefetch, at most what the caller still wants."""
        window = min(self.caller.settings.multicast_prefetch_n, self._credit_n)
        more = window - branch.asked_n - len(branch.queue)
        if more > 0 and (branch.asked_n == 0 or more * 2 >= window):
            branch.asked_n += more
            branch.server.send(encode_request_n(branch.stream_id, more))

    def _grant(self) -> None:
        """Lets the caller send what every branch that listens has asked for."""
        listening = [branch.granted_n for branch in self.branches if not branch.is_deaf]
        if listening and not self.caller_done:
            allowed = min(listening)
            while allowed > self._granted_n:
                more = min(allowed - self._granted_n, MAX_N)
                self._granted_n += more
                self.caller.send(encode_request_n(self.caller_id, more))

    def _settle(self, branch: Branch, now: float) -> None:
        """Drops the branch if both its halves are done and nothing of it waits; then looks at the whole."""
        if self.is_finished:
            return
        if branch.is_over and not branch.queue and branch in self.branches:
            self.drop_branch(branch)
        self._settle_all(now)

    def _settle_all(self, now: float) -> None:
        if self.is_finished:
            return
        if not self._is_answered and all(branch.is_done and not branch.queue for branch in self.branches):
            self._is_answered = True
            self.caller.send(encode_payload(self.caller_id, COMPLETE))
        if self.model == REQUEST_CHANNEL and not self.caller_done:
            if all(branch.is_deaf for branch in self.branches):
                self.caller_done = True
                self.caller.send(encode_cancel(self.caller_id))  # "send no more": nobody listens
            else:
                self._grant()
        if self._is_answered and (self.caller_done or self.model == REQUEST_STREAM):
            self.finish(COMPLETED, now)


def is_item(frame: FrameCursor) -> bool:
    """A PAYLOAD that ends an item, rather than one that only completes."""
    return frame.flags & NEXT != 0 or frame.end - frame.start > HEADER_BYTES


def _without_complete(frame: FrameCursor) -> bytes:
    """The frame behind its stream id; COMPLETE is the merged stream's to say."""
    data = frame.data
    at = frame.start + 4
    if not frame.flags & COMPLETE:
        return data[at : frame.end]
    return bytes([data[at], (data[at + 1] & ~COMPLETE & ~FOLLOWS & 0xFF) | NEXT]) + data[at + 2 : frame.end]


def _size(item: list[bytes]) -> int:
    total = 0
    for raw in item:
        total += len(raw)
    return total


def make(caller: Peer, caller_id: int, flow: Flow, model: int, now: float, credit_n: int) -> Multicast:
    """The call for an interaction model."""
    if model == REQUEST_RESPONSE:
        return FirstAnswer(caller, caller_id, flow, model, now)
    if model == REQUEST_FNF:
        return Multicast(caller, caller_id, flow, model, now)
    return Merge(caller, caller_id, flow, model, now, credit_n)
