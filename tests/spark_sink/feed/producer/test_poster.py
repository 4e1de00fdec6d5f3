"""What lies in a folder reaches each sink once, whatever ends in between."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker.events import FileRecord
from client_sdk.clock import Clock
from spark_sink.feed.errors import NotSent
from spark_sink.feed.posts import Post
from spark_sink.feed.producer import poster as poster_module
from spark_sink.feed.producer.folders import Folder, SegmentsFolder, accept_all
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.post_tables import Posting
from spark_sink.feed.producer.poster import Poster
from spark_sink.feed.producer.posting import PostOptions, find_posting
from spark_sink.feed.producer.readers import ReportedReaders, Required
from spark_sink.feed.producer.scanning import Entry, Look
from spark_sink.feed.records import FileRecords
from spark_sink.feed.reports import Report, report_post


class FakeSink:
    """Keeps what it is sent; refuses as many times as it is told to."""

    def __init__(self, name: str = "one", refuses_n: int = 0) -> None:
        self.name = name
        self.posts: list[Post] = []
        self.refuses_n = refuses_n
        self.changed = asyncio.Event()

    async def send(self, post: Post, prefix: str) -> None:
        if self.refuses_n:
            self.refuses_n -= 1
            raise NotSent("one: not now")
        self.posts.append(post)
        self.changed.set()

    async def close(self) -> None:
        """There is nothing to close."""

    def state(self) -> str:
        return "up"

    async def wait_for(self, posts_n: int) -> list[str]:
        """relPaths, sorted, when there are so many."""
        async with asyncio.timeout(5):
            while len(self.posts) < posts_n:
                self.changed.clear()
                await self.changed.wait()
        return sorted(post.rel_path for post in self.posts)


def poster(folder: Path, *sinks: FakeSink, told: list[FileRecord] | None = None) -> Poster:
    told = [] if told is None else told
    log = PostLog(folder.parent / "posts.db", sinks=[sink.name for sink in sinks], is_synced=False)
    return Poster(
        Folder(folder, interval_s=0.01),
        log,
        PostOptions(base_url="http://a/"),
        sinks=sinks,
        records=FileRecords("p", told.append),
    )


def folder_of(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "root"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    return folder


async def test_each_sink_gets_each_file_and_nothing_again_after_another_start(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, *"abc")
    one, two = FakeSink("one"), FakeSink("two", refuses_n=1)
    first = poster(folder, one, two)
    await first.start()
    assert [await one.wait_for(3), await two.wait_for(3)] == [["a", "b", "c"]] * 2
    async with asyncio.timeout(5):
        while first.log.confirmed("one")[0] < 3 or first.log.confirmed("two")[0] < 3:
            await asyncio.sleep(0)
    await first.stop()
    folder_of(tmp_path, "d")
    again_one, again_two = FakeSink("one"), FakeSink("two")
    second = poster(folder, again_one, again_two)
    await second.start()
    assert [await again_one.wait_for(1), await again_two.wait_for(1)] == [["d"]] * 2
    await second.stop()


async def test_a_rename_keeps_the_identity_and_a_removal_is_posted(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "a", "b")
    sink = FakeSink()
    running = poster(folder, sink)
    await running.start()
    await sink.wait_for(2)
    identity = next(post.identity for post in sink.posts if post.rel_path == "a")
    (folder / "a").rename(folder / "c")
    (folder / "b").unlink()
    await sink.wait_for(4)
    said = {post.rel_path: (post.file_op.kind, post.identity) for post in sink.posts[2:] if post.file_op is not None}
    assert said == {"c": ("rename", identity), "b": ("remove", None)}
    await running.stop()


class Hasty(Clock):
    """Waits no longer than it must."""

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(min(delay_s, 0.01))


class Stumbling(Folder):
    """Fails at its first look, as no file system should."""

    has_failed = False

    def look(self, known: Mapping[str, Entry]) -> Look:
        if not self.has_failed:
            self.has_failed = True
            raise ValueError("embedded null byte")
        return super().look(known)


async def test_a_look_that_fails_is_said_and_the_next_one_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink, log = FakeSink(), PostLog(tmp_path / "posts.db", sinks=["one"], is_synced=False)
    watched = Stumbling(folder_of(tmp_path, "a"), interval_s=0.01)
    running = Poster(watched, log, PostOptions(base_url="http://a/"), sinks=[sink], clock=Hasty())
    await running.start()
    assert await sink.wait_for(1) == ["a"]
    assert "has failed: ValueError" in caplog.text
    await running.stop()


async def test_what_cannot_be_read_for_an_unknown_reason_is_posted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [ValueError("nobody thought of this")]

    def find(*args: Any) -> Posting | None:
        if failures:
            raise failures.pop()
        return find_posting(*args)

    monkeypatch.setattr(poster_module, "find_posting", find)
    sink = FakeSink()
    running = poster(folder_of(tmp_path, "a"), sink)
    await running.start()
    assert await sink.wait_for(1) == ["a"]
    await running.stop()


async def test_a_report_is_kept_and_one_of_nothing_is_not(tmp_path: Path) -> None:
    sink = FakeSink()
    told: list[FileRecord] = []
    running = poster(folder_of(tmp_path, "a"), sink, told=told)
    await running.start()
    await sink.wait_for(1)
    report = report_post(sink.posts[0], Report(201, "", "h", "u", ""))
    assert await running.log.fold_unreported("u@h", list) == ["a"]
    assert [await running.heard(report.encode()), await running.heard(sink.posts[0].encode())] == [True, False]
    assert await running.heard(b"garbage") is False
    assert await running.log.fold_unreported("u@h", list) == []
    await running.stop()
    assert [(each.outcome, each.path, each.consumer, each.code, each.bytes) for each in told] == [
        ("posted", "a", "", 0, 1),
        ("reported", "a", "u@h", 201, 0),
    ]


async def test_a_required_consumer_is_declared_before_it_has_anything(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db", is_synced=False)
    readers = ReportedReaders(tmp_path, log, [Required("u@h", accept_all)])
    running = Poster(SegmentsFolder(tmp_path), log, PostOptions(base_url="http://a/"), readers=readers)
    await running.start()
    assert (tmp_path / "_readers/feed-u@h.json").exists()
    await running.stop()
