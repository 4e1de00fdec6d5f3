"""The mistakes of docs/errors.md, "What goes wrong first": each as a program makes it, by the words of its row.

A mistake raises, or gives what is said elsewhere: in a warning, or in the log. Services and brokers are real ones.
"""

import asyncio
import contextlib
import gc
import json
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from unittest import mock

from argon2 import PasswordHasher

import client_sdk
from client_sdk import (
    JSON,
    Client,
    Password,
    Service,
    Token,
    address,
    connect,
    multicast,
    run,
    serve,
    shard,
    sync,
)
from client_sdk.testing import LocalBroker, local_broker

CERTIFICATE: Final = Path(__file__).parents[1] / "localhost.pem"
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


class Orders(Protocol):
    """A contract."""

    async def create(self, item: str) -> int: ...


class TwoValues(Protocol):
    """None: two values."""

    async def create(self, item: str, pieces: int) -> int: ...


class Untyped(Protocol):
    """None: nobody knows what it gives."""

    async def create(self, item: str): ...  # type: ignore[no-untyped-def]  # the mistake


class NoProtocol:
    """None: a class like others."""

    async def create(self, item: str) -> int:
        return len(item)


class Empty:
    """Implements nothing."""


async def none(*_: Any) -> bytes:
    """No handler yet."""
    return b""


def imported(name: str) -> object:
    """As `from client_sdk import name` imports it."""
    names: dict[str, object] = {}
    exec(f"from client_sdk import {name}", names)
    return names[name]


async def items_of(flow: Any) -> list[object]:
    """All items."""
    return [item async for item in flow]


# To connect


wrong("nobody listens at the URL", lambda world: connect(NOBODY))
wrong("a URL without a scheme", lambda world: connect("127.0.0.1:7878"))
wrong("a URL of the web", lambda world: connect("http://127.0.0.1:7878"))
wrong("a port that is no number", lambda world: connect("tcp://127.0.0.1:port"))
wrong("a user and a password in the URL", lambda world: connect("tcp://ada:lovelace@127.0.0.1"))
wrong("several URLs in one text", lambda world: connect("tcp://10.0.0.1,tcp://10.0.0.2"))
wrong("a path behind `tcp://`", lambda world: connect("tcp://127.0.0.1:7878/rsocket"))
wrong("a Unix socket that is not there", lambda world: connect(f"unix://{world.folder}/none.sock"))
wrong("`tls://` where `tcp://` is spoken", lambda world: connect(world.url.replace("tcp", "tls")))
wrong("`ws://` where `tcp://` is spoken", lambda world: connect(world.url.replace("tcp", "ws")))
wrong("`tcp://` at a WebSocket, or at the REST API", lambda world: connect(world.url.urls["ws"].replace("ws", "tcp")))
wrong("a URL that is no text", lambda world: connect(unseen(None)))
wrong("a name that the package has not", lambda world: imported("Json"))
wrong("`from client_sdk import Broker`", lambda world: imported("Broker"))
wrong("`local_broker()` without `async with`", lambda world: connect(unseen(local_broker())))
wrong("`ssl=True`, or the name of a file", lambda world: connect(world.url, ssl=unseen(True)))
wrong("an argument that is not there", lambda world: connect(world.url, **unseen({"timeout": 5})))
wrong("tags of a caller", lambda world: connect(world.url, tags={"region": "eu"}))


@contextlib.asynccontextmanager
async def encrypted() -> AsyncIterator[LocalBroker]:
    """A broker whose certificate nobody knows."""
    options = {"tls.certificate": CERTIFICATE, "tls.key": CERTIFICATE}
    async with local_broker(listen=["tls://127.0.0.1:0"], options=options) as url:
        yield url


@mistake("`tcp://` where TLS is spoken")
async def _plain_to_tls(world: World) -> None:
    async with encrypted() as url:
        await connect(url.replace("tls", "tcp"))


@mistake("`wss://` where `tls://` is spoken")
async def _web_to_tls(world: World) -> None:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    trusting.check_hostname = False
    async with encrypted() as url:
        await connect(url.replace("tls", "wss"), ssl=trusting)


@mistake("a certificate of an unknown CA")
async def _untrusted(world: World) -> None:
    async with encrypted() as url:
        await connect(url)


@mistake("one connection too many")
async def _too_many(world: World) -> None:
    async with local_broker(limits__max_connections=1) as url, connect(url):
        await connect(url)


