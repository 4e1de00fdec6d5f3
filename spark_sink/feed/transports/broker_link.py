"""A client of an RSocket broker that comes back whatever happens, from `start` to `close`.

The client itself comes back when its connection is lost; what it does not outlive is a broker that is not there when it
starts, one that refuses it, and another client in its place.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from client_sdk.client import Client
from client_sdk.clock import Clock
from client_sdk.connecting import Connecting
from client_sdk.errors import ClientError
from client_sdk.reconnect.backoff import Backoff
from spark_sink.feed.transport import UP

NOT_YET: Final = "not connected yet"

_log: Final = logging.getLogger("spark_sink.feed")


class BrokerLink:
    """One client after the other."""

    def __init__(self, name: str, make: Callable[[], Connecting], clock: Clock) -> None:
        """`make` must have been tried: it does not raise. `name`: how lines of the log begin."""
        self.name: Final = name
        self._make: Final = make
        self._clock: Final = clock
        self._backoff: Final = Backoff()
        self._task: asyncio.Task[None] | None = None  # None before `start`
        self._client: Client | None = None  # None while there is none
        self._changed: Final = asyncio.Event()
        self._state = NOT_YET

    @property
    def client(self) -> Client | None:
        """None: calls cannot be made now."""
        client = self._client
        return client if client is not None and client.is_connected else None

    def state(self) -> str:
        """UP, or one line that says why it is not."""
        if self._client is None:
            return self._state
        return UP if self._client.is_connected else "the connection is lost"

    def start(self) -> None:
        """Begins to connect; again, it changes nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def settled(self) -> None:
        """Returns when the first attempt to connect has ended."""
        while self._state == NOT_YET:
            self._changed.clear()
            await self._changed.wait()

    async def connected(self) -> Client:
        """The client, when calls can be made."""
        while (client := self.client) is None:
            if self._client is None:
                self._changed.clear()
                await self._changed.wait()
            else:
                with contextlib.suppress(ClientError):  # closed for ever: there will be another one
                    await self._client.wait_connected()
        return client

    async def close(self) -> None:
        """Ends the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._set("closed")

    async def _run(self) -> None:
        while True:
            try:
                async with self._make() as client:
                    self._client = client
                    self._backoff.reset()
                    self._set(UP)
                    _log.info("%s: connected", self.name)
                    await client.closed()
                    self._client = None
                    self._down(client.reason.text if client.reason is not None else "the connection is lost")
            except ClientError as error:
                self._down(" ".join(error.text.split()))
            except Exception:
                _log.exception("%s: a mistake of the program", self.name)
                self._down("a mistake of the program, see its log")
            finally:
                self._client = None
            await self._clock.sleep(self._backoff.next_s())

    def _down(self, reason: str) -> None:
        if reason != self._state:  # each reason once
            _log.warning("%s: %s", self.name, reason)
        self._set(reason)

    def _set(self, state: str) -> None:
        self._state = state
        self._changed.set()
