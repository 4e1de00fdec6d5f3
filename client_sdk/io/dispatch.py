"""The handlers of one connection: a task for each request of the other side, which the machine has let in.

    machine ── a new stream ──► begin ──► Responder ──► the handler's answer or items ──► machine

Decides how a handler's end becomes an answer, an ERROR or a line in the log. Knows no frames but their types.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, Protocol

from client_sdk.errors import ApplicationError, NoHandler, Refused, split_word
from client_sdk.io.failures import CHECKED_BYTES, check_size, failure_of
from client_sdk.io.stream_pump import Owner, StreamPump, is_cancelled
from client_sdk.mistakes.handlers import advice_of
from client_sdk.payload import Payload, Received, as_parts
from client_sdk.protocol.stream import Stream
from client_sdk.streams import DEFAULT_WINDOW_N, Inflow
from rsocket_wire.rsocket import frames

HANDLER_GRACE_S: Final = 1.0  # for handlers that were cancelled, before they are left behind
RETIRED_GRACE_S: Final = 30.0  # for handlers without a caller who waits, when a retired connection ends

_log: Final = logging.getLogger("client_sdk")


class Responder(Protocol):
    """What answers the requests of the other side. Metadata is as it came, None when absent.

    Each raises ApplicationError or Refused for what the caller shall read; anything else is logged, and the caller
    learns only that the handler failed.
    """

    async def request_response(self, metadata: bytes | None, data: bytes) -> Payload | bytes: ...

    async def fire_and_forget(self, metadata: bytes | None, data: bytes) -> None: ...

    async def metadata_push(self, metadata: bytes) -> None: ...

    def request_stream(self, metadata: bytes | None, data: bytes) -> AsyncIterator[object]: ...

    def request_channel(
        self, metadata: bytes | None, data: bytes, payloads: AsyncIterator[Payload]
    ) -> AsyncIterator[object]: ...


class Dispatcher:
    """The tasks of all handlers."""

    def __init__(self, owner: Owner, responder: Responder | None) -> None:
        """`responder`: None for a caller only."""
        self._loop: Final = asyncio.get_running_loop()
        self._owner: Final = owner
        self._responder: Final = responder
        self._told: Final[set[str]] = set()  # words of refusals that the log has had; the SDK knows some ten
        self.tasks: Final[set[asyncio.Task[None]]] = set()  # bounded by max_handlers

    def begin(self, stream: Stream) -> None:
        """A request that the machine lets us answer."""
        kind, metadata, data = stream.kind, stream.metadata, stream.data
        responder = self._responder
        if responder is None:
            self._owner.machine.handlers_n -= 1  # a METADATA_PUSH; all others are refused
        elif kind == frames.REQUEST_RESPONSE:
            # No callback on its end: it says so itself (`_answer`), unless it is cancelled before it begins.
            task = stream.holder = self._loop.create_task(self._answer(stream, responder, metadata, data))
            self.tasks.add(task)
        elif kind == frames.REQUEST_FNF:
            self._start(self._handle_unanswered(responder.fire_and_forget(metadata, data), "fire_and_forget"))
        elif kind == frames.METADATA_PUSH:
            self._start(self._handle_unanswered(responder.metadata_push(metadata or b""), "metadata_push"))
        else:
            inflow: Inflow | None = None
            if kind == frames.REQUEST_CHANNEL:
                inflow = Inflow(DEFAULT_WINDOW_N, 0)
                inflow.preload(Received(data, metadata))
            pump = StreamPump(self._owner, inflow)
            pump.begin(stream)
            pump.task = self._start(self._answer_items(pump, responder, metadata, data, inflow))

    def cancel(self, task: Any) -> None:
        """The caller of a request/response wants no answer any more."""
        task.cancel()
        task.add_done_callback(self.ended)

    def ended(self, task: asyncio.Task[None]) -> None:
        """May be said twice."""
        if task in self.tasks:
            self.tasks.remove(task)
            self._owner.machine.handlers_n -= 1

    async def let_end(self, closing: asyncio.Event) -> None:
        """The broker ends a retired connection when no stream is open: a fire-and-forget has none."""
        waiter = asyncio.create_task(closing.wait())
        end_at = self._loop.time() + RETIRED_GRACE_S
        while self.tasks and not waiter.done() and self._loop.time() < end_at:
            waited = [waiter, *self.tasks]
            await asyncio.wait(waited, timeout=end_at - self._loop.time(), return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.ended)
        return task

    async def _handle_unanswered(self, work: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await work
        except Refused as error:
            word, _ = split_word(error.message)
            if word not in self._told:
                self._told.add(word)
                mend = f"{NoHandler.usual_advice}; " if word == NoHandler.default_word else ""
                _log.warning("%s: %s (%slogged once per connection)", what, error, mend)
        except ApplicationError as error:
            _log.warning("%s: %s", what, error)
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled(error):
                raise
            _log.error("%s: the handler failed%s", what, advice_of(error, False), exc_info=error)

    async def _answer(self, stream: Stream, responder: Responder, metadata: bytes | None, data: bytes) -> None:
        task: Any = stream.holder
        owner = self._owner
        failure: BaseException | None = None
        try:
            answer_data, answer_metadata = as_parts(await responder.request_response(metadata, data), "the answer")
            if len(answer_data) > CHECKED_BYTES or answer_metadata is not None:
                check_size(answer_data, answer_metadata)
            if owner.is_full:
                await owner.wait_until_writable()
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled(error):
                raise
            failure = error
        finally:
            self.ended(task)
            stream.holder = None  # this task ends by itself
        if failure is None:
            owner.machine.streams.answer(stream, answer_data, answer_metadata)
        elif not stream.is_over:
            owner.machine.streams.fail(stream, *failure_of(failure, "request_response"))
        owner.flush_soon()

    async def _answer_items(
        self, pump: StreamPump, responder: Responder, metadata: bytes | None, data: bytes, inflow: Inflow | None
    ) -> None:
        what = "request_stream" if inflow is None else "request_channel"
        try:
            if inflow is None:
                items = responder.request_stream(metadata, data)
            else:
                items = responder.request_channel(metadata, data, inflow)
        except Exception as error:
            pump.fail(error, what)
            return
        await pump.run(items, what)
