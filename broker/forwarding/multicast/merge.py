"""Request/stream to all: the branches' items as one stream.

Decides which item the caller gets next, and what each branch is asked for. The credit is the broker's own ledger
(D-14): the caller never gets more items than it asked for, and nothing is asked of a branch while the caller wants
nothing. Items pass whole, so the fragments of two never mix, and half an item of a branch that died is never seen.

A branch that can send, and one whose items could be had, are never overlooked; each is in one of these places:

    asked      it has items to send
    _ready     whole items of it wait for the caller: then the caller has no credit, or a step is about to pass them on
               (`Crediting`); one of each branch in turn
    _idle      nothing of it waits and it was asked for nothing, because the caller had no credit: the caller's next
               credit asks each of them for one item at least

So an item costs the same with two branches and with a thousand: no loop goes over the branches.

The window of a branch (D-44) is bounded by the prefetch, by the credit of the caller, and by a share of bytes with the
sizes that were seen. The first ask is a fair part of the caller's own N, one at least: nothing is known about sizes
yet, and of what was asked for within N nothing has to wait.
"""

from collections import deque
from typing import Final

from broker.forwarding.multicast.call import Branch, MulticastCall
from broker.forwarding.multicast.steps import Step, StepQueue
from broker.forwarding.multicast.window import PIECE_BYTES, Window
from broker.forwarding.outbound import LARGE_BYTES
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.flows import COMPLETED, FAILED, ROUTE_LOST, Flow
from broker.forwarding.unicast import verdict_of
from rsocket_wire.errors import CANCELED, Refusal
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor


