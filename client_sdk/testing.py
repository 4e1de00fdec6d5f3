"""A broker for tests and examples: in this process, on a free port, gone at the end of the block.

    async with local_broker() as url, connect(url, service=orders), connect(url) as client:
        ...
    with sync_local_broker() as url, sync.connect(url, service=orders), sync.connect(url) as client:
        ...

It is the real one, on the running event loop (`sync_local_broker`: on that of the sync clients); a few milliseconds to
start, a few to stop, any number of them at a time. What they give is the URL, a str, with methods that tell what the
broker has seen. Decides how a broker is embedded; this is the only module of the SDK that knows one.
"""

import asyncio
import contextlib
import functools
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.config.load import ConfigErrors, load
from broker.events import OUTCOME_NAMES
from broker.server import Server
from broker.views.queries import TagFilter, connections, routes, totals
from broker.views.schemas import Part
from client_sdk.broker_process import BrokerProcess
from client_sdk.clock import is_in_loop
from client_sdk.errors import DeadlineExceeded
from client_sdk.lazy import lazy_getattr
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.attributes import missing_told
from client_sdk.mistakes.likeness import near
from client_sdk.mistakes.local_brokers import (
    LOCAL_BROKER_HAS,
    LOCAL_BROKER_HAS_NOT,
    RUNS,
    Number,
    Urls,
    called,
    check_place,
    check_start,
    check_wanted,
)
from client_sdk.mistakes.operators import entered, refused
from client_sdk.sync.background import BACKGROUND, LoopThread
from rsocket_wire.errors import BrokerError
from rsocket_wire.models import MODELS

__all__ = ["LocalBroker", "RouteSeen", "SyncLocalBroker", "local_broker", "sync_local_broker"]

if not TYPE_CHECKING:  # says what is wrong with any other name
    __getattr__ = lazy_getattr(__name__, dict.fromkeys(__all__, ""))

LOOK_S: Final = 0.005  # how often it is looked whether routes have come
_HOW: Final = "write `async with local_broker() as url:`, or without async `with sync_local_broker() as url:`"
_ALL: Final = Part(0, 1_000_000)
_IN_SHELL: Final = "command line: "  # so say texts whose options these are
_FREE: Final = {"tcp": "tcp://127.0.0.1:0", "ws": "ws://127.0.0.1:0"}
_ONLY_A_PROCESS_HAS: Final = ("admin.listen", "server.workers")


@missing_told("it has route_id, service, tags and requests")
@dataclass(frozen=True)
class RouteSeen:
    """A route of the broker: a service that is connected.

    >>> RouteSeen("11223344-5566-7788-99aa-bbccddeeff00", "orders", {"region": "eu"}, requests=2).tags["region"]
    'eu'
    """

    route_id: str
    service: str
    tags: dict[str, str | None]  # well-known keys in snake case, among them those that every route has
    requests: int  # begun there, ever

    if not TYPE_CHECKING:
        __getitem__ = __iter__ = refused("a RouteSeen is no dict: write route.service, or route.tags['region']")


class RoutesMissing(DeadlineExceeded):
    """What `wait_for_routes` waits for has not come."""

    usual_advice = "connect the service before, with connect(url, service=...)"


