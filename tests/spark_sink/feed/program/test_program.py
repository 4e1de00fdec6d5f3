"""A feed as a process: what it announces, what operators are told, and how it starts and stops."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import aiohttp
import pytest

from broker.config.certificates import server_context
from broker.config.options import Config
from broker.config.sections.events import EventOptions
from broker.config.sections.feed import FeedOptions, MessageBrokerOptions, PostOptions, SubscribeOptions
from broker.config.sections.process import LogOptions
from broker.config.urls import Listen
from broker.events import FEED_ID, FileRecord
from broker.views.feed import FeedStateView
from client_sdk.gateways import running as running_module
from client_sdk.gateways.control import NotRunning, Refusal
from client_sdk.testing import local_broker
from rsocket_wire.errors import BrokerError
from spark_sink.feed.errors import NotSent
from spark_sink.feed.posts import Post, make_post, read_post
from spark_sink.feed.producer.post_tables import Heard
from spark_sink.feed.program import links, program
from spark_sink.feed.program.assignment import Assignment, assignment_of
from spark_sink.feed.program.control import ControlClient
from spark_sink.feed.program.links import offers_of, report_sinks_of, reports_of, sinks_of, sources_of
from spark_sink.feed.program.positions import FilePositions
from spark_sink.feed.program.posters import make_log, make_poster, post_options_of
from spark_sink.feed.program.program import post_once, serve
from spark_sink.feed.program.serving import FilesListener
from spark_sink.feed.reports import Report, report_post
from spark_sink.feed.transports.opening import open_sink, open_source
from spark_sink.feed.transports.settings import SinkSettings, SourceSettings

WAIT_S = 10.0
CERTIFICATE = str(Path(__file__).parents[3] / "client_sdk/localhost.pem")  # with its key


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """A program keeps its handlers until the process ends; here tests come after it that interrupt themselves."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def assigned(tmp_path: Path, **posted: object) -> Assignment:
    (tmp_path / "data").mkdir(exist_ok=True)
    own = {"folder": str(tmp_path / "data"), "base_url": "http://a/", "settle": 0.0, "interval": 0.05, **posted}
    options = FeedOptions(dir=str(tmp_path / "feed"), post={"data": PostOptions(**own)})  # type: ignore[arg-type]
    return Assignment(
        options=options, name="feed", events=Config().events, admin_url="", broker_url="", log=Config().log
    )


@asynccontextmanager
async def running(assignment: Assignment) -> AsyncIterator[ControlClient]:
    stop = asyncio.Event()
    task = asyncio.create_task(serve(assignment, stop))
    async with ControlClient(assignment.control_path) as client:
        async with asyncio.timeout(WAIT_S):
            while not assignment.control_path.exists() and not task.done():
                await asyncio.sleep(0)
        yield client
    stop.set()
    await task


async def announced(client: ControlClient, files_n: int) -> FeedStateView:
    """The state, as soon as so many are."""
    async with asyncio.timeout(WAIT_S):
        while (state := await client.state()).posted[0].files < files_n:
            await asyncio.sleep(0)
    return state


async def test_what_lies_there_is_announced_once_over_two_runs(tmp_path: Path) -> None:
    assignment = assigned(tmp_path, reject=("b.*",))
    for name in ("a", "b1", "c"):
        (tmp_path / "data" / name).write_text(name)
    async with running(assignment) as client:
        await announced(client, 2)
        page = await client.posts("data", 0, 100)
        assert [(each.number, each.path, each.state) for each in page.items] in (
            [(1, "a", "stands"), (2, "c", "stands")],
            [(1, "c", "stands"), (2, "a", "stands")],
        )
    (tmp_path / "data" / "d").write_text("d")
    async with running(assignment) as client:
        state = await announced(client, 3)
        assert [each.path for each in (await client.posts("data", 2, 100)).items] == ["d"]
    assert (state.posted[0].last_post, state.posted[0].base_url, state.posted[0].problem) == (3, "http://a/", "")


