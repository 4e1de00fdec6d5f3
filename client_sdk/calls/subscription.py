"""A stream that comes back: when the connection or the service is lost, it is asked for again, from the last item on.

    request ──► items ──► lost, refused for now ──► delay, 0.1 s to 1.5 s ──► request with `resume(last item)` ──► items
                  ├─────► COMPLETE ──► the end (endless: as if it were lost)
                  └─────► an error that the next request would meet, too ──► raised

Decides what ends a subscription. What was lost between two requests only the service can know: hence `resume`. Does not
know frames.
"""

import inspect
from collections.abc import Callable
from typing import Final, TypeVar

from client_sdk.calls.retry import NO_RETRY
from client_sdk.clock import Clock
from client_sdk.errors import ClientError, NoRoute, NotConnected, RouteLost
from client_sdk.mistakes.kinds import BOOL, check_kind
from client_sdk.reconnect.backoff import Backoff
from client_sdk.reconnect.outage import Outage
from client_sdk.streams import Flow

T = TypeVar("T")


class Subscription(Flow[T]):
    """What `Flow` is to its reader, over several streams. Made by `Client.subscribe`."""

    def __init__(
        self,
        ask: Callable[[object], Flow[T]],
        data: object,
        resume: Callable[[T], object] | None,
        is_endless: bool,
        what: str,
        backoff: Backoff,
        clock: Clock,
        waits_for_service: bool = True,
    ) -> None:
        """`ask` makes a stream of the data of its request; `what` is its name in the log.

        `waits_for_service`: else the first request that a broker gets must find one.
        """
        if resume is not None and not callable(resume):
            how = "it must be a function of the last item, such as lambda last: last (of a Payload: last.data)"
            if isinstance(resume, bool):
                how += "; leave it out to send the same each time; sessions are resumed by connect(url, resume=True)"
            raise TypeError(f"resume= is {type(resume).__name__}, {how}")
        check_kind("endless", is_endless, BOOL)
        check_kind("wait_for_service", waits_for_service, BOOL)
        # Not Flow's: the streams below are.
        self._ask: Final = ask
        self._data = data  # of the next request
        self._resume: Final = resume
        self._is_endless: Final = is_endless
        self._name: Final = what
        self._backoff: Final = backoff
        self._clock: Final = clock
        self._flow: Flow[T] | None = ask(data)  # None between two streams, and after the end
        self._flow._say_if_unread("subscribe")
        self._last: list[T] = []  # the last item; empty when none has come since the last request
        self._outage: Outage | None = None  # from a loss to the next item
        self._must_find: bool = not waits_for_service  # a broker has not got a request yet
        self._is_over = False
        self._is_resumed = False  # its data is what `resume` gave

    def _has_ended(self) -> bool:
        return self._is_over

    async def __anext__(self) -> T:
        try:
            while not self._is_over:
                try:
                    if self._flow is None:
                        self._flow = self._ask_again()
                    item = await anext(self._flow)
                except StopAsyncIteration:
                    if not self._is_endless:
                        break
                    await self._lost(RouteLost("the stream was completed"))
                except ClientError as error:
                    if not NO_RETRY.is_safe(error, idempotent=True) or (self._must_find and isinstance(error, NoRoute)):
                        raise
                    self._must_find = self._must_find and isinstance(error, NotConnected)
                    await self._lost(error)
                else:
                    self._has_come(item)
                    return item
        except BaseException:
            await self.aclose()
            raise
        self._is_over = True
        raise StopAsyncIteration

    def take_waiting(self) -> list[T]:
        """As Flow's."""
        items = [] if self._flow is None or self._is_over else self._flow.take_waiting()
        if items:
            self._has_come(items[-1])
        return items

    async def aclose(self) -> None:
        """Ends it for ever; the other side gets a CANCEL if there is a stream."""
        self._is_over = True
        flow, self._flow = self._flow, None
        if flow is not None:
            await flow.aclose()

    def __del__(self) -> None:
        pass  # the flow below looks after itself

    def _ask_again(self) -> Flow[T]:
        try:
            return self._ask(self._data)
        except TypeError as error:
            if self._is_resumed:
                raise TypeError(f"what the function of resume= gave: {error}") from None
            raise

    def _has_come(self, item: T) -> None:
        self._last = [item]
        self._must_find = False
        if self._outage is not None:
            self._outage.ended(f"{self._name}: back")
            self._outage = None
            self._backoff.reset()

    async def _lost(self, error: ClientError) -> None:
        """Waits before the next request, which says where to go on."""
        flow, self._flow = self._flow, None
        if flow is not None:
            await flow.aclose()
        if self._outage is None:
            is_unknown = isinstance(error, NoRoute) and not self._last
            how = " (wait_for_service=False ends it)" if is_unknown else ""
            self._outage = Outage(f"{self._name} waits and asks again{how}", self._clock)
        self._outage.failed(error)
        if self._resume is not None and self._last:
            self._data = self._resume(self._last.pop())
            if inspect.isawaitable(self._data):
                raise TypeError("resume= is an async function, it must be one without async")
            self._is_resumed = True
        await self._clock.sleep(self._backoff.next_s())
