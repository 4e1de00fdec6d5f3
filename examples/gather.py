"""Gathers the answers of all services: prices of all shops that answer in time. One shop fails, one is slow.

python examples/gather.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import logging
import sys

from client_sdk import ApplicationError, Service, connect, multicast
from client_sdk.testing import local_broker

PRICES = {"bonn": 12, "cork": 9, "lund": None, "nice": 7}  # None: sold out


def make_shop(town: str, price: int | None, delay_s: float) -> Service:
    shop = Service(f"shop-{town}", tags={"kind": "shop"})

    @shop.request_response("price")
    async def tell_price(data: bytes) -> bytes:
        await asyncio.sleep(delay_s)
        if price is None:
            raise ApplicationError("come back on Monday", word="sold-out")
        return b"%d" % price

    return shop


async def main(url: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for town, price in PRICES.items():
            shop = make_shop(town, price, 3600 if town == "nice" else 0)
            await stack.enter_async_context(connect(url, service=shop))
        client = await stack.enter_async_context(connect(url))

        prices: dict[str, int] = {}
        asking = client.gather(multicast(kind="shop"), b"a book", route="price", timeout_s=1)
        async for answer in asking:  # as they come; `await asking` gives them as a list
            if answer.error is not None:
                print(f"{answer.service}: {answer.error.word}, {answer.error.text}")
            else:
                prices[answer.service] = int(answer.value)
                print(f"{answer.service}: {prices[answer.service]}")
        print("all have answered" if asking.is_complete else "somebody was too slow")
        print("the best price:", min(prices, key=lambda name: prices[name]))
        assert (prices, asking.is_complete) == ({"shop-bonn": 12, "shop-cork": 9}, False)


async def run() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url:
        await main(url)


if __name__ == "__main__":
    logging.disable()  # of what went wrong in the shops
    asyncio.run(run())