async def test_operators_learn_who_has_a_file_and_who_lags(tmp_path: Path) -> None:
    assignment = assigned(tmp_path)
    for name in ("a", "b"):
        (tmp_path / "data" / name).write_text(name)
    async with running(assignment) as client:
        await announced(client, 2)
    log = make_log(assignment, "data")
    await log.open()
    [(row, _)] = await log.posts(0, 10, path="a")
    post = make_post("http://a/", "a", 0).changed(pubTime=row.pub_time)
    heard = Heard(post, Report(201, "", "h", "u", "done"), 5)
    assert await log.report([heard]) == 1
    await log.close()
    async with running(assignment) as client:
        state = await announced(client, 2)
        [consumer] = state.posted[0].consumers
        assert (consumer.name, consumer.has, consumer.missing, consumer.failed) == ("u@h", 1, 1, 0)
        assert consumer.missing_since_ms is not None
        assert [each.path for each in (await client.posts("data", 0, 10, without="u@h")).items] == ["b"]
        [found] = (await client.posts("data", 0, 10, path="a")).items
        assert [(each.consumer, each.code, each.has_it) for each in found.reports] == [("u@h", 201, True)]


async def test_what_an_operator_may_not_ask_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with running(assigned(tmp_path)) as client:
        with pytest.raises(Refusal, match="no folder 'x' is posted; there are data"):
            await client.posts("x", 0, 10)
        with pytest.raises(Refusal, match="limit must be 1 to 1000"):
            await client.posts("data", 0, 1001)


async def test_two_feeds_do_not_use_one_folder(tmp_path: Path) -> None:
    assignment = assigned(tmp_path)
    async with running(assignment):
        with pytest.raises(BrokerError, match="is used by another feed that runs"):
            await serve(assignment, asyncio.Event())


async def test_a_feed_that_has_stopped_does_not_answer(tmp_path: Path) -> None:
    assignment = assigned(tmp_path)
    async with running(assignment):
        pass
    async with ControlClient(assignment.control_path) as client:
        with pytest.raises(NotRunning):
            await client.state()


async def test_files_are_served_with_the_digests_of_their_posts(tmp_path: Path) -> None:
    assignment = assigned(tmp_path, identity="md5")
    (tmp_path / "data" / "a\n").write_text("a")
    async with running(assignment) as client:
        await announced(client, 1)
        listener = FilesListener(tmp_path / "data", log=assignment.log_path("data"))
        port = await listener.start(Listen("http", "127.0.0.1", 0))
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/a%0A") as answer:
            assert (await answer.text(), answer.headers["ETag"]) == ("a", '"md5:DMF1ucDxtqgxw5niaXcmYQ=="')
        await listener.close()


def test_files_are_fetched_from_the_admin_api_where_nothing_else_is_said() -> None:
    config = Config(feed=FeedOptions(dir="f", post={"data": PostOptions(folder="d")}))
    assert assignment_of(config, (), "http://0.0.0.0:7070").base_url("data") == "http://127.0.0.1:7070/feed/data/"


def test_a_port_that_nobody_knows_is_said() -> None:
    config = Config(feed=FeedOptions(dir="f", post={"data": PostOptions(folder="d")}))
    with pytest.raises(BrokerError, match="base_url: is needed, because the port"):
        assignment_of(config, (), "http://127.0.0.1:0")


class FakeSink:
    """Takes posts, or is not there."""

    def __init__(self, name: str, *, is_there: bool = True) -> None:
        self.name = name
        self.is_there = is_there
        self.paths: list[str] = []

    async def send(self, post: Post, prefix: str) -> None:
        if not self.is_there:
            raise NotSent(f"{self.name}: connection refused")
        self.paths.append(post.rel_path)

    async def close(self) -> None:
        """There is nothing to close."""

    def state(self) -> str:
        return "up"


def test_a_folder_is_announced_once_and_what_was_is_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sink = FakeSink("rabbit")
    monkeypatch.setattr(program, "sinks_of", lambda assignment, name: [sink])
    monkeypatch.setattr(running_module, "setup_log", lambda *_: None)
    assignment = assigned(tmp_path)
    monkeypatch.setattr(f"{program.EVENT_FILES}.EventFiles", FakeEventFiles)
    monkeypatch.setattr(FakeEventFiles, "told", [])
    assignment = replace(assignment, events=EventOptions(dir=str(tmp_path / "events")))
    for name in ("a", "b"):
        (tmp_path / "data" / name).write_text(name)
    assert post_once(assignment, "data", WAIT_S) == 0
    (tmp_path / "data" / "c").write_text("c")
    assert post_once(assignment, "data", WAIT_S) == 0
    assert (sorted(sink.paths[:2]), sink.paths[2:]) == (["a", "b"], ["c"])
    assert capfd.readouterr().out.splitlines() == [
        "2 posts, 2 files and folders are announced",
        "1 posts, 3 files and folders are announced",
    ]
    told = [(each.feed, each.outcome, each.path) for _, each in FakeEventFiles.told]
    assert (sorted(told[:2]), told[2:]) == (
        [("data", "posted", "a"), ("data", "posted", "b")],
        [("data", "posted", "c")],
    )


