"""Receivers that are away while the gateway is killed, and come back: what was answered 0 arrives."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.client_sdk.gateways.samwise.callers import publish
from tests.client_sdk.gateways.samwise.rabbitmq import START_S, RabbitNodes
from tests.conftest import StartBroker
from tests.system.samwise.conftest import StartGateway
from tests.system.samwise.gateway_program import GatewayProgram, lines_of
from tests.system.samwise.publishers import Arrival, Publishers, publishing
from tests.system.samwise.receivers import a_queue, a_service, make_queue, one_or_both, to_one_or_both
from tests.system.support.waits import WAIT_S, soon, until

OUTAGE_S: Final = float(os.environ.get("OUTAGE_S", "0"))  # `OUTAGE_S=60` takes four minutes
CALLERS_N: Final = 2
PART_N: Final = 100  # messages that are answered 0 between two events, at least

pytestmark = [pytest.mark.interop, pytest.mark.long]


async def more_are_taken(publishers: Publishers) -> None:
    """Until so many messages more have their 0."""
    at_n = len(publishers.taken) + PART_N
    await until(lambda: len(publishers.taken) >= at_n)


async def outage(gateway: GatewayProgram, publishers: Publishers) -> None:
    """While receivers are away: callers publish, the gateway is killed and started again, callers publish."""
    end_at = asyncio.get_running_loop().time() + OUTAGE_S
    await more_are_taken(publishers)
    gateway.kill()
    await asyncio.to_thread(gateway.start_again)
    await more_are_taken(publishers)
    await until(lambda: asyncio.get_running_loop().time() >= end_at, 2 * OUTAGE_S + 1)


def test_both_nodes_are_down_and_the_gateway_is_killed_meanwhile(
    start_gateway: StartGateway, nodes: RabbitNodes
) -> None:
    """Not a coroutine: nodes take longer to start than such a test may."""
    asyncio.run(soon(both_down(start_gateway, nodes), 3 * START_S + 10 * OUTAGE_S))


async def both_down(start_gateway: StartGateway, nodes: RabbitNodes) -> None:
    first: list[Arrival] = []
    second: list[Arrival] = []
    for node in nodes.nodes.values():
        await make_queue(node)
    gateway = start_gateway(*lines_of(nodes.nodes.values()))
    async with publishing(gateway.endpoint, CALLERS_N, to_one_or_both, one_or_both) as publishers:
        await more_are_taken(publishers)
        await asyncio.gather(*(asyncio.to_thread(node.stop) for node in nodes.nodes.values()))
        await outage(gateway, publishers)
        await asyncio.gather(*(asyncio.to_thread(node.go_on) for node in nodes.nodes.values()))
        await more_are_taken(publishers)
    await gateway.nothing_waits()
    async with AsyncExitStack() as stack:
        for node, arrivals in zip(nodes.nodes.values(), (first, second), strict=True):
            await stack.enter_async_context(a_queue(node, arrivals))
        arrivals_n = sum(map(one_or_both, publishers.taken))  # looked at first: all of them take their time to look at
        await until(
            lambda: len(first) + len(second) >= arrivals_n and publishers.are_there(first, second), WAIT_S + OUTAGE_S
        )
    assert publishers.refused == {}
    publishers.duplicates_n(first, second)


async def test_the_broker_is_down_and_the_gateway_is_killed_meanwhile(
    start_gateway: StartGateway, start_broker: StartBroker, socket_folder: Path
) -> None:
    url = f"unix://{socket_folder}/broker"
    broker = start_broker("--listen", url)
    async with a_service(url) as arrivals:
        gateway = start_gateway(broker=url)
        async with publishing(gateway.endpoint, CALLERS_N, publish) as publishers:
            await more_are_taken(publishers)
            broker.process.kill()
            broker.wait()
            await outage(gateway, publishers)
            await asyncio.to_thread(start_broker, "--listen", url)
            await more_are_taken(publishers)
        await gateway.nothing_waits()
    assert publishers.refused == {}
    publishers.duplicates_n(arrivals)
