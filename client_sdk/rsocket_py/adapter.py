"""`client.as_rsocket()`: our client as an `rsocket.RSocket`, for programs and wrappers written for rsocket-py.

    entry                           what it holds
    ADDRESS                         with an address: which service; put first
    those of `metadata`             the same for each request
    those of the payload            what the program gave: composite metadata as it is, or one entry of `mime_type`

Decides what the metadata of a request is. Sources: specification of the broker, "ADDRESS"; RSocket extension
"Composite Metadata".
"""

import asyncio
from collections.abc import Callable
from typing import Final

from client_sdk.errors import BadRequest, NotConnected
from client_sdk.io.connection import Connection
from client_sdk.metadata import entry_bytes
from client_sdk.rsocket_py.failures import as_theirs
from client_sdk.rsocket_py.lifecycle import ReconnectingClient
from client_sdk.rsocket_py.requests import Requests
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, entries


class ClientRSocket(Requests):
    """An `rsocket.rsocket.RSocket` on a client of ours. Made by `Client.as_rsocket`.

    Its errors are those of rsocket-py: RuntimeError for what the service's handler raised, RSocketProtocolError with
    the RSocket code for all others; `__cause__` is ours. It reconnects by itself, as the client does.

    >>> from rsocket.extensions.helpers import composite, route
    >>> rsocket = client.as_rsocket(address("orders"))
    >>> (await rsocket.request_response(Payload(b"42", composite(route("find"))))).data
    b'order 42'
    """

    def __init__(
        self, client: ReconnectingClient, connected: Callable[[], Connection], head: bytes, mime_type: str
    ) -> None:
        """`connected` gives the connection for a request or raises; `head` are the entries that each request has."""
        super().__init__()
        self._client: Final = client
        self._find: Final = connected
        self._entries: Final = head
        self._mime_type: Final = mime_type

    async def connect(self) -> "ClientRSocket":
        """Returns when requests can be made; RSocketProtocolError when the client is closed for ever."""
        try:
            await self._client.wait_connected()
        except NotConnected as error:
            raise as_theirs(error) from error
        return self

    async def reconnect(self) -> None:
        """Nothing: the client reconnects by itself. Programs written for rsocket-py call this in `on_close`."""

    def close(self) -> "asyncio.Future[None]":
        """Closes the client, and with it all its views; begins at once, so that `AwaitableRSocket.close()` works."""
        return self._start(self._client.close)

    async def __aenter__(self) -> "ClientRSocket":
        return await self.connect()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _connected(self) -> Connection:
        return self._find()

    def _head(self, metadata: bytes | None) -> bytes | None:
        if metadata is None:
            return self._entries or None
        if self._mime_type != COMPOSITE_MIME:
            return self._entries + entry_bytes(self._mime_type, metadata)
        if entries(metadata) is None:
            text = "the payload's metadata is not composite metadata; name its type with as_rsocket(mime_type=...)"
            raise BadRequest(text, word="bad-metadata")
        return self._entries + metadata
