"""Many files and many posts: memory and open files of server, poster and mirror stay, however many there were.

FILES=100000 POSTS=100000 pytest -m long -s tests/system/feed/test_many.py
"""

import asyncio
import hashlib
import os
import socket
from base64 import b64encode
from pathlib import Path
from typing import Final

import pytest

from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import Post, make_post
from spark_sink.feed.program.control import ControlClient
from tests.client_sdk.gateways.samwise.rabbitmq import HOST
from tests.conftest import StartBroker
from tests.spark_sink.feed.samples import PUB_TIME_NS
from tests.spark_sink.feed.transports.posters import TestedPoster
from tests.system.feed.programs import Feed
from tests.system.support.processes import LISTENING
from tests.system.support.vitals import resident_kib
from tests.system.support.waits import until

FILES_N: Final = int(os.environ.get("FILES", "1000"))
POSTS_N: Final = int(os.environ.get("POSTS", "1500"))
LOOK_S: Final = 0.05  # between two questions
TURNS_N: Final = 5  # in which they come
FILE_BYTES: Final = 100
TEST_S: Final = 60.0 + (FILES_N + POSTS_N) / 50
# Of one file or post: what a mirror remembers of it for an hour, and a poster of what it has seen; fewer files than a
# few thousand only show what a process takes when it is warm.
KEPT_KIB: Final = 1.0
WARM_KIB: Final = 16_384

pytestmark = pytest.mark.long


async def test_memory_and_open_files_stay_over_many_files(
    start_broker: StartBroker, feeds: list[Feed], tmp_path: Path
) -> None:
    root, landing = tmp_path / "root", tmp_path / "landing"
    root.mkdir()
    url = start_broker().url("tcp")
    feeds.append(Feed(tmp_path, "serve", str(root), "--listen", f"{HOST}:0"))
    feeds[0].start()
    await until(lambda: feeds[0].output.startswith(LISTENING) and feeds[0].output.endswith("\n"))
    own = ["--to", url, "--settle", "0", "--interval", "200ms"]
    own += ["--base-url", feeds[0].output.removeprefix(LISTENING).strip()]
    feeds.append(Feed(tmp_path, "watch", str(root), "--dir", "poster", *own))
    feeds.append(Feed(tmp_path, "subscribe", str(landing), "--dir", "mirror", "--from", url))
    for feed in feeds[1:]:
        feed.start()
    seen = []
    for turn in range(TURNS_N):
        await asyncio.to_thread(fill, root / f".{turn}", FILES_N // TURNS_N)
        (root / f".{turn}").rename(root / str(turn))
        await mirrored(tmp_path / "mirror", done=(turn + 1) * (FILES_N // TURNS_N))
        seen.append([(resident_kib(feed.pid), open_n(feed.pid)) for feed in feeds])
        print(f"{(turn + 1) * FILES_N // TURNS_N:7} files, KiB and open files of server, poster, mirror: {seen[-1]}")
    for first, last in zip(seen[1], seen[-1], strict=True):
        assert last[0] - first[0] <= WARM_KIB + KEPT_KIB * FILES_N
        assert last[1] <= first[1] + 40  # connections and files of those that are under way


def fill(folder: Path, files_n: int) -> None:
    folder.mkdir()
    for number in range(files_n):
        (folder / str(number)).write_bytes(b"%099d\n" % number)


async def mirrored(folder: Path, *, done: int = 0, retries: int = 0) -> None:
    """Returns when so many files are there, and so many wait."""
    await until(lambda: (folder / "control.sock").exists())
    async with asyncio.timeout(TEST_S), ControlClient(folder / "control.sock") as control:
        while True:
            (state,) = (await control.state()).mirrors
            if state.done >= done and state.retries >= retries:
                return
            await asyncio.sleep(LOOK_S)


def open_n(pid: int) -> int:
    """Descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


async def test_posts_of_a_host_that_is_down_wait_on_the_disk(
    start_broker: StartBroker, feeds: list[Feed], tmp_path: Path
) -> None:
    landing = tmp_path / "landing"
    url = start_broker().url("tcp")
    with socket.create_server((HOST, 0)) as closed:
        gone = f"http://{HOST}:{closed.getsockname()[1]}/"
    feeds.append(Feed(tmp_path, "subscribe", str(landing), "--dir", "mirror", "--from", url, "--no-reports"))
    feeds[0].start()
    await until(lambda: "connected" in feeds[0].output)
    poster = TestedPoster(url, tmp_path / "posts.db")
    await poster.start()
    data = bytes(FILE_BYTES)
    identity = Identity("sha512", b64encode(hashlib.sha512(data).digest()).decode())
    seen = []
    for turn in range(TURNS_N):
        first, end = turn * POSTS_N // TURNS_N, (turn + 1) * POSTS_N // TURNS_N
        await poster.post(*(waiting(gone, number, identity) for number in range(first, end)))
        await mirrored(tmp_path / "mirror", retries=end)
        seen.append((resident_kib(feeds[0].pid), open_n(feeds[0].pid)))
        print(f"{end:7} posts wait, KiB and open files of the mirror: {seen[-1]}")
    await poster.stop()
    assert seen[-1][0] - seen[1][0] <= WARM_KIB
    assert seen[-1][1] - seen[1][1] <= 40


def waiting(base_url: str, number: int, identity: Identity) -> Post:
    return make_post(base_url, f"f{number}", PUB_TIME_NS, identity=identity, size=FILE_BYTES)
