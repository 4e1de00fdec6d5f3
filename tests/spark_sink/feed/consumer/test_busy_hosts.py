"""A host that has no room for more: what is to be fetched from it waits, in memory or on the disk."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from spark_sink.feed.consumer import hosts as hosts_module
from spark_sink.feed.consumer import subscriber as subscriber_module
from spark_sink.feed.posts import make_post
from tests.spark_sink.feed.consumer.mirrors import Running, Site
from tests.spark_sink.feed.samples import PUB_TIME_NS
from tests.system.support.waits import until

NEVER_S = 1e6


class Held:
    """Answers of a site, each of which a test lets go."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._releases: asyncio.Queue[None] = asyncio.Queue()
        site.before = self._hold

    async def _hold(self, request: web.Request) -> None:
        await self._releases.get()

    def release(self, n: int = 1) -> None:
        for _ in range(n):
            self._releases.put_nowait(None)

    async def asked(self, n: int) -> None:
        await until(lambda: len(self.site.asked) >= n)
        assert len(self.site.asked) == n


@pytest.fixture
def held(site: Site, monkeypatch: pytest.MonkeyPatch) -> Held:
    monkeypatch.setattr(hosts_module, "PER_HOST_N", 4)
    return Held(site)


async def test_posts_that_wait_for_a_slow_host_do_so_on_the_disk_and_take_each_place_that_becomes_free(
    held: Held, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_module, "PATIENCE_S", 0.02)
    monkeypatch.setattr(subscriber_module, "SOON_S", 0.0)
    monkeypatch.setattr(subscriber_module, "TICK_S", 0.01)
    bodies = [site.post(f"f{n}", site.put(f"f{n}", b"%d" % n)) for n in range(20)]
    async with Running(tmp_path) as mirror:
        mirror.source.give(*bodies)
        await until(lambda: len(mirror.source.acknowledged) == 20)
        for asked_n in range(4, 20):
            await held.asked(asked_n)
            held.release()
        held.release(4)
        await mirror.reported(20)


async def test_posts_that_wait_for_a_host_that_is_well_do_so_in_memory(
    held: Held, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_module, "PATIENCE_S", NEVER_S)
    monkeypatch.setattr(subscriber_module, "SOON_S", NEVER_S)  # what is on the disk does not come back
    bodies = [site.post(f"f{n}", site.put(f"f{n}", b"%d" % n)) for n in range(20)]
    async with Running(tmp_path) as mirror:
        mirror.source.give(*bodies)
        for asked_n in range(4, 20):
            await held.asked(asked_n)
            held.release()
        await held.asked(20)
        assert [path for path, _ in site.asked] == [f"/f{n}" for n in range(20)]  # in the order in which they came
        held.release(4)
        await mirror.reported(20)


async def test_a_host_that_becomes_slow_sends_to_the_disk_what_waits_for_it(
    held: Held, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_module, "PATIENCE_S", NEVER_S)
    bodies = [site.post(f"f{n}", site.put(f"f{n}", b"%d" % n)) for n in range(20)]
    async with Running(tmp_path) as mirror:
        mirror.source.give(*bodies)
        await held.asked(4)
        assert mirror.source.acknowledged == []
        monkeypatch.setattr(subscriber_module, "PATIENCE_S", 0.0)
        await until(lambda: len(mirror.source.acknowledged) == 20)
        monkeypatch.setattr(subscriber_module, "PATIENCE_S", NEVER_S)
        held.release(20)
        await mirror.reported(20)
        # Nobody is slow any more: what comes now waits in memory.
        more = [site.post(f"g{n}", site.put(f"g{n}", b"%d" % n)) for n in range(6)]
        monkeypatch.setattr(subscriber_module, "SOON_S", NEVER_S)
        mirror.source.give(*more)
        held.release(6)
        await mirror.reported(26)


async def test_what_has_waited_for_its_host_does_not_undo_what_came_after_it(
    held: Held, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_module, "PATIENCE_S", NEVER_S)
    monkeypatch.setattr(hosts_module, "PER_HOST_N", 1)
    removal = make_post(site.url, "late", PUB_TIME_NS + 1).changed(fileOp={"remove": ""}).encode()
    async with Running(tmp_path, mirror={"removes": True}) as mirror:
        mirror.source.give(site.post("first", site.put("first", b"1")), site.post("late", site.put("late", b"2")))
        await held.asked(1)
        mirror.source.give(removal)
        await mirror.reported(1)
        held.release(2)
        codes = await mirror.reported(3)
        assert codes[0] == (201, "late")
        assert sorted(codes[1:]) == [(201, "first"), (304, "late")]
        assert mirror.files == {"first": b"1"}
