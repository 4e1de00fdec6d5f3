"""Who posts files by a broker and would have more than its mirrors want to give, and who asks posters and servers."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from yarl import URL

from client_sdk import Payload, Request, Service, address, connect
from client_sdk.errors import ApplicationError
from client_sdk.testing import local_broker
from spark_sink.feed.bodies import MAX_POST_BYTES
from spark_sink.feed.consumer import subscriber as subscriber_module
from spark_sink.feed.consumer.mirror import MirrorOptions
from spark_sink.feed.consumer.places import MAX_DEPTH
from spark_sink.feed.consumer.subscriber import Subscriber, SubscriberOptions
from spark_sink.feed.posts import FileOp, make_post
from spark_sink.feed.transports.asked import (
    MAX_PATTERNS,
    ORIGIN,
    POSTS,
    REPORT,
    SERVICE,
    Found,
    Item,
    item_metadata,
    write,
)
from tests.spark_sink.feed.consumer.mirrors import Kept, Site, identity, watched
from tests.spark_sink.feed.samples import PUB_TIME_NS
from tests.spark_sink.feed.transports.posters import TestedPoster, source_of
from tests.system.support.waits import soon, until

TAGS = {"exchange": "xpublic", "origin": "0123456789abcdef"}


class Attacked:
    """A mirror that takes posts of an attacker from a broker; `site` has files of the attacker."""

    def __init__(
        self, folder: Path, site: Site, told: asyncio.Queue[bytes], reports: Kept, subscriber: Subscriber
    ) -> None:
        self.root = folder / "mirror"
        self.outside = folder / "outside"
        self.site = site
        self.reports = reports
        self.subscriber = subscriber
        self._told = told

    def post(self, path: str, data: bytes) -> None:
        """A file that is as it is announced."""
        self._told.put_nowait(self.site.post(path, self.site.put(path, data)))

    async def tell(self, *bodies: bytes, reports_n: int | None = None) -> dict[str, int]:
        """Posts these and one that is good, which arrives; the codes of so many others, None: of all, by path."""
        name = f"good-{len(self.reports.sent)}"
        for body in (*bodies, self.site.post(name, self.site.put(name, b"1"))):
            self._told.put_nowait(body)
        wanted_n = len(self.reports.sent) + 1 + (len(bodies) if reports_n is None else reports_n)
        await until(lambda: len(self.reports.sent) >= wanted_n)
        assert (self.root / name).read_bytes() == b"1"
        return {path: code for code, path, _ in self.reports.sent if not path.startswith("good")}

    def files(self) -> list[str]:
        """What is in the mirror, without what is good."""
        found = [str(path.relative_to(self.root)) for path in self.root.rglob("*")]
        return sorted(path for path in found if not path.startswith("good"))


@asynccontextmanager
async def attacked(folder: Path, tries: int = 1, **mirror: Any) -> AsyncIterator[Attacked]:
    told: asyncio.Queue[bytes] = asyncio.Queue()
    evil = Service(SERVICE, tags=TAGS)

    @evil.request_stream(POSTS)
    async def posts(request: Request) -> AsyncIterator[Payload]:
        number = 0
        while True:
            number += 1
            yield Payload(await told.get(), item_metadata(Item(TAGS["origin"], number, "v03.post")))

    @evil.request_response(ORIGIN)
    async def origin(data: bytes) -> bytes:
        return write(Found(TAGS["origin"]))

    @evil.request_response(REPORT)
    async def report(data: bytes) -> bytes:
        return b"1"

    for name in ("site", "mirror", "outside"):
        (folder / name).mkdir()
    (folder / "outside" / "f").write_bytes(b"mine")
    async with local_broker() as url, Site(folder / "site").serving() as site, connect(url, service=evil):
        source, reports = source_of(url), Kept()
        options = SubscriberOptions(
            root=folder / "mirror",
            memory=folder / "memory.db",
            mirror=MirrorOptions(**mirror),
            tries=tries,
            first_pause_s=0.01,
            is_synced=False,
            user="me",
            host="here",
        )
        subscriber = Subscriber([source], options, reports={source.name: reports})
        made = Attacked(folder, site, told, reports, subscriber)
        await subscriber.start()
        try:
            yield made
        finally:
            await subscriber.stop()
            await source.close()
            assert [path.name for path in made.outside.iterdir()] == ["f"]
            assert (made.outside / "f").read_bytes() == b"mine"


def op(site: Site, path: str, kind: str, value: str = "", later: int = 0) -> bytes:
    """The body of a post of something else than data."""
    return make_post(site.url, path, PUB_TIME_NS + later, file_op=FileOp(kind, value)).encode()


async def test_no_path_leads_out(tmp_path: Path) -> None:
    async with attacked(tmp_path) as mirror:
        paths = ["../outside/f", "a/../../outside/f", f"{mirror.outside}/f", "x" * 300, "d/" * (MAX_DEPTH + 1) + "f"]
        codes = await mirror.tell(*(mirror.site.post(path, b"evil") for path in paths))
        assert set(codes.values()) == {417, 499}  # of the absolute one there is no such file below the root
        assert mirror.files() == []


async def test_no_link_and_no_rename_leads_out(tmp_path: Path) -> None:
    async with attacked(tmp_path, removes=True, strip="/data") as mirror:
        site = mirror.site
        (mirror.root / "ours").symlink_to(mirror.outside)
        codes = await mirror.tell(
            op(site, "up", "link", "../outside"),
            op(site, "absolute", "link", str(mirror.outside)),
            op(site, "hard", "hlink", "../outside/f"),
            site.post("ours/f", site.put("ours/f", b"evil")),
            watched(site, "ours/g", "/data/ours/f"),
            op(site, "ours/f", "remove", later=2),
        )
        assert [codes[name] for name in ("up", "absolute", "hard")] == [417] * 3
        assert mirror.files() == ["ours"]


async def test_special_permissions_are_not_taken_and_removals_are_left_alone(tmp_path: Path) -> None:
    async with attacked(tmp_path) as mirror:
        body = mirror.site.post("f", mirror.site.put("f", b"x"), mode=0o6777)
        assert await mirror.tell(body) == {"f": 201}
        assert stat.S_IMODE((mirror.root / "f").stat().st_mode) & 0o7000 == 0
        assert await mirror.tell(op(mirror.site, "f", "remove", later=1)) == {"f": 503}
        assert mirror.files() == ["f"]


async def test_what_was_announced_otherwise_is_never_there(tmp_path: Path) -> None:
    async with attacked(tmp_path) as mirror:
        site = mirror.site
        for name, data in (("other", b"evil"), ("short", b"x"), ("long", b"x" * 1000)):
            site.put(name, data)
        bodies = [site.post("other", b"good"), site.post("short", b"xx", size=2), site.post("long", b"xx", size=2)]
        assert await mirror.tell(*bodies) == dict.fromkeys(("other", "short", "long"), 499)
        assert mirror.files() == []


async def test_what_is_no_post_holds_up_nothing(tmp_path: Path) -> None:
    async with attacked(tmp_path) as mirror:
        bodies = [b"", b"[" * 100_000, b"\xff", b'{"a":' * 50_000, b'{"pubTime": 7}', b" " * (MAX_POST_BYTES + 1)]
        assert await mirror.tell(*bodies, reports_n=0) == {}
        assert mirror.files() == []


async def test_nobody_is_asked_but_who_was_named(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    async with Site(tmp_path / "victim").serving() as victim, attacked(tmp_path) as mirror:
        away = web.Response(status=302, headers={"Location": f"{victim.url}f"})
        mirror.site.before = lambda request: away if request.path == "/away" else None
        others = [
            make_post(url, path, PUB_TIME_NS, identity=identity(b"mine"), size=4).encode()
            for url, path in ((f"file://{mirror.outside}/", "f"), ("ftp://127.0.0.1/", "g"), ("gopher://h/", "h"))
        ]
        codes = await mirror.tell(mirror.site.post("away", b"1"), *others)
        assert 201 not in codes.values()
        assert (victim.asked, mirror.files()) == ([], [])


async def test_who_answers_slowly_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriber_module, "PATIENCE_S", 0.02)
    (tmp_path / "slow").mkdir()
    async with Site(tmp_path / "slow").serving() as slow, attacked(tmp_path) as mirror:

        async def hang(request: web.Request) -> None:
            await asyncio.Event().wait()

        slow.before = hang
        bodies = [slow.post(f"s{number}", b"x") for number in range(30)]
        assert await mirror.tell(*bodies, reports_n=0) == {}


# Who asks


@pytest.mark.parametrize("path", ["/../outside", "/%2e%2e/outside", "/..%2foutside", "/d%2f..%2f..%2foutside", "/out"])
async def test_nothing_is_served_but_what_is_in_the_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "site" / "d").mkdir(parents=True)
    os.symlink(tmp_path / "outside", tmp_path / "site" / "out")
    async with Site(tmp_path / "site").serving() as site, ClientSession() as session:
        site.put("f", b"1")
        async with session.get(URL(f"{site.url}f", encoded=True)) as answer:
            assert answer.status == 200
        async with session.get(URL(site.url.removesuffix("/") + path, encoded=True)) as answer:
            assert (answer.status, b"secret" in await answer.read()) == (404, False)


async def test_a_poster_answers_no_nonsense(tmp_path: Path) -> None:
    async with local_broker() as url, connect(url) as client:
        poster = TestedPoster(url, tmp_path / "posts.db")
        await poster.start()
        await url.wait_for_routes(SERVICE)
        patterns = b",".join([b'"a"'] * (MAX_PATTERNS + 1))
        deep = b'{"topic": "' + b"a." * 100_000 + b'"}'
        for asked in (b"[" * 100_000, b'{"topic": [' + patterns + b"]}", deep, b'{"since": -1}', b"\xff"):
            with pytest.raises(ApplicationError):
                await soon(anext(client.request_stream(address(SERVICE), asked)))
        await poster.stop()
