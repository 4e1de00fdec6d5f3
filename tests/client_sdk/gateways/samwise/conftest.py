"""Two RabbitMQ nodes, one by one and together."""

from collections.abc import AsyncIterator

import pytest

from client_sdk.gateways.samwise.backends.rabbitmq import RabbitBackend
from tests.client_sdk.gateways.samwise.rabbitmq import Consumer, RabbitNode, RabbitNodes
from tests.client_sdk.gateways.samwise.rabbitmq_deliveries import broker_of, started


@pytest.fixture
def first(rabbit: RabbitNode) -> RabbitNode:
    return rabbit


@pytest.fixture
def second(nodes: RabbitNodes) -> RabbitNode:
    return nodes.nodes["rabbit-2"]


@pytest.fixture
async def both(nodes: RabbitNodes) -> AsyncIterator[RabbitBackend]:
    """Delivers to both."""
    backend = RabbitBackend([broker_of(node) for node in nodes.nodes.values()])
    await started(backend, 2)
    yield backend
    await backend.close()


@pytest.fixture
async def consumer(first: RabbitNode) -> AsyncIterator[Consumer]:
    """At the first node."""
    async with Consumer.at(first) as connected:
        yield connected
