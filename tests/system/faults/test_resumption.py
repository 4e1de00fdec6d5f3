"""Connections that survive a broken socket, on real ones of any kind, however they broke."""

import asyncio
from urllib.parse import urlsplit

import pytest

from broker.server import Server
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from tests.conftest import MakeServer
from tests.fakes import Frame, composite, route_id
from tests.system.support.relay import Relay
from tests.system.support.waits import until
from tests.system.support.wires import Wire, url_of

# From a Unix socket, which tells whose process it is, only to another one.
PAIRS = [("tcp", "tcp"), ("tcp", "ws"), ("tcp", "unix"), ("ws", "tcp"), ("ws", "ws"), ("unix", "unix")]


def setup(token: bytes, service: str = "", number: int = 0, lifetime_ms: int = 90_000) -> bytes:
    metadata = composite((MIME_TYPE, RouteSetup(route_id(number), service, []).encode())) if service else None
    keepalive_ms = min(20_000, lifetime_ms)
    return frames.Setup(
        COMPOSITE_MIME, "text/plain", keepalive_ms, lifetime_ms, metadata, wants_resume=True, token=token
    ).encode()


async def resume(to: str, token: bytes, received: int) -> Wire:
    """A new connection that has sent its RESUME; it can send again from the beginning."""
    wire = await Wire.connect(to)
    wire.send(frames.Resume(token, received, 0).encode())
    return wire


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_request_waits_for_the_second_socket(server: Server, first: str, second: str) -> None:
    service = await Wire.connect(url_of(server, first))
    service.send(setup(b"t", "orders", 1))
    await service.ping()
    service.transport.abort()
    await until(lambda: server.core.lifecycle.sessions.suspended_n == 1)
    caller = await Wire.caller(url_of(server, "tcp"))
    caller.request("orders", b"patience")
    await until(lambda: server.core.peers()[0].streams)
    again = await resume(url_of(server, second), b"t", 0)
    assert await again.receive() == Frame(frames.encode_resume_ok(0))
    asked = await again.receive()
    assert asked.data == b"patience"
    again.answer(asked, b"rewarded")
    assert (await caller.receive()).data == b"rewarded"
    assert server.shell.links_open() == 2


async def test_a_stream_goes_on_wherever_the_wire_is_cut(make_server: MakeServer) -> None:
    """At every byte of some frames: the caller counts what it has, and gets the rest."""
    server = await make_server()
    port = urlsplit(url_of(server, "tcp")).port
    assert port is not None
    service = await Wire.service(url_of(server, "tcp"), "orders", 1)
    relay = Relay(port)
    size = 3 + len(frames.encode_payload(1, frames.NEXT, b"0"))
    for cut in range(2 * size + 2):
        relay.cut()
        relay.heal(cut_after=cut)
        caller = await Wire.connect(relay.url)
        caller.send(setup(b"cut %d" % cut))
        caller.request("orders", kind=frames.REQUEST_STREAM, n=5)
        asked = await service.receive()
        for at in range(5):
            service.send(frames.encode_payload(asked.stream_id, frames.NEXT | frames.COMPLETE * (at == 4), b"%d" % at))
        got = await caller.rest()
        assert len(got) == cut // size
        again = await resume(url_of(server, "tcp"), b"cut %d" % cut, sum(len(frame.raw) for frame in got))
        first = await again.receive()
        assert first.kind == frames.RESUME_OK
        got += [await again.receive() for _ in range(5 - len(got))]
        assert [frame.data for frame in got] == [b"%d" % at for at in range(5)]
        await again.close()
        await caller.close()
    await asyncio.to_thread(relay.close)


async def test_a_client_that_gave_its_socket_up_first_takes_its_session_along(server: Server) -> None:
    """The old socket is closed by the broker, and what still comes on it is nobody's."""
    old = await Wire.connect(url_of(server, "tcp"))
    old.send(setup(b"t", "orders", 1))
    await old.ping()
    new = await resume(url_of(server, "tcp"), b"t", 0)
    assert (await new.receive()).kind == frames.RESUME_OK
    assert await old.rest() == []
    await until(lambda: server.shell.links_open() == 1)
    caller = await Wire.caller(url_of(server, "tcp"))
    caller.request("orders", b"hi")
    new.answer(await new.receive(), b"ho")
    assert (await caller.receive()).data == b"ho"


async def test_a_silent_socket_is_closed_and_its_peer_can_be_resumed(server: Server) -> None:
    old = await Wire.connect(url_of(server, "tcp"))
    old.send(setup(b"t", "orders", 1, lifetime_ms=100))
    assert await old.rest() == []
    assert server.core.lifecycle.sessions.suspended_n == 1
    new = await resume(url_of(server, "tcp"), b"t", 0)
    assert (await new.receive()).kind == frames.RESUME_OK
    assert [peer.id for peer in server.core.peers()] == [1]
