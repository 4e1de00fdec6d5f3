"""A service: a name, tags, and handlers for the five interaction models, by route name.

What a program writes; how handlers are called is `handlers`', who gets a request `routes`', and what the broker is told
of it `offer`'s. Knows nothing of connections. RSocket extension "Routing".
"""

import asyncio
import logging
import shlex
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, TypeVar, Unpack

from client_sdk.addresses import check_new_tags, check_own_tags
from client_sdk.codecs import BYTES, Codec, check_codec
from client_sdk.mistakes.arguments import SERVE_SEVERAL, advised
from client_sdk.mistakes.attributes import SERVICE_HAS_NOT, missing_told
from client_sdk.mistakes.handlers import warn_route
from client_sdk.mistakes.operators import ReadOnly, refused
from client_sdk.mistakes.options import unknown_option
from client_sdk.services.contract import read_contract
from client_sdk.services.handlers import Shape, handler_of
from client_sdk.services.health import Check, Health
from client_sdk.services.implementation import parts_of
from client_sdk.services.limits import MAX_WAITING
from client_sdk.services.routes import Routes
from rsocket_wire.models import (
    FIRE_AND_FORGET,
    METADATA_PUSH,
    MODELS,
    REQUEST_CHANNEL,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
)

DEFAULT_DRAIN_S: Final = 30.0  # for what runs when a service drains
MAX_NAME_BYTES: Final = 255  # of a service: its length has 8 bits in a ROUTE_SETUP; so has a route's in an entry
_log: Final = logging.getLogger("client_sdk")
HOW_SERVICE: Final = "orders = Service('orders'), with @orders.request_response('create') before the function"

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
HealthCheck = TypeVar("HealthCheck", bound=Callable[[], Awaitable[object]])


class HandlerOptions(TypedDict, total=False):
    """Of every handler."""

    codec: Codec | None  # of its data and answers, in place of its service's
    codecs: Sequence[Codec] | None  # several: as for `Service`
    max_concurrency: int | None  # requests that it works on at a time; None: as many as come, 32 in threads
    max_waiting: int  # requests that may wait for their turn; 1000


class Advertised(Protocol):
    """A client that offers the service, as the service sees it."""

    drain_client: Callable[[float], Coroutine[object, object, None]]

    async def tell(self) -> None: ...

    def check_tags(self, tags: Mapping[str, str | None]) -> None: ...


