"""Requests of every model, routing and end, and the own count of them: what the records of a broker must equal."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable

from client_sdk import ApplicationError, Client, NoRoute, Payload, Service, address, connect, multicast, shard
from rsocket_wire.rsocket.frames import REQUEST_STREAM
from tests.system.support.wires import Wire

Key = tuple[str, str, str, str]  # service, model, routing, outcome

TASKS = 4
MAX_ROUNDS = 2_000  # beside something else; some hundred usually
LOST = 3  # requests on the way when a service, or a caller, is lost
ROUTES = 3


class CountedLoad:
    """`async with CountedLoad(url) as load: await load.run(rounds)`; then `load.counts` is what happened."""

    def __init__(self, url: str) -> None:
        self.counts: Counter[Key] = Counter()
        self._url = url
        self._stack = contextlib.AsyncExitStack()
        self._asked: dict[bytes, asyncio.Event] = {}  # by what was asked of the handler that never answers

    async def __aenter__(self) -> "CountedLoad":
        for number in range(ROUTES):
            tags = {"n": str(number)}
            await self._stack.enter_async_context(connect(self._url, service=self._worker(), tags=tags))
        self._clients = [
            await self._stack.enter_async_context(connect(self._url, service=f"caller-{number}")) for number in range(2)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def run(self, rounds: int) -> None:
        """So many rounds of all kinds, several at a time; all have ended when it returns."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(TASKS):
                tasks.create_task(self._repeat(self._clients[number % 2], rounds))

    async def run_while(self, doing: Awaitable[object]) -> None:
        """Rounds of all kinds until that is done, but not more than a writer of a busy machine takes in."""
        task = asyncio.ensure_future(doing)
        for _ in range(MAX_ROUNDS):
            if task.done():
                break
            await self.run(1)
        await task

    async def lose_a_service(self) -> None:
        """Requests whose service is gone before it has answered."""
        service = await Wire.service(self._url, "mortal", 77)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(LOST):
                tasks.create_task(self._lose(self._clients[0]))
            for _ in range(LOST):
                await service.receive()
            service.transport.abort()
        self._count("mortal", "request_response", "unicast", "route_lost", LOST)
        await service.close()

    async def lose_a_caller(self) -> None:
        """Requests whose caller is gone before the answer; returns when the service was told."""
        service = await Wire.service(self._url, "patient", 78)
        caller = await Wire.caller(self._url)
        for _ in range(LOST):
            caller.request("patient", kind=REQUEST_STREAM)
        for _ in range(LOST):
            await service.receive()
        caller.transport.abort()
        for _ in range(LOST):
            await service.receive()  # CANCEL
        self._count("patient", "request_stream", "unicast", "caller_lost", LOST)
        for wire in (service, caller):
            await wire.close()

    def _count(self, service: str, model: str, routing: str, outcome: str, requests: int = 1) -> None:
        self.counts[service, model, routing, outcome] += requests

    async def _lose(self, client: Client) -> None:
        with contextlib.suppress(Exception):
            await client.request_response(address("mortal"), b"?")

    async def _repeat(self, client: Client, rounds: int) -> None:
        for number in range(rounds):
            await self._unicast(client, number)
            await self._streams(client, number)
            await self._others(client, number)

    async def _unicast(self, client: Client, number: int) -> None:
        assert (await client.request_response(address("worker"), b"%d" % number, route="echo")).data == b"%d" % number
        self._count("worker", "request_response", "unicast", "completed")
        with contextlib.suppress(ApplicationError):
            await client.request_response(address("worker", n=str(number % ROUTES)), b"", route="fail")
        self._count("worker", "request_response", "unicast", "error")
        with contextlib.suppress(NoRoute):
            await client.request_response(address("worker", region="mars"), b"")
        self._count("worker", "request_response", "unicast", "rejected")
        with contextlib.suppress(NoRoute):
            await client.request_response(address("nobody"), b"")
        self._count("nobody", "request_response", "unicast", "rejected")
        await client.fire_and_forget(address("worker"), b"", route="note")
        self._count("worker", "fire_and_forget", "unicast", "completed")
        if number % 10 == 0:
            name = b"%d" % len(self._asked)
            asked = self._asked[name] = asyncio.Event()
            waiting = asyncio.create_task(client.request_response(address("worker"), name, route="never"))
            await asked.wait()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            self._count("worker", "request_response", "unicast", "cancelled")

    async def _streams(self, client: Client, number: int) -> None:
        items = [item.data async for item in client.request_stream(address("worker"), b"", route="count")]
        assert len(items) == 5
        self._count("worker", "request_stream", "unicast", "completed")
        stream = client.request_stream(address("worker"), b"", route="endless", initial_n=2)
        async for _ in stream:
            await stream.aclose()
            break
        self._count("worker", "request_stream", "unicast", "cancelled")
        answers = [item.data async for item in client.request_channel(address("worker"), _numbers(), route="channel")]
        assert answers == [b"0", b"1", b"2"]
        self._count("worker", "request_channel", "unicast", "completed")

    async def _others(self, client: Client, number: int) -> None:
        owner = shard("worker", key="user", user=f"user-{number % 50}")
        await client.request_response(owner, b"", route="echo")
        self._count("worker", "request_response", "shard", "completed")
        await client.request_response(multicast("worker"), b"", route="echo")
        self._count("worker", "request_response", "multicast", "completed")
        merged = [item async for item in client.request_stream(multicast("worker"), b"", route="count")]
        assert len(merged) == 5 * ROUTES
        self._count("worker", "request_stream", "multicast", "completed")
        await client.metadata_push(multicast("worker"), b"reload")
        self._count("worker", "metadata_push", "multicast", "completed")

    def _worker(self) -> Service:
        service = Service("worker")

        @service.request_response("echo")
        async def echo(data: bytes) -> bytes:
            return data

        @service.request_response("fail")
        async def fail(data: bytes) -> bytes:
            raise ApplicationError("as asked")

        @service.request_response("never")
        async def never(data: bytes) -> bytes:
            self._asked[data].set()
            await asyncio.Event().wait()
            raise AssertionError

        @service.fire_and_forget("note")
        async def note(data: bytes) -> None: ...

        @service.metadata_push()
        async def reload(data: bytes) -> None: ...

        @service.request_stream("count")
        async def count(data: bytes) -> AsyncIterator[bytes]:
            for number in range(5):
                yield b"%d" % number

        @service.request_stream("endless")
        async def endless(data: bytes) -> AsyncIterator[bytes]:
            while True:
                yield b"more"

        @service.request_channel("channel")
        async def channel(items: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
            async for item in items:
                yield item.data or b""

        return service


async def _numbers() -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"%d" % number
