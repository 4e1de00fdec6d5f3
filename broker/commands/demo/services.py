"""The services of the demo: a shop of orders, carts, payments and stock, and what may be wrong with them.

Decides what each instance answers and how long that takes. Knows nothing of callers and of the broker.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from client_sdk import ApplicationError, Payload, Service

WORK_S: Final = (0.002, 0.008)  # what a handler takes, at least and at most
SLOW_S: Final = 0.2  # what it takes at the slow instance
SLOW_INSTANCE: Final = "stock-2"


class Shop:
    """Makes the instances. What is wrong is an attribute, which all of them look at."""

    def __init__(self, chance: random.Random) -> None:
        self.do_payments_fail = False  # half of them
        self.is_stock_slow = False  # at SLOW_INSTANCE
        self.stock_served: Final[Counter[str]] = Counter()  # instance -> requests
        self._chance: Final = chance

    def orders(self, number: int, region: str, version: str) -> Service:
        """It has a handler for each interaction model."""
        name = f"orders-{number}"
        orders = Service("orders", tags={"instance_name": name, "region": region, "version": version})

        @orders.request_response("create")
        async def create(data: bytes) -> bytes:
            await self._work()
            return b"order of " + data + b" taken by " + name.encode()

        @orders.request_stream("watch")
        async def watch(data: bytes) -> AsyncIterator[bytes]:
            for state in (b"taken", b"packed", b"sent"):
                await self._work()
                yield data + b" " + state

        @orders.request_channel("prices")
        async def prices(items: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
            async for item in items:
                yield (item.data or b"") + b" costs 3"

        @orders.fire_and_forget("seen")
        async def seen(data: bytes) -> None:
            pass

        @orders.metadata_push()
        async def reload(data: bytes) -> None:
            pass

        return orders

    def carts(self, number: int) -> Service:
        """It keeps what belongs to a user: the same user always finds the same instance."""
        name = f"carts-{number}"
        carts = Service("carts", tags={"instance_name": name})

        @carts.request_response("add")
        async def add(data: bytes) -> bytes:
            await self._work()
            return b"in " + name.encode()

        return carts

    def payments(self, number: int) -> Service:
        """Half of what it is asked fails while `do_payments_fail`."""
        payments = Service("payments", tags={"instance_name": f"payments-{number}"})

        @payments.request_response("pay")
        async def pay(data: bytes) -> bytes:
            await self._work()
            if self.do_payments_fail and self._chance.random() < 0.5:
                raise ApplicationError("the bank does not answer")
            return b"paid"

        return payments

    def stock(self, number: int) -> Service:
        """The SLOW_INSTANCE is slow while `is_stock_slow`."""
        name = f"stock-{number}"
        stock = Service("stock", tags={"instance_name": name})

        @stock.request_response("left")
        async def left(data: bytes) -> bytes:
            self.stock_served[name] += 1
            await (asyncio.sleep(SLOW_S) if self.is_stock_slow and name == SLOW_INSTANCE else self._work())
            return b"3 of " + data

        return stock

    async def _work(self) -> None:
        await asyncio.sleep(self._chance.uniform(*WORK_S))
