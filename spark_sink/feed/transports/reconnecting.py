"""A connection that comes back by itself, whatever its protocol, from its first use to `close`.

Each reason why it is not there is told once. Knows no library of a protocol.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Final

from client_sdk.clock import Clock
from client_sdk.reconnect.backoff import Backoff
from spark_sink.feed.transport import UP

NOT_YET: Final = "not connected yet"
SEND_S: Final = 30.0  # for a broker to take one post
CONTENT_TYPE: Final = "application/json"  # of a post, where a protocol says so
LOST: Final = "the connection is lost"

_log: Final = logging.getLogger("spark_sink.feed")


class Reconnecting(ABC):
    """A base: `_connected` is one connection, `_find_reason` what its errors mean."""

    def __init__(self, subject: str, clock: Clock | None = None) -> None:
        """`subject`: how lines of the log begin."""
        self._subject: Final = subject
        self._clock: Final = clock or Clock()
        self._backoff: Final = Backoff()
        self._task: asyncio.Task[None] | None = None  # None until it is used
        self._changed: Final = asyncio.Event()  # the state is another one
        self._state = NOT_YET

    def state(self) -> str:
        """UP, or one line that says why it is not."""
        return self._state

    def start(self) -> None:
        """Begins to connect; again, it changes nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def settled(self) -> None:
        """Returns when the first attempt to connect has ended."""
        while self._state == NOT_YET:
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Ends the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._set("closed")

    @abstractmethod
    async def _connected(self) -> None:
        """From a connection, of which it tells by `_up`, to its end, which it raises."""

    @abstractmethod
    def _find_reason(self, error: BaseException) -> str | None:
        """One line; None: an error that nobody foresaw."""

    async def _run(self) -> None:
        while True:
            try:
                await self._connected()
            except (Exception, asyncio.CancelledError) as error:
                if is_cancelled(error):
                    raise
                reason = self._find_reason(error)
                if reason is None:
                    _log.error("%s: a mistake of the program", self._subject, exc_info=error)
                self._down(reason or "a mistake of the program, see its log")
            await self._clock.sleep(self._backoff.next_s())

    def _up(self) -> None:
        self._backoff.reset()
        self._set(UP)
        _log.info("%s: connected", self._subject)

    def _down(self, reason: str) -> None:
        if reason != self._state:
            _log.warning("%s: %s", self._subject, reason)
        self._set(reason)

    def _set(self, state: str) -> None:
        self._state = state
        self._changed.set()


def is_cancelled(error: BaseException) -> bool:
    """This task is to end. aiormq raises CancelledError also to say that there is no heartbeat."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or bool(task.cancelling()))
