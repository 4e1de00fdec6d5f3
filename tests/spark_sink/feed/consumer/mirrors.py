"""A mirror of a test: posts that the test gives, and files of a real HTTP server."""

import asyncio
import contextlib
import hashlib
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from broker.events import FileRecord
from spark_sink.feed.consumer.mirror import MirrorOptions
from spark_sink.feed.consumer.subscriber import Subscriber, SubscriberOptions
from spark_sink.feed.errors import NotSent, NotTaken
from spark_sink.feed.files import ANY_PATH, Files, RootPlace
from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import Post, make_post
from spark_sink.feed.records import FileRecords
from spark_sink.feed.reports import find_report
from spark_sink.feed.transport import UP, Arrival
from tests.spark_sink.feed.samples import PUB_TIME_NS
from tests.system.support.waits import until


class Given:
    """A Source of what a test gives."""

    def __init__(self, name: str = "given") -> None:
        self.name = name
        self.bodies: asyncio.Queue[bytes] = asyncio.Queue()
        self.acknowledged: list[bytes] = []

    def give(self, *bodies: bytes) -> None:
        for body in bodies:
            self.bodies.put_nowait(body)

    async def receive(self) -> Arrival:
        return Arrival(await self.bodies.get(), "v03.post", self.name, None)

    def acknowledge(self, arrival: Arrival) -> None:
        self.acknowledged.append(arrival.body)

    async def close(self) -> None: ...

    def state(self) -> str:
        return UP


class Kept:
    """A Sink that keeps what it gets."""

    def __init__(self, name: str = "kept") -> None:
        self.name = name
        self.sent: list[tuple[int, str, str]] = []  # code, relPath, message
        self.away: set[str] = set()  # relPaths whose poster is

    async def send(self, post: Post, prefix: str) -> None:
        assert prefix == "v03.report"
        report = find_report(post)
        assert report is not None
        assert "content" not in post.headers
        if post.rel_path in self.away:
            raise NotTaken("not here")
        self.sent.append((report.code, post.rel_path, report.message))

    async def close(self) -> None: ...

    def state(self) -> str:
        return UP


class Passed:
    """A Sink that keeps posts which are passed on."""

    name = "passed"

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.fails_n = 0

    async def send(self, post: Post, prefix: str) -> None:
        assert prefix == "v03.post"
        if self.fails_n:
            self.fails_n -= 1
            raise NotSent("not now")
        self.posts.append(post)

    async def close(self) -> None: ...

    def state(self) -> str:
        return UP


class Site:
    """Files of a folder over HTTP, and what a test makes of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = ""
        self.asked: list[tuple[str, str]] = []  # path and Range
        self.before: Callable[[web.Request], Any] = lambda request: None  # an answer, or None

    def put(self, path: str, data: bytes) -> bytes:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)
        return data

    def post(self, path: str, data: bytes, **values: Any) -> bytes:
        """The body of a post of this file, which has this content."""
        given = {"identity": identity(data), "size": len(data), **values}
        return make_post(self.url, path, given.pop("at", PUB_TIME_NS), **given).encode()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = request.rel_url.raw_path
        self.asked.append((raw, request.headers.get("Range", "")))
        found = self.before(request)
        if asyncio.iscoroutine(found):
            found = await found
        if found is not None:
            assert isinstance(found, web.StreamResponse)
            return found
        return await self.files.answer(request, raw)

    @asynccontextmanager
    async def serving(self, place: socket.socket | None = None) -> AsyncIterator["Site"]:
        """At this place, which is bound and refuses connections until then; None: at another one."""
        self.files = Files(RootPlace(self.root))
        app = web.Application()
        app.router.add_get(ANY_PATH, self.answer)
        runner = web.AppRunner(app, handler_cancellation=True)  # one that hangs ends with who asked
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0) if place is None else web.SockSite(runner, place)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        try:
            yield self
        finally:
            await runner.cleanup()


def watched(site: Site, path: str, before: str) -> bytes:
    """The body of a rename, as `sr3 watch` posts it."""
    return make_post(site.url, path, PUB_TIME_NS + 1).changed(fileOp={"rename": before}).encode()


def identity(data: bytes, method: str = "sha512") -> Identity:
    return Identity(method, b64encode(hashlib.new(method, data).digest()).decode())


class Running:
    """A mirror in a folder of its own."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.root = folder / "mirror"
        self.root.mkdir(exist_ok=True)
        self.source = Given()
        self.reports = Kept()
        self.onward = Passed()
        self.told: list[FileRecord] = []
        mirror = MirrorOptions(**options.pop("mirror", {}))
        given = {"first_pause_s": 0.01, "is_synced": False, "user": "me", "host": "here", **options}
        self.subscriber = Subscriber(
            [self.source],
            SubscriberOptions(root=self.root, memory=folder / "memory.db", mirror=mirror, **given),
            reports={self.source.name: self.reports},
            onward=[self.onward],
            records=FileRecords("m", self.told.append),
        )

    async def __aenter__(self) -> "Running":
        await self.subscriber.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.subscriber.stop()

    async def reported(self, n: int) -> list[tuple[int, str]]:
        """Codes and paths of so many reports, when they are confirmed: the next process does not send them again."""
        await until(lambda: self.subscriber._reports[self.source.name].sent_n >= n)
        return [(code, path) for code, path, _ in self.reports.sent]

    async def passed_on(self, n: int) -> list[Post]:
        """So many posts, when they are confirmed, as those of `reported`."""
        await until(lambda: self.subscriber._onward[0].sent_n >= n)
        return self.onward.posts

    @property
    def outcomes(self) -> list[tuple[str, str, int, int, int, int]]:
        """What was told of files: outcome, path, code, tries, bytes, how many."""
        return [(each.outcome, each.path, each.code, each.tries, each.bytes, each.files) for each in self.told]

    @property
    def files(self) -> dict[str, bytes]:
        """All files that are there, hidden ones too."""
        found: dict[str, bytes] = {}
        for path in self.root.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # a hidden one that has its name meanwhile
                if path.is_file():
                    found[str(path.relative_to(self.root))] = path.read_bytes()
        return found
