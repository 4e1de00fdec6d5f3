"""One client process of `sdk.py`: a library, a model, a number of seconds; says what it did as one line of JSON.

    python sdk_clients.py caller LIBRARY MODEL PORT SECONDS
    python sdk_clients.py service LIBRARY PORT            until a line comes on its standard input

CPU time is that of this process, over the measured window (the first fifth is not in it).
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

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


async def measure(count: Count, seconds: float, workers: list[Callable[[], Awaitable[None]]]) -> dict[str, float]:
    tasks = [asyncio.ensure_future(worker()) for worker in workers]
    await asyncio.sleep(seconds * WARM_UP)
    done_n, cpu_s, wall_s = count.done_n, time.process_time(), time.monotonic()
    await asyncio.sleep(seconds * (1 - WARM_UP))
    figures = {
        "done": count.done_n - done_n,
        "cpu_s": time.process_time() - cpu_s,
        "wall_s": time.monotonic() - wall_s,
        "done_in_all": count.done_n,
    }
    for task in tasks:
        if task.done():
            task.result()  # a worker that failed makes the figures worthless
        task.cancel()
    return figures


async def call_with_sdk(model: str, port: int, seconds: float) -> dict[str, float]:
    from client_sdk import address, connect

    count = Count()
    echo = address("echo")
    async with connect(f"tcp://127.0.0.1:{port}") as client:

        async def ask() -> None:
            while True:
                await client.request_response(echo, DATA)
                count.done_n += 1

        async def tell() -> None:
            while True:
                for _ in range(BURST_N):
                    await client.fire_and_forget(echo, DATA)
                await client.request_response(echo, DATA)
                count.done_n += BURST_N

        async def read() -> None:
            while True:
                async for _ in client.request_stream(echo, DATA, initial_n=CREDIT_N):
                    count.done_n += 1

        return await measure(count, seconds, workers_of(model, ask, tell, read))


async def call_with_rsocket_py(model: str, port: int, seconds: float) -> dict[str, float]:
    from reactivestreams.subscriber import DefaultSubscriber
    from rsocket.extensions.mimetypes import WellKnownMimeTypes
    from rsocket.helpers import single_transport_provider
    from rsocket.payload import Payload
    from rsocket.rsocket_client import RSocketClient
    from rsocket.transports.tcp import TransportTCP

    from client_sdk import address
    from client_sdk.metadata import entry_bytes
    from rsocket_wire.wire.frames import MIME_TYPE

    count = Count()
    metadata = entry_bytes(MIME_TYPE, address("echo").frame_bytes(bytes(15) + b"C"))
    payload = Payload(DATA, metadata)

    class Reader(DefaultSubscriber):  # type: ignore[misc]  # rsocket-py is not typed
        def __init__(self) -> None:
            super().__init__()
            self.ended = asyncio.get_running_loop().create_future()
            self.taken_n = 0

        def on_next(self, value: object, is_complete: bool = False) -> None:
            if value.data:  # type: ignore[attr-defined]
                count.done_n += 1
                self.taken_n += 1
                if self.taken_n == CREDIT_N // 2:
                    self.taken_n = 0
                    self.subscription.request(CREDIT_N // 2)
            if is_complete:
                self.on_complete()

        def on_complete(self) -> None:
            if not self.ended.done():
                self.ended.set_result(None)

    connection = await asyncio.open_connection("127.0.0.1", port)
    async with RSocketClient(
        single_transport_provider(TransportTCP(*connection)),
        metadata_encoding=WellKnownMimeTypes.MESSAGE_RSOCKET_COMPOSITE_METADATA,
        data_encoding=WellKnownMimeTypes.APPLICATION_OCTET_STREAM,
    ) as client:

        async def ask() -> None:
            while True:
                await client.request_response(payload)
                count.done_n += 1

        async def tell() -> None:
            while True:
                for _ in range(BURST_N):
                    await client.fire_and_forget(payload)
                await client.request_response(payload)
                count.done_n += BURST_N

        async def read() -> None:
            while True:
                reader = Reader()
                client.request_stream(payload).initial_request_n(CREDIT_N).subscribe(reader)
                await reader.ended

        return await measure(count, seconds, workers_of(model, ask, tell, read))


async def call_with_nats(model: str, port: int, seconds: float) -> dict[str, float]:
    import nats

    count = Count()
    client = await nats.connect(f"nats://127.0.0.1:{port}")

    async def ask() -> None:
        while True:
            await client.request("echo", DATA, timeout=10)
            count.done_n += 1

    async def tell() -> None:
        while True:
            for _ in range(BURST_N):
                await client.publish("nobody", DATA)
            await client.request("echo", DATA, timeout=10)
            count.done_n += BURST_N

    async def read() -> None:
        """No credit in NATS: as many messages as a window has are asked for at a time."""
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

    figures = await measure(count, seconds, workers_of(model, ask, tell, read))
    await client.close()
    return figures


def workers_of(model: str, ask: Any, tell: Any, read: Any) -> list[Callable[[], Awaitable[None]]]:
    return {
        "request_response": [ask] * IN_FLIGHT_N,
        "fire_and_forget": [tell] * 4,
        "request_stream": [read],
        "request_stream x16": [read] * 16,
    }[model]


async def serve_with_sdk(port: int) -> None:
    from client_sdk import Service, connect

    service = Service("echo")

    @service.request_response()
    async def answer(data: bytes) -> bytes:
        return data

    async with connect(f"tcp://127.0.0.1:{port}", service=service):
        await report()


async def serve_with_rsocket_py(port: int) -> None:
    from rsocket.extensions.mimetypes import WellKnownMimeTypes
    from rsocket.helpers import create_future, single_transport_provider
    from rsocket.payload import Payload
    from rsocket.request_handler import BaseRequestHandler
    from rsocket.rsocket_client import RSocketClient
    from rsocket.transports.tcp import TransportTCP

    from client_sdk.metadata import entry_bytes
    from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup

    class Echo(BaseRequestHandler):  # type: ignore[misc]  # rsocket-py is not typed
        async def request_response(self, payload: Any) -> Any:
            return create_future(Payload(payload.data))

    connection = await asyncio.open_connection("127.0.0.1", port)
    offer = entry_bytes(MIME_TYPE, RouteSetup(bytes(15) + b"P", "echo", []).encode())
    async with RSocketClient(
        single_transport_provider(TransportTCP(*connection)),
        handler_factory=Echo,
        metadata_encoding=WellKnownMimeTypes.MESSAGE_RSOCKET_COMPOSITE_METADATA,
        data_encoding=WellKnownMimeTypes.APPLICATION_OCTET_STREAM,
        setup_payload=Payload(None, offer),
    ):
        await report()


async def serve_with_nats(port: int) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")

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
        library, model, port, seconds = sys.argv[2:6]
        print(json.dumps(uvloop.run(CALLERS[library](model, int(port), float(seconds)))))
    else:
        uvloop.run(SERVICES[sys.argv[2]](int(sys.argv[3])))
