"""A thousand connections come and go in every way there is, and the broker is as it was before the first."""

import asyncio
import contextlib
import gc
import os
import random
from collections.abc import Iterator

import pytest

from broker.server import Server
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from tests.conftest import StartBroker
from tests.system.support.waits import until
from tests.system.support.wires import Wire

CONNECTIONS = 1000
WAVE = 100  # at a time: a test may not have more files open than its user may
SCHEMES = ("tcp", "tcp", "tcp", "tcp", "tcp", "tcp", "ws", "ws", "unix", "unix")
KINDS = (REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL)


class Visitors:
    """Connections in waves; each visitor calls one of its own wave, and goes at some point of it."""

    def __init__(self, urls: dict[str, str]) -> None:
        self.urls = urls
        self.chance = random.Random(42)
        self.came = 0
        self.wave = 0

    async def all_come_and_go(self) -> None:
        while self.came < CONNECTIONS:
            self.wave += 1
            wires = [await self._come(at) for at in range(WAVE)]
            await asyncio.gather(*(self._act(wire) for wire in wires))

    async def _come(self, at: int) -> Wire:
        self.came += 1
        url = self.urls[SCHEMES[at % len(SCHEMES)]]
        match at % 3:
            case 0:
                return await Wire.service(url, f"wave-{self.wave}", self.came, zone=str(at % 4))
            case 1:
                return await Wire.caller(url)
            case _:
                return await Wire.connect(url)  # says nothing

    async def _act(self, wire: Wire) -> None:
        if self.chance.random() < 0.7:
            for _ in range(self.chance.randrange(1, 4)):
                wire.request(f"wave-{self.wave}", kind=self.chance.choice(KINDS), zone=str(self.chance.randrange(4)))
        if self.chance.random() < 0.3:
            wire.send(b"\0\0\0\1\x10\0")  # a request, or not even a SETUP
        if self.chance.random() < 0.5:
            with contextlib.suppress(ConnectionError):  # the broker was faster
                await wire.transport.flush()
        if self.chance.random() < 0.3:
            wire.transport.abort()
        await wire.close()


def by_scheme(urls: list[str]) -> dict[str, str]:
    return {url.split("://")[0]: url for url in urls}


def cycles() -> set[str]:
    """Types of the broker's objects that only a collection frees."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return {type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith("broker.")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()  # what was found is free only now, and found no second time


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
async def test_nothing_is_left_in_the_core_and_nothing_to_the_garbage_collector(
    server: Server, no_collection: None
) -> None:
    core = server.core
    for times in (1, 2):
        visitors = Visitors(by_scheme(server.listeners))
        await visitors.all_come_and_go()
        await until(lambda: not server.core.peers() and not server.shell.links_open())
        assert sum(core.lifecycle.limits.closed.by_reason.values()) == times * CONNECTIONS
        assert core.table.size() == 0
        assert (core.in_flight_n, core.table.routes(), core.has_writes()) == (0, [], False)
        left = cycles()
        if "Server" not in left:  # else a broker of another test, whose last thread has ended only now: this one lives
            break
    assert left == set()


@pytest.mark.slow
async def test_nothing_is_left_in_the_process(start_broker: StartBroker) -> None:
    broker = start_broker("--admin", "127.0.0.1:0", log__level="error")

    async def status() -> dict[str, object]:
        shown = await asyncio.to_thread(broker.view, "status")
        return {name: shown[name] for name in ("connections", "routes", "streams", "connections_accepted")}

    def files() -> int:
        return len(os.listdir(f"/proc/{broker.pid}/fd"))

    await status()
    before = files()
    visitors = Visitors(by_scheme(broker.urls))
    await visitors.all_come_and_go()
    await until(lambda: files() <= before + 1)  # one of the admin's keep-alive connections may linger
    assert await status() == {"connections": 0, "routes": 0, "streams": 0, "connections_accepted": CONNECTIONS}
    assert "Traceback" not in broker.errors
    wire = await Wire.caller(broker.url("tcp"))
    assert (await wire.ask("anybody")).text.startswith("no-route:")
