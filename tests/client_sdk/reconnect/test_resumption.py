"""Broken sockets that no call and no stream notices, through the broker of this project."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from client_sdk import Client, ConnectionLost, Payload, Service, address, connect
from client_sdk.testing import local_broker


class Relay:
    """Between clients and a broker; its connections can be cut, and it can be deaf for a while."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._server.wait_closed()

    def cut(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, answer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, answer]
        for source, target in ((reader, answer), (there, writer)):
            task = asyncio.create_task(self._pass_on(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1000):
                target.write(data)
                await target.drain()
        target.close()


def numbers() -> tuple[Service, asyncio.Event, asyncio.Event]:
    service = Service("numbers")
    began, go_on = asyncio.Event(), asyncio.Event()

    @service.request_response()
    async def slow(data: bytes) -> bytes:
        began.set()
        await go_on.wait()
        return data

    @service.request_response("fast")
    async def fast(data: bytes) -> bytes:
        return data

    @service.request_stream()
    async def count(data: bytes) -> AsyncIterator[bytes]:
        for number in range(int(data)):
            yield b"%d" % number

    @service.request_channel()
    async def echo(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
        async for payload in payloads:
            yield payload

    return service, began, go_on


async def read_with_cuts(client: Client, relay: Relay, count: int) -> list[int]:
    found = []
    async for item in client.request_stream(address("numbers"), b"%d" % count, initial_n=7):
        found.append(int(item.data or b""))
        if len(found) % 50 == 0:
            relay.cut()
    return found


@pytest.mark.parametrize("which", ["caller", "service", "both"])
async def test_streams_channels_and_calls_go_on_over_cut_sockets(which: str) -> None:
    service, began, go_on = numbers()
    async with local_broker() as url, Relay(url) as relay:
        urls = {"caller": (url, relay.url), "service": (relay.url, url), "both": (relay.url, relay.url)}[which]
        async with (
            connect(urls[0], service=service, resume=True),
            connect(urls[1], resume=True) as client,
        ):
            to = address("numbers")
            call = asyncio.ensure_future(client.request_response(to, b"still"))
            await began.wait()
            assert await read_with_cuts(client, relay, 200) == list(range(200))

            async def cutting() -> AsyncIterator[bytes]:
                for number in range(100):
                    if number % 40 == 20:
                        relay.cut()
                    yield b"%d" % number

            channel = client.request_channel(to, cutting(), initial_n=5)
            assert [int(item.data or b"") async for item in channel] == list(range(100))
            go_on.set()
            assert (await call).data == b"still"
            assert client.is_connected


async def test_a_call_that_is_made_while_there_is_no_socket_waits_for_the_next() -> None:
    service, _, _ = numbers()
    async with (
        local_broker() as url,
        connect(url, service=service),
        Relay(url) as relay,
        connect(relay.url, resume=True) as client,
    ):
        relay.cut()
        await client.wait_for("reconnecting", timeout_s=5)
        answer = await client.request_response(address("numbers"), b"x", route="fast", timeout_s=5)
        assert answer.data == b"x"


async def test_where_the_broker_offers_no_resumption_it_connects_without() -> None:
    service, began, _ = numbers()
    async with (
        local_broker(limits__resume_ttl_s=0.0) as url,
        connect(url, service=service),
        Relay(url) as relay,
        connect(relay.url, resume=True) as client,
    ):
        call = asyncio.ensure_future(client.request_response(address("numbers")))
        await began.wait()
        relay.cut()
        with pytest.raises(ConnectionLost):
            await call
        await client.wait_connected(timeout_s=5)


async def test_a_client_that_is_closed_leaves_no_session_behind() -> None:
    async with local_broker() as url:
        for _ in range(2):
            # The same Route Id: one that was only suspended would be replaced, and say so.
            route_id = "11223344-5566-7788-99aa-bbccddeeff00"
            service, _, go_on = numbers()
            go_on.set()
            async with (
                connect(url, service=service, resume=True, route_id=route_id),
                connect(url) as client,
            ):
                assert (await client.request_response(address("numbers"), b"x", timeout_s=5)).data == b"x"
