"""What a client offers: changed tags are told on the same connection, and said again by each reconnect."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from client_sdk import BadAddress, Service, address, connect, sync
from client_sdk.errors import ConnectionLost
from client_sdk.services import advertisement as module
from client_sdk.services.advertisement import Advertisement
from client_sdk.testing import sync_local_broker
from rsocket_wire.rsocket.frames import Setup
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.frames import Frame
from tests.client_sdk.samples import echo_service, relayed
from tests.client_sdk.services.test_health import tags_in, tags_of

ROUTE_ID = bytes(range(16))
MIME = "message/x.rsocket.forwarding"


class Line:
    """A connection that keeps what is pushed; it may be lost."""

    def __init__(self) -> None:
        self.reason: Any = None
        self.ended = asyncio.Event()
        self.pushed: list[dict[str, str | None]] = []

    async def metadata_push(self, metadata: bytes) -> None:
        if self.reason is not None:
            raise self.reason
        self.pushed.append(tags_in(Frame(0, frames.PUSH, 0, metadata)))

    def leave(self) -> None:
        self.ended.set()


def offer_of(service: str | Service = "s", tags: dict[str, str | None] | None = None) -> tuple[Advertisement, Line]:
    """One that has just connected."""
    made = Advertisement(service, tags, ROUTE_ID, MIME, None)
    line = Line()
    made.opened(line, made.setup_of(Setup("x", "y", 1, 1, b"rest")))
    return made, line


async def test_changed_tags_are_said_once_on_the_same_connection_with_the_same_route_id(broker: FakeBroker) -> None:
    service = Service("s", tags={"version": "1", "color": "red"})
    async with connect(broker.url, service=service, tags={"place": "here"}) as client:
        peer = await broker.peer(0)
        assert tags_of(peer) == {"version": "1", "color": "red", "place": "here"}
        await service.set_tags({"version": "2"})
        await service.set_tags({"version": "2"})
        await client.set_tags({"place": "there", "weight": "3"})
        said = [tags_in(frame) for frame in await peer.expect(frames.PUSH, 2)]
        assert said == [{"version": "2", "place": "here"}, {"version": "2", "place": "there", "weight": "3"}]
        assert len(broker.peers) == 1


async def test_each_reconnect_says_what_is_true_then(broker: FakeBroker) -> None:
    service = Service("s", tags={"version": "1"})
    async with connect(broker.url, service=service):
        first = await broker.peer(0)
        await service.set_tags({"version": "2"})
        await first.expect(frames.PUSH)
        first.abort()
        second = await broker.peer(1)
        await second.expect(frames.KEEPALIVE)
        assert (tags_of(second), second.of(frames.PUSH)) == ({"version": "2"}, [])
        assert first.route is not None
        assert second.route is not None
        assert second.route.route_id == first.route.route_id


async def test_what_changes_without_a_connection_is_said_by_the_next_one(broker: FakeBroker) -> None:
    service = Service("s", tags={"version": "1"})
    async with connect(broker.url, service=service) as client:
        await broker.stop()
        await client.wait_for("reconnecting", timeout_s=5)
        await service.set_tags({"version": "2"})
        await broker.start(broker.port)
        await (await broker.peer(1)).expect(frames.KEEPALIVE)
        assert tags_of(await broker.peer(1)) == {"version": "2"}


async def test_what_changes_while_a_connection_is_opened_is_said_behind_its_setup() -> None:
    service = Service("s", tags={"version": "1"})
    made = Advertisement(service, None, ROUTE_ID, MIME, None)
    setup = made.setup_of(Setup("x", "y", 1, 1, b"rest"))
    assert (setup.metadata or b"").endswith(b"rest")
    service._tags = {"version": "2"}
    line = Line()
    made.opened(line, setup)
    while not line.pushed:
        await asyncio.sleep(0)
    await made.end()
    assert line.pushed == [{"version": "2"}]


async def test_what_was_told_is_told_again_on_a_session_that_was_resumed() -> None:
    made, line = offer_of()
    made.resumed()  # nothing was told but in the SETUP, which the session still has
    made.set_tags({"n": "1"})
    await made.tell()
    made.resumed()
    while len(line.pushed) < 2:
        await asyncio.sleep(0)
    await made.end()
    assert line.pushed == [{"n": "1"}, {"n": "1"}]


async def test_changes_that_come_too_fast_for_a_broker_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAY_EVERY_S", 0.3)
    made, line = offer_of()
    loop = asyncio.get_running_loop()
    begin_at = loop.time()
    told = []
    for number in range(100):
        made.set_tags({"n": str(number)})
        told.append(asyncio.ensure_future(made.tell()))
        await asyncio.sleep(0)
    await asyncio.gather(*told)
    assert line.pushed == [{"n": "0"}, {"n": "99"}]
    assert loop.time() - begin_at >= 0.3


async def test_a_connection_that_is_lost_meanwhile_is_no_error() -> None:
    made, line = offer_of()
    line.reason = ConnectionLost("gone")
    made.set_tags({"n": "1"})
    await made.tell()
    assert line.pushed == []


async def test_tags_that_cannot_be_said_are_refused_and_change_nothing(broker: FakeBroker) -> None:
    service = Service("s", tags={"version": "1"})
    async with connect(broker.url, service=service, tags={"place": "here"}) as client:
        for wrong in ({"x" * 200: "1"}, {"version": "x" * 200}):
            with pytest.raises(BadAddress):
                await service.set_tags(wrong)
            with pytest.raises(BadAddress):
                await client.set_tags(wrong)
        assert service.tags == {"version": "1"}
        await service.set_tags({})
        peer = await broker.peer(0)
        assert [tags_in(frame) for frame in await peer.expect(frames.PUSH)] == [{"place": "here"}]


async def test_a_caller_has_no_tags(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        with pytest.raises(ValueError, match="offers no service"):
            await client.set_tags({"a": "b"})


async def test_tags_that_change_while_a_session_is_broken_are_those_of_the_resumed_one() -> None:
    service = echo_service("s", version="1")

    async with (
        relayed() as (url, relay),
        connect(relay.url, service=service, resume=True) as server,
        connect(url) as client,
    ):
        relay.cut()
        await service.set_tags({"version": "2"})
        await server.wait_for("reconnecting", timeout_s=5)
        relay.heal()
        await server.wait_for("connected", timeout_s=5)
        await url.wait_for_routes("s", version="2")
        answer = await client.request_response(address("s", version="2"), b"2")
        assert answer.data == b"2"


def test_a_service_of_a_blocking_client_is_told_from_any_event_loop() -> None:
    service = Service("s", tags={"version": "1"})

    async def ended(work: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(5):
            await work

    with sync_local_broker() as broker, sync.connect(broker, service=service) as client:
        asyncio.run(ended(service.set_tags({"version": "2"})))
        broker.wait_for_routes("s", version="2")
        asyncio.run(ended(service.set_health(False, "the disk is full")))
        broker.wait_for_routes("s", health="out")
        asyncio.run(ended(service.drain(1)))
        assert (client.state, broker.routes("s")) == ("closed", [])