def test_what_is_not_sent_in_time_is_said_with_the_reason_and_sent_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sink = FakeSink("rabbit", is_there=False)
    monkeypatch.setattr(program, "sinks_of", lambda assignment, name: [sink])
    monkeypatch.setattr(running_module, "setup_log", lambda *_: None)
    assignment = assigned(tmp_path)
    (tmp_path / "data" / "a").write_text("a")
    assert post_once(assignment, "data", 0.3) == 1
    said = capfd.readouterr().err
    assert "some posts are not sent yet: rabbit: " in said, said
    sink.is_there = True
    assert post_once(assignment, "data", WAIT_S) == 0
    assert sink.paths == ["a"]


def test_links_are_made_of_the_brokers_of_a_folder(tmp_path: Path) -> None:
    brokers = {
        "r": MessageBrokerOptions(url="amqp://feed:secret@h/v", exchange="x"),
        "m": MessageBrokerOptions(url="mqtt://h", mqtt_version="3.1.1"),
    }
    given = assigned(tmp_path, to=("r", "m"))
    assignment = replace(given, options=replace(given.options, broker=brokers))
    assert [sink.name for sink in sinks_of(assignment, "data")] == ["r", "m"]
    assert [source.name for source in reports_of(assignment, "data")] == ["data.r.reports", "data.m.reports"]
    silent = replace(assignment.options.post["data"], reports=False)
    assignment = replace(assignment, options=replace(assignment.options, post={"data": silent}))
    assert reports_of(assignment, "data") == []


def test_a_mirror_has_a_queue_of_its_own_and_reports_unless_it_is_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[SourceSettings] = []
    monkeypatch.setattr(links, "open_source", lambda settings, positions: opened.append(settings))
    brokers = {"r": MessageBrokerOptions(url="amqp://me:secret@h/v"), "m": MessageBrokerOptions(url="mqtt://h")}
    mirror = SubscribeOptions(into="i", brokers=("r", "m"))
    options = FeedOptions(dir=str(tmp_path), broker=brokers, subscribe={"mirror": mirror})
    assignment = replace(assigned(tmp_path), options=options)
    positions = FilePositions(tmp_path / "positions")
    sources_of(assignment, "mirror", mirror, positions)
    sources_of(assignment, "mirror", replace(mirror, queue="shared"), positions)
    host = socket.gethostname()
    assert [each.queue for each in opened] == [f"q_me.{host}.mirror", f"q_anonymous.{host}.mirror", "shared", "shared"]
    assert list(report_sinks_of(assignment, "mirror")) == ["mirror.r", "mirror.m"]
    options = replace(options, subscribe={"mirror": replace(mirror, reports=False)})
    assert report_sinks_of(replace(assignment, options=options), "mirror") == {}


def test_posts_have_the_prefix_and_the_headers_of_the_configuration(tmp_path: Path) -> None:
    said = {"source": "s", "from_cluster": "from", "to_clusters": "to"}
    assignment = assigned(tmp_path, prefix="v03.own", **said)
    assert make_log(assignment, "data").prefix == "v03.own"
    options = post_options_of(assignment.options.post["data"], "http://a/")
    assert (options.base_url, options.source, options.from_cluster, options.to_clusters) == (
        "http://a/",
        "s",
        "from",
        "to",
    )


