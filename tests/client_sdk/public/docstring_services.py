"""The services that examples in docstrings call, in a process of their own: `python -m … URL`. Says "ready", stays."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from client_sdk import Request, Service, connect
from tests.client_sdk.samples import echo_service

orders = Service("orders", tags={"region": "eu"})
prices = Service("prices")
clock = Service("clock")
echo = echo_service()
log = Service("log")
stock = Service("stock", tags={"room": "a"})
more_stock = Service("stock", tags={"room": "b"})
cache = Service("cache")


@orders.request_response()
@orders.request_response("find")
async def find(data: bytes) -> bytes:
    return b"order " + data


@orders.request_response("create")
async def create(data: bytes) -> bytes:
    return b"created " + data


@orders.request_response("slow")
async def slow(data: bytes) -> bytes:
    await asyncio.sleep(3600)
    return data


@prices.request_stream()
async def ticker(request: Request) -> AsyncIterator[bytes]:
    for price in (b"101", b"102", b"99"):
        yield request.data + b" " + price


@clock.request_stream("ticks")
async def ticks(request: Request) -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"tick %d" % number


@log.fire_and_forget("line")
async def line(data: bytes) -> None:
    return None


@stock.request_response("count")
async def count(data: bytes) -> bytes:
    return b"3"


@more_stock.request_response("count")
async def count_more(data: bytes) -> bytes:
    return b"4"


@cache.metadata_push("flush")
async def flush(data: bytes) -> None:
    return None


async def main(url: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for service in (orders, prices, clock, echo, log, stock, more_stock, cache):
            await stack.enter_async_context(connect(url, service=service))
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
