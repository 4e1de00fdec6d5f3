"""Of callers."""

import asyncio
import json
from collections.abc import AsyncIterator
from unittest import mock

import pytest

import client_sdk
from client_sdk import (
    address,
    connect,
    multicast,
    shard,
)
from client_sdk.mistakes.methods import looked_at
from client_sdk.testing import local_broker
from tests.client_sdk.public.mistakes.world import ECHO, World, begun, echo_service, items_of, mistake, unseen, wrong

wrong("a method that clients have not", lambda world: unseen(world.client).call("echo"))
wrong("a route that is called as a method of the client", lambda world: unseen(world.client).say(b""))
wrong("`to=` in place of the address", lambda world: unseen(world.client).request_response(to="echo", route="say"))
wrong("a service's name with a slip", lambda world: world.client.request_response(address("ehco"), route="say"))
wrong("a wildcard", lambda world: world.client.request_response(address("echo.*")))
wrong("a service's name with the route behind it", lambda world: world.client.request_response(address("echo.say")))
wrong("`name=` in place of the service's name", lambda world: world.client.request_response(address(name="echo")))
wrong(
    "a tag without its value, as of a variable that is not set",
    lambda world: world.client.request_response(address(region=None)),
)
wrong("a tag's name with a slip", lambda world: world.client.request_response(address(regoin="eu")))
wrong("`key=` without `shard`", lambda _: address("echo", key="user"))
wrong("`route=` of an address", lambda _: address("echo", route="say"))
wrong("tags that no service has", lambda world: world.client.request_response(address("echo", region="us")))
wrong("a route that the service has not", lambda world: world.client.request_response(ECHO, route="sya"))
wrong("a route of another model", lambda world: world.client.request_response(ECHO, route="ticks"))
wrong("no `route=`", lambda world: world.client.request_response(ECHO))


@mistake("a service that was connected by its name only")
async def _name_only(world: World) -> None:
    async with connect(world.url, service="orders"):
        await world.client.request_response(address("orders"), route="create")


@mistake("`service='orders'` of `connect`, to call orders; in the log")
async def _named_to_call(world: World) -> str:
    async with connect(world.url, service="orders"):
        return world.log().partition("client_sdk:")[2].partition(" ")[2]


wrong(
    "the route in second place",
    lambda world: unseen(world.client).request_response(ECHO, "say", b"two books"),
)
wrong("the route in third place", lambda world: unseen(world.client).request_response(ECHO, b"", "say"))
wrong("`timeout=`", lambda world: unseen(world.client).request_response(ECHO, route="say", timeout=1))
wrong("`payload=`", lambda world: unseen(world.client).request_response(ECHO, route="say", payload=b""))
wrong("a deadline in the past", lambda world: world.client.request_response(ECHO, route="say", timeout_s=-1))
wrong("a deadline that is too short", lambda world: world.client.request_response(ECHO, route="never", timeout_s=0.01))
wrong("the name of a service in place of an address", lambda world: world.client.request_response(unseen("echo")))
wrong("text", lambda world: world.client.request_response(ECHO, "text", route="say"))
wrong("a value without a codec", lambda world: world.client.request_response(ECHO, ["a"], route="count"))
wrong("a callback", lambda world: anext(world.client.subscribe(ECHO, print, route="ticks")))
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


@mistake("a gather of a channel")
async def _gather_channel(world: World) -> str:
    (answer,) = await world.client.gather(multicast("echo"), route="talk", timeout_s=5)
    return str(answer.error)


@mistake("a gather without `route=`")
async def _gather_anything(world: World) -> str:
    (answer,) = await world.client.gather(multicast("echo"), timeout_s=5)
    return str(answer.error)


wrong("a list as `route=`", lambda world: world.client.request_response(ECHO, route=unseen(["say"])))
wrong(
    "data that is no JSON for a handler that reads it",
    lambda world: world.client.request_response(ECHO, b"a", route="count"),
)
wrong(
    "`json.dumps(value)` to a client that has a codec already",
    lambda world: world.client.request_response(ECHO, b'"[1, 2]"', route="count"),
)
wrong(
    "the function of a channel's items without parentheses",
    lambda world: items_of(world.client.request_channel(ECHO, unseen(ticks), route="talk")),
)


async def ticks() -> AsyncIterator[bytes]:
    """Items of a channel."""
    yield b"tick"


@mistake("a method of choosing that no broker knows; in the log")
async def _unknown_method(world: World) -> str:
    looked_at.clear()  # others may have said it
    address("echo", lb="fastest")
    return world.log()


@mistake("a stream that is read twice")
async def _read_twice(world: World) -> str:
    stream = world.client.request_stream(ECHO, route="ticks")
    await items_of(stream)
    with pytest.warns(RuntimeWarning) as warned:
        await items_of(stream)
    return str(warned[0].message)


@mistake("a gather of an `address`")
async def _gather_one(world: World) -> str:
    with pytest.warns(RuntimeWarning) as warned:
        await world.client.gather(ECHO, route="say", timeout_s=5)
    return str(warned[0].message)


@mistake("what `resume=` gives is no data")
async def _resumed(world: World) -> None:
    await items_of(world.client.subscribe(ECHO, route="ticks", resume=lambda last: 3, endless=True))