@missing_told(f"it has the decorators {', '.join(MODELS)}, such as @orders.request_response('create')", SERVICE_HAS_NOT)
class Service:
    """What a program offers to others: give it to `connect(url, service=...)`, or to `run`.

    A handler takes the data of a request, as the annotation of its parameter says: `bytes`, `Payload`, or any type that
    the codec can make; the whole `Request` if it is annotated so, or not at all; or both. It is an async function that
    returns bytes, a Payload or a value for the codec; for streams and channels an async generator that yields them.
    A channel's handler takes an async iterator: of Payloads, or of what `AsyncIterator[...]` says.
    A function without `async` runs in a thread, so that it may block.

    An ApplicationError that it raises reaches the caller; of any other exception only a number does, for the log.
    A handler is cancelled when its caller cancels or is lost.

    >>> orders = Service("orders", tags={"region": "eu"}, codec=JSON)
    >>> @orders.request_response("create")
    ... async def create(names: list[str]) -> dict[str, int]:
    ...     return {"created": len(names)}
    """

    @advised("Service('orders', tags={'region': 'eu'})")
    def __init__(
        self,
        name: str,
        *,
        tags: Mapping[str, str | None] | None = None,
        codec: Codec | None = None,
        codecs: Sequence[Codec] | None = None,
    ) -> None:
        """`codec` of its handlers, or several: the entry `message/x.rsocket.mime-type.v0` of a request chooses, else
        the first is meant. BadAddress for tags that cannot be sent; ValueError for a name that is not 1..255 bytes.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a service is {type(name).__name__}, it must be str: Service('orders')")
        if not 1 <= len(name.encode()) <= MAX_NAME_BYTES:
            text = f"has {len(name.encode())} bytes, it must have 1..{MAX_NAME_BYTES}, as Service('orders') has"
            raise ValueError(f"service name {name[:40]!r} {text}")
        check_own_tags(tags)
        self.name: Final = name
        self._tags: dict[str, str | None] = dict(tags or {})
        self._codecs: Final = _codecs_of(codec, codecs) or (BYTES,)
        self.health: Final = Health(name, self._tell)
        self.routes: Final[dict[str, Routes]] = {}  # by model
        for model in MODELS:
            fallback = self.routes[REQUEST_RESPONSE] if model == REQUEST_STREAM else None
            self.routes[model] = Routes(name, model, fallback, self.routes)
        self._advertisements: Final[list[Advertised]] = []  # one for each client
        self._was_offered = False

    def __repr__(self) -> str:
        handlers = [f"{model} {names}" for model, routes in self.routes.items() if (names := routes.names)]
        return f"<Service {self.name!r}: {'; '.join(handlers) or 'no handlers'}>"

    # Handlers

    @advised("service.request_response('name')(function)")
    def request_response(
        self, route: str | None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[Function], Function]:
        """Answers with one payload; a REQUEST_STREAM for a route without a stream's handler gets it as its only item.

        Without `route` it is the handler of all requests that no other one is for. `max_concurrency`: how many requests
        it works on at a time, `max_waiting` how many may wait for their turn; the next one is REJECTED `over-limit:`.

        >>> @Service("echo").request_response(max_concurrency=8, max_waiting=100)
        ... async def echo(data: bytes) -> bytes:
        ...     return data
        """
        return self._decorator(REQUEST_RESPONSE, route, **options)

    @advised("service.fire_and_forget('name')(function)")
    def fire_and_forget(
        self, route: str | None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[Function], Function]:
        """Takes a request that has no answer; one beyond `max_waiting` is dropped.

        >>> @Service("log").fire_and_forget("line")
        ... async def line(data: bytes) -> None:
        ...     print(data)
        """
        return self._decorator(FIRE_AND_FORGET, route, **options)

    @advised("service.request_stream('name')(function)")
    def request_stream(
        self, route: str | None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[Function], Function]:
        """Answers with items; the generator is only asked for as many as the caller takes, and one more.

        A stream has its turn (`max_concurrency`) until it ends.

        >>> @Service("clock").request_stream("ticks")
        ... async def ticks(request: Request):
        ...     for number in range(10):
        ...         yield b"%d" % number
        """
        return self._decorator(REQUEST_STREAM, route, **options)

    @advised("service.request_channel('name')(function)")
    def request_channel(
        self, route: str | None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[Function], Function]:
        """Takes items and answers with items.

        >>> from collections.abc import AsyncIterator
        >>> @Service("sums", codec=JSON).request_channel()
        ... async def add(numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        ...     total = 0
        ...     async for number in numbers:
        ...         total += number
        ...         yield total
        """
        return self._decorator(REQUEST_CHANNEL, route, **options)

    @advised("service.metadata_push('name')(function)")
    def metadata_push(
        self, route: str | None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[Function], Function]:
        """Takes metadata that belongs to no request.

        >>> @Service("cache").metadata_push("flush")
        ... async def flush(data: bytes) -> None:
        ...     print("flush", data)
        """
        return self._decorator(METADATA_PUSH, route, **options)

    @advised("service.implement(Orders)(MyOrders())", HandlerOptions)
    def implement(self, contract: Callable[..., T], **options: Unpack[HandlerOptions]) -> Callable[[T], None]:
        """A function that takes the object whose methods are the handlers: those that the contract names.

        A contract is a Protocol class with methods of one parameter, or none (docs/sdk/contracts.md). `options` are for
        each of its handlers. TypeError, with one sentence, for a class that is no contract, types that no codec has,
        and an object that does not fit.

        >>> from typing import Protocol
        >>> class Greeter(Protocol):
        ...     async def greet(self, name: str) -> str: ...
        >>> class Polite:
        ...     async def greet(self, name: str) -> str:
        ...         return f"good morning, {name}"
        >>> Service("greeter", codec=JSON).implement(Greeter)(Polite())
        """
        read = read_contract(contract)
        codecs = _codecs_of(options.get("codec"), options.get("codecs")) or self._codecs
        max_concurrency, max_waiting = options.get("max_concurrency"), options.get("max_waiting", MAX_WAITING)

        def add(implementation: T) -> None:
            forgotten.detach()
            for part in list(parts_of(read, implementation, codecs)):
                self._add(part.model, part.route, part.function, codecs, max_concurrency, max_waiting, part.shape)

        text = "service %r: implement(%s) was given no object, so it adds no handlers: write service.implement(%s)(%s)"
        forgotten = weakref.finalize(add, _log.warning, text, self.name, read.name, read.name, f"My{read.name}()")
        forgotten.atexit = False
        return add

    def _decorator(
        self,
        model: str,
        route: str | None,
        /,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Function], Function]:
        if route is not None and not isinstance(route, str):
            if not callable(route):
                raise TypeError(f"the route is {type(route).__name__}, it must be str: @….{model}('name')")
            raise TypeError(f"write @….{model}() or @….{model}('name'), with parentheses")
        if route is not None and len(route.encode()) > MAX_NAME_BYTES:
            text = f"has {len(route.encode())} bytes, it must have at most {MAX_NAME_BYTES}, or no caller can name it"
            raise ValueError(f"route {route[:40]!r} {text}")
        for name in options.keys() - HandlerOptions.__annotations__:
            raise unknown_option(f"@….{model}()", name, HandlerOptions.__annotations__)
        warn_route(self.name, model, route or "")
        own = _codecs_of(options.get("codec"), options.get("codecs")) or self._codecs
        max_concurrency, max_waiting = options.get("max_concurrency"), options.get("max_waiting", MAX_WAITING)

        def add(function: Function) -> Function:
            self._add(model, route or "", function, own, max_concurrency, max_waiting)
            return function

        return add

    def _add(
        self,
        model: str,
        route: str,
        function: Callable[..., Any],
        codecs: Sequence[Codec],
        max_concurrency: int | None,
        max_waiting: int,
        shape: Shape | None = None,
    ) -> None:
        name = f"handler {route or model!r} of service {self.name!r}"
        handler = handler_of(model, name, function, codecs, max_concurrency, max_waiting, shape)
        self.routes[model].add(route, handler)
        self.routes[REQUEST_STREAM].settle()  # it may answer with those of request_response

    # What others are told of it

    @property
    def tags(self) -> Mapping[str, str | None]:
        """What others may ask for, to be read; changed by `set_tags`.

        >>> Service("orders", tags={"region": "eu"}).tags
        {'region': 'eu'}
        """
        return ReadOnly(self._tags)

    if not TYPE_CHECKING:
        tags = tags.setter(refused("write `await service.set_tags({'region': 'us'})`"))

    @advised("await service.set_tags({'region': 'us'})", is_hot=False)
    async def set_tags(self, tags: Mapping[str, str | None]) -> None:
        """From now on these, in place of those before, on all connections; each reconnect says them, too.

        Returns when the brokers are about to be told; changes that come faster than one in 0.2 s are told together.
        BadAddress for tags that cannot be sent, and then nothing has changed.

        >>> prices = Service("prices", tags={"version": "1"})
        >>> await prices.set_tags({"version": "2", "region": "eu"})
        """
        check_new_tags(tags)
        for advertisement in self._advertisements:
            advertisement.check_tags(tags)
        self._tags = dict(tags)
        await self._tell()

    @advised("await service.set_health(False, 'the disk is full')", is_hot=False)
    async def set_health(self, is_healthy: bool, reason: str = "set_health(False) was called") -> None:
        """Takes the service out of use, for `reason`, or back in: connections stay, and what runs goes on.

        While it is out it has the tag `health=out` and others are asked. Who asks it nevertheless, because there is no
        other, is REJECTED `unhealthy:`, but for a fire-and-forget, which nobody could be told of, and for a multicast.

        >>> files = Service("files")
        >>> await files.set_health(False, "the disk is full")
        >>> files.is_healthy
        False
        """
        if self.health.set("set_health", None if is_healthy else reason):
            await self._tell()

    @property
    def is_healthy(self) -> bool:
        """Neither `set_health` nor a check says otherwise.

        >>> Service("orders").is_healthy
        True
        """
        return not self.health.is_out

    if not TYPE_CHECKING:
        is_healthy = is_healthy.setter(refused("write `await service.set_health(False, 'the disk is full')`"))

    @advised("@service.health_check(every_s=5)", is_hot=False)
    def health_check(
        self, *, every_s: float = 5.0, timeout_s: float | None = None
    ) -> Callable[[HealthCheck], HealthCheck]:
        """An async function that says whether all is well; one that raises, or takes over `timeout_s`, says no.

        It is asked before the first connection and then `every_s`, as long as the service is offered. `timeout_s` is
        `every_s` unless it says something else. One check that says no is enough, see `set_health`.

        >>> @Service("orders").health_check(every_s=5)
        ... async def database_is_there() -> bool:
        ...     return True
        """

        def add(look: HealthCheck) -> HealthCheck:
            self.health.add(Check(look, every_s, every_s if timeout_s is None else timeout_s))
            return look

        return add

    @advised("await service.drain(timeout_s=10)", is_hot=False)
    async def drain(self, timeout_s: float = DEFAULT_DRAIN_S) -> None:
        """Ends all its clients without losing a request: no new ones come, those that run end, the connections close.

        What has not ended after `timeout_s` is cancelled; the log says how many.

        >>> orders = Service("orders")
        >>> client = await connect("tcp://127.0.0.1:7878", service=orders)
        >>> await orders.drain(timeout_s=10)
        >>> client.is_connected
        False
        """
        if not self._was_offered:
            text = "service %r is offered by no client of this program, nothing is drained; one of another program: "
            _log.warning(text + "rsocket-broker ctl drain tag %s", self.name, shlex.quote(f"service={self.name}"))
        async with asyncio.TaskGroup() as group:
            for advertisement in list(self._advertisements):
                group.create_task(advertisement.drain_client(timeout_s))

    # For clients

    async def began(self, advertisement: Advertised) -> None:
        """A client is about to offer it."""
        self._advertisements.append(advertisement)
        self._was_offered = True
        try:
            await self.health.begin()
        except BaseException:
            await self.ended(advertisement)
            raise

    async def ended(self, advertisement: Advertised) -> None:
        """A client offers it no more."""
        if advertisement in self._advertisements:
            self._advertisements.remove(advertisement)
            if not self._advertisements:
                await self.health.end()

    async def _tell(self) -> None:
        async with asyncio.TaskGroup() as group:
            for advertisement in list(self._advertisements):
                group.create_task(advertisement.tell())


def check_service(service: object) -> None:
    """TypeError for what has no handlers."""
    if not isinstance(service, Service):
        what = f"the class {service.__name__}" if isinstance(service, type) else type(service).__name__
        if isinstance(service, list | tuple) and service and all(isinstance(each, Service) for each in service):
            raise TypeError(f"service= is {what}, it must be one Service: {SERVE_SEVERAL}")
        raise TypeError(f"service= is {what}, it must be a Service: {HOW_SERVICE}")


def _codecs_of(codec: Codec | None, codecs: Sequence[Codec] | None) -> tuple[Codec, ...]:
    """Empty when nobody says any."""
    if codec is not None and codecs is not None:
        raise ValueError("codec= is for one codec, codecs= for several: not both")
    if codecs is not None and not isinstance(codecs, Sequence):
        raise TypeError(f"codecs= is {type(codecs).__name__}, it must be a list, such as [JSON, BYTES]")
    for each in [codec] if codec is not None else codecs or ():
        check_codec(each)
    if codecs is not None and not codecs:
        raise ValueError("codecs= needs at least one codec")
    return (codec,) if codec is not None else tuple(codecs or ())
