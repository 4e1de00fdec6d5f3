"""What strangers do is told in a few lines and a number, however often they do it (D-67)."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urlsplit

import pytest

from broker.limited_log import LINES_PER_S, STRANGERS
from rsocket_wire.rsocket.frames import encode_metadata_push
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from tests.conftest import MakeServer
from tests.fakes import composite, route_id, tags_of
from tests.system.support.waits import soon, until
from tests.system.support.wires import Wire

MANY = 100


class Said:
    """Lines since the test began."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self._before = dict(STRANGERS.lines)

    def counts(self, kind: str) -> tuple[int, int]:
        """How many were written, and how many only counted."""
        pairs = [(kind, True), (kind, False)]
        written, counted = [STRANGERS.lines.get(pair, 0) - self._before.get(pair, 0) for pair in pairs]
        return written, counted

    def lines(self, words: str) -> list[str]:
        return [text for text in self._caplog.messages if words in text]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    caplog.set_level(logging.INFO)
    return Said(caplog)


async def test_connections_that_come_and_fail(make_server: MakeServer, said: Said) -> None:
    server = await make_server()
    for _ in range(MANY):
        wire = await Wire.connect(server.listeners[0])
        wire.send(b"no frame")
        await wire.rest()
        await wire.close()
    await until(lambda: sum(said.counts("PeerClosed")) == MANY)
    written, counted = said.counts("PeerClosed")
    assert (written + counted, counted > 0) == (MANY, True)
    STRANGERS.flush()
    assert len(said.lines("closed after")) == written
    numbers = [int(text.split()[1]) for text in said.lines("more like it within a second: PeerClosed (bad-setup)")]
    assert sum(numbers) == counted


async def test_routes_that_are_announced_again_and_again(make_server: MakeServer, said: Said) -> None:
    """One connection that changes its route: 70 bytes were 1,800 of log."""
    server = await make_server()
    wire = await Wire.caller(server.listeners[0])
    sent = 0
    for number in range(MANY):
        raw = RouteSetup(route_id(number + 1), "orders", tags_of({f"a{each}": "x" * 100 for each in range(8)})).encode()
        push = encode_metadata_push(composite((MIME_TYPE, raw)))
        sent += len(push)
        wire.send(push)
    await wire.ping()
    await until(lambda: sum(said.counts("RouteJoined")) == MANY)
    assert said.counts("RouteJoined")[0] <= 2 * LINES_PER_S
    STRANGERS.flush()
    assert sum(len(text) for text in said.lines("")) < sent


async def test_what_is_no_websocket_again_and_again(make_server: MakeServer, said: Said) -> None:
    server = await make_server()
    url = urlsplit(server.listeners[1])
    for _ in range(MANY):
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(b"GARBAGE\r\n\r\n")
        await soon(reader.read())
        writer.close()
    await until(lambda: sum(said.counts("WebSocketUpgrade")) == MANY)
    assert len(said.lines("no WebSocket")) == said.counts("WebSocketUpgrade")[0] < MANY


async def test_others_are_told_as_ever_while_somebody_floods(make_server: MakeServer, said: Said) -> None:
    server = await make_server()
    for _ in range(3 * LINES_PER_S):
        wire = await Wire.connect(server.listeners[0])
        wire.send(b"no frame")
        await wire.rest()
        await wire.close()
    await Wire.service(server.listeners[2], "orders", 7)
    await until(lambda: said.lines(f"route {route_id(7).hex()[:8]}"))
    (line,) = said.lines(": joined from unix")
    assert "orders" in line
