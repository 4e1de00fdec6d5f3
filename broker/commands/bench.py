"""`rsocket-broker bench`: a quick look at how fast a running broker answers from here.

One process is the callers and an echoing service, written in Python on the project's own frames: it costs more than the
broker does, so it tells latency and that all is well, not the broker's limit. That is what `make bench` measures.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.table import Table

from rsocket_wire.ports import DEFAULT_URL
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_entry
from rsocket_wire.wire.frames import MIME_TYPE, Address, RouteSetup
from rsocket_wire.wire.tags import Tag

WARM_UP = 0.2  # part of the time that is not counted
EXIT_FAILED = 1


class _Side(asyncio.Protocol):
    """One connection of the bench: frames in, frames out."""

    def __init__(self, metadata: bytes | None) -> None:
        self._cursor = FrameCursor(True)
        self._setup = frames.Setup(COMPOSITE_MIME, "application/octet-stream", 3_600_000, 7_200_000, metadata).encode()
        self._out: list[bytes] = []
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.put(self._setup)
        self.write_out()

    def data_received(self, data: bytes) -> None:
        self._cursor.feed(data, 0.0)
        while self._cursor.advance():
            if self._cursor.kind == frames.KEEPALIVE and self._cursor.flags & frames.RESPOND:
                self.put(frames.encode_keepalive(b""))
            elif self._cursor.kind == frames.ERROR and self._cursor.stream_id == 0:
                self._fail(self._cursor.data[self._cursor.start + 10 : self._cursor.end].decode(errors="replace"))
            else:
                self.handle(self._cursor)
        self.write_out()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the broker closed the connection")

    def handle(self, frame: FrameCursor) -> None:
        """A frame of a stream."""

    def put(self, raw: bytes) -> None:
        self._out.append(len(raw).to_bytes(3, "big") + raw)

    def write_out(self) -> None:
        if self._out:
            self._transport.write(b"".join(self._out))  # type: ignore[attr-defined]  # a Transport, uvloop's too
            self._out.clear()

    def close(self) -> None:
        self._transport.close()

    def _fail(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)


class _Echo(_Side):
    def handle(self, frame: FrameCursor) -> None:
        if frame.kind == frames.REQUEST_RESPONSE:
            _, to = frames.request_parts(frame.data, frame.start, frame.end, frame.kind, frame.flags)
            self.put(frames.encode_payload(frame.stream_id, frames.NEXT | frames.COMPLETE, frame.data[to : frame.end]))


class _Caller(_Side):
    def __init__(self, metadata: bytes, payload: bytes) -> None:
        super().__init__(None)
        self._metadata = metadata
        self._payload = payload
        self._next_id = 1
        self._began: dict[int, float] = {}
        self.latencies_us: list[float] = []
        self.errors = 0
        self.is_over = False
        self._answer = asyncio.Event()

    async def answered(self) -> None:
        """Until the next answer, or until the connection is gone."""
        self._answer.clear()
        waits = [asyncio.ensure_future(self._answer.wait()), self.lost]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)

    def ask(self, number: int) -> None:
        for _ in range(number):
            self._began[self._next_id] = time.perf_counter()
            self.put(frames.encode_request(frames.REQUEST_RESPONSE, self._next_id, self._payload, self._metadata))
            self._next_id += 2

    def handle(self, frame: FrameCursor) -> None:
        began = self._began.pop(frame.stream_id, None)
        if began is None:
            return
        if frame.kind == frames.PAYLOAD:
            self.latencies_us.append((time.perf_counter() - began) * 1e6)
        else:
            self.errors += 1
        self._answer.set()
        if not self.is_over:
            self.ask(1)


@click.command()
@click.argument("url", default=DEFAULT_URL, metavar="[URL]")
@click.option("--connections", default=4, show_default=True, type=click.IntRange(1, 1000))
@click.option("--in-flight", default=16, show_default=True, type=click.IntRange(1, 4096), help="Per connection.")
@click.option("--payload-bytes", default=100, show_default=True, type=click.IntRange(0, 1 << 20))
@click.option("--seconds", default=5.0, show_default=True, type=click.FloatRange(0.5, 600))
def bench(url: str, connections: int, in_flight: int, payload_bytes: int, seconds: float) -> None:
    """Measure request/response through the broker at URL (tcp, tls or unix) with an echo service of its own."""
    problem = asyncio.run(_bench(url, connections, in_flight, payload_bytes, seconds))
    if problem:
        click.echo(f"rsocket-broker: {problem}", err=True)
        raise SystemExit(EXIT_FAILED)


async def _bench(url: str, connections: int, in_flight: int, payload_bytes: int, seconds: float) -> str:
    """Runs it and prints the table; the problem when there is one."""
    name = f"bench-{os.getpid()}-{os.urandom(3).hex()}"
    route = RouteSetup(os.urandom(16), name, []).encode()
    raw_address = Address(os.urandom(16), [Tag.of("service", name)]).encode()
    metadata = encode_entry(MIME_TYPE.encode(), raw_address)
    sides: list[_Side] = []
    try:
        service = _Echo(encode_entry(MIME_TYPE.encode(), route))
        sides.append(service)
        await _dial(url, service)
        callers = [_Caller(metadata, bytes(payload_bytes)) for _ in range(connections)]
        sides += callers
        for caller in callers:
            await _dial(url, caller)
        await _until_announced(callers[0])
        return await _measure(url, callers, sides, in_flight, payload_bytes, seconds)
    except (OSError, ValueError, TimeoutError) as error:
        return f"{url}: {error or 'no answer'}"
    finally:
        for side in sides:
            if hasattr(side, "_transport"):
                side.close()


async def _until_announced(caller: _Caller) -> None:
    """Asks until the service's route is there: its SETUP travels on another connection."""
    for _ in range(500):
        caller.is_over = True
        caller.ask(1)
        caller.write_out()
        await caller.answered()
        if caller.latencies_us or caller.lost.done():
            caller.latencies_us.clear()
            caller.errors = 0
            caller.is_over = False
            return
        caller.errors = 0
    raise TimeoutError("the bench's own service cannot be reached")


