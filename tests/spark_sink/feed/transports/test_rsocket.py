"""spark_sink.feed.transports.{rsocket,offering}: replayed, then live, merged, and back where it was."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client_sdk import Service, connect, multicast
from client_sdk.errors import ApplicationError
from client_sdk.testing import LocalBroker, local_broker
from spark_sink.feed.errors import NotSent, NotTaken, SendError
from spark_sink.feed.posts import Post, read_post
from spark_sink.feed.reports import Report, report_post
from spark_sink.feed.transport import UP, Arrival
from spark_sink.feed.transports import offering, rsocket
from spark_sink.feed.transports.asked import POSTS, read_item
from spark_sink.feed.transports.opening import open_sink, open_source
from spark_sink.feed.transports.rsocket import RSocketSink, RSocketSource
from spark_sink.feed.transports.settings import BadLink, SinkSettings, SourceSettings
from tests.spark_sink.feed.samples import post_of
from tests.spark_sink.feed.transports.posters import Kept, QuickClock, TestedPoster, source_of, take
from tests.spark_sink.feed.vectors import SENT
from tests.system.support.waits import soon, until

ROOT = Path(__file__).parents[4]
# A consumer that acknowledges each post, after it has said so, until it is killed.
CONSUMER = """
import asyncio, sys
from pathlib import Path
from tests.spark_sink.feed.transports.posters import Kept, source_of

async def main():
    source = source_of(sys.argv[1], Kept(Path(sys.argv[2])))
    while True:
        arrival = await source.receive()
        print(arrival.body.decode(), flush=True)
        source.acknowledge(arrival)

