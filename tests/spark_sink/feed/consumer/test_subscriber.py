"""spark_sink.feed.consumer.subscriber: with posts of a test, and files of a real HTTP server."""

import asyncio
import os
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spark_sink.feed.blocks import blocks_of
from spark_sink.feed.consumer import hosts as hosts_module
from spark_sink.feed.consumer import http_client as http_client_module
from spark_sink.feed.consumer import outgoing
from spark_sink.feed.consumer import subscriber as subscriber_module
from spark_sink.feed.consumer.fetching import part_of
from spark_sink.feed.consumer.mirror import Mirror
from spark_sink.feed.consumer.outgoing import UNTAKEN_KEPT_S
from spark_sink.feed.consumer.subscriber import Subscriber, SubscriberOptions
from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import FileOp, make_post, read_post
from spark_sink.feed.reports import Report, report_post
from spark_sink.feed.times import time_text
from tests.spark_sink.feed.consumer.mirrors import Given, Kept, Running, Site, identity, watched
from tests.spark_sink.feed.samples import PUB_TIME_NS
from tests.system.support.waits import POLL_S, until

NAMES = ["plain", "a\nline", "a/b c/ä ö.txt", "h#?%/f&+;=@", "x/'\"\\/ü", "deep/" * 20 + "f"]


def has_acknowledged(mirror: Running, posts_n: int) -> bool:
    return len(mirror.source.acknowledged) == posts_n


async def test_files_are_fetched_byte_for_byte_whatever_they_are_called(site: Site, running: Running) -> None:
    data = {name: site.put(name, os.urandom(500)) for name in NAMES}
    bodies = [site.post(name, content) for name, content in data.items()]
    running.source.give(*bodies)
    assert sorted(await running.reported(len(NAMES))) == sorted((201, name) for name in NAMES)
    assert running.files == data
    assert sorted(running.source.acknowledged) == sorted(bodies)


async def test_what_came_before_is_not_fetched_again_also_after_a_restart(site: Site, tmp_path: Path) -> None:
    body = site.post("f", site.put("f", b"data"))
    for turn in range(2):
        async with Running(tmp_path) as mirror:
            mirror.source.give(body, body)
            await until(partial(has_acknowledged, mirror, 2))
            codes = [code for code, _ in await mirror.reported(2)]
            assert codes == [201, 304] if turn == 0 else set(codes) == {304}  # a report may come again
        counted = ("repeated", "", 0, 0, 0, 2 - (turn == 0))
        assert mirror.outcomes == ([("mirrored", "f", 201, 0, 4, 1), counted] if turn == 0 else [counted])
    assert len(site.asked) == 1


async def test_a_file_that_is_not_what_was_announced_is_never_under_its_name(site: Site, tmp_path: Path) -> None:
    site.put("f", b"other data")
    site.put("g", b"short")
    site.put("h", b"too long")
    async with Running(tmp_path, tries=2) as mirror:
        mirror.source.give(
            site.post("f", b"what it was"[:10]), site.post("g", b"longer", size=6), site.post("h", b"too", size=3)
        )
        assert sorted(await mirror.reported(3)) == [(499, "f"), (499, "g"), (499, "h")]
        assert mirror.files == {}
        texts = {path: text for _, path, text in mirror.reports.sent}
    assert "its sha512 is " in texts["f"]
    assert texts["g"].endswith("has 5 bytes, 6 were announced")
    assert texts["h"].endswith("has 8 bytes, 3 were announced")