def test_posts_are_offered_at_the_broker_itself_where_they_go_nowhere_else(tmp_path: Path) -> None:
    config = Config(feed=FeedOptions(dir="f", post={"data": PostOptions(folder="d", base_url="http://a/")}))
    assignment = assignment_of(config, ("tcp://0.0.0.0:7878",), "")
    poster = make_poster(assignment, "data")
    assert [offer.name for offer in offers_of(assignment, "data", poster)] == ["broker"]
    brokers = {"r": MessageBrokerOptions(url="tcp://b1:7878"), "m": MessageBrokerOptions(url="mqtt://h")}
    posted = replace(config.feed.post["data"], to=("r", "m"))
    assignment = assignment_of(
        replace(config, feed=FeedOptions(dir="f", broker=brokers, post={"data": posted})), (), ""
    )
    assert [offer.name for offer in offers_of(assignment, "data", poster)] == ["r"]
    assert [sink.name for sink in sinks_of(assignment, "data")] == ["m"]


async def test_posts_come_to_whoever_asks_at_the_broker_and_reports_go_back(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("a")
    async with local_broker() as broker:
        assignment = replace(assigned(tmp_path), broker_url=broker.urls["tcp"])
        async with running(assignment) as client:
            source = open_source(SourceSettings(name="s", url=broker.urls["tcp"]))
            async with asyncio.timeout(WAIT_S):
                arrival = await source.receive()
            post = read_post(arrival.body)
            assert (post.rel_path, post.base_url) == ("a", "http://a/")
            sink = open_sink(SinkSettings(name="r", url=broker.urls["tcp"]))
            async with asyncio.timeout(WAIT_S):
                await sink.send(report_post(post, Report(201, "", "h", "u", "done")), "v03.report")
                while not (state := await client.state()).posted[0].consumers:
                    await asyncio.sleep(0)
            assert [(each.name, each.has) for each in state.posted[0].consumers] == [("u@h", 1)]
            assert [(each.name, each.state, each.confirmed_to) for each in state.posted[0].sinks] == [
                ("broker", "up", None)
            ]
            await source.close()
            await sink.close()


class FakeEventFiles:
    """Keeps what it is told."""

    told: ClassVar[list[tuple[str, FileRecord]]] = []
    dropped_n = 3

    def __init__(self, name: str, kind: str) -> None:
        assert kind == FEED_ID
        self._name = name

    async def start(self, folder: Path, events: EventOptions, log: LogOptions) -> None:
        assert events.dir

    def append(self, record: FileRecord) -> None:
        self.told.append((self._name, record))

    async def stop(self) -> None:
        """There is nothing to stop."""


async def test_a_mirror_fetches_what_another_feed_announces_and_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over https, with a CA of its own."""
    monkeypatch.setattr(f"{program.EVENT_FILES}.EventFiles", FakeEventFiles)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("the content")
    listener = FilesListener(tmp_path / "data", tls=server_context(CERTIFICATE, CERTIFICATE))
    port = await listener.start(Listen("http", "127.0.0.1", 0))
    async with local_broker() as broker:
        url = broker.urls["tcp"]
        events = EventOptions(dir=str(tmp_path / "events"))
        posting = replace(assigned(tmp_path, base_url=f"https://127.0.0.1:{port}/"), broker_url=url, events=events)
        mirror = SubscribeOptions(into=str(tmp_path / "mirror"), user="u", ca=CERTIFICATE)
        options = FeedOptions(dir=str(tmp_path / "far"), subscribe={"mirror": mirror})
        mirroring = replace(posting, options=options, name="far")
        async with running(posting) as poster, running(mirroring) as far:
            async with asyncio.timeout(WAIT_S):
                while not (consumers := (await poster.state()).posted[0].consumers):
                    await asyncio.sleep(0)
            assert (tmp_path / "mirror" / "a").read_text() == "the content"
            [view] = (await far.state()).mirrors
            assert (view.received, view.done, view.refused, view.sources[0].state) == (1, 1, 0, "up")
            assert (await far.state()).events_dropped == 3
            assert [(each.has, each.missing) for each in consumers] == [(1, 0)]
        async with running(mirroring) as far:  # it goes on where it was
            (tmp_path / "data" / "b").write_text("more")
            async with running(posting):
                async with asyncio.timeout(WAIT_S):
                    while not (tmp_path / "mirror" / "b").exists():
                        await asyncio.sleep(0)
                [view] = (await far.state()).mirrors
                assert view.received == 1
    told = {(name, each.feed, each.outcome, each.path) for name, each in FakeEventFiles.told}
    assert told >= {
        *(("feed", "data", "posted", path) for path in "ab"),
        ("feed", "data", "reported", "a"),
        *(("far", "mirror", "mirrored", path) for path in "ab"),
    }
    await listener.close()
