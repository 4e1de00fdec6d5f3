import asyncio
import random

import pytest

from client_sdk.gateways.samwise.backends.backend import NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq import RabbitBackend
from client_sdk.gateways.samwise.values import DECLARE, DELETE, OPTIONS, Publish, Refused, Rpc
from tests.client_sdk.gateways.samwise.messages import publish_to, stored
from tests.client_sdk.gateways.samwise.rabbitmq import (
    FRAME_MAX,
    USER,
    Consumer,
    RabbitNode,
    RabbitNodes,
)
from tests.client_sdk.gateways.samwise.rabbitmq_deliveries import (
    MARKS,
    broker_of,
    deliver,
    details,
    outcomes,
)
from tests.system.support.waits import soon

pytestmark = MARKS
NAMES = tuple(FRAME_MAX)


async def test_all_options_and_headers_arrive_as_they_were_given(both: RabbitBackend, consumer: Consumer) -> None:
    texts = {name: f"the {name}" for name in OPTIONS if name not in ("delivery_mode", "priority", "cluster_id")}
    options = {**texts, "delivery_mode": "2", "priority": "7", "expiration": "60000", "user_id": USER}
    headers = (("shop", "Käthe".encode()), ("raw", b"\xff\x00"), ("empty", b""))
    queue = await consumer.queue("amq.direct", "key")
    message = stored(publish_to("amq.direct", "key", b"body", options=options, headers=headers))
    both.check(message.publish)
    await both.check_mandatory(message.publish)
    assert await soon(both.deliver(message, "rabbit-1")) == "rabbit-1"
    [arrived] = await consumer.take(queue, 1)
    found = dict(arrived.header.properties)
    assert found == {
        **{name: value for name, value in texts.items() if name != "type"},
        "message_type": "the type",
        "delivery_mode": 2,
        "priority": 7,
        "expiration": "60000",
        "user_id": USER,
        "timestamp": None,
        "cluster_id": "",
        "headers": {"x-samwise-id": message.uid, "shop": "Käthe", "raw": bytearray(b"\xff\x00"), "empty": ""},
    }
    assert arrived.body == b"body"


async def test_what_was_not_given_does_not_arrive(both: RabbitBackend, consumer: Consumer) -> None:
    queue = await consumer.queue()
    message = stored(publish_to("", queue))
    await soon(both.deliver(message, "rabbit-1"))
    [arrived] = await consumer.take(queue, 1)
    said = {name: value for name, value in arrived.header.properties if value not in (None, "")}
    assert said == {"headers": {"x-samwise-id": message.uid}}
    assert arrived.body == b""


@pytest.mark.parametrize("name", NAMES)
async def test_bodies_longer_than_a_frame_arrive_whole(both: RabbitBackend, nodes: RabbitNodes, name: str) -> None:
    payload = bytes(number % 251 for number in range(1_000_003))
    async with Consumer.at(nodes.nodes[name]) as consumer:
        queue = await consumer.queue()
        assert await outcomes(deliver(both, name, routing_key=queue, payload=payload)) == [name]
        assert await consumer.bodies(queue, 1) == [payload]


async def test_headers_longer_than_a_frame_of_a_broker_cost_their_own_message_only(both: RabbitBackend) -> None:
    before = details(both)
    message = stored(publish_to("amq.direct", headers=(("long", b"x" * 10_000),)))
    assert await soon(both.deliver(message, "rabbit-1")) == "rabbit-1"
    with pytest.raises(
        NotDelivered, match=r"rabbit-2: options and headers have \d+ bytes, the broker's frame_max is 8192"
    ):
        await soon(both.deliver(message, "rabbit-2"))
    assert await outcomes(deliver(both, "rabbit-2", exchange="amq.direct")) == ["rabbit-2"]
    assert details(both) == before


