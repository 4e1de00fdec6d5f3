"""How many requests a handler works on at a time, and how many may wait for their turn. Knows nothing of requests."""

import asyncio
import contextlib
import threading
from typing import Final

from client_sdk.errors import Refused
from client_sdk.mistakes.kinds import WHOLE, check_kind
from rsocket_wire.errors import REJECTED

MAX_WAITING: Final = 1000  # requests; beyond, they are refused with over-limit


class Limit:
    """`try_enter` or `wait_for_turn` before the work, `leave` after it; first come, first served.

    Who waits leaves when cancelled. There is never a free place while somebody waits. `leave` may be called in any
    thread: one that works for a handler may return when its event loop has ended, and another one uses the service.
    """

    def __init__(self, max_concurrency: int, max_waiting: int, what: str) -> None:
        """ValueError for less than one at a time; `what` names the handler for callers."""
        check_kind("max_concurrency", max_concurrency, WHOLE)
        check_kind("max_waiting", max_waiting, WHOLE)
        if max_concurrency < 1:
            raise ValueError(f"{what}: max_concurrency is {max_concurrency}, it must be at least 1")
        if max_waiting < 0:
            raise ValueError(f"{what}: max_waiting is {max_waiting}, it must be at least 0")
        self._max_concurrency: Final = max_concurrency
        self._max_waiting: Final = max_waiting
        self._what: Final = what
        self._lock: Final = threading.Lock()
        self._waiting: Final[dict[asyncio.Future[None], None]] = {}  # in their order; bounded by max_waiting
        self.working_n = 0  # bounded by max_concurrency

    def try_enter(self) -> bool:
        """Whether it is this one's turn now; else `wait_for_turn`."""
        with self._lock:
            if self.working_n >= self._max_concurrency:
                return False
            self.working_n += 1
            return True

    async def wait_for_turn(self) -> None:
        """Returns when it is this one's turn; REJECTED `over-limit` at once when too many wait."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self.working_n < self._max_concurrency:  # a thread has returned just now
                self.working_n += 1
                return
            if len(self._waiting) >= self._max_waiting:
                text = f"{self._what} is at its limit: {self.working_n} requests running, {len(self._waiting)} waiting"
                text += " (max_concurrency= and max_waiting= of the handler)"
                raise Refused("over-limit", text, REJECTED)
            self._waiting[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # it had its turn in the moment in which it was cancelled
            raise
        finally:
            with self._lock:
                self._waiting.pop(turn, None)

    def leave(self) -> None:
        """The work is done: the next one has its turn."""
        here = asyncio._get_running_loop()  # None in a thread
        while True:
            with self._lock:
                turn = next(iter(self._waiting), None)
                if turn is None:
                    self.working_n -= 1
                    return
                del self._waiting[turn]
            loop = turn.get_loop()
            if loop is not here:
                with contextlib.suppress(RuntimeError):  # closed, and who waited there with it
                    loop.call_soon_threadsafe(self._give, turn)
                    return
            elif not turn.done():
                turn.set_result(None)  # and `working_n` stays what it is
                return

    def _give(self, turn: asyncio.Future[None]) -> None:
        if turn.done():  # who waited has left meanwhile
            self.leave()
        else:
            turn.set_result(None)
