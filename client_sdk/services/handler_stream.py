"""The items of one stream or channel that a handler makes: begun late, in its turn, encoded, closed whatever happens.

    the engine's pump ── anext ──► HandlerStream ── its turn, once ──► async generator, or generator in a thread
                      ── aclose ─► HandlerStream ──► the generator is closed, the next request has its turn

Knows nothing of routes.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from client_sdk import tracing
from client_sdk.codecs import Codec
from client_sdk.payload import Payload
from client_sdk.services.handlers import Handler, encoded
from client_sdk.services.limits import Limit
from client_sdk.services.request import Request
from client_sdk.services.threads import Threads

_END: Final = object()
_log: Final = logging.getLogger("client_sdk")


class HandlerStream:
    """An async iterator for the engine. Once made it has to be closed."""

    __slots__ = ("_closed", "_codec", "_handler", "_items", "_payloads", "_request", "_service", "_span", "_turn")

    def __init__(
        self,
        service: str,
        handler: Handler,
        request: Request,
        payloads: AsyncIterator[Payload] | None,
        closed: Callable[[], None],
    ) -> None:
        """`payloads` of a channel's caller, else None; `closed` is called once, when it is closed."""
        self._service: Final = service
        self._handler: Final = handler
        self._request: Final = request
        self._payloads: Final = payloads
        self._closed: Callable[[], None] | None = closed  # None once it was called
        self._items: AsyncIterator[Any] | None = None  # None until the first item is wanted
        self._codec: Codec | None = None  # None: items go as they are
        self._turn: Limit | None = None  # whom it owes a `leave`
        self._span: contextlib.AbstractContextManager[object] | None = None  # None without a trace

    def __aiter__(self) -> "HandlerStream":
        return self

    def __anext__(self) -> Any:
        """An awaitable of the next item."""
        items = self._items
        if items is None:
            return self._begin()
        if self._codec is None and self._span is None:
            return items.__anext__()  # nothing of ours stands between the pump and the handler
        return self._next(items)

    async def aclose(self) -> None:
        """Ends the handler; any number of times."""
        closed, self._closed = self._closed, None
        if closed is None:
            return
        aclose = getattr(self._items, "aclose", None)
        try:
            if aclose is not None:
                await aclose()
        finally:
            if self._turn is not None:
                self._turn.leave()
            self._end_span(None)
            closed()

    async def _begin(self) -> Any:
        handler, request = self._handler, self._request
        limit = handler.limit
        if limit is not None:
            if not limit.try_enter():
                await limit.wait_for_turn()
            self._turn = limit
        if tracing.is_wanted(request.metadata):
            self._span = tracing.server_span(request.entries, request.model, self._service, request.route)
            self._span.__enter__()
        codec = handler.codec_of(request)
        if handler.has_values:
            self._codec = codec
        arguments = handler.arguments(request, self._payloads, codec)
        if handler.threads is not None and limit is not None:
            self._turn = None  # the last call of the thread gives it back
            items: Any = ThreadItems(handler.threads, functools.partial(handler.function, *arguments), limit.leave)
        else:
            items = handler.function(*arguments)
            if not hasattr(items, "__aiter__"):
                raise TypeError(f"a {handler.model} handler gave {type(items).__name__}, it must yield its items")
        self._items = items = aiter(items)
        return await self._next(items)

    async def _next(self, items: AsyncIterator[Any]) -> Any:
        try:
            item = await anext(items)
            return item if self._codec is None else encoded(self._codec, item)
        except StopAsyncIteration:
            raise
        except BaseException as error:
            self._handler.note(error)
            self._end_span(error)
            raise

    def _end_span(self, error: BaseException | None) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)


class ThreadItems:
    """The items of a generator that is no async one: each is made in a thread."""

    __slots__ = ("_generator", "_is_closed", "_is_running", "_leave", "_make", "_threads")

    def __init__(self, threads: Threads, make: Callable[[], Iterator[Any]], leave: Callable[[], None]) -> None:
        """`make` gives the generator; `leave` is called when no thread runs it any more."""
        self._threads: Final = threads
        self._make: Final = make
        self._leave: Final = leave
        self._generator: Any = None  # None until the first item
        self._is_running = False
        self._is_closed = False

    def __aiter__(self) -> "ThreadItems":
        return self

    async def __anext__(self) -> Any:
        step = self._threads.start(self._step, self._ended)
        self._is_running = True
        item = await step
        if item is _END:
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        """Returns when the generator is closed, or at once when a thread is still in it: then that closes it."""
        if self._is_closed:
            return
        self._is_closed = True
        closing = None if self._is_running else self._close()
        if closing is not None:
            await closing

    def _step(self) -> Any:
        """In a thread."""
        if self._generator is None:
            self._generator = self._make()
        return next(self._generator, _END)

    def _ended(self) -> None:
        """The step has ended; the reader may have gone meanwhile."""
        self._is_running = False
        closing = self._close() if self._is_closed else None
        if closing is not None:
            closing.add_done_callback(_hear)

    def _close(self) -> asyncio.Future[Any] | None:
        if self._generator is not None:
            with contextlib.suppress(RuntimeError):  # the system has no thread for it: it goes as it is
                return self._threads.start(self._generator.close, self._leave)
        self._leave()
        return None


def _hear(closing: asyncio.Future[Any]) -> None:
    """Nobody waits for it."""
    if not closing.cancelled() and closing.exception() is not None:
        _log.error("the items of a stream could not be closed", exc_info=closing.exception())
