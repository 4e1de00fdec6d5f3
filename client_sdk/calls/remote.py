"""A service as its callers see it: an object with the methods of a contract, each of which is a call.

Decides which call a method is. How calls are made is `client`'s.
"""

import functools
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, cast

from client_sdk.addresses import Address
from client_sdk.calls.retry import RetryPolicy
from client_sdk.calls.values import Values
from client_sdk.services.contract import NOTHING, Contract, Method
from client_sdk.services.request import FIRE_AND_FORGET, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM


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
        retry: RetryPolicy | None,
        wait_for_reconnect: bool | float | None,
    ) -> AsyncIterator[Any]: ...

    def request_channel(
        self,
        address: Address,
        items: AsyncIterable[object],
        *,
        returns: type[Any],
        route: str,
        metadata: Mapping[str, bytes] | None,
        wait_for_reconnect: bool | float | None,
    ) -> AsyncIterator[Any]: ...


class Wanted(NamedTuple):
    """What each call wants, as `Client.of` was told."""

    metadata: Mapping[str, bytes] | None
    timeout_s: float | None
    retry: RetryPolicy | None
    wait_for_reconnect: bool | float | None


class Remote:
    """What `Client.of` gives."""

    def __init__(self, client: Calling, contract: Contract, address: Address, wanted: Wanted, values: Values) -> None:
        """TypeError for a type of the contract that the client's codec has not."""
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

    def __getattr__(self, name: str) -> Any:
        method = self._contract.methods.get(name)
        if method is None:
            raise AttributeError(f"{self._contract.name} has no method {name!r}")
        call: Callable[..., Any] = functools.partial(_CALLS[method.model], self, method)
        self.__dict__[name] = call
        return call

    def __dir__(self) -> list[str]:
        return sorted(self._contract.methods)

    def __repr__(self) -> str:
        return f"<{self._contract.name} at {self._address!r}>"

    async def _ask(self, method: Method, /, *given: object, **named: object) -> Any:
        wanted = self._wanted
        answer: Any = await self._client.request_response(
            self._address,
            self._value(method, given, named),
            route=method.name,
            returns=bytes if method.gives is NOTHING else method.gives,
            metadata=wanted.metadata,
            timeout_s=wanted.timeout_s,
            retry=wanted.retry,
            wait_for_reconnect=wanted.wait_for_reconnect,
        )
        return None if method.gives is NOTHING else answer

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
        shown = "no argument" if parameter is None else f"one argument, {parameter.name}"
        raise TypeError(f"{self._contract.name}.{method.name}() takes {shown}")


_CALLS: Final[dict[str, Callable[..., Any]]] = {
    REQUEST_RESPONSE: Remote._ask,
    FIRE_AND_FORGET: Remote._tell,
    REQUEST_STREAM: Remote._read,
    REQUEST_CHANNEL: Remote._talk,
}
