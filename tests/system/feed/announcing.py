"""A folder that is announced and served by our own parts, and a broker of each protocol that sr3 speaks."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from spark_sink.feed.consumer.mirror import MirrorOptions
from spark_sink.feed.consumer.subscriber import Subscriber, SubscriberOptions
from spark_sink.feed.files import ANY_PATH, Files, RootPlace
from spark_sink.feed.posts import make_post
from spark_sink.feed.producer.folders import Folder
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.poster import Poster
from spark_sink.feed.producer.posting import PostOptions
from spark_sink.feed.transport import UP, Sink, Source
from spark_sink.feed.transports.opening import open_sink, open_source
from spark_sink.feed.transports.settings import POST_PREFIX, SinkSettings, SourceSettings
from tests.client_sdk.gateways.samwise.rabbitmq import HOST
from tests.system.support.waits import until

LOOK_S = 0.05


@dataclass(frozen=True)
class PostBroker:
    """A broker of AMQP or MQTT, and an exchange that only one test uses."""

    url: str  # without a user
    exchange: str

    def sink(self, name: str = "sink") -> Sink:
        return open_sink(SinkSettings(name=name, url=self.url, exchange=self.exchange))

    def source(self, name: str) -> Source:
        return open_source(SourceSettings(name=name, url=self.url, exchange=self.exchange))

    async def declare(self) -> None:
        """The exchange is there, and a post that nobody has asked for was sent."""
        sink = self.sink("first")
        await sink.send(make_post("http://nobody/", "nothing/f", 0), POST_PREFIX)
        await sink.close()


@asynccontextmanager
async def served(root: Path) -> AsyncIterator[str]:
    """The URL below which the files of a folder are."""
    files = Files(RootPlace(root))

    async def answer(request: web.Request) -> web.StreamResponse:
        return await files.answer(request, request.rel_url.raw_path)

    application = web.Application()
    application.router.add_get(ANY_PATH, answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield f"http://{HOST}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def announced(root: Path, broker: PostBroker, **options: Any) -> AsyncIterator[Poster]:
    """A folder whose files are served, and announced until the end."""
    async with served(root) as url:
        sink = broker.sink()
        log = PostLog(root.parent / "posts.db", sinks=[sink.name], is_synced=False)
        poster = Poster(Folder(root, interval_s=LOOK_S), log, PostOptions(base_url=url, **options), sinks=[sink])
        await poster.start()
        try:
            yield poster
        finally:
            await poster.stop()


@asynccontextmanager
async def mirrored(landing: Path, broker: PostBroker, **options: Any) -> AsyncIterator[Subscriber]:
    """A mirror of all that is announced from now on, with what it is to remove."""
    landing.mkdir(exist_ok=True)
    source = broker.source(f"{broker.exchange}-in")
    mirror = MirrorOptions(removes=True, **options)
    memory = landing.parent / "memory.db"
    own = SubscriberOptions(root=landing, memory=memory, mirror=mirror, is_synced=False, first_pause_s=0.2)
    subscriber = Subscriber([source], own)
    await subscriber.start()
    try:
        await until(lambda: source.state() == UP)
        yield subscriber
    finally:
        await subscriber.stop()


async def is_same(root: Path, landing: Path) -> None:
    """The trees of both, soon; AssertionError shows how they differ."""
    try:
        await until(lambda: tree_of(landing) == tree_of(root))
    except AssertionError:
        assert tree_of(landing) == tree_of(root)


def tree_of(root: Path) -> dict[str, bytes | str]:
    """What lies below a folder, by path: the bytes of a file, the target of a link, `/` of a folder."""
    found: dict[str, bytes | str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        with contextlib.suppress(FileNotFoundError):  # it went away meanwhile
            found[name] = str(path.readlink()) if path.is_symlink() else "/" if path.is_dir() else path.read_bytes()
    return found
