"""The load of a bench: an echoing service and its callers, in one process, on the client SDK.

Decides when a request begins and which time counts as its latency:

    closed loop    each caller keeps so many requests in flight: the next one begins when one has ended. A broker that
                   stops for a second is asked nothing meanwhile, so that second is one latency among thousands
                   (coordinated omission): percentiles look better than what independent callers would meet.
    open loop      requests are due at a rate, whatever became of the others. A latency counts from when the request was
                   due, also where it had to wait for one of the places in flight, so nothing is omitted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from broker import exit_status
from broker.commands import terminal
from broker.commands.bench.latencies import Latencies
from broker.commands.bench.output import Measured, show
from broker.commands.bench.plan import MULTICAST, SHARD, Plan
from client_sdk import (
    Address,
    Client,
    ClientError,
    NoRoute,
    Payload,
    Request,
    Service,
    address,
    connect,
    multicast,
    shard,
)
from rsocket_wire.models import FIRE_AND_FORGET, ONE_WAY, REQUEST_RESPONSE, REQUEST_STREAM
from spark_sink.progress_line import ProgressLine

REQUEST_S: Final = 10.0  # a request may take; then it is an error
ANNOUNCED_S: Final = 10.0  # until the service is known where the callers are
LOOK_S: Final = 0.02
SAY_S: Final = 0.5  # between two lines of progress
NUMBER_BYTES: Final = 8  # of a request without an answer, in its payload


class Bench:
    """Counts what callers begin and what ends. What was counted while all got warm is forgotten."""

    def __init__(self, plan: Plan) -> None:
        self._plan: Final = plan
        self._name: Final = f"bench-{os.getpid()}-{os.urandom(3).hex()}"
        self._payload: Final = bytes(max(plan.payload_bytes, NUMBER_BYTES if plan.model in ONE_WAY else 0))
        self._numbers: Final = itertools.count()
        self._awaited: Final[dict[int, asyncio.Future[None]]] = {}  # number -> the service has it
        self._began_at = 0.0  # of the loads, when the first request was due
        self.latencies = Latencies()
        self.errors: Final[Counter[str]] = Counter()
        self.items_n = 0  # of streams
        self.is_over = False

    def service(self) -> Service:
        """Echoes requests, and tells when those came that have no answer."""
        echo = Service(self._name)

        @echo.request_response()
        async def one(request: Request) -> bytes:
            return request.data

        @echo.request_stream()
        async def many(request: Request) -> AsyncIterator[bytes]:
            for _ in range(self._plan.items_n):
                yield request.data

        @echo.request_channel()
        async def each(request: Request, payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
            async for payload in payloads:
                yield payload.data or b""

        @echo.fire_and_forget()
        async def note(request: Request) -> None:
            self._arrived(request.data)

        @echo.metadata_push()
        async def push(request: Request) -> None:
            self._arrived(request.data)

        return echo

    async def until_announced(self, client: Client) -> None:
        """Until the service's routes are known: they travel on other connections. ClientError when they never are."""
        give_up_at = time.monotonic() + ANNOUNCED_S
        while True:
            try:
                await client.request_response(multicast(self._name), b"", timeout_s=ANNOUNCED_S)
                return
            except NoRoute:
                if time.monotonic() > give_up_at:
                    raise
            await asyncio.sleep(LOOK_S)

    def begin(self) -> None:
        """From now on requests are due."""
        self._began_at = time.perf_counter()

    def count(self) -> None:
        """From now on they are counted."""
        self.latencies = Latencies()
        self.errors.clear()
        self.items_n = 0

    async def call(self, client: Client) -> None:
        """One request after another until all is over: so many of these run as may be in flight."""
        while not self.is_over:
            number = next(self._numbers)
            due_at = time.perf_counter()
            if self._plan.rate_per_s is not None:
                due_at = self._began_at + number / self._plan.rate_per_s
                await asyncio.sleep(max(0.0, due_at - time.perf_counter()))
                if self.is_over:
                    return
            try:
                await self._ask(client, self._target(number), number)
                self.latencies.add(time.perf_counter() - due_at)
            except ClientError as error:
                self.errors[error.word] += 1
                await asyncio.sleep(0)  # a refusal may need no turn of the loop
            except TimeoutError:
                self.errors["not-arrived"] += 1

    async def _ask(self, client: Client, target: Address, number: int) -> None:
        """Until it is answered or, without an answer, has arrived. ClientError; TimeoutError: it has not arrived."""
        model = self._plan.model
        if model == REQUEST_RESPONSE:
            await client.request_response(target, self._payload, timeout_s=REQUEST_S)
        elif model in ONE_WAY:
            await self._send(client, target, number)
        else:
            if model == REQUEST_STREAM:
                flow = client.request_stream(target, self._payload, timeout_s=REQUEST_S)
            else:
                flow = client.request_channel(target, self._sent(), timeout_s=REQUEST_S)
            async with contextlib.aclosing(flow):
                async for _ in flow:
                    self.items_n += 1

    async def _send(self, client: Client, target: Address, number: int) -> None:
        numbered = number.to_bytes(NUMBER_BYTES, "big") + self._payload[NUMBER_BYTES:]
        self._awaited[number] = arrival = asyncio.get_running_loop().create_future()
        try:
            if self._plan.model == FIRE_AND_FORGET:
                await client.fire_and_forget(target, numbered, timeout_s=REQUEST_S)
            else:
                await client.metadata_push(target, numbered, timeout_s=REQUEST_S)
            await asyncio.wait_for(arrival, REQUEST_S)
        finally:
            del self._awaited[number]

    async def _sent(self) -> AsyncIterator[bytes]:
        for _ in range(self._plan.items_n):
            yield self._payload

    def _target(self, number: int) -> Address:
        if self._plan.target == MULTICAST:
            return multicast(self._name)
        if self._plan.target == SHARD:
            return shard(self._name, key="key", tags={"key": str(number % self._plan.keys_n)})
        return address(self._name)

    def _arrived(self, data: bytes) -> None:
        arrival = self._awaited.get(int.from_bytes(data[:NUMBER_BYTES], "big"))
        if arrival is not None and not arrival.done():  # the first one, of a multicast
            arrival.set_result(None)


