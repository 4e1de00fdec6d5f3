"""Work for many branches, a part of it in each turn: a multicast to 50,000 routes must not stop all others.

Decides who goes on and how far. What is done for each branch is the steps' own business (`multicast`); while a caller's
steps are not done, nothing more is taken from it, so that what it sends stays in order.

    caller A   open 3,000 branches ─► pass a fragment to them ─► …      one after another
    caller B   cancel 40,000                                            in turn with A: STEP_BRANCHES each
"""

from collections import deque
from typing import Final

from broker.forwarding.peer import Peer

MAX_BRANCHES_PER_TURN: Final = 1_000  # served at once: some ms. What goes to more goes on in the next turns
STEP_BRANCHES: Final = 250  # of one caller, before the next one has its turn
WINDOW_S: Final = 0.001  # what is done at once in so short a time counts as one turn


class Step:
    """One thing to do for many branches."""

    def advance(self, most_n: int, now: float) -> int:
        """Does it for so many of them at most; for how many it was done, 0: the step is over."""
        return 0


class CallSteps:
    """The steps of one call, in order."""

    __slots__ = ("caller", "steps")

    def __init__(self, caller: Peer) -> None:
        self.caller: Final = caller
        self.steps: Final[deque[Step]] = deque()  # bounded: its caller is not listened to while there are any


class StepQueue:
    """The fan-outs of one broker."""

    def __init__(self) -> None:
        self.calls: Final[deque[CallSteps]] = deque()  # with steps to do, by whose turn it is
        self._left_n = 0  # branches that may still be served at once, until
        self._until = 0.0  # seconds, monotonic

    def may(self, branches_n: int, now: float) -> bool:
        """So many branches may be served at once; then they are counted."""
        if now >= self._until:
            self._until = now + WINDOW_S
            self._left_n = MAX_BRANCHES_PER_TURN
        if branches_n > self._left_n:
            return False
        self._left_n -= branches_n
        return True

    def add(self, call: CallSteps, step: Step) -> None:
        """A step behind those that the call has still to do."""
        if not call.steps:
            call.caller.held_n += 1
            self.calls.append(call)
        call.steps.append(step)

    def advance(self, now: float) -> tuple[CallSteps, int]:
        """A part of the next fan-out's work: whose it was, and for how many branches. There must be work."""
        call = self.calls.popleft()
        step = call.steps[0]
        done_n = step.advance(STEP_BRANCHES, now)
        if not done_n:
            call.steps.popleft()
        if call.steps:
            self.calls.append(call)
        else:
            call.caller.held_n -= 1
        return call, done_n
