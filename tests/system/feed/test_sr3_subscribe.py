"""The real `sr3 subscribe` has what we announce, byte for byte, over AMQP and MQTT."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.system.feed.announcing import PostBroker, announced, is_same
from tests.system.feed.sr3 import Flow, Sr3
from tests.system.support.waits import until

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("rabbitmq")]
READY = {"amqp": "binding q_guest.{}", "mqtt": "subscribe completed"}
OF_BLOCKS = [r".*\.flufl_lock.*", ".*§block_manifest§.*"]
REASSEMBLY = "callback_prepend block_reassembly"
ODD_NAMES = ["#", "%41", "q?", "a b/x y.txt", "a b/50%?.txt", "a b/Über#1/ü+&;=~.bin", "a.b/c.d", "*/+", "top"]


async def subscribed(sr3: Sr3, broker: PostBroker, landing: Path, *lines: str) -> Flow:
    """It has its queue, and so it gets what is posted from now on."""
    landing.mkdir()
    await broker.declare()
    own = [
        *(f"exchange {broker.exchange}", "topicPrefix v03.post", f"queueName q_guest.{broker.exchange}", "subtopic #"),
        *(f"directory {landing}", "mirror true", "accept .*", *lines),
    ]
    flow = sr3.start("subscribe", broker.exchange, broker.url, own)
    said = READY[broker.url.partition(":")[0]].format(broker.exchange)
    await asyncio.to_thread(flow.wait_for, said)
    return flow


def folder_of(tmp_path: Path, *names: str) -> Path:
    """Each file holds its name, many times."""
    root = tmp_path / "root"
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode() * 1000)
    root.mkdir(exist_ok=True)
    return root


async def test_sr3_fetches_files_of_any_name_byte_for_byte(sr3: Sr3, broker: PostBroker, tmp_path: Path) -> None:
    root, landing = folder_of(tmp_path, *ODD_NAMES), tmp_path / "landing"
    (root / "empty").touch()
    await subscribed(sr3, broker, landing)
    async with announced(root, broker):
        await is_same(root, landing)


@pytest.mark.parametrize("broker", ["amqp"], indirect=True)
async def test_sr3_fetches_files_of_each_identity(sr3: Sr3, broker: PostBroker, tmp_path: Path) -> None:
    await subscribed(sr3, broker, tmp_path / "landing")
    for identity in ("md5", "cod,sha512", "random", "none"):
        (tmp_path / identity).mkdir()
        root = folder_of(tmp_path / identity, f"{identity}/f")
        async with announced(root, broker, identity=identity):
            await is_same(root / identity, tmp_path / "landing" / identity)


@pytest.mark.parametrize("broker", ["amqp"], indirect=True)
async def test_sr3_writes_what_is_within_posts(sr3: Sr3, broker: PostBroker, tmp_path: Path) -> None:
    root, landing = folder_of(tmp_path, "a/text"), tmp_path / "landing"
    (root / "a" / "bytes").write_bytes(bytes(range(256)))
    await subscribed(sr3, broker, landing)
    async with announced(root, broker, inline_bytes=10_000):
        await is_same(root, landing)


@pytest.mark.parametrize("broker", ["amqp"], indirect=True)
async def test_sr3_puts_our_blocks_together(sr3: Sr3, broker: PostBroker, tmp_path: Path) -> None:
    root, landing = folder_of(tmp_path, "a/large"), tmp_path / "landing"
    data = os.urandom(1_000_000)
    (root / "a" / "large").write_bytes(data)
    await subscribed(sr3, broker, landing, "inflight None", *(f"reject {each}" for each in OF_BLOCKS), REASSEMBLY)
    async with announced(root, broker, block_bytes=300_000):
        whole = landing / "a" / "large"
        await until(lambda: whole.exists() and whole.read_bytes() == data)


async def test_sr3_follows_changes_links_renames_and_removals(sr3: Sr3, broker: PostBroker, tmp_path: Path) -> None:
    root, landing = folder_of(tmp_path, "a/one", "a/two", "a/three"), tmp_path / "landing"
    await subscribed(sr3, broker, landing)
    async with announced(root, broker):
        await is_same(root, landing)
        (root / "a" / "one").write_bytes(b"changed")
        (root / "a" / "link").symlink_to("two")
        (root / "a" / "hard").hardlink_to(root / "a" / "two")
        await is_same(root, landing)
        (root / "a" / "three").rename(root / "a" / "new name")
        await is_same(root, landing)
        (root / "a" / "one").unlink()
        (root / "a" / "link").unlink()
        await is_same(root, landing)