@mistake("two clients with one `route_id`")
async def _replaced(world: World) -> None:
    route_id = "11223344-5566-7788-99aa-bbccddeeff00"
    one, other = (connect(world.url, service="x", route_id=route_id) for _ in range(2))
    async with one as first, other:
        await first.closed()
        await first.request_response(ECHO)


# Who may


@contextlib.asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[LocalBroker]:
    """A broker that lets in whom its file knows: ada, whose word is "lovelace"."""
    users = folder / "users"
    users.write_text(f"ada:{PasswordHasher(time_cost=1, memory_cost=1024).hash('lovelace')}\n")
    users.chmod(0o600)
    options = {"auth.mode": "required", "auth.accept": "user", "auth.users": users}
    async with local_broker(options=options) as url:
        yield url


@mistake("no credentials")
async def _nobody(world: World) -> None:
    async with guarded(world.folder) as url:
        await connect(url)


@mistake("a wrong password")
async def _wrong_password(world: World) -> None:
    async with guarded(world.folder) as url:
        await connect(url, credentials=Password("ada", "babbage"))


@mistake("a token where passwords are wanted")
async def _wrong_kind(world: World) -> None:
    async with guarded(world.folder) as url:
        await connect(url, credentials=Token("babbage"))


@mistake("a service that the role may not announce")
async def _denied(world: World) -> None:
    config = world.folder / "broker.toml"
    config.write_text(
        'auth = { mode = "required", accept = ["anonymous"] }\n'
        'role.echo = { who = ["anonymous"], announce = [{ service = "echo" }] }\n'
    )
    async with local_broker("--config", str(config)) as url:
        await connect(url, service="orders")


wrong("credentials that are plain text", lambda world: connect(world.url, credentials=unseen("ada:lovelace")))
wrong(
    "a function of `credentials=` without async",
    lambda world: connect(world.url, credentials=unseen(lambda: Token("t"))),
)
wrong("credentials over a network in the clear", lambda world: connect("tcp://broker.example", credentials=Token("t")))


# Async


wrong("`connect()` without `async with`", lambda world: unseen(connect(world.url)).request_response(ECHO))
wrong("`with connect(...)`", lambda world: unseen(connect(world.url)).__enter__())
wrong("`async with` of a client", lambda world: unseen(world.client).__aenter__())
wrong("a stream that is awaited", lambda world: unseen(world.client.request_stream(ECHO, route="ticks")))
wrong("`for` over a stream", lambda world: list(unseen(world.client.request_stream(ECHO, route="ticks"))))
wrong("`run()` where an event loop runs, as in Jupyter", lambda world: run(world.url, service()))
wrong(
    "a client in another event loop or thread, or after its `asyncio.run`",
    lambda world: asyncio.to_thread(asyncio.run, unseen(world.client.request_response(ECHO, route="say"))),
)
wrong("`with local_broker()`", lambda world: unseen(local_broker()).__enter__())


@mistake("a client that is never closed")
async def _unclosed(world: World) -> str:
    client = await connect(world.url)
    manager = client._manager
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        del client
    await manager.close()
    return str(warned[0].message)


@mistake("`connect()` without anything")
async def _never_entered(world: World) -> str:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        connect(world.url)
        gc.collect()
    return str(warned[0].message)


@mistake("a call without `await`")
async def _not_awaited(world: World) -> str:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        world.client.request_response(ECHO, route="say")  # type: ignore[unused-coroutine]  # the mistake
        gc.collect()
    return str(warned[0].message)


@mistake("a stream that nobody reads")
async def _never_read(world: World) -> str:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        world.client.request_stream(ECHO, route="ticks")
    return str(warned[0].message)


@mistake("a call of a closed client")
async def _closed(world: World) -> None:
    client = await connect(world.url)
    await client.close()
    await client.request_response(ECHO, route="say")


@mistake("`async with sync.connect(...)`")
async def _async_sync(world: World) -> None:
    client = await asyncio.to_thread(sync.connect, world.url)
    try:
        unseen(client).__aenter__()
    finally:
        await asyncio.to_thread(client.close)


wrong(
    "`sync.connect` in the event loop of the broker",
    lambda world: sync.connect(world.url, connect_timeout_s=0.05),
)


# To offer a service


wrong("a function in place of a Service", lambda world: run(world.url, unseen(none)))
wrong("the service in first place", lambda world: run(unseen(service()), unseen(world.url)))
wrong("`serve` without a service", lambda world: unseen(serve)(world.url))
wrong("a Service whose tags have no name", lambda world: unseen(Service)("orders", {"region": "eu"}))
wrong("a decorator without parentheses", lambda world: service().request_response(unseen(none)))
wrong("an option that handlers have not", lambda world: unseen(service()).request_response("a", concurrency=3))
wrong(
    "a decorator with the function behind the route", lambda world: unseen(service()).request_response("create", none)
)
wrong("a stream's handler with `return`", lambda world: service().request_stream("a")(none))


