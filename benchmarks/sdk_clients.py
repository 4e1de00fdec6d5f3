"""One client process of `sdk.py` and `websocket.py`: a library, a model, a number of seconds; says what it did in JSON.

    python -m benchmarks.sdk_clients caller LIBRARY MODEL URL SECONDS [IN_FLIGHT [PID]]
    python -m benchmarks.sdk_clients service LIBRARY URL         until a line comes on its standard input

CPU time is that of this process, over the measured window (the first fifth is not in it), and of the process PID.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop

IN_FLIGHT_N: Final = 256
DATA: Final = b"x" * 100
ITEMS_N: Final = 4096  # of one stream, as the echo sends them
CREDIT_N: Final = 128
BURST_N: Final = 256  # fire-and-forget requests between two that are answered, which keep a sender from running away
WARM_UP: Final = 0.2


class Count:
    """What is complete, and since when it counts."""

    def __init__(self) -> None:
        self.done_n = 0


class Caller(NamedTuple):
    """How a library calls; `read` counts the items of a stream that it reads to its end."""

    ask: Callable[[], Awaitable[object]]
    tell: Callable[[], Awaitable[object]]
    read: Callable[[Count], Awaitable[None]]


async def measure(
    count: Count, seconds: float, workers: Sequence[Callable[[], Awaitable[None]]], other: str
) -> dict[str, float]:
    def look() -> dict[str, float]:
        return {
            "done": count.done_n,
            "cpu_s": time.process_time(),
            "wall_s": time.monotonic(),
            "other_cpu_s": cpu_s(other),
        }

    tasks = [asyncio.ensure_future(worker()) for worker in workers]
    await asyncio.sleep(seconds * WARM_UP)
    before = look()
    await asyncio.sleep(seconds * (1 - WARM_UP))
    figures = {name: value - before[name] for name, value in look().items()} | {"done_in_all": count.done_n}
    for task in tasks:
        if task.done():
            task.result()  # a worker that failed makes the figures worthless
        task.cancel()
    return figures


def cpu_s(pid: str) -> float:
    """CPU time of all threads of a process so far; 0 of none."""
    parts = Path(f"/proc/{pid}/task").glob("*/schedstat") if pid else ()
    return sum(int(part.read_text().split()[0]) for part in parts) / 1e9


async def call(
    library: str, model: str, url: str, seconds: str, in_flight: str = f"{IN_FLIGHT_N}", other: str = ""
) -> dict[str, float]:
    count = Count()
    async with CALLERS[library](url) as caller:

        async def ask() -> None:
            while True:
                await caller.ask()
                count.done_n += 1

        async def tell() -> None:
            while True:
                for _ in range(BURST_N):
                    await caller.tell()
                await caller.ask()
                count.done_n += BURST_N

        async def read() -> None:
            while True:
                await caller.read(count)

        workers = {
            "request_response": [ask] * int(in_flight),
            "fire_and_forget": [tell] * 4,
            "request_stream": [read],
            "request_stream x16": [read] * 16,
        }
        return await measure(count, float(seconds), workers[model], other)


@contextlib.asynccontextmanager
async def call_with_sdk(url: str) -> AsyncIterator[Caller]:
    from client_sdk import address, connect

    echo = address("echo")
    async with connect(url) as client:

        async def read(count: Count) -> None:
            async for _ in client.request_stream(echo, DATA, initial_n=CREDIT_N):
                count.done_n += 1

        yield Caller(partial(client.request_response, echo, DATA), partial(client.fire_and_forget, echo, DATA), read)


@contextlib.asynccontextmanager
async def call_with_rsocket_py(url: str) -> AsyncIterator[Caller]:
    from reactivestreams.subscriber import DefaultSubscriber
    from rsocket.payload import Payload

    from client_sdk import address
    from client_sdk.metadata import entry_bytes
    from rsocket_wire.wire.frames import MIME_TYPE

    metadata = entry_bytes(MIME_TYPE, address("echo").frame_bytes(bytes(15) + b"C"))
    payload = Payload(DATA, metadata)

    class Reader(DefaultSubscriber):  # type: ignore[misc]  # rsocket-py is not typed
        def __init__(self, count: Count) -> None:
            super().__init__()
            self.count = count
            self.ended = asyncio.get_running_loop().create_future()
            self.taken_n = 0

        def on_next(self, value: object, is_complete: bool = False) -> None:
            if value.data:  # type: ignore[attr-defined]
                self.count.done_n += 1
                self.taken_n += 1
                if self.taken_n == CREDIT_N // 2:
                    self.taken_n = 0
                    self.subscription.request(CREDIT_N // 2)
            if is_complete:
                self.on_complete()

        def on_complete(self) -> None:
            if not self.ended.done():
                self.ended.set_result(None)

    async with await rsocket_py_client(url) as client:

        async def read(count: Count) -> None:
            reader = Reader(count)
            client.request_stream(payload).initial_request_n(CREDIT_N).subscribe(reader)
            await reader.ended

        yield Caller(partial(client.request_response, payload), partial(client.fire_and_forget, payload), read)


@contextlib.asynccontextmanager
async def call_with_nats(url: str) -> AsyncIterator[Caller]:
    import nats

    client = await nats.connect(url)

    async def read(count: Count) -> None:
        """No credit in NATS: as many messages as a window has are asked for at a time. It never ends."""
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        body = (b"%d " % (CREDIT_N // 2)).ljust(len(DATA), b"x")
        for _ in range(2):
            await client.publish("items", body, reply=inbox)
        taken_n = 0
        async for _ in subscription.messages:
            count.done_n += 1
            taken_n += 1
            if taken_n == CREDIT_N // 2:
                taken_n = 0
                await client.publish("items", body, reply=inbox)

    yield Caller(partial(client.request, "echo", DATA, timeout=10), partial(client.publish, "nobody", DATA), read)
    await client.close()


async def rsocket_py_client(url: str, **options: Any) -> Any:
    """One of rsocket-py, to be entered."""
    from rsocket.extensions.mimetypes import WellKnownMimeTypes
    from rsocket.helpers import single_transport_provider
    from rsocket.rsocket_client import RSocketClient
    from rsocket.transports.tcp import TransportTCP

    connection = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    return RSocketClient(
        single_transport_provider(TransportTCP(*connection)),
        metadata_encoding=WellKnownMimeTypes.MESSAGE_RSOCKET_COMPOSITE_METADATA,
        data_encoding=WellKnownMimeTypes.APPLICATION_OCTET_STREAM,
        **options,
    )


async def serve_with_sdk(url: str) -> None:
    from client_sdk import Service, connect

    service = Service("echo")

    @service.request_response()
    async def answer(data: bytes) -> bytes:
        return data

    async with connect(url, service=service):
        await report()


async def serve_with_rsocket_py(url: str) -> None:
    from rsocket.helpers import create_future
    from rsocket.payload import Payload
    from rsocket.request_handler import BaseRequestHandler

    from client_sdk.metadata import entry_bytes
    from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup

    class Echo(BaseRequestHandler):  # type: ignore[misc]  # rsocket-py is not typed
        async def request_response(self, payload: Any) -> Any:
            return create_future(Payload(payload.data))

    offer = entry_bytes(MIME_TYPE, RouteSetup(bytes(15) + b"P", "echo", []).encode())
    async with await rsocket_py_client(url, handler_factory=Echo, setup_payload=Payload(None, offer)):
        await report()


async def serve_with_nats(url: str) -> None:
    import nats

    client = await nats.connect(url)

    async def answer(message: Any) -> None:
        await message.respond(message.data)

    await client.subscribe("echo", cb=answer)
    await client.flush()
    await report()
    await client.close()


async def report() -> None:
    """`ready`; then for each line that comes the CPU time so far, until there are no more."""
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(time.process_time()), flush=True)


CALLERS: Final[dict[str, Any]] = {
    "client_sdk": call_with_sdk,
    "rsocket-py": call_with_rsocket_py,
    "nats-py": call_with_nats,
}
SERVICES: Final[dict[str, Any]] = {
    "client_sdk": serve_with_sdk,
    "rsocket-py": serve_with_rsocket_py,
    "nats-py": serve_with_nats,
}

if __name__ == "__main__":
    if sys.argv[1] == "caller":
        print(json.dumps(uvloop.run(call(*sys.argv[2:]))))
    else:
        uvloop.run(SERVICES[sys.argv[2]](sys.argv[3]))
