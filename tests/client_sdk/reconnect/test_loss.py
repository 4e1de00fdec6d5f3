"""Connections that are refused, lost, replaced and won back."""

import asyncio
import math
from typing import Any

import pytest

from client_sdk import BadAddress, ConnectionLost, DeadlineExceeded, address, connect
from client_sdk.reconnect.backoff import Backoff
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.samples import Never, Pair, echo_service


async def test_next_url_is_tried_when_the_first_does_not_answer(broker: FakeBroker, other: FakeBroker) -> None:
    await other.stop()
    async with connect([other.url, broker.url]) as client:
        assert client.is_connected


async def test_service_comes_back_by_itself_with_the_same_route_id_and_tags(broker: FakeBroker) -> None:
    async with Pair(broker, echo_service(region="eu")) as client:
        first = await broker.peer(0)
        first.abort()
        again = await broker.peer(2)
        await again.expect(frames.KEEPALIVE)
        assert first.route is not None
        assert again.route == first.route
        assert (await client.request_response(address("echo", region="eu"), b"hello")).data == b"hello"


async def test_setup_says_what_connect_was_told(broker: FakeBroker) -> None:
    route_id = "11223344-5566-7788-99aa-bbccddeeff00"
    async with connect(
        broker.url,
        service="orders",
        tags={"region": "eu", "user": None},
        route_id=route_id,
        keepalive_s=3,
        lifetime_s=9,
    ) as client:
        peer = await broker.peer(0)
        setup, route = peer.setup, peer.route
        assert client.route_id == route_id
        assert setup is not None
        assert route is not None
        assert (setup.keep_alive_milliseconds, setup.max_lifetime_milliseconds) == (3000, 9000)
        assert bytes(setup.metadata_encoding) == b"message/x.rsocket.composite-metadata.v0"
        assert bytes(setup.data_encoding) == b"application/octet-stream"
        assert (route.service_name, route.route_id.hex()) == ("orders", route_id.replace("-", ""))
        assert {tag.key.short_name: tag.value for tag in route.tags} == {"region": "eu", "user": None}
        assert [frame.kind for frame in peer.frames[:2]] == [frames.SETUP, frames.KEEPALIVE]


async def test_close_with_a_broker_that_does_not_read_takes_a_bounded_time(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    peer = await broker.peer(0)
    peer.stop_reading()
    flood = [asyncio.create_task(client.fire_and_forget(address("x"), bytes(1 << 20))) for _ in range(20)]
    await asyncio.sleep(0.05)
    await client.close()
    peer.read_on()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_close_while_reconnecting_ends_that_too(broker: FakeBroker) -> None:
    client = await connect(broker.url)
    await broker.stop()
    await client.wait_for("reconnecting", timeout_s=5)
    with pytest.raises(DeadlineExceeded, match="no connection within"):
        await client.wait_connected(timeout_s=0.01)
    waiting = asyncio.ensure_future(client.wait_connected())
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ConnectionLost):
        await waiting


async def test_loss_during_a_channels_first_item_reaches_its_reader(broker: FakeBroker) -> None:
    never = Never()
    async with connect(broker.url) as client:
        call = asyncio.ensure_future(anext(client.request_channel(address("x"), never.items())))
        await never.began.wait()
        (await broker.peer(0)).abort()
        with pytest.raises(ConnectionLost):
            await call


def test_backoff_doubles_to_a_bound_and_never_runs_in_step() -> None:
    low, high = Backoff(lambda: 0.0), Backoff(lambda: 1.0)
    assert [low.next_s() for _ in range(6)] == [0.05, 0.1, 0.2, 0.4, 0.75, 0.75]
    assert [high.next_s() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.5, 1.5]
    high.reset()
    assert high.next_s() == 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"urls": "http://x"}, "the scheme must be one of tcp://"),
        ({"urls": "tcp://"}, "has no host"),
        ({"urls": "tcp://x:99999"}, "port"),
        ({"urls": "unix://"}, "has no path"),
        ({"urls": []}, "at least one URL"),
        *(({"urls": "tcp://x", "timeout_s": time}, "timeout_s") for time in (0, -1, math.nan)),
        *(
            ({"urls": "tcp://x", "wait_for_reconnect": time}, "it must be True, False, or seconds")
            for time in (-1, math.inf, math.nan)
        ),
        ({"urls": "tcp://x", "fragment_bytes": 63}, "fragment_bytes"),
        ({"urls": "tcp://x", "lease": (0, 1.0)}, "lease"),
        ({"urls": "tcp://x", "keepalive_s": 9, "lifetime_s": 3}, "lifetime_s"),
        ({"urls": "tcp://x", "route_id": "abc"}, "no id"),
        ({"urls": "tcp://x", "tags": {"a": "b"}}, "needs service"),
        ({"urls": "tcp://x", "handler": object}, "needs service"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_dialled(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        connect(**arguments)


def test_names_and_tags_that_no_frame_can_hold_are_refused_before_anything_is_dialled() -> None:
    for service, tags in (("", {}), ("x" * 256, {}), ("x", {"y": "z" * 128}), ("x", {f"y{n}": "" for n in range(200)})):
        with pytest.raises(BadAddress):
            connect("tcp://x", service=service, tags=tags)
