"""The first occurrence of each post goes on, as it came, to all sinks; and nothing is lost or held up."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.events import FileRecord
from client_sdk.clock import Clock
from spark_sink.feed.consumer import passing as passing_module
from spark_sink.feed.consumer.passing import Passer
from spark_sink.feed.consumer.winnow import Winnow
from spark_sink.feed.errors import NotSent, SendError
from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import Post, make_post, read_post
from spark_sink.feed.records import FileRecords
from spark_sink.feed.transport import Arrival


class Hasty(Clock):
    """Waits no longer than it must."""

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(min(delay_s, 0.01))


class FakeSource:
    """Gives what it is given, and then nothing."""

    def __init__(self, *bodies: bytes) -> None:
        self.name = "source"
        self.bodies = list(bodies)
        self.acknowledged: list[object] = []

    async def receive(self) -> Arrival:
        if not self.bodies:
            await asyncio.Event().wait()
        body = self.bodies.pop(0)
        return Arrival(body, "v03.post", self.name, body)

    def acknowledge(self, arrival: Arrival) -> None:
        self.acknowledged.append(arrival.token)

    async def close(self) -> None:
        """There is nothing to close."""

    def state(self) -> str:
        return "up"


class FakeSink:
    """Keeps what it is sent; refuses as many times as it is told to."""

    def __init__(self, refuses_n: int = 0) -> None:
        self.name = "sink"
        self.refuses_n = refuses_n
        self.sent: list[Post] = []

    async def send(self, post: Post, prefix: str) -> None:
        if self.refuses_n:
            self.refuses_n -= 1
            raise NotSent("sink: not now")
        self.sent.append(post)

    async def close(self) -> None:
        """There is nothing to close."""

    def state(self) -> str:
        return "up"


def post_of(path: str, base_url: str = "http://a/", value: str = "x") -> bytes:
    identity = Identity("arbitrary", value)
    return make_post(base_url, path, 1_000_000_000, identity=identity, extra={"later": 12345678901234567890}).encode()


def passer_of(
    tmp_path: Path,
    source: FakeSource,
    *sinks: FakeSink,
    basis: str = "path",
    accepts: Callable[[str], bool] = bool,
    told: list[FileRecord] | None = None,
) -> Passer:
    winnow = Winnow(basis=basis, max_posts=100, ttl_s=3600.0)
    records = FileRecords("w", None if told is None else told.append)
    return Passer([source], sinks, tmp_path / "memory", winnow, accepts, records=records, clock=Hasty())


async def passed(
    tmp_path: Path,
    source: FakeSource,
    *sinks: FakeSink,
    basis: str = "path",
    reject: str = "-",
    told: list[FileRecord] | None = None,
) -> Passer:
    """Until all that the source has is acknowledged, and confirmed by the sinks."""
    wanted = len(source.bodies)
    passer = passer_of(tmp_path, source, *sinks, basis=basis, accepts=lambda path: reject not in path, told=told)
    await passer.start()
    async with asyncio.timeout(10):
        while len(source.acknowledged) < wanted or await waiting_n(passer):
            await asyncio.sleep(0)
    await passer.stop()
    return passer


async def waiting_n(passer: Passer) -> int:
    """Posts that some sink has not confirmed."""
    return await passer._memory.do(lambda tables: tables.outgoing.total())


async def test_the_first_of_two_posts_of_the_same_goes_on_as_it_came(tmp_path: Path) -> None:
    one, two = post_of("a"), post_of("a", "http://b/")
    sinks = FakeSink(), FakeSink(refuses_n=2)
    sinks[1].name = "other"
    told: list[FileRecord] = []
    passer = await passed(tmp_path, FakeSource(one, two), *sinks, told=told)
    assert [[post.encode() for post in sink.sent] for sink in sinks] == [[one], [one]]
    assert (passer.received_n, passer.passed_n, passer.repeats_n, passer.problem) == (2, 1, 1, "")
    assert [(each.feed, each.outcome, each.files) for each in told] == [("w", "passed", 1), ("w", "repeated", 1)]


async def test_what_has_gone_on_is_remembered_over_restarts(tmp_path: Path) -> None:
    await passed(tmp_path, FakeSource(post_of("a")), FakeSink())
    sink = FakeSink()
    await passed(tmp_path, FakeSource(post_of("a"), post_of("b", value="y")), sink)
    assert [post.rel_path for post in sink.sent] == ["b"]


async def test_by_data_the_same_under_another_path_is_a_repeat(tmp_path: Path) -> None:
    sink = FakeSink()
    await passed(tmp_path, FakeSource(post_of("a")), sink, basis="data")
    await passed(tmp_path, FakeSource(post_of("b")), sink, basis="data")
    assert [post.rel_path for post in sink.sent] == ["a"]


async def test_what_is_not_wanted_and_what_cannot_be_read_goes_no_further(tmp_path: Path) -> None:
    sink = FakeSink()
    passer = await passed(
        tmp_path, FakeSource(b"garbage", b"[" * 100_000, post_of("no"), post_of("a")), sink, reject="no"
    )
    assert [post.rel_path for post in sink.sent] == ["a"]
    assert passer.refused_n == 2


async def test_unknown_headers_go_on_with_their_values(tmp_path: Path) -> None:
    sink = FakeSink()
    await passed(tmp_path, FakeSource(post_of("a")), sink)
    assert b"12345678901234567890" in read_post(sink.sent[0].encode()).encode()


class OneByOne(FakeSource):
    """Has one post out at a time."""

    given_n = 0

    async def receive(self) -> Arrival:
        while len(self.acknowledged) < self.given_n:
            await asyncio.sleep(0)
        self.given_n += 1
        return await super().receive()


class Away(FakeSink):
    """Takes nothing until it is back."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "away"
        self.back = asyncio.Event()

    async def send(self, post: Post, prefix: str) -> None:
        await self.back.wait()
        await super().send(post, prefix)


