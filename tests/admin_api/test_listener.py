"""The admin port: who may stay, for how long, and what is said of what cannot be read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from admin_api.app import make_app
from admin_api.bodies import BODY_S, BODY_TIME
from admin_api.listener import MAX_CONNECTIONS, AdminListener, Bounds, places_n
from broker.edge.descriptors import Descriptors
from broker.limited_log import STRANGERS
from tests.admin_api.fakes import FakeAdmin
from tests.fakes import World
from tests.system.support.waits import soon, until

HALF = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ASKING = HALF + b"\r\n"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Listen = Callable[..., Awaitable[int]]


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    """`await listen()`: the port of an admin API with these Bounds; `listen(handler)`: one that answers everything."""
    made: list[AdminListener] = []

    async def start(handler: Handler | None = None, wait_s: float = BODY_S, **bounds: float) -> int:
        app = make_app(FakeAdmin(World()))
        app[BODY_TIME] = wait_s
        if handler is not None:
            app = web.Application()
            app.router.add_get("/{any:.*}", handler)
        made.append(AdminListener(app, Bounds(**bounds)))  # type: ignore[arg-type]
        return await made[-1].listen("127.0.0.1", 0)

    yield start
    for each in made:
        await each.cleanup()


@pytest.fixture(autouse=True)
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Lines about the admin port."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if record.getMessage().startswith("admin ")]


class Socket:
    """A connection to the port."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.reader, self.writer = streams

    @staticmethod
    async def to(port: int, raw: bytes = b"") -> Socket:
        made = Socket(await asyncio.open_connection("127.0.0.1", port, limit=2**16))
        made.writer.write(raw)
        await made.writer.drain()
        return made

    async def status(self) -> bytes:
        """Of the next answer, whose rest is read."""
        head = await soon(self.reader.readuntil(b"\r\n\r\n"))
        size = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await soon(self.reader.readexactly(int(size.split(b":")[1])))
        return head.split(b" ")[1]

    async def is_closed(self) -> bool:
        """The other end closes it, in order or not."""
        try:
            return await soon(self.reader.read()) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.transport.abort()


async def test_half_a_request_is_not_waited_for(listen: Listen) -> None:
    port = await listen(quiet_s=0.05)
    sockets = [await Socket.to(port, raw) for raw in (b"", b"G", HALF)]
    assert [await socket.is_closed() for socket in sockets] == [True] * 3


async def test_a_connection_that_asks_no_more_is_closed(listen: Listen) -> None:
    socket = await Socket.to(await listen(quiet_s=0.05), ASKING)
    assert (await socket.status(), await socket.is_closed()) == (b"200", True)


async def test_one_too_many_takes_the_place_of_who_was_quiet_for_longest(
    listen: Listen, lines: Callable[[], list[str]]
) -> None:
    port = await listen(connections_n=3, address_part=1)
    first, second, third = [await Socket.to(port, ASKING) for _ in range(3)]
    assert [await socket.status() for socket in (second, third, first)] == [b"200"] * 3
    first.writer.write(ASKING)
    assert await first.status() == b"200"
    fourth = await Socket.to(port, HALF)
    fifth = await Socket.to(port, ASKING)
    assert await fifth.status() == b"200"
    assert [await second.is_closed(), await third.is_closed()] == [True, True]
    fourth.writer.write(b"\r\n")
    first.writer.write(ASKING)
    assert (await first.status(), await fourth.status()) == (b"200", b"200")
    text = "admin 127.0.0.1: closed for another one: 3 connections are open, the limit is 3"
    assert lines() == [text, text]
    for socket in (first, fourth, fifth):
        socket.close()


async def test_who_is_being_answered_is_not_closed_for_another_one(
    listen: Listen, lines: Callable[[], list[str]]
) -> None:
    asked, go = 0, asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await go.wait()
        return web.Response(text="done")

    port = await listen(wait, connections_n=2, address_part=1)
    two = [await Socket.to(port, ASKING) for _ in range(2)]
    await until(lambda: asked == 2)
    assert await (await Socket.to(port, ASKING)).is_closed()
    go.set()
    assert [await socket.status() for socket in two] == [b"200"] * 2
    text = "closed at once: 2 connections are open, the limit is 2, and all are being answered"
    assert lines() == [f"admin 127.0.0.1: {text}"]
    for socket in two:
        socket.close()


@pytest.mark.parametrize("part", [1, 2])
async def test_who_has_not_sent_its_body_keeps_no_place_from_others(listen: Listen, part: int) -> None:
    """Half a request with a body is half a request: a byte each locked the port."""
    port = await listen(connections_n=4 * part, address_part=part)
    halves = [await Socket.to(port, PUT + b"Content-Length: 50\r\n\r\n{") for _ in range(6)]
    assert [await half.is_closed() for half in halves[:2]] == [True, True]
    for _ in range(4):
        last = await Socket.to(port, ASKING)
        assert await last.status() == b"200"
    for half in (*halves, last):
        half.close()


