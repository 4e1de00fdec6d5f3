"""With event loops and threads."""

import asyncio
import gc
import warnings

from client_sdk import (
    DeadlineExceeded,
    connect,
    run,
    sync,
)
from client_sdk.mistakes.operators import warn_in_loop
from client_sdk.testing import local_broker
from tests.client_sdk.public.mistakes.world import ECHO, World, mistake, service, unseen, wrong

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


@mistake("`of` of a client that blocks")
async def _sync_of(world: World) -> None:
    def ask() -> None:
        with sync.connect(world.url) as client:
            unseen(client).of(object, ECHO)

    await asyncio.to_thread(ask)


@mistake("`async with sync.connect(...)`")
async def _async_sync(world: World) -> None:
    client = await asyncio.to_thread(sync.connect, world.url)
    try:
        unseen(client).__aenter__()
    finally:
        await asyncio.to_thread(client.close)


@mistake("`await sync.connect(...)`")
async def _awaited_sync(world: World) -> None:
    client = await asyncio.to_thread(sync.connect, world.url)
    try:
        await unseen(client)
    finally:
        await asyncio.to_thread(client.close)


wrong(
    "`sync.connect` in the event loop of the broker",
    lambda world: sync.connect(world.url, connect_timeout_s=0.05),
)


async def _blocking(world: World) -> str:
    client = await asyncio.to_thread(sync.connect, world.url)
    warn_in_loop.cache_clear()
    try:
        client.request_response(ECHO, route="say", timeout_s=0.05)
    except DeadlineExceeded as error:
        return str(error)
    finally:
        await asyncio.to_thread(client.close)
    return ""


mistake("`client_sdk.sync` in the event loop of the service")(_blocking)


@mistake("`client_sdk.sync` in an event loop; in the log, once")
async def _blocking_in_log(world: World) -> str:
    await _blocking(world)
    return world.log()