async def test_what_breaks_off_is_resumed_where_it_was(site: Site, running: Running) -> None:
    data = site.put("large", os.urandom(5 << 20))

    async def break_off(request: web.Request) -> web.StreamResponse | None:
        if len(site.asked) % 3:
            return None if len(site.asked) > 3 else await half(request)
        return await half(request)

    async def half(request: web.Request) -> web.StreamResponse:
        start = int((request.headers.get("Range", "bytes=0-")[6:]).rstrip("-"))
        response = web.StreamResponse(status=206 if start else 200)
        response.content_length = len(data) - start
        if start:
            response.headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        await response.prepare(request)
        await response.write(data[start : start + (1 << 20)])
        assert request.transport is not None
        request.transport.close()
        return response

    site.before = break_off
    running.source.give(site.post("large", data))
    await running.reported(1)
    assert running.files == {"large": data}
    starts = [span for _, span in site.asked]
    assert starts[0] == ""
    assert all(span.startswith("bytes=") for span in starts[1:])


async def test_blocks_become_one_file_in_any_order(site: Site, running: Running) -> None:
    data = site.put("blocks", os.urandom(10_500))
    posts = [
        site.post("blocks", data[at.number * 1_000 :][:1_000], blocks=at)
        for at in blocks_of("inplace", len(data), 1_000)
    ]
    for body in reversed(posts[1:]):
        running.source.give(body)
    await running.reported(len(posts) - 1)
    assert "blocks" not in running.files
    running.source.give(posts[0])
    await running.reported(len(posts))
    assert running.files == {"blocks": data}
    assert sorted(site.asked) == sorted(
        ("/blocks", f"bytes={at}-{min(at + 1_000, len(data)) - 1}") for at in range(0, len(data), 1_000)
    )


async def test_operations_are_carried_out(site: Site, tmp_path: Path) -> None:
    async with Running(tmp_path, mirror={"removes": True, "strip": "/data/source"}) as mirror:
        steps = [
            site.post("a/f", site.put("a/f", b"1")),
            make_post(site.url, "d", PUB_TIME_NS, file_op=FileOp("directory", is_directory=True)).encode(),
            make_post(site.url, "l", PUB_TIME_NS, file_op=FileOp("link", "a/f")).encode(),
            make_post(site.url, "a/h", PUB_TIME_NS, file_op=FileOp("hlink", "f")).encode(),
            watched(site, "d/g", "/data/source/a/f"),
            make_post(site.url, "a/h", PUB_TIME_NS + 2, file_op=FileOp("remove")).encode(),
        ]
        for number, body in enumerate(steps, 1):
            mirror.source.give(body)
            await mirror.reported(number)
        assert {code for code, _ in await mirror.reported(len(steps))} == {201}
        assert mirror.files == {"d/g": b"1"}
        assert os.readlink(mirror.root / "l") == "a/f"


