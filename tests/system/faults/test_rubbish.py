"""Bytes that are no RSocket: whoever sends them is closed with a reason, and nobody else notices."""

import asyncio
import logging
import random

import aiohttp
import pytest

from broker.edge.websocket import WEBSOCKET_HERE
from broker.server import Server
from rsocket_wire.errors import CONNECTION_ERROR, INVALID_SETUP
from rsocket_wire.rsocket.frames import ERROR, REQUEST_FNF
from tests.conftest import MakeServer
from tests.fakes import Frame
from tests.system.support.waits import soon, until
from tests.system.support.wires import Wire, url_of

SETUP_TIMEOUT_S = 0.3


@pytest.fixture
async def impatient(make_server: MakeServer) -> Server:
    """Waits for a SETUP no longer than a test wants to."""
    return await make_server(**{"limits.setup_timeout_s": SETUP_TIMEOUT_S})


class Bystanders:
    """A service and a caller on each transport: what they say after the rubbish is as before it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.callers: list[Wire] = []

    async def __aenter__(self) -> "Bystanders":
        for at, scheme in enumerate(("tcp", "ws")):
            service = await Wire.service(url_of(self.server, scheme), scheme, at + 1)
            service.begin_echo()
            self.callers.append(await Wire.caller(url_of(self.server, scheme)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.are_well()

    async def are_well(self) -> None:
        for caller in self.callers:
            for scheme in ("tcp", "ws"):
                assert (await caller.ask(scheme, b"still here?")).data == b"still here?"


def reason(frames: list[Frame]) -> tuple[int, str]:
    """Code and code word of the one ERROR on stream 0."""
    (frame,) = frames
    assert (frame.kind, frame.stream_id) == (ERROR, 0)
    return frame.code, frame.text.split(":")[0]


async def test_random_bytes_on_tcp(impatient: Server) -> None:
    chance = random.Random(7)

    async def say(data: bytes) -> None:
        wire = await Wire.connect(url_of(impatient, "tcp"))
        wire.stream.send_bytes(data)
        assert reason(await wire.rest()) in [
            (CONNECTION_ERROR, "bad-frame"),
            (INVALID_SETUP, "bad-setup"),
            (INVALID_SETUP, "setup-timeout"),
        ]
        await wire.close()

    async with Bystanders(impatient):
        sizes = [1, 2, 3, 5, 9, 64, 1000, 70_000] * 4
        await asyncio.gather(*(say(chance.randbytes(size)) for size in sizes))
        await until(lambda: len(impatient.core.peers()) == 4)


async def test_random_bytes_behind_a_setup(impatient: Server) -> None:
    chance = random.Random(8)
    async with Bystanders(impatient):
        for scheme in ("tcp", "ws"):
            for _ in range(20):
                wire = await Wire.caller(url_of(impatient, scheme))
                for _ in range(20):
                    wire.send(chance.randbytes(chance.randrange(6, 60)))
                # Some of it is a frame by chance, and some of those may be ignored: then the connection lives on.
                wire.transport.abort()
                await wire.close()
        await until(lambda: len(impatient.core.peers()) == 4)


async def test_random_messages_on_websocket(impatient: Server) -> None:
    chance = random.Random(9)
    async with Bystanders(impatient):
        for size in (1, 5, 6, 9, 64, 1000, 70_000):
            wire = await Wire.connect(url_of(impatient, "ws"))
            wire.send(chance.randbytes(size))
            assert reason(await wire.rest())[1] in ("bad-frame", "bad-setup")
            await wire.close()


async def test_an_http_request_to_the_tcp_port_is_told_what_it_is(server: Server) -> None:
    async with Bystanders(server), aiohttp.ClientSession() as session:
        url = url_of(server, "tcp").replace("tcp://", "http://")
        for method in ("GET", "POST"):
            async with session.request(method, url, data=b"hello") as answer:
                assert answer.status == 400
                assert answer.headers["Connection"] == "close"
                assert answer.content_type == "text/plain"
                assert (await answer.text()).startswith("This port speaks RSocket without HTTP (tcp://, tls://). ")


async def test_http_behind_a_setup_is_no_frame(make_server: MakeServer) -> None:
    server = await make_server(**{"limits.max_frame_bytes": 1 << 20})
    wire = await Wire.caller(url_of(server, "tcp"))
    wire.stream.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
    assert reason(await wire.rest()) == (CONNECTION_ERROR, "bad-frame")
    await wire.close()


async def test_an_http_request_to_the_websocket_port_is_told_what_it_is(server: Server) -> None:
    async with Bystanders(server), aiohttp.ClientSession() as session:
        url = url_of(server, "ws").replace("ws://", "http://")
        async with session.get(url) as answer:
            assert (answer.status, await answer.text()) == (426, f"{WEBSOCKET_HERE}\n")
        async with session.post(url, data=b"hello") as answer:
            assert answer.status == 400  # it has a body


async def test_the_log_says_what_its_caller_cannot_be_told(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "broker"):
        wire = await Wire.caller(url_of(server, "tcp"))
        for _ in range(2):
            wire.request("nobody", b"", REQUEST_FNF)
        await until(lambda: caplog.messages)
        await wire.close()
    assert caplog.messages == [
        "service=nobody: a fire_and_forget was dropped, and its caller cannot be told: no route has service=nobody; "
        "start the service or correct the tags"
    ]


async def test_a_connection_that_breaks_off_in_a_frame(server: Server) -> None:
    async with Bystanders(server):
        for raw in (b"\0", b"\0\0\x20\0\0", b"\0\0\x20" + bytes(10)):
            wire = await Wire.connect(url_of(server, "tcp"))
            wire.stream.send_bytes(raw)
            wire.stream.writer.write_eof()
            await soon(wire.stream.reader.read())  # until the broker closes too
            await wire.close()
