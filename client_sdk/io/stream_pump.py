"""The shell's half of a stream of items: the task that sends, the Inflow that reads, and what wakes them.

Decides nothing about frames: `client_sdk.protocol.streams` has the rules. Here they become wake-ups and cancels.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final, Protocol

from client_sdk.errors import ClientError, DeadlineExceeded
from client_sdk.io.failures import CHECKED_BYTES, check_size, failure_of
from client_sdk.payload import as_parts
from client_sdk.protocol.machine import Machine
from client_sdk.protocol.stream import LATE, Failure, Stream
from client_sdk.streams import Inflow

TURN_ITEMS_N: Final = 256  # that a handler may give without ever waiting, before the loop has its turn

_log: Final = logging.getLogger("client_sdk")


class Owner(Protocol):
    """What a pump needs of its connection."""

    @property
    def machine(self) -> Machine: ...

    @property
    def is_full(self) -> bool: ...

    async def wait_until_writable(self) -> None: ...

    def flush_soon(self) -> None: ...

    def error_of(self, failure: Failure) -> ClientError: ...


class StreamPump:
    """A stream or channel of either side: what comes in goes to an Inflow, what goes out comes from a pump task."""

    __slots__ = ("_credit", "_inflow", "_owner", "stream", "task")

    stream: Stream

    def __init__(self, owner: Owner, inflow: Inflow | None) -> None:
        """`inflow`: None when nothing may come in."""
        self._owner: Final = owner
        self._inflow: Final = inflow
        self._credit: asyncio.Future[None] | None = None  # set while the pump waits for credit
        self.task: asyncio.Task[None] | None = None  # the pump; None once it ends by itself

    def begin(self, stream: Stream) -> None:
        """This is the stream."""
        self.stream = stream
        stream.holder = self
        if self._inflow is not None:
            self._inflow.attach(self._grant, self._stop)
            if not stream.in_open:
                self._inflow.ended(None)

    def hear(self, stream: Stream) -> None:
        """Something has come of the stream."""
        inflow = self._inflow
        if inflow is not None:
            items = stream.items
            if items:
                stream.items = []
                inflow.items(items)
            # The requester's reader sees the end only when both halves have ended.
            if stream.is_over or not (stream.is_ours or stream.in_open):
                inflow.ended(self._error())
            elif not stream.in_open:
                inflow.no_more()
        if stream.is_stopped:
            self._cancel_task()
            if stream.is_over:
                stream.let_go()
        elif self._credit is not None and stream.credit_n > 0 and not self._credit.done():
            self._credit.set_result(None)

    async def wait_for_credit(self) -> None:
        """Until an item may be sent; a stream that has ended cancels whoever waits."""
        while self.stream.credit_n <= 0:
            self._credit = asyncio.get_running_loop().create_future()
            try:
                await self._credit
            finally:
                self._credit = None

    async def run(self, items: AsyncIterator[object], what: str) -> None:
        """Sends items as the credit allows; one item is fetched ahead, because only then the end can be seen.

        `what` names the handler in the log; empty for a channel of ours, whose reader gets the failure itself.
        """
        failure: BaseException | None = None
        owner = self._owner
        streams = owner.machine.streams
        stream = self.stream
        sent_n = 0
        try:
            async for item in items:
                data, metadata = as_parts(item, "an item")
                if len(data) > CHECKED_BYTES or metadata is not None:
                    check_size(data, metadata)
                if stream.credit_n <= 0:
                    await self.wait_for_credit()
                if owner.is_full:
                    await owner.wait_until_writable()
                streams.send_item(stream, data, metadata)
                owner.flush_soon()
                sent_n += 1
                if sent_n >= TURN_ITEMS_N:
                    sent_n = 0
                    await asyncio.sleep(0)
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled(error):
                raise
            failure = error
        finally:
            await close_items(items)
        if failure is None:
            self.complete()
        else:
            self.fail(failure, what)

    def complete(self) -> None:
        """The pump is at its end."""
        self.task = None
        self._owner.machine.streams.complete(self.stream)
        self._owner.flush_soon()
        self.hear(self.stream)

    def fail(self, error: BaseException, what: str) -> None:
        """The pump has failed; of a channel of ours (`what` is empty) the reader gets the error itself."""
        self.task = None
        if self.stream.is_over:
            return
        if self._inflow is not None and not what:
            self._inflow.ended(error)
        self._owner.machine.streams.fail(self.stream, *failure_of(error, what))
        self._owner.flush_soon()
        self.hear(self.stream)

    def _error(self) -> ClientError | None:
        failure = self.stream.failure
        if failure is None:
            return None
        if failure.kind == LATE:
            assert self._inflow is not None  # only requests of ours are late
            return DeadlineExceeded(self._inflow.late_text)
        return self._owner.error_of(failure)

    def _grant(self, n: int) -> None:
        self._owner.machine.streams.grant(self.stream, n)
        self._owner.flush_soon()

    def _stop(self) -> None:
        """The reader wants no more."""
        stream = self.stream
        self._owner.machine.streams.cancel(stream)
        self._owner.flush_soon()
        if stream.is_over:
            self._cancel_task()

    def _cancel_task(self) -> None:
        task, self.task = self.task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()


def is_cancelled(error: BaseException) -> bool:
    """Somebody cancelled this task; a handler that raises CancelledError by itself has failed like any other."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


async def close_items(items: AsyncIterator[object]) -> None:
    """Closes what can be closed."""
    aclose = getattr(items, "aclose", None)
    if aclose is not None:
        try:
            await aclose()
        except Exception:
            _log.exception("the items of a stream could not be closed")


def expire_opening(inflow: Inflow, opening: asyncio.Task[None] | None) -> None:
    """The deadline of a channel came before its first item."""
    inflow.ended(DeadlineExceeded(inflow.late_text))
    if opening is not None:
        opening.cancel()