@missing_told(LOCAL_BROKER_HAS, LOCAL_BROKER_HAS_NOT)
class LocalBroker(str):
    """The URL of a broker that `local_broker` has started, with what it has seen.

    >>> async with local_broker(listen=["tcp", "ws"]) as broker:
    ...     async with connect(broker, service=Service("orders")), connect(broker.urls["ws"]):
    ...         print(len(broker.routes("orders")), broker.connections)
    1 2
    """

    _host: "_Embedded | BrokerProcess"
    urls: dict[str, str]  # by scheme, the first of each
    _is_over = False  # the block has ended

    if not TYPE_CHECKING:
        __call__ = __enter__ = __exit__ = __aenter__ = __aexit__ = refused(RUNS)

    @classmethod
    def _of(cls, host: "_Embedded | BrokerProcess") -> "LocalBroker":
        broker = cls(host.urls[0])
        broker._host = host
        broker.urls = Urls({url.partition("://")[0]: url for url in reversed(host.urls)})
        return broker

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # For another process, as multiprocessing starts it, it is the URL and nothing else.
        return str, (str.__str__(self),)

    @property
    def connections(self) -> int:
        """Connections that are open now.

        >>> assert broker.connections == 2
        """
        return Number(connections(self._server.core, self._server.moment(), _ALL).total)

    @called
    def routes(self, service: str | None = None, **tags: str) -> list[RouteSeen]:
        """Routes that have all these tags, as a request with them would find them.

        >>> assert [route.tags["region"] for route in broker.routes("orders")] == ["eu"]
        """
        check_wanted(service, tags)
        wanted = TagFilter()
        for name, value in {**({} if service is None else {"service": service}), **tags}.items():
            wanted.add(name, value)
        found = routes(self._server.core, self._server.moment(), wanted, _ALL).items
        return [
            RouteSeen(each.route_id, each.service, {tag.name: tag.value for tag in each.tags}, each.requests)
            for each in found
        ]

    @called
    @advised("broker.requests('orders', outcome='completed')", is_hot=False)
    def requests(self, service: str | None = None, *, model: str | None = None, outcome: str | None = None) -> int:
        """Requests that have ended, those that no route got among them.

        model    request_response, fire_and_forget, request_stream, request_channel or metadata_push
        outcome  completed, error, cancelled, rejected, route_lost or caller_lost

        With the option `events.dir` those of the last interval are not in it yet.

        >>> assert broker.requests("orders", outcome="completed") == 3
        """
        for what, given, known in (("model", model, MODELS), ("outcome", outcome, OUTCOME_NAMES)):
            if given is not None and given not in known:
                raise ValueError(f"{given!r} is no {what} of requests; there are {', '.join(known)}")
        server = self._server
        if not server.config.events.dir:  # nobody waits for the records that are taken here
            server.core.engine.flows.end_interval()
            server.core.engine.flows.take_records(0, 0, 0)
        return sum(
            total.requests
            for (its_service, its_model, _, its_outcome, _), total in totals(server.core)
            if service in (None, its_service) and model in (None, its_model) and outcome in (None, its_outcome)
        )

    @advised("await broker.wait_for_routes('orders', 2, timeout_s=5)", is_hot=False)
    async def wait_for_routes(self, service: str, n: int = 1, timeout_s: float = 5.0, **tags: str) -> None:
        """Until so many routes have these tags, for services that another process starts. DeadlineExceeded.

        >>> await broker.wait_for_routes("orders", region="eu")
        """
        end_at = time.monotonic() + timeout_s
        while len(found := self.routes(service, **tags)) < n:
            if time.monotonic() >= end_at:
                raise RoutesMissing(self._missing(service, tags, n, len(found), timeout_s))
            await asyncio.sleep(LOOK_S)

    def _missing(self, service: str, tags: Mapping[str, str], n: int, found_n: int, timeout_s: float) -> str:
        """What `wait_for_routes` has waited for in vain, and what may be wrong."""
        wanted = " ".join((f"service {service!r}", *(f"{name}={value}" for name, value in tags.items())))
        others = {route.service for route in self.routes()}
        if service not in others:
            hint = near(service, others) or (f"there is {', '.join(sorted(others))}" if others else "nor any other")
            return f"within {timeout_s:g} s no {wanted} has connected, {hint}"
        return f"within {timeout_s:g} s {found_n} of {n} routes of {wanted} have connected"

    def drop_connections(self) -> None:
        """Cuts all connections without a word, as a network does; clients come back.

        >>> broker.drop_connections()
        """
        self._server.shell.abort_all()

    async def restart(self) -> None:
        """Stops at once and starts again, where it listened before; nothing of what it has seen is left.

        >>> await broker.restart()
        """
        old = self._host
        await old.stop()
        self._host = old.anew(old.urls)
        await self._host.start()

    @property
    def _server(self) -> Server:
        if isinstance(self._host, BrokerProcess):
            raise RuntimeError("a broker in another process cannot be inspected: leave process= and arguments out")
        return self._host.server


