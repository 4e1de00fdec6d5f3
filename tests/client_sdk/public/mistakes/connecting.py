"""Of those who connect."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta

from client_sdk import (
    Hedging,
    RetryPolicy,
    connect,
)
from client_sdk.testing import LocalBroker, local_broker
from tests.client_sdk.public.mistakes.world import CERTIFICATE, ECHO, NOBODY, World, imported, mistake, unseen, wrong

TCP = "tcp://127.0.0.1:7878"

wrong("nobody listens at the URL", lambda world: connect(NOBODY))
wrong("a URL without a scheme", lambda world: connect("127.0.0.1:7878"))
wrong("a URL of the web", lambda world: connect("http://127.0.0.1:7878"))
wrong("a port that is no number", lambda world: connect("tcp://127.0.0.1:port"))
wrong("an address of IPv6 without brackets", lambda world: connect("tcp://::1:21878"))
wrong("a Unix socket without its whole path", lambda world: connect("unix://broker.sock"))
wrong("a user and a password in the URL", lambda world: connect("tcp://ada:lovelace@127.0.0.1"))
wrong("several URLs in one text", lambda world: connect("tcp://10.0.0.1,tcp://10.0.0.2"))
wrong("a path behind `tcp://`", lambda world: connect("tcp://127.0.0.1:7878/rsocket"))
wrong("a Unix socket that is not there", lambda world: connect(f"unix://{world.folder}/none.sock"))
wrong("`tls://` where `tcp://` is spoken", lambda world: connect(world.url.replace("tcp", "tls")))
wrong("`ws://` where `tcp://` is spoken", lambda world: connect(world.url.replace("tcp", "ws")))
wrong("`tcp://` at a WebSocket, or at the REST API", lambda world: connect(world.url.urls["ws"].replace("ws", "tcp")))
wrong("a URL that is no text", lambda world: connect(unseen(None)))
wrong("a name that the package has not", lambda world: imported("Json"))
wrong("a name of another module", lambda _: imported("address", "client_sdk.sync"))
wrong("`from client_sdk import Broker`", lambda world: imported("Broker"))
wrong("`local_broker()` without `async with`", lambda world: connect(unseen(local_broker())))
wrong("`ssl=True`, or the name of a file", lambda world: connect(world.url, ssl=unseen(True)))
wrong("`ssl=` with `tcp://`", lambda world: connect(TCP, ssl=ssl.create_default_context()))
wrong(
    "a context for servers in `ssl=`",
    lambda world: connect("tls://127.0.0.1", ssl=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)),
)
wrong("no time to connect", lambda world: connect(TCP, connect_timeout_s=0))
wrong("a `timedelta` instead of seconds", lambda world: connect(TCP, keepalive_s=unseen(timedelta(seconds=5))))
wrong("an interval that is longer than the lifetime", lambda world: connect(TCP, keepalive_s=30))
wrong("a name in `route_id=`", lambda world: connect(TCP, service="orders", route_id="orders-1"))
wrong("`retry=None`", lambda world: connect(TCP, retry=unseen(None)))
wrong("a budget of retries that is a number", lambda world: RetryPolicy(budget=unseen(10)))
wrong("an argument that is not there", lambda world: connect(world.url, **unseen({"timeout": 5})))
wrong("what only `run`, `serve` and `offer` have", lambda world: unseen(connect)(world.url, connections=4))
wrong("a certificate by another name", lambda world: unseen(connect)(world.url, cafile="ca.pem"))
wrong("tags of a caller", lambda world: connect(world.url, tags={"region": "eu"}))


@contextlib.asynccontextmanager
async def encrypted() -> AsyncIterator[LocalBroker]:
    """A broker whose certificate nobody knows."""
    options = {"tls.certificate": CERTIFICATE, "tls.key": CERTIFICATE}
    async with local_broker(listen=["tls://127.0.0.1:0"], options=options) as url:
        yield url


@mistake("`tcp://` where TLS is spoken")
async def _plain_to_tls(world: World) -> None:
    async with encrypted() as url:
        await connect(url.replace("tls", "tcp"))


@mistake("`wss://` where `tls://` is spoken")
async def _web_to_tls(world: World) -> None:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    trusting.check_hostname = False
    async with encrypted() as url:
        await connect(url.replace("tls", "wss"), ssl=trusting)


@mistake("a certificate of an unknown CA")
async def _untrusted(world: World) -> None:
    async with encrypted() as url:
        await connect(url)


@mistake("a broker that wants a certificate of the client")
async def _unknown_client(world: World) -> None:
    options = {"tls.certificate": CERTIFICATE, "tls.key": CERTIFICATE, "tls.client_ca": CERTIFICATE}
    async with local_broker(listen=["tls://127.0.0.1:0"], options=options) as url:
        await connect(url.replace("127.0.0.1", "localhost"), ssl=ssl.create_default_context(cafile=CERTIFICATE))


@mistake("hedging of calls that are not idempotent")
async def _never_hedged(world: World) -> str:
    await world.client.request_response(ECHO, b"", route="say", hedging=Hedging())
    return world.log().partition("client_sdk:")[2].partition(" ")[2]


@mistake("one connection too many")
async def _too_many(world: World) -> None:
    async with local_broker(limits__max_connections=1) as url, connect(url):
        await connect(url)


@mistake("two clients with one `route_id`")
async def _replaced(world: World) -> None:
    route_id = "11223344-5566-7788-99aa-bbccddeeff00"
    one, other = (connect(world.url, service="x", route_id=route_id) for _ in range(2))
    async with one as first, other:
        await first.closed()
        await first.request_response(ECHO)
