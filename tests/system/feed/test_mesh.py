"""Five mirrors that announce to each other what they have: each fetches a file once, and circles of posts end."""

import asyncio
import hashlib
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from client_sdk.testing import local_broker
from spark_sink.feed.consumer.subscriber import Subscriber, SubscriberOptions
from spark_sink.feed.posts import read_post
from spark_sink.feed.producer.folders import Folder
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.poster import Poster
from spark_sink.feed.producer.posting import PostOptions
from spark_sink.feed.transport import UP, Arrival, Source
from spark_sink.feed.transports.offering import PostOffer
from spark_sink.feed.transports.opening import open_source
from spark_sink.feed.transports.settings import POST_PREFIX, SinkSettings, SourceSettings
from tests.system.feed.announcing import LOOK_S, PostBroker
from tests.system.feed.programs import Site, contents
from tests.system.support.waits import soon, until

MIRRORS_N: Final = 5
FILES_N: Final = 20
RING: Final = [[(number - 1) % MIRRORS_N] for number in range(MIRRORS_N)]
EACH_TO_EACH: Final = [[each for each in range(MIRRORS_N) if each != number] for number in range(MIRRORS_N)]
# As they stand in a post, which no parser may have touched.
UNKNOWN: Final = (
    b'"zz": {"b":[1.0,1e400, -0.0,1E+2,123456789012345678901234567890],"a":null,"b2":{"":[[],{}]}}, '
    b'"aa": 0.10000000000000000000000000001, "mm": "\xc3\xbc\\u00fc\\/", "k": true'
)

pytestmark = pytest.mark.long


@asynccontextmanager
async def mirrors(
    broker: PostBroker, folder: Path, origin: Site, hears: Sequence[Sequence[int]]
) -> AsyncIterator[tuple[list[Subscriber], list[Site]]]:
    """Five of them; each hears those with these numbers, and the first one what is posted on the broker's exchange."""
    async with AsyncExitStack() as at_end:
        found: list[Subscriber] = []
        sites: list[Site] = []
        for number in range(MIRRORS_N):
            landing = folder / str(number)
            landing.mkdir()
            sites.append(await at_end.enter_async_context(Site(landing, folder / "nobody").serving()))
        own = [replace(broker, exchange=f"{broker.exchange}-{number}") for number in range(MIRRORS_N)]
        for each in own:
            await each.declare()
        for number, heard in enumerate(hears):
            sources = [own[each].source(f"{own[each].exchange}-to-{number}") for each in heard]
            if not number:
                sources.append(broker.source(f"{broker.exchange}-in"))
            options = SubscriberOptions(
                root=folder / str(number),
                memory=folder / f"{number}.db",
                base_url=sites[number].url,
                is_synced=False,
            )
            mirror = Subscriber(sources, options, onward=[own[number].sink(f"out-{number}")])
            await mirror.start()
            at_end.push_async_callback(mirror.stop)
            found.append(mirror)
            await until(lambda sources=sources: all(each.state() == UP for each in sources))  # type: ignore[misc]
        yield found, sites


