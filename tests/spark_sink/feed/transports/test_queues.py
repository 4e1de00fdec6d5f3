"""spark_sink.feed.transports.amqp: what a queue of RabbitMQ is told when it is declared."""

import asyncio
from uuid import uuid4

import pytest
from aiormq.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed

from spark_sink.feed.transport import UP
from tests.client_sdk.gateways.samwise.rabbitmq import HOST, Consumer, RabbitNode
from tests.spark_sink.feed.samples import post_of
from tests.spark_sink.feed.transports.conftest import Broker
from tests.system.support.waits import until

pytestmark = pytest.mark.interop


def broker_at(node: RabbitNode) -> Broker:
    exchange = f"x{uuid4().hex[:8]}"
    return Broker(f"amqp://{HOST}:{node.port}", exchange, node.stop, node.go_on, node.port)


async def declared(broker: Broker, **settings: object) -> None:
    """A queue, which nobody consumes from when this returns."""
    source = broker.source(queue=broker.exchange, **settings)
    first = asyncio.ensure_future(source.receive())
    await until(lambda: source.state() == UP)
    first.cancel()
    await source.close()


async def messages_n(node: RabbitNode, queue: str) -> int | None:
    """None: there is no such queue."""
    async with Consumer.at(node) as consumer:
        try:
            return await consumer.count(queue)
        except ChannelNotFoundEntity:
            return None


async def test_a_post_goes_after_its_time_to_live_and_stays_without_one(rabbit: RabbitNode) -> None:
    short, lasting = broker_at(rabbit), broker_at(rabbit)
    await declared(short, message_ttl_s=0.1)
    await declared(lasting)
    for broker in (short, lasting):
        sink = broker.sink()
        await sink.send(post_of(), "v03.post")
        await sink.close()
    while await messages_n(rabbit, short.exchange):
        pass
    assert (await messages_n(rabbit, short.exchange), await messages_n(rabbit, lasting.exchange)) == (0, 1)


async def test_a_queue_that_nobody_uses_goes_after_its_time_and_stays_without_one(rabbit: RabbitNode) -> None:
    short, lasting = broker_at(rabbit), broker_at(rabbit)
    await declared(short, expire_s=0.01)
    await declared(lasting)
    while await messages_n(rabbit, short.exchange) is not None:
        pass  # each look is a use of the queue, and takes longer than it lives
    assert await messages_n(rabbit, lasting.exchange) == 0


async def test_queue_exchange_and_messages_are_such_as_survive_a_restart_of_the_broker(rabbit: RabbitNode) -> None:
    broker = broker_at(rabbit)
    await declared(broker)
    sink = broker.sink()
    await sink.send(post_of(), "v03.post")
    await sink.close()
    async with Consumer.at(rabbit) as consumer:
        (message,) = await consumer.take(broker.exchange, 1)
        assert message.header.properties.delivery_mode == 2
    # RabbitMQ refuses to declare what is there in another way.
    async with Consumer.at(rabbit) as consumer:
        with pytest.raises(ChannelPreconditionFailed, match="'durable' for queue"):
            await consumer.channel.queue_declare(broker.exchange, durable=False)
    async with Consumer.at(rabbit) as consumer:
        with pytest.raises(ChannelPreconditionFailed, match="'durable' for exchange"):
            await consumer.channel.exchange_declare(broker.exchange, exchange_type="topic", durable=False)
