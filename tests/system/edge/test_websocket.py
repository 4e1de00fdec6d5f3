"""WebSocket as RFC 6455 has it, by bytes of our own: what a client must not send, and what it costs when it does."""

import asyncio
import contextlib
import logging
import os
import struct
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from broker.edge import websocket as module
from broker.edge.shell import TURN_BYTES
from broker.server import Server
from rsocket_wire.rsocket import websocket
from rsocket_wire.rsocket.frames import ERROR, KEEPALIVE, Setup, encode_keepalive
from rsocket_wire.upgrade import MAX_HEAD_BYTES
from tests.conftest import MakeServer, StartBroker
from tests.fakes import Frame, framed
from tests.rsocket_wire.rsocket.test_websocket import FIN, said
from tests.system.support.shells import FakeTransport
from tests.system.support.waits import soon, until
from tests.system.support.wires import url_of

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # of the example in RFC 6455, section 1.3
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
SETUP = Setup("a/b", "a/b", 1000, 20_000).encode()
ASK = encode_keepalive(b"ping", respond=True)


class Raw:
    """A TCP connection to a WebSocket port."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.host = host
        self.reader = reader
        self.writer = writer

    @staticmethod
    async def connect(url: str, upgrades: bool = True) -> "Raw":
        """`upgrades`: it is a WebSocket already."""
        parts = urlsplit(url)
        raw = Raw(parts.netloc, *await asyncio.open_connection(parts.hostname, parts.port))
        if upgrades:
            assert (await raw.ask())[0] == "HTTP/1.1 101 Switching Protocols"
        return raw

    def request(self, path: str = "/", line: str = "", **headers: str) -> bytes:
        """A request for a WebSocket; headers by their names with _ for -, an empty one is left out."""
        usual = {"Host": self.host, "Upgrade": "websocket", "Connection": "Upgrade"}
        usual |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY}
        usual |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [line or f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in usual.items() if value)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    async def ask(self, path: str = "/", line: str = "", **headers: str) -> list[str]:
        """The lines of the answer's head."""
        self.writer.write(self.request(path, line, **headers))
        return await self.head()

    async def head(self) -> list[str]:
        return (await soon(self.reader.readuntil(b"\r\n\r\n"))).decode().splitlines()[:-1]

    async def receive(self) -> tuple[int, bytes]:
        """Opcode and payload of the next WebSocket frame; IncompleteReadError at the end."""
        first, second = await soon(self.reader.readexactly(2))
        assert first & 0xF0 == FIN
        size = second
        if second > 125:
            size = int.from_bytes(await self.reader.readexactly(2 if second == 126 else 8), "big")
        return first & 0x0F, await soon(self.reader.readexactly(size))

    async def ending(self) -> tuple[list[str], int, bytes]:
        """Texts of the ERRORs, the code of the CLOSE, and what follows until the broker closes."""
        texts = []
        while (said := await self.receive())[0] != websocket.CLOSE:
            texts.append(Frame(said[1]).text)
        with contextlib.suppress(ConnectionError):
            return texts, int.from_bytes(said[1][:2], "big"), await soon(self.reader.read())
        return texts, int.from_bytes(said[1][:2], "big"), b""

    def abort(self) -> None:
        self.writer.transport.abort()


