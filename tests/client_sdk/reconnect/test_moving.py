"""Brokers that name others, and clients that move there before theirs is gone (D-54)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from client_sdk import Client, Service, address, connect
from client_sdk.io.dial import Target
from client_sdk.reconnect.backoff import Backoff
from client_sdk.reconnect.brokers import MAX_LEARNED_URLS, Brokers
from client_sdk.reconnect.manager import MAX_RETIRED
from rsocket_wire.rsocket.frames import Setup
from rsocket_wire.rsocket.metadata import encode_entry
from rsocket_wire.rsocket.notices import MAY_BE_TOLD, NOTHING, Notice, find_notice, said_by_client
from rsocket_wire.wire.frames import MIME_TYPE_V0, Address
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import CLOSE, FakeBroker, Peer, entries_of
from tests.client_sdk.frames import error
from tests.client_sdk.samples import Held, echo_service, gives
from tests.system.support.waits import until


def leave(peer: Peer, *urls: str) -> None:
    """Its broker is about to leave; everybody may go at once."""
    peer.tell(*urls, state="draining", move_within_ms="0")


async def moved(client: Client, old: FakeBroker, new: FakeBroker, number: int = 0) -> tuple[Peer, Peer]:
    """Tells the client to go, and waits until both brokers know that it has."""
    there = await old.peer(number)
    leave(there, new.url)
    await there.has_moved.wait()
    assert client.broker == new.url
    return there, await new.peer(0)


async def test_setup_says_that_the_client_may_be_told(broker: FakeBroker) -> None:
    async with connect(broker.url), connect(broker.url, service="orders"):
        caller, service = await broker.peer(0), await broker.peer(1)
        assert (caller.may_be_told, caller.route) == (True, None)
        assert service.may_be_told
        assert service.route is not None


async def test_client_learns_brokers_and_keeps_those_that_it_was_given_first(
    broker: FakeBroker, other: FakeBroker
) -> None:
    async with connect([broker.url, "tcp://given:1"]) as client:
        peer = await broker.peer(0)
        assert client.brokers == [broker.url, "tcp://given:1"]
        peer.tell("tcp://told:2", "carrier-pigeon://x", "tcp://given:1", "tcp://", "ws://told:3/x")
        await until(lambda: len(client.brokers) > 2)
        assert client.brokers == [broker.url, "tcp://given:1", "tcp://told:2", "ws://told:3/x"]
        peer.tell("tcp://told:4")
        await until(lambda: "tcp://told:4" in client.brokers)
        assert client.brokers == [broker.url, "tcp://given:1", "tcp://told:4"]
        assert client.broker == broker.url


async def test_client_remembers_no_more_brokers_than_it_may(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        (await broker.peer(0)).tell(*(f"tcp://told:{number + 1}" for number in range(MAX_LEARNED_URLS + 10)))
        await until(lambda: len(client.brokers) > 1)
        assert client.brokers == [broker.url, *(f"tcp://told:{number + 1}" for number in range(MAX_LEARNED_URLS))]


async def test_lost_client_goes_to_a_broker_that_it_was_told_of(broker: FakeBroker, other: FakeBroker) -> None:
    async with connect(broker.url) as client:
        peer = await broker.peer(0)
        peer.tell(other.url)
        await until(lambda: len(client.brokers) > 1)
        await broker.stop()
        await other.peer(0)
        await client.wait_connected(timeout_s=5)
        assert client.broker == other.url
        (await other.peer(0)).tell()  # it knows of no other, and is not forgotten itself
        (await other.peer(0)).abort()
        await other.peer(1)


async def test_client_moves_with_the_same_setup_and_asks_there(broker: FakeBroker, other: FakeBroker) -> None:
    async with connect(broker.url, service=echo_service()) as service, connect(other.url) as caller:
        there = await broker.peer(0)
        leave(there, other.url)
        await there.has_moved.wait()
        here = await other.peer(1)
        assert here.route == there.route
        assert here.may_be_told
        assert (await caller.request_response(address("echo"), b"hello")).data == b"hello"
        assert (await service.request_response(address("echo"), b"own")).data == b"own"
        assert (there.of(frames.RESPONSE), there.gone.is_set()) == ([], False)  # the broker closes
        there.send(error(0, CLOSE, "replaced: it came elsewhere"))
        await there.gone.wait()
        assert service.is_connected


async def test_requests_in_flight_end_on_the_old_connection(broker: FakeBroker, other: FakeBroker) -> None:
    held = Held()
    async with connect(broker.url, service=held.service), connect(broker.url) as caller:
        own = asyncio.ensure_future(caller.request_response(address("held"), b"own"))
        assert await held.began.get() == b"own"
        there, here = await moved(caller, broker, other, 1)
        with pytest.raises(Exception, match="no-route"):
            await caller.request_response(address("held"), b"new")
        held.released.set()
        assert (await own).data == b"own"
        assert (len(there.of(frames.RESPONSE)), len(here.of(frames.RESPONSE))) == (1, 1)


async def test_a_service_answers_what_it_has_and_what_still_comes_on_the_old_connection(
    broker: FakeBroker, other: FakeBroker
) -> None:
    held = Held()
    async with connect(broker.url, service=held.service) as service, connect(broker.url) as caller:
        calls = [asyncio.ensure_future(caller.request_response(address("held"), b"early"))]
        assert await held.began.get() == b"early"
        there, here = await moved(service, broker, other)
        calls.append(asyncio.ensure_future(caller.request_response(address("held"), b"late")))
        assert await held.began.get() == b"late"
        there.send(error(0, CLOSE, "replaced: it came elsewhere"))
        held.released.set()
        assert [(await call).data for call in calls] == [b"early", b"late"]
        assert (len(there.of(frames.PAYLOAD)), len(here.of(frames.PAYLOAD))) == (2, 0)
        assert service.is_connected


async def test_a_handler_without_a_caller_who_waits_ends_though_the_old_connection_is_gone(
    broker: FakeBroker, other: FakeBroker
) -> None:
    held = Held()
    async with connect(broker.url, service=held.service) as service, connect(broker.url) as caller:
        await caller.fire_and_forget(address("held"), b"note")
        assert await held.began.get() == b"note"
        there, _ = await moved(service, broker, other)
        there.send(error(0, CLOSE, "replaced: it came elsewhere"))
        await there.gone.wait()
        held.released.set()
        assert await held.ended.get() == b"note"


async def test_closing_the_client_closes_connections_that_it_has_left_too(
    broker: FakeBroker, other: FakeBroker
) -> None:
    held = Held()
    service = await connect(broker.url, service=held.service)
    async with connect(broker.url) as caller:
        await caller.fire_and_forget(address("held"), b"note")
        assert await held.began.get() == b"note"
        there, here = await moved(service, broker, other)
        there.send(error(0, CLOSE, "replaced: it came elsewhere"))
        await there.gone.wait()
        await service.close()
        await here.gone.wait()
    assert held.ended.empty()


async def test_a_channel_whose_first_item_is_not_there_yet_holds_back_the_word(
    broker: FakeBroker, other: FakeBroker
) -> None:
    """Behind it nothing may come, or the broker has closed before."""
    held = Held()
    held.released.set()
    items: asyncio.Queue[bytes] = asyncio.Queue()

    async def given() -> AsyncIterator[bytes]:
        yield await items.get()

    async with connect(broker.url, service=held.service), connect(broker.url) as caller:
        first = asyncio.ensure_future(anext(caller.request_channel(address("held"), given())))
        await asyncio.sleep(0)  # it is asked for
        there = await broker.peer(1)
        leave(there, other.url)
        await until(lambda: caller.broker == other.url)
        await caller.fire_and_forget(address("nobody"), b"")
        await (await other.peer(0)).expect(frames.FNF)
        assert not there.has_moved.is_set()
        items.put_nowait(b"item")
        assert (await first).data == b"item"
        await there.has_moved.wait()
        assert [each.kind for each in there.frames if each.kind in (frames.CHANNEL, frames.PUSH)] == [
            frames.CHANNEL,
            frames.PUSH,
        ]


async def test_client_stays_where_no_other_broker_takes_it_and_goes_when_one_does(
    broker: FakeBroker, other: FakeBroker
) -> None:
    other.refusal = (0x003, "draining: I leave, too")
    async with connect(broker.url, service=echo_service()) as client:
        there = await broker.peer(0)
        leave(there, other.url)
        await (await other.peer(1)).gone.wait()  # it tries again and again
        assert (client.broker, there.has_moved.is_set()) == (broker.url, False)
        assert (await client.request_response(address("echo"), b"here")).data == b"here"
        other.refusal = None
        await there.has_moved.wait()
        assert client.broker == other.url


async def test_client_stays_when_its_broker_does_after_all(broker: FakeBroker, other: FakeBroker) -> None:
    async with connect(broker.url, service=echo_service()) as client:
        there = await broker.peer(0)
        there.tell(other.url, state="draining", move_within_ms="3600000")
        await client.wait_for("moving", timeout_s=5)
        assert client.is_connected
        there.tell(other.url)
        assert (await client.wait_for("connected", timeout_s=5)).reason is None
        assert (await client.request_response(address("echo"), b"here")).data == b"here"
        assert (client.broker, other.peers) == (broker.url, [])


async def test_a_goodbye_ends_the_wait_for_the_turn(broker: FakeBroker, other: FakeBroker) -> None:
    async with connect(broker.url) as client:
        there = await broker.peer(0)
        there.tell(other.url, state="draining", move_within_ms="3600000")
        there.send(error(0, CLOSE, "draining: the broker is taken out of service"))
        await other.peer(0)
        await client.wait_connected(timeout_s=5)
        assert client.broker == other.url


async def test_a_broker_that_leaves_and_names_nobody_keeps_its_clients_to_the_end(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        there = await broker.peer(0)
        leave(there)
        there.send(error(0, CLOSE, "broker-stopped: bye"))
        await broker.peer(1)
        await client.wait_connected(timeout_s=5)


async def test_replaced_by_its_own_attempt_to_move_it_is_not_closed_for_ever(
    broker: FakeBroker, other: FakeBroker
) -> None:
    other.is_silent = True
    async with connect(broker.url, connect_timeout_s=0.05) as client:
        there = await broker.peer(0)
        leave(there, other.url)
        await (await other.peer(0)).gone.wait()  # the timeout; its broker has the route and says so
        there.send(error(0, CLOSE, "replaced: another connection came with this Route Id"))
        await broker.peer(1)
        await client.wait_connected(timeout_s=5)


async def test_replaced_by_somebody_else_before_it_moves_is_the_end(broker: FakeBroker, other: FakeBroker) -> None:
    async with connect(broker.url) as client:
        there = await broker.peer(0)
        there.tell(other.url, state="draining", move_within_ms="3600000")
        there.send(error(0, CLOSE, "replaced: another connection came with this Route Id"))
        await client.closed()
        assert other.peers == []


async def test_no_more_connections_are_left_behind_than_it_may(broker: FakeBroker, other: FakeBroker) -> None:
    brokers = [broker, other]
    async with connect(broker.url) as client:
        left: list[Peer] = []
        for number in range(MAX_RETIRED + 1):
            here, there = brokers[number % 2], brokers[(number + 1) % 2]
            peer = await here.peer(number // 2)
            leave(peer, there.url)
            await until(lambda: client.broker == there.url)  # noqa: B023
            left.append(peer)
        await left[0].gone.wait()
        assert [peer.gone.is_set() for peer in left[1:]] == [False] * MAX_RETIRED


@pytest.mark.parametrize(("chance", "first"), [(0.0, 0), (0.49, 0), (0.5, 1), (0.99, 1)])
async def test_of_several_brokers_one_is_drawn_and_the_same_scheme_comes_first(
    broker: FakeBroker, other: FakeBroker, chance: float, first: int
) -> None:
    setup = Setup("message/x.rsocket.composite-metadata.v0", "a/b", 5000, 20_000)
    brokers = Brokers([Target(broker.url)], setup, None, 1.0, None, lambda: chance)
    connection = await brokers.dial()
    (await broker.peer(0)).tell("unix:///nowhere", broker.url, other.url, "unix:///nowhere/else")
    await connection.changed.wait()
    moved = await brokers.dial_elsewhere()
    assert brokers.url == [broker.url, other.url][first]
    await connection.close()
    await moved.close()


async def test_another_broker_may_have_the_same_url(broker: FakeBroker) -> None:
    """Processes of one machine, or those behind a balancer."""
    async with connect(broker.url) as client:
        there = await broker.peer(0)
        leave(there, broker.url)
        await there.has_moved.wait()
        assert (client.broker, len(broker.peers)) == (broker.url, 2)


async def test_who_wants_encryption_is_not_led_to_a_place_without() -> None:
    for given, learned in (
        (["tls://a"], ["tls://b", "wss://c"]),
        (["tls://a", "tcp://a"], ["tls://b", "wss://c", "tcp://d", "unix:///e"]),
    ):
        brokers = Brokers([Target(url) for url in given], None, None, 1.0, None)  # type: ignore[arg-type]
        connection = type("Connection", (), {"is_retired": False, "changed": asyncio.Event()})()
        raw = Notice(["tls://b", "wss://c", "tcp://d", "unix:///e"], False, 0).encode(bytes(16), 0)
        assert brokers.hear(connection, raw[6:])
        assert brokers.urls == given + learned


async def test_a_push_of_another_client_names_no_brokers(broker: FakeBroker, other: FakeBroker) -> None:
    """It begins with an ADDRESS; whatever stands behind is for the service."""
    seen: asyncio.Queue[bytes] = asyncio.Queue()
    service = Service("cache")
    service.metadata_push()(gives(seen.put_nowait))

    info = Notice([other.url], True, 0).encode(bytes(16), 0)[6:]
    mime = "message/x.rsocket.forwarding"
    async with connect(broker.url, service=service) as client, connect(broker.url) as caller:
        await caller.metadata_push(address("cache"), entries_of(info)[mime], mime_type=mime)
        await seen.get()
        assert (client.broker, client.brokers) == (broker.url, [broker.url])


def test_turns_are_spread_over_the_time_that_the_broker_gives() -> None:
    chances = iter((0.0, 0.25, 0.999))
    backoff = Backoff(lambda: next(chances))
    assert [backoff.part_s(20.0) for _ in range(3)] == [0.0, 5.0, 19.98]


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_notice_that_breaks_off_is_none(cut: int) -> None:
    raw = Notice(["tcp://a:1"], True, 30_000).encode(bytes(16), 1)[6:]
    assert find_notice(raw[:-cut]) is None


def test_a_notice_beside_another_broker_frame_is_of_somebody_else() -> None:
    """A client may have sent it by way of the broker, which wants an ADDRESS for that."""
    notice = Notice(["tcp://evil:1"], True, 0).encode(bytes(16), 1)[6:]
    asked = encode_entry(MIME_TYPE_V0.encode(), Address(bytes(16), [], []).encode())
    more = encode_entry(b"text/plain", b"x")
    assert find_notice(more + notice + more) is not None
    for metadata in (notice + asked, asked + notice, notice + more + notice):
        assert find_notice(metadata) is None


def test_what_a_client_says_is_read_among_other_entries() -> None:
    def entry(mime: str, content: bytes) -> bytes:
        return bytes([len(mime) - 1]) + mime.encode() + len(content).to_bytes(3) + content

    mime = "message/x.rsocket.broker.client.v0"
    assert said_by_client(entry("a/b", b"x") + entry(mime, b"\x01")) == MAY_BE_TOLD
    for raw in (
        b"",
        b"rubbish",
        entry("a/b", mime.encode()),
        entry(mime, b""),
        entry(mime, b"\x02"),
        entry(mime, b"\x01")[:-1],
    ):
        assert said_by_client(raw) == NOTHING


async def test_a_client_hears_why_the_connection_before_this_one_ended(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    why = "slow-peer: nothing was read for 10 s"
    async with connect(broker.url) as client:
        assert client.last_end == ""
        peer = await broker.peer(0)
        peer.send(Notice([], False, 0, why).encode(bytes(16), 1))
        await until(lambda: client.last_end == why)
    assert f"the broker ended the connection before this one: {why}" in caplog.text
