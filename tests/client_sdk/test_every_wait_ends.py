"""Whoever waits is told the end, in whatever moment it comes."""

import asyncio
import math
from collections.abc import AsyncIterator

import pytest

from client_sdk import ConnectionLost, NotConnected, address, connect
from tests.client_sdk.fake_broker import RESPONSE, FakeBroker


async def items() -> AsyncIterator[bytes]:
    yield b"1"


async def test_a_channel_ends_though_the_connection_is_lost_before_its_items_are_asked_for(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        answers = client.request_channel(address("x"), items(), timeout_s=5)
        reading = asyncio.ensure_future(anext(answers))
        await asyncio.sleep(0)  # the channel is about to fetch its first item
        client._keeper.connected().lost(None)
        async with asyncio.timeout(1):
            with pytest.raises(ConnectionLost):
                await reading


async def test_who_waits_for_the_end_of_a_client_is_told_though_its_close_was_cut_short(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    waiting = asyncio.ensure_future(client.closed())
    closing = asyncio.ensure_future(client.close())
    while client.is_connected:  # the connection is about to be closed
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled()
    async with asyncio.timeout(1):
        await waiting
    assert client.state == "closed"
    with pytest.raises(NotConnected):
        await client.wait_connected()


@pytest.mark.parametrize("says_deadlines", [True, False])
@pytest.mark.parametrize("nonsense_s", [math.nan, -math.inf])
async def test_a_deadline_that_is_no_time_is_refused_and_never_reaches_the_event_loop(
    broker: FakeBroker, says_deadlines: bool, nonsense_s: float
) -> None:
    async with connect(broker.url, says_deadlines=says_deadlines) as client:
        for ask in (client.request_response, client.fire_and_forget):
            with pytest.raises(ValueError, match="timeout_s is"):
                await ask(address("x"), timeout_s=nonsense_s)
        with pytest.raises(ValueError, match="timeout_s is"):
            client.request_stream(address("x"), timeout_s=nonsense_s)
        with pytest.raises(ValueError, match="timeout_s is"):
            client.request_channel(address("x"), items(), timeout_s=nonsense_s)


async def test_calls_end_though_the_close_of_their_client_was_cut_short(broker: FakeBroker) -> None:
    broker.answer = lambda *_: None
    client = await connect(broker.url)
    calling = asyncio.ensure_future(client.request_response(address("x")))
    await (await broker.peer(0)).expect(RESPONSE)
    closing = asyncio.ensure_future(client.close())
    await asyncio.sleep(0)  # it waits for what keeps the connection
    closing.cancel()
    async with asyncio.timeout(1):
        with pytest.raises(ConnectionLost):
            await calling
        await (await broker.peer(0)).gone.wait()
