"""What a handler of rsocket-py is told of the connection that its service has.

    the first connection cannot be made     on_connection_error     and `connect` raises
    it is lost: nothing was heard           on_keepalive_timeout, then on_close
    it is lost: an ERROR on stream 0        on_error, then on_close
    it is lost, or the client is closed     on_close

Reconnecting is the client's own affair: what a handler does to that end, `rsocket.reconnect()`, does nothing. Handlers
of a client that their program makes itself are told by `drop_in`, with the same words. Knows no frames.
"""

import asyncio
import logging
from collections.abc import Awaitable, Collection
from datetime import timedelta
from typing import Any, Final, Protocol

from client_sdk.errors import ClientError
from client_sdk.payload import Payload
from client_sdk.reconnect.state import Changes, State
from client_sdk.rsocket_py.failures import as_theirs, code_of
from client_sdk.rsocket_py.typing import RSocketPyHandler

CALLBACK_S: Final = 1.0  # for `on_close` of a client that is being closed
_log: Final = logging.getLogger("client_sdk")


class ReconnectingClient(Protocol):
    """What rsocket-py's objects need of a `client_sdk.Client`, which knows them, and not they it."""

    async def start(self) -> None: ...

    def changes(self) -> Changes: ...

    def as_rsocket(self) -> Any: ...

    async def wait_connected(self) -> None: ...

    async def close(self) -> None: ...


async def follow(client: ReconnectingClient, handler: RSocketPyHandler, lifetime: timedelta) -> None:
    """Until the client is closed."""
    rsocket = client.as_rsocket()
    is_connected = True
    async for change in client.changes():
        was_connected, is_connected = is_connected, change.state in (State.CONNECTED, State.MOVING)
        if was_connected and not is_connected:
            await tell_loss(handler, rsocket, change.reason, lifetime)


async def tell_loss(handler: RSocketPyHandler, rsocket: Any, reason: ClientError | None, lifetime: timedelta) -> None:
    """The connection has ended; None: because it was wanted."""
    if reason is not None and reason.word == "keepalive-timeout":
        await _tell(handler.on_keepalive_timeout(lifetime, rsocket))
    elif reason is not None and reason.code:
        text = f"{reason.word}: {reason.text}" if reason.word else reason.text
        await _tell(handler.on_error(code_of(reason.code), Payload(text.encode())))
    theirs: Any = None if reason is None else as_theirs(reason)
    await _tell(handler.on_close(rsocket, theirs))


async def tell_failure(handler: RSocketPyHandler, rsocket: Any, error: Exception) -> None:
    """There is no connection."""
    theirs: Any = as_theirs(error)
    await _tell(handler.on_connection_error(rsocket, theirs))


async def end_soon(tasks: Collection[asyncio.Task[None]]) -> None:
    """Lets handlers hear of the end; those that take longer are cancelled."""
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=CALLBACK_S)
        for task in left:
            task.cancel()
            await asyncio.wait([task])


async def _tell(call: Awaitable[None]) -> None:
    try:
        await call
    except Exception:
        _log.exception("rsocket-py: the handler failed when it was told of its connection")
