"""What a program can know of its connection, and loops that outlive every broker."""

import asyncio
import errno
import ssl
from typing import NoReturn

import pytest

from client_sdk import Client, ConnectionLost, DeadlineExceeded, NotConnected, SetupRejected, State, address, connect
from client_sdk.reconnect import brokers
from tests.client_sdk import frames
from tests.client_sdk.calls.test_callers import Script
from tests.client_sdk.clocks import rest
from tests.client_sdk.fake_broker import CLOSE, FakeBroker, Peer
from tests.client_sdk.frames import Frame, error, payload

TO = address("x")
REPLACED = error(0, CLOSE, "replaced: another connection came with this Route Id")


# States


async def test_a_loss_and_the_next_connection_are_told(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        assert (client.state, client.reason) == ("connected", None)
        changes = client.changes()
        (await broker.peer(0)).abort()
        told = [await anext(changes) for _ in range(3)]
        assert [change.state for change in told] == ["connected", "reconnecting", "connected"]
        assert [change.reason is None for change in told] == [True, False, True]
        assert {change.broker for change in told} == {broker.url}
    assert [change.state async for change in changes] == ["closed"]
    assert client.state is State.CLOSED


async def test_a_move_is_told(broker: FakeBroker, other: FakeBroker) -> None:
    async with connect(broker.url) as client:
        changes = client.changes()
        (await broker.peer(0)).tell(other.url, state="draining", move_within_ms="0")
        told = [await anext(changes) for _ in range(3)]
        assert [(change.state, change.broker) for change in told] == [
            ("connected", broker.url),
            ("moving", broker.url),
            ("connected", other.url),
        ]


async def test_a_replaced_client_is_closed_and_says_why(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        (await broker.peer(0)).send(REPLACED)
        change = await client.wait_for(State.CLOSED, timeout_s=5)
        assert change.reason is not None
        assert change.reason.word == "replaced"
        assert client.reason is not None
        assert (
            client.reason.advice
            == "another client has this Route Id: give each its own instance= or route_id=, or none"
        )


async def test_while_there_is_no_connection_the_reason_says_why(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        broker.refusal = (0x003, "draining: not now")
        (await broker.peer(0)).abort()
        await client.wait_for("reconnecting")
        await (await broker.peer(1)).gone.wait()
        while client.reason is None or client.reason.word != "draining":
            await asyncio.sleep(0)
        with pytest.raises(NotConnected, match="not now"):
            await client.request_response(TO)


async def test_a_call_gets_no_advice_beside_what_the_failed_reconnect_says(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> NoReturn:
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_code, error.verify_message = 66, "EE certificate key too weak"
        raise error

    async with connect(broker.url) as client:
        monkeypatch.setattr(brokers, "dial", refused)
        (await broker.peer(0)).abort()
        while client.reason is None or client.reason.word != "connect-failed":
            await asyncio.sleep(0)
        with pytest.raises(NotConnected, match=r"the broker needs another one \(nothing was sent\)$"):
            await client.request_response(TO)


async def test_without_a_broker_who_was_connected_is_not_told_how_to_connect(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> NoReturn:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    async with connect(broker.url) as client:
        monkeypatch.setattr(brokers, "dial", refused)
        (await broker.peer(0)).abort()
        while client.reason is None or client.reason.word != "connect-failed":
            await asyncio.sleep(0)
        said = (
            "nothing was sent, a retry is safe; wait_for_reconnect= says how long a call waits for the next connection"
        )
        with pytest.raises(NotConnected) as caught:
            await client.request_response(TO)
        assert (caught.value.advice, client.reason.advice) == (said, said)


async def test_waiting_for_a_state_ends(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    assert (await client.wait_for("connected", "closed")).state == "connected"
    with pytest.raises(DeadlineExceeded, match=r"not closed or moving within 0\.01 s, it is connected"):
        await client.wait_for("moving", "closed", timeout_s=0.01)
    for wrong in ([], ["lost"]):
        with pytest.raises(ValueError, match=r"at least one state|'lost' is no state; there are closed, connected"):
            await client.wait_for(*wrong)
    waiting = asyncio.ensure_future(client.wait_for("moving"))
    await rest()
    await client.close()
    with pytest.raises(NotConnected, match="closed"):
        await waiting


# async for


async def test_a_loop_has_a_client_when_there_is_a_broker(broker: FakeBroker) -> None:
    broker.refusal = (0x003, "draining: not yet")
    Script(broker, b"answer")

    async def first_answer() -> bytes | None:
        async for client in connect(broker.url):
            return (await client.request_response(TO)).data
        return None

    answer = asyncio.ensure_future(first_answer())
    await (await broker.peer(1)).gone.wait()  # it has tried twice
    broker.refusal = None
    assert await answer == b"answer"
    await broker.peers[-1].gone.wait()  # who leaves the loop closes the client


async def test_each_turn_closes_the_client_before_it(broker: FakeBroker) -> None:
    clients: list[Client] = []
    async for client in connect(broker.url):
        clients.append(client)
        if len(clients) == 3:
            break
        assert [each.is_connected for each in clients] == [False] * (len(clients) - 1) + [True]
    await broker.peers[2].gone.wait()
    assert len({client.route_id for client in clients}) == 3


async def test_a_body_that_loses_its_connection_goes_on_with_the_next_client(broker: FakeBroker) -> None:
    def answer(peer: Peer, frame: Frame) -> None:
        if peer is broker.peers[0]:
            peer.abort()
        else:
            peer.send(payload(frame.stream_id, b"answer", flags=frames.LAST))

    broker.answer = answer
    answers: list[bytes | None] = []
    async for client in connect(broker.url, route_id="11223344-5566-7788-99aa-bbccddeeff00"):
        try:
            answers.append((await client.request_response(TO)).data)
        except ConnectionLost:
            answers.append(None)
            continue
        break
    assert answers == [None, b"answer"]


async def test_what_no_time_mends_is_raised(broker: FakeBroker) -> None:
    broker.refusal = (0x003, "bad-route: too many tags")
    with pytest.raises(SetupRejected, match="too many tags"):
        await anext(aiter(connect(broker.url)))
    assert len(broker.peers) == 1


async def test_a_replaced_route_id_of_ones_own_ends_the_loop(broker: FakeBroker) -> None:
    clients = aiter(connect(broker.url, route_id="11223344-5566-7788-99aa-bbccddeeff00"))
    client = await anext(clients)
    broker.peers[0].send(REPLACED)
    await client.closed()
    with pytest.raises(ConnectionLost, match="replaced"):
        await anext(clients)
    assert len(broker.peers) == 1


async def test_a_replaced_client_with_a_route_id_by_chance_is_followed_by_another(broker: FakeBroker) -> None:
    ids: list[str] = []
    async for client in connect(broker.url):
        ids.append(client.route_id)
        if len(ids) == 2:
            break
        broker.peers[-1].send(REPLACED)
        await client.closed()
    assert ids[0] != ids[1]


async def test_exceptions_of_the_body_leave_the_loop_and_close_the_client(broker: FakeBroker) -> None:
    async def work() -> None:
        async for _ in connect(broker.url):
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await work()
    await broker.peers[0].gone.wait()


async def test_entering_twice_makes_two_clients(broker: FakeBroker) -> None:
    connecting = connect(broker.url)
    async with connecting as first:
        pass
    async with connecting as second:
        assert second is not first
        assert second.is_connected
    assert [len(peer.of(frames.SETUP)) for peer in broker.peers] == [1, 1]
