"""A client of an RSocket broker that comes back whatever happens, from `start` to `close`.

The client itself comes back when its connection is lost; what it does not outlive is a broker that is not there when it
starts, one that refuses it, and another client in its place.
"""

import contextlib
from collections.abc import Callable
from typing import Final

from client_sdk.client import Client
from client_sdk.clock import Clock
from client_sdk.connecting import Connecting
from client_sdk.errors import ClientError
from spark_sink.feed.transport import UP
from spark_sink.feed.transports.reconnecting import LOST, Reconnecting


class BrokerLink(Reconnecting):
    """One client after the other."""

    def __init__(self, name: str, make: Callable[[], Connecting], clock: Clock) -> None:
        """`make` must have been tried: it does not raise. `name`: how lines of the log begin."""
        super().__init__(name, clock)
        self._make: Final = make
        self._client: Client | None = None  # None while there is none

    @property
    def client(self) -> Client | None:
        """None: calls cannot be made now."""
        client = self._client
        return client if client is not None and client.is_connected else None

    def state(self) -> str:
        """UP, or one line that says why it is not."""
        if self._client is None:
            return super().state()
        return UP if self._client.is_connected else LOST

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

    async def _connected(self) -> None:
        try:
            async with self._make() as client:
                self._client = client
                self._up()
                await client.closed()
                self._client = None
                self._down(client.reason.text if client.reason is not None else LOST)
        finally:
            self._client = None

    def _find_reason(self, error: BaseException) -> str | None:
        return " ".join(error.text.split()) if isinstance(error, ClientError) else None
