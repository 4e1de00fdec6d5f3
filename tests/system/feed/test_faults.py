"""Posters, mirrors, servers and brokers of which one fails: the same bytes in the end, each file once, never a half."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.client_sdk.gateways.samwise.rabbitmq import HOST, RabbitNode
from tests.conftest import StartBroker
from tests.spark_sink.feed.transports.mosquitto import Mosquitto
from tests.system.feed.programs import Feed, Site, Watch, contents, names
from tests.system.support.relay import Relay
from tests.system.support.waits import until

FILES_N: Final = 40
LONG_S: Final = 60.0  # until everything is there: a host that has failed rests for 5 s

pytestmark = pytest.mark.long


@dataclass
class Way:
    """A poster, or two, and a mirror, on the way from one to the other."""

    folder: Path
    landing: Path
    files: dict[str, bytes]
    roots: list[Path]
    sites: list[Site]
    watch: Watch

    def put(self, files_n: int) -> None:
        """So many other files, in each folder that is posted, each in one step."""
        for number in range(len(self.files), len(self.files) + files_n):
            name, data = f"f{number}", os.urandom((10, 4096, 400_000)[number % 3])
            self.files[name] = data
            for root in self.roots:
                (root / f".{name}").write_bytes(data)
                (root / f".{name}").rename(root / name)

    async def come(self, files_n: int) -> None:
        """So many are there."""
        await until(lambda: len(names(self.landing)) >= files_n, LONG_S)

    async def ends(self) -> None:
        """All are there as they are to be, and none was half, or asked for again when it was there."""
        await until(lambda: names(self.landing) == set(self.files), LONG_S)
        assert contents(self.landing) == self.files
        assert (self.watch.halves, [site.again for site in self.sites]) == (set(), [[] for _ in self.sites])

    @property
    def answered(self) -> dict[str, int]:
        """How often a whole file was sent, by any of the sites."""
        return dict(sum((site.answered for site in self.sites[1:]), self.sites[0].answered))


@asynccontextmanager
async def way(folder: Path, posters_n: int = 1) -> AsyncIterator[Way]:
    async with AsyncExitStack() as at_end:
        landing = folder / "landing"
        roots = [folder / f"root-{number}" for number in range(posters_n)]
        for each in (landing, *roots):
            each.mkdir()
        sites = [await at_end.enter_async_context(Site(root, landing).serving()) for root in roots]
        files: dict[str, bytes] = {}
        with Watch(landing, files) as watch:
            yield Way(folder, landing, files, roots, sites, watch)


@dataclass(frozen=True)
class PostServer:
    """What posts go through, in a process of its own."""

    url: Callable[[int], str]  # by its port, or that of a relay before it
    port: int
    stop: Callable[[], None]
    start: Callable[[], None]


@pytest.fixture(params=["rsocket", "amqp", "mqtt"])
def server(request: pytest.FixtureRequest) -> PostServer:
    if request.param == "amqp":
        node: RabbitNode = request.getfixturevalue("rabbit")
        return PostServer(lambda port: f"amqp://{HOST}:{port}", node.port, node.stop, node.go_on)
    if request.param == "mqtt":
        one: Mosquitto = request.getfixturevalue("mosquitto")
        return PostServer(lambda port: f"mqtt://{HOST}:{port}", one.port, one.stop, one.start)
    start_broker: StartBroker = request.getfixturevalue("start_broker")
    running = [start_broker()]
    port = int(running[0].url("tcp").rpartition(":")[2])

    def start() -> None:
        running.append(start_broker("--listen", f"tcp://{HOST}:{port}"))

    return PostServer(lambda port: f"tcp://{HOST}:{port}", port, lambda: running[-1].end(), start)


@pytest.fixture
def relays() -> Iterator[Callable[[int], Relay]]:
    """Wires that can be cut, to a port of this machine."""
    made: list[Relay] = []

    def make(port: int) -> Relay:
        made.append(Relay(port))
        return made[-1]

    yield make
    for each in made:
        each.close()


def poster(one: Way, url: str, exchange: str, number: int = 0, base_url: str = "") -> Feed:
    return Feed(
        one.folder,
        *("watch", str(one.roots[number]), "--dir", f"poster-{number}", "--to", url, "--exchange", exchange),
        *("--base-url", base_url or one.sites[number].url, "--settle", "0", "--interval", "50ms"),
    )


def mirror(one: Way, url: str, exchange: str) -> Feed:
    words = ("subscribe", str(one.landing), "--dir", "mirror", "--from", url, "--exchange", exchange)
    return Feed(one.folder, *words, "--queue", f"q_{exchange}")


async def ready(feeds: list[Feed], receiving: Feed, *posting: Feed) -> None:
    """All run; the mirror has its queue before anything is posted."""
    feeds += [receiving, *posting]
    await asyncio.to_thread(receiving.start)
    await until(lambda: "connected" in receiving.output)
    for each in posting:
        await asyncio.to_thread(each.start)


async def test_of_two_posters_one_is_killed_and_answers_break_off(
    server: PostServer, feeds: list[Feed], tmp_path: Path
) -> None:
    """Nothing is missing or sent twice, and what breaks off is resumed."""
    async with way(tmp_path, posters_n=2) as one:
        for site in one.sites:
            site.breaks_off_each = 3
        url = server.url(server.port)
        posters = [poster(one, url, "two", number) for number in range(2)]
        await ready(feeds, mirror(one, url, "two"), *posters)
        one.put(FILES_N)
        await one.come(FILES_N // 3)
        posters[0].kill()
        one.sites[0].is_dead = True
        one.put(FILES_N)
        await one.ends()
        assert one.answered == dict.fromkeys(one.files, 1)
        assert sum(site.asked.total() for site in one.sites) > len(one.files)


async def test_a_network_that_parts_and_a_broker_that_is_stopped_lose_nothing(
    server: PostServer, relays: Callable[[int], Relay], feeds: list[Feed], tmp_path: Path
) -> None:
    """The poster's wire to its broker, the mirror's to it, and the mirror's to the files, one after the other."""
    async with way(tmp_path) as one:
        to_server, from_server, to_files = relays(server.port), relays(server.port), relays(one.sites[0].port)
        base_url = f"http://{HOST}:{to_files.port}/"
        receiving = mirror(one, server.url(from_server.port), "parted")
        await ready(feeds, receiving, poster(one, server.url(to_server.port), "parted", base_url=base_url))
        for wire in (to_server, from_server, to_files):
            one.put(FILES_N)
            await one.come(len(one.files) - FILES_N // 2)
            await asyncio.to_thread(wire.cut)
            one.put(10)
            await asyncio.to_thread(wire.heal)
            await one.ends()
        before = set(one.files)
        one.put(FILES_N)
        await one.come(len(before) + FILES_N // 3)
        await asyncio.to_thread(server.stop)
        one.put(FILES_N)
        await asyncio.to_thread(server.start)
        await one.ends()
        assert {one.answered[name] for name in set(one.files) - before} == {1}
