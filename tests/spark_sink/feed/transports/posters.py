"""Posters without a folder, and consumers, on RSocket: a log whose posts a test appends, and where a source was."""

import asyncio
import json
from pathlib import Path

from client_sdk.clock import Clock
from spark_sink.feed.posts import Post
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.post_tables import Posting
from spark_sink.feed.transport import Arrival, Source
from spark_sink.feed.transports.offering import PostOffer
from spark_sink.feed.transports.rsocket import RSocketSource
from spark_sink.feed.transports.settings import SinkSettings, SourceSettings
from tests.spark_sink.feed.samples import post_of
from tests.system.support.waits import POLL_S, soon


class QuickClock(Clock):
    """Sleeps so long that others have a turn."""

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(POLL_S)


class Kept:
    """Positions in a file, which another process may read; `is_broken`: it takes none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_broken = False

    async def load(self, source: str) -> dict[str, int]:
        found: dict[str, int] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return found

    async def save(self, source: str, positions: dict[str, int]) -> None:
        if self.is_broken:
            raise OSError("no space left on device")
        hidden = self._path.with_suffix(".new")
        hidden.write_text(json.dumps({**await self.load(source), **positions}))
        hidden.rename(self._path)


class TestedPoster:
    """A log and its offer; what it has heard of."""

    __test__ = False

    def __init__(self, url: str, path: Path, exchange: str = "xpublic") -> None:
        self.url, self.path, self.exchange = url, path, exchange
        self.reports: list[bytes] = []
        self.is_known = True  # reports are of posts that are here
        self.log = PostLog(path)
        self.offer = PostOffer(self._settings, self.log, self.heard, QuickClock())

    @property
    def _settings(self) -> SinkSettings:
        return SinkSettings(name="poster", url=self.url, exchange=self.exchange)

    async def heard(self, body: bytes) -> bool:
        self.reports.append(body)
        return self.is_known

    async def start(self) -> None:
        await self.log.open()
        self.offer.start()

    async def stop(self) -> None:
        await self.offer.close()
        await self.log.close()

    async def restart(self) -> None:
        """As another process would, with the same log."""
        await self.stop()
        self.log = PostLog(self.path)
        self.offer = PostOffer(self._settings, self.log, self.heard, QuickClock())
        await self.start()

    async def post(self, *posts: Post) -> None:
        await self.log.append([Posting(each.rel_path, [each], None) for each in posts], 1000)

    async def post_paths(self, *paths: str) -> None:
        await self.post(*(post_of(relPath=path) for path in paths))


def source_of(url: str, positions: Kept | None = None, **settings: object) -> RSocketSource:
    values = {"name": "in", "url": url, **settings}
    return RSocketSource(SourceSettings(**values), positions, QuickClock())  # type: ignore[arg-type]


async def take(source: Source, posts_n: int, *, is_done: bool = True) -> list[Arrival]:
    """So many, each acknowledged as it comes, unless they are not to be."""
    found: list[Arrival] = []
    while len(found) < posts_n:
        found.append(await soon(source.receive()))
        if is_done:
            source.acknowledge(found[-1])
    return found
