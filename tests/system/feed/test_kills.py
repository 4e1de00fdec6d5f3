"""kill -9 of a poster and of a mirror, again and again, while files come: the same bytes in the end, never a half."""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import StartBroker
from tests.system.feed.announcing import served, tree_of
from tests.system.support.processes import import_path
from tests.system.support.waits import until

KILLS_N: Final = int(os.environ.get("KILLS", "5"))
FILES_N: Final = 20  # that come between two kills
MAIN: Final = "from broker.commands.script import main; main()"

pytestmark = pytest.mark.long


class Feed:
    """A `feed` command, which can be killed and started again."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._folder = folder
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None  # None until it is started

    def start(self) -> None:
        with (self._folder / f"{self._words[0]}.log").open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": import_path()}
            command = [sys.executable, "-c", MAIN, "feed", *self._words]
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, env=environment)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def feeds() -> Iterator[list[Feed]]:
    """Those that are killed at the end."""
    started: list[Feed] = []
    yield started
    for feed in started:
        feed.kill()


async def test_all_files_arrive_whenever_poster_and_mirror_are_killed(
    start_broker: StartBroker, feeds: list[Feed], tmp_path: Path
) -> None:
    root, landing, rng = tmp_path / "root", tmp_path / "landing", random.Random(KILLS_N)
    root.mkdir()
    landing.mkdir()
    url = start_broker().url("tcp")
    files: dict[str, bytes | str] = {}
    async with served(root) as base_url:
        own = ["--base-url", base_url, "--to", url, "--settle", "0", "--interval", "100ms"]
        feeds.append(Feed(tmp_path, "watch", str(root), "--dir", "poster", *own))
        feeds.append(Feed(tmp_path, "subscribe", str(landing), "--dir", "mirror", "--from", url))
        for feed in feeds:
            feed.start()
        for turn in range(KILLS_N):
            for number in range(FILES_N):
                name = f"{turn}-{number}"
                files[name] = rng.randbytes(rng.choice([10, 4096, 300_000]))
                (root / name).write_bytes(files[name])  # type: ignore[arg-type]
            enough_n = len(names(landing)) + rng.randrange(1, FILES_N)
            await until(lambda enough_n=enough_n: len(names(landing)) >= enough_n)  # type: ignore[misc]
            for feed in rng.choice([feeds, feeds[:1], feeds[1:]]):
                feed.kill()
                there = visible(landing)
                assert {name: there[name] == files[name] for name in there} == dict.fromkeys(there, True)
                await asyncio.to_thread(feed.start)
        await until(lambda: names(landing) == set(files))
        assert visible(landing) == files


def names(landing: Path) -> set[str]:
    """Of what is there, which costs little to ask for."""
    return {name for name in os.listdir(landing) if not name.startswith(".")}


def visible(landing: Path) -> dict[str, bytes | str]:
    """Without what is fetched under hidden names."""
    return {name: data for name, data in tree_of(landing).items() if not name.startswith(".")}
