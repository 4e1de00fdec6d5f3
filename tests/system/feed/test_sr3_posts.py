"""What the real sr3_post and `sr3 watch` announce is mirrored, byte for byte.

Over AMQP: the posts of sr3 3.3.1 over MQTT end with an exception of its own, before anything is sent.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tests.system.feed.announcing import PostBroker, is_same, mirrored, served, tree_of
from tests.system.feed.sr3 import Sr3
from tests.system.support.waits import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.xdist_group("rabbitmq"),
    pytest.mark.parametrize("broker", ["amqp"], indirect=True),
]


def lines_of(broker: PostBroker, root: Path, url: str, *more: str) -> list[str]:
    return [
        *(f"post_exchange {broker.exchange}", "post_topicPrefix v03.post", f"post_baseUrl {url}"),
        *(f"post_baseDir {root}", *more),
    ]


def file_of(root: Path, name: str, data: bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("identity", ["sha512", "md5", "cod,sha512", "none"])
async def test_files_of_sr3_post_are_fetched(sr3: Sr3, broker: PostBroker, tmp_path: Path, identity: str) -> None:
    root, landing = tmp_path / "root", tmp_path / "landing"
    names = ["f", "a/b/f", "a b/Über.d/x #?%+.txt", "a/%41", "a/100%"]
    paths = [file_of(root, name, os.urandom(5000)) for name in names]
    async with served(root) as url, mirrored(landing, broker):
        own = lines_of(broker, root, url, f"identity {identity}")
        await asyncio.to_thread(sr3.post, broker.url, own, paths)
        await is_same(root, landing)


async def test_blocks_of_sr3_post_are_put_together(sr3: Sr3, broker: PostBroker, tmp_path: Path) -> None:
    root, landing = tmp_path / "root", tmp_path / "landing"
    path = file_of(root, "a/large", os.urandom(1_000_000))
    async with served(root) as url, mirrored(landing, broker) as subscriber:
        await asyncio.to_thread(sr3.post, broker.url, lines_of(broker, root, url, "blockSize 300k"), [path])
        data = path.read_bytes()  # beside it lies a manifest that sr3_post has made
        await until(lambda: tree_of(landing) == {"a": "/", "a/large": data})
        await until(lambda: subscriber.state.written_n == 4)


async def test_what_sr3_watch_sees_is_mirrored(sr3: Sr3, broker: PostBroker, tmp_path: Path) -> None:
    root, landing = tmp_path / "root", tmp_path / "landing"
    root.mkdir()
    async with served(root) as url, mirrored(landing, broker, strip=str(root)) as subscriber:
        own = lines_of(broker, root, url, f"path {root}", "realpathPost false", "sleep 0.1", "fileAgeMin 0")
        flow = await asyncio.to_thread(sr3.start, "watch", broker.exchange, broker.url, own)
        await asyncio.to_thread(flow.wait_for, "now active on")
        folder = root / "a"
        folder.mkdir()
        await is_same(root, landing)
        for name in ("one", "two"):
            file_of(folder, name, name.encode() * 1000)
        (folder / "link").symlink_to("one")
        await is_same(root, landing)
        await until(lambda: subscriber.state.bytes == 6000)
        (folder / "one").rename(folder / "new name")
        await is_same(root, landing)
        folder = folder.rename(root / "b")
        await is_same(root, landing)
        assert subscriber.state.bytes == 6000  # nothing was fetched again
        (folder / "two").unlink()
        (folder / "link").unlink()
        await is_same(root, landing)
        (folder / "new name").unlink()
        folder.rmdir()
        await until(lambda: not (landing / "b").exists())
