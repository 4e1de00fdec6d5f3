"""One call from its arguments to its end: waits for a connection, tries, hedges, tries again, within its deadline.

    Call ──► connection? ── none ──► wait_for_reconnect ──► try ──► answer
                                          ▲                  └──► error ──► retries ──► delay ──┐
                                          └─────────────────────────────────────────────────────┘

`Client` takes a shorter way for a call that wants none of this. Does not know frames.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from client_sdk import tracing
from client_sdk.addresses import Address
from client_sdk.calls.hedge import Hedging, hedged
from client_sdk.calls.metadata_cache import MetadataCache, check_time
from client_sdk.calls.retry import NO_RETRY, RetryBudget, RetryPolicy
from client_sdk.clock import Clock
from client_sdk.errors import ClientError, DeadlineExceeded, NotConnected, TooLate
from client_sdk.io.connection import Connection
from client_sdk.mistakes.kinds import kind_of, seconds_in
from client_sdk.payload import Payload
from client_sdk.reconnect.manager import ConnectionManager
from client_sdk.spans import Calling, Spans

DEFAULT_WAIT_S: Final = 10.0  # for a connection, with wait_for_reconnect=True; five times what a reconnect should take
AT_ONCE_S: Final = 0.001  # a try that begins so soon has, as far as its service is told, all of the call's time
_UNANSWERED: Final = ("fire_and_forget", "metadata_push")

T = TypeVar("T")


@dataclass(slots=True)
class Call:
    """What one call wants; the client's defaults are in it already. ValueError for a `timeout_s` that is no time."""

    model: str
    address: Address
    route: str | None
    more: bytes  # entries of the metadata, after address and route
    data: bytes
    timeout_s: float | None  # for all of it; None: no deadline
    wait_s: float = 0.0  # for a connection, 0: not at all
    is_idempotent: bool = False
    retry: RetryPolicy = NO_RETRY
    hedging: Hedging | None = None

    def __post_init__(self) -> None:
        check_time(self.timeout_s)

    def may_retry(self, error: ClientError) -> bool:
        """Whether this call may be made again after this error."""
        # Nobody answers it: what was sent may have been processed, whatever else went wrong.
        if self.model in _UNANSWERED and not isinstance(error, NotConnected):
            return False
        return self.retry.is_safe(error, self.is_idempotent)


class Defaults:
    """What the calls of one client want unless they say otherwise."""

    def __init__(
        self, timeout_s: float | None, wait_for_reconnect: bool | float, retry: RetryPolicy, hedging: Hedging | None
    ) -> None:
        """ValueError for times that make no sense."""
        check_time(timeout_s)
        self.timeout_s: Final = None if timeout_s == math.inf else timeout_s
        self.wait_s: Final = wait_s_of(wait_for_reconnect, 0.0)
        self.retry: Final = retry
        self.hedging: Final = hedging


# One try: the connection, the head of the metadata, seconds that are left (None: no deadline).
Try = Callable[[Connection, bytes, float | None], Awaitable[T]]