@pytest.fixture(autouse=True)
def short_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here answers a CLOSE, and those that the broker waits for are not waited for long."""
    monkeypatch.setattr(module, "GOODBYE_S", 0.02)


@pytest.fixture
async def url(server: Server) -> str:
    return url_of(server, "ws")


@pytest.fixture
async def raw(url: str) -> AsyncIterator[Raw]:
    """A WebSocket that has said nothing."""
    made = await Raw.connect(url)
    yield made
    made.abort()


@pytest.fixture
async def peer(raw: Raw) -> Raw:
    """A WebSocket whose SETUP was taken."""
    raw.writer.write(said(websocket.BINARY, SETUP) + said(websocket.BINARY, ASK))
    assert Frame((await raw.receive())[1]).kind == KEEPALIVE
    return raw


# --- the opening


@pytest.mark.parametrize(
    ("headers", "answered"),
    [
        pytest.param({}, {}, id="what the RFC says"),
        pytest.param({"Sec_WebSocket_Protocol": "rsocket"}, {"sec-websocket-protocol": "rsocket"}, id="rsocket"),
        pytest.param({"Sec_WebSocket_Protocol": "chat, rsocket"}, {"sec-websocket-protocol": "rsocket"}, id="or chat"),
        pytest.param({"Sec_WebSocket_Protocol": "chat"}, {}, id="no subprotocol but ours is confirmed"),
        pytest.param({"Sec_WebSocket_Extensions": "permessage-deflate"}, {}, id="no extension is agreed on"),
        pytest.param({"Connection": "keep-alive, Upgrade"}, {}, id="what Firefox says"),
    ],
)
async def test_the_answer_is_that_of_the_rfc_and_tells_nothing_of_the_server(
    url: str, headers: dict[str, str], answered: dict[str, str]
) -> None:
    raw = await Raw.connect(url, upgrades=False)
    lines = await raw.ask(**headers)
    assert lines[0] == "HTTP/1.1 101 Switching Protocols"
    names = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    assert names.pop("date")
    assert names == {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-accept": ACCEPT, **answered}
    raw.abort()


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET / HTTP/1.0", {}, "505 HTTP Version Not Supported"),
        ("GET / HTTP/0.9", {}, "400 Bad Request"),
        ("HELLO", {}, "400 Bad Request"),
        ("", {"X": "one\r\n two"}, "400 Bad Request"),
        ("", {"X Y": "1"}, "400 Bad Request"),
        ("", {"Transfer-Encoding": "chunked"}, "400 Bad Request"),
        ("", {"Content-Length": "5"}, "400 Bad Request"),
        ("", {"Upgrade": ""}, "426 Upgrade Required"),
        ("", {"Connection": "close"}, "426 Upgrade Required"),
        ("", {"Sec-WebSocket-Version": "8"}, "400 Bad Request"),
        ("", {"Sec-WebSocket-Key": "short"}, "400 Bad Request"),
        ("", {"Sec-WebSocket-Key": ""}, "400 Bad Request"),
        ("", {"X": "y" * 9000}, "400 Bad Request"),
    ],
)
async def test_what_is_no_request_for_a_websocket_is_refused_in_one_line(
    url: str, line: str, headers: dict[str, str], status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    raw = await Raw.connect(url, upgrades=False)
    lines = await raw.ask(line=line, **headers)
    assert lines[0] == f"HTTP/1.1 {status}"
    assert "Connection: close" in lines
    assert not [each for each in lines if each.startswith("Server:")]
    await soon(raw.reader.read())
    (record,) = [each for each in caplog.records if each.name == module.__name__]
    assert record.message.startswith(f"connection ws {raw.writer.get_extra_info('sockname')[0]}:")
    assert (record.levelno, record.exc_info) == (logging.INFO, None)


@pytest.mark.parametrize("extra", [0, 1])
async def test_a_request_has_a_bound(url: str, extra: int) -> None:
    raw = await Raw.connect(url, upgrades=False)
    begin = b"GET / HTTP/1.1\r\n"
    raw.writer.write(begin + b"X: y\r\n" * ((MAX_HEAD_BYTES - len(begin)) // 6 + extra))
    if extra:
        assert (await raw.head())[0] == "HTTP/1.1 431 Request Header Fields Too Large"
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(raw.reader.read(1), 0.05)
    raw.abort()


async def test_a_request_may_come_in_pieces_and_frames_behind_it_in_one(url: str) -> None:
    raw = await Raw.connect(url, upgrades=False)
    whole = raw.request()
    for at in range(len(whole) - 1):
        raw.writer.write(whole[at : at + 1])
        await asyncio.sleep(0)
    raw.writer.write(whole[-1:] + said(websocket.BINARY, SETUP) + said(websocket.BINARY, ASK))
    assert (await raw.head())[0] == "HTTP/1.1 101 Switching Protocols"
    assert Frame((await raw.receive())[1]).kind == KEEPALIVE
    raw.abort()


async def test_a_listener_with_a_path_serves_no_other(start_broker: StartBroker) -> None:
    broker = start_broker("--listen", "ws://127.0.0.1:0/rsocket")
    for path, status in (("/rsocket", "101"), ("/rsocket?token=1", "101"), ("/", "404"), ("/rsocket/more", "404")):
        raw = await Raw.connect(broker.url("ws"), upgrades=False)
        assert (await raw.ask(path))[0].split()[1] == status
        raw.abort()


# --- pages


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("", "", "101"),
        ("", "evil.example:7879", "421"),
        ("", "evil", "421"),
        ("", "Broker.shop.example:7879", "101"),
        ("http://{host}", "", "101"),
        ("http://localhost:1", "localhost:1", "101"),
        ("https://shop.example", "", "101"),
        ("https://shop.example", "evil.example", "421"),
        ("http://broker.shop.example:7879", "broker.shop.example:7879", "101"),
        ("http://evil.example", "", "403"),
        ("http://evil.example:7879", "evil.example:7879", "421"),
        ("http://127.0.0.1:1", "", "403"),
        ("null", "", "403"),
    ],
)
async def test_pages_of_other_sites_get_no_websocket(
    make_server: MakeServer, origin: str, host: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = await make_server(**{"server.origins": "https://shop.example", "server.names": "broker.shop.example"})
    raw = await Raw.connect(url_of(server, "ws"), upgrades=False)
    asked = {"Origin": origin.format(host=raw.host), "Host": host or raw.host}
    assert (await raw.ask(**asked))[0].split()[1] == status
    said_now = [each.message.partition(": ")[2] for each in caplog.records if each.name == module.__name__]
    texts = {
        "403": [f"no WebSocket: a page of {origin} at {asked['Host']}: server.origins can hold it"],
        "421": [f"no WebSocket: {asked['Host']} is not a name of this broker; add it to server.names"],
    }
    assert said_now == texts.get(status, [])
    raw.abort()


async def test_who_speaks_no_http_is_told_at_once(url: str) -> None:
    for first, came in ((bytes.fromhex("160301 0200 01"), "TLS"), (framed(bytes(6)), "what came")):
        raw = await Raw.connect(url, upgrades=False)
        raw.writer.write(first)
        assert (await raw.head())[0] == "HTTP/1.1 400 Bad Request"
        assert f"and {came} is no HTTP: use ws://" in (await raw.reader.read()).decode()
        raw.abort()


@pytest.mark.parametrize("hosts", [[], ["{host}", "{host}"], ["{host}", "evil.example"]])
async def test_a_request_says_once_for_which_host_it_is(url: str, hosts: list[str]) -> None:
    """RFC 9112, section 3.2."""
    raw = await Raw.connect(url, upgrades=False)
    lines = "".join(f"Host: {host}\r\n" for host in hosts).format(host=raw.host)
    raw.writer.write(raw.request(Host="").replace(b"\r\n", b"\r\n" + lines.encode(), 1))
    assert (await raw.head())[0] == "HTTP/1.1 400 Bad Request"
    raw.abort()


# --- messages


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        (said(websocket.BINARY, ASK, key=None), websocket.PROTOCOL_ERROR, "a WebSocket frame that is not masked"),
        (said(websocket.TEXT, b"\xff"), websocket.UNSUPPORTED_DATA, "a text message: a frame is a binary message"),
        (b"\x82\xff" + bytes([1] * 8), websocket.TOO_BIG, "a frame of 72340172838076673 bytes, the limit is 16777215"),
        (
            said(websocket.CLOSE, b"\x03\xe8\xff"),
            websocket.INVALID_DATA,
            "a WebSocket CLOSE with a reason that is no UTF-8",
        ),
    ],
)
async def test_what_a_client_must_not_send_ends_the_connection(peer: Raw, sent: bytes, code: int, text: str) -> None:
    """Of each code one: `tests/rsocket_wire/rsocket/test_websocket.py` has them all."""
    peer.writer.write(sent + said(websocket.BINARY, ASK))
    assert await peer.ending() == ([f"bad-frame: {text}"], code, b"")


async def test_messages_before_a_fault_are_answered(peer: Raw, server: Server) -> None:
    """More of them than are worked off in a turn."""
    server.shell.turn_s = 0.0
    peer.writer.write(said(websocket.BINARY, ASK) * 90 + said(websocket.TEXT, b"x"))
    kinds = []
    while (heard := await peer.receive())[0] != websocket.CLOSE:
        kinds.append(Frame(heard[1]).kind)
    assert kinds == [KEEPALIVE] * 90 + [ERROR]


async def test_what_an_attacker_sends_before_the_setup_ends_the_connection_too(raw: Raw) -> None:
    raw.writer.write(said(websocket.BINARY, SETUP, key=None))
    assert await raw.ending() == (["bad-frame: a WebSocket frame that is not masked"], websocket.PROTOCOL_ERROR, b"")


async def test_a_setup_in_pieces_has_the_bound_of_a_setup(raw: Raw) -> None:
    raw.writer.write(said(websocket.BINARY, bytes(100_000), 0) + said(websocket.CONTINUATION, bytes(100_000), 0) * 10)
    texts, code, _ = await raw.ending()
    assert (code, [text.split(" bytes or more")[1] for text in texts]) == (websocket.TOO_BIG, [", the limit is 262144"])


async def test_pieces_of_a_byte_with_pings_between_are_one_frame(peer: Raw) -> None:
    pieces = [
        said(websocket.BINARY if at == 0 else websocket.CONTINUATION, ASK[at : at + 1], 0) for at in range(len(ASK))
    ]
    peer.writer.write(said(websocket.PING, b"?").join(pieces) + said(websocket.CONTINUATION))
    kinds = [await peer.receive() for _ in range(2)]
    assert sorted(kind for kind, _ in kinds) == [websocket.BINARY, websocket.PONG]
    assert (websocket.PONG, b"?") in kinds


async def test_of_many_pings_the_latest_is_answered(peer: Raw) -> None:
    peer.writer.write(b"".join(said(websocket.PING, b"%d" % at) for at in range(1000)) + said(websocket.BINARY, ASK))
    pongs: list[bytes] = []
    kinds: set[int] = set()
    while b"999" not in pongs or websocket.BINARY not in kinds:
        kind, payload = await peer.receive()
        kinds.add(kind)
        pongs += [payload] if kind == websocket.PONG else []
    assert len(pongs) < 10


async def test_pieces_of_messages_count_to_what_waits_in_the_broker(make_server: MakeServer) -> None:
    """As half a frame over TCP does."""
    server = await make_server(**{"limits.max_buffered_bytes": 1 << 20})
    url = url_of(server, "ws")
    raws = [await Raw.connect(url) for _ in range(3)]
    for raw in raws:
        raw.writer.write(said(websocket.BINARY, SETUP) + said(websocket.BINARY, bytes(400_000), 0))
    ended, *_ = await soon(
        asyncio.wait([asyncio.create_task(raw.ending()) for raw in raws], return_when="FIRST_COMPLETED")
    )
    (texts, code, _), *others = [task.result() for task in ended]
    assert (texts[0][:12], code, others) == ("over-limit: ", websocket.NORMAL, [])
    await until(lambda: server.core.lifecycle.limits.buffered_bytes == 800_000)
    assert server.core.lifecycle.limits.closed.by_reason == {"over-limit": 1}
    for raw in raws:
        raw.abort()
    await until(lambda: not server.core.peers())


async def test_of_an_ended_peer_no_piece_of_a_message_is_kept(server: Server) -> None:
    transport = FakeTransport()
    link = module.WebSocketLink(server.shell, transport, is_from_client=True)
    link.begin("ws", "", b"")
    (peer,) = server.core.peers()
    link.data_received(said(websocket.BINARY, SETUP) + said(websocket.BINARY, bytes(1000), 0))
    assert peer.buffered_bytes - peer.pending_bytes == 1000
    server.core.end(peer, "over-limit", "enough", 0.0)
    server.shell.flush()
    assert peer.message_bytes == 0
    link.data_received(said(websocket.CONTINUATION, bytes(1000), 0))
    assert peer.message_bytes == 0
    link.connection_lost(None)


async def test_pings_are_not_answered_while_the_other_end_takes_nothing(server: Server) -> None:
    transport = FakeTransport()
    link = module.WebSocketLink(server.shell, transport, is_from_client=True)
    link.begin("ws", "", b"")
    link.data_received(said(websocket.PING, b"one"))
    link.pause_writing()
    for said_now in (b"two", b"three"):
        link.data_received(said(websocket.PING, said_now))
    assert transport.written == [said(websocket.PONG, b"one", key=None)]
    link.resume_writing()
    assert transport.written[1:] == [said(websocket.PONG, b"three", key=None)]
    link.connection_lost(None)


@pytest.mark.parametrize("count", [10, 70_000])
async def test_a_flood_of_what_are_no_frames_is_read_on_in_the_next_turn(server: Server, count: int) -> None:
    transport = FakeTransport()
    link = module.WebSocketLink(server.shell, transport, is_from_client=True)
    link.begin("ws", "", b"")
    link.data_received(said(websocket.PING) * count)
    assert transport.is_paused == (len(said(websocket.PING)) * count >= TURN_BYTES)
    await until(lambda: not transport.is_paused)
    link.connection_lost(None)


async def test_a_close_is_answered_with_its_code_and_the_connection_closes(server: Server, peer: Raw) -> None:
    peer.writer.write(said(websocket.CLOSE, struct.pack(">H", 3000) + b"enough"))
    assert await peer.ending() == ([], 3000, b"")
    await until(lambda: not server.core.peers())


async def test_who_does_not_answer_a_close_is_waited_for_and_then_closed(server: Server, raw: Raw) -> None:
    raw.writer.write(said(websocket.BINARY, b"rubbish"))
    texts, code, rest = await raw.ending()
    assert (len(texts), code, rest) == (1, websocket.NORMAL, b"")
    await until(lambda: server.shell.links_open() == 0)


async def test_a_connection_that_breaks_off_anywhere_leaves_nothing(
    server: Server, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw = await Raw.connect(url, upgrades=False)
    whole = raw.request() + said(websocket.BINARY, SETUP) + said(websocket.PING, b"x") + said(websocket.BINARY, ASK)
    raw.abort()
    for at in range(0, len(whole), 3):
        raw = await Raw.connect(url, upgrades=False)
        raw.writer.write(whole[:at])
        await raw.writer.drain()
        raw.abort()
    await until(lambda: server.shell.links_open() == 0)
    assert not [each for each in caplog.records if each.exc_info]


async def test_strangers_leave_no_traceback_in_the_log_of_a_process(start_broker: StartBroker) -> None:
    broker = start_broker()
    seed = websocket.MessageWriter(os.urandom(websocket.SEED_BYTES))
    for sent in (
        b"\x16\x03\x01\0\xf4\x01\0",
        b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"\r\n\r\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Key: \xe9\r\n\r\n",
        os.urandom(3000),
    ):
        raw = await Raw.connect(broker.url("ws"), upgrades=False)
        raw.writer.write(sent)
        raw.writer.write_eof()
        with contextlib.suppress(ConnectionError):
            await soon(raw.reader.read())
        raw.abort()
    for sent in (os.urandom(3000), seed.encode(b"\0\0\x05hello"), said(websocket.PING, b"x" * 126)):
        raw = await Raw.connect(broker.url("ws"))
        raw.writer.write(sent)
        raw.writer.write_eof()
        with contextlib.suppress(ConnectionError):
            await soon(raw.reader.read())
        raw.abort()
    last = await Raw.connect(broker.url("ws"))
    last.abort()
    assert "Traceback" not in broker.errors
