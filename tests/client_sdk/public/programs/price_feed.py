"""A price feed: readers come back after a loss, and one that is slow gets the latest price in place of each."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from client_sdk import JSON, NO_REQUEST, Request, Service, address, connect, idempotent, subscribe


@dataclass
class Ask:
    symbol: str
    since: int = 0


@dataclass
class Tick:
    number: int
    symbol: str
    price: float


class Prices(Protocol):
    @idempotent
    async def last(self, symbol: str) -> Tick: ...

    def ticks(self, ask: Ask) -> AsyncIterator[Tick]: ...


class Market:
    """Does what Prices says."""

    def __init__(self) -> None:
        self._latest = Tick(0, "ACME", 0.0)
        self._changed = asyncio.Condition()

    async def move(self, price: float) -> None:
        async with self._changed:
            self._latest = Tick(self._latest.number + 1, "ACME", price)
            self._changed.notify_all()

    async def last(self, symbol: str) -> Tick:
        return self._latest

    async def ticks(self, ask: Ask, request: Request = NO_REQUEST) -> AsyncIterator[Tick]:
        tick = Tick(ask.since, ask.symbol, 0.0)
        while not request.draining.is_set():
            async with self._changed:
                while self._latest.number == tick.number:
                    await self._changed.wait()
                tick = self._latest
            yield tick


def offer_prices(market: Market) -> Service:
    service = Service("prices", codec=JSON)
    service.implement(Prices)(market)
    return service


async def read(url: str, ticks_n: int, pause_s: float) -> list[Tick]:
    """So many ticks, as a reader that needs time for each."""
    ticks: list[Tick] = []
    async with connect(url, codec=JSON) as client:
        prices = client.of(Prices, address("prices"), timeout_s=5, initial_n=1)
        start = Ask("ACME", (await prices.last("ACME")).number)
        async with subscribe(prices.ticks, start, resume=lambda tick: Ask("ACME", tick.number), endless=True) as stream:
            async for tick in stream:
                ticks.append(tick)
                if len(ticks) == ticks_n:
                    break
                await asyncio.sleep(pause_s)
    return ticks
