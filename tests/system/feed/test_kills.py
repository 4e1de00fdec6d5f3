"""kill -9 of a poster and of a mirror, again and again, while files come: the same bytes in the end, never a half."""

import asyncio
import os
import random
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import StartBroker
from tests.system.feed.programs import Feed, Site, Watch, contents, names
from tests.system.support.waits import until

KILLS_N: Final = int(os.environ.get("KILLS", "3"))
TEST_S: Final = 60.0 + 20.0 * KILLS_N
FILES_N: Final = 20  # that come between two kills

pytestmark = pytest.mark.long


async def test_all_files_arrive_whenever_poster_and_mirror_are_killed(
    start_broker: StartBroker, feeds: list[Feed], tmp_path: Path
) -> None:
    """What was there when a process was killed is never asked for again."""
    root, landing, rng = tmp_path / "root", tmp_path / "landing", random.Random(KILLS_N)
    root.mkdir()
    landing.mkdir()
    url = start_broker().url("tcp")
    files: dict[str, bytes] = {}
    async with Site(root, landing).serving() as site:
        own = ["--base-url", site.url, "--to", url, "--settle", "0", "--interval", "100ms"]
        feeds.append(Feed(tmp_path, "watch", str(root), "--dir", "poster", *own))
        feeds.append(Feed(tmp_path, "subscribe", str(landing), "--dir", "mirror", "--from", url))
        for feed in feeds:
            feed.start()
        with Watch(landing, files) as watch:
            for turn in range(KILLS_N):
                for number in range(FILES_N):
                    name = f"{turn}-{number}"
                    files[name] = rng.randbytes(rng.choice([10, 4096, 300_000]))
                    (root / name).write_bytes(files[name])
                enough_n = len(names(landing)) + rng.randrange(1, FILES_N)
                await until(lambda enough_n=enough_n: len(names(landing)) >= enough_n)  # type: ignore[misc]
                for feed in (feeds, feeds[:1], feeds[1:])[turn % 3]:
                    feed.kill()
                    await asyncio.to_thread(feed.start)
            await until(lambda: names(landing) == set(files))
        assert contents(landing) == files
        assert (watch.halves, site.again) == (set(), [])
