"""broker.edge.frames.log and text: which frames are logged, what their lines show, and what they never show."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.access.identities import Proof
from broker.config.load import load
from broker.config.sections.process import LogOptions
from broker.core import Core, CoreSettings
from broker.edge.frames.log import LINES_PER_S, FrameLog, LoggedLink
from broker.edge.frames.shell import FrameLoggingShell
from broker.edge.frames.text import LINE_CHARS, RECEIVED, SeenFrame
from broker.edge.origins import Origin
from broker.edge.shell import Shell
from broker.forwarding.peer import Peer
from broker.routing.rng import Rng
from broker.server import Server
from rsocket_wire.errors import APPLICATION_ERROR
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import NEXT, REQUEST_RESPONSE, Resume, encode_cancel, encode_payload, encode_request
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, Address, RouteSetup
from tests.fakes import START_MS, address, addressed, composite, framed, route_id, tags_of
from tests.system.support.shells import STUCK_S, FakeLink, FakeLoop
from tests.system.support.wires import Wire

LOGGER = "broker.edge.frames.log"
SECRET = b"hunter2-is-the-password"
ORDERS = addressed(address(service="orders", Region="eu"))


def setup(service: str = "", number: int = 1) -> bytes:
    metadata = None
    if service:
        offer = RouteSetup(route_id(number), service, tags_of({"Region": "eu"}))
        metadata = composite((MIME_TYPE, offer.encode()))
    return frames.Setup(COMPOSITE_MIME, "text/plain", 20_000, 60_000, metadata, SECRET).encode()


class Traced:
    """A broker whose shell logs the frames of what is chosen, and two connections."""

    def __init__(self, *chosen: str) -> None:
        self.loop = FakeLoop()
        core = Core(CoreSettings(), route_id(0xB1), Rng(1), 0.0, START_MS)
        self.now = 0.0
        self.log = FrameLog(chosen, lambda: self.now)
        self.shell = FrameLoggingShell(self.log, core, STUCK_S, lambda events: None, self.loop)
        self.caller = self.connect("tcp 10.0.0.4:5123", Origin("10.0.0.4", Proof("certificate:CN=caller")))
        self.service = self.connect("ws 10.0.0.5:4321", Origin("10.0.0.5"))
        self.send(self.caller, setup())
        self.send(self.service, setup("orders"))

    def connect(self, name: str, origin: Origin) -> Peer:
        return self.shell.connected(name, True, FakeLink(), origin)

    def send(self, peer: Peer, *raws: bytes) -> None:
        self.shell.received(peer, framed(*raws))
        for _ in range(3):
            self.loop.turn()
        self.shell.flush()

    def call(self) -> None:
        """A request to orders, and its answer; each with a secret as payload."""
        self.send(self.caller, encode_request(REQUEST_RESPONSE, 1, SECRET, ORDERS))
        self.send(self.service, encode_payload(2, NEXT | frames.COMPLETE, SECRET, SECRET))


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.levelno == logging.DEBUG for record in caplog.records if record.name == LOGGER)
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def line_of(raw: bytes, mime: str = COMPOSITE_MIME) -> str:
    cursor = FrameCursor(True)
    cursor.feed(framed(raw), 0.0)
    assert cursor.advance()
    return str(SeenFrame(RECEIVED, cursor, mime))


async def test_frames_of_a_connection_are_shown_both_ways_without_payload(caplog: pytest.LogCaptureFixture) -> None:
    traced = Traced("10.0.0.4")
    traced.call()
    lines = [line.removeprefix("peer tcp 10.0.0.4:5123: ") for line in lines_of(caplog)]
    assert lines == [
        "< SETUP stream 0, keepalive 20000 ms, lifetime 60000 ms, mime types "
        "message/x.rsocket.composite-metadata.v0 text/plain, data 23 B",
        f"< REQUEST_RESPONSE stream 1, metadata {len(ORDERS)} B, data 23 B, ADDRESS service=orders region=eu",
        "> PAYLOAD stream 1 NEXT COMPLETE, metadata 23 B, data 23 B",
    ]
    assert SECRET.decode() not in caplog.text


async def test_frames_of_a_service_are_those_of_its_connections_and_of_requests_to_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    traced = Traced("orders")
    other = traced.connect("tcp 10.0.0.6:1", Origin("10.0.0.6"))
    traced.send(other, setup("billing", 2))
    traced.send(traced.caller, encode_request(REQUEST_RESPONSE, 3, b"", addressed(address(service="billing"))))
    traced.send(traced.caller, frames.encode_keepalive(b"", respond=True))
    traced.call()
    shown = [line.partition(", ")[0] for line in lines_of(caplog)]
    assert shown == [
        "peer ws 10.0.0.5:4321: < SETUP stream 0",
        "peer tcp 10.0.0.4:5123: < REQUEST_RESPONSE stream 1",
        "peer ws 10.0.0.5:4321: > REQUEST_RESPONSE stream 2",
        "peer ws 10.0.0.5:4321: < PAYLOAD stream 2 NEXT COMPLETE",
        "peer tcp 10.0.0.4:5123: > PAYLOAD stream 1 NEXT COMPLETE",
    ]


@pytest.mark.parametrize(
    ("request_frame", "then", "shown_n"),
    [
        (encode_request(REQUEST_RESPONSE, 1, b"", ORDERS), encode_cancel(1), 2),
        (encode_request(frames.REQUEST_STREAM, 1, b"", ORDERS, 1), encode_cancel(1), 2),
        (encode_request(frames.REQUEST_FNF, 1, b"", ORDERS), encode_cancel(1), 1),  # the stream ended with its request
        (encode_request(frames.REQUEST_FNF, 1, b"", ORDERS, flags=frames.FOLLOWS), encode_payload(1, NEXT, b""), 2),
        (encode_request(frames.REQUEST_CHANNEL, 1, b"", ORDERS, 1), encode_payload(1, frames.COMPLETE), 2),
    ],
)
async def test_a_request_to_a_service_is_shown_to_its_end(
    caplog: pytest.LogCaptureFixture, request_frame: bytes, then: bytes, shown_n: int
) -> None:
    link = LoggedLink(FakeLink(), "tcp 10.0.0.4:1", Origin(), FrameLog(["orders"]))
    link.received(framed(request_frame) + framed(then))
    assert len(lines_of(caplog)) == shown_n
    link.received(framed(frames.encode_request_n(3, 1)))
    assert len(lines_of(caplog)) == shown_n


async def test_a_channel_is_shown_until_both_directions_have_ended(caplog: pytest.LogCaptureFixture) -> None:
    link = LoggedLink(FakeLink(), "tcp 10.0.0.4:1", Origin(), FrameLog(["orders"]))
    link.received(framed(encode_request(frames.REQUEST_CHANNEL, 1, b"", ORDERS, 1, frames.COMPLETE)))
    link.write(
        [framed(encode_payload(1, NEXT)), framed(encode_payload(1, frames.COMPLETE)), framed(encode_payload(1, NEXT))]
    )
    assert [line.partition(": ")[2][:1] for line in lines_of(caplog)] == ["<", ">", ">"]


@pytest.mark.parametrize("name", ["*", "tcp 10.0.0.4:5123", "10.0.0.4:5123", "10.0.0.4", "certificate:CN=caller"])
def test_a_connection_is_chosen_by_name_address_or_principal(name: str) -> None:
    log = FrameLog(["else", name])
    assert log.is_chosen("tcp 10.0.0.4:5123", Origin("10.0.0.4", Proof("certificate:CN=caller")))
    assert log.is_chosen("tcp 10.0.0.5:1", Origin("10.0.0.5")) == (name == "*")


def test_an_ipv6_address_is_written_with_or_without_brackets() -> None:
    for name in ("2001:db8::1", "[2001:db8::1]", "2001:db8::/64"):
        assert FrameLog([name]).is_chosen("tcp [2001:db8::1]:1", Origin("2001:db8::/64"))


async def test_frames_in_pieces_are_shown_once_they_are_whole(caplog: pytest.LogCaptureFixture) -> None:
    """As TCP cuts them, and as the core gives large output: content apart from its head, as a view."""
    link = LoggedLink(under := FakeLink(), "ws 10.0.0.4:1", Origin(), FrameLog(["*"]))
    raw = framed(encode_payload(1, NEXT | frames.FOLLOWS, bytes(1000)))
    for at in range(0, len(raw), 100):
        link.received(raw[at : at + 100])
    link.write([raw[:12], memoryview(raw)[12:]])
    link.write([raw + raw])
    assert lines_of(caplog) == [
        "peer ws 10.0.0.4:1: < PAYLOAD stream 1 FOLLOWS NEXT, data 1000 B",
        *["peer ws 10.0.0.4:1: > PAYLOAD stream 1 FOLLOWS NEXT, data 1000 B"] * 3,
    ]
    assert b"".join(under.written) == raw * 3


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (frames.encode_keepalive(b"abc", respond=True), "< KEEPALIVE stream 0 RESPOND, data 3 B"),
        (frames.encode_request_n(5, 7), "< REQUEST_N stream 5, n 7, 10 B"),
        (encode_cancel(5), "< CANCEL stream 5, 6 B"),
        (frames.encode_error(5, APPLICATION_ERROR, "password wrong"), "< ERROR stream 5, APPLICATION_ERROR, data 14 B"),
        (frames.encode_error(5, 0x301, ""), "< ERROR stream 5, code 0x301, data 0 B"),
        (frames.encode_lease(3000, 9), "< LEASE stream 0, 9 requests within 3000 ms, 14 B"),
        (
            frames.encode_metadata_push(composite((MIME_TYPE, RouteSetup(route_id(1), "a\nb", []).encode()))),
            "< METADATA_PUSH stream 0, metadata 58 B, 64 B, ROUTE_SETUP a\\nb",
        ),
        (
            encode_request(frames.REQUEST_STREAM, 3, b"", address(service="orders"), 8),
            "< REQUEST_STREAM stream 3, n 8, metadata 30 B, data 0 B, ADDRESS service=orders",
        ),
        (bytes(4) + bytes([0x3F << 2 | frames.IGNORE >> 8, 0]), "< EXT stream 0 IGNORE, 6 B"),
        (bytes(4) + bytes([0x2A << 2, 0]), "< type 0x2a stream 0, 6 B"),
        (encode_request(REQUEST_RESPONSE, 1, b"", b"abc")[:-1], "< REQUEST_RESPONSE stream 1, 11 B"),
        (setup()[:12], "< SETUP stream 0, 12 B"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_the_line_of_a_frame(raw: bytes, line: str) -> None:
    mime = MIME_TYPE if "n 8" in line else COMPOSITE_MIME
    assert line_of(raw, mime) == line


def test_a_line_is_bounded_whatever_a_peer_sends() -> None:
    tags: dict[str, str | None] = {f"{number:03}{'k' * 100}": "v" * 127 for number in range(100)}
    line = line_of(encode_request(REQUEST_RESPONSE, 1, b"", addressed(Address(route_id(1), tags_of(tags)).encode())))
    assert len(line) <= LINE_CHARS
    assert "\n" not in line


def test_a_resume_token_is_not_shown() -> None:
    raw = frames.Setup("a/b", "a/b", 1, 2, wants_lease=True, wants_resume=True, token=SECRET).encode()
    assert line_of(raw) == "< SETUP stream 0 RESUME LEASE, keepalive 1 ms, lifetime 2 ms, mime types a/b a/b, data 0 B"
    assert line_of(Resume(SECRET, 0, 0).encode()) == f"< RESUME stream 0, {len(Resume(SECRET, 0, 0).encode())} B"


async def test_a_connection_gets_so_many_lines_in_a_second_and_a_number_for_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    log = FrameLog(["*"], lambda: now)
    link = LoggedLink(FakeLink(), "tcp 10.0.0.4:1", Origin(), log)
    link.received(framed(encode_cancel(1)) * (LINES_PER_S + 7))
    assert len(lines_of(caplog)) == LINES_PER_S
    log.flush()
    assert lines_of(caplog)[LINES_PER_S:] == ["tcp 10.0.0.4:1: 7 more like it within a second: Frames"]


async def test_a_resumed_peer_is_shown_by_the_connection_that_it_has_now(caplog: pytest.LogCaptureFixture) -> None:
    link = LoggedLink(under := FakeLink(), "tcp 10.0.0.4:1", Origin(), FrameLog(["*"]))
    link.serve(None)
    link.pause()
    link.resume()
    link.end()
    assert (link.pending_bytes(), link.unconfirmed_bytes(), under.served) == (0, 0, [None])
    link.close()
    link.abort()
    assert (under.is_closed, under.is_aborted) == (True, True)


@contextlib.asynccontextmanager
async def serving(environ: dict[str, str]) -> AsyncIterator[Server]:
    server = Server(load(None, environ, {}))
    await server.start()
    try:
        yield server
    finally:
        server.wish_stop()
        server.wish_stop()  # at once
        await server.stop()


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_frames_are_shown_whatever_transport_they_come_by(caplog: pytest.LogCaptureFixture, scheme: str) -> None:
    environ = {"RSB_SERVER__LISTEN": f"{scheme}://127.0.0.1:0", "RSB_LOG__FRAMES": "orders"}
    async with serving(environ) as server:
        service = await Wire.service(server.listeners[0], "orders", 1)
        echo = asyncio.create_task(service.echo())
        caller = await Wire.caller(server.listeners[0])
        assert (await caller.ask("orders", SECRET)).data == SECRET
        await caller.close()
        echo.cancel()
        await service.close()
    lines = [line for line in lines_of(caplog) if "KEEPALIVE" not in line]
    assert {line.split()[1] for line in lines} == {scheme}
    assert [line.partition(", ")[0].split(": ")[1] for line in lines][:5] == [
        "< SETUP stream 0",
        "< REQUEST_RESPONSE stream 1",
        "> REQUEST_RESPONSE stream 2",
        "< PAYLOAD stream 2 NEXT COMPLETE",
        "> PAYLOAD stream 1 NEXT COMPLETE",
    ]
    assert SECRET.decode() not in caplog.text


async def test_a_broker_that_logs_no_frames_has_nothing_in_the_way(tmp_path: Path) -> None:
    """Switched off it costs nothing: neither shell nor links are others than without it."""
    listen = {"RSB_SERVER__LISTEN": f"unix://{tmp_path}/a"}
    async with serving(listen) as server:
        assert type(server.shell) is Shell
        assert server.config.log == LogOptions()
    async with serving({**listen, "RSB_LOG__FRAMES": "orders, 10.0.0.4"}) as server:
        assert type(server.shell) is FrameLoggingShell
        assert server.config.log == LogOptions(frames=("orders", "10.0.0.4"))