class Calls:
    """Makes the calls of one client."""

    def __init__(
        self,
        manager: ConnectionManager,
        cache: MetadataCache,
        spans: Spans | None,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        """`chance` gives numbers in [0, 1)."""
        self.manager: Final = manager
        self.cache: Final = cache
        self._spans: Final = spans
        self._clock: Final = clock
        self._chance: Final = chance

    @property
    def makes_spans(self) -> bool:
        """Each call is a span."""
        return self._spans is not None

    async def ask(self, call: Call) -> Payload:
        """A request/response."""

        async def once(connection: Connection, head: bytes, left_s: float | None) -> Payload:
            if call.hedging is None or not call.is_idempotent:
                if call.hedging is not None:
                    call.hedging.skipped()
                return await connection.request_response(call.data, head, left_s)
            return await self._hedge(call, call.hedging, head, left_s)

        connection = self.manager.connection
        is_simple = self._spans is None and call.hedging is None and call.retry.try_timeout_s is None
        if is_simple and connection is not None and connection.reason is None:
            # The first try of most calls is the only one: straight to it.
            ends_at = self._begin(call)
            entries = passed_on()
            head = self.cache.of(call.address, call.route, call.timeout_s) + entries + call.more
            try:
                return await connection.request_response(call.data, head, call.timeout_s)
            except ClientError as error:
                failure = error
            return await self._go_on(call, entries, once, ends_at, failure)
        return await self.traced(call, once)

    async def send(self, call: Call) -> None:
        """A fire-and-forget, or a METADATA_PUSH."""

        async def once(connection: Connection, head: bytes, left_s: float | None) -> None:
            if call.model == "metadata_push":
                await connection.metadata_push(head, left_s)
            else:
                await connection.fire_and_forget(call.data, head, left_s)

        await self.traced(call, once)

    def begin_span(self, call: Call) -> Calling | None:
        """The call's span, when the program wants spans."""
        if self._spans is None:
            return None
        return self._spans.calling(call.model, call.address.service, call.route or "")

    async def traced(self, call: Call, once: Try[T]) -> T:
        """What `tried` gives, with the entries that say where the call is in its trace."""
        calling = self.begin_span(call)
        if calling is None:
            return await self.tried(call, passed_on(), once)
        try:
            result = await self.tried(call, calling.entries, once)
        except BaseException as error:
            calling.end(error)
            raise
        calling.end(None)
        return result

    async def tried(self, call: Call, entries: bytes, once: Try[T]) -> T:
        """What `once` gives, tried as often as the call's policy and deadline allow; the last error otherwise."""
        return await self._go_on(call, entries, once, self._begin(call), None)

    def _begin(self, call: Call) -> float | None:
        """When the call's time is over; None: never."""
        now = self._clock.now()
        if call.retry.attempts > 1:
            call.retry.budget.note_request(now)
        return None if call.timeout_s is None else now + call.timeout_s

    async def _go_on(
        self, call: Call, entries: bytes, once: Try[T], ends_at: float | None, failure: ClientError | None
    ) -> T:
        """What `once` gives; `failure` is how the first try has ended, None: it was not made yet."""
        failed_n = 0
        while True:
            if failure is None:
                try:
                    connection = await self._connection(call, ends_at)
                    left_s = self._left_s(call, ends_at)
                    head = self._head(call, left_s) + entries + call.more
                    return await once(connection, head, left_s)
                except ClientError as error:
                    failure = error
            failed_n += 1
            await self._pause(call, failure, failed_n, ends_at)
            failure = None

    async def _pause(self, call: Call, failure: ClientError, failed_n: int, ends_at: float | None) -> None:
        """Until the next try; raises the failure when there is none."""
        clock, policy = self._clock, call.retry
        if type(failure) is DeadlineExceeded and not failure.code and is_over(ends_at, clock.now()):
            raise _too_late(call) from None  # it says how long the try had, which is what was left
        if failed_n >= policy.attempts or not call.may_retry(failure):
            raise failure
        delay_s = policy.delay_s(failed_n, self._chance)
        if is_over(ends_at, clock.now() + delay_s) or not policy.budget.take(clock.now()):
            raise failure
        await clock.sleep(delay_s)

    async def _connection(self, call: Call, ends_at: float | None) -> Connection:
        """The client's connection, waited for as long as the call allows; NotConnected or DeadlineExceeded."""
        manager = self.manager
        if manager.is_connected or call.wait_s == 0 or manager.is_over:
            return manager.connected()
        left_s = math.inf if ends_at is None else ends_at - self._clock.now()
        try:
            return await manager.wait_connected(min(call.wait_s, left_s))
        except DeadlineExceeded:
            if left_s <= call.wait_s:
                text = f"{call.model} timed out after {call.timeout_s:g} s without a connection"
                raise TooLate(text) from None
            raise manager.loss() from None

    def _left_s(self, call: Call, ends_at: float | None) -> float | None:
        """Seconds for this try; None: as long as it takes."""
        try_s = None if call.model == "request_stream" else call.retry.try_timeout_s
        if ends_at is None:
            return try_s
        left_s = ends_at - self._clock.now()
        if left_s <= 0:
            raise _too_late(call)
        return left_s if try_s is None else min(left_s, try_s)

    def _head(self, call: Call, left_s: float | None) -> bytes:
        if left_s is None or left_s == call.retry.try_timeout_s:
            return self.cache.of(call.address, call.route, left_s)
        assert call.timeout_s is not None  # a try without a time-out of its own has only this
        if left_s > call.timeout_s - AT_ONCE_S:
            return self.cache.of(call.address, call.route, call.timeout_s)
        return self.cache.of_rest(call.address, call.route, left_s)

    async def _hedge(self, call: Call, hedging: Hedging, head: bytes, left_s: float | None) -> Payload:
        clock = self._clock
        began_at = clock.now()
        kind = (call.address, call.route)
        hedging.budget.note_request(began_at)

        async def ask() -> Payload:
            now_left_s = None if left_s is None else began_at + left_s - clock.now()
            return await self.manager.connected().request_response(call.data, head, now_left_s)

        delay_s = hedging.delay_s(kind)
        if delay_s is None or (left_s is not None and delay_s >= left_s):
            answer = await ask()
        else:
            answer = await hedged(ask, delay_s, hedging.budget, clock)
        hedging.note(kind, clock.now() - began_at)
        return answer


def check_policies(retry: object, hedging: object) -> None:
    """TypeError for what is none."""
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise TypeError(f"retry= is {kind_of(retry)}, it must be {_policy_for(retry)}")
    if hedging is not None and not isinstance(hedging, Hedging):
        raise TypeError(f"hedging= is {kind_of(hedging)}, it must be {_hedging_for(hedging)}")


def _policy_for(given: object) -> str:
    """What to write instead."""
    if given is False or (isinstance(given, int) and given == 0):
        return "NO_RETRY, or left out"
    if type(given) is int and given > 0:
        return f"RetryPolicy(attempts={given})"
    return "RetryPolicy(budget=...)" if isinstance(given, RetryBudget) else "RetryPolicy()"


def _hedging_for(given: object) -> str:
    """What to write instead."""
    if given is False or given == 0:
        return "left out"
    if isinstance(given, timedelta):
        return f"Hedging(after_s={given.total_seconds():g})"
    return f"Hedging(after_s={given})" if type(given) in (int, float) else "Hedging()"


def is_over(ends_at: float | None, now: float) -> bool:
    """Whether a deadline has passed; None: there is none."""
    return ends_at is not None and now >= ends_at


def wait_s_of(wait_for_reconnect: bool | float | None, default_s: float) -> float:
    """Seconds that a call waits for a connection. ValueError for what is no number of seconds."""
    if wait_for_reconnect is None:
        return default_s
    if wait_for_reconnect is True:
        return DEFAULT_WAIT_S
    if not isinstance(wait_for_reconnect, int | float):
        wanted = f"True, False, or a number of seconds{seconds_in(wait_for_reconnect)}"
        raise TypeError(f"wait_for_reconnect is {kind_of(wait_for_reconnect)}, it must be {wanted}")
    if not 0 <= wait_for_reconnect < math.inf:
        raise ValueError(f"wait_for_reconnect is {wait_for_reconnect}: it must be True, False, or seconds, 0 or more")
    return float(wait_for_reconnect)


def passed_on() -> bytes:
    """The entries of the trace that this task works for; empty when there is none."""
    trace = tracing.current.get()
    return b"" if trace is None else trace.entries


def _too_late(call: Call) -> DeadlineExceeded:
    return DeadlineExceeded(f"{call.model} timed out after {call.timeout_s:g} s")
