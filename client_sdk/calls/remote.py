"""A service as its callers see it: an object with the methods of a contract, each of which is a call.

    orders = client.of(Orders, to)    orders.watch(order)                a call of the method's model
                                      subscribe(orders.watch, order)     other calls that a method can be
                                      gather(orders.count, order)

Decides which call a method is. How calls are made is `client`'s.
"""

import functools
import inspect
import reprlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast, overload

from client_sdk.addresses import Address, check_address
from client_sdk.calls.retry import RetryPolicy
from client_sdk.calls.scatter_gather import Gathering
from client_sdk.calls.values import Values
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.likeness import meant
from client_sdk.mistakes.operators import refused
from client_sdk.mistakes.options import called_here
from client_sdk.services.contract import NOTHING, Contract, Method, Parameter
from client_sdk.streams import Flow
from rsocket_wire.models import FIRE_AND_FORGET, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM

A = TypeVar("A")
T = TypeVar("T")


class Calling(Protocol):
    """A client, as this module sees it."""

    async def request_response(
        self,
        address: Address,
        data: object,
        *,
        returns: type[Any],
        route: str,
        metadata: Mapping[str, bytes] | None,
        timeout_s: float | None,
        idempotent: bool,
        retry: RetryPolicy | None,
        wait_for_reconnect: bool | float | None,
    ) -> Any: ...

    async def fire_and_forget(
        self,
        address: Address,
        data: object,
        *,
        route: str,
        metadata: Mapping[str, bytes] | None,
        timeout_s: float | None,
        wait_for_reconnect: bool | float | None,
    ) -> None: ...

    def request_stream(
        self,
        address: Address,
        data: object,
        *,
        returns: type[Any],
        route: str,
        metadata: Mapping[str, bytes] | None,
        initial_n: int,
        idempotent: bool,
        retry: RetryPolicy | None,
        wait_for_reconnect: bool | float | None,
    ) -> AsyncIterator[Any]: ...

    def subscribe(
        self,
        address: Address,
        data: object,
        *,
        returns: type[Any],
        resume: Callable[[Any], object] | None,
        endless: bool,
        wait_for_service: bool,
        route: str,
        metadata: Mapping[str, bytes] | None,
        initial_n: int,
    ) -> Flow[Any]: ...

    def request_channel(
        self,
        address: Address,
        items: AsyncIterable[object],
        *,
        returns: type[Any],
        route: str,
        metadata: Mapping[str, bytes] | None,
        initial_n: int,
        wait_for_reconnect: bool | float | None,
    ) -> AsyncIterator[Any]: ...

    def gather(
        self,
        address: Address,
        data: object,
        *,
        returns: type[Any],
        route: str,
        metadata: Mapping[str, bytes] | None,
        timeout_s: float | None,
        enough_n: int | None,
        with_tags: bool,
        wait_for_reconnect: bool | float | None,
    ) -> Gathering[Any]: ...


class Wanted(NamedTuple):
    """What each call wants, as `Client.of` was told."""

    metadata: Mapping[str, bytes] | None
    timeout_s: float | None
    initial_n: int
    retry: RetryPolicy | None
    wait_for_reconnect: bool | float | None


