"""What one of their Publishers publishes, as an async iterator that our engine can pump.

    engine's pump asks for an item ──► request(1) ──► their Publisher ──► on_next ──► Collector ──► the pump

A Publisher is asked for one item at a time, one ahead of the credit of the other side, because only then its end can
be seen. Some of theirs publish without being asked; what waits here has a bound. Knows no streams and no frames.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from client_sdk.payload import Payload
from client_sdk.rsocket_py.typing import TheirPublisher, TheirSubscription

MAX_UNASKED_N: Final = 10_000  # items that a Publisher published unasked; beyond, its stream ends with an error
_log: Final = logging.getLogger("client_sdk")


class Collector:
    """Their Subscriber, which keeps what was published until our pump takes it."""

    def __init__(self) -> None:
        self.subscription: TheirSubscription | None = None  # None until there is one, which may be never
        self._items: Final[deque[object]] = deque()  # bounded by MAX_UNASKED_N
        self._is_ended = False
        self._error: Exception | None = None  # what it ended with, unless it completed
        self._changed: Final = asyncio.Event()

    def on_subscribe(self, subscription: TheirSubscription) -> None:
        self.subscription = subscription

    def on_next(self, value: object, is_complete: bool = False) -> None:
        if self._is_ended:
            return
        # An empty payload that completes is how their adapters say the end.
        is_empty = value is None or (isinstance(value, Payload) and not value.data and not value.metadata)
        if not (is_complete and is_empty):
            self._items.append(value)
        self._is_ended = is_complete
        if len(self._items) > MAX_UNASKED_N:
            self._items.clear()
            self.on_error(RuntimeError(f"over {MAX_UNASKED_N} items were published beyond the requested credit"))
            self._cancel_subscription()
        self._changed.set()

    def on_error(self, exception: Exception) -> None:
        if not self._is_ended:
            self._error = exception
            self.on_complete()

    def on_complete(self) -> None:
        self._is_ended = True
        self._changed.set()

    async def items(self) -> AsyncGenerator[object, None]:
        """The items, asked for one by one; raises what the Publisher failed with. Leaving early cancels it."""
        try:
            while True:
                if not self._items and not self._is_ended and self.subscription is not None:
                    self._changed.clear()
                    self.subscription.request(1)
                while not self._items and not self._is_ended:
                    await self._changed.wait()
                    self._changed.clear()
                if self._items:
                    yield self._items.popleft()
                elif self._error is not None:
                    raise self._error
                else:
                    return
        finally:
            self.cancel()

    def cancel(self) -> None:
        """No more is wanted; the Publisher is told unless it has ended."""
        if not self._is_ended:
            self._is_ended = True
            self._cancel_subscription()

    def _cancel_subscription(self) -> None:
        if self.subscription is not None:
            try:
                self.subscription.cancel()
            except Exception:
                # StreamFromGenerator raises when nobody has asked it for anything yet.
                _log.debug("a Publisher failed in cancel()", exc_info=True)


def collect(publisher: TheirPublisher) -> Collector:
    """A Collector that has subscribed to the Publisher."""
    collector = Collector()
    publisher.subscribe(collector)
    return collector
