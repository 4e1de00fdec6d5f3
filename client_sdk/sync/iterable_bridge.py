"""The items of an ordinary iterable, for an event loop that must not wait for them.

    event loop ── the next, please ──► thread "rsocket items": next(iterator)
    event loop ◄── item, end, error ── thread

One item is asked for at a time, when there is credit for it: so reading a file or a terminal goes as fast as the
receiver takes it. The thread is a daemon: one that waits for a line that never comes keeps no process alive.
"""

import asyncio
import contextlib
import queue
import threading
import types
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final, TypeVar, cast

T = TypeVar("T")
# Gets what the thread has to say: an item, or the error (StopIteration, too) that came in its place.
Waiter = asyncio.Future[tuple[T | None, BaseException | None]]


class IterableBridge(AsyncIterator[T]):
    """Gives the items of `items`, with its errors and its end. A generator is closed when the reader goes.

    >>> async def main():
    ...     return [item async for item in IterableBridge(iter([b"1", b"2"]))]
    >>> asyncio.run(main())
    [b'1', b'2']
    """

    def __init__(self, items: Iterable[T]) -> None:
        """TypeError for bytes and text, which are iterable and never meant as items."""
        if isinstance(items, (bytes, bytearray, memoryview, str)):
            raise TypeError(f"items are {type(items).__name__}; give a list of bytes, or a generator that yields them")
        self._items: Final = items
        # Lists and tuples wait for nothing and need no thread.
        self._ready: Final[Iterator[T] | None] = iter(items) if isinstance(items, Sequence) else None
        if self._ready is None and not hasattr(items, "__iter__"):
            text = "which `for` cannot iterate; give a list, or a generator without async"
            raise TypeError(f"items are {type(items).__name__}, {text}")
        self._wanted: Final[queue.SimpleQueue[Waiter[T] | None]] = queue.SimpleQueue()  # one, and the end
        self._loop: asyncio.AbstractEventLoop | None = None  # None until the first item is wanted
        self._is_over = False

    async def __anext__(self) -> T:
        if self._is_over:
            raise StopAsyncIteration
        if self._ready is not None:
            for item in self._ready:
                return item
            raise StopAsyncIteration
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            threading.Thread(target=self._work, args=(self._loop,), name="rsocket items", daemon=True).start()
        waiter: Waiter[T] = self._loop.create_future()
        self._wanted.put(waiter)
        found, error = await waiter
        if error is not None:
            self._is_over = True
            if isinstance(error, StopIteration):
                raise StopAsyncIteration
            raise error
        return cast(T, found)

    async def aclose(self) -> None:
        """No more items are wanted; returns at once, the thread ends when it does not wait for one any more."""
        self._is_over = True
        self._wanted.put(None)
        if self._loop is None and isinstance(self._items, types.GeneratorType):
            self._items.close()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            iterator = iter(self._items)
            while (waiter := self._wanted.get()) is not None:
                item, failure = None, None
                try:
                    item = next(iterator)
                except BaseException as error:
                    failure = error
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(_deliver, waiter, item, failure)
                if failure is not None:
                    return
        finally:
            if isinstance(self._items, types.GeneratorType):
                self._items.close()


def _deliver(waiter: Waiter[T], item: T | None, failure: BaseException | None) -> None:
    """In the event loop."""
    if not waiter.done():
        waiter.set_result((item, failure))
