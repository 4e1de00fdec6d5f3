"""client_sdk.gateways.samwise.program: a whole gateway and two RabbitMQ brokers, from the options to the queues."""

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from broker.config.sections.samwise import RabbitmqOptions
from client_sdk.gateways.samwise.assignment import Assignment
from tests.client_sdk.gateways.samwise.callers import calling
from tests.client_sdk.gateways.samwise.rabbitmq import HOST, USER, Consumer, RabbitNodes
from tests.client_sdk.gateways.samwise.rabbitmq_deliveries import MARKS
from tests.client_sdk.gateways.samwise.whole import assigned, gateway

pytestmark = MARKS

OPTIONS = [b"text/plain", b"", b"2", b"", b"", b"", b"", b"17", b"", b"", b"", b""]
MESSAGE = [b"110", b"publish", b"redundant", b"2", b"amq.direct", b"books", b"0", b"0", b"12", *OPTIONS]


def with_nodes(folder: Path, nodes: RabbitNodes) -> Assignment:
    rabbitmq = {
        name: RabbitmqOptions(host=HOST, port=node.port, user=USER, password=USER) for name, node in nodes.nodes.items()
    }
    given = assigned(folder)
    return replace(given, brokers=(), options=replace(given.options, backend="rabbitmq", rabbitmq=rabbitmq))


async def test_what_a_caller_hands_over_arrives_once_at_each_broker(nodes: RabbitNodes, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        consumers = [await stack.enter_async_context(Consumer.at(node)) for node in nodes.nodes.values()]
        queues = [await consumer.queue("amq.direct", "books") for consumer in consumers]
        serving = await stack.enter_async_context(gateway(with_nodes(tmp_path, nodes)))
        call = await stack.enter_async_context(calling(serving.endpoints[0]))
        assert await call().ask([*MESSAGE, b"2", b"shop", b"north", b"a book"]) == [b"0"]
        for consumer, queue in zip(consumers, queues, strict=True):
            (arrived,) = await consumer.take(queue, 1)
            properties = arrived.header.properties
            assert (arrived.body, properties.content_type, properties.message_id) == (b"a book", "text/plain", "17")
            assert properties.headers is not None
            assert properties.headers["shop"] in ("north", b"north")


async def test_commands_for_brokers_are_carried_out_and_refused_with_their_reason(
    nodes: RabbitNodes, tmp_path: Path
) -> None:
    async with gateway(with_nodes(tmp_path, nodes)) as serving, calling(serving.endpoints[0]) as call:
        caller = call()
        # Until both are connected a command is refused; then it is done at both.
        while (await caller.ask([b"100", b"rpc", b"", b"exchange.declare", b"ours", b"fanout"])) != [b"0"]:
            pass
        state, text = await caller.ask([b"100", b"rpc", b"rabbit-1", b"exchange.declare", b"other", b"nonsense"])
        assert state == b"-1"
        assert b"unknown exchange type 'nonsense'" in text
        assert await caller.ask([b"100", b"rpc", b"", b"exchange.delete", b"ours"]) == [b"0"]
