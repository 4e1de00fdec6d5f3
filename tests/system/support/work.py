"""Callers and services whose every call has to succeed, once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from client_sdk import Client, Payload, Service, address

TO = address("orders")


class Work:
    """Services that count what they are given, and callers that count what they get."""

    def __init__(self) -> None:
        self.served: Counter[bytes] = Counter()
        self.answered: Counter[bytes] = Counter()
        self.noted: Counter[bytes] = Counter()
        self.sent: set[bytes] = set()
        self.failures: list[str] = []
        self.is_ending = False

    def service(self) -> Service:
        orders = Service("orders")

        @orders.request_response()
        async def create(data: bytes) -> bytes:
            self.served[data] += 1
            await asyncio.sleep(0)
            return data

        @orders.fire_and_forget()
        async def note(data: bytes) -> None:
            await asyncio.sleep(0)
            self.noted[data] += 1

        @orders.request_stream()
        async def count(data: bytes) -> AsyncIterator[bytes]:
            for number in range(20):
                await asyncio.sleep(0)
                yield data + b"/%d" % number

        @orders.request_channel()
        async def echo(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
            async for payload in payloads:
                yield payload

        return orders

    async def ask(self, client: Client, name: str) -> None:
        """One after another, until the end or until one fails."""
        number = 0
        while not self.is_ending:
            number += 1
            data = f"{name}-{number}".encode()
            self.sent.add(data)
            try:
                assert (await client.request_response(TO, data)).data == data
                self.answered[data] += 1
                await client.fire_and_forget(TO, data)
                items = [payload.data async for payload in client.request_stream(TO, data, initial_n=4)]
                assert items == [data + b"/%d" % each for each in range(20)]
            except Exception as error:
                self.failures.append(f"{name}, {client.broker}, {data!r}: {type(error).__name__} {error}")
                return