async def test_one_too_many_takes_the_place_of_who_has_read_nothing_of_its_answer_for_longest(
    listen: Listen, lines: Callable[[], list[str]]
) -> None:
    asked = 0

    async def much(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(body=bytes(32 << 20) if request.path == "/livez" else b"little")

    port = await listen(much, connections_n=3, address_part=1, look_s=0.001)
    unread: list[Socket] = []
    for number in range(3):
        unread.append(await Socket.to(port, ASKING))
        await until(lambda number=number: asked == number + 1)  # type: ignore[misc]
    await soon(unread[0].reader.readexactly(16 << 20))  # it does read
    little = await Socket.to(port, b"GET /little HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert await little.status() == b"200"
    assert lines() == ["admin 127.0.0.1: closed for another one: 3 connections are open, the limit is 3"]
    await soon(unread[0].reader.readexactly(16 << 20))  # it was one of the others
    for socket in (*unread, little):
        socket.close()


class FakeTransport(asyncio.Transport):
    """A connection from this address, that has taken all that was written to it."""

    def __init__(self, host: str) -> None:
        super().__init__({"peername": (host, 1)})
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


async def test_one_address_has_half_of_the_places_and_of_ipv6_a_64_is_one(lines: Callable[[], list[str]]) -> None:
    made = AdminListener(web.Application(), Bounds(connections_n=6))
    await made.listen("127.0.0.1", 0)
    other = FakeTransport("10.0.0.4")
    many = [FakeTransport(f"2001:db8::{number}") for number in range(1, 6)]
    assert all(made.arrived(each) is not None for each in (other, *many))
    assert [each.is_aborted for each in (other, *many)] == [False, True, True, False, False, False]
    text = "closed for another one: 3 connections of this address are open, the limit is 3"
    assert lines() == [f"admin 2001:db8::/64: {text}"] * 2
    await made.cleanup()


@pytest.mark.parametrize(("limit_n", "expected"), [(1 << 20, 128), (1024, 128), (256, 43), (16, 3), (1, 1)])
def test_the_admin_port_leaves_some_of_the_descriptors_that_are_kept_to_files_and_dials(
    limit_n: int, expected: int
) -> None:
    descriptors = Descriptors()
    descriptors.limit_n = limit_n
    assert places_n(MAX_CONNECTIONS, descriptors) == expected
    assert limit_n < 4 or expected < descriptors.reserved_n


async def test_who_does_not_read_its_answer_is_closed(listen: Listen, lines: Callable[[], list[str]]) -> None:

    async def much(_: web.Request) -> web.Response:
        return web.Response(body=bytes(32 << 20))

    socket = await Socket.to(await listen(much, stalled_s=0.1, look_s=0.02), ASKING)
    await until(lines)
    (line,) = lines()
    assert line.endswith("unread bytes and read none for 0.1 s")
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await soon(socket.reader.readexactly(33 << 20))


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"GARBAGE / HTTP/1.1\r\n\r\n", "Invalid method encountered"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "it is TLS, this port speaks http: write http:// in its URL"),
        (b"GET / HTTP/1.1\r\nX\xff\xfe: y\r\n\r\n", "Invalid header token"),
        (b"GET / HTTP/1.1\r\nContent-Length: abc\r\n\r\n", "Invalid character in Content-Length"),
    ],
)
async def test_what_cannot_be_read_is_one_line(
    listen: Listen, lines: Callable[[], list[str]], raw: bytes, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    socket = await Socket.to(await listen(), raw)
    assert await socket.status() == b"400"
    (line,) = lines()
    assert line.startswith(f"admin 127.0.0.1: a request cannot be read: {what}")
    assert "\n" not in line
    assert [record for record in caplog.records if record.exc_info or record.levelno > logging.INFO] == []
    socket.close()


async def test_a_flood_of_them_is_a_few_lines_and_a_number(listen: Listen, lines: Callable[[], list[str]]) -> None:
    port = await listen()
    for _ in range(50):
        socket = await Socket.to(port, b"GARBAGE / HTTP/1.1\r\n\r\n")
        assert await socket.status() == b"400"
        socket.close()
    STRANGERS.flush()
    assert len(lines()) < 50


PUT = b"PUT /api/v1/drains/broker HTTP/1.1\r\nHost: 127.0.0.1\r\n"


async def test_a_body_that_does_not_come_is_told(listen: Listen) -> None:
    socket = await Socket.to(await listen(wait_s=0.05), PUT + b"Content-Length: 50\r\n\r\nhello")
    assert await socket.status() == b"400"
    socket.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"Content-Length: 50\r\n\r\nhello",
        b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Content-Type: text/plain; charset=\xff\r\nContent-Length: 2\r\n\r\n\xff\xff",
    ],
)
async def test_a_body_that_is_broken_or_broken_off_is_no_mistake_of_ours(
    listen: Listen, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    port = await listen()
    for _ in range(3):
        socket = await Socket.to(port, PUT + raw)
        socket.writer.close()
    last = await Socket.to(port, ASKING)
    assert await last.status() == b"200"
    last.close()
    assert [record for record in caplog.records if record.exc_info or record.levelno > logging.INFO] == []


async def test_a_mistake_of_ours_is_told_with_its_traceback(listen: Listen, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: web.Request) -> web.Response:
        raise RuntimeError("ours")

    socket = await Socket.to(await listen(fail), ASKING)
    assert await socket.status() == b"500"
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "admin 127.0.0.1: a request could not be answered"
    assert record.exc_info is not None
    socket.close()