async def _measure(
    url: str, callers: list[_Caller], sides: list[_Side], in_flight: int, payload_bytes: int, seconds: float
) -> str:
    for caller in callers:
        caller.ask(in_flight)
        caller.write_out()
    losses = [side.lost for side in sides]
    done, _ = await asyncio.wait(losses, timeout=seconds * WARM_UP, return_when=asyncio.FIRST_COMPLETED)
    for caller in callers:
        caller.latencies_us.clear()
    began = time.perf_counter()
    if not done:
        done, _ = await asyncio.wait(losses, timeout=seconds * (1 - WARM_UP), return_when=asyncio.FIRST_COMPLETED)
    took_s = time.perf_counter() - began
    for caller in callers:
        caller.is_over = True
    if done:
        return f"{url}: {done.pop().result()}"
    latencies = sorted(us for caller in callers for us in caller.latencies_us)
    if not latencies:
        return f"{url}: no request was answered"
    table = Table(title=f"request_response through {url}")
    for column in ("connections", "in flight", "bytes", "requests/s", "p50 µs", "p99 µs", "p99.9 µs", "errors"):
        table.add_column(column, justify="right")
    values = [len(callers), in_flight, payload_bytes, round(len(latencies) / took_s)]
    values += [round(latencies[min(len(latencies) - 1, int(len(latencies) * q))]) for q in (0.5, 0.99, 0.999)]
    table.add_row(*(f"{value:,}" for value in [*values, sum(caller.errors for caller in callers)]))
    Console().print(table)
    return ""


async def _dial(url: str, side: _Side) -> None:
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    if parts.scheme == "unix":
        await loop.create_unix_connection(lambda: side, parts.path)
    elif parts.scheme in ("tcp", "tls") and parts.hostname and parts.port:
        context = ssl.create_default_context() if parts.scheme == "tls" else None
        await loop.create_connection(lambda: side, parts.hostname, parts.port, ssl=context)
    else:
        raise ValueError("bench takes tcp://HOST:PORT, tls://HOST:PORT or unix:///PATH")
