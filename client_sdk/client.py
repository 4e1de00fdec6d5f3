"""A client: the calls that a program makes, and what it can know of the connection under them.

    program ──► Client ──► the connection there is, straight           the usual case
                   └─────► Calls: waits, tries again, hedges, spans    when something is to happen around the call

Decides which way a call goes. How the connection is kept is `manager`'s, what a call does when it fails `calls`'s.
"""

import math
from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any, Final, Never, TypeVar, Unpack, cast, overload

from client_sdk import rsocket_py
from client_sdk.addresses import Address
from client_sdk.calls.call import Call, Calls, Defaults, check_policies, wait_s_of
from client_sdk.calls.hedge import LEAST_N, Hedging
from client_sdk.calls.metadata_cache import MetadataCache
from client_sdk.calls.options import ChannelOptions, GatherOptions, RequestOptions, StreamOptions, SubscribeOptions
from client_sdk.calls.remote import Remote, Wanted
from client_sdk.calls.retry import NO_RETRY, RetryPolicy
from client_sdk.calls.retrying_stream import flow_of
from client_sdk.calls.scatter_gather import WINDOW_N, Gathering, check_asked
from client_sdk.calls.subscription import Subscription
from client_sdk.calls.values import Values
from client_sdk.clock import Clock
from client_sdk.metadata import OCTET_STREAM_MIME, entry_bytes, more_bytes
from client_sdk.mistakes.arguments import NoOptions, advised, looks_itself, wrong_call
from client_sdk.mistakes.attributes import CLIENT_HAS, CLIENT_HAS_NOT, missing_told
from client_sdk.mistakes.kinds import BOOL, check_kind
from client_sdk.payload import Payload, as_bytes
from client_sdk.reconnect.backoff import Backoff
from client_sdk.reconnect.facts import ConnectionWaits
from client_sdk.reconnect.manager import ConnectionManager
from client_sdk.services.advertisement import Advertisement
from client_sdk.services.contract import read_contract
from client_sdk.services.gather_answers import GATHER_ENTRY, TAGGED_ENTRY
from client_sdk.services.service import DEFAULT_DRAIN_S
from client_sdk.streams import DEFAULT_WINDOW_N, Flow
from client_sdk.tracing import current
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME

T = TypeVar("T")