class Refusing(FakeSink):
    """Can take one path never."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "refusing"

    async def send(self, post: Post, prefix: str) -> None:
        if post.rel_path == "a":
            raise SendError("sink: its topic is too long")
        await super().send(post, prefix)


async def test_a_sink_that_is_away_holds_up_nothing_and_gets_what_it_has_missed(tmp_path: Path) -> None:
    """Of the next process, too."""
    bodies = [post_of(path, value=path) for path in "abc"]
    away, sink, source = Away(), FakeSink(), FakeSource(*bodies)
    passer = passer_of(tmp_path, source, away, sink)
    await passer.start()
    async with asyncio.timeout(10):
        while len(sink.sent) < 3:
            await asyncio.sleep(0)
    await passer.stop()
    assert source.acknowledged == bodies
    back = FakeSink()
    back.name = away.name
    await passed(tmp_path, FakeSource(), back, FakeSink())
    assert [post.encode() for post in back.sent] == bodies


async def test_when_too_many_posts_wait_for_a_sink_no_others_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing_module, "MAX_ONWARD", 2)
    away, source = Away(), OneByOne(*(post_of(f"f{number}", value=f"{number}") for number in range(9)))
    passer = passer_of(tmp_path, source, away)
    await passer.start()
    async with asyncio.timeout(10):
        while source.given_n < 4:
            await asyncio.sleep(0)
        for _ in range(10):  # while it looks how many wait
            await waiting_n(passer)
        assert (passer.received_n, len(source.acknowledged)) == (3, 3)
        away.back.set()
        while len(away.sent) < 9:
            await asyncio.sleep(0)
    await passer.stop()


async def test_a_post_that_a_sink_can_never_take_is_left_out_there_alone(tmp_path: Path) -> None:
    refusing, sink = Refusing(), FakeSink()
    await passed(tmp_path, FakeSource(post_of("a"), post_of("b", value="y")), refusing, sink)
    assert [sorted(post.rel_path for post in each.sent) for each in (refusing, sink)] == [["b"], ["a", "b"]]


async def test_a_post_that_a_bug_is_about_is_refused_and_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def is_repeat(self: Winnow, post: Post, now: float) -> bool:
        if post.rel_path == "bad":
            raise ZeroDivisionError
        return False

    monkeypatch.setattr(Winnow, "is_repeat", is_repeat)
    sink = FakeSink()
    passer = await passed(tmp_path, FakeSource(post_of("bad"), post_of("good")), sink)
    assert [post.rel_path for post in sink.sent] == ["good"]
    assert passer.refused_n == 1
    assert "because of a bug" in caplog.text