@missing_told(LOCAL_BROKER_HAS, LOCAL_BROKER_HAS_NOT)
class SyncLocalBroker(str):
    """As LocalBroker, for tests without an event loop: nothing is awaited. Any thread may ask.

    >>> from client_sdk import sync
    >>> with sync_local_broker() as broker, sync.connect(broker, service=Service("orders")):
    ...     print([route.service for route in broker.routes()])
    ['orders']
    """

    _broker: LocalBroker
    _thread: LoopThread
    urls: dict[str, str]  # by scheme, the first of each

    if not TYPE_CHECKING:
        __call__ = __enter__ = __exit__ = __aenter__ = __aexit__ = refused(RUNS)

    @property
    def _is_over(self) -> bool:
        return self._broker._is_over

    @classmethod
    def _of(cls, broker: LocalBroker, thread: LoopThread) -> "SyncLocalBroker":
        made = cls(broker)
        made._broker = broker
        made._thread = thread
        made.urls = broker.urls
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)

    @property
    def connections(self) -> int:
        """Connections that are open now.

        >>> assert broker.connections == 2
        """
        return self._thread.call(lambda: self._broker.connections)

    @called
    def routes(self, service: str | None = None, **tags: str) -> list[RouteSeen]:
        """Routes that have all these tags, as a request with them would find them.

        >>> assert [route.tags["region"] for route in broker.routes("orders")] == ["eu"]
        """
        return self._thread.call(lambda: self._broker.routes(service, **tags))

    @called
    @advised("broker.requests('orders', outcome='completed')", is_hot=False)
    def requests(self, service: str | None = None, *, model: str | None = None, outcome: str | None = None) -> int:
        """Requests that have ended; see `LocalBroker.requests`.

        >>> assert broker.requests("orders", outcome="completed") == 3
        """
        return self._thread.call(lambda: self._broker.requests(service, model=model, outcome=outcome))

    @called
    @advised("broker.wait_for_routes('orders', 2, timeout_s=5)", is_hot=False)
    def wait_for_routes(self, service: str, n: int = 1, timeout_s: float = 5.0, **tags: str) -> None:
        """Until so many routes have these tags, for services that another process starts. DeadlineExceeded.

        >>> broker.wait_for_routes("orders", region="eu")
        """
        try:
            self._thread.run(functools.partial(self._broker.wait_for_routes, service, n, timeout_s, **tags), timeout_s)
        except DeadlineExceeded as error:
            if not is_in_loop():
                raise
            how = f"await asyncio.to_thread(broker.wait_for_routes, {service!r})"
            raise RoutesMissing(f"{error.text}; the event loop of this thread, maybe its own, stood: {how}") from None

    @called
    def drop_connections(self) -> None:
        """Cuts all connections without a word, as a network does; clients come back.

        >>> broker.drop_connections()
        """
        self._thread.call(self._broker.drop_connections)

    @called
    def restart(self) -> None:
        """Stops at once and starts again, where it listened before; nothing of what it has seen is left.

        >>> broker.restart()
        """
        self._thread.run(self._broker.restart)


