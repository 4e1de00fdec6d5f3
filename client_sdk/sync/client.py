"""The client that blocks: each method hands the work to the event loop's thread and waits for it.

Has the methods and parameters of `client_sdk.client`, which does the work. How it ends is `lifecycle`'s.
"""

import contextlib
import functools
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack, overload

from client_sdk import Address, Payload
from client_sdk import Client as AsyncClient
from client_sdk import connect as connect_async
from client_sdk.calls.metadata_cache import check_time
from client_sdk.calls.options import (
    CallOptions,
    ChannelOptions,
    ConnectOptions,
    GatherOptions,
    PushOptions,
    RequestOptions,
    StreamOptions,
    SubscribeOptions,
)
from client_sdk.client import T
from client_sdk.clock import is_in_loop
from client_sdk.errors import DeadlineExceeded, NotConnected
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.attributes import SYNC_CLIENT_HAS, SYNC_CLIENT_HAS_NOT, missing_told
from client_sdk.mistakes.operators import IN_LOOP, look_for_loop, refused
from client_sdk.reconnect.facts import ConnectionFacts
from client_sdk.reconnect.state import Change, State
from client_sdk.services.service import DEFAULT_DRAIN_S
from client_sdk.sync.background import BACKGROUND
from client_sdk.sync.items import Flow, Gathering, Items
from client_sdk.sync.iterable_bridge import IterableBridge
from client_sdk.sync.lifecycle import ClientLifecycle

HOW_TO_WAIT: Final = (
    "start the broker or correct the URL; to wait for a broker, call sync.connect() again after time.sleep(1) for as "
    "long as it raises NotConnected: wait_for_reconnect= is of calls, after a loss"
)


