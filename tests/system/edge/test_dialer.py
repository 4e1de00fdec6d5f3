"""broker.edge.dialer: whom the core wants is dialled, by every transport, and the core hears how it went."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from broker.config.certificates import client_context
from broker.config.load import load
from broker.config.urls import PeerUrl
from broker.core import Core, CoreSettings
from broker.edge.dialer import Bounds, Dialer, _reason
from broker.edge.shell import Shell
from broker.forwarding.peer import Peer
from broker.routing.rng import Rng
from broker.server import Server
from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.frames import SETUP
from tests.conftest import MakeServer
from tests.fakes import START_MS, Frame, route_id
from tests.system.edge.test_resolver import FakeResolver
from tests.system.support.certificates import Authority
from tests.system.support.waits import until
from tests.system.support.wires import url_of

SECRET = "correct horse battery staple"
NOBODY = "tcp://127.0.0.1:1"  # a port that only root could listen on


class FakeDials:
    """Wants what the test says, once each, and remembers what it was told."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self.targets: list[tuple[str, list[str]]] = []
        self.known: list[str] = []
        self.asked_n = 0

    def take_dials(self, now: float, /) -> list[str]:
        self.asked_n += 1
        wanted, self.wanted = self.wanted, []
        return wanted

    def dial_failed(self, url: str, text: str, now: float, /) -> None:
        self.failed.append((url, text))

    def set_targets(self, source: str, urls: list[str], /) -> None:
        self.targets.append((source, urls))

    def know(self, address: str, /) -> None:
        self.known.append(address)


class Bench:
    """A shell with a dialer."""

    def __init__(self) -> None:
        self.core = Core(CoreSettings(), route_id(0xB1), Rng(1), 0.0, START_MS, None, bytes(32))
        self.shell = Shell(self.core, 10.0, lambda events: None)
        self.dials = FakeDials()
        self.resolver = FakeResolver()
        self.dialer: Dialer | None = None  # None until `dial`

    def dial(self, *urls: str, source: str = "", context: ssl.SSLContext | None = None, **bounds: float) -> None:
        """Wants these URLs, and what the source stands for. `bounds`: those of `Bounds`."""
        self.dials.wanted += urls
        sources = [PeerUrl.parse(source)] if source else []
        self.dialer = Dialer(self.shell, self.dials, sources, context, self.resolver, Bounds(**bounds))  # type: ignore[arg-type]
        self.dialer.start()

    def set(self, **bounds: float) -> None:
        """The dialer has these bounds from now on."""
        assert self.dialer is not None
        self.dialer.bounds = Bounds(**bounds)  # type: ignore[arg-type]

    async def failure(self) -> tuple[str, str]:
        """What the core was told first."""
        await until(lambda: self.dials.failed)
        return self.dials.failed[0]

    async def peer(self) -> Peer:
        """The first peer."""
        await until(self.core.peers)
        return self.core.peers()[0]

    async def end(self) -> None:
        if self.dialer is not None:
            await self.dialer.stop()
        self.shell.stop()
        self.shell.abort_all()
        await until(lambda: self.shell.links_open() == 0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.end()


class Other:
    """What listens at the other end: the first frame of each connection, and how many there were."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.principals: list[object] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.principals.append(writer.get_extra_info("peercert"))
        size = int.from_bytes(await reader.readexactly(3), "big")
        self.frames.append(Frame(await reader.readexactly(size)))
        await reader.read()
        writer.close()

    async def kind(self) -> int:
        """Of the first frame that came."""
        await until(lambda: self.frames)
        return self.frames[0].kind


@pytest.fixture
def other() -> Other:
    return Other()


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


# --- transports ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (NOBODY, "127.0.0.1"),
        ("tcp://[::1]:1", "::/64"),
        ("ws://127.0.0.1:1/rsocket", "127.0.0.1"),
        ("unix:///nowhere/at/all", ""),
    ],
)
async def test_where_brokers_are_dialled_they_are_known_to_be(bench: Bench, url: str, address: str) -> None:
    """Also those that cannot be reached: they may dial."""
    bench.dial(url)
    await bench.failure()
    assert bench.dials.known == [address]


def server_of(authority: Authority) -> ssl.SSLContext:
    """Shows the certificate of the broker, and wants to see one of the same authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate("broker"), authority.key("broker"))
    context.load_verify_locations(authority.root)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_of(authority: Authority) -> ssl.SSLContext:
    return client_context(str(authority.root), str(authority.certificate("broker")), str(authority.key("broker")))


