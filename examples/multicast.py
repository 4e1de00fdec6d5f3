"""Multicast: one request to all matching routes. Notifies all, takes the first answer, merges streams.

python examples/multicast.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator

from client_sdk import Request, Service, connect, multicast
from client_sdk.testing import local_broker


def make_cache(name: str, flushed: asyncio.Queue[str]) -> Service:
    cache = Service("cache", tags={"instance_name": name})

    @cache.fire_and_forget("flush")
    async def flush(request: Request) -> None:
        flushed.put_nowait(name)

    @cache.request_response("who")
    async def who(request: Request) -> bytes:
        return name.encode()

    @cache.request_stream("keys")
    async def keys(request: Request) -> AsyncIterator[bytes]:
        for number in range(3):
            yield f"{name}/key-{number}".encode()

    return cache


async def main(url: str) -> None:
    flushed: asyncio.Queue[str] = asyncio.Queue()
    async with contextlib.AsyncExitStack() as stack:
        for name in "abc":
            await stack.enter_async_context(connect(url, service=make_cache(name, flushed)))
        client = await stack.enter_async_context(connect(url))
        everybody = multicast("cache")
        await client.fire_and_forget(everybody, route="flush")
        names = sorted([await asyncio.wait_for(flushed.get(), 5) for _ in "abc"])
        print("flushed:", names)
        first = await client.request_response(everybody, route="who", returns=bytes, timeout_s=5)
        print("first to answer:", first)
        stream = client.request_stream(everybody, route="keys", returns=bytes, timeout_s=5)
        found = Counter([key.decode()[0] async for key in stream])
        print("keys by cache:", dict(sorted(found.items())))
        assert (names, found) == (["a", "b", "c"], {"a": 3, "b": 3, "c": 3})


async def run() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url:
        await main(url)


if __name__ == "__main__":
    asyncio.run(run())