@missing_told(SYNC_CLIENT_HAS, SYNC_CLIENT_HAS_NOT)
class Client(ConnectionFacts):
    """A connection to the broker that comes back by itself. Made by `sync.connect`, closed by `with` or `close()`.

    Calls fail at once with NotConnected while there is no connection, and with ConnectionLost when it is lost while
    they wait. For several calls at a time use several threads, for example a ThreadPoolExecutor.

    >>> from client_sdk import sync
    >>> with sync.connect("tcp://127.0.0.1:7878") as client:
    ...     print(client.request_response(address("orders"), b"42", route="find", timeout_s=5.0).data)
    b'order 42'
    """

    _made_by = "with sync.connect(url) as client:"

    def __init__(self, lifecycle: ClientLifecycle, client: AsyncClient, timeout_s: float | None = None) -> None:
        """Use `sync.connect`. The thread was entered for this client, which leaves it when it is closed.

        `timeout_s`: of calls that say none.
        """
        super().__init__(client._manager)
        self._timeout_s: Final = timeout_s
        self._thread: Final = lifecycle.thread
        self._lifecycle: Final = lifecycle
        self._client: Final = client
        self._lock: Final = threading.Lock()
        self._is_open = True
        self._has_called = False

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:
        __call__ = refused(
            "it is a client already: write client.request_response(address('orders'), b''); "
            "a service is offered by sync.connect(url, service=service)"
        )
        __aenter__ = __aexit__ = refused(
            "this client blocks: write `with sync.connect(...)`, or `async with client_sdk.connect(...)`"
        )
        __iter__ = __next__ = refused(
            "this client is not read: write `with sync.connect(...) as client:`; "
            "a stream is read, or `for change in client.changes():`"
        )
        __await__ = refused(
            "this client blocks: write `client = sync.connect(...)`, or `client = await client_sdk.connect(...)`"
        )

    def __del__(self) -> None:
        if getattr(self, "_is_open", False) and not self._thread.is_forked:
            self._lifecycle.close_soon()
            text = f"unclosed {self!r}: write `with sync.connect(...) as client:`, or end it with `client.close()`"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<sync client {self.route_id} of {self.broker}>"

    @property
    def route_id(self) -> str:
        """This client's Route Id, a uuid; the same after each reconnect.

        >>> with sync.connect("tcp://127.0.0.1:7878", route_id="11223344-5566-7788-99aa-bbccddeeff00") as client:
        ...     print(client.route_id)
        11223344-5566-7788-99aa-bbccddeeff00
        """
        return self._client.route_id

    @property
    def working_n(self) -> int:
        """Requests of others that its service works on now.

        >>> with sync.connect("tcp://127.0.0.1:7878", service=Service("ledger")) as client:
        ...     print(client.working_n)
        0
        """
        return self._client.working_n

    def changes(self) -> Items[Change]:
        """Its states from now on, the present one first, until it is closed.

        >>> for change in client.changes():
        ...     print(change.state)
        ...     break
        connected
        """
        return Items(self._thread, self._thread.call(self._client.changes))

    def wait_for(self, *states: State | str, timeout_s: float | None = None) -> Change:
        """Returns when it is, or has been meanwhile, in one of the states; at once if it is now.

        DeadlineExceeded after `timeout_s`; NotConnected when it is closed for ever and that is not among them.

        >>> print(client.wait_for("connected", timeout_s=5).state)
        connected
        """
        return self._thread.run(functools.partial(self._client.wait_for, *states, timeout_s=timeout_s), timeout_s)

    def wait_connected(self, timeout_s: float | None = None) -> None:
        """Returns when calls can be made. DeadlineExceeded after `timeout_s`; NotConnected when closed for ever.

        >>> client.wait_connected(timeout_s=5)
        """
        self._thread.run(functools.partial(self._client.wait_connected, timeout_s), timeout_s)

    def closed(self) -> None:
        """Returns when the client is closed for ever: by `close()`, or because another one took its Route Id.

        Holds a program open whose work is done by the handlers of its service, until Ctrl-C.

        >>> client = sync.connect("tcp://127.0.0.1:7878")
        >>> client.close()
        >>> client.closed()
        """
        with contextlib.suppress(ConnectionError):  # closed meanwhile, or before
            self._thread.run(self._client.closed)

    def close(self) -> None:
        """Writes what waits to be written and ends the connection; calls that wait fail with ConnectionLost.

        >>> client = sync.connect("tcp://127.0.0.1:7878")
        >>> client.close()
        """
        self._end(self._lifecycle.close)

    def set_tags(self, tags: Mapping[str, str | None]) -> None:
        """From now on these tags in place of those that `connect` was given; those of its Service stay.

        ValueError for a caller, which has no route; BadAddress for tags that cannot be sent: nothing has changed then.

        >>> with sync.connect("tcp://127.0.0.1:7878", service=Service("ledger"), tags={"region": "eu"}) as ledger:
        ...     ledger.set_tags({"region": "us"})
        """
        self._thread.run(functools.partial(self._client.set_tags, tags))

    def drain(self, timeout_s: float = DEFAULT_DRAIN_S) -> None:
        """Closes without losing a request: no new ones come, those that its handlers work on end, then the connection.

        What has not ended after `timeout_s` is cancelled; the log says how many. Its own calls should have ended.

        >>> ledger = sync.connect("tcp://127.0.0.1:7878", service=Service("ledger"))
        >>> ledger.drain(timeout_s=10)
        """
        draining = functools.partial(self._client.drain, timeout_s)
        self._end(functools.partial(self._lifecycle.end_with, draining))

    @overload
    def request_response(
        self, address: Address, data: object = b"", *, returns: None = None, **options: Unpack[RequestOptions]
    ) -> Payload: ...
    @overload
    def request_response(
        self, address: Address, data: object = b"", *, returns: type[T], **options: Unpack[RequestOptions]
    ) -> T: ...
    @advised("client.request_response(address('orders'), b'42', route='find')", RequestOptions)
    def request_response(
        self, address: Address, data: object = b"", *, returns: type[T] | None = None, **options: Unpack[RequestOptions]
    ) -> Any:
        """One answer. `route` names the handler, `metadata` adds entries (mime type: content).

        >>> client.request_response(address("orders"), b"42", returns=bytes, timeout_s=5.0)
        b'order 42'
        """
        client = self._client
        ask = functools.partial(client.request_response, address, data, returns=returns, **options)
        return self._call(ask, options.get("timeout_s"))

    @advised("client.fire_and_forget(address('log'), b'a line', route='line')", CallOptions)
    def fire_and_forget(self, address: Address, data: object = b"", **options: Unpack[CallOptions]) -> None:
        """No answer: returns when the request is about to be written; whether it arrives, nobody says.

        >>> client.fire_and_forget(address("log"), b"a line", route="line")
        """
        self._call(lambda: self._client.fire_and_forget(address, data, **options), options.get("timeout_s"))

    @overload
    def request_stream(
        self, address: Address, data: object = b"", *, returns: None = None, **options: Unpack[StreamOptions]
    ) -> Flow[Payload]: ...
    @overload
    def request_stream(
        self, address: Address, data: object = b"", *, returns: type[T], **options: Unpack[StreamOptions]
    ) -> Flow[T]: ...
    @advised("client.request_stream(address('clock'), b'', route='ticks')", StreamOptions)
    def request_stream(
        self, address: Address, data: object = b"", *, returns: type[T] | None = None, **options: Unpack[StreamOptions]
    ) -> Flow[Any]:
        """Items, to be read with `for`; never more than `initial_n` are under way. `timeout_s` is for all of it.

        >>> for tick in client.request_stream(address("clock"), route="ticks", initial_n=8):
        ...     print(tick.data)
        b'tick 0'
        b'tick 1'
        b'tick 2'
        """
        begin = functools.partial(self._client.request_stream, address, data, returns=returns, **options)
        return Flow(self._thread, self._thread.call(begin))

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
    @advised("client.subscribe(address('clock'), b'', route='ticks')", SubscribeOptions)
    def subscribe(
        self,
        address: Address,
        data: object = b"",
        *,
        returns: type[T] | None = None,
        resume: Callable[[Any], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Flow[Any]:
        """A request/stream that comes back when the connection or the service was lost, see the async client's.

        `resume` makes the data of the next request of the last item; it is called in the thread of the event loop, and
        must not block.

        >>> for tick in client.subscribe(address("clock"), route="ticks", returns=bytes, resume=lambda last: last):
        ...     print(tick)
        b'tick 0'
        b'tick 1'
        b'tick 2'
        """
        begin = functools.partial(self._client.subscribe, address, data, returns=returns, resume=resume, **options)
        return Flow(self._thread, self._thread.call(begin))

    @overload
    def request_channel(
        self, address: Address, items: Iterable[object], *, returns: None = None, **options: Unpack[ChannelOptions]
    ) -> Flow[Payload]: ...
    @overload
    def request_channel(
        self, address: Address, items: Iterable[object], *, returns: type[T], **options: Unpack[ChannelOptions]
    ) -> Flow[T]: ...
    @advised("client.request_channel(address('sums'), items, route='add')", ChannelOptions)
    def request_channel(
        self,
        address: Address,
        items: Iterable[object],
        *,
        returns: type[T] | None = None,
        **options: Unpack[ChannelOptions],
    ) -> Flow[Any]:
        """Sends `items` as the service asks for them, and gives its items; ends when both sides have.

        Items come from a thread of their own: the iterable may block. Without any item nothing is sent. `timeout_s` is
        for all of it.

        >>> for answer in client.request_channel(address("echo"), [b"1", b"2"]):
        ...     print(answer.data)
        b'1'
        b'2'
        """
        fed = IterableBridge(items)
        begin = functools.partial(self._client.request_channel, address, fed, returns=returns, **options)
        return Flow(self._thread, self._thread.call(begin))

    @advised("client.metadata_push(multicast('cache'), b'all', route='flush')", PushOptions)
    def metadata_push(self, address: Address, metadata: bytes, **options: Unpack[PushOptions]) -> None:
        """Metadata that belongs to no request; no answer, as for `fire_and_forget`.

        >>> client.metadata_push(multicast("cache"), b"all", route="flush")
        """
        self._call(lambda: self._client.metadata_push(address, metadata, **options), options.get("timeout_s"))

    @overload
    def gather(
        self, address: Address, data: object = b"", *, returns: None = None, **options: Unpack[GatherOptions]
    ) -> Gathering[bytes]: ...
    @overload
    def gather(
        self, address: Address, data: object = b"", *, returns: type[T], **options: Unpack[GatherOptions]
    ) -> Gathering[T]: ...
    @advised("client.gather(multicast('stock'), b'book', route='count')", GatherOptions)
    def gather(
        self, address: Address, data: object = b"", *, returns: type[T] | None = None, **options: Unpack[GatherOptions]
    ) -> Gathering[Any]:
        """What all services that match the address (a `multicast`) answer, and who said it: in a loop, or `list()`.

        It ends when all have answered, at the deadline (what is missing then is not there), or after `enough_n` answers
        without an error.

        >>> answers = list(client.gather(multicast("stock"), b"book", route="count", timeout_s=5.0))
        >>> sorted((answer.service, answer.value) for answer in answers)
        [('stock', b'3'), ('stock', b'4')]
        """
        begin = functools.partial(self._client.gather, address, data, returns=returns, **options)
        return Gathering(self._thread, self._thread.call(begin))

    def _call(self, work: Callable[[], Awaitable[T]], timeout_s: float | None) -> T:
        """What the async client's call gives; `timeout_s` None: the client's own. ValueError for what is no time."""
        check_time(timeout_s)
        if not self._has_called:
            self._has_called = True
            look_for_loop()
        try:
            return self._thread.run(work, self._timeout_s if timeout_s is None else timeout_s)
        except DeadlineExceeded as error:
            if is_in_loop():
                raise DeadlineExceeded(f"{error.text}; {IN_LOOP}", word=error.word, code=error.code) from None
            raise

    def _end(self, ending: Callable[[], Awaitable[None]]) -> None:
        """Once, whoever is first."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        if self._thread.is_forked:
            return  # the connection is the parent's
        try:
            with contextlib.suppress(ConnectionError):  # the thread has ended, and has closed it before
                self._thread.run(ending)
        finally:
            BACKGROUND.leave(self._thread)


@advised("sync.connect(url, service=...)", ConnectOptions)
def connect(urls: str | Sequence[str], **options: Unpack[ConnectOptions]) -> Client:
    """A connected client; everything means what it means for `client_sdk.connect`.

    Handlers of a `service` that are `async def` run in the event loop of the background thread and must not block it;
    those that are `def` get threads of their own.

    >>> from client_sdk import sync
    >>> with sync.connect("tcp://127.0.0.1:7878", service=Service("kiosk"), tags={"region": "eu"}) as client:
    ...     print(client.is_connected)
    True
    """
    thread = BACKGROUND.enter()
    lifecycle: ClientLifecycle | None = None  # None while the arguments have not been looked at
    try:
        connecting = connect_async(urls, **options)
        lifecycle = ClientLifecycle(thread, connecting)
        return Client(lifecycle, thread.run(lifecycle.open), options.get("timeout_s"))
    except BaseException as error:
        try:
            if lifecycle is not None:  # it may have succeeded just when this thread was interrupted
                with contextlib.suppress(ConnectionError):
                    thread.run(lifecycle.close)
        finally:
            BACKGROUND.leave(thread)
        if isinstance(error, NotConnected):
            how = IN_LOOP if error.word == "connect-timeout" and is_in_loop() else ""
            if error.word == "connect-failed" and not error.says_how:
                how = HOW_TO_WAIT
            if how:
                raise NotConnected(f"{error.text}; {how}", word=error.word, says_how=True) from error.__cause__
        raise
