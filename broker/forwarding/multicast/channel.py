"""Request/channel to all: a merge whose caller sends items too, and every branch that listens gets each of them.

Decides when an item of the caller goes on: when every branch that listens has asked for it, so that the slowest sets
the pace (D-14). The caller is granted exactly that much. What it sends beyond its grant is held, within
`multicast_buffer_bytes`, until the branches have asked: their own N is never exceeded either.

    _floor_n     items that every branch that listens has asked for, ever; all of them are granted to the caller
    _slowest_n   branches that have asked for no more than that: when there are none the floor rises
    _said_n      items of the caller that were passed on

The first item travels in the request itself and needs no grant. A branch listens until it says CANCEL, ends its stream
or is lost; when nobody listens the caller is told once to send no more.
"""

from collections import deque
from typing import Final

from broker.forwarding.multicast.call import Branch, is_item
from broker.forwarding.multicast.merge import Merge
from broker.forwarding.multicast.steps import StepQueue
from broker.forwarding.multicast.window import PIECE_BYTES
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.flows import FAILED, Flow
from broker.forwarding.unicast import is_request_n
from rsocket_wire.errors import CANCELED, Refusal
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor


class Piece:
    """A frame of the caller that waits."""

    __slots__ = ("begins_item", "completes", "raw", "size")

    def __init__(self, raw: bytes, begins_item: bool, completes: bool) -> None:
        self.raw: Final = raw  # behind the stream id
        self.size: Final = len(raw) + PIECE_BYTES
        self.begins_item: Final = begins_item  # it may go on when every branch has asked for an item
        self.completes: Final = completes  # the caller's half


