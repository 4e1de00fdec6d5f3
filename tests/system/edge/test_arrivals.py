"""Connections that are not yet what they are to be: no WebSocket, no SETUP. They are few, and not for long."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from broker.forwarding.peer import MAX_SETUP_BYTES
from rsocket_wire.upgrade import MAX_HEAD_BYTES
from tests.conftest import MakeServer, StartBroker
from tests.system.support.waits import soon
from tests.system.support.wires import Closed, Wire, url_of

SETUP_TIMEOUT_S = 0.3
HALF_A_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: webs"
A_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def opened(url: str, count: int, said: bytes = b"") -> AsyncIterator[list[Stream]]:
    """Bare TCP connections to the URL's port that say this and then nothing."""
    parts = urlsplit(url)
    made = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(count)]
    for _, writer in made:
        writer.write(said)
    try:
        yield made
    finally:
        for _, writer in made:
            writer.transport.abort()


async def are_closed(streams: list[Stream]) -> None:
    for reader, _ in streams:
        with contextlib.suppress(ConnectionError):
            await soon(reader.read())


@pytest.mark.parametrize("said", [b"", HALF_A_REQUEST, A_REQUEST], ids=["nothing", "half a request", "no upgrade"])
async def test_what_does_not_become_a_websocket_in_time_is_closed(start_broker: StartBroker, said: bytes) -> None:
    broker = start_broker(limits__setup_timeout_s=SETUP_TIMEOUT_S)
    wire = await Wire.caller(broker.url("ws"))
    async with opened(broker.url("ws"), 20, said) as streams:
        await are_closed(streams)
    await wire.ping()  # a WebSocket has no such deadline
    assert "Traceback" not in broker.errors


async def test_connections_that_are_no_websockets_yet_are_counted(start_broker: StartBroker) -> None:
    """On the event loop that brokers run on."""
    broker = start_broker(limits__max_connections=3, limits__setup_timeout_s=60)
    async with opened(broker.url("ws"), 3), opened(broker.url("ws"), 2) as streams:
        await are_closed(streams)
    await Wire.caller(broker.url("ws"))  # they are gone, and so it has room
    assert "Traceback" not in broker.errors


async def test_a_first_message_beyond_the_bound_is_refused_by_its_length(start_broker: StartBroker) -> None:
    broker = start_broker()
    wire = await Wire.connect(broker.url("ws"))
    sending = asyncio.create_task(wire.messages.ws.send_bytes(bytes(16_000_000)))
    (frame,) = await wire.rest()
    assert frame.text == f"bad-frame: a frame of 16000000 bytes, the limit is {MAX_SETUP_BYTES}"
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    wire.transport.abort()


async def test_a_caller_may_send_much_behind_its_setup_without_waiting(start_broker: StartBroker) -> None:
    broker = start_broker()
    service = await Wire.service(broker.url("tcp"), "orders", 1)
    for _ in range(5):
        caller = await Wire.connect(broker.url("ws"))
        caller.setup()
        for _ in range(10):
            caller.request("orders", bytes(MAX_SETUP_BYTES + MAX_HEAD_BYTES), kind=0x05)
        for _ in range(10):
            assert len((await service.receive()).data) == MAX_SETUP_BYTES + MAX_HEAD_BYTES
        await caller.ping()
        await caller.close()


async def test_a_setup_beyond_256_kib_is_refused_on_both_transports(make_server: MakeServer) -> None:
    server = await make_server()
    for scheme in ("tcp", "ws"):
        wire = await Wire.connect(url_of(server, scheme))
        wire.send(bytes(MAX_SETUP_BYTES + 1))
        (frame,) = await wire.rest()
        assert frame.text.startswith("bad-frame:")
        with contextlib.suppress(Closed, ConnectionError):
            await wire.close()