class Merge(MulticastCall):
    """A request_stream to all."""

    __slots__ = ("_first_n", "_idle", "_is_answered", "_open_n", "_ready", "_waiting_n", "credit_n", "held_bytes")

    def __init__(self, queue: StepQueue, caller: Peer, caller_id: int, flow: Flow, model: int, now: float) -> None:
        super().__init__(queue, caller, caller_id, flow, model, now)
        self.credit_n = 0  # items that the caller asked for and did not get yet, at most MAX_N
        self._first_n = 1  # of them, that each branch is asked for at first
        self._open_n = 0  # branches that may send items
        self._ready: Final[deque[Branch]] = deque()
        self._waiting_n = 0  # items of those in `_ready`
        self._idle: Final[deque[Branch]] = deque()
        self._is_answered = False  # COMPLETE was sent to the caller
        self.held_bytes = 0  # of caller.merging_bytes, what is this call's

    def begin(self, credit_n: int, branches_n: int) -> None:
        """The caller asks for so many items at first; so many branches, one at least, will open."""
        self.credit_n = credit_n
        self._first_n = max(1, min(self.caller.settings.multicast_prefetch_n, credit_n // branches_n))

    def first_frame(self, branch: Branch, frame: FrameCursor) -> None:
        branch.window = Window(self._first_n)
        self._open_n += 1
        self.caller.merging_n += 1
        at = frame.start
        head = frame.data[at + 4 : at + frames.HEADER_BYTES] + self._first_n.to_bytes(4, "big")
        if frame.end - at < LARGE_BYTES:
            rest = frame.data[at + frames.HEADER_BYTES + 4 : frame.end]
            branch.server.request(branch.stream_id.to_bytes(4, "big") + head + rest)
        else:
            branch.server.forward_shared(branch.stream_id, head, self.body_of(frame, frames.HEADER_BYTES + 4))

    def opened(self, now: float) -> None:
        super().opened(now)
        self.settle(now)  # they may have completed meanwhile

    def credit_of_caller(self, n: int, now: float) -> None:
        self.credit_n = min(self.credit_n + n, frames.MAX_N)
        crediting = Crediting(self, len(self._idle))  # those that become so later wait for the next credit
        most_n = min(self.credit_n, self._waiting_n) + len(self._idle)
        if not self.may_at_once(most_n, now):
            self.add_step(crediting)
        elif crediting.advance(most_n, now):
            crediting.advance(0, now)  # that was all

    def pass_waiting(self, most_n: int) -> int:
        """The caller gets so many items at most that wait, as far as it has asked for them; how many."""
        passed_n = 0
        while passed_n < most_n and self.credit_n > 0 and self._ready:
            branch = self._ready.popleft()
            self._pass_oldest(branch)
            if branch.window.waiting_n:
                self._ready.append(branch)
            if not branch.is_done:
                self._ask(branch)
            passed_n += 1
        return passed_n

    def request_of_idle(self, most_n: int) -> None:
        """So many of the branches that were asked for nothing are asked for items; there must be so many."""
        for _ in range(most_n):
            branch = self._idle.popleft()
            if not branch.is_done:
                self._send_ask(branch, branch.window.wanted_n(self.credit_n, self._share_bytes()))

    def from_branch(self, branch: Branch, frame: FrameCursor) -> None:
        if frame.kind == frames.PAYLOAD:
            if not branch.is_done:
                self._payload_of_branch(branch, frame)
        elif frame.kind == frames.ERROR:
            self.error_of_branch(branch, frame)

    def error_of_branch(self, branch: Branch, frame: FrameCursor) -> None:
        """Specification, "Multicast Routing": "An error message will cancel all streams." It overtakes what waits."""
        branch.verdict = verdict_of(frame)
        self.to_caller(frame.data[frame.start + 4 : frame.end])
        self.drop_branch(branch)
        self.finish(FAILED, frame.now)

    def branch_lost(self, branch: Branch, now: float) -> None:
        self._leave(branch, f"a connection of {branch.service} went away in the middle of the multicast", now)

    def is_over_when_done(self, branch: Branch) -> bool:
        """The branch gets nothing more of the caller either."""
        return True

    def end_input(self, branch: Branch) -> None:
        """The branch gets nothing more of the caller."""

    def settle(self, now: float) -> None:
        """Completes the caller's stream once every branch has completed and nothing waits, then the call."""
        if self.is_finished or self.is_opening:
            return
        if not self._is_answered and not self._open_n and not self._ready:
            self._is_answered = True
            self.caller.send(frames.encode_payload(self.caller_id, frames.COMPLETE))
        self.settle_caller(now)

    def settle_caller(self, now: float) -> None:
        """Ends the call when the caller's half does not keep it open."""
        if self._is_answered:
            self.finish(COMPLETED, now)

    def tell_failed(self, refusal: Refusal) -> None:
        if not self._is_answered:
            super().tell_failed(refusal)
        elif not self.caller_done:  # it has its COMPLETE: only its own half is open
            self.caller.send(frames.encode_cancel(self.caller_id))

    def finish(self, outcome: int, now: float) -> None:
        if not self.is_finished:
            self.let_go(self.held_bytes)
            self.caller.merging_n -= self._open_n
            self._ready.clear()
            self._idle.clear()
        super().finish(outcome, now)

    def hold(self, size: int) -> None:
        """`size` more bytes wait."""
        self.held_bytes += size
        self.caller.merging_bytes += size

    def let_go(self, size: int) -> None:
        """`size` bytes wait no more."""
        self.held_bytes -= size
        self.caller.merging_bytes -= size

    def _payload_of_branch(self, branch: Branch, frame: FrameCursor) -> None:
        flags = frame.flags
        is_last = flags & frames.COMPLETE != 0
        has_item = flags & (frames.NEXT | frames.FOLLOWS) != 0 or branch.window.partial_bytes > 0
        if has_item and branch.window.asked_n == 0:  # D-29: it breaks the protocol, and there is no room for its item
            if not is_last or not self.is_over_when_done(branch):
                branch.server.send(frames.encode_cancel(branch.stream_id))
            self._leave(branch, f"a route of {branch.service} sent more items than REQUEST_N allowed", frame.now)
            return
        if is_last:
            branch.complete()
            self._done(branch)
        if has_item and not self._take(branch, frame):
            return
        if is_last:
            self.settle(frame.now)
        elif has_item:
            self._ask(branch)

    def _take(self, branch: Branch, frame: FrameCursor) -> bool:
        """An item or a fragment of one: passes it on or keeps it; False when that is too much: the call has ended."""
        is_whole = branch.is_done or not frame.flags & frames.FOLLOWS
        window = branch.window
        prefetch_n = self.caller.settings.multicast_prefetch_n
        if is_whole and not window.partial_bytes and self.credit_n > 0 and not window.waiting_n:
            # Credit is left, and nothing of the branch waits: this is the next item.
            size = frame.end - frame.start
            window.came(size - 4 + PIECE_BYTES, prefetch_n)
            self.credit_n -= 1
            self._items_out += 1
            if branch.is_done:
                self.to_caller(_without_complete(frame))
            else:
                self._bytes_out += size
                self.caller.forward(frame, self.caller_id)
            return True
        self.hold(window.hold(_without_complete(frame)))
        if is_whole:
            window.close_item(prefetch_n)
            self._waiting_n += 1
            if self.credit_n > 0:  # the oldest of the branch, so that a step that passes on what waits comes to an end
                self._pass_oldest(branch)
            elif window.waiting_n == 1:
                self._ready.append(branch)
        return self._is_within_bounds(frame.now)

    def _is_within_bounds(self, now: float) -> bool:
        """False when more is held than may be, and the call has ended: the last defence, windows are the first."""
        limit = self.caller.settings.multicast_buffer_bytes
        text = ""
        if self.caller.merging_bytes > limit and self.credit_n == 0:
            text = f"more than {limit} bytes of items wait for REQUEST_N of the caller"
        elif self.caller.merging_bytes > 2 * limit:
            text = f"more than {2 * limit} bytes of incomplete items are held"
        if text:
            self.fail(Refusal("over-limit", f"{text} (limits.multicast_buffer_bytes)", CANCELED), FAILED, now)
        return not text

    def _pass_oldest(self, branch: Branch) -> None:
        item = branch.window.take_item()
        self._waiting_n -= 1
        self.let_go(item.size)
        self.credit_n -= 1
        self._items_out += 1
        for raw in item.frames:
            self.to_caller(raw)

    def _ask(self, branch: Branch) -> None:
        """Keeps the window of a branch open that is not done; called whenever an item of it came or went."""
        window = branch.window
        if window.asked_n * 2 > window.reach_n:
            return  # far from empty
        if self.credit_n > 0:
            more = window.wanted_n(self.credit_n, self._share_bytes())
            if more:
                self._send_ask(branch, more)
        elif not window.asked_n and not window.waiting_n:
            self._idle.append(branch)

    def _send_ask(self, branch: Branch, n: int) -> None:
        branch.window.asked_n += n
        branch.server.send(frames.encode_request_n(branch.stream_id, n))

    def _share_bytes(self) -> int:
        """Bytes that the items of one branch may take: its own cap, or its part of what the caller's branches share."""
        settings = self.caller.settings
        return max(1, min(settings.multicast_branch_bytes, settings.multicast_buffer_bytes // self.caller.merging_n))

    def _leave(self, branch: Branch, text: str, now: float) -> None:
        """A branch that ended without saying so (D-14). Its whole items stay; if it was complete, nobody misses it."""
        if not branch.is_done and self.caller.settings.multicast_on_leave == "error":
            self.drop_branch(branch)
            self.fail(Refusal("route-lost", text), ROUTE_LOST, now)
            return
        self.let_go(branch.window.drop_partial())
        if not branch.is_done:
            branch.is_done = True
            self._done(branch)
        self.end_input(branch)
        self.settle(now)

    def _done(self, branch: Branch) -> None:
        """The branch sends no more; what waits of it stays in the queue."""
        self._open_n -= 1
        self.caller.merging_n -= 1
        if self.is_over_when_done(branch):
            self.drop_branch(branch)


class Crediting(Step):
    """Credit of the caller: items that wait, then the branches that were asked for nothing because there was none."""

    def __init__(self, call: Merge, idle_n: int) -> None:
        self._call: Final = call
        self._idle_n = idle_n  # to be asked

    def advance(self, most_n: int, now: float) -> int:
        call = self._call
        if call.is_finished:
            return 0
        done_n = call.pass_waiting(most_n)
        asked_n = min(self._idle_n, most_n - done_n)
        call.request_of_idle(asked_n)
        self._idle_n -= asked_n
        done_n += asked_n
        if not done_n:
            call.settle(now)
        return done_n


def _without_complete(frame: FrameCursor) -> bytes:
    """The frame behind its stream id; COMPLETE is the merged stream's to say."""
    data = frame.data
    at = frame.start + 4
    if not frame.flags & frames.COMPLETE:
        return data[at : frame.end]
    flags = (data[at + 1] & ~frames.COMPLETE & ~frames.FOLLOWS & 0xFF) | frames.NEXT
    return bytes([data[at], flags]) + data[at + 2 : frame.end]
