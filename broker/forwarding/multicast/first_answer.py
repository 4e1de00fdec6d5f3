"""Request/response to all: the first branch that answers at all is the answer, an error too (D-13).

Specification, "Multicast Routing": "The broker will only reply to client with the FIRST message that returns. This
includes an error. It will cancel requests that have not completed and ignore additional results." The first fragment
decides, and fragments pass as they come: only one branch is left then, so they cannot mix.
"""

from typing import Final

from broker.forwarding.multicast.call import Branch, MulticastCall, is_item
from broker.forwarding.multicast.steps import StepQueue
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.flows import COMPLETED, FAILED, ROUTE_LOST, Flow
from broker.forwarding.unicast import verdict_of
from rsocket_wire.errors import Refusal
from rsocket_wire.rsocket.frames import COMPLETE, ERROR, FOLLOWS, PAYLOAD
from rsocket_wire.rsocket.framing import FrameCursor

_ALL_LOST: Final = "all routes were lost before one of them answered"


class FirstAnswer(MulticastCall):
    """A request_response to all."""

    __slots__ = ("_is_decided",)

    def __init__(self, queue: StepQueue, caller: Peer, caller_id: int, flow: Flow, model: int, now: float) -> None:
        super().__init__(queue, caller, caller_id, flow, model, now)
        self._is_decided = False  # the first frame of an answer has passed; its branch is the only one left

    @property
    def wants_branches(self) -> bool:
        return not self.is_finished and not self._is_decided

    def opened(self, now: float) -> None:
        super().opened(now)
        if not self.is_finished and not self.branches:  # all went away meanwhile
            self.fail(Refusal("route-lost", _ALL_LOST), ROUTE_LOST, now)

    def from_branch(self, branch: Branch, frame: FrameCursor) -> None:
        if frame.kind != PAYLOAD and frame.kind != ERROR:
            return
        if not self._is_decided:
            self._is_decided = True
            others = [other for other in self.branches.values() if other is not branch]
            self.branches = {branch.number: branch}
            self.leave(others, True, b"", frame.now)
        self.to_caller(frame.data[frame.start + 4 : frame.end])
        if frame.kind == ERROR:
            branch.verdict = verdict_of(frame)
            self.drop_branch(branch)
            self.finish(FAILED, frame.now)
        elif frame.flags & COMPLETE or not frame.flags & FOLLOWS:
            self._items_out = 1 if is_item(frame) else 0
            branch.complete()
            self.drop_branch(branch)
            self.finish(COMPLETED, frame.now)

    def branch_lost(self, branch: Branch, now: float) -> None:
        self.drop_branch(branch)
        if not self.branches and not self.is_opening:
            self.fail(Refusal("route-lost", _ALL_LOST), ROUTE_LOST, now)