@pytest.mark.parametrize("hears", [RING, EACH_TO_EACH], ids=["ring", "each to each"])
async def test_each_of_five_mirrors_fetches_a_file_once_and_announces_it_once(
    broker: PostBroker, hears: Sequence[Sequence[int]], tmp_path: Path
) -> None:
    """Headers that nobody knows are as they were after five hops."""
    root = tmp_path / "root"
    root.mkdir()
    files = {f"f{number}": os.urandom(1000 + number) for number in range(FILES_N)}
    for name, data in files.items():
        (root / name).write_bytes(data)
    await broker.declare()
    async with Site(root, tmp_path / "nobody").serving() as origin:
        async with mirrors(broker, tmp_path, origin, hears) as (found, sites):
            watchers = [
                replace(broker, exchange=f"{broker.exchange}-{number}").source(f"{broker.exchange}-seen-{number}")
                for number in range(MIRRORS_N)
            ]
            takings = [asyncio.create_task(taken(each, FILES_N)) for each in watchers]
            await until(lambda: all(each.state() == UP for each in watchers))
            sink = broker.sink("origin")
            for name, data in files.items():
                await sink.send(read_post(body_of(origin.url, name, data)), POST_PREFIX)
            seen = await soon(asyncio.gather(*takings))
            # Each post that goes out reaches these, and only the first of them makes anything there.
            heard_n = [FILES_N * (len(heard) + (not number)) for number, heard in enumerate(hears)]
            await until(lambda: [each.state.received_n for each in found] == heard_n)
            await until(lambda: [each.state.repeats_n for each in found] == [n - FILES_N for n in heard_n])
            await sink.close()
            states = [(each.state.written_n, each.state.failed_n, each.state.refused_n) for each in found]
            assert states == [(FILES_N, 0, 0)] * MIRRORS_N
            for each in watchers:
                await each.close()
        asked = sum((each.asked for each in sites), origin.asked)
        assert asked == dict.fromkeys(files, MIRRORS_N)
        assert [contents(tmp_path / str(number)) for number in range(MIRRORS_N)] == [files] * MIRRORS_N
    for arrivals in seen:
        assert sorted(read_post(each.body).rel_path for each in arrivals) == sorted(files)
        assert [UNKNOWN in each.body for each in arrivals] == [True] * FILES_N


async def test_of_five_mirrors_that_offer_their_folders_over_rsocket_each_fetches_a_file_once(tmp_path: Path) -> None:
    """Each hears all, and itself: one exchange of one broker, and nothing else is there."""
    files = {f"f{number}": os.urandom(1000 + number) for number in range(FILES_N)}
    folders = [tmp_path / str(number) for number in range(MIRRORS_N + 1)]
    for folder in folders:
        folder.mkdir()
    for name, data in files.items():
        (folders[-1] / name).write_bytes(data)
    async with local_broker() as broker, AsyncExitStack() as at_end:
        sites = [await at_end.enter_async_context(Site(each, tmp_path / "nobody").serving()) for each in folders]
        offers = [await at_end.enter_async_context(offered(*each, broker)) for each in zip(folders, sites, strict=True)]
        found: list[Subscriber] = []
        for number, folder in enumerate(folders[:-1]):
            source = open_source(SourceSettings(name=f"in-{number}", url=broker))
            options = SubscriberOptions(root=folder, memory=tmp_path / f"{number}.db", is_synced=False)
            found.append(Subscriber([source], options))
            await found[-1].start()
            at_end.push_async_callback(found[-1].stop)
        await until(lambda: [each.log.last_seq for each in offers] == [FILES_N] * len(offers))
        heard_n = [FILES_N * len(offers)] * MIRRORS_N
        await until(lambda: [each.state.written_n + each.state.repeats_n for each in found] == heard_n)
        assert [each.state.written_n for each in found] == [FILES_N] * MIRRORS_N
    assert sum((each.asked for each in sites[1:]), sites[0].asked) == dict.fromkeys(files, MIRRORS_N)
    assert [contents(folder) for folder in folders] == [files] * len(folders)


@asynccontextmanager
async def offered(folder: Path, site: Site, broker: str) -> AsyncIterator[Poster]:
    """A folder whose files are posted, at a broker of RSocket."""
    log = PostLog(folder.with_suffix(".posts"), is_synced=False)
    poster = Poster(Folder(folder, interval_s=LOOK_S), log, PostOptions(base_url=site.url))
    offer = PostOffer(SinkSettings(name=folder.name, url=broker), log, poster.heard)
    await poster.start()
    offer.start()
    yield poster
    await offer.close()
    await poster.stop()


async def taken(source: Source, posts_n: int) -> list[Arrival]:
    found: list[Arrival] = []
    while len(found) < posts_n:
        found.append(await source.receive())
        source.acknowledge(found[-1])
    return found


def body_of(base_url: str, name: str, data: bytes) -> bytes:
    """Of a post, as another program could write it."""
    value = b64encode(hashlib.sha512(data).digest())
    return (
        b'{"pubTime":"20260101T000000.123456789",%s,"baseUrl":"%s","relPath":"%s","size":%d,'
        b'"identity":{"method":"sha512","value":"%s"}}'
    ) % (UNKNOWN, base_url.encode(), name.encode(), len(data), value)
