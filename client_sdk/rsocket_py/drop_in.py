"""`RSocketClient` with the constructor of rsocket-py's, on our engine: for programs that make their client themselves.

    disconnected ── connect(), a transport of the provider ──► connected ── the connection ends ──► disconnected
         ▲                                                                    handler.on_close │
         └─────────────────── reconnect(), which handlers call ◄──────────────────────────────┘

As theirs it does not reconnect by itself, and `connect` raises nothing: it tells the handler. Unlike theirs, requests
without a connection fail at once. Source: `rsocket.rsocket_client` and `rsocket.rsocket_base` of 0.4.20.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from rsocket.exceptions import RSocketError
from rsocket.extensions.mimetypes import WellKnownMimeTypes, ensure_encoding_name
from rsocket.request_handler import BaseRequestHandler

from client_sdk.errors import ClientError, ConnectionLost, NotConnected
from client_sdk.io.connection import Connection
from client_sdk.payload import Payload, as_parts
from client_sdk.protocol.fragments import MIN_FRAGMENT_BYTES
from client_sdk.protocol.settings import Settings
from client_sdk.rsocket_py.handlers import RSocketPyResponder
from client_sdk.rsocket_py.lifecycle import end_soon, tell_failure, tell_loss
from client_sdk.rsocket_py.requests import Requests
from client_sdk.rsocket_py.transports import pipe_of
from client_sdk.rsocket_py.typing import RSocketPyHandler, TransportProvider
from rsocket_wire.rsocket.frames import Setup

CONNECT_S: Final = 10.0  # for a server to accept the SETUP
LEASE_S: Final = 0.01  # between two looks whether there is a lease, while a request waits for one
_MAX_MS: Final = 0x7FFFFFFF
_log: Final = logging.getLogger("client_sdk")


class RSocketClient(Requests):
    """rsocket-py's client with our engine beneath.

    >>> from rsocket.helpers import single_transport_provider
    >>> from rsocket.transports.tcp import TransportTCP
    >>> from client_sdk.rsocket_py import RSocketClient  # instead of rsocket.rsocket_client
    >>> from client_sdk.testing import local_broker
    >>> async with local_broker() as url:
    ...     connection = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    ...     async with RSocketClient(single_transport_provider(TransportTCP(*connection))) as client:
    ...         await client.fire_and_forget(Payload(b"hello"))
    """

    def __init__(
        self,
        transport_provider: TransportProvider,
        handler_factory: Callable[[], RSocketPyHandler] = BaseRequestHandler,
        honor_lease: bool = False,
        lease_publisher: Any = None,
        request_queue_size: int = 0,
        data_encoding: Any = WellKnownMimeTypes.APPLICATION_JSON,
        metadata_encoding: Any = WellKnownMimeTypes.APPLICATION_JSON,
        keep_alive_period: timedelta = timedelta(milliseconds=500),
        max_lifetime_period: timedelta = timedelta(minutes=10),
        setup_payload: Payload | None = None,
        fragment_size_bytes: int | None = None,
    ) -> None:
        """All as in rsocket-py; `request_queue_size` bounds what waits for a lease, 0 leaves it to the program.

        RSocketError for `fragment_size_bytes` below 64, NotImplementedError for a `lease_publisher`.
        """
        super().__init__()
        if fragment_size_bytes is not None and fragment_size_bytes < MIN_FRAGMENT_BYTES:
            raise RSocketError(f"Invalid fragment size specified. bytes: {fragment_size_bytes}")
        if lease_publisher is not None:
            raise NotImplementedError("lease_publisher: this client grants no leases; a Service of client_sdk does")
        data, metadata = (b"", None) if setup_payload is None else as_parts(setup_payload, "the setup payload")
        self._setup: Final = Setup(
            bytes(ensure_encoding_name(metadata_encoding)).decode("ascii"),
            bytes(ensure_encoding_name(data_encoding)).decode("ascii"),
            _milliseconds(keep_alive_period),
            _milliseconds(max_lifetime_period),
            metadata,
            data,
            wants_lease=honor_lease,
        )
        self._settings: Final = Settings(fragment_bytes=fragment_size_bytes or 0)
        self._queue_n: Final = request_queue_size
        self._waiting_n = 0  # requests that wait for a lease
        self._first: Final = asyncio.Lock()  # held by the one that has waited longest
        self._lifetime: Final = max_lifetime_period
        self._transports: Final = aiter(transport_provider)
        self._responder = RSocketPyResponder(handler_factory)
        self._connection: Connection | None = None  # the last one
        self._reason: ClientError | None = None  # why there is none; None before the first
        self._is_closing = False
        self._wanted: Final = asyncio.Event()  # somebody has asked to reconnect
        self._watchers: Final[set[asyncio.Task[None]]] = set()  # one per connection, until its handler knows its end
        self._reconnecter: asyncio.Task[None] | None = None  # from the first connect until close

    async def connect(self) -> "RSocketClient | None":
        """Takes a transport of the provider and connects; None, and the handler is told, when that fails."""
        if self._reconnecter is None:
            self._reconnecter = asyncio.create_task(self._reconnect_when_wanted(), name="rsocket-py reconnect")
        self._is_closing = False
        try:
            transport = await anext(self._transports)
        except StopAsyncIteration:
            _log.error("rsocket-py: the provider has no more transports")
            self._reason = NotConnected("the provider has no more transports")
            return None
        except Exception as error:
            await self._fail(error)
            return None
        try:
            async with asyncio.timeout(CONNECT_S):
                wire = await pipe_of(transport)
                connection = await Connection(wire, self._setup, self._responder, None, self._settings).open()
        except Exception as error:
            await self._fail(error)
            return None
        self._connection = connection
        watcher = asyncio.create_task(self._watch(connection), name="rsocket-py connection")
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return self

    async def reconnect(self) -> None:
        """Asks for a new connection on the next transport; returns before there is one."""
        if not self._is_closing:
            self._wanted.set()

    def close(self) -> "asyncio.Future[None]":
        """Ends the connection; begins at once, so that `AwaitableRSocket.close()` works."""
        return self._start(self._close)

    async def __aenter__(self) -> "RSocketClient":
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def is_server_alive(self) -> bool:
        """Requests can be made."""
        return self._connection is not None and self._connection.reason is None

    def set_handler_using_factory(self, handler_factory: Callable[[], RSocketPyHandler]) -> RSocketPyHandler:
        """The handler of the next connection."""
        self._responder = RSocketPyResponder(handler_factory)
        return self._responder.handler

    def _connected(self) -> Connection:
        connection = self._connection
        if connection is None or connection.reason is not None:
            reason = self._reason if connection is None else connection.reason
            text = "connect() was not called" if reason is None else f"not connected: {reason.text}"
            raise NotConnected(text)
        return connection

    async def _turn(self) -> Connection:
        # The engine refuses what has no lease, and tells nobody of a new one; theirs lets requests wait.
        if self._setup.wants_lease:
            self._connected()
            if self._queue_n and self._waiting_n >= self._queue_n:
                raise asyncio.QueueFull(f"{self._waiting_n} requests already wait for a lease")
            self._waiting_n += 1
            try:
                async with self._first:
                    while not self._connected().machine.has_lease(asyncio.get_running_loop().time()):
                        await asyncio.sleep(LEASE_S)
            finally:
                self._waiting_n -= 1
        return self._connected()

    async def _fail(self, error: Exception) -> None:
        _log.warning("rsocket-py: cannot connect: %s", error)
        self._reason = error if isinstance(error, ClientError) else NotConnected(str(error) or type(error).__name__)
        await tell_failure(self._responder.handler, self, error)

    async def _watch(self, connection: Connection) -> None:
        """Tells the handler how the connection ended."""
        await connection.ended.wait()
        reason = connection.reason or ConnectionLost("the connection ended")
        await tell_loss(self._responder.handler, self, None if self._is_closing else reason, self._lifetime)

    async def _reconnect_when_wanted(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._end_connection()
            await self.connect()

    async def _end_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._reason = connection.reason
            await connection.close()

    async def _close(self) -> None:
        self._is_closing = True
        self._wanted.clear()
        if self._reconnecter is not None:
            self._reconnecter.cancel()
            await asyncio.wait([self._reconnecter])
            self._reconnecter = None
        await self._end_connection()
        self._reason = NotConnected("this client was closed", word="closed")
        await end_soon(self._watchers)


@contextlib.contextmanager
def substituted() -> Iterator[None]:
    """Inside the block rsocket-py's `RSocketClient` is ours, under every name by which a loaded module knows it.

    >>> with substituted():
    ...     from rsocket.rsocket_client import RSocketClient as Theirs
    >>> Theirs is RSocketClient
    True
    """
    import rsocket.rsocket_client
    import rsocket.transports.aiohttp_websocket  # has a name of its own for it

    original = rsocket.rsocket_client.RSocketClient
    modules = [each for each in list(sys.modules.values()) if hasattr(each, "__dict__")]  # None keeps it out
    holders = [module for module in modules if vars(module).get("RSocketClient") is original]
    for module in holders:
        vars(module)["RSocketClient"] = RSocketClient
    try:
        yield
    finally:
        for module in holders:
            vars(module)["RSocketClient"] = original


def _milliseconds(period: timedelta) -> int:
    return min(max(1, round(period.total_seconds() * 1000)), _MAX_MS)
