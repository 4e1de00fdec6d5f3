"""A client: calls through whatever connection there is, and a new connection when the old one is lost.

    connected ── the connection ends ──► reconnecting ── SETUP accepted ──► connected
      │ ▲  └── close(), or "replaced" ───────┴──► closed (for ever)
      ▼ └──────────────────────────────────────────────────────┐
    moving: the broker is about to stop ── SETUP accepted elsewhere; the old connection is retired: what runs on it ends

Decides when to reconnect and to move, and what metadata a call carries. Does not know frames; connections are
`engine`'s, where to `brokers`'.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterable, Mapping
from types import TracebackType
from typing import Final

from broker.rsocket.metadata import COMPOSITE_MIME
from broker.wire.ids import id_text
from client_sdk.address import Address
from client_sdk.backoff import Backoff
from client_sdk.brokers import Brokers
from client_sdk.engine import Connection
from client_sdk.errors import ClientError, ConnectionLost, DeadlineExceeded, NotConnected
from client_sdk.flows import DEFAULT_WINDOW_N, Flow, Inflow
from client_sdk.metadata import OCTET_STREAM_MIME, entry_bytes, more_bytes, route_bytes
from client_sdk.payload import Payload, as_bytes
from client_sdk.rsocket_py.view import ClientRSocket

MAX_CACHED_ADDRESSES: Final = 1024  # encoded; beyond, all are forgotten and made again
MAX_RETIRED: Final = 4  # connections to brokers that it has left; beyond, the oldest is closed whatever runs on it
_log: Final = logging.getLogger("client_sdk")


class Client:
    """A connection to the broker that comes back by itself. Made by `connect`.

    Calls fail at once with NotConnected while there is no connection, and with ConnectionLost when it is lost while
    they wait: nothing hangs, and nothing is sent twice. All methods belong to the event loop of `connect`.

    >>> async with connect("tcp://127.0.0.1:7000") as client:
    ...     answer = await client.request_response(address("orders"), b"42", route="find", timeout_s=1.0)
    ...     print(answer.data)
    b'order 42'
    """

    def __init__(
        self,
        brokers: Brokers,
        route_id: bytes,
        mime_type: str,
        backoff: Backoff,
    ) -> None:
        self._brokers: Final = brokers
        self._origin: Final = route_id
        self._mime_type: Final = mime_type
        self._backoff: Final = backoff
        self._addresses: Final[dict[Address, bytes]] = {}  # composite entries; bounded by MAX_CACHED_ADDRESSES
        self._connection: Connection | None = None  # None while there is none
        self._retired: Final[deque[Connection]] = deque()  # earlier ones on which something may run, oldest first
        self._reason: ClientError | None = None  # why there is none; None before the first
        self._is_closing = False
        self._changed: Final = asyncio.Event()  # set while connected or closed
        self._closed: Final = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None  # None until the first connection

    async def start(self) -> None:
        """The first connection; raises SetupRejected or NotConnected. `connect` calls it."""
        await self._connect()
        self._keeper = asyncio.create_task(self._keep_connected(), name="rsocket client")

    @property
    def route_id(self) -> str:
        """This client's Route Id, a uuid; the same after each reconnect.

        >>> async with connect("tcp://127.0.0.1:7000", route_id="11223344-5566-7788-99aa-bbccddeeff00") as client:
        ...     print(client.route_id)
        11223344-5566-7788-99aa-bbccddeeff00
        """
        return id_text(self._origin)

    @property
    def broker(self) -> str:
        """URL of the broker that this client is connected to, or was last.

        >>> client.broker
        'tcp://127.0.0.1:7000'
        """
        return self._brokers.url

    @property
    def brokers(self) -> list[str]:
        """URLs of the brokers that it may connect to, as they are tried: those it was given, then those it was told of.

        >>> client.brokers
        ['tcp://127.0.0.1:7000']
        """
        return self._brokers.urls

    @property
    def is_connected(self) -> bool:
        """Calls can be made now.

        >>> client.is_connected
        True
        """
        connection = self._connection
        return connection is not None and connection.reason is None

    async def wait_connected(self, timeout_s: float | None = None) -> None:
        """Returns when calls can be made. DeadlineExceeded after `timeout_s`; NotConnected when closed for ever.

        >>> await client.wait_connected(timeout_s=5)
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not self.is_connected:
                    if self._closed.is_set() or self._is_closing:
                        raise self._loss()
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError as error:
            if isinstance(error, ClientError):
                raise
            raise DeadlineExceeded(f"no connection within {timeout_s} s; the last attempt: {self._reason}") from None

    async def closed(self) -> None:
        """Returns when the client is closed for ever: by `close()`, or because another one took its Route Id.

        >>> await client.close()
        >>> await client.closed()
        """
        await self._closed.wait()

    async def close(self) -> None:
        """Writes what waits to be written and ends the connection; calls that wait fail with ConnectionLost.

        >>> await client.close()
        >>> client.is_connected
        False
        """
        self._is_closing = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        for connection in [self._connection, *self._retired]:
            if connection is not None:
                await connection.close()
        self._closed.set()
        self._changed.set()

    async def request_response(
        self,
        address: Address,
        data: bytes = b"",
        *,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        timeout_s: float | None = None,
    ) -> Payload:
        """One answer. `route` names the handler, `metadata` adds entries (mime type: content).

        >>> answer = await client.request_response(address("orders"), b"42", timeout_s=1.0)
        >>> answer.data
        b'order 42'
        """
        head = self._metadata(address, route, metadata)
        connection = self._connected()
        if timeout_s is None:
            return await connection.request_response(as_bytes(data, "data"), head)
        async with _Deadline(timeout_s, "request_response"):
            return await connection.request_response(as_bytes(data, "data"), head)

    async def fire_and_forget(
        self,
        address: Address,
        data: bytes = b"",
        *,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """No answer: returns when the request is about to be written; whether it arrives, nobody says.

        >>> await client.fire_and_forget(address("log"), b"a line", route="line")
        """
        head = self._metadata(address, route, metadata)
        async with _Deadline(timeout_s, "fire_and_forget"):
            await self._connected().fire_and_forget(as_bytes(data, "data"), head)

    def request_stream(
        self,
        address: Address,
        data: bytes = b"",
        *,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        initial_n: int = DEFAULT_WINDOW_N,
        timeout_s: float | None = None,
    ) -> Flow:
        """Items, to be read with `async for`; never more than `initial_n` are under way. `timeout_s` is for all of it.

        >>> async for tick in client.request_stream(address("clock"), route="ticks", initial_n=8):
        ...     print(tick.data)
        b'tick 0'
        b'tick 1'
        b'tick 2'
        """
        head = self._metadata(address, route, metadata)
        body = as_bytes(data, "data")

        async def open_stream(inflow: Inflow) -> None:
            await self._connected().request_stream(body, head, initial_n, inflow)

        return Flow(open_stream, initial_n, timeout_s, "request_stream")

    def request_channel(
        self,
        address: Address,
        items: AsyncIterable[bytes | Payload],
        *,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        initial_n: int = DEFAULT_WINDOW_N,
        timeout_s: float | None = None,
    ) -> Flow:
        """Sends `items` as the service asks for them, and gives its items; ends when both sides have.

        Without any item nothing is sent. `timeout_s` is for all of it.

        >>> async def numbers():
        ...     for number in range(2):
        ...         yield b"%d" % number
        >>> async for answer in client.request_channel(address("echo"), numbers()):
        ...     print(answer.data)
        b'0'
        b'1'
        """
        head = self._metadata(address, route, metadata)

        async def open_channel(inflow: Inflow) -> None:
            await self._connected().request_channel(aiter(items), head, initial_n, inflow)

        return Flow(open_channel, initial_n, timeout_s, "request_channel")

    async def metadata_push(
        self,
        address: Address,
        metadata: bytes,
        *,
        route: str | None = None,
        mime_type: str = OCTET_STREAM_MIME,
        timeout_s: float | None = None,
    ) -> None:
        """Metadata that belongs to no request; no answer, as for `fire_and_forget`.

        >>> await client.metadata_push(multicast("cache"), b"all", route="flush")
        """
        entry = entry_bytes(mime_type, as_bytes(metadata, "metadata"))
        head = self._metadata(address, route, None) + entry
        async with _Deadline(timeout_s, "metadata_push"):
            await self._connected().metadata_push(head)

    def as_rsocket(
        self,
        address: Address | None = None,
        *,
        metadata: Mapping[str, bytes] | None = None,
        mime_type: str = COMPOSITE_MIME,
    ) -> ClientRSocket:
        """This client as an `rsocket.RSocket`, for what was written for rsocket-py (docs/sdk/rsocket-py.md).

        Each request carries `address` and the entries of `metadata` before its payload's own metadata; without an
        address the payload's metadata brings the ADDRESS. `mime_type` says what the payloads' metadata is: composite,
        which is appended as it is, or of another type, which becomes one entry.

        >>> rsocket = client.as_rsocket(address("orders"))  # doctest: +SKIP
        >>> answer = await rsocket.request_response(Payload(b"42", composite(route("find"))))  # doctest: +SKIP
        """
        head = more_bytes(metadata) if address is None else self._metadata(address, None, metadata)
        return ClientRSocket(self, self._connected, head, mime_type)

    def _metadata(self, address: Address, route: str | None, metadata: Mapping[str, bytes] | None) -> bytes:
        """The composite metadata of one call."""
        head = self._addresses.get(address)
        if head is None:
            if not isinstance(address, Address):
                raise TypeError(
                    f"the address is {type(address).__name__}; make one with address('service', tag='value')"
                )
            if len(self._addresses) >= MAX_CACHED_ADDRESSES:
                self._addresses.clear()
            head = self._addresses[address] = entry_bytes(self._mime_type, address.frame_bytes(self._origin))
        if route is not None:
            head += route_bytes(route)
        return head + more_bytes(metadata) if metadata else head

    def _connected(self) -> Connection:
        connection = self._connection
        if connection is None or connection.reason is not None:
            raise self._loss()
        return connection

    def _loss(self) -> NotConnected:
        reason = self._reason if self._connection is None else self._connection.reason
        if self._is_closing or reason is None:
            return NotConnected("this client was closed", word="closed")
        return NotConnected(f"not connected: {reason.text}", word=reason.word, code=reason.code)

    async def _connect(self) -> None:
        self._use(await self._brokers.dial())

    def _use(self, connection: Connection) -> None:
        self._connection = connection
        self._changed.set()

    async def _keep_connected(self) -> None:
        while True:
            connection = self._connection
            assert connection is not None  # `start`, and the end of this loop
            if await self._stay(connection):
                continue
            self._reason = reason = connection.reason or ConnectionLost("the connection ended")
            self._connection = None
            if reason.word == "replaced" and not connection.has_rival:
                # Two clients with one Route Id would replace each other for ever.
                break
            _log.info("route %s: connection lost: %s: %s", self.route_id, reason.word, reason.text)
            await self._reconnect()
        self._closed.set()
        self._changed.set()

    async def _stay(self, connection: Connection) -> bool:
        """Until the connection has ended, or the client has moved: then True."""
        while not connection.ended.is_set():
            await connection.news.wait()
            connection.news.clear()
            if connection.is_told_to_move and await self._move(connection):
                return True
            if connection.reason is not None:
                await connection.ended.wait()
        return False

    async def _move(self, connection: Connection) -> bool:
        """To a broker that the present one names, as long as that one asks for it and is there; whether it went."""
        assert connection.notice is not None  # it has asked
        await _wait_for_turn(connection, self._backoff.part_s(connection.notice.move_within_ms / 1000))
        while True:
            reason = connection.reason
            is_replaced = reason is not None and reason.word == "replaced" and not connection.has_rival
            if not connection.is_told_to_move or is_replaced or connection.ended.is_set():
                return False
            connection.has_rival = True
            try:
                successor = await self._brokers.dial_elsewhere()
            except ClientError as error:
                _log.info("route %s: cannot move yet: %s: %s", self.route_id, error.word, error.text)
                await asyncio.sleep(self._backoff.next_s())
            else:
                break
        self._backoff.reset()
        self._use(successor)
        _log.info("route %s: moved to %s", self.route_id, self.broker)
        await self._retire(connection)
        return True

    async def _retire(self, connection: Connection) -> None:
        """What runs on it ends there."""
        connection.retire()
        running = [each for each in self._retired if not each.ended.is_set()]
        self._retired.clear()
        self._retired.extend([*running, connection])
        if len(self._retired) > MAX_RETIRED:
            await self._retired.popleft().close()

    async def _reconnect(self) -> None:
        while True:
            await asyncio.sleep(self._backoff.next_s())
            try:
                await self._connect()
            except ClientError as error:
                if self._reason is None or self._reason.text != error.text:
                    _log.warning("route %s: cannot reconnect: %s: %s", self.route_id, error.word, error.text)
                self._reason = error
            else:
                self._backoff.reset()
                _log.info("route %s: connected again", self.route_id)
                return


async def _wait_for_turn(connection: Connection, delay_s: float) -> None:
    """Until the delay is over, the connection is about to end, or nobody is asked to move any more."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(delay_s):
            while connection.reason is None and connection.is_told_to_move:
                await connection.news.wait()
                connection.news.clear()


class _Deadline:
    """`async with`: DeadlineExceeded when the block takes longer."""

    def __init__(self, timeout_s: float | None, what: str) -> None:
        self._timeout: Final = asyncio.timeout(timeout_s)
        self._text: Final = f"{what} had {timeout_s} s, which are over"

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise DeadlineExceeded(self._text) from None
