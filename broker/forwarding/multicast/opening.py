"""How a multicast begins: which kind of call serves a model, and the first frames of its branches.

To more routes than a turn has room for the first frames go in several turns, see `steps`.
"""

from typing import Final

from broker.forwarding.multicast.call import MulticastCall
from broker.forwarding.multicast.channel import Channel
from broker.forwarding.multicast.first_answer import FirstAnswer
from broker.forwarding.multicast.merge import Merge
from broker.forwarding.multicast.steps import CallSteps, Step, StepQueue
from broker.forwarding.peer import Peer
from broker.forwarding.reassembly import Reassembly
from broker.forwarding.request import RequestContext
from broker.forwarding.rights import Rights
from broker.forwarding.traffic.flows import Flow
from broker.routing.table import Route
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.framing import FrameCursor


class BranchRequest:
    """What one branch is sent."""

    __slots__ = ("raw", "route", "server")

    def __init__(self, server: Peer, route: Route | None, raw: bytes) -> None:
        self.server: Final = server
        self.route: Final = route  # None: it is for all routes behind a link
        self.raw: Final = raw  # the whole first frame, with any stream id; the same bytes for all who can read them

    @property
    def is_there(self) -> bool:
        """Its route has not left, or its link not ended, since it was chosen."""
        if self.route is not None and self.route.owner is not self.server:
            return False
        return not self.server.is_ending and not self.server.is_lost

    def is_within(self, rights: Rights) -> bool:
        """The caller, which has other rights than when it has asked, may reach all that this is for."""
        return self.route is None or rights.allow(self.route, self.server)

    def open(self, call: MulticastCall, frame: FrameCursor) -> None:
        """Opens the branch with this first frame, which is `raw`."""
        assert self.route is not None  # or it is the request of a link
        call.open_branch(self.server, self.route, frame)


class Opening(Step):
    """The branches of a call."""

    def __init__(
        self,
        context: RequestContext,
        call: MulticastCall,
        parts: list[BranchRequest],
        reassembly: Reassembly | None,
        is_merged: bool,
    ) -> None:
        """`reassembly`: what was held behind the first frame, and `is_merged`: see `RequestContext.replay`."""
        self._context: Final = context
        self._call: Final = call
        self._parts: Final = parts
        self._reassembly: Final = reassembly
        self._is_merged: Final = is_merged
        self._cursor: Final = FrameCursor(False)
        self._done_n = 0

    def advance(self, most_n: int, now: float) -> int:
        call = self._call
        parts = self._parts[self._done_n : self._done_n + most_n] if call.wants_branches else []
        self._done_n += len(parts)
        for part in parts:
            if not call.wants_branches:
                break
            if not part.is_there or (call.rights is not None and not part.is_within(call.rights)):
                continue
            self._cursor.feed(part.raw, now)
            self._cursor.advance()
            part.open(call, self._cursor)
        if not parts:
            call.opened(now)
            if self._reassembly is not None:
                self._context.replay(call.caller, call.caller_id, self._reassembly, self._is_merged, now)
        return len(parts)


class Pushing(Step):
    """A METADATA_PUSH to all."""

    def __init__(self, parts: list[BranchRequest]) -> None:
        self._parts: Final = parts
        self._done_n = 0

    def advance(self, most_n: int, now: float) -> int:
        parts = self._parts[self._done_n : self._done_n + most_n]
        self._done_n += len(parts)
        for part in parts:
            if part.is_there:
                part.server.request(part.raw)
                if part.route is not None:
                    part.route.load.requests += 1  # no lease speaks of pushes
        return len(parts)


def push_to_all(queue: StepQueue, caller: Peer, parts: list[BranchRequest], now: float) -> None:
    """Sends a METADATA_PUSH to all, at once or in steps."""
    pushing = Pushing(parts)
    if queue.may(len(parts), now):
        pushing.advance(len(parts), now)
    else:
        queue.add(CallSteps(caller), pushing)


def open_multicast(
    queue: StepQueue, caller: Peer, caller_id: int, flow: Flow, model: int, now: float, credit_n: int, branches_n: int
) -> MulticastCall:
    """The call for an interaction model: `credit_n` of a stream or channel, for `branches_n` branches, one at least."""
    if model == REQUEST_RESPONSE:
        return FirstAnswer(queue, caller, caller_id, flow, model, now)
    merge: Merge
    if model == REQUEST_STREAM:
        merge = Merge(queue, caller, caller_id, flow, model, now)
    elif model == REQUEST_CHANNEL:
        merge = Channel(queue, caller, caller_id, flow, model, now)
    else:
        return MulticastCall(queue, caller, caller_id, flow, model, now)
    merge.begin(credit_n, branches_n)
    return merge
