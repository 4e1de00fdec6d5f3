"""The same bytes over a real socket: what a stranger needs is an RSocket length before each frame, and no library."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from broker.server import Server
from tests.conformance import scripts
from tests.conformance.scripts import SERVICE_NAME, U, address, forwarding, frame, on, request, setup, u64

WAIT_S = 10.0


class Socket:
    """A connection that says and hears frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, *frames: bytes) -> None:
        for raw in frames:
            self._writer.write(scripts.u24(len(raw)) + raw)
        await self._writer.drain()

    async def hear(self) -> bytes:
        async with asyncio.timeout(WAIT_S):
            size = int.from_bytes(await self._reader.readexactly(3), "big")
            return await self._reader.readexactly(size)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def opened(server: Server, first: bytes) -> Socket:
    """A connection whose SETUP was read: the broker has answered what came behind it."""
    url = urlsplit(next(each for each in server.listeners if each.startswith("tcp://")))
    socket = Socket(*await asyncio.open_connection(url.hostname, url.port))
    await socket.say(first, frame(0, 0x03, 0x080, u64(0) + b"here"))
    assert await socket.hear() == frame(0, 0x03, 0, u64(0) + b"here")
    return socket


async def test_scripts_pass_over_a_real_socket(server: Server) -> None:
    raw_setup = setup(scripts.COMPOSITE, forwarding(scripts.route_setup(1, "orders", (scripts.REGION, "eu"))))
    orders = await opened(server, raw_setup)
    caller = await opened(server, setup(scripts.COMPOSITE))
    metadata = forwarding(address(U, (SERVICE_NAME, "orders"), (scripts.REGION, "eu"), wrapped=b"\x00\xff"))
    asked = request(scripts.REQUEST_RESPONSE, 1, metadata)
    await caller.say(asked)
    assert await orders.hear() == on(2, asked)
    answer = scripts.payload(2, scripts.NEXT | scripts.COMPLETE, b"yes", b"m")
    await orders.say(answer)
    assert await caller.hear() == on(1, answer)
    await caller.say(request(scripts.REQUEST_RESPONSE, 3, forwarding(address(U | scripts.M, (SERVICE_NAME, "orders")))))
    text = "bad-address: more than one of unicast, multicast and shard is set (flags 0x0c0)"
    assert await caller.hear() == scripts.error(3, scripts.INVALID, text)
    await caller.close()
    await orders.close()
