"""Who gets messages and keeps them: a service at a broker, a queue of a RabbitMQ node. Both acknowledge at once."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiormq.abc import DeliveredMessage

from client_sdk import Request, Service, connect
from client_sdk.gateways.samwise.backends.services import PROPERTIES_MIME
from client_sdk.gateways.samwise.values import ID_HEADER
from tests.client_sdk.gateways.samwise.rabbitmq import Consumer, RabbitNode
from tests.system.samwise.publishers import Arrival

SERVICE: Final = "orders"
ROUTE: Final = "new"
QUEUE: Final = "receivers"  # of each node; it and what is in it outlive a restart of the node
EXCHANGE: Final = "amq.direct"


@asynccontextmanager
async def a_service(url: str) -> AsyncIterator[list[Arrival]]:
    """What came to one route of the service; it connects again by itself."""
    arrivals: list[Arrival] = []
    service = Service(SERVICE)

    @service.request_response(ROUTE)
    async def take(request: Request) -> bytes:
        properties = json.loads(request.entry(PROPERTIES_MIME) or b"")
        arrivals.append((request.data, properties[ID_HEADER]))
        return b""

    async with connect(url, service=service):
        yield arrivals


def to_queue(payload: bytes, acks_n: int) -> list[bytes]:
    """The request that publishes this to QUEUE of so many nodes; a node keeps it over its restart."""
    distribution = [b"redundant", b"%d" % acks_n] if acks_n > 1 else [b"round robin"]
    options = [b"", b"", b"2", *[b""] * 9]
    to = [EXCHANGE.encode(), QUEUE.encode(), b"0", b"0", b"12"]
    return [b"110", b"publish", *distribution, *to, *options, b"0", payload]


def one_or_both(payload: bytes) -> int:
    """How many nodes get this of `publishers`: every second message goes to both."""
    return 1 + int(payload.rpartition(b"-")[2]) % 2


def to_one_or_both(payload: bytes) -> list[bytes]:
    """The request that publishes this to so many."""
    return to_queue(payload, one_or_both(payload))


async def make_queue(node: RabbitNode) -> None:
    """Makes QUEUE, which has nothing in it then."""
    async with Consumer.at(node) as consumer:
        await consumer.channel.queue_declare(QUEUE, durable=True)
        await consumer.channel.queue_bind(QUEUE, EXCHANGE, QUEUE)
        await consumer.channel.queue_purge(QUEUE)


@asynccontextmanager
async def a_queue(node: RabbitNode, arrivals: list[Arrival]) -> AsyncIterator[None]:
    """Puts what comes to QUEUE into the list, and what waited there."""

    async def take(message: DeliveredMessage) -> None:
        headers = message.header.properties.headers
        assert headers is not None
        uid = headers[ID_HEADER]
        assert isinstance(uid, str)
        arrivals.append((message.body, uid))

    async with Consumer.at(node) as consumer:
        await consumer.channel.basic_consume(QUEUE, take, no_ack=True)
        yield