class Remote:
    """What `Client.of` gives."""

    def __init__(self, client: Calling, contract: Contract, address: Address, wanted: Wanted, values: Values) -> None:
        """TypeError for what is no address, and a type of the contract that the client's codec has not."""
        check_address(address)
        for method in contract.methods.values():
            try:
                if method.parameter is not None:
                    values.check(method.parameter.type)
                if method.gives is not NOTHING:
                    values.check(method.gives)
            except TypeError as error:
                raise TypeError(f"{contract.name}.{method.name}: {error}") from None
        self._client: Final = client
        self._contract: Final = contract
        self._address: Final = address
        self._wanted: Final = wanted

    if not TYPE_CHECKING:
        __await__ = refused(
            "what client.of(...) gives is not awaited: leave `await` out, and await its methods' answers"
        )
        __aenter__ = __aexit__ = __enter__ = __exit__ = refused(
            "what client.of(...) gives has no block: write `orders = client.of(Orders, address('orders'))`"
        )
        __aiter__ = __anext__ = __iter__ = refused(
            "what client.of(...) gives is not read: a method that gives a stream is, `async for item in "
            "orders.watch(...):`"
        )
        __call__ = refused("what client.of(...) gives is not called: its methods are, `await orders.create(...)`")

    def __getattr__(self, name: str) -> Any:
        method = self._contract.methods.get(name)
        if method is None:
            text = f"{self._contract.name} has no method {name!r}; {meant(name, self._contract.methods)}"
            raise AttributeError(text, name=name, obj=None)  # without the object, or Python adds a proposal of its own
        call: Callable[..., Any] = functools.partial(_CALLS[method.model], self, method)
        self.__dict__[name] = call
        return call

    def __dir__(self) -> list[str]:
        return sorted(self._contract.methods)

    def __repr__(self) -> str:
        return f"<{self._contract.name} at {self._address!r}>"

    async def _ask(self, method: Method, /, *given: object, **named: object) -> Any:
        wanted = self._wanted
        return await self._client.request_response(
            self._address,
            self._value(method, given, named),
            route=method.name,
            returns=method.gives,
            metadata=wanted.metadata,
            timeout_s=wanted.timeout_s,
            idempotent=method.is_idempotent,
            retry=wanted.retry,
            wait_for_reconnect=wanted.wait_for_reconnect,
        )

    async def _tell(self, method: Method, /, *given: object, **named: object) -> None:
        wanted = self._wanted
        await self._client.fire_and_forget(
            self._address,
            self._value(method, given, named),
            route=method.name,
            metadata=wanted.metadata,
            timeout_s=wanted.timeout_s,
            wait_for_reconnect=wanted.wait_for_reconnect,
        )

    def _read(self, method: Method, /, *given: object, **named: object) -> Any:
        wanted = self._wanted
        return self._client.request_stream(
            self._address,
            self._value(method, given, named),
            route=method.name,
            returns=method.gives,
            metadata=wanted.metadata,
            initial_n=wanted.initial_n,
            idempotent=method.is_idempotent,
            retry=wanted.retry,
            wait_for_reconnect=wanted.wait_for_reconnect,
        )

    def _talk(self, method: Method, /, *given: object, **named: object) -> Any:
        wanted = self._wanted
        return self._client.request_channel(
            self._address,
            cast("AsyncIterable[object]", self._value(method, given, named)),
            route=method.name,
            returns=method.gives,
            metadata=wanted.metadata,
            initial_n=wanted.initial_n,
            wait_for_reconnect=wanted.wait_for_reconnect,
        )

    def subscribed(
        self,
        method: Method,
        given: tuple[object, ...],
        resume: Any,
        endless: bool,
        initial_n: int | None,
        wait_for_service: bool,
    ) -> Flow[Any]:
        """`subscribe`, of this method."""
        return self._client.subscribe(
            self._address,
            self._value(method, given, {}),
            returns=method.gives,
            resume=resume,
            endless=endless,
            wait_for_service=wait_for_service,
            route=method.name,
            metadata=self._wanted.metadata,
            initial_n=self._wanted.initial_n if initial_n is None else initial_n,
        )

    def gathered(
        self,
        method: Method,
        given: tuple[object, ...],
        timeout_s: float | None,
        enough_n: int | None,
        with_tags: bool,
    ) -> Gathering[Any]:
        """`gather`, of this method."""
        wanted = self._wanted
        return self._client.gather(
            self._address,
            self._value(method, given, {}),
            returns=method.gives,
            route=method.name,
            metadata=wanted.metadata,
            timeout_s=wanted.timeout_s if timeout_s is None else timeout_s,
            enough_n=enough_n,
            with_tags=with_tags,
            wait_for_reconnect=wanted.wait_for_reconnect,
        )

    def _value(self, method: Method, given: tuple[object, ...], named: dict[str, object]) -> object:
        """The one argument; no data when the method takes none. TypeError as Python's own, when it does not fit."""
        parameter = method.parameter
        if parameter is None:
            if not given and not named:
                return b""
        elif len(given) == 1 and not named:
            return given[0]
        elif not given and len(named) == 1 and parameter.name in named:
            return named[parameter.name]
        elif not given and not named and parameter.default is not inspect.Parameter.empty:
            return parameter.default
        takes, shown = "no argument", ""
        if parameter is not None:
            takes, shown = f"one argument, {parameter.name}", _shown(parameter, given, named)
        text = f"{self._contract.name}.{method.name}() takes {takes}: write {method.name}({shown})"
        options = [*filter(None, (called_here(each, Wanted._fields) for each in named))]
        if options:
            text = f"{text}, and give {options[0]}= to client.of({self._contract.name}, to, {options[0]}=...)"
        elif "route" in named or "returns" in named:
            text = f"{text}; the contract says the route and what is returned"
        elif len(given) > 1 and parameter is not None:
            text = f"{text}; several values are one dataclass"
        raise TypeError(text)


def _shown(parameter: Parameter, given: tuple[object, ...], named: Mapping[str, object]) -> str:
    """How the argument is written; made of its class where that may take what was given, as `Order(item=...)`."""
    fields = {name for kind in getattr(parameter.type, "__mro__", ()) for name in inspect.get_annotations(kind)}
    if fields and (given or named) and named.keys() <= fields:
        shown = ("...", *(f"{name}=..." for name in named)) if given else (f"{name}=..." for name in named)
        return f"{parameter.type.__name__}({', '.join(shown)})"
    return parameter.name


