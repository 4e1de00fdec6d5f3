"""Several connections of one service: each a route of its own, spread over brokers, ended together."""

import asyncio
from typing import Any

import pytest

from client_sdk import NotConnected, connect
from client_sdk.reconnect.instance import instance_route_id
from client_sdk.serving.group import MAX_CONNECTIONS, offer
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.samples import cancel, echo_service
from tests.client_sdk.services.test_health import tags_in


async def test_each_connection_has_a_route_id_of_its_own(broker: FakeBroker) -> None:
    async with offer(broker.url, echo_service("s"), connections=3, tags={"place": "here"}) as group:
        routes = [peer.route for peer in broker.peers if peer.route is not None]
        assert len({route.route_id for route in routes}) == 3
        assert {client.route_id.replace("-", "") for client in group.clients} == {r.route_id.hex() for r in routes}
        assert [[tag.value for tag in route.tags] for route in routes] == [["here"]] * 3
    await group.closed()
    for peer in broker.peers:
        await peer.gone.wait()


async def test_an_instance_has_the_same_route_ids_in_its_next_deployment(broker: FakeBroker) -> None:
    deployed = []
    for instance in ("s-1", "s-1", "s-2"):
        async with offer(broker.url, echo_service("s"), connections=2, instance=instance) as group:
            deployed.append([client.route_id for client in group.clients])
    first, again, other = deployed
    assert first == again
    assert len({*first, *other}) == 4
    async with connect(broker.url, service="s", instance="s-1") as client:
        assert client.route_id == first[0]


def test_the_route_id_of_an_instance_never_changes() -> None:
    """Programs of other languages make the same, and those that run keep theirs when the SDK is upgraded."""
    assert str(instance_route_id("orders", "orders-1")) == "22e93642-77cc-5442-a3bd-05e49089fa92"


@pytest.mark.parametrize("options", [{}, {"service": "s", "route_id": "11223344-5566-7788-99aa-bbccddeeff00"}])
def test_an_instance_without_a_service_or_beside_a_route_id_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="instance= needs service="):
        connect("tcp://127.0.0.1:1", instance="s-1", **options)


async def test_connections_are_spread_over_the_brokers(broker: FakeBroker, other: FakeBroker) -> None:
    async with offer([broker.url, other.url], echo_service("s"), connections=4):
        assert [len(each.peers) for each in (broker, other)] == [2, 2]


async def test_a_broker_that_is_not_there_is_left_out(broker: FakeBroker, other: FakeBroker) -> None:
    await other.stop()
    async with offer([other.url, broker.url], echo_service("s"), connections=2):
        assert len(broker.peers) == 2


async def test_tags_and_health_are_told_on_all_connections(broker: FakeBroker) -> None:
    service = echo_service("s")
    async with offer(broker.url, service, connections=2):
        await service.set_tags({"version": "2"})
        await service.set_health(False)
        said = [[tags_in(frame) for frame in await peer.expect(frames.PUSH, 2)] for peer in broker.peers]
        assert said == [[{"version": "2"}, {"version": "2", "health": "out"}]] * 2


async def test_health_checks_look_once_for_all_connections(broker: FakeBroker) -> None:
    service = echo_service("s")
    looked: list[int] = []

    @service.health_check(every_s=60)
    async def look() -> bool:
        looked.append(1)
        return True

    async with offer(broker.url, service, connections=3):
        assert looked == [1]


async def test_all_are_drained_side_by_side(broker: FakeBroker, no_long_settling: None) -> None:
    group = await offer(broker.url, echo_service("s"), connections=3)
    await group.drain(timeout_s=5)
    assert [client.is_connected for client in group.clients] == [False] * 3


async def test_when_one_cannot_be_opened_none_is_left(broker: FakeBroker) -> None:
    broker.refusal = (0x003, "bad-route: no")
    with pytest.raises(Exception, match="bad-route"):
        await offer(broker.url, echo_service("s"), connections=3)
    await broker.stop()
    with pytest.raises(NotConnected):
        await offer(broker.url, echo_service("s"), connections=3)


async def test_entering_that_is_cancelled_leaves_nothing(broker: FakeBroker) -> None:
    broker.is_silent = True
    task = asyncio.ensure_future(offer(broker.url, echo_service("s"), connections=2))
    await broker.peer(1)
    await cancel(task)
    assert task.cancelled()
    for peer in broker.peers:
        await peer.gone.wait()


def test_one_that_nobody_enters_is_told() -> None:
    with pytest.warns(RuntimeWarning, match=r"offer\(...\) was never awaited: write `async with offer"):
        offer("tcp://127.0.0.1:1", echo_service("s"))


@pytest.mark.parametrize(
    "options, text",
    [
        ({"connections": 0}, "connections is 0"),
        ({"connections": MAX_CONNECTIONS + 1}, "connections is 257"),
        ({"route_id": "11223344-5566-7788-99aa-bbccddeeff00"}, "each of several needs its own Route Id"),
        ({"keepalive_s": -1}, "keepalive_s"),
        ({"instance": ""}, "instance='' must have 1..255 characters"),
        ({"instance": "a\0b"}, "none of them NUL"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_opened(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        offer("tcp://127.0.0.1:1", echo_service("s"), **options)
    with pytest.raises(ValueError, match="at least one URL"):
        offer([], echo_service("s"))
