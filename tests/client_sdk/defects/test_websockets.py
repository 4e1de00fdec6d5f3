"""Rows 19 and 28: WebSocket, with a real server: its end is noticed, and messages that are no frames do no harm."""

import asyncio
import contextlib
import time

import aiohttp
import pytest

from client_sdk import ConnectionLost
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, payload
from tests.client_sdk.raw_broker import Everything, RawBroker, ask, begin_all, serving
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import until

MANY = 20_000
SETUP_FRAME = bytes(4) + (1 << 10).to_bytes(2) + b"\0\1\0\0\0\0\x75\x30\0\1\xd4\xc0" + b"\x01m\x01d"


async def test_the_end_of_a_websocket_ends_what_waits(raw_websocket: RawBroker) -> None:
    """Row 19: five times, and neither a task nor a handler is left of any."""
    everything = Everything()
    async with serving(raw_websocket, everything.service) as (client, _):
        for number in range(5):
            peer = await raw_websocket.peer(number)
            await client.wait_connected(timeout_s=5)
            calls = await begin_all(client, peer)
            peer.send(Frame(2, frames.RESPONSE, 0, b"wait"))
            await peer.assert_alive()
            peer.abort()
            ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)
            assert {type(each) for each in ends} == {ConnectionLost}
        await raw_websocket.peer(5)
        await client.wait_connected(timeout_s=5)
        assert (everything.running, everything.cancelled) == (0, 5)


async def test_empty_messages_are_no_frames_however_many(raw_websocket: RawBroker) -> None:
    """Row 28: the event loop is not held, the log stays empty, and calls before, between and behind them work."""
    async with serving(raw_websocket, Everything().service) as (client, peer):
        call, asked = await ask(client, peer)
        began_at, longest_s, last_at = time.monotonic(), 0.0, time.monotonic()
        peer.send(*[b""] * MANY)
        peer.send(Frame(0, frames.KEEPALIVE, frames.RESPOND, bytes(8) + b"behind"))
        while Frame(0, frames.KEEPALIVE, 0, bytes(8) + b"behind") not in peer.of(frames.KEEPALIVE):
            await asyncio.sleep(0)
            longest_s, last_at = max(longest_s, time.monotonic() - last_at), time.monotonic()
            assert time.monotonic() - began_at < 10
        assert longest_s < 1.0, f"the event loop stood still for {longest_s:.1f} s"
        peer.send(payload(asked.stream_id, b"fine", flags=frames.LAST))
        assert (await call).data == b"fine"
        assert (await peer.call(2)).data == b"alive"
        assert len(raw_websocket.peers) == 1


async def test_texts_are_no_frames(raw_websocket: RawBroker) -> None:
    """Row 28."""
    async with serving(raw_websocket, Everything().service) as (client, peer):
        for text in ("", "hello", "\N{SNOWMAN}" * 1000):
            peer.say(text)
        assert (await peer.call(2)).data == b"alive"
        assert client.is_connected


async def test_the_longest_frame_passes(raw_websocket: RawBroker) -> None:
    """Row 26 on WebSocket, where other libraries stop at 4 MiB."""
    async with serving(raw_websocket, Everything().service) as (client, peer):
        call, asked = await ask(client, peer)
        data = bytes(frames.MAX_FRAME - 6)
        peer.send(payload(asked.stream_id, data, flags=frames.LAST))
        assert (await call).data == data
        big = bytes(frames.MAX_FRAME - 13)
        assert len((await peer.call(2, big)).data) == len(big)


@pytest.mark.parametrize("message", [b"", b"abc"])
async def test_our_broker_is_not_held_up_by_such_messages_either(broker_process: BrokerProcess, message: bytes) -> None:
    """Row 28, the other direction: one that says nothing, many times, is closed with one line in the log."""
    url = broker_process.url("ws").replace("ws://", "http://")
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(url) as socket:
            await socket.send_bytes(SETUP_FRAME)
            for _ in range(1000):
                with contextlib.suppress(ConnectionError):
                    await socket.send_bytes(message)
            async with asyncio.timeout(5):
                while not socket.closed:
                    await socket.receive()
        async with session.ws_connect(url) as socket, asyncio.timeout(5):
            await socket.send_bytes(SETUP_FRAME)
            await socket.send_bytes(Frame(0, frames.KEEPALIVE, frames.RESPOND, bytes(8) + b"alive").encode())
            while (await socket.receive_bytes())[-5:] != b"alive":
                pass
    await until(lambda: "left: the peer closed" in broker_process.output)  # the last one, so that all is said
    assert broker_process.output.count("bad-frame") == 1
