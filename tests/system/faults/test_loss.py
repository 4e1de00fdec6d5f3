"""Peers that go without a word: killed, cut off, silent. Who waited for them is told, nobody else notices."""

import asyncio

import pytest

from broker.server import Server
from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_STREAM
from tests.conftest import MakeServer
from tests.system.support.waits import until
from tests.system.support.wires import Wire, url_of


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_streams_and_channels_of_a_lost_service_end(server: Server, scheme: str) -> None:
    service = await Wire.service(url_of(server, scheme), "orders", 1)
    caller = await Wire.caller(url_of(server, scheme))
    ids = [caller.request("orders", kind=kind) for kind in (REQUEST_STREAM, REQUEST_CHANNEL)]
    for _ in ids:
        await service.receive()
    service.transport.abort()
    ended = [await caller.receive() for _ in ids]
    assert [(frame.stream_id, frame.code) for frame in ended] == [(each, CANCELED) for each in ids]
    await caller.ping()


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_a_lost_caller_is_a_cancel_for_its_services(server: Server, scheme: str) -> None:
    service = await Wire.service(url_of(server, scheme), "orders", 1)
    caller = await Wire.caller(url_of(server, scheme))
    for kind in (REQUEST_STREAM, REQUEST_CHANNEL):
        caller.request("orders", kind=kind)
    asked = [await service.receive() for _ in range(2)]
    caller.transport.abort()
    told = [await service.receive() for _ in asked]
    assert [(frame.stream_id, frame.name) for frame in told] == [(frame.stream_id, "CANCEL") for frame in asked]
    await service.ping()


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_a_silent_client_is_ended_when_its_lifetime_is_over(make_server: MakeServer, scheme: str) -> None:
    """It says nothing and its system answers nothing either, as far as the broker can tell."""
    server = await make_server(**{"limits.max_keepalives_per_s": 0})
    service = await Wire.service(url_of(server, scheme), "orders", 1)
    silent = await Wire.caller(url_of(server, scheme), lifetime_ms=200)
    lively = await Wire.caller(url_of(server, scheme), lifetime_ms=200)
    silent.request("orders", kind=REQUEST_STREAM)
    await service.receive()
    pings = 0
    while server.core.lifecycle.limits.closed.by_reason.get("keepalive-timeout", 0) == 0:
        await lively.ping()
        await asyncio.sleep(0)
        pings += 1
    assert (await service.receive()).name == "CANCEL"
    (last,) = await silent.rest()
    assert last.text.startswith("keepalive-timeout:")
    await lively.ping()
    assert server.core.lifecycle.limits.closed.by_reason == {"keepalive-timeout": 1}


@pytest.mark.slow
async def test_an_ended_client_that_reads_nothing_is_let_go_all_the_same(make_server: MakeServer) -> None:
    """Half-open with bytes waiting: they will never be written, so waiting for that would be for ever."""
    server = await make_server(**{"limits.max_pending_bytes": 64_000_000})
    service = await Wire.service(url_of(server, "tcp"), "orders", 1)
    deaf = [await Wire.slow(url_of(server, scheme), lifetime_ms=300) for scheme in ("tcp", "ws")]
    for wire in deaf:
        await service.flood(wire, "orders", 100)
    await service.ping()
    await until(lambda: server.core.lifecycle.limits.closed.by_reason.get("keepalive-timeout", 0) == 2)
    await until(lambda: server.shell.links_open() == 1)
    assert len(server.core.peers()) == 1
    for wire in deaf:
        wire.transport.abort()
        await wire.close()
