"""Of services and their handlers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from unittest import mock

import client_sdk
from client_sdk import (
    ApplicationError,
    Service,
    address,
    connect,
    run,
    serve,
)
from tests.client_sdk.public.mistakes.world import ECHO, World, begun, mistake, none, service, unseen, wrong

wrong("a function in place of a Service", lambda world: run(world.url, unseen(none)))
wrong("the service in first place", lambda world: run(unseen(service()), unseen(world.url)))
wrong("`serve` without a service", lambda world: unseen(serve)(world.url))
wrong("a Service whose tags have no name", lambda world: unseen(Service)("orders", {"region": "eu"}))
wrong("the service's name among its tags", lambda _: Service("orders", tags={"service": "sales"}))
wrong("the reason in first place", lambda _: service().set_health(unseen("the disk is full")))
wrong("tags of a service as keywords", lambda _: unseen(service()).set_tags(region="us"))
wrong("`code=404` of an ApplicationError", lambda _: client_sdk.ApplicationError("no order 42", code=404))
wrong("a code word with capitals", lambda _: client_sdk.ApplicationError("3 are left", word="Out Of Stock"))
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


wrong("a service that shall run", lambda _: unseen(service()).run())
wrong("a service that shall be out", lambda _: setattr(service(), "is_healthy", False))
wrong("places for requests that never wait", lambda _: service().request_response("a", max_waiting=5)(none))
wrong("an exception in place of a text", lambda _: ApplicationError(unseen(KeyError("book"))))
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

    with mock.patch("client_sdk.io.connection.HANDLER_GRACE_S", 0.3):
        async with connect(world.url, service=deaf), begun(world.client, "wait", address("orders")):
            await told.wait()
    ended.set()
    return world.log()
