"""One service on several connections: each with a Route Id of its own, and all ended together.

    offer(urls, service, connections=3) ──► client 1 ──► urls in their order
                                        ├─► client 2 ──► urls from the second on, then the first
                                        └─► client 3 ──► urls from the third on, then the others

D-09 of our decisions: one connection for a Route Id, so each has its own, and the broker sees as many instances of the
service. Knows no frames.
"""

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from client_sdk.calls.options import ConnectOptions, OfferOptions
from client_sdk.client import Client
from client_sdk.connecting import Connecting, connect
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.attributes import GROUP_HAS_NOT, missing_told
from client_sdk.mistakes.kinds import WHOLE, check_kind
from client_sdk.mistakes.operators import refused
from client_sdk.reconnect.instance import instance_route_id
from client_sdk.services.service import DEFAULT_DRAIN_S, Service

_HOW: Final = "write `async with offer(...) as group:`, or `group = await offer(...)`"
MAX_CONNECTIONS: Final = 256  # of one service in one process: a mistake in a configuration shall not flood a broker


@missing_told("it has clients, closed, close and drain", GROUP_HAS_NOT)
class Group:
    """The clients that offer a service together. Made by `offer`.

    >>> async with offer("tcp://127.0.0.1:7878", Service("ledger"), connections=2) as group:
    ...     print([client.is_connected for client in group.clients])
    [True, True]
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients: Final = tuple(clients)

    async def closed(self) -> None:
        """Returns when all are closed for ever.

        >>> group = await offer("tcp://127.0.0.1:7878", Service("ledger"))
        >>> await group.close()
        >>> await group.closed()
        """
        for client in self.clients:
            await client.closed()

    async def close(self) -> None:
        """Ends all connections at once, see `Client.close`.

        >>> group = await offer("tcp://127.0.0.1:7878", Service("ledger"))
        >>> await group.close()
        """
        await _all(client.close() for client in self.clients)

    async def drain(self, timeout_s: float = DEFAULT_DRAIN_S) -> None:
        """Ends all connections without losing a request, see `Client.drain`.

        >>> group = await offer("tcp://127.0.0.1:7878", Service("ledger"))
        >>> await group.drain(timeout_s=10)
        """
        await _all(client.drain(timeout_s) for client in self.clients)


@missing_told(f"it is no group yet: {_HOW}")
class Offering:
    """What `offer` gives: `async with` it, or `await` it and close the group yourself.

    >>> group = await offer("tcp://127.0.0.1:7878", Service("ledger"))
    >>> await group.close()
    """

    _is_used = True  # nothing is lost with one that could not be made

    def __init__(self, make: Callable[[], list[Connecting]]) -> None:
        """`make` gives what `connect` does, for each connection."""
        self._make: Final = make
        self._group: Group | None = None  # None until it was entered
        self._is_used = False  # somebody has begun to enter it

    def __del__(self) -> None:
        if not self._is_used:
            warnings.warn(f"offer(...) was never awaited: {_HOW}", RuntimeWarning, stacklevel=2)

    if not TYPE_CHECKING:
        __enter__ = __exit__ = refused(f"not `with offer(...)`: {_HOW}")

    def __await__(self) -> Generator[object, None, Group]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Group:
        self._is_used = True
        connecting = [asyncio.ensure_future(each) for each in self._make()]
        try:
            clients = await asyncio.gather(*connecting)
        except BaseException:
            for task in connecting:
                task.cancel()
            await asyncio.wait(connecting)
            await _all(task.result().close() for task in connecting if not task.cancelled() and not task.exception())
            raise
        self._group = Group(clients)
        return self._group

    async def __aexit__(self, *_: object) -> None:
        if self._group is not None:
            await self._group.close()


@advised("offer(url, service)", ConnectOptions)
def offer(
    urls: str | Sequence[str],
    service: Service,
    *,
    connections: int = 2,
    instance: str | None = None,
    **options: Unpack[OfferOptions],
) -> Offering:
    """Offers the service on so many connections, as `async with` or with `await`.

    Each begins with another one of `urls`, so that they are spread over brokers, and takes the others when that one is
    not there; the processes of one machine (docs/workers.md) share a URL, and the system spreads connections over them.
    `options` are those of `connect`, but for `route_id`: each connection has its own. With `instance` each has the same
    in the next deployment of that instance.

    Entering raises what `connect` does, when one of them cannot be opened. ValueError for less than one connection.

    >>> async with offer(["tcp://127.0.0.1:7878"], Service("ledger"), connections=3) as group:
    ...     print(len(group.clients))
    3
    """
    check_order("offer", urls)
    check_kind("connections", connections, WHOLE)
    if not 1 <= connections <= MAX_CONNECTIONS:
        raise ValueError(f"connections is {connections}, it must be 1..{MAX_CONNECTIONS}")
    if "route_id" in options:
        raise ValueError("route_id= is for one connection; each of several needs its own Route Id")
    given = [urls] if isinstance(urls, str) else list(urls)

    def make() -> list[Connecting]:
        return [
            connect(
                [*given[place % len(given) :], *given[: place % len(given)]],
                service=service,
                route_id=None if instance is None else str(instance_route_id(service.name, instance, place)),
                **options,
            )
            for place in range(connections)
        ]

    if not given:
        connect([])  # says what is wrong
    for each in make():  # likewise, now and not when it is entered
        each.is_used = True
    return Offering(make)


def check_order(function: str, urls: object) -> None:
    """TypeError for a service where the URL is to be."""
    if isinstance(urls, Service):
        raise TypeError(f"the URL comes first: write `{function}(url, service)`")


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs them side by side, each to its end; raises the first of their errors."""
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
