"""Every URL scheme, and the ends of WebSockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SERVER, Protocol
from websockets.utils import accept_key

from client_sdk import ConnectionLost, connect
from client_sdk.io.dial import Target, dial
from client_sdk.io.websocket import WebSocketTransport
from rsocket_wire.rsocket.websocket import BINARY, CLOSE, PING
from rsocket_wire.upgrade import MAX_HEAD_BYTES
from tests.client_sdk.fake_broker import FakeBroker
from tests.rsocket_wire.rsocket.test_websocket import said

# A key and a certificate for "localhost" that nothing else uses, valid until 2126.
CERTIFICATE = Path(__file__).parents[1] / "localhost.pem"


async def test_server_that_is_no_websocket_surfaces_from_connect(broker: FakeBroker) -> None:
    with pytest.raises(ConnectionLost):
        await connect(broker.url.replace("tcp:", "ws:"), connect_timeout_s=0.2)


@pytest.mark.parametrize(
    "url",
    [
        "tcp://ada:secret@host:port",
        "amqp://ada:secret@host",
        "ada:secret@host",
        "wss://ada:sec/ret@host/path",
        "ws://a@h",
        "tcp://ada:123/sec@host",
        "tls://ada:123/sec@host:7878",
        "ada:123/sec@host",
        "ws://ada:123/sec@host:7879/path",
        "wss://ada:654321/sec@host",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match=r"^a URL holds no user and no password; write ") as caught:
        Target(url)
    assert "sec" not in str(caught.value)


@pytest.mark.parametrize("url", ["ws://host:7879/to@all", "ws://[::1]/to@all", "wss://host/a:b@c", "unix:///tmp/a:b@c"])
def test_a_path_may_have_what_looks_like_a_user(url: str) -> None:
    assert Target(url).url == url


class Listening:
    """The receiver of a link."""

    def __init__(self) -> None:
        self.data = b""
        self.ends: list[OSError | None] = []

    def receive(self, data: bytes) -> None:
        self.data += data

    def lost(self, error: OSError | None) -> None:
        self.ends.append(error)

    def pause(self) -> None:
        """Nothing is written here."""

    def go_on(self) -> None:
        """Nothing is written here."""


class RawServer:
    """Answers the request for a WebSocket with these bytes, then says more; what it hears is kept."""

    def __init__(self, answer: bytes, more: bytes = b"") -> None:
        self.answer = answer
        self.more = more
        self.heard = b""
        self.is_over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = head.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0].decode()
        writer.write(self.answer.replace(b"ACCEPT", accept_key(key).encode()) + self.more)
        with contextlib.suppress(ConnectionError):
            self.heard = await reader.read()
        writer.close()
        self.is_over.set()


ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: ACCEPT\r\n\r\n"
)


@contextlib.asynccontextmanager
async def raw_server(answer: bytes, more: bytes = b"") -> AsyncIterator[tuple[RawServer, Target]]:
    raw = RawServer(answer, more)
    async with await asyncio.start_server(raw.serve, "127.0.0.1", 0) as server:
        yield raw, Target(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/rsocket")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK",
            "the answer is HTTP/1.1 200 OK; this is a web server, perhaps the REST API of a broker: "
            "use its port of ws://, 7879 by default",
        ),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "the answer is HTTP/1.1 403 Forbidden"),
        (b"HTTP/1.1 429 Only 200 a day\r\nContent-Length: 2\r\n\r\nno", "the answer is HTTP/1.1 429 Only 200 a day"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "server rejected WebSocket connection: HTTP 204"),
        (ACCEPTED.replace(b"ACCEPT", b"x"), "invalid Sec-WebSocket-Accept header: x"),
        (ACCEPTED.replace(b"Upgrade: websocket", b"Upgrade: h2c"), "invalid Upgrade header: h2c"),
        (b"HTTP/1.1 101 Yes\r\nX: " + bytes(MAX_HEAD_BYTES), f"an answer of more than {MAX_HEAD_BYTES} bytes"),
    ],
)
async def test_an_answer_that_is_no_websocket_surfaces(answer: bytes, text: str) -> None:
    async with raw_server(answer) as (raw, target):
        with pytest.raises(ConnectionError) as caught:
            await dial(target, None)
        assert str(caught.value) == f"WebSocket: {text}"
        await raw.is_over.wait()


async def opened(target: Target) -> tuple[WebSocketTransport, Listening]:
    link = await dial(target, None)
    assert isinstance(link, WebSocketTransport)
    receiver = Listening()
    link.start(receiver)
    return link, receiver


async def test_what_comes_behind_the_answer_is_not_lost_and_pings_are_answered() -> None:
    async with raw_server(ACCEPTED, said(BINARY, b"first", key=None) + said(PING, b"?", key=None)) as (raw, target):
        link, receiver = await opened(target)
        assert receiver.data == b"\0\0\x05first"
        await link.close()
        await raw.is_over.wait()
    assert [(frame.opcode, frame.data) for frame in frames_of(raw.heard)] == [
        (Opcode.PONG, b"?"),
        (Opcode.CLOSE, b"\x03\xe8"),
    ]
    assert receiver.ends == [None]


@pytest.mark.parametrize(
    ("more", "text", "code"),
    [
        (said(BINARY, b"x"), "a WebSocket frame that is masked", 1002),
        (said(0x3, b"x", key=None), "a WebSocket frame that begins with 0x83", 1002),
        (b"\x82\x7f" + (1 << 24).to_bytes(8, "big"), "a frame of 16777216 bytes, the limit is 16777215", 1009),
    ],
)
async def test_what_a_server_must_not_send_ends_the_connection(more: bytes, text: str, code: int) -> None:
    async with raw_server(ACCEPTED, more) as (raw, target):
        _, receiver = await opened(target)
        await raw.is_over.wait()
    assert [str(end) for end in receiver.ends] == [f"WebSocket: the other side sent {text}"]
    (close,) = frames_of(raw.heard)
    assert close.data == code.to_bytes(2, "big")


async def test_the_servers_close_is_answered() -> None:
    async with raw_server(ACCEPTED, said(CLOSE, b"\x0f\xa0over", key=None)) as (raw, target):
        _, receiver = await opened(target)
        await raw.is_over.wait()
    assert receiver.ends == [None]
    (close,) = frames_of(raw.heard)
    assert close.data == b"\x0f\xa0"


def frames_of(heard: bytes) -> list[Frame]:
    """What a client has said, as the library reads it."""
    protocol = Protocol(side=SERVER, state=OPEN)
    protocol.receive_data(heard)
    return [each for each in protocol.events_received() if isinstance(each, Frame)]


async def test_tls_carries_calls_and_a_stranger_is_not_trusted(no_leaked_tasks: None) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    fake = await FakeBroker().start(ssl=context)
    url = fake.url.replace("tcp://127.0.0.1", "tls://localhost")
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    async with connect(url, ssl=trusting) as client:
        assert client.is_connected
    with pytest.raises(ConnectionLost, match="the certificate is not trusted"):
        await connect(url)
    await fake.stop()