asyncio.run(main())
"""


@pytest.fixture
async def url() -> AsyncIterator[LocalBroker]:
    async with local_broker() as broker:
        yield broker


@pytest.fixture
async def poster(url: LocalBroker, tmp_path: Path) -> AsyncIterator[TestedPoster]:
    made = TestedPoster(url, tmp_path / "posts.db")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def source(url: LocalBroker) -> AsyncIterator[RSocketSource]:
    made = source_of(url)
    yield made
    await made.close()


def paths_of(arrivals: list[Arrival]) -> list[str]:
    return [read_post(each.body).rel_path for each in arrivals]


def report_of(post: Post) -> Post:
    return report_post(post, Report(201, "20260102T030405", "h", "u", "fetched"))


async def is_silent(source: RSocketSource) -> bool:
    """Nothing comes for a time: what must not happen has no other sign."""
    waiting = asyncio.ensure_future(source.receive())
    await asyncio.wait([waiting], timeout=0.1)
    waiting.cancel()
    return not waiting.done()


async def test_posts_are_replayed_and_then_live(poster: TestedPoster, source: RSocketSource) -> None:
    await poster.post_paths("a/b/f", "top")
    first, second = await take(source, 2)
    assert (first.body, first.topic, first.source) == (post_of(relPath="a/b/f").encode(), "v03.post.a.b", "in")
    assert second.topic == "v03.post"
    await poster.post_paths("live/f")
    assert paths_of(await take(source, 1)) == ["live/f"]
    assert (source.state(), poster.offer.state()) == (UP, UP)


async def test_posts_of_sr3_arrive_byte_for_byte(poster: TestedPoster, source: RSocketSource) -> None:
    bodies = {name: read_post(body) for name, body in SENT.items()}
    for number, post in enumerate(bodies.values()):  # each stands for a file of its own
        await poster.post(post.changed(relPath=f"{number}/{post.rel_path}"))
    arrived = await take(source, len(bodies))
    assert [each.body for each in arrived] == [
        post.changed(relPath=f"{number}/{post.rel_path}").encode() for number, post in enumerate(bodies.values())
    ]


async def test_only_what_the_patterns_take_arrives(url: LocalBroker, poster: TestedPoster) -> None:
    source = source_of(url, patterns=("v03.post.a.*", "v03.post.#.end"))
    await poster.post_paths("a/f", "a/b/f", "a/b/c/f", "x/end/f", "x/f")
    assert paths_of(await take(source, 2)) == ["a/b/f", "x/end/f"]
    assert await is_silent(source)
    await source.close()


async def test_no_more_than_prefetch_are_out(url: LocalBroker, poster: TestedPoster) -> None:
    source = source_of(url, prefetch=2)
    await poster.post_paths(*(f"f{number}" for number in range(5)))
    first, second = await take(source, 2, is_done=False)
    assert await is_silent(source)
    source.acknowledge(second)
    source.acknowledge(second)  # the second time it is nothing
    assert paths_of(await take(source, 1, is_done=False)) == ["f2"]
    assert await is_silent(source)
    source.acknowledge(first)
    assert paths_of(await take(source, 2)) == ["f3", "f4"]
    await source.close()


async def test_the_next_process_begins_behind_what_was_acknowledged(
    url: LocalBroker, poster: TestedPoster, tmp_path: Path
) -> None:
    kept = Kept(tmp_path / "kept")
    await poster.post_paths("f0", "f1", "f2", "f3")
    source = source_of(url, kept)
    arrivals = await take(source, 4, is_done=False)
    for each in (arrivals[0], arrivals[2]):  # the one between is not done: it comes again, and what is behind it
        source.acknowledge(each)
    await source.close()
    assert await kept.load("in") == {poster.log.origin: 1}
    again = source_of(url, kept)
    assert paths_of(await take(again, 3)) == ["f1", "f2", "f3"]
    await again.close()
    last = source_of(url, kept)
    assert await is_silent(last)
    await last.close()


async def test_a_store_that_fails_is_tried_again(url: LocalBroker, poster: TestedPoster, tmp_path: Path) -> None:
    kept = Kept(tmp_path / "kept")
    kept.is_broken = True
    source = source_of(url, kept)
    await poster.post_paths("f")
    await take(source, 1)
    kept.is_broken = False
    await until((tmp_path / "kept").exists)
    await source.close()


async def test_several_posters_are_merged_and_each_comes_back_where_it_was(
    url: LocalBroker, poster: TestedPoster, source: RSocketSource, tmp_path: Path
) -> None:
    other = TestedPoster(url, tmp_path / "other.db")
    await other.start()
    await poster.post_paths("one/1")
    await other.post_paths("two/1")
    assert set(paths_of(await take(source, 2))) == {"one/1", "two/1"}
    await other.restart()
    await poster.post_paths("one/2")
    await other.post_paths("two/2")
    assert set(paths_of(await take(source, 2))) == {"one/2", "two/2"}
    assert await is_silent(source)
    await other.stop()


async def test_a_broker_that_restarts_repeats_nothing_and_leaves_nothing_out(
    url: LocalBroker, poster: TestedPoster, source: RSocketSource
) -> None:
    await poster.post_paths("f0", "f1")
    first, _ = await take(source, 2, is_done=False)  # out while the broker is away, and not asked for twice
    await url.restart()
    await poster.post_paths("f2")
    assert paths_of(await take(source, 1)) == ["f2"]
    source.acknowledge(first)
    url.drop_connections()
    await poster.post_paths("f3")
    assert paths_of(await take(source, 1)) == ["f3"]
    assert await is_silent(source)


async def test_posters_of_another_exchange_are_not_asked(
    url: LocalBroker, tmp_path: Path, source: RSocketSource
) -> None:
    other = TestedPoster(url, tmp_path / "other.db", "xother")
    await other.start()
    await other.post_paths("f")
    assert await is_silent(source)
    await until(lambda: source.state() == "no poster of exchange 'xpublic' is there")
    theirs = source_of(url, exchange="xother")
    assert paths_of(await take(theirs, 1)) == ["f"]
    await theirs.close()
    await other.stop()


async def test_more_posters_than_the_bound_are_left_alone(
    url: LocalBroker, poster: TestedPoster, source: RSocketSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rsocket, "MAX_ORIGINS", 1)
    await poster.post_paths("f")
    await take(source, 1)
    other = TestedPoster(url, tmp_path / "other.db")
    await other.start()
    await other.post_paths("g")
    assert await is_silent(source)
    await poster.stop()
    assert paths_of(await take(source, 1)) == ["g"]
    await other.stop()
    await poster.log.open()


async def test_a_consumer_that_is_killed_loses_nothing(url: LocalBroker, poster: TestedPoster, tmp_path: Path) -> None:
    paths = [f"d/{number}" for number in range(40)]
    await poster.post_paths(*paths)
    seen: set[str] = set()
    for turn in range(2):
        arguments = [sys.executable, "-c", CONSUMER, url, str(tmp_path / "kept")]
        consumer = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
        assert consumer.stdout is not None
        wanted = set(paths) if turn else {paths[7]}
        while not wanted <= seen:
            line = (await soon(consumer.stdout.readline())).strip()
            seen.add(read_post(line).rel_path)
        consumer.kill()
        said = (await consumer.stdout.read()).splitlines()  # what it had said and acknowledged
        seen.update(read_post(line).rel_path for line in said)
        await consumer.wait()
    assert seen == set(paths)


async def test_one_request_to_all_posters_merges_them_each_from_its_own_number(
    url: LocalBroker, poster: TestedPoster, tmp_path: Path
) -> None:
    other = TestedPoster(url, tmp_path / "other.db")
    await other.start()
    await poster.post_paths("one/1", "one/2")
    await other.post_paths("two/1")
    await url.wait_for_routes("feed", 2)
    asked = b'{"topic": "v03.post.#", "since": {"%s": 1}}' % poster.log.origin.encode()
    found = set()
    async with connect(url) as client:
        async for each in client.request_stream(multicast("feed"), asked, route=POSTS):
            item = read_item(each.metadata)
            found.add((item.origin, item.seq, read_post(each.data or b"").rel_path))
            if len(found) == 2:
                break
    assert found == {(poster.log.origin, 2, "one/2"), (other.log.origin, 1, "two/1")}
    await other.stop()


async def test_a_log_that_is_an_older_copy_of_itself_is_read_from_its_beginning(
    url: LocalBroker, poster: TestedPoster, tmp_path: Path
) -> None:
    kept = Kept(tmp_path / "kept")
    await kept.save("in", {poster.log.origin: 99})
    source = source_of(url, kept)
    await poster.post_paths("f")
    assert paths_of(await take(source, 1)) == ["f"]
    await source.close()
    assert await kept.load("in") == {poster.log.origin: 1}


async def test_posts_that_are_superseded_are_passed_over(poster: TestedPoster, source: RSocketSource) -> None:
    await poster.post_paths("f", "f", "f")
    await take(source, 1)
    await poster.post_paths("g")
    assert paths_of(await take(source, 1)) == ["g"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (b"{", "Input data was truncated"),
        (b'{"since": -1}', "since must be 0.."),
        (b'{"since": 9223372036854775808}', "since must be 0..|out of range"),
        (b'{"topic": 3}', "Expected `str | array`"),
        (b'{"topic": ["#"%s]}' % (b', "#"' * 256), "topic has 257 patterns, 256 are allowed"),
        (b'{"topic": "%s"}' % b".".join([b"a"] * 129), "more than 128 levels"),
    ],
)
async def test_what_a_consumer_may_not_ask_is_told(
    url: LocalBroker, poster: TestedPoster, asked: bytes, why: str
) -> None:
    await url.wait_for_routes("feed")
    async with connect(url) as client:
        with pytest.raises(ApplicationError, match=why):
            await soon(anext(client.request_stream(multicast("feed"), asked)))


async def test_a_report_reaches_the_poster_whose_post_it_is(
    url: LocalBroker, poster: TestedPoster, tmp_path: Path
) -> None:
    other = TestedPoster(url, tmp_path / "other.db")
    other.is_known = False
    await other.start()
    await url.wait_for_routes("feed", 2)
    sink = RSocketSink(SinkSettings(name="out", url=url), QuickClock())
    report = report_of(post_of())
    await soon(sink.send(report, "v03.report"))
    assert (poster.reports, other.reports) == ([report.encode()], [report.encode()])
    assert (sink.name, sink.state()) == ("out", UP)
    await poster.stop()
    with pytest.raises(NotTaken, match=r"^out: no poster that is there has announced this"):
        await soon(sink.send(report, "v03.report"))
    await other.stop()
    with pytest.raises(NotSent, match=r"^out: no-route"):
        await soon(sink.send(report, "v03.report"))
    with pytest.raises(SendError, match="offered by its poster"):
        await sink.send(post_of(), "v03.post")
    await sink.close()
    await poster.log.open()


async def test_a_report_that_the_log_did_not_take_is_sent_again(url: LocalBroker, poster: TestedPoster) -> None:
    await url.wait_for_routes("feed")
    await poster.log.close()
    poster.offer._heard = poster.log.report  # type: ignore[misc, assignment]  # a log that is closed refuses
    sink = RSocketSink(SinkSettings(name="out", url=url), QuickClock())
    with pytest.raises(NotSent, match="could not be kept"):
        await soon(sink.send(report_of(post_of()), "v03.report"))
    await sink.close()


async def test_a_consumer_beyond_the_bound_has_its_turn_when_another_one_leaves(
    url: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offering, "MAX_STREAMS", 1)
    monkeypatch.setattr(offering, "MAX_WAITING", 0)
    poster = TestedPoster(url, tmp_path / "posts.db")
    await poster.start()
    await poster.post_paths("f")
    first, second = source_of(url), source_of(url)
    await take(first, 1)
    assert await is_silent(second)
    await first.close()
    assert paths_of(await take(second, 1)) == ["f"]
    await second.close()
    await poster.stop()


async def test_a_poster_that_says_nothing_holds_up_no_other_and_no_report_for_long(
    url: LocalBroker, poster: TestedPoster, source: RSocketSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rsocket, "REPORT_S", 0.1)
    poster.is_known = False
    silent = Service("feed", tags={"exchange": "xpublic"})

    @silent.request_response()
    async def nothing(data: bytes) -> bytes:
        await asyncio.get_running_loop().create_future()
        return data

    async with connect(url, service=silent):
        await poster.post_paths("f")
        assert paths_of(await take(source, 1)) == ["f"]
        sink = RSocketSink(SinkSettings(name="out", url=url), QuickClock())
        with pytest.raises(NotSent, match=r"^out: no answer within 0\.1 s"):
            await soon(sink.send(report_of(post_of()), "v03.report"))
        await sink.close()


async def test_where_nobody_is_it_is_told() -> None:
    sink = open_sink(SinkSettings(name="out", url="tcp://127.0.0.1:1"))
    with pytest.raises(NotSent, match=r"^out: .*connection refused"):
        await soon(sink.send(report_of(post_of()), "v03.report"))
    await sink.close()
    assert sink.state() == "closed"


def test_what_is_no_url_or_tag_is_told() -> None:
    for settings in (
        SourceSettings(name="in", url="tcp://h:port"),
        SourceSettings(name="in", url="tcp://h", exchange="x" * 128),
    ):
        with pytest.raises(BadLink, match=r"^in: "):
            open_source(settings)
