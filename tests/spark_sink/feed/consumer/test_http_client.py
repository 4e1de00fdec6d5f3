"""spark_sink.feed.consumer.http_client: with a server that answers what a test says."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.config.certificates import client_context, server_context
from spark_sink.feed.consumer import http_client
from spark_sink.feed.consumer.http_client import BrokeOff, HttpClient, NotFetched
from tests.system.support.waits import soon, until

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
CERTIFICATE = str(Path(__file__).parents[3] / "client_sdk/localhost.pem")  # with its key
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Server:
    """Answers each request with the next of its answers; ends a connection behind one that is cut off."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.connections_n = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_n += 1
        try:
            while True:
                self.asked.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self.answers.pop(0)
                writer.write(answer.removesuffix(CUT))
                if answer.endswith(CUT):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


CUT = b"<cut>"


@asynccontextmanager
async def served(
    *answers: bytes, tls: ssl.SSLContext | None = None, trusts: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Server, HttpClient]]:
    server, client = Server(*answers), HttpClient(trusts)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    server.url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/f"
    try:
        yield server, client
    finally:
        client.close()
        listening.close()
        await listening.wait_closed()


async def got(client: HttpClient, url: str, size: int = 100) -> bytes:
    answer = await soon(client.get(url, {}))
    try:
        return await soon(answer.read(size))
    finally:
        answer.end()


async def test_files_come_over_one_connection() -> None:
    async with served(GOOD, GOOD.replace(b"abc", b"def")) as (server, client):
        assert [await got(client, server.url) for _ in range(2)] == [b"abc", b"def"]
        assert server.connections_n == 1


async def test_over_https_a_server_is_who_a_given_ca_or_the_system_says() -> None:
    tls, trusts = server_context(CERTIFICATE, CERTIFICATE), client_context(CERTIFICATE)
    async with served(GOOD, GOOD, tls=tls, trusts=trusts) as (server, client):
        assert [await got(client, server.url) for _ in range(2)] == [b"abc"] * 2
        assert server.connections_n == 1
    async with served(GOOD, tls=tls) as (server, client):
        with pytest.raises(NotFetched, match="certificate verify failed") as caught:
            await got(client, server.url)
        assert caught.value.is_host
        assert server.asked == []


async def test_several_that_are_asked_at_once_have_a_connection_each() -> None:
    async with served(*[GOOD] * 8) as (server, client):
        for _ in range(2):
            assert await asyncio.gather(*(got(client, server.url) for _ in range(4))) == [b"abc"] * 4
        assert server.connections_n == 4


@pytest.mark.parametrize(
    "answer, body, connections_n",
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", 1),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD, b"abc", 1),
        (CHUNKS + b"2;x\r\nab\r\n1\r\nc\r\n0\r\nTrailer: 1\r\n\r\n", b"abc", 1),
        (CHUNKS + b"0\r\n\r\n", b"", 1),
        (b"HTTP/1.1 200 OK\r\n\r\nabc" + CUT, b"abc", 2),
        (GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), b"abc", 2),
        (GOOD + b"more", b"abc", 2),
    ],
)
async def test_bodies_end_as_their_heads_say(answer: bytes, body: bytes, connections_n: int) -> None:
    async with served(answer, GOOD) as (server, client):
        assert await got(client, server.url) == body
        assert await got(client, server.url) == b"abc"
        assert server.connections_n == connections_n


async def test_large_bodies_come_whole_in_pieces_of_any_size() -> None:
    body = bytes(range(256)) * 4096
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(body[at : at + 70_000]), body[at : at + 70_000]) for at in range(0, 1 << 20, 70_000)
    )
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with served(plain + body, CHUNKS + chunks + b"0\r\n\r\n") as (server, client):
        for size in (1 << 20, (1 << 20) + 1):
            assert await got(client, server.url, size) == body


async def test_a_connection_that_was_not_read_to_its_end_is_not_used_again() -> None:
    async with served(GOOD, GOOD) as (server, client):
        assert await got(client, server.url, 2) == b"ab"
        assert await got(client, server.url) == b"abc"
        assert server.connections_n == 2


@pytest.mark.parametrize(
    "answer",
    [
        *(CUT, b"HTTP/1.1 200 OK\r\nContent-Le" + CUT, GOOD.replace(b"3", b"4") + CUT, CHUNKS + b"4\r\nabc" + CUT),
        *(CHUNKS + b"3\r\nabc\r\n" + CUT, CHUNKS + b"nonsense\r\n"),
    ],
)
async def test_what_ends_too_soon_is_told(answer: bytes) -> None:
    async with served(answer) as (server, client):
        with pytest.raises(BrokeOff):
            await got(client, server.url)


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", b"x" * (http_client.BUFFER_BYTES + 1)])
async def test_what_is_no_answer_is_told(answer: bytes) -> None:
    async with served(answer) as (server, client):
        with pytest.raises(NotFetched, match=r"nonsense|without an end"):
            await got(client, server.url)


async def test_a_connection_that_was_closed_meanwhile_costs_nothing() -> None:
    async with served(GOOD, CUT, GOOD) as (server, client):
        assert [await got(client, server.url) for _ in range(2)] == [b"abc"] * 2
        assert len(server.asked) == 3


async def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "SILENT_S", 0.0)
    monkeypatch.setattr(http_client, "LOOK_S", 0.01)
    async with served(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab") as (server, client):
        for _ in range(2):
            with pytest.raises(NotFetched, match="no answer") as raised:
                await got(client, server.url)
            assert raised.value.is_host


async def test_a_server_that_says_nothing_is_given_up_sooner_where_another_one_has_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "HURRY_S", 0.0)
    async with served(b"") as (server, client):
        asking = asyncio.ensure_future(client.get(server.url, {}))
        await until(lambda: server.asked)
        client.hurry({server.url + "else"})
        client.hurry({server.url})
        with pytest.raises(NotFetched, match="no answer") as caught:
            await soon(asking)
        assert not caught.value.is_host  # it has other files


async def test_a_host_that_does_not_accept_is_not_waited_for_where_another_one_has_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "HURRY_S", 0.0)
    client = HttpClient()
    async with silent_port() as port:
        url = f"http://127.0.0.1:{port}/f"
        asking = asyncio.ensure_future(client.get(url, {}))
        await until(lambda: client._connecting)
        client.hurry({url + "else"})
        assert not any(each.is_hurried for each in client._connecting)
        client.hurry({url})
        client.hurry({url})
        with pytest.raises(NotFetched, match="no answer") as caught:
            await soon(asking)
        assert not caught.value.is_host  # as of one that is silent
        assert not client._connecting
    client.close()


@asynccontextmanager
async def silent_port() -> AsyncIterator[int]:
    """Of a server that accepts nobody, and whose place for those who wait is taken."""
    with socket.socket() as listening, socket.socket() as waiting:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting.connect(listening.getsockname())
        yield listening.getsockname()[1]


async def test_a_connection_that_nobody_uses_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "IDLE_S", 0.0)
    monkeypatch.setattr(http_client, "LOOK_S", 0.01)
    async with served(GOOD) as (server, client):
        assert await got(client, server.url) == b"abc"
        await until(lambda: not client._open)
        assert not client._idle


async def test_a_host_that_refuses_is_told() -> None:
    async with served() as (server, client):
        url = server.url
    with pytest.raises(NotFetched) as raised:
        await got(client, url)
    assert raised.value.is_host
    assert not raised.value.is_final
    with pytest.raises(NotFetched, match="it is no URL") as raised:
        await got(client, "nonsense")
    assert raised.value.is_final
