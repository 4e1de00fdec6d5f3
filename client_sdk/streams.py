"""Items with credit: what arrives on one stream, and the iterator that a caller holds.

    engine ── item() ended() ──► Inflow ── take() ──► Flow ── async for ──► the program
    engine ◄── grant(n) stop() ──┘                    (a service's channel handler reads the Inflow itself)

Decides when credit is given: for what the program has taken, and only when it comes back for more; so an item that is
still being worked on is never overtaken by more than the window. Knows no frames and no connections. RSocket protocol,
"Flow Control".
"""

import asyncio
import contextlib
import sys
import warnings
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, Self, cast

from client_sdk.errors import ClientError, DeadlineExceeded
from client_sdk.mistakes.attributes import FLOW_HAS, FLOW_HAS_NOT, missing_told
from client_sdk.mistakes.operators import one_by_one, refused, warn_ended
from client_sdk.payload import Payload, Received

if TYPE_CHECKING:  # a default is of Python 3.13
    from typing_extensions import TypeVar

    Item = TypeVar("Item", default=Payload)
else:
    from typing import TypeVar

    Item = TypeVar("Item")

MAX_N: Final = 0x7FFFFFFF  # credit has 31 bits on the wire
_HOW: Final = "write `async for item in stream:`, or `await anext(stream)` for one item"
DEFAULT_WINDOW_N: Final = 32  # items that may be under way; enough to hide a round trip at ordinary rates


