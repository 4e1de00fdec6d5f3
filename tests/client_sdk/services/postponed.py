"""Handlers of a module whose annotations are text, some of them known to type checkers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from client_sdk import JSON, Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from decimal import Decimal

    from client_sdk import Request

postponed = Service("postponed", codec=JSON)


@dataclass
class Order:
    """What is ordered."""

    name: str
    price: float = 0.5


@postponed.request_response("price")
async def price(order: Order, request: Request) -> Decimal:
    return order.price  # type: ignore[return-value]  # nobody has a Decimal here


@postponed.request_channel("double")
async def double(numbers: AsyncIterator[int]) -> AsyncIterator[int]:
    async for number in numbers:
        yield number * 2