class Channel(Merge):
    """A request_channel to all."""

    __slots__ = ("_floor_n", "_held", "_is_within", "_listening_n", "_said_n", "_scratch", "_slowest_n")

    def __init__(self, queue: StepQueue, caller: Peer, caller_id: int, flow: Flow, model: int, now: float) -> None:
        super().__init__(queue, caller, caller_id, flow, model, now)
        self._listening_n = 0  # branches that are not done with the input
        self._floor_n = 0
        self._slowest_n = 0
        self._said_n = 0
        self._is_within = False  # fragments of an item have come, the last one has not
        self._scratch: Final = FrameCursor(False)  # a piece that is passed on
        self._held: Final[deque[Piece]] = deque()  # bounded by multicast_buffer_bytes

    def opened(self, now: float) -> None:
        if not self.caller_done:
            listening = [branch for branch in self.branches.values() if not branch.is_input_done]
            self._listening_n = len(listening)
            self._slowest_n = len([branch for branch in listening if not branch.granted_n])
        super().opened(now)

    def payload_of_caller(self, frame: FrameCursor) -> None:
        if not self.is_whole:
            super().payload_of_caller(frame)
            return
        if self.is_too_wide(frame):
            return
        self._bytes_in += frame.end - frame.start
        completes = frame.flags & frames.COMPLETE != 0
        follows = frame.flags & frames.FOLLOWS != 0 and not completes
        begins_item = not self._is_within and (follows or is_item(frame))
        self._is_within = follows
        if not follows and is_item(frame):
            self._items_in += 1
        if completes:
            self.caller_done = True
        if self._held or (begins_item and self._said_n == self._floor_n):
            self._hold_piece(Piece(frame.data[frame.start + 4 : frame.end], begins_item, completes), frame.now)
            return
        if begins_item:
            self._said_n += 1
        self.pass_to_all(frame, completes)

    def caller_completed(self, now: float) -> None:
        for branch in list(self.branches.values()):
            self.end_input(branch)
        self.settle(now)

    def error_of_caller(self, frame: FrameCursor) -> None:
        """Ends both halves of those that listen, and overtakes what is held; `finish` cancels the others."""
        self._bytes_in += frame.end - frame.start
        branches = list(self.branches.values())
        self.branches = {}
        self.leave(branches, True, frame.data[frame.start + 4 : frame.end], frame.now)
        self.finish(FAILED, frame.now)

    def from_branch(self, branch: Branch, frame: FrameCursor) -> None:
        if frame.kind == frames.REQUEST_N:
            if is_request_n(frame) and not branch.is_input_done:
                self._credit_of_branch(branch, frames.initial_n(frame.data, frame.start), frame.now)
        elif frame.kind == frames.CANCEL:
            self.end_input(branch)
            self.settle(frame.now)
        else:
            super().from_branch(branch, frame)

    def error_of_branch(self, branch: Branch, frame: FrameCursor) -> None:
        if branch.is_done:  # its items were complete; what it can still end is the other half
            self.end_input(branch)
            self.settle(frame.now)
        else:
            super().error_of_branch(branch, frame)

    def is_over_when_done(self, branch: Branch) -> bool:
        return branch.is_input_done

    def end_input(self, branch: Branch) -> None:
        if branch.is_input_done:
            return
        branch.is_input_done = True
        if not self.is_opening:
            self._listening_n -= 1
            if branch.granted_n == self._floor_n:
                self._slowest_n -= 1
        if branch.is_done:
            self.drop_branch(branch)

    def settle_caller(self, now: float) -> None:
        if self._listening_n:
            if not self._slowest_n:
                self._raise_floor(now)
            return
        for piece in self._held:
            self.let_go(piece.size)
        self._held.clear()
        if not self.caller_done:
            self.caller_done = True
            self.caller.send(frames.encode_cancel(self.caller_id))  # "send no more": nobody listens
        super().settle_caller(now)

    def finish(self, outcome: int, now: float) -> None:
        super().finish(outcome, now)
        self._held.clear()

    def _credit_of_branch(self, branch: Branch, n: int, now: float) -> None:
        """The branch wants `n` more items of the caller; what it has at hand is at most MAX_N."""
        before_n = branch.granted_n
        branch.granted_n = min(before_n + n, self._said_n + frames.MAX_N)
        if before_n == self._floor_n and branch.granted_n > before_n and not self.is_opening:
            self._slowest_n -= 1
            if not self._slowest_n:
                self._raise_floor(now)

    def _raise_floor(self, now: float) -> None:
        """The slowest has asked for more, or listens no more: looks who is the slowest now, and grants the rest.

        Goes over all branches, once for each step of the floor: no more often than items of the caller can pass.
        """
        lowest_n = -1
        for branch in self.branches.values():
            if branch.is_input_done:
                continue
            if lowest_n < 0 or branch.granted_n < lowest_n:
                lowest_n = branch.granted_n
                self._slowest_n = 0
            if branch.granted_n == lowest_n:
                self._slowest_n += 1
        more = lowest_n - self._floor_n  # at most MAX_N: the floor is never below `_said_n`
        self._floor_n = lowest_n
        if not self.caller_done:
            self.caller.send(frames.encode_request_n(self.caller_id, more))
        self._release(now)

    def _hold_piece(self, piece: Piece, now: float) -> None:
        self._held.append(piece)
        self.hold(piece.size)
        limit = self.caller.settings.multicast_buffer_bytes
        if self.caller.merging_bytes > limit:
            text = f"more than {limit} bytes of items wait for REQUEST_N of a route"
            self.fail(Refusal("over-limit", f"{text} (limits.multicast_buffer_bytes)", CANCELED), FAILED, now)

    def _release(self, now: float) -> None:
        """Passes on what was held and may go now."""
        while self._held:
            piece = self._held[0]
            if piece.begins_item:
                if self._said_n == self._floor_n:
                    return
                self._said_n += 1
            self._held.popleft()
            self.let_go(piece.size)
            self._scratch.feed(bytes(4) + piece.raw, now)
            self._scratch.advance()
            self.pass_to_all(self._scratch, piece.completes)