@mistake("an answer's handler with `yield`")
async def _yields(world: World) -> None:
    @service().request_response("create")
    async def create(data: bytes) -> AsyncIterator[bytes]:
        yield data


@mistake("a handler that takes nothing")
async def _takes_nothing(world: World) -> None:
    @service().request_response("create")
    async def create() -> bytes:
        return b""


@mistake("a type without a codec")
async def _no_codec(world: World) -> None:
    @service().request_response("create")
    async def create(words: list[str]) -> bytes:
        return b""


@mistake("a channel's handler of one item")
async def _one_item(world: World) -> None:
    @service().request_channel("talk")
    async def talk(data: bytes) -> AsyncIterator[bytes]:
        yield data


wrong("a decorator of another library", lambda world: unseen(service()).route("create"))


@mistake("a decorated method")
async def _method(world: World) -> None:
    class Handlers:
        @service().request_response("create")
        async def create(self, data: bytes) -> bytes:
            return data


@mistake("two handlers of a route")
async def _twice(world: World) -> None:
    orders = service()
    for _ in range(2):
        orders.request_response("create")(unseen(lambda data: data))


wrong("a handler that raises", lambda world: world.client.request_response(ECHO, route="fail"))


@mistake("a handler that returns no bytes; in its log")
async def _returns_int(world: World) -> str:
    with contextlib.suppress(client_sdk.ApplicationError):
        await world.client.request_response(ECHO, route="number")
    return world.log()


@mistake("a handler that forgets an `await`; in its log")
async def _handler_awaits_nothing(world: World) -> str:
    with contextlib.suppress(client_sdk.ApplicationError):
        await world.client.request_response(ECHO, route="forgets")
    return world.log()


@mistake("a handler without annotation that takes the request for bytes; in its log")
async def _adds_request(world: World) -> str:
    with contextlib.suppress(client_sdk.ApplicationError):
        await world.client.request_response(ECHO, route="adds")
    return world.log()


@mistake("a handler that returns the request; in its log")
async def _returns_request(world: World) -> str:
    with contextlib.suppress(client_sdk.ApplicationError):
        await world.client.request_response(ECHO, route="same")
    return world.log()


@mistake("a handler that lets no CancelledError pass; in its log")
async def _deaf(world: World) -> str:
    deaf, told, ended = service(), asyncio.Event(), asyncio.Event()

    @deaf.request_response("wait")
    async def wait(data: bytes) -> bytes:
        told.set()
        while not ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ended.wait()
        return data

    with mock.patch("client_sdk.io.connection.HANDLER_GRACE_S", 0.01):
        async with connect(world.url, service=deaf), begun(world.client, "wait", address("orders")):
            await told.wait()
    ended.set()
    return world.log()


# To call


wrong("a method that clients have not", lambda world: unseen(world.client).call("echo"))
wrong("a service's name with a slip", lambda world: world.client.request_response(address("ehco"), route="say"))
wrong("a service's name with the route behind it", lambda world: world.client.request_response(address("echo.say")))
wrong("`name=` in place of the service's name", lambda world: world.client.request_response(address(name="echo")))
wrong("tags that no service has", lambda world: world.client.request_response(address("echo", region="us")))
wrong("a route that the service has not", lambda world: world.client.request_response(ECHO, route="sya"))
wrong("a route of another model", lambda world: world.client.request_response(ECHO, route="ticks"))
wrong("no `route=`", lambda world: world.client.request_response(ECHO))
wrong("the route in third place", lambda world: unseen(world.client).request_response(ECHO, b"", "say"))
wrong("`timeout=`", lambda world: unseen(world.client).request_response(ECHO, route="say", timeout=1))
wrong("a deadline in the past", lambda world: world.client.request_response(ECHO, route="say", timeout_s=-1))
wrong("a deadline that is too short", lambda world: world.client.request_response(ECHO, route="never", timeout_s=0.01))
wrong("the name of a service in place of an address", lambda world: world.client.request_response(unseen("echo")))
wrong("text", lambda world: world.client.request_response(ECHO, "text", route="say"))
wrong("a value without a codec", lambda world: world.client.request_response(ECHO, ["a"], route="count"))
wrong("a value that JSON has not", lambda world: world.values.request_response(ECHO, object(), route="count"))
wrong("`codec=json`", lambda world: connect(world.url, codec=unseen(json)))
wrong("`returns=` without a codec", lambda world: world.client.request_response(ECHO, route="say", returns=int))
wrong(
    "the name of a type in place of the type",
    lambda world: world.values.request_response(ECHO, ["a"], route="count", returns=unseen("Order")),
)
wrong(
    "another type than the handler gives",
    lambda world: world.values.request_response(ECHO, ["a"], route="count", returns=str),
)
wrong(
    "a value in place of a type",
    lambda world: world.values.request_response(ECHO, ["a"], route="count", returns=unseen([int])),
)