async def test_with_tls_both_ends_know_each_other_by_their_certificates(
    bench: Bench, other: Other, authority: Authority
) -> None:
    async with await asyncio.start_server(other.take, "127.0.0.1", 0, ssl=server_of(authority)) as server:
        bench.dial(f"tls://127.0.0.1:{port_of(server)}", context=client_of(authority))
        assert await other.kind() == SETUP
        assert (await bench.peer()).principal == "certificate:spiffe://acme/broker/b3"
        assert other.principals[0]
        await bench.end()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of broken handshakes
async def test_a_certificate_of_another_name_or_authority_is_refused(
    bench: Bench, other: Other, authority: Authority
) -> None:
    bench.resolver.by_host["elsewhere"] = ["127.0.0.1"]
    async with await asyncio.start_server(other.take, "127.0.0.1", 0, ssl=server_of(authority)) as server:
        bench.dial(source=f"dns+tls://elsewhere:{port_of(server)}", context=client_of(authority))
        await until(lambda: bench.dials.targets)
        bench.dials.wanted += bench.dials.targets[0][1]
        url, text = await bench.failure()
        assert url == f"tls://127.0.0.1:{port_of(server)}"
        assert "not valid for 'elsewhere'" in text  # though it is for 127.0.0.1
        await bench.end()
        bench.dials.failed.clear()
        bench.dial(f"tls://127.0.0.1:{port_of(server)}")
        assert "certificate verify failed" in (await bench.failure())[1]
        assert bench.core.peers() == []
        await bench.end()


def test_a_certificate_that_is_none_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no certificate")
    with pytest.raises(BrokerError) as caught:
        client_context(str(tmp_path / "ca"))
    assert caught.value.word == "bad-config"
    assert caught.value.text.startswith(f"tls: {tmp_path}/ca: ")


# --- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url, text",
    [
        (NOBODY, "connection refused"),
        ("ws://127.0.0.1:1/x", "connection refused"),
        ("unix:///run/nobody/is/here.sock", "no such file or directory"),
        ("dns+tcp://a:1", "dns+tcp://a:1 needs a DNS lookup, which only cluster.peers supports"),
        ("tcp://a:0", '"tcp://a:0" has port 0, which cannot be dialled'),
        (
            "rubbish",
            '"rubbish" is not a URL of tcp, tls, ws, wss, unix, dns+tcp, dns+tls, srv+tcp or srv+tls; write '
            "tcp://rubbish:7878",
        ),
    ],
)
async def test_the_core_hears_why_nobody_was_reached(bench: Bench, url: str, text: str) -> None:
    bench.dial(url)
    assert await bench.failure() == (url, text)


