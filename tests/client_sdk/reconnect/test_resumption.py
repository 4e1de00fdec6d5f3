"""Broken sockets that no call and no stream notices, through the broker of this project."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from client_sdk import Client, ConnectionLost, address, connect
from client_sdk.testing import local_broker
from tests.client_sdk.raw_broker import TO, Everything
from tests.client_sdk.samples import Held, relayed
from tests.system.support.relay import Relay


def cut(relay: Relay) -> None:
    """Its connections break; new ones get through."""
    relay.cut()
    relay.heal()


async def read_with_cuts(client: Client, relay: Relay, count: int) -> list[int]:
    found = []
    async for item in client.request_stream(TO, b"%d" % count, initial_n=7):
        found.append(int(item.data or b""))
        if len(found) % 50 == 0:
            cut(relay)
    return found


@pytest.mark.parametrize("which", ["caller", "service", "both"])
async def test_streams_channels_and_calls_go_on_over_cut_sockets(which: str) -> None:
    service, held = Everything().service, Held()
    service.request_response("slow")(held.hold)
    async with relayed() as (url, relay):
        urls = {"caller": (url, relay.url), "service": (relay.url, url), "both": (relay.url, relay.url)}[which]
        async with connect(urls[0], service=service, resume=True), connect(urls[1], resume=True) as client:
            call = asyncio.ensure_future(client.request_response(TO, b"still", route="slow"))
            await held.began.get()
            assert await read_with_cuts(client, relay, 200) == list(range(200))

            async def cutting() -> AsyncIterator[bytes]:
                for number in range(100):
                    if number % 40 == 20:
                        cut(relay)
                    yield b"%d" % number

            channel = client.request_channel(TO, cutting(), initial_n=5)
            assert [int(item.data or b"") async for item in channel] == list(range(100))
            held.released.set()
            assert (await call).data == b"still"
            assert client.is_connected


async def test_a_call_that_is_made_while_there_is_no_socket_waits_for_the_next() -> None:
    async with (
        relayed() as (url, relay),
        connect(url, service=Everything().service),
        connect(relay.url, resume=True) as client,
    ):
        relay.cut()
        await client.wait_for("reconnecting", timeout_s=5)
        call = asyncio.ensure_future(client.request_response(TO, b"x", timeout_s=5))
        await asyncio.sleep(0)
        relay.heal()
        assert (await call).data == b"x"


async def test_where_the_broker_offers_no_resumption_it_connects_without() -> None:
    held = Held()
    async with (
        relayed(limits__resume_ttl_s=0.0) as (url, relay),
        connect(url, service=held.service),
        connect(relay.url, resume=True) as client,
    ):
        call = asyncio.ensure_future(client.request_response(address("held")))
        await held.began.get()
        cut(relay)
        with pytest.raises(ConnectionLost):
            await call
        await client.wait_connected(timeout_s=5)


async def test_a_client_that_is_closed_leaves_no_session_behind() -> None:
    async with local_broker() as url:
        for _ in range(2):
            # The same Route Id: one that was only suspended would be replaced, and say so.
            route_id = "11223344-5566-7788-99aa-bbccddeeff00"
            async with (
                connect(url, service=Everything().service, resume=True, route_id=route_id),
                connect(url) as client,
            ):
                assert (await client.request_response(TO, b"x", timeout_s=5)).data == b"x"