async def measure(place: terminal.Place, plan: Plan, is_json: bool) -> int:
    """Runs it and prints what it measured; the exit status. ClientError when nobody answers."""
    bench = Bench(plan)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    calls: list[asyncio.Task[None]] = []
    took_s = 0.0
    async with contextlib.AsyncExitStack() as stack:

        async def connected(service: Service | None) -> Client:
            connecting = connect(place.url, service=service, ssl=place.ssl, credentials=place.credentials)
            return await stack.enter_async_context(connecting)

        for _ in range(plan.services_n):
            await connected(bench.service())
        clients = [await connected(None) for _ in range(plan.callers_n)]
        for client in clients:
            await bench.until_announced(client)
        with ProgressLine("getting warm") as line:
            bench.begin()
            calls = [asyncio.ensure_future(bench.call(each)) for each in clients for _ in range(plan.in_flight_n)]
            began_at = time.perf_counter()
            if not await _over(stop, plan.warm_up_s):
                bench.count()
                began_at = time.perf_counter()
                while not stop.is_set() and (took_s := time.perf_counter() - began_at) < plan.seconds:
                    done = bench.latencies.number
                    line.say(f"{done:,} requests, {done / max(took_s, 0.001):,.0f} a second, of {plan.seconds:g} s")
                    await _over(stop, min(SAY_S, plan.seconds - took_s))
            took_s = time.perf_counter() - began_at
        bench.is_over = True
        measured = Measured(plan, place.url, took_s, bench.latencies, dict(bench.errors), bench.items_n, stop.is_set())
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    loop.remove_signal_handler(signal.SIGINT)
    show(measured, is_json)
    if measured.is_interrupted:
        return exit_status.INTERRUPTED
    return exit_status.DONE if measured.latencies.number else exit_status.FAILED


async def _over(stop: asyncio.Event, seconds: float) -> bool:
    """Waits so long, or until Ctrl-C; True: that came."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()
