"""Files over HTTP: what is served, as a whole or a range, and that nothing else is."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from spark_sink.feed.files import ANY_PATH, PIECE_BYTES, Files, RootPlace
from tests.system.support.waits import until

LARGE = bytes(range(256)) * (PIECE_BYTES // 256 * 2) + b"end"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[str]:
    """The address of one that serves `root`."""
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d/a.txt").write_bytes(b"0123456789")
    (root / "d/ü #?%.txt").write_bytes(b"odd")
    (root / "large").write_bytes(LARGE)
    (root / "empty").touch()
    (root / ".hidden").touch()
    (root / "link").symlink_to("d/a.txt")
    (root / "out").symlink_to(tmp_path)
    os.mkfifo(root / "fifo")
    (tmp_path / "secret").write_text("secret")
    digests = {"d/a.txt": "sha512:abc"}
    files = Files(RootPlace(root), find_digest=lambda path, stat: digests.get(path))

    async def handle(request: web.Request) -> web.StreamResponse:
        return await files.answer(request, request.rel_url.raw_path)

    app = web.Application()
    app.router.add_get(ANY_PATH, handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def got(server: str, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, Mapping[str, str]]:
    async with aiohttp.ClientSession() as session:
        url = URL(f"http://{server}{path}", encoded=True)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with session.request(method, url, headers=sent) as response:
            return response.status, await response.read(), response.headers


async def test_a_file_is_served_with_the_digest_it_was_posted_with(server: str) -> None:
    status, body, headers = await got(server, "/d/a.txt")
    assert (status, body, headers["ETag"]) == (200, b"0123456789", '"sha512:abc"')
    status, body, headers = await got(server, "/large")
    assert (status, body == LARGE, headers["Content-Length"]) == (200, True, str(len(LARGE)))
    assert (await got(server, "/empty"))[:2] == (200, b"")


@pytest.mark.parametrize("path", ["//d/a.txt", "///d/a.txt", "/d/%61.txt"])
async def test_other_ways_to_write_a_name(server: str, path: str) -> None:
    assert (await got(server, path))[:2] == (200, b"0123456789")


async def test_names_with_odd_characters_are_served(server: str) -> None:
    assert (await got(server, "/d/%C3%BC%20%23%3F%25.txt"))[:2] == (200, b"odd")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/d", "/d/", "/x", "/d//a.txt", "/link", "/out/secret", "/fifo", "/.hidden", "/../secret"),
        *("/d/../../secret", "/%2e%2e/secret", "/d%2Fa.txt", "/d%2f..%2f..%2fsecret", "/d/a.txt%00", "/d/a.txt/x"),
        *("/%252e%252e/secret", "/./d/a.txt", "/d/" + "x" * 300),
    ],
)
async def test_nothing_else_is_served(server: str, path: str) -> None:
    assert (await got(server, path))[0] == 404


@pytest.mark.parametrize(
    "asked, status, body, said",
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-0", 416, b"", "bytes */10"),
        ("bytes=4-2", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=a-b", 200, b"0123456789", None),
    ],
)
async def test_ranges(server: str, asked: str, status: int, body: bytes, said: str | None) -> None:
    found = await got(server, "/d/a.txt", Range=asked)
    assert (*found[:2], found[2].get("Content-Range")) == (status, body, said)


async def test_a_large_range_is_sent_in_pieces(server: str) -> None:
    status, body, _ = await got(server, "/large", Range="bytes=5-")
    assert (status, body == LARGE[5:]) == (206, True)


async def test_a_range_of_what_has_changed_is_the_whole_file(server: str) -> None:
    assert (await got(server, "/d/a.txt", Range="bytes=2-4", If_Range='"sha512:abc"'))[0] == 206
    assert (await got(server, "/d/a.txt", Range="bytes=2-4", If_Range='"sha512:old"'))[:2] == (200, b"0123456789")


async def test_what_has_not_changed_is_not_sent_again(server: str) -> None:
    assert (await got(server, "/d/a.txt", If_None_Match='"x", W/"sha512:abc"'))[:2] == (304, b"")
    assert (await got(server, "/d/a.txt", If_None_Match='"x"'))[0] == 200


async def test_head_says_what_get_would_without_the_bytes(server: str) -> None:
    status, body, headers = await got(server, "/large", "HEAD", Range="bytes=1-2")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(LARGE)))
    assert (await got(server, "/x", "HEAD"))[0] == 404


async def test_changes_are_not_allowed(server: str) -> None:
    assert (await got(server, "/d/a.txt", "PUT"))[0] == 405


async def test_a_reader_that_goes_away_is_no_mistake_of_the_program(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.truncate(tmp_path / "root/large", 64 << 20)  # more than sockets hold
    host, _, port = server.partition(":")
    open_before = len(os.listdir("/proc/self/fd"))
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    await reader.readexactly(100)
    writer.transport.abort()
    await until(lambda: len(os.listdir("/proc/self/fd")) <= open_before)
    assert (await got(server, "/d/a.txt"))[0] == 200
    assert caplog.text == ""