_CALLS: Final[dict[str, Callable[..., Any]]] = {
    REQUEST_RESPONSE: Remote._ask,
    FIRE_AND_FORGET: Remote._tell,
    REQUEST_STREAM: Remote._read,
    REQUEST_CHANNEL: Remote._talk,
}


@overload
def subscribe(
    method: Callable[[], AsyncIterator[T]],
    /,
    *,
    endless: bool = False,
    initial_n: int | None = None,
    wait_for_service: bool = True,
) -> Flow[T]: ...
@overload
def subscribe(
    method: Callable[[A], AsyncIterator[T]],
    value: A,
    /,
    *,
    resume: Callable[[T], A] | None = None,
    endless: bool = False,
    initial_n: int | None = None,
    wait_for_service: bool = True,
) -> Flow[T]: ...
@advised("subscribe(clock.ticks, b'')")
def subscribe(
    method: Callable[..., AsyncIterator[Any]],
    /,
    *value: object,
    resume: Callable[[Any], object] | None = None,
    endless: bool = False,
    initial_n: int | None = None,
    wait_for_service: bool = True,
) -> Flow[Any]:
    """`Client.subscribe` of a method of a contract, which gives a stream: it comes back after a loss.

    `initial_n`: None: that of `client.of`. TypeError for a function that is no such method.

    >>> from typing import Protocol
    >>> class Clock(Protocol):
    ...     def ticks(self, last: bytes) -> AsyncIterator[bytes]: ...
    >>> clock = client.of(Clock, address("clock"))
    >>> async for tick in subscribe(clock.ticks, b"", resume=lambda last: last):
    ...     print(tick)
    b'tick 0'
    b'tick 1'
    b'tick 2'
    """
    remote, called = _read_method(method, REQUEST_STREAM, "subscribe", "gives a stream")
    return remote.subscribed(called, value, resume, endless, initial_n, wait_for_service)


@overload
def gather(
    method: Callable[[], Awaitable[T]],
    /,
    *,
    timeout_s: float | None = None,
    enough_n: int | None = None,
    with_tags: bool = False,
) -> Gathering[T]: ...
@overload
def gather(
    method: Callable[[A], Awaitable[T]],
    value: A,
    /,
    *,
    timeout_s: float | None = None,
    enough_n: int | None = None,
    with_tags: bool = False,
) -> Gathering[T]: ...
@advised("gather(stock.count, b'book')")
def gather(
    method: Callable[..., Awaitable[Any]],
    /,
    *value: object,
    timeout_s: float | None = None,
    enough_n: int | None = None,
    with_tags: bool = False,
) -> Gathering[Any]:
    """`Client.gather` of a method of a contract, which gives an answer: all services at a `multicast` are asked.

    `timeout_s`: None: that of `client.of`. TypeError for a function that is no such method.

    >>> from typing import Protocol
    >>> class Stock(Protocol):
    ...     async def count(self, item: bytes) -> bytes: ...
    >>> stock = client.of(Stock, multicast("stock"), timeout_s=5)
    >>> sorted(answer.value for answer in await gather(stock.count, b"book"))
    [b'3', b'4']
    """
    remote, called = _read_method(method, REQUEST_RESPONSE, "gather", "gives an answer")
    return remote.gathered(called, value, timeout_s, enough_n, with_tags)


def _read_method(function: object, model: str, taker: str, does: str) -> tuple[Remote, Method]:
    """What `Remote` made this function of."""
    if isinstance(function, functools.partial) and [type(each) for each in function.args] == [Remote, Method]:
        remote, method = function.args
        if method.model == model:
            return remote, method
        how = "await" if method.model in (REQUEST_RESPONSE, FIRE_AND_FORGET) else "async for item in"
        what = f"{remote._contract.name}.{method.name} is {method.model}"
        raise TypeError(f"{taker} takes a method that {does}, and {what}: write `{how} orders.{method.name}(...)`")
    if inspect.iscoroutine(function) or isinstance(function, Flow):
        frame = function.cr_frame if inspect.iscoroutine(function) else None
        asked = None if frame is None else frame.f_locals.get("method")
        name = asked.name if isinstance(asked, Method) else "count" if taker == "gather" else "watch"
        text = f"{taker} takes a method without parentheses, then its value: write {taker}(orders.{name}, value)"
        if inspect.iscoroutine(function):
            function.close()  # or Python warns of it, too
            text += "; several calls at a time are asyncio.gather(call, call)" if taker == "gather" else ""
        raise TypeError(f"{text}; without a contract write client.{taker}(to, data, route='...')")
    text = f"{taker} takes a method of what client.of(...) gave that {does}"
    shown = getattr(function, "__qualname__", None) or reprlib.repr(function)
    raise TypeError(f"{text}, not {shown}: without a contract write client.{taker}(to, data, route='...')")
