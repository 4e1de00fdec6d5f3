"""What the mistakes are made with: a broker, a service, clients.

A mistake raises, or gives what is said elsewhere: in a warning, or in the log. Services and brokers are real ones.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import client_sdk
from client_sdk import (
    JSON,
    Client,
    Service,
    address,
)
from client_sdk.testing import LocalBroker

CERTIFICATE: Final = Path(__file__).parents[2] / "localhost.pem"
NOBODY: Final = "tcp://127.0.0.1:1"  # nobody listens there
ECHO: Final = address("echo")


@dataclass
class World:
    """What the mistakes are made with."""

    url: LocalBroker  # of a broker that the service `echo` is connected to
    client: Client  # of bytes
    values: Client  # with the codec JSON
    folder: Path
    log: Callable[[], str]  # the last line


Mistake = Callable[[World], Awaitable[object]]
MISTAKES: Final[dict[str, Mistake]] = {}


def mistake(name: str) -> Callable[[Mistake], Mistake]:
    """`name`: the first column of its row."""

    def add(made: Mistake) -> Mistake:
        assert name not in MISTAKES
        MISTAKES[name] = made
        return made

    return add


def wrong(name: str, made: Callable[[World], Any]) -> None:
    """One expression; what it gives is awaited."""

    async def awaited(world: World) -> object:
        given = made(world)
        return await given if isinstance(given, Awaitable) else given

    mistake(name)(awaited)


def unseen(value: object) -> Any:
    """What no type checker has seen."""
    return value


def echo_service() -> Service:
    """One handler of each kind, and some that fail."""
    echo = Service("echo", tags={"region": "eu"})

    @echo.request_response("say")
    async def say(data: bytes) -> bytes:
        return data

    @echo.request_response("count", codec=JSON)
    async def count(words: list[str]) -> int:
        return len(words)

    @echo.request_response("never")
    async def never(data: bytes) -> bytes:
        await asyncio.Event().wait()
        return data

    @echo.request_response("one", max_concurrency=1, max_waiting=0)
    async def one(data: bytes) -> bytes:
        await asyncio.Event().wait()
        return data

    @echo.request_response("fail")
    async def fail(data: bytes) -> bytes:
        raise KeyError(data)

    @echo.request_response("number")
    async def number(data: bytes) -> Any:
        return len(data)

    @echo.request_response("forgets")
    async def forgets(data: bytes) -> Any:
        forgotten = none(data)
        forgotten.close()  # or Python warns of it, too
        return forgotten

    @echo.request_response("adds")
    async def adds(data):  # type: ignore[no-untyped-def]  # the mistake
        return b"created " + data

    @echo.request_response("same")
    async def same(data):  # type: ignore[no-untyped-def]  # the mistake
        return data

    @echo.request_stream("ticks")
    async def ticks(request: client_sdk.Request) -> AsyncIterator[bytes]:
        yield b"tick"

    @echo.request_channel("talk")
    async def talk(items: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for item in items:
            yield item

    return echo


def service() -> Service:
    """One to write handlers for."""
    return Service("orders")


async def none(*_: Any) -> bytes:
    """No handler yet."""
    return b""


def imported(name: str, module: str = "client_sdk") -> object:
    """As `from client_sdk import name` imports it."""
    names: dict[str, object] = {}
    exec(f"from {module} import {name}", names)
    return names[name]


async def items_of(flow: Any) -> list[object]:
    """All items."""
    return [item async for item in flow]


@contextlib.asynccontextmanager
async def begun(client: Client, route: str, to: client_sdk.Address = ECHO) -> AsyncIterator[None]:
    """A request is under way, before any that follows."""
    running = asyncio.ensure_future(client.request_response(to, route=route))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
