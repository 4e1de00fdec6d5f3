"""An answer that costs much, made once for all who ask at a time, and for those who ask soon after.

    asked ──► made ──────────────────► kept for ten times as long as that took, KEEP_S at most ──► made anew
         asked │  asked │  asked ──► the same one

So whoever asks again and again takes a tenth of the thread, however many connections that comes by; and an answer that
costs little is as fresh as anybody can see.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

KEEP_TIMES: Final = 10  # as long as it took, in CPU time of the thread
KEEP_S: Final = 1.0  # but never longer: who scrapes asks once in some seconds
MAX_KEPT: Final = 8  # kinds of the answer; at one more all are forgotten

T = TypeVar("T")


class Shared(Generic[T]):
    """The latest answer of each kind."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        """`clock`: seconds, monotonic; `cpu`: seconds that this thread has worked."""
        self._clock: Final = clock
        self._cpu: Final = cpu
        self._kept: Final[dict[str, tuple[T, float]]] = {}  # until when it is good enough
        self._made: Final[dict[str, asyncio.Task[T]]] = {}  # answers that are being made

    async def get(self, kind: str, make: Callable[[], Awaitable[T]]) -> T:
        """The answer of this kind, from `make` unless there is one."""
        kept = self._kept.get(kind)
        if kept is not None and self._clock() < kept[1]:
            return kept[0]
        task = self._made.get(kind)
        if task is None:
            task = self._made[kind] = asyncio.create_task(self._make(kind, make))
            task.add_done_callback(lambda _: self._made.pop(kind, None))
        return await asyncio.shield(task)  # who goes away takes it from nobody else

    async def _make(self, kind: str, make: Callable[[], Awaitable[T]]) -> T:
        began = self._cpu()
        answer = await make()
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[kind] = answer, self._clock() + min(KEEP_S, KEEP_TIMES * (self._cpu() - began))
        return answer