async def test_a_folder_goes_when_what_is_in_it_goes_later(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sr3 watch` tells so of one that gets another name, and not that it is a folder."""
    monkeypatch.setattr(subscriber_module, "TICK_S", 0.02)
    async with Running(tmp_path, mirror={"removes": True}, first_pause_s=0.02) as mirror:
        mirror.source.give(site.post("a/f", site.put("a/f", b"1")))
        await mirror.reported(1)
        removal = make_post(site.url, "a", PUB_TIME_NS + 1, file_op=FileOp("remove")).encode()
        mirror.source.give(removal)
        await until(lambda: removal in mirror.source.acknowledged)
        mirror.source.give(watched(site, "b/f", "a/f"))
        assert await mirror.reported(3) == [(201, "a/f"), (201, "b/f"), (201, "a")]
        assert os.listdir(mirror.root) == ["b"]


async def test_removals_are_left_alone_unless_they_are_wanted(site: Site, running: Running) -> None:
    running.source.give(site.post("f", site.put("f", b"1")))
    await running.reported(1)
    removal = make_post(site.url, "f", PUB_TIME_NS + 1, file_op=FileOp("remove")).encode()
    running.source.give(removal)
    assert await running.reported(2) == [(201, "f"), (503, "f")]
    await until(lambda: removal in running.source.acknowledged)
    assert running.files == {"f": b"1"}


async def test_content_in_the_post_is_written_and_compared(site: Site, running: Running) -> None:
    running.source.give(
        site.post("in", b"\0\xffbytes", content=b"\0\xffbytes"), site.post("lie", b"what", content=b"tahw")
    )
    assert sorted(await running.reported(2)) == [(201, "in"), (417, "lie")]
    assert running.files == {"in": b"\0\xffbytes"}
    assert site.asked == []


async def test_cod_is_computed_and_told(site: Site, running: Running) -> None:
    running.source.give(site.post("f", site.put("f", b"data"), identity=Identity("cod", "sha512")))
    assert await running.reported(1) == [(205, "f")]


@pytest.mark.parametrize(
    "path, why",
    [
        ("../f", "'..' is none"),
        ("a/../../f", "'..' is none"),
        ("a//f", "'' is none"),
        ("x" * 256, "has a name of 256 bytes, 255 are allowed"),
    ],
)
async def test_a_path_that_leads_out_is_refused(site: Site, running: Running, path: str, why: str) -> None:
    bodies = [site.post(path, b"x"), b"[" * 100_000, b"\xff", site.post("good", site.put("good", b"1"))]
    running.source.give(*bodies)
    assert sorted(await running.reported(2)) == [(201, "good"), (417, path)]
    assert any(why in text for _, _, text in running.reports.sent)
    assert running.files == {"good": b"1"}
    assert {("refused", path, 417, 0, 0, 1), ("mirrored", "good", 201, 0, 1, 1)} <= set(running.outcomes)
    await until(lambda: len(running.source.acknowledged) == 4)  # of two nobody could be told


async def test_what_is_no_post_or_of_no_time_holds_up_nothing(site: Site, running: Running) -> None:
    data = site.put("f", b"1")
    posts = [read_post(site.post("f", data, at=PUB_TIME_NS + number)) for number in range(3)]
    late = posts[0].changed(pubTime="99991231T235959", relPath="late", content={"encoding": "utf-8", "value": "1"})
    bad = posts[1].encode().replace(b'"f"', b'"bad"').replace(b'"size": 1', b'"size": true')
    running.source.give(late.encode(), bad, posts[2].encode(), late.encode())
    assert sorted(await running.reported(4)) == [(201, "f"), (201, "late"), (304, "late"), (417, "bad")]
    assert running.files == {"f": b"1", "late": b"1"}
    await until(lambda: len(running.source.acknowledged) == 4)


async def test_a_post_that_a_bug_is_about_holds_up_nothing_and_is_tried_later(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_module, "TICK_S", 0.02)
    monkeypatch.setattr(Mirror, "decide", lambda self, post, now: 1 / 0)
    body = site.post("bug", site.put("bug", b"1"))
    async with Running(tmp_path) as mirror:
        memory = mirror.subscriber._memory
        mirror.source.give(body)
        await until(lambda: mirror.source.acknowledged == [body])
        await memory.do(lambda tables: tables.postpone(1, 0.0, 0, ""))
        kept = await memory.do(lambda tables: tables.take_due(2.0**33, lambda _: 9))
        while not kept[0].tries:
            await asyncio.sleep(POLL_S)
            kept = await memory.do(lambda tables: tables.take_due(2.0**33, lambda _: 9))
        assert [(each.tries, each.reason, each.due_at > time.time() + 3_000) for each in kept] == [(1, "a bug", True)]
        monkeypatch.undo()
        await memory.do(lambda tables: tables.postpone(1, 0.0, 0, ""))
        assert await mirror.reported(1) == [(201, "bug")]


async def test_other_schemes_and_redirects_to_others_are_refused(site: Site, running: Running) -> None:
    def redirect(request: web.Request) -> web.StreamResponse | None:
        if request.path == "/away":
            return web.Response(status=302, headers={"Location": "http://192.0.2.1/f"})
        return web.Response(status=302, headers={"Location": "/there"}) if request.path == "/here" else None

    site.before = redirect
    data = site.put("there", b"1")
    elsewhere = make_post("ftp://h/", "ftp", PUB_TIME_NS, identity=identity(b"1"), size=1).encode()
    running.source.give(site.post("away", b"1"), elsewhere, site.post("here", data))
    assert sorted(await running.reported(3)) == [(201, "here"), (499, "away"), (503, "ftp")]
    assert running.files == {"here": b"1"}


async def test_a_host_that_hangs_does_not_hold_up_another(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber_module, "PATIENCE_S", 0.02)
    (tmp_path / "slow").mkdir()
    async with Site(tmp_path / "slow").serving() as slow, Running(tmp_path) as mirror:
        released = asyncio.Event()

        async def hang(request: web.Request) -> None:
            await released.wait()

        slow.before = hang
        bodies = [slow.post(f"s{n}", slow.put(f"s{n}", b"%d" % n)) for n in range(50)]
        mirror.source.give(*bodies)
        await until(lambda: len(mirror.source.acknowledged) == 50)  # though nothing of it is there
        mirror.source.give(site.post("quick", site.put("quick", b"q")))
        assert await mirror.reported(1) == [(201, "quick")]
        released.set()
        await mirror.reported(51)
        assert len(mirror.files) == 51


async def test_a_host_that_hangs_does_not_hold_up_a_file_that_another_one_has(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client_module, "HURRY_S", 0.02)
    monkeypatch.setattr(subscriber_module, "TICK_S", 0.02)
    (tmp_path / "slow").mkdir()
    async with Site(tmp_path / "slow").serving() as slow, Running(tmp_path, first_pause_s=0.02) as mirror:

        async def hang(request: web.Request) -> None:
            await asyncio.Event().wait()

        slow.before = hang
        data = os.urandom(500)
        mirror.source.give(slow.post("f", slow.put("f", data)))
        await until(lambda: slow.asked)
        mirror.source.give(site.post("f", site.put("f", data)))
        assert sorted(await mirror.reported(2)) == [(201, "f"), (304, "f")]
        assert (mirror.files, len(slow.asked), len(site.asked)) == ({"f": data}, 1, 1)


async def test_what_fails_is_tried_again_also_by_the_next_process(site: Site, tmp_path: Path) -> None:
    def fail(request: web.Request) -> web.StreamResponse:
        return web.Response(status=503)

    site.before = fail
    body = site.post("f", site.put("f", b"data"))
    async with Running(tmp_path, first_pause_s=30.0) as mirror:
        mirror.source.give(body)
        await until(lambda: mirror.source.acknowledged == [body])
        assert mirror.subscriber.state.failed_n == 1
    site.before = lambda request: None
    async with Running(tmp_path) as mirror:
        await mirror.subscriber._memory.do(lambda tables: tables.postpone(1, 0.0, 1, ""))
        assert await mirror.reported(1) == [(201, "f")]
        assert mirror.files == {"f": b"data"}


async def test_a_message_is_acknowledged_when_what_became_of_it_is_on_the_disk(
    site: Site, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, disk = running.subscriber._memory, asyncio.Event()
    do = memory.do

    async def late(work: Any) -> Any:
        await disk.wait()
        return await do(work)

    monkeypatch.setattr(memory, "do", late)
    site.before = lambda request: web.Response(status=503) if request.path == "/bad" else None
    running.source.give(site.post("f", site.put("f", b"1")), site.post("bad", b"2"))
    await until(lambda: running.files == {"f": b"1"} and running.subscriber.state.failed_n == 1)
    await asyncio.sleep(POLL_S)
    assert running.source.acknowledged == []
    disk.set()
    await until(lambda: len(running.source.acknowledged) == 2)


async def test_after_all_tries_it_is_given_up_with_a_report(site: Site, tmp_path: Path) -> None:
    async with Running(tmp_path, tries=3) as mirror:
        mirror.source.give(site.post("nowhere", b"x"))
        await mirror.reported(1)
        assert mirror.reports.sent == [(499, "nowhere", f"{site.url}nowhere: 404 Not Found")]
        assert len(site.asked) == 3
        assert mirror.outcomes == [("failed", "nowhere", 499, 2, 0, 1)]
        assert mirror.told[0].reason == f"{site.url}nowhere: 404 Not Found"


async def test_only_what_the_patterns_take_is_mirrored(site: Site, tmp_path: Path) -> None:
    async with Running(tmp_path, mirror={"accept": [r"\.txt$"], "reject": ["^old/"]}) as mirror:
        names = ["a.txt", "b.bin", "old/c.txt", "d.txt"]
        bodies = [site.post(name, site.put(name, b"1")) for name in names]
        mirror.source.give(*bodies)
        await until(lambda: len(mirror.source.acknowledged) == 4)
        assert sorted(mirror.files) == ["a.txt", "d.txt"]


async def test_a_post_that_was_kept_does_not_undo_what_came_after_it(site: Site, tmp_path: Path) -> None:
    old = site.post("f", site.put("f", b"old"))
    site.before = lambda request: web.Response(status=503)
    async with Running(tmp_path, first_pause_s=0.5) as mirror:
        mirror.source.give(old)
        await until(lambda: mirror.subscriber.state.failed_n >= 1)
        site.before = lambda request: None
        mirror.source.give(site.post("f", site.put("f", b"new"), at=PUB_TIME_NS + 1))
        await mirror.reported(2)
        assert sorted(code for code, _, _ in mirror.reports.sent) == [201, 304]
        assert mirror.files == {"f": b"new"}
        assert read_post(old).rel_path == "f"


async def test_a_rename_waits_for_the_file_that_is_under_way(site: Site, running: Running) -> None:
    released = asyncio.Event()

    async def hang(request: web.Request) -> None:
        await released.wait()

    site.before = hang
    running.source.give(site.post("d/f", site.put("d/f", b"data")))
    await until(lambda: site.asked)
    running.source.give(make_post(site.url, "e/g", PUB_TIME_NS + 1, file_op=FileOp("rename", "d/f")).encode())
    await until(lambda: running.source.bodies.empty())
    released.set()
    assert await running.reported(2) == [(201, "d/f"), (201, "e/g")]
    assert running.files == {"e/g": b"data"}


async def test_blocks_are_fetched_side_by_side(site: Site, running: Running) -> None:
    data = site.put("f", os.urandom(3_000))
    together = asyncio.Event()

    async def wait(request: web.Request) -> None:
        if len(site.asked) == 3:
            together.set()
        await together.wait()

    site.before = wait
    running.source.give(*(site.post("f", data[1_000 * b.number :][:1_000], blocks=b) for b in THREE))
    await running.reported(3)
    assert running.files == {"f": data}


THREE = list(blocks_of("inplace", 3_000, 1_000))


async def test_blocks_that_are_in_their_posts_become_one_file(site: Site, running: Running) -> None:
    data = os.urandom(3_000)
    pieces = [data[1_000 * b.number :][:1_000] for b in THREE]
    bodies = [site.post("f", piece, blocks=b, content=piece) for b, piece in zip(THREE, pieces, strict=True)]
    running.source.give(*bodies[:2])
    await running.reported(2)
    assert "f" not in running.files
    running.source.give(bodies[2])
    assert {code for code, _ in await running.reported(3)} == {201}
    assert running.files == {"f": data}
    assert site.asked == []
    assert [post.rel_path for post in await running.passed_on(3)] == ["f"] * 3  # when all of it is there


async def test_blocks_are_compared_as_sr3_computes_their_digests(site: Site, running: Running) -> None:
    data = site.put("f", os.urandom(3_000))
    running.source.give(*(site.post("f", data[1_000 * b.number :], size=1_000, blocks=b) for b in THREE))
    assert {code for code, _ in await running.reported(3)} == {201}
    assert running.files == {"f": data}


async def test_an_answer_that_is_longer_than_the_block_leaves_the_next_block_as_it_is(
    site: Site, running: Running
) -> None:
    data = site.put("f", os.urandom(3_000))
    bodies = [site.post("f", data[1_000 * b.number :][:1_000], blocks=b) for b in THREE]
    running.source.give(*bodies[1:])
    await running.reported(2)

    headers = {"Content-Range": "bytes 0-999/3000"}
    site.before = lambda _: web.Response(status=206, headers=headers, body=data[:1_000] + b"x" * 2_000)
    running.source.give(bodies[0])
    await running.reported(3)
    (hidden,) = running.files.values()
    assert hidden[1_000:] == data[1_000:]


async def test_a_file_with_a_block_that_is_none_is_never_under_its_name(site: Site, running: Running) -> None:
    site.put("f", os.urandom(3_000))
    running.source.give(*(site.post("f", b"else", size=1_000, blocks=b) for b in THREE))
    codes = [code for code, _ in await running.reported(3)]
    assert codes == [201, 201, 499]
    assert running.files == {}


async def test_a_file_of_blocks_is_whole_though_the_process_was_killed_before_it_knew(
    site: Site, tmp_path: Path
) -> None:
    data = site.put("f", os.urandom(3_000))
    bodies = [site.post("f", data[1_000 * b.number :][:1_000], blocks=b) for b in THREE]
    async with Running(tmp_path) as mirror:
        mirror.source.give(*bodies[:2])
        await mirror.reported(2)
        post = read_post(bodies[2])
        assert post.blocks is not None
        part = part_of(post, post.blocks)
        await mirror.subscriber._memory.do(lambda tables: tables.add_block(part, 2, None, bodies[2]))
        (mirror.root / f".feed-{part}.part").unlink()
        (mirror.root / "f").write_bytes(data)
    async with Running(tmp_path) as mirror:
        mirror.source.give(bodies[2])
        assert (201, "f") in await mirror.reported(1)
        assert mirror.files == {"f": data}
        assert len(await mirror.passed_on(3)) == 3


async def test_what_is_there_is_passed_on_with_the_own_url_and_all_other_headers(site: Site, tmp_path: Path) -> None:
    async with Running(tmp_path, base_url="http://mirror.example/m/", mirror={"strip": "/src"}) as mirror:
        mirror.onward.fails_n = 2
        mine = {"number": 12345678901234567890123, "list": [1.10, None]}
        extra = {"mine": mine, "rename": "a/f", "retrievePath": "from/f"}
        site.put("from/f", b"data")
        body = site.post("from/f", b"data", identity=Identity("cod", "md5"), extra=extra)
        raw = body.replace(b"12345678901234567890123", b"1" * 60)
        mirror.source.give(raw, raw)
        renamed = watched(site, "b", "/src/a/f")
        await mirror.reported(2)
        mirror.source.give(renamed)
        first, second = await mirror.passed_on(2)
        assert (first.url, first.place) == ("http://mirror.example/m/a/f", "a/f")
        assert first.identity == identity(b"data", "md5")
        assert bytes(first.headers["mine"]) == bytes(read_post(raw).headers["mine"])
        assert second.file_op == FileOp("rename", "a/f")
    async with Running(tmp_path, base_url="http://mirror.example/m/") as mirror:
        mirror.source.give(raw)
        await mirror.reported(1)
        assert mirror.onward.posts == []


async def test_a_server_that_breaks_off_every_third_answer_costs_no_pause(site: Site, tmp_path: Path) -> None:
    async def break_off(request: web.Request) -> web.StreamResponse | None:
        if len(site.asked) % 3:
            return None
        response = web.StreamResponse()
        response.content_length = 1_000
        await response.prepare(request)
        await response.write(b"x" * 10)
        assert request.transport is not None
        request.transport.close()
        return response

    site.before = break_off
    data = {f"f{n}": site.put(f"f{n}", os.urandom(1_000)) for n in range(40)}
    async with Running(tmp_path, first_pause_s=0.01) as mirror:
        mirror.source.give(*(site.post(name, content) for name, content in data.items()))
        assert {code for code, _ in await mirror.reported(40)} == {201}
        assert mirror.files == data


async def test_a_host_that_is_gone_is_tried_with_one_post_at_a_time(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And it is one line of the log."""
    monkeypatch.setattr(hosts_module, "REST_S", 0.1)
    bodies = [site.post(f"f{n}", site.put(f"f{n}", b"%d" % n)) for n in range(100)]
    gone = [body.replace(site.url.encode(), b"http://127.0.0.1:1/") for body in bodies]
    async with Running(tmp_path, first_pause_s=0.01, tries=3) as mirror:
        mirror.source.give(*gone)
        await until(lambda: len(mirror.source.acknowledged) == 100)
        failed_n = mirror.subscriber.state.failed_n
        assert failed_n <= hosts_module.PER_HOST_N + 1
        assert caplog.text.count("it will be tried again: http://127.0.0.1:1/") == 1
        mirror.source.give(*bodies)
        await until(lambda: len(mirror.files) == 100)


async def test_a_host_that_is_away_uses_up_no_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_module, "REST_S", 0.01)
    monkeypatch.setattr(subscriber_module, "TICK_S", 0.01)
    (tmp_path / "served").mkdir()
    site = Site(tmp_path / "served")
    place = socket.socket()
    place.bind(("127.0.0.1", 0))
    site.url = f"http://127.0.0.1:{place.getsockname()[1]}/"
    async with Running(tmp_path, first_pause_s=0.01, tries=2) as mirror:
        mirror.source.give(site.post("f", site.put("f", b"data")))
        await until(lambda: mirror.subscriber.state.failed_n > 4)
        async with site.serving(place):
            assert await mirror.reported(1) == [(201, "f")]


async def test_a_report_that_nobody_takes_holds_up_no_other_and_is_sent_by_the_next_process(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "UNTAKEN_S", 0.01)
    async with Running(tmp_path) as mirror:
        mirror.reports.away = {"a"}
        mirror.source.give(site.post("a", site.put("a", b"1")))
        await until(lambda: mirror.source.acknowledged)
        mirror.source.give(site.post("b", site.put("b", b"1")))
        assert await mirror.reported(1) == [(201, "b")]
    async with Running(tmp_path) as mirror:
        await until(lambda: (201, "a") in [each[:2] for each in mirror.reports.sent])


def test_a_report_that_nobody_takes_is_not_kept_for_ever() -> None:
    made_s = 1_400_000_000
    report = report_post(make_post("http://a/", "f", 0), Report(201, time_text(made_s * 10**9), "h", "u", ""))
    is_too_old = outgoing._is_too_old
    assert [is_too_old(report, made_s + after_s) for after_s in (0, UNTAKEN_KEPT_S, UNTAKEN_KEPT_S + 1)] == [
        False,
        False,
        True,
    ]


async def test_a_report_goes_to_whom_its_post_is_from_also_after_a_retry(site: Site, tmp_path: Path) -> None:
    sources, sinks = [Given(name) for name in "ab"], [Kept(name) for name in "ab"]
    options = SubscriberOptions(
        root=tmp_path, memory=tmp_path / "memory.db", tries=2, first_pause_s=0.01, is_synced=False
    )
    subscriber = Subscriber(sources, options, reports={each.name: each for each in sinks})
    await subscriber.start()
    for source in sources:
        source.give(site.post(f"of-{source.name}", b"x"), site.post(source.name, site.put(source.name, b"1")))
    await until(lambda: all(len(each.sent) == 2 for each in sinks))
    await subscriber.stop()
    assert [sorted(sink.sent)[0][:2] for sink in sinks] == [(201, "a"), (201, "b")]
    assert [sorted(sink.sent)[1][:2] for sink in sinks] == [(499, "of-a"), (499, "of-b")]