@entered(f"a broker of an event loop: {_HOW}")
@contextlib.asynccontextmanager
async def local_broker(
    *arguments: str,
    listen: Sequence[str] = ("tcp",),
    options: Mapping[str, object] | None = None,
    process: bool = False,
    **keys: object,
) -> AsyncIterator[LocalBroker]:
    """Starts a broker and gives its URL; at the end of the block it stops at once, whatever runs.

    listen     URLs, or "tcp", "ws" and "unix" for a free place; the first is the one that is given
    options    of the configuration, by name: {"limits.max_connections": 10}; as keywords: limits__max_connections=10
    process    a process of its own, which takes half a second; it cannot be looked into
    arguments  of `rsocket-broker serve`, for such a process

    RSB_ variables of the environment are not for it. ValueError for options that are none, RuntimeError with what the
    broker said if it does not start.

    >>> async with local_broker() as url, connect(url) as client:
    ...     print(client.is_connected)
    True
    """
    check_start(arguments, listen, options, keys)
    named = {**(options or {}), **{name.replace("__", ".", 1): value for name, value in keys.items()}}
    named = {name: str(value) if isinstance(value, Path) else value for name, value in named.items()}
    with contextlib.ExitStack() as stack:
        places = [] if "--listen" in arguments else [_place(each, stack) for each in listen]
        host: _Embedded | BrokerProcess
        if process or arguments:
            host = BrokerProcess(places, named, arguments)
        else:
            host = _Embedded(places, named)
        broker: LocalBroker | None = None
        try:
            await host.start()
            broker = LocalBroker._of(host)
            yield broker
        finally:
            if broker is not None:
                broker._is_over = True
            await (host if broker is None else broker._host).stop()


@entered(f"a broker without an event loop: {_HOW}")
@contextlib.contextmanager
def sync_local_broker(
    *arguments: str,
    listen: Sequence[str] = ("tcp",),
    options: Mapping[str, object] | None = None,
    process: bool = False,
    **keys: object,
) -> Iterator[SyncLocalBroker]:
    """As `local_broker`, for tests without an event loop, and for those whose broker shall not share theirs.

    >>> from client_sdk import sync
    >>> with sync_local_broker() as url, sync.connect(url) as client:
    ...     print(client.is_connected)
    True
    """
    thread = BACKGROUND.enter()
    try:
        context = local_broker(*arguments, listen=listen, options=options, process=process, **keys)
        broker = thread.run(context.__aenter__)
        try:
            yield SyncLocalBroker._of(broker, thread)
        finally:
            thread.run(functools.partial(context.__aexit__, None, None, None))
    finally:
        BACKGROUND.leave(thread)


class _Embedded:
    """A broker of this process, on one event loop. It has a BrokerProcess's face."""

    def __init__(self, listen: Sequence[str], options: Mapping[str, object]) -> None:
        """ValueError for options that are none."""
        for name in _ONLY_A_PROCESS_HAS:
            if name in options:
                raise ValueError(f"{name} is for a broker in a process of its own: local_broker(process=True)")
        self._options: Final = options
        flags = {**options, "server.listen": tuple(listen), "admin.listen": "off"}
        try:
            self.server: Final = Server(load(None, {}, flags))
        except ConfigErrors as error:
            raise ValueError(f"options of the broker: {error.text.replace(_IN_SHELL, '')}") from None

    @property
    def urls(self) -> list[str]:
        """Where it listens."""
        return self.server.listeners

    def anew(self, listen: Sequence[str]) -> "_Embedded":
        """Another one like it, not started."""
        return _Embedded(listen, self._options)

    async def start(self) -> None:
        """RuntimeError when it cannot listen."""
        try:
            await self.server.start()
        except BrokerError as error:
            raise RuntimeError(f"the broker did not start: {error.text}") from None

    async def stop(self) -> None:
        """At once: a test waits for nobody."""
        if self.server.is_ready:
            self.server.wish_stop()
            self.server.wish_stop()
            await self.server.stop()


def _place(listen: str, stack: contextlib.ExitStack) -> str:
    """The URL; for "unix" a socket in a folder that goes with the stack, with a name that is short enough."""
    check_place(listen)
    if listen == "unix":
        return f"unix://{Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='rsb-'))) / 'broker.sock'}"
    return _FREE.get(listen, listen)
