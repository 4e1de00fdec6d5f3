"""Mistakes of a program's first hour: each is one sentence that says what to do."""

import asyncio
import ssl
from pathlib import Path

import pytest

import broker as broker_package
import client_sdk
from client_sdk import NotConnected, Service, address, connect, run
from tests.client_sdk.fake_broker import FakeBroker

CERTIFICATE = Path(__file__).parents[1] / "localhost.pem"


async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def said_by(url: str) -> str:
    with pytest.raises(NotConnected) as caught:
        await connect(url)
    return caught.value.text.removeprefix(f"{url}: ")


async def test_a_scheme_that_the_other_side_does_not_speak() -> None:
    async with await asyncio.start_server(answer_http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await said_by(f"tls://127.0.0.1:{port}") == (
            "the other side does not speak TLS: use tcp://, or ws:// for a WebSocket, in place of tls://"
        )
        assert await said_by(f"tcp://127.0.0.1:{port}") == (
            "the other side speaks HTTP: use ws:// for a WebSocket, and another port than that of the REST API"
        )


async def test_what_is_said_to_who_talks_plainly_to_tls_or_does_not_trust_it() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with await asyncio.start_server(answer_http, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        assert await said_by(f"tcp://127.0.0.1:{port}") == (
            "the other side closed the connection before it said anything; if it speaks TLS, use tls://"
        )
        assert await said_by(f"tls://127.0.0.1:{port}") == (
            "the certificate is not trusted: self-signed certificate; ssl=ssl.create_default_context(cafile=FILE) "
            "trusts the CA in FILE, as --ca FILE does for commands"
        )


async def test_connect_without_async_with_says_how(broker: FakeBroker) -> None:
    connecting = connect(broker.url)
    with pytest.raises(AttributeError, match="no client yet, so it has no request_response: write `async with"):
        connecting.request_response  # noqa: B018
    with pytest.raises(AttributeError, match="'Connecting' object has no attribute 'foo'"):
        connecting.foo  # noqa: B018
    with pytest.raises(TypeError, match="write `async with"):
        connecting.__enter__()
    assert "async with" in repr(connecting)


async def test_run_where_a_loop_runs_says_what_to_use() -> None:
    with pytest.raises(RuntimeError, match=r"use `await serve\(\.\.\.\)`"):
        run("tcp://127.0.0.1", Service("s"))


async def test_a_client_of_another_loop_is_refused(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:

        async def ask() -> None:
            await client.request_response(address("x"))

        with pytest.raises(RuntimeError, match=r"belongs to another event loop.*run_coroutine_threadsafe"):
            await asyncio.to_thread(asyncio.run, ask())


async def test_clients_show_what_they_are(broker: FakeBroker) -> None:
    async with connect(broker.url, service="ledger") as client:
        assert repr(client) == f"<Client of ledger connected: {broker.url}, route {client.route_id}>"
    assert repr(client).startswith("<Client of ledger closed: ")
    assert client_sdk.__version__ == broker_package.VERSION
