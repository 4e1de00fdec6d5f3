"""Whoever waits is told the end, in whatever moment it comes."""

import asyncio

import pytest

from client_sdk import ConnectionLost, NotConnected, address, connect
from client_sdk.io.connection import Connection
from client_sdk.io.dial import Target, dial
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import CLOSE, FakeBroker
from tests.client_sdk.frames import Frame, error, payload
from tests.client_sdk.samples import cancel, items_of


async def test_a_channel_ends_though_the_connection_is_lost_before_its_items_are_asked_for(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        answers = client.request_channel(address("x"), items_of(b"1"), timeout_s=5)
        reading = asyncio.ensure_future(anext(answers))
        await asyncio.sleep(0)  # the channel is about to fetch its first item
        client._manager.connected().lost(None)
        async with asyncio.timeout(1):
            with pytest.raises(ConnectionLost):
                await reading


async def test_who_waits_for_the_end_of_a_client_is_told_though_its_close_was_cut_short(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    waiting = asyncio.ensure_future(client.closed())
    closing = asyncio.ensure_future(client.close())
    while client.is_connected:  # the connection is about to be closed
        await asyncio.sleep(0)
    await cancel(closing)
    assert closing.cancelled()
    async with asyncio.timeout(1):
        await waiting
    assert client.state == "closed"
    with pytest.raises(NotConnected):
        await client.wait_connected()


async def test_calls_end_though_the_close_of_their_client_was_cut_short(broker: FakeBroker) -> None:
    broker.answer = lambda *_: None
    client = await connect(broker.url)
    calling = asyncio.ensure_future(client.request_response(address("x")))
    await (await broker.peer(0)).expect(frames.RESPONSE)
    closing = asyncio.ensure_future(client.close())
    await asyncio.sleep(0)  # it waits for what keeps the connection
    closing.cancel()
    async with asyncio.timeout(1):
        with pytest.raises(ConnectionLost):
            await calling
        await (await broker.peer(0)).gone.wait()


async def test_a_call_ends_whose_session_breaks_before_it_is_the_clients_turn_to_move(
    broker: FakeBroker, other: FakeBroker
) -> None:
    broker.answer = other.answer = lambda *_: None
    async with connect(broker.url, resume=True) as client:
        peer = await broker.peer(0)
        calling = asyncio.ensure_future(client.request_response(address("x")))
        await peer.expect(frames.RESPONSE)
        peer.tell(other.url, state="draining", move_within_ms="900000")
        await client.wait_for("moving")
        await broker.stop()  # nobody is there to resume it
        async with asyncio.timeout(5):
            with pytest.raises(ConnectionLost):
                await calling
            await other.peer(0)


async def test_a_call_ends_whose_session_breaks_while_its_client_is_on_the_way_to_another_broker(
    broker: FakeBroker, other: FakeBroker
) -> None:
    broker.answer = lambda *_: None
    other.is_silent = True
    async with connect(broker.url, resume=True) as client:
        peer = await broker.peer(0)
        calling = asyncio.ensure_future(client.request_response(address("x")))
        await peer.expect(frames.RESPONSE)
        peer.tell(other.url, state="draining", move_within_ms="0")
        successor = await other.peer(0)
        await successor.expect(frames.SETUP)
        peer.abort()
        while not client._manager.connected().is_suspended:
            await asyncio.sleep(0)
        other.is_silent = False
        successor.send(Frame(0, frames.KEEPALIVE, 0, bytes(8)))  # accepted
        async with asyncio.timeout(2):
            with pytest.raises(ConnectionLost):
                await calling
        assert (client.broker, client.is_connected) == (other.url, True)


async def test_a_client_comes_back_though_connecting_fails_in_a_way_that_nobody_thought_of(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(broker.url) as client:
        brokers = client._manager.brokers
        look_up, failures = brokers._look_up, [RuntimeError("a resolver of its own"), KeyError("likewise")]

        async def fails_at_first(host: str, port: int) -> list[str]:
            if failures:
                raise failures.pop()
            return await look_up(host, port)

        monkeypatch.setattr(brokers, "_look_up", fails_at_first)
        (await broker.peer(0)).abort()
        await client.wait_for("reconnecting")
        await client.wait_connected(5)
        assert failures == []


async def test_a_client_comes_back_though_moving_fails_in_a_way_that_nobody_thought_of(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(broker.url) as client:

        async def fails() -> Connection:
            raise RuntimeError("nobody thought of it")

        monkeypatch.setattr(client._manager.brokers, "dial_elsewhere", fails)
        (await broker.peer(0)).tell(broker.url, state="draining", move_within_ms="0")
        await broker.peer(1)
        await client.wait_connected(5)
        assert client.is_connected


async def test_a_session_that_ends_while_its_new_socket_is_opened_is_not_waited_for(broker: FakeBroker) -> None:
    async with connect(broker.url, resume=True) as client:
        connection = client._manager.connected()
        (await broker.peer(0)).abort()
        while not connection.is_suspended:
            await asyncio.sleep(0)
        wire = await dial(Target(broker.url), None)
        connection.give_up("its time is over")
        async with asyncio.timeout(1):
            with pytest.raises(ConnectionLost, match="its time is over"):
                await connection.resume(wire)
            peer = await broker.peer(1)
            await peer.gone.wait()
        assert peer.frames == []


async def test_a_client_comes_back_when_what_ran_has_ended_though_the_broker_that_said_close_does_not(
    broker: FakeBroker,
) -> None:
    """What ran when it was said may end, and nothing new begins."""
    broker.answer = lambda *_: None
    async with connect(broker.url) as client:
        peer = await broker.peer(0)
        calling = asyncio.ensure_future(client.request_response(address("x")))
        [asked] = await peer.expect(frames.RESPONSE)
        peer.send(error(0, CLOSE, "draining: it is about to stop"))
        await client.wait_for("reconnecting")
        with pytest.raises(NotConnected, match="draining"):
            await client.request_response(address("x"))
        peer.send(payload(asked.stream_id, b"an answer", flags=frames.LAST))
        assert (await calling).data == b"an answer"
        async with asyncio.timeout(2):
            await peer.gone.wait()
            await client.wait_connected()