async def test_messages_arrive_in_the_order_of_the_calls_over_several_exchanges(
    both: RabbitBackend, consumer: Consumer
) -> None:
    queue = await consumer.queue("amq.direct", "key")
    await consumer.channel.queue_bind(queue, "amq.fanout")
    await consumer.channel.queue_bind(queue, "amq.topic", "#")
    exchanges = ["amq.direct", "amq.fanout", "amq.topic"]
    numbers = range(500)
    assert await outcomes(
        *(deliver(both, exchange=exchanges[n // 7 % 3], routing_key="key", payload=b"%d" % n) for n in numbers)
    ) == ["rabbit-1"] * len(numbers)
    assert await consumer.bodies(queue, len(numbers)) == [b"%d" % n for n in numbers]


async def test_a_message_for_both_is_once_at_each(both: RabbitBackend, consumer: Consumer, second: RabbitNode) -> None:
    async with Consumer.at(second) as other:
        queues = [await each.queue("amq.fanout") for each in (consumer, other)]
        message = stored(publish_to("amq.fanout", payload=b"for all"))
        names = await both.destinations(message)
        assert names == list(NAMES)
        assert await soon(asyncio.gather(*(both.deliver(message, name) for name in names))) == list(NAMES)
        arrived = [*await consumer.take(queues[0], 1), *await other.take(queues[1], 1)]
        assert [each.header.properties.headers for each in arrived] == [{"x-samwise-id": message.uid}] * 2


async def test_forty_messages_by_turns_are_twenty_at_each(
    both: RabbitBackend, consumer: Consumer, second: RabbitNode
) -> None:
    async with Consumer.at(second) as other:
        queues = [await each.queue("amq.fanout") for each in (consumer, other)]
        tasks = [deliver(both, NAMES[n % 2], exchange="amq.fanout", payload=b"%d" % n) for n in range(40)]
        assert await outcomes(*tasks) == list(NAMES) * 20
        assert await consumer.bodies(queues[0], 20) == [b"%d" % n for n in range(0, 40, 2)]
        assert await other.bodies(queues[1], 20) == [b"%d" % n for n in range(1, 40, 2)]


@pytest.mark.parametrize(
    ("exchange", "fault"),
    [
        ("there-is-none", "rabbit-1: NOT_FOUND - no exchange 'there-is-none' in vhost '/'"),
        (
            "amq.rabbitmq.trace",
            "rabbit-1: ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
        ),
    ],
)
async def test_an_exchange_that_takes_nothing_costs_its_own_messages_only(
    both: RabbitBackend, consumer: Consumer, exchange: str, fault: str
) -> None:
    """The others arrive once, and in their order."""
    queue = await consumer.queue("amq.direct", "key")
    tasks = [
        deliver(both, exchange=exchange if n % 10 == 5 else "amq.direct", routing_key="key", payload=b"%d" % n)
        for n in range(100)
    ]
    assert await outcomes(*tasks) == [fault if n % 10 == 5 else "rabbit-1" for n in range(100)]
    assert await consumer.bodies(queue, 90) == [b"%d" % n for n in range(100) if n % 10 != 5]


async def test_an_exchange_that_is_made_later_is_found_then(both: RabbitBackend, consumer: Consumer) -> None:
    queue = await consumer.queue()
    [fault] = await outcomes(deliver(both, exchange="later"))
    assert "NOT_FOUND" in fault
    await both.rpc(Rpc(version=110, broker="rabbit-1", action=DECLARE, name="later", type="fanout"))
    await consumer.channel.queue_bind(queue, "later")
    assert await outcomes(deliver(both, exchange="later", payload=b"now")) == ["rabbit-1"]
    assert await consumer.bodies(queue, 1) == [b"now"]
    await both.rpc(Rpc(version=110, broker="rabbit-1", action=DELETE, name="later"))


async def test_an_exchange_that_others_delete_costs_its_own_messages_only(
    both: RabbitBackend, consumer: Consumer
) -> None:
    """Many are in flight then, to it and to others; these are not lost, and fail not."""
    await consumer.channel.exchange_declare("passing", exchange_type="fanout")
    queue = await consumer.queue("amq.direct", "key")
    warm = [deliver(both, exchange=exchange, routing_key="key", payload=b"0") for exchange in ("passing", "amq.direct")]
    assert await outcomes(*warm) == ["rabbit-1"] * 2
    await consumer.channel.exchange_delete("passing")
    tasks = [
        deliver(both, exchange="passing" if n % 10 == 5 else "amq.direct", routing_key="key", payload=b"%d" % n)
        for n in range(1, 101)
    ]
    fault = "rabbit-1: NOT_FOUND - no exchange 'passing' in vhost '/'"
    assert await outcomes(*tasks) == [fault if n % 10 == 5 else "rabbit-1" for n in range(1, 101)]
    arrived = await consumer.bodies(queue, await consumer.count(queue))
    assert {int(each) for each in arrived} == {n for n in range(101) if n % 10 != 5}


def random_publish(chance: random.Random) -> Publish:
    """Whatever a caller may say, much of it odd."""

    def text(longest: int) -> str:
        letters = chance.choice(["abc.#*", "éü中\U0001f600", "\x01\x7f\x1b\n\t ", "0123456789"])
        found = "".join(chance.choice(letters) for _ in range(chance.choice((0, 1, 5, 60, 255))))
        return found.encode()[:longest].decode(errors="ignore")

    own = {
        "delivery_mode": ("1", "2", "3"),
        "priority": ("0", "255", "007", "256"),
        "expiration": ("0", "60000", "315360000000", "315360000001", "9" * 18),
        "user_id": (USER, "bob"),
        "reply_to": ("amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.x"),
        "cluster_id": ("", "", "c"),
    }
    said = {name: chance.choice(own.get(name, (text(255),))) for name in OPTIONS if chance.random() < 0.2}
    names = ("x-death", "x-match", "x-delay", "CC", "cc", "$", "traceparent", text(128) or "k")
    headers = {chance.choice(names): chance.choice((b"", b"\xff\0", b"all", b"5")) for _ in range(chance.randrange(4))}
    return publish_to(
        chance.choice(("amq.direct", "amq.topic", "amq.fanout", "amq.headers")),
        text(255),
        chance.choice((b"", b"x", b"y" * 9_000)),
        options={name: value for name, value in said.items() if value},
        headers=tuple(headers.items()),
        mandatory=chance.random() < 0.1,
    )


async def test_whatever_is_not_refused_closes_no_channel(both: RabbitBackend) -> None:
    chance = random.Random(1)
    taken_n = refused_n = 0
    while taken_n < 300:
        publish = random_publish(chance)
        try:
            both.check(publish)
        except Refused:
            refused_n += 1
            continue
        (said,) = await outcomes(asyncio.ensure_future(both.deliver(stored(publish), "rabbit-1")))
        assert said in ("rabbit-1", "rabbit-1: unroutable: 312 NO_ROUTE")
        taken_n += 1
    assert refused_n > 100


async def test_a_message_of_which_nobody_knew_that_it_closes_the_channel_fails_alone(
    both: RabbitBackend, consumer: Consumer
) -> None:
    """RabbitMQ does not say which one it was."""
    queue = await consumer.queue()
    tasks = [deliver(both, routing_key=queue, payload=bytes(2_000_001) if n == 25 else b"%d" % n) for n in range(50)]
    said = await outcomes(*tasks)
    assert said.pop(25).startswith("rabbit-1: PRECONDITION_FAILED - message size 2000001 is larger than configured max")
    assert said == ["rabbit-1"] * 49
    arrived = await consumer.bodies(queue, await consumer.count(queue))
    assert {int(each) for each in arrived} == set(range(50)) - {25}


async def test_what_is_published_while_the_channel_closes_disturbs_not_even_the_connection(
    both: RabbitBackend, consumer: Consumer
) -> None:
    queue = await consumer.queue()
    before = details(both)
    tasks: list[asyncio.Task[str]] = []
    for n in range(1200):
        tasks.append(deliver(both, routing_key=queue, payload=bytes(2_000_001) if n % 60 == 30 else b"%d" % n))
        await asyncio.sleep(0)  # so that something is written all the time
    said = await outcomes(*tasks)
    assert {n for n, each in enumerate(said) if each != "rabbit-1"} == set(range(30, 1200, 60))
    arrived = await consumer.bodies(queue, await consumer.count(queue))
    assert {int(each) for each in arrived} == {n for n in range(1200) if n % 60 != 30}
    assert details(both) == before


async def test_a_mandatory_message_without_a_queue_is_not_acknowledged_and_later_is(
    both: RabbitBackend, consumer: Consumer
) -> None:
    queue = await consumer.queue("amq.direct", "key")
    options = {"message_id": "the same"}  # of all: not by this one is it known which came back
    keys = ["key", "nowhere", "key"]
    tasks = [deliver(both, exchange="amq.direct", routing_key=key, mandatory=True, options=options) for key in keys]
    assert await outcomes(*tasks) == ["rabbit-1", "rabbit-1: unroutable: 312 NO_ROUTE", "rabbit-1"]
    assert len(await consumer.take(queue, 2)) == 2
    await consumer.channel.queue_bind(queue, "amq.direct", "nowhere")
    assert await outcomes(deliver(both, exchange="amq.direct", routing_key="nowhere", mandatory=True)) == ["rabbit-1"]


async def test_a_delivery_that_nobody_waits_for_any_more_disturbs_nothing(
    both: RabbitBackend, consumer: Consumer
) -> None:
    queue = await consumer.queue()
    tasks = [deliver(both, routing_key=queue, payload=b"%d" % n) for n in range(100)]
    await asyncio.sleep(0)  # all are begun
    for task in tasks[::2]:
        task.cancel()
    assert await outcomes(*tasks[1::2]) == ["rabbit-1"] * 50
    arrived = await consumer.bodies(queue, await consumer.count(queue))
    assert [each for each in arrived if int(each) % 2] == [b"%d" % n for n in range(1, 100, 2)]
    assert [state.waiting_n for state in both.state()] == [0, 0]


async def test_rpc_declares_and_deletes_at_the_named_broker_only(
    both: RabbitBackend, consumer: Consumer, second: RabbitNode
) -> None:
    await both.rpc(Rpc(version=110, broker="rabbit-2", action=DECLARE, name="theirs", type="topic"))
    async with Consumer.at(second) as other:
        await other.channel.exchange_declare("theirs", exchange_type="topic")  # as it is: neither durable nor internal
        [fault] = await outcomes(deliver(both, exchange="theirs"))
        assert "NOT_FOUND" in fault
        await both.rpc(Rpc(version=110, broker="rabbit-2", action=DELETE, name="theirs"))
        await other.channel.exchange_declare("theirs", exchange_type="fanout")  # it was gone, so it may be another
        await other.channel.exchange_delete("theirs")


async def test_rpc_without_a_broker_is_for_all(both: RabbitBackend) -> None:
    await both.rpc(Rpc(version=110, broker="", action=DECLARE, name="ours", type="direct"))
    assert await outcomes(*(deliver(both, name, exchange="ours") for name in NAMES)) == list(NAMES)
    await both.rpc(Rpc(version=110, broker="", action=DELETE, name="ours"))
    faults = await outcomes(*(deliver(both, name, exchange="ours") for name in NAMES))
    assert faults == [f"{name}: NOT_FOUND - no exchange 'ours' in vhost '/'" for name in NAMES]


@pytest.mark.parametrize("name", ["System.List`1[[A, B]]:mine", "größe!", "it's\x01", "e" * 255])
async def test_an_exchange_may_have_any_name_that_rabbitmq_takes(both: RabbitBackend, name: str) -> None:
    both.check(publish_to(name))
    await both.rpc(Rpc(version=110, broker="rabbit-1", action=DECLARE, name=name, type="direct"))
    assert await outcomes(deliver(both, exchange=name)) == ["rabbit-1"]
    await both.rpc(Rpc(version=110, broker="rabbit-1", action=DELETE, name=name))
    (fault,) = await outcomes(deliver(both, exchange=name))
    assert fault.startswith("rabbit-1: NOT_FOUND - no exchange '")


@pytest.mark.parametrize(
    ("broker", "action", "name", "type", "fault"),
    [
        ("rabbit-1", DECLARE, "e", "nonsense", "rabbit-1: COMMAND_INVALID - unknown exchange type 'nonsense'"),
        ("rabbit-2", DECLARE, "amq.mine", "direct", "rabbit-2: ACCESS_REFUSED - exchange name 'amq.mine' contains"),
        (
            "",
            DECLARE,
            "amq.direct",
            "fanout",
            "rabbit-1: PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received "
            "'fanout' but current is 'direct'. rabbit-2: PRECONDITION_FAILED - inequivalent arg 'type'",
        ),
        ("rabbit-1", DELETE, "amq.direct", "", "rabbit-1: ACCESS_REFUSED - deletion of system exchange 'amq.direct'"),
        (
            "",
            DECLARE,
            "e\r",
            "direct",
            "exchange 'e\\r' has a line feed or a carriage return, which RabbitMQ leaves out",
        ),
        ("rabbit-3", DELETE, "e", "", "there is no broker 'rabbit-3', there are: rabbit-1, rabbit-2"),
    ],
)
async def test_what_rabbitmq_refuses_is_refused_in_its_words_and_disturbs_nothing(
    both: RabbitBackend, consumer: Consumer, broker: str, action: str, name: str, type: str, fault: str
) -> None:
    queue = await consumer.queue()
    before = details(both)
    tasks = [deliver(both, routing_key=queue) for _ in range(50)]
    with pytest.raises(Refused) as refused:
        await soon(both.rpc(Rpc(version=110, broker=broker, action=action, name=name, type=type)))
    assert refused.value.text.startswith(f"malformed rpc request: {fault}")
    assert refused.value.reason == "backend"
    assert await outcomes(*tasks) == ["rabbit-1"] * 50
    assert len(await consumer.take(queue, 50)) == 50
    assert details(both) == before  # the connections are the same


async def test_declare_durable_makes_durable_exchanges(first: RabbitNode, consumer: Consumer) -> None:
    backend = RabbitBackend([broker_of(first)], declare_durable=True)
    await backend.rpc(Rpc(version=110, broker="", action=DECLARE, name="lasting", type="direct"))
    await consumer.channel.exchange_declare("lasting", exchange_type="direct", durable=True)
    await backend.rpc(Rpc(version=110, broker="", action=DELETE, name="lasting"))
    await backend.close()