@mistake("`answer.decode()`")
async def _decoded_answer(world: World) -> None:
    unseen(await world.client.request_response(ECHO, route="say")).decode()


@mistake("text and an answer in one sum")
async def _added_answer(world: World) -> None:
    "answer: " + unseen(await world.client.request_response(ECHO, route="say"))


@mistake("an answer that is compared with bytes")
async def _compared_answer(world: World) -> None:
    assert unseen(await world.client.request_response(ECHO, route="say")) == b""


wrong("data of another type", lambda world: world.values.request_response(ECHO, "a", route="count", returns=int))
wrong(
    "items of a channel in a list",
    lambda world: items_of(world.client.request_channel(ECHO, unseen([b"a"]), route="talk")),
)
wrong("an option that policies have not", lambda world: unseen(client_sdk.RetryPolicy)(retries=3))
wrong("`retry=3`", lambda world: world.client.request_response(ECHO, route="say", retry=unseen(3)))
wrong("a Payload", lambda world: world.client.request_response(ECHO, client_sdk.Payload(b"a"), route="say"))
wrong("metadata that is text", lambda world: world.client.request_response(ECHO, metadata=unseen({"text/plain": "a"})))
wrong("an address without tags", lambda world: address())
wrong("a tag that is a number", lambda world: address("echo", version=unseen(3)))
wrong("`shard` without a key", lambda world: unseen(shard)("carts"))
wrong("a key that is no tag", lambda world: shard("carts", key="user"))
wrong("too much at a time", lambda world: world.client.request_response(ECHO, bytes(70_000_000), route="say"))


@mistake("more requests than a handler takes")
async def _over_limit(world: World) -> None:
    async with begun(world.client, "one"):
        await world.client.request_response(ECHO, route="one")


@mistake("more requests than a connection may have")
async def _too_many_streams(world: World) -> None:
    async with (
        local_broker(limits__max_streams_per_connection=1) as url,
        connect(url, service=echo_service()),
        connect(url) as client,
        begun(client, "never"),
    ):
        await client.request_response(ECHO, route="say")


@mistake("a service that is about to stop")
async def _draining(world: World) -> None:
    async with connect(world.url, service=echo_service(), tags={"region": "us"}) as offered:
        to = address("echo", region="us")
        async with begun(world.client, "never", to):
            while not offered.working_n:
                await asyncio.sleep(0)
            with mock.patch("client_sdk.services.advertisement.SETTLE_S", 0.0):
                draining = asyncio.ensure_future(offered.drain(0.05))
                try:
                    for _ in range(1000):
                        await world.client.request_response(to, route="say")
                finally:
                    await draining


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


@mistake("a gather of a channel")
async def _gather_channel(world: World) -> str:
    (answer,) = await world.client.gather(multicast("echo"), route="talk", timeout_s=5)
    return str(answer.error)


@mistake("a gather without `route=`")
async def _gather_anything(world: World) -> str:
    (answer,) = await world.client.gather(multicast("echo"), timeout_s=5)
    return str(answer.error)


# Contracts


wrong("a contract that is no Protocol", lambda world: world.values.of(NoProtocol, ECHO))
wrong("a method of two values", lambda world: world.values.of(unseen(TwoValues), ECHO))
wrong("a method without types", lambda world: world.values.of(unseen(Untyped), ECHO))
wrong("a contract without a codec", lambda world: world.client.of(unseen(Orders), ECHO))
wrong("a method's name with a slip", lambda world: unseen(world.values.of(unseen(Orders), ECHO)).crate("a book"))
wrong("the name of a service for `of`", lambda world: world.values.of(unseen(Orders), unseen("echo")))
wrong("a class in place of an object", lambda world: service().implement(unseen(Orders))(Empty))
wrong("an object without the method", lambda world: service().implement(unseen(Orders))(Empty()))
wrong("both in one call", lambda world: unseen(service()).implement(Orders, Empty()))
