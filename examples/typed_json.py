"""Handlers with typed values: JSON that is validated against their types, with msgspec.

python examples/typed_json.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from client_sdk import JSON, BadRequest, Service, address, connect
from client_sdk.testing import local_broker


@dataclass
class Order:
    item: str
    pieces: int = 1


@dataclass
class Receipt:
    text: str


orders = Service("orders", codec=JSON)  # or one for each handler


@orders.request_response("create")
async def create(order: Order) -> Receipt:
    return Receipt(f"{order.pieces} × {order.item}")


@orders.request_stream("pack")
async def pack(order: Order) -> AsyncIterator[Receipt]:
    for number in range(order.pieces):
        yield Receipt(f"{order.item} {number + 1}")


async def main() -> None:
    async with (
        contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url,
        connect(url, service=orders, codec=JSON) as client,  # who serves may call, too
    ):
        to, books = address("orders"), Order("book", 3)
        print(await client.request_response(to, books, route="create", returns=Receipt, timeout_s=5))
        packed = client.request_stream(to, books, route="pack", returns=Receipt, timeout_s=5)
        print([receipt.text async for receipt in packed])
        try:
            await client.request_response(to, {"item": "book", "pieces": "two"}, route="create", timeout_s=5)
        except BadRequest as error:
            print(error.text)


if __name__ == "__main__":
    asyncio.run(main())
