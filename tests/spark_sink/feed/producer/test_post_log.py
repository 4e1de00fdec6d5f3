"""What was appended is there after a crash, what was confirmed is known, and what stands for nothing goes."""

import asyncio
from pathlib import Path

import pytest

from spark_sink.feed.errors import PostLogError
from spark_sink.feed.identity import identity_of
from spark_sink.feed.posts import REMOVE, RENAME, FileOp, Post, make_post
from spark_sink.feed.producer import post_tables
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.post_tables import Heard, Posting
from spark_sink.feed.producer.scanning import FILE, Entry
from spark_sink.feed.reports import Report

ENTRY = Entry(FILE, 3, 1, 1, 7)
IDENTITY = identity_of("md5", b"abc")


def post(path: str, at: int = 1, file_op: FileOp | None = None) -> Post:
    return make_post("http://a/", path, at * 1_000_000_000, identity=None if file_op else IDENTITY, file_op=file_op)


def posting(path: str, at: int = 1) -> Posting:
    return Posting(path, [post(path, at)], ENTRY, IDENTITY)


async def paths(log: PostLog, after_seq: int = 0) -> list[tuple[int, str]]:
    return [(each.seq, each.rel_path) for each in await log.read(after_seq)]


async def test_what_was_appended_is_there_after_another_start(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    assert await log.open() == {}
    await log.append([posting("d/a"), posting("b")], 1000)
    origin = log.origin
    await log.close()
    again = PostLog(tmp_path / "posts.db")
    assert await again.open() == {"d/a": ENTRY, "b": ENTRY}
    assert (again.origin, again.last_seq) == (origin, 2)
    first, second = await again.read(0)
    assert (first.seq, first.topic, first.body) == (1, "v03.post.d", post("d/a").encode())
    assert (second.topic, await again.identity_of("b")) == ("v03.post", IDENTITY)
    await again.close()


async def test_a_log_has_one_poster(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    with pytest.raises(PostLogError, match="another poster uses it"):
        await PostLog(tmp_path / "posts.db").open()
    await log.close()


async def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "posts.db").write_bytes(b"x" * 5000)
    with pytest.raises(PostLogError, match="not a database"):
        await PostLog(tmp_path / "posts.db").open()


async def test_what_a_sink_has_confirmed_is_known_after_another_start(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db", sinks=["one", "two"])
    await log.open()
    await log.confirm("one", [1, 2, 4])
    await log.confirm_to("one", 2)
    await log.close()
    again = PostLog(tmp_path / "posts.db", sinks=["one", "three"])
    await again.open()
    assert again.confirmed("one") == (2, frozenset({4}))
    assert again.confirmed("three") == (0, frozenset())
    await again.close()


async def test_superseded_posts_are_sent_to_nobody(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    gone = Posting("b", [post("b", 3, FileOp(REMOVE))], None)
    await log.append([posting("a"), posting("b"), posting("a", 2), gone], 1000)
    assert await paths(log) == [(3, "a"), (4, "b")]
    await log.append([posting("b", 4)], 1000)
    assert await paths(log) == [(3, "a"), (5, "b")]
    await log.close()


async def test_a_rename_says_that_the_name_before_is_gone_whatever_follows(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    rename = Posting("b", [post("b", 2, FileOp(RENAME, "a"))], ENTRY, IDENTITY, before="a")
    await log.append([posting("a"), rename, posting("b", 3)], 1000)
    assert await paths(log) == [(2, "b"), (3, "b")]
    await log.close()
    again = PostLog(tmp_path / "posts.db")
    assert list(await again.open()) == ["b"]
    await again.close()


async def test_the_oldest_posts_that_stand_for_nothing_go_and_no_others(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db", keep_n=2, keep_s=10)
    await log.open()
    await log.append([posting("a")], 1_000)
    for at in range(1, 5):
        await log.append([posting("b", at)], 1_000 * at)
    assert await log.trim(4_000) == 1  # three are superseded, two are kept
    assert await log.trim(12_500) == 1  # the one of second 2 is too old
    assert await log.trim(1_000_000) == 1
    assert await paths(log) == [(1, "a"), (5, "b")]
    await log.close()


def heard(of: Post, code: int = 201, user: str = "u", message: str = "", elapsed: str = "") -> Heard:
    return Heard(of, Report(code, elapsed, "h", user, message), 5)


async def test_a_consumer_that_has_a_file_keeps_it_whatever_it_reports_then(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    await log.append([posting("a"), posting("b")], 1000)
    assert await log.report([heard(post("a"), 499), heard(post("x"))]) == 1
    assert await log.fold_unreported("u@h", list) == ["a", "b"]
    await log.report([heard(post("a"), 201), heard(post("a"), 499)])
    assert await log.fold_unreported("u@h", list) == ["b"]
    await log.close()


async def test_a_consumer_has_a_file_by_the_code_of_its_report(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    codes = (200, 201, 203, 205, 206, 304, 307, 417, 496, 497, 499, 503)
    await log.append([posting(str(code)) for code in codes], 1000)
    await log.report([heard(post(str(code)), code) for code in codes])
    found = {reports[0].code: reports[0].has_it for _, reports in await log.posts(0, 99)}
    assert found == {code: code in (201, 203, 205, 304) for code in codes}
    await log.close()


async def test_reports_of_one_consumer_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_tables, "MAX_CONSUMERS", 2)
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    await log.append([posting("a")], 1000)
    assert await log.report([heard(post("a"), user=user) for user in "abca"]) == 3
    await log.close()
    again = PostLog(tmp_path / "posts.db", required=["c@h", "a@h"])
    await again.open()
    assert await again.report([heard(post("a"), user=user) for user in "cde"]) == 2  # d in the place of a
    await again.close()


async def test_a_report_that_has_waited_does_not_replace_a_later_one(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    await log.append([posting("a"), posting("b")], 1000)
    late, early = (f"20260101T00000{second}.5" for second in (2, 1))
    await log.report([heard(post("a"), 499, elapsed=late), heard(post("a"), 201, elapsed=early)])
    await log.report([heard(post("b"), 201, elapsed="no time"), heard(post("b"), 304, elapsed=early)])
    found = [[(each.code, each.has_it) for each in reports] for _, reports in await log.posts(0, 9)]
    assert found == [[(499, True)], [(304, True)]]
    await log.close()


async def test_who_waits_for_a_post_learns_of_the_next_one_and_of_the_end(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    waiting = asyncio.create_task(log.wait_beyond(0))
    await asyncio.sleep(0)
    await log.append([posting("a")], 1000)
    await waiting
    waiting = asyncio.create_task(log.wait_beyond(1))
    await asyncio.sleep(0)
    await log.close()
    await waiting
