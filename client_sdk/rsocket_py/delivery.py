"""What arrives on one stream of ours, given to one of their Subscribers.

    engine ── item() ended() ──► Delivery ── on_next on_error on_complete ──► Subscriber
    engine ◄── grant(n) stop() ── Delivery ◄── request(n) cancel() ──┘          (one of their Subscriptions, too)

Credit is exactly what the Subscriber asks for; nothing is asked for ahead. A Subscriber is called from the event loop
and never from inside the engine, so that one which raises harms nobody else: its stream is cancelled, and it is told.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from reactivestreams.subscription import Subscription

from client_sdk.payload import Payload
from client_sdk.rsocket_py.failures import as_theirs
from client_sdk.rsocket_py.typing import TheirSubscriber
from client_sdk.streams import MAX_N, Inflow

_log: Final = logging.getLogger("client_sdk")


class Delivery(Inflow):
    """The items of one stream on their way to a Subscriber. The engine takes it for an Inflow."""

    __slots__ = (
        "_credit_n",
        "_early_n",
        "_failure",
        "_has_end",
        "_is_open",
        "_is_over",
        "_is_scheduled",
        "_loop",
        "_opening",
        "_subscriber",
    )

    def __init__(self, subscriber: TheirSubscriber, initial_n: int) -> None:
        """`initial_n`: items that the request frame asks for. Inside a running event loop."""
        super().__init__(initial_n, initial_n)
        self._loop: Final = asyncio.get_running_loop()
        self._subscriber: Final = subscriber
        self._credit_n = initial_n  # items that may still arrive; what is asked for beyond 31 bits is forgotten
        self._early_n = 0  # asked for before the request has left
        self._is_open = False
        self._has_end = False  # no item will come; the engine may still send ours
        self._failure: BaseException | None = None  # what it ended with
        self._is_over = False  # the Subscriber was told the end, or wants to hear no more
        self._is_scheduled = False
        self._opening: asyncio.Future[None] | None = None  # until the request has left

    def start(self, opening: asyncio.Future[None]) -> None:
        """The request is about to leave, unless `cancel` comes first."""
        self._opening = opening

    def opened(self) -> None:
        """The request has left: from now on credit goes out in frames of its own."""
        self._is_open = True
        self._opening = None
        n, self._early_n = self._early_n, 0
        if n and self._grant is not None:
            self._grant(n)

    # for the Subscriber

    def request(self, n: int) -> None:
        """`n` more items; ValueError for less than 1, as "Flow Control" forbids it."""
        if n < 1:
            raise ValueError(f"request({n}): ask for at least one item")
        more_n = min(n, MAX_N)
        self._credit_n = min(self._credit_n + more_n, MAX_N)
        if not self._is_open:
            self._early_n = min(self._early_n + more_n, MAX_N)
        elif self._grant is not None:
            self._grant(more_n)

    def cancel(self) -> None:
        """No more items; the other side gets a CANCEL unless the stream is over."""
        self._is_over = True
        self._items.clear()
        stop, self._stop, self._grant = self._stop, None, None
        if stop is not None:
            stop()
        elif self._opening is not None:
            self._opening.cancel()

    # for the engine

    def attach(self, grant: Callable[[int], None], stop: Callable[[], object]) -> None:
        if self._is_over:
            stop()
        else:
            self._grant = grant
            self._stop = stop

    def item(self, payload: Payload) -> bool:
        if self._is_over or self._has_end:
            return True
        if self._credit_n == 0:
            return False
        self._credit_n -= 1
        self._items.append(payload)
        self._schedule()
        return True

    def no_more(self) -> None:
        # Theirs tells a Subscriber at once, and not when the program's own half has ended, too.
        if not self._has_end:
            self._has_end = True
            self._grant = None
            self._schedule()

    def ended(self, error: BaseException | None) -> None:
        self._grant = self._stop = self._opening = None
        if not self._has_end:
            self._has_end = True
            self._failure = error
            self._schedule()

    @property
    def is_ended(self) -> bool:
        return self._has_end or self._is_over

    async def take(self) -> Payload | None:
        raise RuntimeError("a Subscriber reads this stream")

    # for the event loop

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_over:
            self._is_scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_scheduled = False
        while self._items and not self._is_over:
            payload = self._items.popleft()
            # The end is said with the last item when it is known by then, as their engine does.
            is_last = self._has_end and self._failure is None and not self._items
            self._is_over = is_last
            try:
                self._subscriber.on_next(payload, is_complete=is_last)
            except Exception as error:
                _log.exception("a Subscriber failed in on_next; its stream is cancelled")
                self.cancel()
                self._tell(error)
        if self._has_end and not self._is_over:
            self._is_over = True
            self._tell(self._failure)

    def _tell(self, failure: BaseException | None) -> None:
        """The end; what a Subscriber raises then is its own affair."""
        try:
            if failure is None:
                self._subscriber.on_complete()
            else:
                theirs = as_theirs(failure)
                self._subscriber.on_error(theirs if isinstance(theirs, Exception) else RuntimeError(str(theirs)))
        except Exception:
            _log.exception("a Subscriber failed when it was told the end of its stream")


Subscription.register(Delivery)
