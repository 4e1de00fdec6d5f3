"""What comes one after another, for a thread that waits for each: streams, channels, gathers, changes.

Items are fetched from the event loop when they are asked for, so credit is given as the program takes them; of a stream
those that have arrived come along, since the way to the other thread is long.
"""

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final, Self, TypeVar

from client_sdk.calls.scatter_gather import Gathering as AsyncGathering
from client_sdk.mistakes.attributes import ITEMS_HAVE, ITEMS_HAVE_NOT, missing_told
from client_sdk.mistakes.operators import look_for_loop, refused, warn_ended
from client_sdk.services.gather_answers import Answer
from client_sdk.services.gather_answers import T as Made
from client_sdk.streams import Flow as AsyncFlow
from client_sdk.streams import Item
from client_sdk.sync.background import LoopThread

T = TypeVar("T")


@missing_told(ITEMS_HAVE, ITEMS_HAVE_NOT)
class Items(Iterator[T]):
    """What comes one after another: a `for` loop, or `with` to be sure of the end. One reader.

    Flow, Gathering and the changes of a client are this.

    >>> issubclass(sync.Flow, sync.Items)
    True
    """

    def __init__(self, thread: LoopThread, items: AsyncIterator[T]) -> None:
        look_for_loop()
        self._thread: Final = thread
        self._items: Final = items
        self._ready: Final[deque[T]] = deque()  # fetched with an earlier one; half a window at most
        self._is_over = False  # its reader has seen the end, or has ended it

    def __iter__(self) -> Self:
        if self._is_over:
            warn_ended("this stream has ended")
        return self

    def __next__(self) -> T:
        if self._ready:
            return self._ready.popleft()
        self._ready.extend(self._thread.run(self._take))
        if not self._ready:
            self._is_over = True
            raise StopIteration
        return self._ready.popleft()

    def close(self) -> None:
        """Ends it; the other side gets a CANCEL unless it is over.

        >>> ticks = client.request_stream(address("clock"), route="ticks")
        >>> print(next(ticks).data)
        b'tick 0'
        >>> ticks.close()
        """
        self._is_over = True
        self._ready.clear()
        with contextlib.suppress(ConnectionError):  # the client is closed, and what came through it with it
            self._thread.run(self._end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:
        __aiter__ = refused("this stream blocks: write `for` and `with`; for `async for` use client_sdk.connect")
        __aenter__ = __aexit__ = __await__ = __aiter__
        __getitem__ = refused("a stream has no index: write `for item in stream:`, next(stream) or list(stream)")

    async def _take(self) -> list[T]:
        """The next one, and what is there already; empty at the end."""
        item = await anext(self._items, None)
        return [] if item is None else [item]

    async def _end(self) -> None:
        aclose = getattr(self._items, "aclose", None)
        if aclose is not None:
            await aclose()


class Flow(Items[Item]):
    """The items of a stream or channel. Leaving the loop early, `close()`, Ctrl-C and a deadline all send CANCEL.

    >>> with client.request_stream(address("prices"), b"ACME") as prices:
    ...     print([price.data for price in prices])
    [b'ACME 101', b'ACME 102', b'ACME 99']
    """

    def __init__(self, thread: LoopThread, flow: AsyncFlow[Item]) -> None:
        super().__init__(thread, flow)
        self._flow: Final = flow

    async def _take(self) -> list[Item]:
        # One way to the event loop and back for each item costs 61 us an item, one for all that are there 10.
        item = await anext(self._flow, None)
        return [] if item is None else [item, *self._flow.take_waiting()]


class Gathering(Items[Answer[Made]]):
    """What services answered, as they come; `list()` of it waits for all. It is asked for with the first one.

    >>> answers = client.gather(multicast("stock"), b"book", route="count", timeout_s=5.0)
    >>> print(sorted(answer.data for answer in answers), answers.is_complete)
    [b'3', b'4'] True
    """

    def __init__(self, thread: LoopThread, gathering: AsyncGathering[Made]) -> None:
        super().__init__(thread, gathering)
        self._gathering: Final = gathering

    @property
    def is_complete(self) -> bool:
        """All that were asked have answered, or have left; False before the end, and when the deadline was first.

        >>> print(client.gather(multicast("stock")).is_complete)
        False
        """
        return self._gathering.is_complete