def test_a_host_that_nobody_knows_is_told_in_the_words_of_the_resolver() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert _reason(error) == "name or service not known"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "WebSocket: the answer is HTTP/1.1 403 Forbidden"),
        (b"HTTP/1.1 101 Yes\r\n\r\n", "WebSocket: missing Connection header"),
        (b"SSH-2.0-x\r\n\r\n", "WebSocket: the other side does not speak HTTP; if it is no WebSocket, use tcp://"),
        (b"HTTP/1.1 101 Yes\r\nX: " + bytes(70_000), "WebSocket: an answer of more than 65536 bytes"),
        (b"", "WebSocket: the other side closed the connection"),
    ],
    ids=["a refusal", "no upgrade", "no HTTP", "no end", "nothing"],
)
async def test_an_answer_that_is_no_websocket_is_told(bench: Bench, answer: bytes, text: str) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(say, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{port_of(server)}/x"
        bench.dial(url)
        assert await bench.failure() == (url, text)


@pytest.mark.parametrize("scheme", ["tls", "ws", "wss"])
async def test_who_does_not_become_a_connection_in_time_is_given_up(bench: Bench, scheme: str) -> None:

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        url = f"{scheme}://127.0.0.1:{port_of(server)}"
        bench.dial(url, connect_s=0.05)
        assert await bench.failure() == (url, "no connection within 0.05 s")
        assert bench.shell.links_open() == 0


async def test_so_many_are_dialled_at_one_time_and_no_more(bench: Bench) -> None:
    bench.dial(*(f"tcp://127.0.0.1:{port}" for port in (1, 2, 3)), dials_n=2)
    assert bench.dials.failed == [("tcp://127.0.0.1:3", "2 URLs are being dialled already")]
    await until(lambda: len(bench.dials.failed) == 3)


# --- names ---------------------------------------------------------------------------------------------------------


async def test_what_a_name_stands_for_is_told_and_dialled_when_the_core_wants_it(bench: Bench) -> None:
    bench.resolver.by_host["brokers"] = ["127.0.0.1", "127.0.0.2"]
    bench.dial(source="dns+tcp://brokers:1")
    await until(lambda: bench.dials.targets)
    assert bench.dials.targets == [("dns+tcp://brokers:1", ["tcp://127.0.0.1:1", "tcp://127.0.0.2:1"])]


async def test_a_name_is_looked_up_again_when_all_that_it_stands_for_have_failed(bench: Bench) -> None:
    bench.resolver.by_service["_b._tcp.x"] = [("127.0.0.1", 1), ("127.0.0.1", 2)]
    bench.dial(source="srv+tcp://_b._tcp.x", retry_s=0.0)
    await until(lambda: bench.dials.targets)
    first = bench.dials.targets[0][1]
    bench.resolver.by_service["_b._tcp.x"] = [("127.0.0.1", 3)]
    bench.dials.wanted += first[:1]
    await bench.failure()
    asked_n = bench.dials.asked_n
    await until(lambda: bench.dials.asked_n > asked_n + 1)
    assert len(bench.dials.targets) == 1  # one of the two may be there
    bench.dials.wanted += first[1:]
    await until(lambda: len(bench.dials.targets) > 1)
    assert bench.dials.targets[1] == ("srv+tcp://_b._tcp.x", ["tcp://127.0.0.1:3"])


async def test_a_name_that_was_not_found_is_looked_up_again_and_what_was_known_stays(bench: Bench) -> None:
    bench.dial(source="dns+tcp://brokers:1", retry_s=0.0)
    asked_n = bench.dials.asked_n
    await until(lambda: bench.dials.asked_n > asked_n + 2)
    assert bench.dials.targets == []
    bench.resolver.by_host["brokers"] = ["127.0.0.1"]
    await until(lambda: bench.dials.targets)
    assert bench.dials.targets == [("dns+tcp://brokers:1", ["tcp://127.0.0.1:1"])]


async def test_a_name_that_nobody_knows_is_told_until_somebody_does(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.dial(source="dns+tcp://brokers:1", retry_s=0.0, patience_s=0.0)
    dialer = bench.dialer
    assert dialer is not None
    await until(lambda: [each.attempts for each in dialer.failed_lookups()] >= [3])
    assert [str(each.place) for each in dialer.failed_lookups()] == ["dns+tcp://brokers:1"]
    assert [each.message for each in caplog.records] == [
        f"broker at dns+tcp://brokers:1: cannot be reached: {dialer.failed_lookups()[0].error}"
    ]
    bench.resolver.by_host["brokers"] = ["127.0.0.1"]
    await until(lambda: bench.dials.targets)
    assert dialer.failed_lookups() == []


async def test_who_cannot_be_reached_is_logged_once_for_each_reason(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.dial(NOBODY)
    await until(lambda: len(bench.dials.failed) == 1)
    assert caplog.records == []  # it may have been started a moment too late
    bench.set(patience_s=0.0)
    for failures_n in (2, 3):
        bench.dials.wanted.append(NOBODY)
        await until(lambda: len(bench.dials.failed) == failures_n)  # noqa: B023 -- awaited here
    said = f"broker at {NOBODY}: cannot be reached: "
    assert [each.message for each in caplog.records] == [f"{said}connection refused"]
    bench.set(patience_s=0.0, connect_s=0.0)
    bench.dials.wanted.append(NOBODY)
    await until(lambda: len(bench.dials.failed) == 4)
    assert [each.message for each in caplog.records][1:] == [f"{said}no connection within 0 s"]


async def test_so_many_failures_are_remembered_and_then_forgotten(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    urls = [f"tcp://127.0.0.1:{port}" for port in (1, 2, 3)]
    bench.dial(*urls, said_n=2, patience_s=0.0)
    await until(lambda: len(bench.dials.failed) == 3)
    bench.dials.wanted.append(bench.dials.failed[2][0])
    await until(lambda: len(bench.dials.failed) == 4)
    assert len(caplog.records) == 3
    bench.dials.wanted.append(bench.dials.failed[0][0])
    await until(lambda: len(bench.dials.failed) == 5)
    assert len(caplog.records) == 4


# --- the end, and all together -------------------------------------------------------------------------------------


async def test_a_dialer_that_has_stopped_dials_nobody_and_leaves_no_task(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    async with await loop.create_server(asyncio.Protocol, "127.0.0.1", 0) as server:
        bench.dial(f"tls://127.0.0.1:{port_of(server)}", source="dns+tcp://brokers:1", dial_every_s=0.0)
        assert bench.dialer is not None
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(others) == 2
        await bench.dialer.stop()
        assert all(task.done() for task in others)
    asked_n = bench.dials.asked_n
    bench.dials.wanted.append(NOBODY)
    for _ in range(10):
        await asyncio.sleep(0)
    assert (bench.dials.asked_n, bench.dials.failed) == (asked_n, [])


@pytest.mark.parametrize("scheme", ["tcp", "unix"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_dial_that_is_given_up_when_it_has_just_become_a_connection_leaves_none(
    run: Callable[[Coroutine[Any, Any, None]], None], scheme: str, tmp_path: Path
) -> None:
    """uvloop closes it and tells its protocol nothing."""

    async def give_up() -> None:
        bench = Bench()
        path = str(tmp_path / "socket")
        loop = asyncio.get_running_loop()
        async with (
            await loop.create_unix_server(asyncio.Protocol, path),
            await loop.create_server(asyncio.Protocol, "127.0.0.1", 0) as server,
        ):
            bench.dial(f"unix://{path}" if scheme == "unix" else f"{scheme}://127.0.0.1:{port_of(server)}")
            async with asyncio.timeout(10.0):
                while not bench.core.peers():
                    await asyncio.sleep(0)
            assert bench.dialer is not None
            await bench.dialer.stop()
            bench.shell.flush()
            await until(lambda: (bench.core.peers(), bench.shell.links_open()) == ([], 0))
            await bench.end()

    run(give_up())


def is_up(make: Callable[[], list[bool]]) -> Callable[[], bool]:
    """There is one link, and it is up."""
    return lambda: make() == [True]


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_two_brokers_become_a_link(make_server: MakeServer, scheme: str) -> None:
    first = await make_server(**{"cluster.secret": SECRET, "broker.name": "b1"})
    url = url_of(first, scheme)
    second = await make_server(**{"cluster.secret": SECRET, "broker.name": "b2", "cluster.peers": url})
    for server in (first, second):
        await until(is_up(lambda server=server: [link.is_up for link in server.core.cluster.links()]))  # type: ignore[misc]
    assert [link.name for link in first.core.cluster.links()] == ["b2"]
    (link,) = second.core.cluster.links()
    place = url.removeprefix(f"{scheme}://").removesuffix("/rsocket")
    assert (link.name, link.url, link.peer.name) == ("b1", url, f"{scheme} {place}")
    known = [member for member in second.core.cluster.members.values() if member.name == "b1"]
    assert known[0].info.urls == first.listeners


@pytest.mark.parametrize("scheme", ["tls", "wss"])
async def test_with_auth_tls_the_subjects_of_certificates_say_who_is_a_broker(
    authority: Authority, scheme: str
) -> None:
    environ = {
        "RSB_CLUSTER__AUTH": "tls",
        "RSB_CLUSTER__CA": str(authority.root),
        "RSB_TLS__CLIENT_CA": str(authority.root),
        "RSB_TLS__CERTIFICATE": str(authority.certificate("broker")),
        "RSB_TLS__KEY": str(authority.key("broker")),
    }
    listen = {"server.listen": ("tls://127.0.0.1:0", "wss://127.0.0.1:0/rsocket"), "admin.listen": "off"}
    servers: list[Server] = []

    async def start(principal: str, peers: str = "", name: str = "") -> Server:
        own = name or f"b{len(servers) + 1}"
        said = {"RSB_CLUSTER__PRINCIPALS": principal, "RSB_CLUSTER__PEERS": peers, "RSB_BROKER__NAME": own}
        servers.append(Server(load(None, {**environ, **said}, listen)))
        await servers[-1].start()
        return servers[-1]

    first = await start("commonName=broker")
    url = url_of(first, scheme)
    second = await start("commonName=broker", url)
    await until(is_up(lambda: [link.is_up for link in second.core.cluster.links()]))
    third = await start("commonName=somebody", url)
    await until(lambda: sum(third.core.cluster.refused.values()))
    fourth = await start("commonName=broker", url, "b9")  # the certificate is not for a broker of that name
    await until(lambda: first.core.cluster.refused.get("wrong-secret"))
    await until(lambda: not fourth.core.cluster.links())
    assert [link.is_up for link in second.core.cluster.links()] == [True]
    for server in reversed(servers):
        server.wish_stop()
        server.wish_stop()
        await server.stop()
