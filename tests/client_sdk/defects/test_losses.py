"""Rows 14, 16 to 18 and 22: connections that break, fall silent, or do not come back for a while. Nothing hangs."""

import asyncio
import contextlib
import logging
import signal

import pytest

from client_sdk import ConnectionLost, NotConnected, connect
from tests.client_sdk import frames
from tests.client_sdk.frames import error, payload
from tests.client_sdk.raw_broker import TO, Attempts, Everything, RawBroker, assert_answered, begin, begin_all, serving
from tests.client_sdk.samples import echo_service, items_of
from tests.conftest import StartBroker

ATTEMPTS = 10
SHORT = {"keepalive_s": 0.05, "lifetime_s": 0.2}


async def test_silence_ends_what_waits_and_the_next_connection_is_a_good_one(raw: RawBroker) -> None:
    """Rows 16 and 17: three times, so that nothing is left over from the last; the socket is closed each time."""
    async with serving(raw, None, **SHORT) as (client, _):
        for number in range(3):
            peer = await raw.peer(number)
            await client.wait_connected(timeout_s=5)
            good = begin(client, "request_response")
            [asked] = await peer.expect(frames.RESPONSE)
            peer.send(payload(asked.stream_id, b"fine", flags=frames.LAST))
            assert (await good).data == b"fine"
            peer.answers_pings = False
            calls = await begin_all(client, peer)
            ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)
            assert [(type(each), getattr(each, "word", "")) for each in ends] == [
                (ConnectionLost, "keepalive-timeout")
            ] * 3
            await peer.assert_gone()


@pytest.mark.parametrize("piece", [b"", b"\0", b"\0\0\x20", b"\0\0\x20\0\0\0\1"])
async def test_a_peer_that_is_silent_in_the_middle_of_a_frame_is_silent(raw: RawBroker, piece: bytes) -> None:
    """Row 22: half-open; and it does not read either, so that nothing can be written."""
    async with serving(raw, None, **SHORT) as (client, peer):
        peer.answers_pings = False
        peer.stop_reading()
        call = begin(client, "request_response")
        if piece:
            peer.write([piece])
        with pytest.raises(ConnectionLost, match="keepalive-timeout"):
            await call
        with contextlib.suppress(ConnectionLost):
            await client.fire_and_forget(TO, bytes(1 << 20))
        await raw.peer(1)
        await client.wait_connected(timeout_s=5)
        peer.abort()


@pytest.mark.parametrize("failure", ["setup", "goodbye", "close", "junk", "silence"])
async def test_ten_failed_reconnects_are_followed_by_a_good_one(
    raw: RawBroker, attempts: Attempts, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 18: and then the tenth-first is as good as any, with its service."""
    everything = Everything()
    with caplog.at_level(logging.WARNING, "client_sdk"):
        async with serving(raw, everything.service, connect_timeout_s=0.1) as (client, peer):
            words = {
                "setup": error(0, 0x003, "over-limit: not now"),
                "goodbye": error(0, 0x102, "draining: not now"),
                "junk": b"abc",
            }
            raw.greeting = (words[failure],) if failure in words else ()  # type: ignore[assignment]
            raw.answers_pings = False
            peer.abort()
            for number in range(1, ATTEMPTS + 1):
                refused = await raw.peer(number)
                if failure == "close":
                    refused.abort()
                else:
                    await refused.assert_gone()
                with pytest.raises(NotConnected):
                    await client.request_response(TO)
            raw.greeting, raw.answers_pings = (), True
            await client.wait_connected(timeout_s=5)
            peer = raw.peers[-1]
            assert (await peer.call(2)).data == b"alive"
            await assert_answered(client, peer)
    assert len(caplog.records) <= 3, caplog.text  # one for each reason, and not for each attempt


async def test_ten_times_nobody_is_listening_and_then_somebody_is(raw: RawBroker, attempts: Attempts) -> None:
    """Row 18."""
    async with connect(raw.url) as client:
        await raw.stop()
        await client.wait_for("reconnecting", timeout_s=5)
        await attempts.reach(ATTEMPTS + 1)
        assert not client.is_connected
        await raw.start(raw.port)
        await client.wait_connected(timeout_s=5)


async def test_a_loss_during_the_reconnect_is_one_more(raw: RawBroker, attempts: Attempts) -> None:
    """Row 18: a connection that is lost as soon as it is there, twenty times; no task is left of any."""
    async with connect(raw.url) as client:
        for number in range(20):
            peer = await raw.peer(number)
            if number % 2:
                await peer.expect(frames.KEEPALIVE)
            peer.abort()
        await raw.peer(20)
        await client.wait_connected(timeout_s=5)
        tasks = len(asyncio.all_tasks())
        (await raw.peer(20)).abort()
        await raw.peer(21)
        await client.wait_connected(timeout_s=5)
        await (await raw.peer(20)).assert_gone()
        assert len(asyncio.all_tasks()) <= tasks + 1


@pytest.mark.slow
async def test_a_broker_that_is_stopped_and_goes_on_has_its_service_back(start_broker: StartBroker) -> None:
    """Row 22: SIGSTOP, the kernel still acknowledges; calls end within the lifetime, and SIGCONT is enough."""
    broker = start_broker("--listen", "tcp://127.0.0.1:0")
    options = {"keepalive_s": 0.1, "lifetime_s": 0.4, "connect_timeout_s": 0.3}
    async with (
        connect(broker.url("tcp"), service=echo_service("everything"), **options),  # type: ignore[arg-type]
        connect(broker.url("tcp"), **options) as client,  # type: ignore[arg-type]
    ):
        assert (await client.request_response(TO, b"1", timeout_s=5)).data == b"1"
        broker.signal(signal.SIGSTOP)
        calls = [
            *(begin(client, model) for model in ("request_response", "request_stream")),
            asyncio.create_task(anext(client.request_channel(TO, items_of(b"1")))),
        ]
        ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 3)
        assert {type(each) for each in ends} == {ConnectionLost}
        broker.signal(signal.SIGCONT)
        async with asyncio.timeout(8):
            while True:
                with contextlib.suppress(Exception):
                    await client.request_response(TO, b"2", timeout_s=1, wait_for_reconnect=2)
                    return
                await asyncio.sleep(0.01)
