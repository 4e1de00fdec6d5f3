"""A rolling deployment under load: starts new instances, then drains the old ones. No request is lost.

python examples/rolling_deploy.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import sys
from collections import Counter

from client_sdk import Client, Service, address, connect
from client_sdk.testing import local_broker


def make_shop(version: str) -> Service:
    shop = Service("shop", tags={"version": version})

    @shop.request_response("sell")
    async def sell(data: bytes) -> bytes:
        await asyncio.sleep(0.005)
        return version.encode()

    return shop


async def buy_on(client: Client, seen: Counter[str]) -> None:
    """Asks for the shop, whichever version; a request that fails ends the program."""
    while seen["v2"] < 200:
        answer = await client.request_response(address("shop"), b"a book", route="sell", returns=bytes, timeout_s=5)
        seen[answer.decode()] += 1


async def main(url: str) -> None:
    old, new = [make_shop("v1") for _ in range(2)], [make_shop("v2") for _ in range(2)]
    seen: Counter[str] = Counter()
    async with contextlib.AsyncExitStack() as stack:
        for shop in old:
            await stack.enter_async_context(connect(url, service=shop))
        client = await stack.enter_async_context(connect(url))
        async with asyncio.TaskGroup() as buyers:
            for _ in range(8):
                buyers.create_task(buy_on(client, seen))
            while seen["v1"] < 50:
                await asyncio.sleep(0.001)
            for number, (leaving, coming) in enumerate(zip(old, new, strict=True), 1):
                await stack.enter_async_context(connect(url, service=coming))
                await leaving.drain(timeout_s=10)
                print(f"{number} of 2 replaced, served so far: {dict(seen)}")
    print(f"{seen.total()} requests, none was lost")


async def run() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url:
        await main(url)


if __name__ == "__main__":
    asyncio.run(run())