@missing_told(CLIENT_HAS, CLIENT_HAS_NOT)
class Client(ConnectionWaits):
    """A connection to the broker that comes back by itself. Made by `connect`.

    While there is no connection calls fail at once with NotConnected (or wait, see `wait_for_reconnect`), and with
    ConnectionLost when it is lost while they wait: nothing hangs, and nothing is sent twice that was not marked
    `idempotent` or refused. All methods belong to the event loop of `connect`.

    All calls take `timeout_s`, a deadline for all of it: DeadlineExceeded when it is over, and the service gets a
    CANCEL (None: the client's own, see `connect`; math.inf: none). `route` names the handler, `metadata` adds entries
    (mime type: content), `wait_for_reconnect` is described at `connect`.

    Data is bytes, or a value for the codec of `connect(codec=JSON)`. An answer is a Payload, or what `returns` says:
    bytes, or a type that the codec has; BadAnswer when it does not fit.

    >>> async with connect("tcp://127.0.0.1:7878") as client:
    ...     answer = await client.request_response(address("orders"), b"42", route="find", timeout_s=1.0)
    ...     print(answer.data)
    b'order 42'
    """

    def __init__(
        self,
        manager: ConnectionManager,
        cache: MetadataCache,
        calls: Calls,
        defaults: Defaults,
        values: Values,
        advertisement: Advertisement | None,
    ) -> None:
        """`advertisement`: what others may ask for; None: a caller only."""
        super().__init__(manager)
        self._advertisement: Final = advertisement
        self._cache: Final = cache
        self._calls: Final = calls
        self._defaults: Final = defaults
        self._timeout_s: Final = defaults.timeout_s
        self._values: Final = values
        # Nothing happens around a call, unless the call itself wants it.
        self._is_plain: Final = defaults.retry.attempts == 1 and defaults.hedging is None and not calls.makes_spans

    def __repr__(self) -> str:
        offered = "" if self._advertisement is None else f" of {self._advertisement.name}"
        return f"<Client{offered} {self.state}: {self.broker or 'no broker yet'}, route {self.route_id}>"

    async def start(self) -> None:
        """The first connection; raises SetupRejected or NotConnected. `connect` calls it.

        >>> async with connect("tcp://127.0.0.1:7878") as client:  # which starts it
        ...     pass
        """
        if self._advertisement is None:
            await self._manager.start()
            return
        await self._advertisement.begin(self.drain)
        try:
            await self._manager.start()
        except BaseException:
            await self._advertisement.end()
            raise

    # the connection

    @property
    def route_id(self) -> str:
        """This client's Route Id, a uuid; the same after each reconnect.

        >>> async with connect("tcp://127.0.0.1:7878", route_id="11223344-5566-7788-99aa-bbccddeeff00") as client:
        ...     print(client.route_id)
        11223344-5566-7788-99aa-bbccddeeff00
        """
        return self._manager.route_id

    @property
    def working_n(self) -> int:
        """Requests of others that its service works on now.

        >>> async with connect("tcp://127.0.0.1:7878", service=Service("ledger")) as client:
        ...     print(client.working_n)
        0
        """
        return 0 if self._advertisement is None else self._advertisement.working_n

    async def close(self) -> None:
        """Writes what waits to be written and ends the connection; calls that wait fail with ConnectionLost.

        >>> await client.close()
        >>> client.is_connected
        False
        """
        if self._advertisement is not None:
            await self._advertisement.end()
        await self._manager.close()

    # what it offers

    @advised("await client.set_tags({'region': 'us'})")
    async def set_tags(self, tags: Mapping[str, str | None]) -> None:
        """From now on these tags in place of those that `connect` was given; those of its Service stay.

        Returns when the broker is about to be told; each reconnect says them, too. ValueError for a caller, which has
        no route; BadAddress for tags that cannot be sent, and then nothing has changed.

        >>> async with connect("tcp://127.0.0.1:7878", service=Service("ledger"), tags={"region": "eu"}) as ledger:
        ...     await ledger.set_tags({"region": "us"})
        """
        if self._advertisement is None:
            raise ValueError("this client offers no service, so it has no tags; callers need none")
        self._advertisement.set_tags(tags)
        await self._advertisement.tell()

    @advised("await client.drain(timeout_s=10)", is_hot=False)
    async def drain(self, timeout_s: float = DEFAULT_DRAIN_S) -> None:
        """Closes without losing a request: no new ones come, those that its handlers work on end, then the connection.

        What has not ended after `timeout_s` is cancelled; the log says how many. Its own calls should have ended.

        >>> ledger = await connect("tcp://127.0.0.1:7878", service=Service("ledger"))
        >>> await ledger.drain(timeout_s=10)
        """
        advertisement = self._advertisement
        if advertisement is not None and not self._manager.is_over and await advertisement.drain(timeout_s):
            await self._manager.close(advertisement.say_goodbye)
        await self.close()

    # calls

    @overload
    async def request_response(
        self, address: Address, data: object = b"", *, returns: None = None, **options: Unpack[RequestOptions]
    ) -> Payload: ...
    @overload
    async def request_response(
        self, address: Address, data: object = b"", *, returns: type[T], **options: Unpack[RequestOptions]
    ) -> T: ...
    @looks_itself
    async def request_response(
        self,
        address: Address,
        data: object = b"",
        *given: object,
        returns: type[T] | None = None,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        timeout_s: float | None = None,
        idempotent: bool = False,
        retry: RetryPolicy | None = None,
        hedging: Hedging | None = None,
        wait_for_reconnect: bool | float | None = None,
        **wrong: Unpack[NoOptions],
    ) -> Payload | T:
        """One answer.

        `idempotent`: it may happen twice, so it may also be tried again when nobody knows how it ended (`retry`), and
        asked a second time when the answer is late (`hedging`). Both None: the client's own, see `connect`.

        >>> await client.request_response(address("orders"), b"42", returns=bytes, timeout_s=1.0)
        b'order 42'
        """
        if given or wrong:
            raise wrong_call(Client.request_response, address, data, given, wrong)
        if returns is not None or type(data) is not bytes:
            values = self._values
            values.check(returns)
            answer = await self.request_response(
                address,
                values.body(data),
                route=route,
                metadata=values.entries(data, returns, metadata),
                timeout_s=timeout_s,
                idempotent=idempotent,
                retry=retry,
                hedging=hedging,
                wait_for_reconnect=wait_for_reconnect,
            )
            return answer if returns is None else values.value(answer, returns, address, route)
        if self._is_plain and retry is None and hedging is None:
            connection = self._manager.connection
            if connection is not None and connection.reason is None:
                timeout_s = self._limit_s(timeout_s)
                head = self._head(address, route, timeout_s, metadata)
                return await connection.request_response(data, head, timeout_s)
        more = more_bytes(metadata)
        call = self._call(
            "request_response", address, route, more, data, timeout_s, wait_for_reconnect, retry, idempotent, hedging
        )
        return await self._calls.ask(call)

    @looks_itself
    async def fire_and_forget(
        self,
        address: Address,
        data: object = b"",
        *given: Never,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        timeout_s: float | None = None,
        wait_for_reconnect: bool | float | None = None,
        **wrong: Unpack[NoOptions],
    ) -> None:
        """No answer: returns when the request is about to be written. Nobody says whether it arrives, or that there is
        no such service or handler but the log of the broker, or of the service: else use `request_response`.

        With `connect(retry=...)` it is tried again only when it was not sent.

        >>> await client.fire_and_forget(address("log"), b"a line", route="line")
        """
        if given or wrong:
            raise wrong_call(Client.fire_and_forget, address, data, given, wrong)
        if type(data) is not bytes:
            metadata = self._values.entries(data, None, metadata)
            data = self._values.body(data)
        if self._is_plain:
            connection = self._manager.connection
            if connection is not None and connection.reason is None:
                timeout_s = self._limit_s(timeout_s)
                head = self._head(address, route, timeout_s, metadata)
                return await connection.fire_and_forget(data, head, timeout_s)
        more = more_bytes(metadata)
        await self._calls.send(self._call("fire_and_forget", address, route, more, data, timeout_s, wait_for_reconnect))

    @overload
    def request_stream(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: None = None,
        **options: Unpack[StreamOptions],
    ) -> Flow[Payload]: ...
    @overload
    def request_stream(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: type[T],
        **options: Unpack[StreamOptions],
    ) -> Flow[T]: ...
    @advised("client.request_stream(address('clock'), b'', route='ticks')")
    def request_stream(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: type[T] | None = None,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        initial_n: int = DEFAULT_WINDOW_N,
        timeout_s: float | None = None,
        idempotent: bool = False,
        retry: RetryPolicy | None = None,
        wait_for_reconnect: bool | float | None = None,
    ) -> Flow[Payload] | Flow[T]:
        """Items, to be read with `async for`; never more than `initial_n` are under way.

        `timeout_s` is for all of it, and `connect(timeout_s=...)` does not count here. It is tried again only before
        the first item.

        >>> async for tick in client.request_stream(address("clock"), route="ticks", initial_n=8):
        ...     print(tick.data)
        b'tick 0'
        b'tick 1'
        b'tick 2'
        """
        more, body = self._said(data, returns, metadata)
        limit_s = math.inf if timeout_s is None else timeout_s
        call = self._call("request_stream", address, route, more, body, limit_s, wait_for_reconnect, retry, idempotent)
        flow = flow_of(self._calls, call, initial_n)
        return flow if returns is None else self._values.flow(flow, returns, address, route)

    @overload
    def subscribe(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: None = None,
        resume: Callable[[Payload], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Flow[Payload]: ...
    @overload
    def subscribe(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: type[T],
        resume: Callable[[T], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Flow[T]: ...
    @advised("client.subscribe(address('clock'), b'', route='ticks')")
    def subscribe(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: type[T] | None = None,
        resume: Callable[[Any], object] | None = None,
        endless: bool = False,
        wait_for_service: bool = True,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        initial_n: int = DEFAULT_WINDOW_N,
    ) -> Flow[Any]:
        """A request/stream that comes back: it is asked for again, with growing delays up to 1.5 s, when the connection
        or the service was lost, and while there is no service, or one that refuses for now (it drains, for example).

        `resume` makes the data of the next request of the last item, so that the service goes on behind it; without it
        the request is the same each time. It ends when the service completes it, or with an error that the next
        request would meet, too. `endless`: it is also asked for again when it is completed, for streams without an end,
        which services that drain complete. `wait_for_service=False`: NoRoute when there is none at the beginning.

        >>> ticks = client.subscribe(address("clock"), route="ticks", returns=bytes, resume=lambda last: last)
        >>> async for tick in ticks:
        ...     print(tick)
        b'tick 0'
        b'tick 1'
        b'tick 2'
        """

        def ask(data: object) -> Flow[Any]:
            return self.request_stream(
                address,
                data,
                returns=cast("type[T]", returns),
                route=route,
                metadata=metadata,
                initial_n=initial_n,
                retry=NO_RETRY,
                wait_for_reconnect=False,
            )

        what = f"subscription to {address!r} {route or ''}".rstrip()
        return Subscription(ask, data, resume, endless, what, Backoff(), Clock(), wait_for_service)

    @overload
    def request_channel(
        self,
        address: Address,
        items: AsyncIterable[object],
        *,
        returns: None = None,
        **options: Unpack[ChannelOptions],
    ) -> Flow[Payload]: ...
    @overload
    def request_channel(
        self,
        address: Address,
        items: AsyncIterable[object],
        *,
        returns: type[T],
        **options: Unpack[ChannelOptions],
    ) -> Flow[T]: ...
    @advised("client.request_channel(address('sums'), items(), route='add')")
    def request_channel(
        self,
        address: Address,
        items: AsyncIterable[object],
        *,
        returns: type[T] | None = None,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        initial_n: int = DEFAULT_WINDOW_N,
        timeout_s: float | None = None,
        wait_for_reconnect: bool | float | None = None,
    ) -> Flow[Payload] | Flow[T]:
        """Sends `items` as the service asks for them, and gives its items; ends when both sides have.

        Without any item nothing is sent. `timeout_s` is for all of it, and `connect(timeout_s=...)` does not count
        here. It is never tried again: its items are used up.

        >>> async def numbers():
        ...     for number in range(2):
        ...         yield b"%d" % number
        >>> async for answer in client.request_channel(address("echo"), numbers()):
        ...     print(answer.data)
        b'0'
        b'1'
        """
        values = self._values
        values.check(returns)
        more = more_bytes(values.entries(None, returns, metadata))
        limit_s = math.inf if timeout_s is None else timeout_s
        call = self._call("request_channel", address, route, more, b"", limit_s, wait_for_reconnect, NO_RETRY)
        flow = flow_of(self._calls, call, initial_n, values.items(items))
        return flow if returns is None else values.flow(flow, returns, address, route)

    @advised("client.metadata_push(multicast('cache'), b'all', route='flush')")
    async def metadata_push(
        self,
        address: Address,
        metadata: bytes,
        *,
        route: str | None = None,
        mime_type: str = OCTET_STREAM_MIME,
        timeout_s: float | None = None,
        wait_for_reconnect: bool | float | None = None,
    ) -> None:
        """Metadata that belongs to no request; no answer, as for `fire_and_forget`.

        >>> await client.metadata_push(multicast("cache"), b"all", route="flush")
        """
        entry = entry_bytes(mime_type, as_bytes(metadata, "metadata"))
        await self._calls.send(self._call("metadata_push", address, route, entry, b"", timeout_s, wait_for_reconnect))

    @overload
    def gather(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: None = None,
        **options: Unpack[GatherOptions],
    ) -> Gathering[bytes]: ...
    @overload
    def gather(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: type[T],
        **options: Unpack[GatherOptions],
    ) -> Gathering[T]: ...
    @advised("client.gather(multicast('stock'), b'book', route='count')")
    def gather(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: type[T] | None = None,
        route: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        timeout_s: float | None = None,
        enough_n: int | None = None,
        with_tags: bool = False,
        wait_for_reconnect: bool | float | None = None,
    ) -> Gathering[bytes] | Gathering[T]:
        """Asks all services that match the address (a `multicast`), and says who answered what.

        `await` it for a list, or read it with `async for`. It ends when all have answered, at the deadline (what is
        missing then is not there), or after `enough_n` answers without an error. Services answer with their
        request_response handler; one that fails is an Answer with an `error`, as is one that does not fit `returns`.
        NoRoute when there is no service at all; an address that is no multicast has one answer, and a warning.
        `with_tags`: services say their tags, too (`Answer.tags`).

        >>> answers = await client.gather(multicast("stock"), b"book", route="count", timeout_s=5.0)
        >>> sorted((answer.service, answer.value) for answer in answers)
        [('stock', b'3'), ('stock', b'4')]
        """
        check_asked(address)
        more, body = self._said(data, returns, metadata)
        check_kind("with_tags", with_tags, BOOL)
        more = (TAGGED_ENTRY if with_tags else GATHER_ENTRY) + more
        call = self._call("request_stream", address, route, more, body, timeout_s, wait_for_reconnect)
        flow = flow_of(self._calls, call, WINDOW_N)
        read = None if returns is None else lambda item: self._values.value(item, returns, address, route)
        return Gathering(flow, enough_n, read)

    @advised("client.of(Orders, address('orders'))")
    def of(
        self,
        contract: Callable[..., T],
        address: Address,
        *,
        metadata: Mapping[str, bytes] | None = None,
        timeout_s: float | None = None,
        initial_n: int = DEFAULT_WINDOW_N,
        retry: RetryPolicy | None = None,
        wait_for_reconnect: bool | float | None = None,
    ) -> T:
        """The services at this address as an object with the methods of the contract, each of which is a call.

        `timeout_s` is the deadline of request/responses and fire-and-forgets; streams and channels have none, and of
        these `initial_n` items may be under way. `subscribe` and `gather` take a method of it. TypeError for a class
        that is no contract, and for one with types that the codec of `connect` has not.

        >>> from typing import Protocol
        >>> class Orders(Protocol):
        ...     async def find(self, number: bytes) -> bytes: ...
        >>> orders = client.of(Orders, address("orders"), timeout_s=5)
        >>> await orders.find(b"42")
        b'order 42'
        """
        wanted = Wanted(metadata, timeout_s, initial_n, retry, wait_for_reconnect)
        return cast("T", Remote(self, read_contract(contract), address, wanted, self._values))

    def as_rsocket(
        self,
        address: Address | None = None,
        *,
        metadata: Mapping[str, bytes] | None = None,
        mime_type: str = COMPOSITE_MIME,
    ) -> "rsocket_py.ClientRSocket":
        """This client as an `rsocket.RSocket`, for what was written for rsocket-py (docs/sdk/rsocket-py.md).

        Each request carries `address` and the entries of `metadata` before its payload's own metadata; without an
        address the payload's metadata brings the ADDRESS. `mime_type` says what the payloads' metadata is: composite,
        which is appended as it is, or of another type, which becomes one entry.

        >>> from rsocket.extensions.helpers import composite, route
        >>> rsocket = client.as_rsocket(address("orders"))
        >>> (await rsocket.request_response(Payload(b"42", composite(route("find"))))).data
        b'order 42'
        """
        head = b"" if address is None else self._cache.of(address, None, None)
        return rsocket_py.ClientRSocket(self, self._manager.connected, head + more_bytes(metadata), mime_type)

    # helpers

    def _said(self, data: object, returns: object, metadata: Mapping[str, bytes] | None) -> tuple[bytes, bytes]:
        """Further entries and data of a call; TypeError for what the codec has not."""
        if returns is None and type(data) is bytes:
            return more_bytes(metadata), data
        values = self._values
        values.check(returns)
        return more_bytes(values.entries(data, returns, metadata)), values.body(data)

    def _limit_s(self, timeout_s: float | None) -> float | None:
        """A call's deadline, given what it says itself."""
        if timeout_s is None:
            return self._timeout_s
        return None if timeout_s == math.inf else timeout_s

    def _head(
        self, address: Address, route: str | None, timeout_s: float | None, metadata: Mapping[str, bytes] | None
    ) -> bytes:
        """The metadata of a call around which nothing happens."""
        head = self._cache.of(address, route, timeout_s)
        trace = current.get()
        if trace is not None:
            head += trace.entries
        return head + more_bytes(metadata) if metadata else head

    def _call(
        self,
        model: str,
        address: Address,
        route: str | None,
        more: bytes,
        data: bytes,
        timeout_s: float | None,
        wait_for_reconnect: bool | float | None,
        retry: RetryPolicy | None = None,
        idempotent: bool = False,
        hedging: Hedging | None = None,
    ) -> Call:
        """A call with the client's defaults; only a request/response is hedged."""
        wait_s = wait_s_of(wait_for_reconnect, self._defaults.wait_s)
        check_policies(retry, hedging)
        if hedging is not None and not idempotent:
            hedging.skipped(LEAST_N)
        check_kind("idempotent", idempotent, BOOL)
        retry = self._defaults.retry if retry is None else retry
        hedging = self._defaults.hedging if hedging is None else hedging
        return Call(model, address, route, more, data, self._limit_s(timeout_s), wait_s, idempotent, retry, hedging)
