"""kill -9 of a gateway, again and again, while callers publish: what was answered 0 arrives, by the ids that it has."""

import asyncio
import os
import random
from contextlib import AsyncExitStack
from typing import Final

import pytest

from tests.client_sdk.gateways.samwise.callers import publish
from tests.client_sdk.gateways.samwise.rabbitmq import RabbitNodes
from tests.conftest import StartBroker
from tests.system.samwise.conftest import StartGateway
from tests.system.samwise.gateway_program import GatewayProgram, lines_of
from tests.system.samwise.publishers import Arrival, Publishers, publishing
from tests.system.samwise.receivers import a_queue, a_service, make_queue, one_or_both, to_one_or_both
from tests.system.support.waits import until

CALLERS_N: Final = 6
MOST_BETWEEN: Final = 300  # messages that are answered between two kills
KILLS_N: Final = int(os.environ.get("KILLS", "5"))  # `KILLS=25` takes half a minute for each backend

pytestmark = pytest.mark.long


async def kill_again_and_again(gateway: GatewayProgram, publishers: Publishers) -> None:
    """At moments that differ; the gateway runs at the end."""
    rng = random.Random(KILLS_N)
    for _ in range(KILLS_N):
        at_n = len(publishers.taken) + rng.randrange(1, MOST_BETWEEN)
        await until(lambda at_n=at_n: len(publishers.taken) >= at_n)  # type: ignore[misc]
        gateway.kill()
        await asyncio.to_thread(gateway.start_again)
    at_n = len(publishers.taken) + 1
    await until(lambda: len(publishers.taken) >= at_n)


def tell(publishers: Publishers, duplicates_n: int) -> None:
    """The figures of a run, for `pytest -s`."""
    taken_n, unanswered_n = len(publishers.taken), len(publishers.unanswered)
    print(
        f"\n{KILLS_N} kills, {len(publishers.asked)} messages: {taken_n} answered 0, all of them arrived; "
        f"{unanswered_n} without an answer; {duplicates_n} came again with the same id"
    )


async def test_services_get_all_that_was_answered_whenever_the_gateway_is_killed(
    start_gateway: StartGateway, start_broker: StartBroker
) -> None:
    url = start_broker().url("unix")
    async with a_service(url) as arrivals:
        gateway = start_gateway(broker=url)
        async with publishing(gateway.endpoint, CALLERS_N, publish) as publishers:
            await kill_again_and_again(gateway, publishers)
        await gateway.nothing_waits()
    assert publishers.refused == {}
    tell(publishers, publishers.duplicates_n(arrivals))


async def test_rabbitmq_gets_all_that_was_answered_whenever_the_gateway_is_killed(
    start_gateway: StartGateway, nodes: RabbitNodes
) -> None:
    first: list[Arrival] = []
    second: list[Arrival] = []
    async with AsyncExitStack() as stack:
        for node, arrivals in zip(nodes.nodes.values(), (first, second), strict=True):
            await make_queue(node)
            await stack.enter_async_context(a_queue(node, arrivals))
        gateway = start_gateway(*lines_of(nodes.nodes.values()))
        async with publishing(gateway.endpoint, CALLERS_N, to_one_or_both, one_or_both) as publishers:
            await kill_again_and_again(gateway, publishers)
        await gateway.nothing_waits()
        await until(lambda: publishers.are_there(first, second))
    assert publishers.refused == {}
    tell(publishers, publishers.duplicates_n(first, second))
