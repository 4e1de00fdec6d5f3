"""The traffic of the demo: the instances of its services, their customers, and what happens to them in a minute.

Decides what is asked, how often, and what goes wrong when. Counts every request that it sends, so that somebody can
hold the counts against a report. Knows nothing of event files and of the REST API.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from broker.commands.demo.services import SLOW_INSTANCE, SLOW_S, WORK_S, Shop
from client_sdk import Client, ClientError, Service, address, connect, multicast, shard

FEW_N: Final = 10  # customers
USUAL_N: Final = 20
MANY_N: Final = 40
USERS_N: Final = 1000  # they are; whose turn it is at a customer's visit, chance decides
PAUSE_S: Final = (0.1, 0.4)  # of a customer between two visits
CALL_S: Final = 5.0  # that a caller waits for an answer
DRAIN_S: Final = 10.0
ERRORS_PART: Final = 0.2  # of the whole time
SEED: Final = 1

# All instances of a service match, and the broker chooses among them: in turns, its default, or as the address asks.
ORDERS: Final = address("orders")
ALL_ORDERS: Final = multicast("orders")
NOWHERE: Final = address("orders", region="mars")
PAYMENTS: Final = address("payments")
STOCK: Final = address("stock", lb="least_busy")


class Traffic:
    """`connect`, then `run`."""

    def __init__(self, urls: tuple[str, str], stack: contextlib.AsyncExitStack, say: Callable[[str], None]) -> None:
        """`stack` gets what is connected to `urls`, TCP and WebSocket. `say` prints, and begins no new line."""
        self.sent: Final[Counter[str]] = Counter()  # interaction model -> requests
        self.failed: Final[Counter[str]] = Counter()  # code word -> requests
        self.callers: Final[list[Client]] = []  # empty until `connect`
        self._urls: Final = urls
        self._stack: Final = stack
        self._say: Final = say
        self._chance: Final = random.Random(SEED)
        self._shop: Final = Shop(self._chance)
        self._leaving: Final = self._shop.orders(1, "eu", version="1")
        self._customers_n = 0  # one with a higher number leaves after its visit

    async def connect(self) -> int:
        """The services and two callers, over TCP and WebSocket in turns; how many instances of services there are."""
        shop = self._shop
        services = [
            self._leaving,
            *(shop.orders(n, region, version="1") for n, region in ((2, "us"), (3, "eu"), (4, "us"))),
        ]
        services += [make(n) for make in (shop.carts, shop.payments, shop.stock) for n in (1, 2, 3)]
        for number, service in enumerate(services):
            await self._stack.enter_async_context(connect(self._urls[number % 2], service=service))
        for url, name in zip(self._urls, ("shop", "kiosk"), strict=True):
            self.callers.append(await self._stack.enter_async_context(connect(url, service=Service(name))))
        return len(services)

    async def run(self, seconds: float) -> None:
        """All that happens, and a line for each part of it."""
        async with asyncio.TaskGroup() as group:
            with self._part("steady", f"{FEW_N} customers"):
                self._let_in(FEW_N, group)
                await asyncio.sleep(0.15 * seconds)
            with self._part("rise", f"from {FEW_N} to {MANY_N} customers"):
                for number in range(FEW_N + 1, MANY_N + 1):
                    self._let_in(number, group)
                    await asyncio.sleep(0.2 * seconds / (MANY_N - FEW_N))
            with self._part("errors", f"{USUAL_N} customers again, and half of the payments fail"):
                self._let_in(USUAL_N, group)
                self._shop.do_payments_fail = True
                await asyncio.sleep(ERRORS_PART * seconds)
                self._shop.do_payments_fail = False
            usual_ms, slow_ms = (f"{1000 * s:g}" for s in (WORK_S[1], SLOW_S))
            with self._part("slow", f"{SLOW_INSTANCE} takes {slow_ms} ms instead of {usual_ms}", self._share_of_slow):
                self._shop.stock_served.clear()
                self._shop.is_stock_slow = True
                await asyncio.sleep(0.25 * seconds)
                self._shop.is_stock_slow = False
            with self._part("deploy", "orders-5, version 2, joins, then orders-1, version 1, drains and leaves"):
                async with asyncio.TaskGroup() as deploy:
                    deploy.create_task(self._deploy())
                    deploy.create_task(asyncio.sleep(0.2 * seconds))
            self._let_in(0, group)

    @contextlib.contextmanager
    def _counted(self, model: str) -> Iterator[None]:
        """For one request; if it fails, it is counted by its code word, and the customer goes on."""
        self.sent[model] += 1
        try:
            yield
        except ClientError as error:
            self.failed[error.word] += 1

    @contextlib.contextmanager
    def _part(self, name: str, text: str, more: Callable[[], str] = str) -> Iterator[None]:
        """Says it when it begins, and on the same line what came of it, however it ends."""
        sent_n, failed_n = self.sent.total(), self.failed.total()
        self._say(f"   {name:8}{text} … ")
        try:
            yield
        finally:
            self._say(f"{self.sent.total() - sent_n:,} requests, {self.failed.total() - failed_n:,} failed{more()}\n")

    def _share_of_slow(self) -> str:
        served = self._shop.stock_served
        return f", {served[SLOW_INSTANCE] / max(1, served.total()):.0%} of stock's went to it"

    async def _deploy(self) -> None:
        coming = self._shop.orders(5, "eu", version="2")
        await self._stack.enter_async_context(connect(self._urls[0], service=coming))
        await self._leaving.drain(timeout_s=DRAIN_S)

    def _let_in(self, customers_n: int, group: asyncio.TaskGroup) -> None:
        """So many in all: new ones come, or those with higher numbers leave."""
        for number in range(self._customers_n, customers_n):
            group.create_task(self._visit_on(number))
        self._customers_n = customers_n

    async def _visit_on(self, number: int) -> None:
        visit = 0
        while number < self._customers_n:
            await self._visit(self.callers[number % len(self.callers)], number + visit)
            await asyncio.sleep(self._chance.uniform(*PAUSE_S))
            visit += 1

    async def _visit(self, client: Client, number: int) -> None:
        """One request to each service; the rarer models at each fourth visit, a wrong address at each fiftieth."""
        cart = shard("carts", key="user", user=f"user-{self._chance.randrange(USERS_N)}")
        for to, route in ((STOCK, "left"), (cart, "add"), (PAYMENTS, "pay"), (ORDERS, "create")):
            with self._counted("request_response"):
                await client.request_response(to, b"tea", route=route, timeout_s=CALL_S)
        with self._counted("fire_and_forget"):
            await client.fire_and_forget(ALL_ORDERS, b"tea", route="seen")
        if number % 4 == 0:
            with self._counted("request_stream"):
                async for _ in client.request_stream(ORDERS, b"tea", route="watch", initial_n=2):
                    pass
            with self._counted("request_channel"):
                async for _ in client.request_channel(ORDERS, _goods(), route="prices", timeout_s=CALL_S):
                    pass
            with self._counted("metadata_push"):
                await client.metadata_push(ALL_ORDERS, b"reload")
        if number % 50 == 0:
            with self._counted("request_response"):
                await client.request_response(NOWHERE, b"tea", route="create", timeout_s=CALL_S)


async def _goods() -> AsyncIterator[bytes]:
    for item in (b"tea", b"milk", b"sugar"):
        yield item
