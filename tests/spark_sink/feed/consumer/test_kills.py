"""A mirror that is killed in the middle of a file goes on where it was, and nothing is ever half under its name."""

import asyncio
import errno
import os
import signal
import sys
from pathlib import Path

import pytest
from aiohttp import web

from spark_sink.feed.consumer import places as places_module
from spark_sink.feed.identity import Identity
from tests.spark_sink.feed.consumer.mirrors import Running, Site, identity
from tests.spark_sink.feed.samples import PUB_TIME_NS
from tests.system.support.waits import until

MIB = 1 << 20


async def test_kill_9_in_a_fetch_resumes_it(site: Site, tmp_path: Path) -> None:
    data = site.put("large", os.urandom(6 * MIB))

    async def hang_in_the_middle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = len(data)
        await response.prepare(request)
        await response.write(data[: 3 * MIB])
        await asyncio.Event().wait()
        return response

    site.before = hang_in_the_middle
    body = site.post("large", data)
    root, memory = tmp_path / "mirror", tmp_path / "memory.db"
    root.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.spark_sink.feed.consumer.killed", str(root), str(memory)),
        stdin=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(body)
    process.stdin.close()
    await until(lambda: [part for part in root.glob(".feed-*.part") if part.stat().st_size >= MIB])
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert [name for name in os.listdir(root) if not name.startswith(".feed-")] == []

    site.before = lambda request: None
    async with Running(tmp_path) as mirror:
        mirror.source.give(body)
        assert await mirror.reported(1) == [(201, "large")]
        assert mirror.files == {"large": data}
    first, second = (span for _, span in site.asked)
    assert first == ""
    start = int(second.removeprefix("bytes=").rstrip("-"))
    assert MIB <= start <= 3 * MIB


@pytest.mark.parametrize("method", ["sha512", "cod", "none"])
@pytest.mark.parametrize("size", [100, 2 * MIB])
async def test_a_file_that_came_right_before_kill_9_is_not_fetched_again(
    site: Site, tmp_path: Path, size: int, method: str
) -> None:
    """It has its name, and the memory does not know it."""
    data = site.put("a/f", os.urandom(size))
    there = tmp_path / "mirror/a/f"
    there.parent.mkdir(parents=True)
    there.write_bytes(data)
    os.utime(there, ns=(PUB_TIME_NS, PUB_TIME_NS))
    async with Running(tmp_path) as mirror:
        announced = {"sha512": identity(data), "cod": Identity("cod", "md5"), "none": None}[method]
        mirror.source.give(site.post("a/f", data, mtime_ns=PUB_TIME_NS, identity=announced))
        assert await mirror.reported(1) == [(205 if method == "cod" else 201, "a/f")]
        (onward,) = await mirror.passed_on(1)
        assert onward.identity == (identity(data, "md5") if method == "cod" else announced)
    assert site.asked == []


@pytest.mark.parametrize(
    "announced, at_ns",
    [
        (None, None),
        (None, PUB_TIME_NS + 1),
        (Identity("cod", "md5"), PUB_TIME_NS + 1),
        (Identity("random", "7"), PUB_TIME_NS),
        (Identity("mine", "x"), PUB_TIME_NS),
    ],
)
async def test_what_is_not_known_to_be_the_same_is_fetched(
    site: Site, tmp_path: Path, announced: Identity | None, at_ns: int | None
) -> None:
    data = site.put("f", b"new")
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/f").write_bytes(b"old")
    os.utime(tmp_path / "mirror/f", ns=(PUB_TIME_NS, PUB_TIME_NS))
    async with Running(tmp_path) as mirror:
        mirror.source.give(site.post("f", data, mtime_ns=at_ns, identity=announced))
        await mirror.reported(1)
        assert mirror.files == {"f": data}


@pytest.mark.parametrize("is_link", [False, True])
async def test_what_only_looks_like_the_file_is_fetched(site: Site, tmp_path: Path, is_link: bool) -> None:
    data = site.put("a/f", os.urandom(100))
    other = tmp_path / ("outside" if is_link else "mirror/a")
    other.mkdir(parents=True)
    (other / "f").write_bytes(data if is_link else bytes(100))
    os.utime(other / "f", ns=(PUB_TIME_NS, PUB_TIME_NS))
    if is_link:
        (tmp_path / "mirror").mkdir()
        (tmp_path / "mirror/a").symlink_to(other)
    async with Running(tmp_path) as mirror:
        mirror.source.give(site.post("a/f", data, mtime_ns=PUB_TIME_NS))
        assert await mirror.reported(1) == [(499 if is_link else 201, "a/f")]
        assert is_link or mirror.files == {"a/f": data}
    assert site.asked[0] == ("/a/f", "")


@pytest.mark.parametrize("size", [100, 2 * MIB])
async def test_a_disk_that_is_full_is_waited_for(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    finish = places_module._finish

    def full(file: int, mtime_ns: int | None, mode: int | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(places_module, "_finish", full)
    data = site.put("f", os.urandom(size))
    async with Running(tmp_path, first_pause_s=0.01, tries=100) as mirror:
        mirror.source.give(site.post("f", data))
        await until(lambda: mirror.subscriber.state.failed_n >= 2)
        assert [name for name in os.listdir(mirror.root) if not name.startswith(".feed-")] == []
        assert caplog.text.count("it will be tried again: f: No space left on device") == 1
        monkeypatch.setattr(places_module, "_finish", finish)
        assert await mirror.reported(1) == [(201, "f")]
        assert mirror.files == {"f": data}


async def test_what_a_killed_process_has_left_is_gone_after_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "mirror/a"
    folder.mkdir(parents=True)
    left, resumed, old = (folder / f".feed-{name}.part" for name in ("1-0123456789ab", "0" * 32, "1" * 32))
    for each in (left, resumed, old):
        each.write_bytes(b"half")
    os.utime(old, (0, 0))
    async with Running(tmp_path):
        await until(lambda: not left.exists() and not old.exists())
        assert resumed.exists()
