"""Callers and services on the client SDK, all at work, whose every call is timed: none may hang."""

import asyncio
import contextlib
import gc
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from client_sdk import Client, ClientError, Payload, Service, address, connect
from client_sdk.calls.retry import RetryBudget, RetryPolicy
from tests.system.support.vitals import resident_kib

SERVICES = 3
CALLERS = 2
PLAIN_S = 2.0  # deadline of calls that are made once
IDEMPOTENT_S = 30.0  # deadline of calls that are made until they succeed: more than any broker is away
SLACK_S = 1.5  # for a call to end after its deadline, on a machine that starts brokers meanwhile
BACK_S = 2.0  # for a service, after a broker listens
PAUSE_S = 0.005  # between two calls of one task: brokers want to start beside them
FAILED_PAUSE_S = 0.03  # after one that failed
ITEMS = 20
MAX_FAULTS = 10  # that are told; one is too many
AGAIN = RetryPolicy(
    attempts=1000, first_delay_s=0.02, max_delay_s=0.1, budget=RetryBudget(ratio=100.0, min_per_s=10_000.0)
)


def worker() -> Service:
    """All models, each with an answer that is known beforehand."""
    service = Service("worker")

    @service.request_response()
    async def answer(data: bytes) -> bytes:
        await asyncio.sleep(0)
        return data

    @service.fire_and_forget()
    async def note(data: bytes) -> None:
        await asyncio.sleep(0)

    @service.request_stream()
    async def count(data: bytes) -> AsyncIterator[bytes]:
        for number in range(ITEMS):
            yield data + b"/%d" % number

    @service.request_stream("ticks")
    async def ticks(data: bytes) -> AsyncIterator[bytes]:
        while True:
            yield b"tick"
            await asyncio.sleep(0.01)

    @service.request_channel()
    async def echo(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
        async for payload in payloads:
            yield payload

    return service


async def numbers() -> AsyncIterator[bytes]:
    for number in range(ITEMS):
        yield b"%d" % number


class Load:
    """Services, callers and a probe, with the same addresses of brokers; `async with` begins and ends all."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.ended: Counter[str] = Counter()  # by how calls ended: ok, or the name of the error
        self.faults: list[str] = []
        self._urls = list(urls)
        self._may_run = asyncio.Event()
        self._busy = 0  # calls on the way
        self._clients = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._probe: Client | None = None  # within `async with`

    async def __aenter__(self) -> "Load":
        options = {"keepalive_s": 0.5, "lifetime_s": 3.0, "connect_timeout_s": 1.5}
        for number in range(SERVICES):
            tags = {"n": str(number)}
            await self._clients.enter_async_context(
                connect(self._urls_from(number), service=worker(), tags=tags, **options)  # type: ignore[arg-type]
            )
        self._probe = await self._clients.enter_async_context(connect(self._urls, **options))  # type: ignore[arg-type]
        for number in range(CALLERS):
            urls = self._urls_from(number + 1)
            client = await self._clients.enter_async_context(connect(urls, **options))  # type: ignore[arg-type]
            works = (
                self._sure,
                self._sure,
                self._plain,
                self._plain,
                self._stream,
                self._channel,
                self._note,
                self._tick,
            )
            self._tasks += [asyncio.create_task(self._repeat(work, client, number)) for work in works]
        self._may_run.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._clients.aclose()

    async def assert_back(self, what: str) -> None:
        """Every service answers a call of the probe within BACK_S from now."""
        probe = self._probe
        assert probe is not None

        async def ask(number: int) -> float:
            began_at = asyncio.get_running_loop().time()
            to = address("worker", n=str(number))
            await probe.request_response(
                to, b"back?", idempotent=True, retry=AGAIN, wait_for_reconnect=IDEMPOTENT_S, timeout_s=IDEMPOTENT_S
            )
            return asyncio.get_running_loop().time() - began_at

        took_s = await asyncio.gather(*(ask(number) for number in range(SERVICES)))
        assert max(took_s) < BACK_S, f"{what}: the services were back after {', '.join(f'{s:.2f}' for s in took_s)} s"

    async def more(self, count: int) -> None:
        """Waits until so many more calls have succeeded."""
        before = self.ended["ok"]
        async with asyncio.timeout(IDEMPOTENT_S):
            while self.ended["ok"] < before + count:
                await asyncio.sleep(PAUSE_S)

    async def rest(self) -> dict[str, int]:
        """What is held when no call is on the way; afterwards they go on."""
        self._may_run.clear()
        async with asyncio.timeout(IDEMPOTENT_S):
            while self._busy:
                await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(0.2)  # handlers of calls that have ended learn it
        gc.collect()
        held = {"tasks": len(asyncio.all_tasks()), "sockets": open_sockets(), "resident KiB": resident_kib(os.getpid())}
        self._may_run.set()
        return held

    def assert_good(self) -> None:
        """No call hung, none that had to succeed failed, and no answer was wrong."""
        assert not self.faults, f"{len(self.faults)} faults: {self.faults[:MAX_FAULTS]}"

    async def _repeat(self, work: Callable[[Client, bytes], Awaitable[None]], client: Client, caller: int) -> None:
        number = 0
        loop = asyncio.get_running_loop()
        while True:
            await self._may_run.wait()
            number += 1
            began_at, pause_s = loop.time(), PAUSE_S
            deadline_s = IDEMPOTENT_S if work == self._sure else PLAIN_S
            self._busy += 1
            try:
                async with asyncio.timeout(deadline_s + 2 * SLACK_S) as bound:
                    await work(client, b"%d-%d" % (caller, number))
                self.ended["ok"] += 1
            except ClientError as error:
                self.ended[type(error).__name__] += 1
                pause_s = FAILED_PAUSE_S
                if work == self._sure:
                    self._blame(f"an idempotent call failed: {error!r}")
            except Exception as error:
                self._blame(f"{'hung' if bound.expired() else 'wrong'}: {work.__name__}: {error!r}")
            finally:
                self._busy -= 1
            took_s = loop.time() - began_at
            if took_s > deadline_s + SLACK_S:
                self._blame(f"{work.__name__} took {took_s:.1f} s, its deadline is {deadline_s:g} s")
            await asyncio.sleep(pause_s)

    async def _sure(self, client: Client, data: bytes) -> None:
        answer = await client.request_response(
            address("worker"),
            data,
            idempotent=True,
            retry=AGAIN,
            wait_for_reconnect=IDEMPOTENT_S,
            timeout_s=IDEMPOTENT_S,
        )
        assert answer.data == data

    async def _plain(self, client: Client, data: bytes) -> None:
        assert (await client.request_response(address("worker"), data, timeout_s=PLAIN_S)).data == data

    async def _stream(self, client: Client, data: bytes) -> None:
        flow = client.request_stream(address("worker"), data, initial_n=4, timeout_s=PLAIN_S)
        assert [each.data async for each in flow] == [data + b"/%d" % number for number in range(ITEMS)]

    async def _channel(self, client: Client, data: bytes) -> None:
        flow = client.request_channel(address("worker"), numbers(), initial_n=4, timeout_s=PLAIN_S)
        assert [each.data async for each in flow] == [b"%d" % number for number in range(ITEMS)]

    async def _note(self, client: Client, data: bytes) -> None:
        await client.fire_and_forget(address("worker"), data, timeout_s=PLAIN_S)

    async def _tick(self, client: Client, data: bytes) -> None:
        """A stream that is open most of the time, whatever happens to its broker."""
        flow = client.request_stream(address("worker"), data, route="ticks", initial_n=2, timeout_s=PLAIN_S)
        async with flow:
            for _ in range(20):
                assert (await anext(flow)).data == b"tick"

    def _urls_from(self, number: int) -> list[str]:
        """All addresses, so that not everybody begins at the same broker."""
        at = number % len(self._urls)
        return self._urls[at:] + self._urls[:at]

    def _blame(self, fault: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(fault)


def open_sockets() -> int:
    """Of this process."""
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder itself was among them
            count += os.readlink(each).startswith("socket:")
    return count
