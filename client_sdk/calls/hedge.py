"""A second request when the first one takes longer than such calls usually do; the first answer counts.

    call ──► request ── after_s without an answer, and the budget allows it ──► one more request
                └─────────────── the first answer ◄──────────────────────────────┘      the other one gets CANCEL

Only for calls that may happen twice. Knows no connections.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from client_sdk.calls.retry import RetryBudget, check_budget
from client_sdk.clock import Clock
from client_sdk.mistakes.arguments import advised

KEPT_N: Final = 100  # latencies of one kind of call that a quantile is taken of
LEAST_N: Final = 20  # before there are so many, nobody knows what is usual
RENEWED_N: Final = 10  # the quantile is taken again after so many new latencies
MAX_KINDS: Final = 256  # kinds of calls with latencies; beyond, all are forgotten and measured again

_log: Final = logging.getLogger("client_sdk")

T = TypeVar("T")


class Hedging:
    """Asks once more where an answer takes unusually long: `connect(hedging=Hedging())`, or of one call.

    Works for request/responses with `idempotent=True`, and no others; the log says so once, if none of the first ones
    has it.

    after_s   seconds without an answer; None: `quantile` of the latest latencies of calls to the same address and route
    quantile  0.95: one call in twenty asks a second time
    budget    how many second requests there may be; a tenth of all requests, and one per second, when absent

    >>> hedging = Hedging(after_s=0.05)
    >>> answer = await client.request_response(address("orders"), b"42", idempotent=True, hedging=hedging)
    """

    @advised("Hedging(after_s=0.1)", is_hot=False)
    def __init__(
        self, after_s: float | None = None, *, quantile: float = 0.95, budget: RetryBudget | None = None
    ) -> None:
        """ValueError for numbers that make no sense."""
        if after_s is not None and not after_s > 0:
            raise ValueError(f"after_s is {after_s}, it must be more than 0")
        check_budget(budget)
        if not 0 < quantile < 1:
            text = f"quantile is {quantile}, it must be between 0 and 1"
            raise ValueError(f"{text}; write quantile={quantile / 100:g}" if 1 < quantile < 100 else text)
        self.after_s: Final = after_s
        self.quantile: Final = quantile
        self.budget: Final = RetryBudget(0.1, 1.0) if budget is None else budget
        self._latencies: Final[dict[object, Latencies]] = {}  # by kind of call; bounded by MAX_KINDS
        self._skipped_n = 0  # calls that were not idempotent; counted until one is, or it was said
        self._is_counting = True

    def skipped(self, n: int = 1) -> None:
        """So many calls that are not idempotent were made with it.

        >>> Hedging().skipped()
        """
        self._skipped_n += n
        if self._is_counting and self._skipped_n >= LEAST_N:
            self._is_counting = False
            text = "hedging= has no effect on a request/response without idempotent=True"
            _log.warning("%s; give that to calls that may happen twice", text)

    def delay_s(self, kind: object) -> float | None:
        """Seconds after which a call of this kind is asked once more; None: not at all.

        >>> Hedging().delay_s("a kind of call that nobody has made yet") is None
        True
        """
        self._is_counting = False
        if self.after_s is not None:
            return self.after_s
        latencies = self._latencies.get(kind)
        return None if latencies is None else latencies.usual_s

    def note(self, kind: object, latency_s: float) -> None:
        """A call of this kind was answered within so many seconds.

        >>> hedging = Hedging(quantile=0.5)
        >>> for latency_ms in range(1, 101):
        ...     hedging.note("count", latency_ms / 1000)
        >>> round(hedging.delay_s("count"), 2)
        0.05
        """
        if self.after_s is not None:
            return
        latencies = self._latencies.get(kind)
        if latencies is None:
            if len(self._latencies) >= MAX_KINDS:
                self._latencies.clear()
            latencies = self._latencies[kind] = Latencies(self.quantile)
        latencies.add(latency_s)


class Latencies:
    """The latest latencies of one kind of call."""

    def __init__(self, quantile: float) -> None:
        self._kept: Final[deque[float]] = deque(maxlen=KEPT_N)
        self._n = 0  # all that were ever added
        self._quantile: Final = quantile
        self.usual_s: float | None = None  # None until LEAST_N are there

    def add(self, latency_s: float) -> None:
        """One more; the oldest one goes."""
        self._kept.append(latency_s)
        self._n += 1
        if self._n >= LEAST_N and self._n % RENEWED_N == 0:
            ordered = sorted(self._kept)
            self.usual_s = ordered[min(int(self._quantile * len(ordered)), len(ordered) - 1)]


async def hedged(ask: Callable[[], Coroutine[Any, Any, T]], delay_s: float, budget: RetryBudget, clock: Clock) -> T:
    """The first answer of `ask()`, or of a second one that begins after `delay_s`; raises what the first raised."""
    timer = asyncio.ensure_future(clock.sleep(delay_s))
    asked = [asyncio.ensure_future(ask())]
    try:
        await asyncio.wait([timer, asked[0]], return_when=asyncio.FIRST_COMPLETED)
        if not asked[0].done() and budget.take(clock.now()):
            asked.append(asyncio.ensure_future(ask()))
        waiting = set(asked)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in asked:  # the older one first
                if each in done and each.exception() is None:
                    return each.result()
        return asked[0].result()
    finally:
        tasks: list[asyncio.Future[Any]] = [timer, *asked]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # what the loser met is nobody's concern