class Inflow(AsyncIterator[Payload]):
    """Items that arrive on one stream; never more are under way or waiting than `window_n`. One reader.

    The engine attaches itself, then says `item` and `ended`; the reader says `take` and `cancel`, or iterates.
    """

    __slots__ = (
        "_arrived_n",
        "_asked_n",
        "_error",
        "_grant",
        "_is_ended",
        "_items",
        "_owed_n",
        "_stop",
        "_waiter",
        "deadline_at",
        "late_text",
    )

    def __init__(self, window_n: int, asked_n: int) -> None:
        """`asked_n`: items that the request frame asks for; 0 on the service's side of a channel."""
        self._items: deque[Payload] = deque()  # bounded: `item` refuses what was not asked for
        self._asked_n = asked_n
        self._arrived_n = 0
        self._owed_n = window_n - asked_n  # taken, or never asked for: the next credit to give
        self._is_ended = False
        self._error: BaseException | None = None  # why it ended, until the reader was told
        self._waiter: asyncio.Future[None] | None = None  # set while the reader waits
        self._grant: Callable[[int], None] | None = None  # set while the stream lives in the engine
        self._stop: Callable[[], object] | None = None  # likewise
        self.deadline_at = 0.0  # loop time; the engine ends the stream then; 0: never
        self.late_text = "the deadline has passed"  # what the reader is told then

    if not TYPE_CHECKING:
        __iter__ = __next__ = __getitem__ = __await__ = one_by_one

    def attach(self, grant: Callable[[int], None], stop: Callable[[], object]) -> None:
        """The stream is open: `grant(n)` asks for more items, `stop()` cancels it."""
        self._grant = grant
        self._stop = stop

    def preload(self, payload: Payload) -> None:
        """An item that needs no credit: the first of a channel, which came with the request."""
        self._items.append(payload)
        self._asked_n += 1
        self._arrived_n += 1
        self._owed_n -= 1
        self._wake()

    def item(self, payload: Payload) -> bool:
        """An item arrived; False when nobody asked for it."""
        if self._is_ended:
            return True
        if self._arrived_n >= self._asked_n:
            return False
        self._arrived_n += 1
        self._items.append(payload)
        self._wake()
        return True

    def items(self, items: list[tuple[bytes, bytes | None]]) -> None:
        """(data, metadata) of several items that arrived, all of which were asked for."""
        for data, metadata in items:
            self.item(Received(data, metadata))

    def ended(self, error: BaseException | None) -> None:
        """No more items; the reader gets those that wait, then `error` if there is one. Only the first call counts."""
        if self._is_ended:
            return
        self._is_ended = True
        self._error = error
        self._grant = self._stop = None
        self._wake()

    def no_more(self) -> None:
        """The other side has sent its last item, and we may still send: this reader waits for the end of both."""

    @property
    def is_ended(self) -> bool:
        """The engine has let go of the stream."""
        return self._is_ended

    def cancel(self) -> None:
        """The reader wants no more: the other side gets a CANCEL unless the stream is over."""
        stop = self._stop
        self._items.clear()
        self.ended(None)
        self._error = None
        if stop is not None:
            stop()

    async def take(self) -> Payload | None:
        """The next item; None at the end. Raises what the stream ended with, once."""
        self._give_credit()
        while not self._items:
            if self._is_ended:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                return None
            if self._waiter is not None:
                raise RuntimeError("this stream is already being read: ask for another one with another request")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._owed_n += 1
        return self._items.popleft()

    def take_waiting(self) -> list[Payload]:
        """Items that are there already, at most half a window: the other half is under way while they are worked on.

        For a reader to whom each turn of the event loop is dear; credit for them is given by the next `take`.
        """
        window_n = self._owed_n + self._asked_n - self._arrived_n + len(self._items)
        taken: list[Payload] = []
        while self._items and (self._is_ended or self._owed_n < window_n // 2):
            self._owed_n += 1
            taken.append(self._items.popleft())
        return taken

    def __aiter__(self) -> "Inflow":
        return self

    async def __anext__(self) -> Payload:
        payload = await self.take()
        if payload is None:
            raise StopAsyncIteration
        return payload

    def _give_credit(self) -> None:
        """Half a window at a time, so that credit costs a frame per half window and not per item."""
        under_way_n = self._asked_n - self._arrived_n + len(self._items)
        if self._grant is not None and self._owed_n > 0 and self._owed_n >= under_way_n:
            n = self._owed_n
            self._owed_n = 0
            self._asked_n += n
            self._grant(n)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Ending(Protocol):
    """What ends for ever."""

    @property
    def is_over(self) -> bool: ...


@missing_told(FLOW_HAS, FLOW_HAS_NOT)
class Flow(AsyncIterator[Item]):
    """The items of a stream or channel: `async for`, or `async with` to be sure of the end. One reader.

    They are Payloads, or what `returns` says.

    The request leaves with the first item that is asked for. Leaving the loop early, `aclose()`, a cancelled await and
    a deadline all send CANCEL.

    >>> async with client.request_stream(address("prices"), b"ACME") as prices:
    ...     async for price in prices:
    ...         print(price.data)
    b'ACME 101'
    b'ACME 102'
    b'ACME 99'
    """

    _loop: asyncio.AbstractEventLoop | None = None  # None until the request was sent, also for one that was refused
    _open_stream: Callable[[Inflow], Awaitable[None]] | None = None  # None once it was sent
    _is_read = False
    _asked_by = ""  # the method of the program, where it is not that of the request
    _read_how = _HOW

    def __init__(
        self,
        open_stream: Callable[[Inflow], Awaitable[None]],
        initial_n: int,
        timeout_s: float | None,
        what: str,
        client: Ending | None = None,
    ) -> None:
        """`open_stream` sends the request, `what` names it in errors; after the end of `client` nobody need read it.

        ValueError for an `initial_n` outside 31 bits.
        """
        if not isinstance(initial_n, int):
            raise TypeError(f"initial_n is {type(initial_n).__name__}, it must be int: items under way at a time")
        if not 1 <= initial_n <= MAX_N:
            how = f"items under way at a time; leave it out for {DEFAULT_WINDOW_N}"
            raise ValueError(f"initial_n is {initial_n}, it must be 1..{MAX_N}: {how}")
        self._open_stream = open_stream
        self._inflow: Final = Inflow(initial_n, initial_n)
        self._timeout_s: Final = timeout_s
        self._what: Final = what
        self._client: Final = client

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {_HOW}>"

    def _has_ended(self) -> bool:
        """Its reader has seen the end, or has ended it."""
        return self._is_read

    def _say_if_unread(self, asked_by: str, read_how: str = _HOW) -> None:
        """How the program asked for it, and how it is read."""
        self._asked_by, self._read_how = asked_by, read_how

    def __aiter__(self) -> Self:
        if self._has_ended():
            warn_ended("this stream has ended")
        return self

    async def __anext__(self) -> Item:
        try:
            if self._open_stream is not None:
                await self._start()
            payload = await self._inflow.take()
        except asyncio.CancelledError:
            self._is_read = True
            self._inflow.cancel()
            raise
        except ClientError:
            self._is_read = True
            raise
        if payload is None:
            self._is_read = True
            raise StopAsyncIteration
        return payload  # type: ignore[return-value]  # a flow of values is a class of its own

    def take_waiting(self) -> list[Item]:
        """Items that have arrived already, at most half of `initial_n`; for a reader in another thread.

        >>> ticks = client.request_stream(address("clock"), route="ticks")
        >>> ticks.take_waiting()  # the request leaves with the first `anext`
        []
        """
        return cast("list[Item]", self._inflow.take_waiting())

    async def aclose(self) -> None:
        """Ends the stream; the other side gets a CANCEL unless it is over.

        >>> ticks = client.request_stream(address("clock"), route="ticks")
        >>> (await anext(ticks)).data
        b'tick 0'
        >>> await ticks.aclose()
        """
        self._open_stream = None
        self._is_read = True
        self._inflow.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    if not TYPE_CHECKING:
        __await__ = refused(f"a stream is not awaited: {_HOW}")
        __iter__ = refused(f"a stream is read in an event loop: {_HOW}; without async use client_sdk.sync")
        __next__ = __iter__
        __getitem__ = refused(f"a stream has no index: {_HOW}")
        __enter__ = refused("a stream is closed in an event loop: write `async with`, not `with`")
        __exit__ = __enter__  # Python looks for it first

    def __del__(self) -> None:
        # A loop that was left early drops its iterator, and nobody else holds it.
        if self._loop is None:
            if self._open_stream is not None:
                warn_unread(self._asked_by or self._what, self._client, self._read_how)
        elif not self._inflow.is_ended:
            with contextlib.suppress(RuntimeError):  # the event loop is closed, and the connection with it
                self._loop.call_soon_threadsafe(self._inflow.cancel)

    async def _start(self) -> None:
        open_stream = self._open_stream
        assert open_stream is not None  # the only caller has just looked
        self._open_stream = None
        self._loop = asyncio.get_running_loop()
        inflow = self._inflow
        try:
            if self._timeout_s is None:
                await open_stream(inflow)
                return
            inflow.late_text = f"{self._what} timed out after {self._timeout_s:g} s"
            inflow.deadline_at = self._loop.time() + self._timeout_s
            async with asyncio.timeout_at(inflow.deadline_at) as deadline:
                await open_stream(inflow)  # it may wait for a connection; from then on the engine looks at the time
        except BaseException as error:
            inflow.cancel()
            if isinstance(error, TimeoutError) and not isinstance(error, ClientError) and deadline.expired():
                raise DeadlineExceeded(inflow.late_text) from None
            raise


def warn_unread(what: str, client: Ending | None, read_how: str) -> None:
    """In the `__del__` of a stream whose request was never sent. Not where its `client` has ended, or the program."""
    if not sys.is_finalizing() and (client is None or not client.is_over):
        is_async = asyncio._get_running_loop() is not None  # else it may be one of a client without async
        how = read_how if is_async else "read it with `for item in stream:`, in an event loop with `async for`"
        warnings.warn(f"{what} was never read, and so never sent: {how}", RuntimeWarning, stacklevel=3)
