import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiormq import Connection

from client_sdk.gateways.samwise.backends.backend import NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq import RabbitBackend, RabbitBroker
from client_sdk.gateways.samwise.backends.rabbitmq_link import BLOCKED
from client_sdk.gateways.samwise.delivery import Retry
from client_sdk.gateways.samwise.gateway import Gateway
from client_sdk.gateways.samwise.store import OS, Store
from client_sdk.gateways.samwise.values import DECLARE, DELETE, OPTIONS, REDUNDANT, Refused, Reply, Request, Rpc
from tests.client_sdk.gateways.samwise.rabbitmq import (
    CERTIFICATE,
    HOST,
    START_S,
    USER,
    Consumer,
    RabbitNode,
    RabbitNodes,
    free_port,
)
from tests.client_sdk.gateways.samwise.samples import publish, stored
from tests.system.support.waits import soon, until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
NAMES = ("rabbit-1", "rabbit-2")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNodes]:
    with RabbitNodes(tmp_path_factory.mktemp("rabbitmq")) as started:
        yield started


@pytest.fixture
def first(nodes: RabbitNodes) -> RabbitNode:
    return nodes.nodes["rabbit-1"]


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


def broker_of(node: RabbitNode, **others: Any) -> RabbitBroker:
    return RabbitBroker(**{"name": node.name, "host": HOST, "port": node.port, **others})


def certificate() -> str:
    text = CERTIFICATE.read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


async def started(backend: RabbitBackend, up_n: int) -> None:
    await backend.start(lambda: None)
    await until(lambda: sum(state.is_up for state in backend.state()) == up_n)


def details(backend: RabbitBackend) -> list[str]:
    return [state.detail for state in backend.state()]


async def outcomes(*deliveries: "asyncio.Task[str]") -> list[str]:
    """What each delivery came to: the name of who has it, or why nobody has."""
    said = await soon(asyncio.gather(*deliveries, return_exceptions=True))
    return [each if isinstance(each, str) else str(each) for each in said]


@contextlib.asynccontextmanager
async def gateway_over(nodes: Iterable[RabbitNode], folder: Path) -> AsyncIterator[Gateway]:
    """A gateway with a store, all of whose brokers are up."""
    backend = RabbitBackend([broker_of(node) for node in nodes])
    retry = Retry(tries=2, interval_s=0.2, threshold_s=10)
    gateway = Gateway(Store(folder / "store", durability=OS), backend, retry=retry)
    await gateway.start()
    try:
        await until(lambda: all(state.is_up for state in backend.state()))
        yield gateway
    finally:
        await gateway.stop()


def deliver(backend: RabbitBackend, to: str = "rabbit-1", **fields: Any) -> "asyncio.Task[str]":
    """One more delivery; begun in the order of these calls."""
    return asyncio.ensure_future(backend.deliver(stored(publish(**fields)), to))


async def test_all_options_and_headers_arrive_as_they_were_given(both: RabbitBackend, consumer: Consumer) -> None:
    texts = {name: f"the {name}" for name in OPTIONS if name not in ("delivery_mode", "priority", "cluster_id")}
    options = {**texts, "delivery_mode": "2", "priority": "7", "expiration": "60000", "user_id": USER}
    headers = (("shop", "Käthe".encode()), ("raw", b"\xff\x00"), ("empty", b""))
    queue = await consumer.queue("amq.direct", "key")
    message = stored(publish("amq.direct", "key", b"body", options=options, headers=headers))
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
    message = stored(publish("", queue))
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
    message = stored(publish("amq.direct", headers=(("long", b"x" * 10_000),)))
    assert await soon(both.deliver(message, "rabbit-1")) == "rabbit-1"
    with pytest.raises(
        NotDelivered, match=r"rabbit-2: options and headers have \d+ bytes, the broker's frame_max is 8192"
    ) as failed:
        await soon(both.deliver(message, "rabbit-2"))
    assert failed.value.is_hopeless
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
        message = stored(publish("amq.fanout", payload=b"for all"))
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
        ("rabbit-1", DECLARE, "a!", "direct", "rabbit-1: Invalid value for exchange"),
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


async def test_a_broker_that_cannot_be_reached_is_down_and_the_others_work(first: RabbitNode) -> None:
    away = RabbitBroker(name="away", host=HOST, port=free_port())
    changes: list[str] = []
    backend = RabbitBackend([away, broker_of(first)])
    await backend.start(lambda: changes.append("changed"))
    await until(lambda: backend.state()[1].is_up and "Connect call failed" in backend.state()[0].detail)
    message = stored(publish("amq.direct"))
    assert await backend.destinations(message) == ["rabbit-1"]
    assert changes == ["changed"]
    with pytest.raises(NotDelivered, match="away: ") as failed:
        await backend.deliver(message, "away")
    assert failed.value.is_away
    with pytest.raises(Refused, match="malformed rpc request: away: "):
        await soon(backend.rpc(Rpc(version=110, broker="away", action=DELETE, name="e")))
    assert await soon(backend.deliver(message, "rabbit-1")) == "rabbit-1"
    await backend.close()


@pytest.mark.parametrize(
    ("others", "fault"),
    [
        ({"password": "wrong"}, "ACCESS_REFUSED"),
        ({"vhost": "no/such one"}, "virtual host 'no/such one' does not exist, or is not for user 'guest', or is full"),
    ],
)
async def test_a_broker_that_does_not_let_the_gateway_in_is_down_with_its_reason(
    first: RabbitNode, others: dict[str, str], fault: str
) -> None:
    backend = RabbitBackend([broker_of(first, **others)])
    await backend.start(lambda: None)
    await until(lambda: fault in details(backend)[0])
    assert await backend.destinations(stored(publish())) == []
    await backend.close()


async def test_a_broker_is_reached_over_tls(first: RabbitNode, consumer: Consumer) -> None:
    queue = await consumer.queue()
    trusting = ssl.create_default_context(cadata=ssl.PEM_cert_to_DER_cert(certificate()))
    backend = RabbitBackend([broker_of(first, port=first.tls_port, tls=trusting)])
    await started(backend, 1)
    assert await outcomes(deliver(backend, routing_key=queue, payload=b"by TLS")) == ["rabbit-1"]
    assert await consumer.bodies(queue, 1) == [b"by TLS"]
    await backend.close()


async def test_a_broker_with_an_unknown_certificate_is_down(first: RabbitNode) -> None:
    backend = RabbitBackend([broker_of(first, port=first.tls_port, tls=ssl.create_default_context())])
    await backend.start(lambda: None)
    await until(lambda: "certificate verify failed" in details(backend)[0])
    await backend.close()


async def test_a_broker_that_is_low_on_memory_is_down_until_it_takes_messages_again(
    first: RabbitNode, both: RabbitBackend, consumer: Consumer
) -> None:
    queue = await consumer.queue()
    first.limit_memory(1e-9)
    try:
        said = ["rabbit-1"]
        while said[-1] == "rabbit-1":  # the node needs a moment to notice
            said += await outcomes(deliver(both, routing_key=queue))
        assert said[-1] == f"rabbit-1: {BLOCKED}"
        assert [(state.is_up, state.waiting_n) for state in both.state()] == [(False, 0), (True, 0)]
        assert await both.destinations(stored(publish())) == ["rabbit-2"]
        with pytest.raises(NotDelivered) as failed:
            await both.deliver(stored(publish()), "rabbit-1")
        assert failed.value.is_away
    finally:
        first.limit_memory(0.4)
    await until(lambda: both.state()[0].is_up)
    assert await outcomes(deliver(both, routing_key=queue, payload=b"now")) == ["rabbit-1"]
    assert (await consumer.bodies(queue, await consumer.count(queue)))[-1] == b"now"


async def test_a_host_that_is_none_is_down_with_its_reason() -> None:
    backend = RabbitBackend([RabbitBroker(name="away", host="a b:c")])
    await backend.start(lambda: None)
    await until(lambda: "a b:c" in details(backend)[0])
    with pytest.raises(Refused, match=r"malformed rpc request: away: .*a b:c"):
        await backend.rpc(Rpc(version=110, broker="", action=DELETE, name="e"))
    await backend.close()


async def test_a_mistake_is_logged_and_it_goes_on(
    first: RabbitNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right, faults = RabbitBroker.connect, [LookupError("by mistake")]

    async def once_wrong(self: RabbitBroker, connection: Connection) -> None:
        if faults:
            raise faults.pop()
        await right(self, connection)

    monkeypatch.setattr(RabbitBroker, "connect", once_wrong)
    backend = RabbitBackend([broker_of(first)])
    await started(backend, 1)
    await backend.close()
    assert "rabbit-1: a mistake of the gateway" in caplog.text
    assert "by mistake" in caplog.text


async def test_what_was_stored_for_other_brokers_and_cannot_be_sent_to_these_is_hopeless(both: RabbitBackend) -> None:
    with pytest.raises(NotDelivered, match="rabbit-1: malformed publishing request: user_id is 'bob'") as failed:
        await both.deliver(stored(publish(options={"user_id": "bob"})), "rabbit-1")
    assert failed.value.is_hopeless


async def test_deliveries_that_wait_fail_when_the_gateway_stops(first: RabbitNode) -> None:
    backend = RabbitBackend([broker_of(first)])
    await started(backend, 1)
    tasks = [deliver(backend, exchange="amq.direct") for _ in range(10)]
    await asyncio.sleep(0)
    await soon(backend.close())
    said = await outcomes(*tasks)
    assert said[1:] == ["rabbit-1: the gateway stops"] * 9
    assert said[0] in ("rabbit-1", said[1])  # it was on its way
    assert await backend.destinations(stored(publish())) == []


def test_names_of_brokers_are_different_and_there_is_one() -> None:
    broker = RabbitBroker(name="a", host=HOST)
    for brokers in ([], [broker, broker]):
        with pytest.raises(
            ValueError, match="RabbitMQ brokers need names, each its own, and there must be one at least"
        ):
            RabbitBackend(brokers)


async def test_the_gateway_delivers_by_turns_or_to_both(
    nodes: RabbitNodes, consumer: Consumer, second: RabbitNode, tmp_path: Path
) -> None:
    async with Consumer.at(second) as other, gateway_over(nodes.nodes.values(), tmp_path) as gateway:
        queues = [await each.queue("amq.fanout") for each in (consumer, other)]
        for n in range(40):
            assert await gateway.handle(publish("amq.fanout", payload=b"%d" % n)) == Reply(True)
        await until(lambda: gateway.state().delivered_n == 40)
        turns = [await consumer.bodies(queues[0], 20), await other.bodies(queues[1], 20)]
        assert sorted(turns) == [[b"%d" % n for n in range(40) if n % 2 == first] for first in (0, 1)]
        for n in range(20):
            asked = publish("amq.fanout", payload=b"%d" % n, distribution=REDUNDANT, acks_n=2)
            assert await gateway.handle(asked) == Reply(True)
        await until(lambda: gateway.state().delivered_n == 60)
        for each, queue in zip((consumer, other), queues, strict=True):
            assert await each.bodies(queue, 20) == [b"%d" % n for n in range(20)]


async def test_what_cannot_be_delivered_disturbs_nothing_behind_it(
    first: RabbitNode, consumer: Consumer, tmp_path: Path
) -> None:
    """All by the gateway, at once: of 100 messages 10 are for no exchange and 10 for no queue."""
    exchanges, keys = {3: "there-is-none"}, {7: "nowhere"}
    queue = await consumer.queue("amq.direct", "key")
    async with gateway_over([first], tmp_path) as gateway:
        asked: list[Request] = [
            publish(exchanges.get(n % 10, "amq.direct"), keys.get(n % 10, "key"), b"%d" % n, mandatory=n % 10 == 7)
            for n in range(100)
        ]
        asked.insert(50, Rpc(version=110, broker="", action=DECLARE, name="e", type="nonsense"))
        replies = await soon(asyncio.gather(*(gateway.handle(each) for each in asked)))
        refused = replies.pop(50)
        assert refused.text == "malformed rpc request: rabbit-1: COMMAND_INVALID - unknown exchange type 'nonsense'"
        assert replies == [Reply(True)] * 100
        await until(lambda: (gateway.state().delivered_n, gateway.state().died_n) == (80, 20))
        assert await consumer.bodies(queue, 80) == [b"%d" % n for n in range(100) if n % 10 not in (3, 7)]
        reasons = {letter.reason for letter in await gateway.list_dead(0, 100)}
        assert reasons == {
            "rabbit-1: NOT_FOUND - no exchange 'there-is-none' in vhost '/'",
            "rabbit-1: unroutable: 312 NO_ROUTE",
        }


def test_a_node_that_is_killed_is_down_and_gets_what_it_missed_when_it_is_back(
    nodes: RabbitNodes, tmp_path: Path
) -> None:
    """Not a coroutine: a node takes longer to start than a test of the SDK may."""
    asyncio.run(soon(killed_and_back(nodes, tmp_path), 2 * START_S))


async def killed_and_back(nodes: RabbitNodes, folder: Path) -> None:
    killed = nodes.nodes["rabbit-2"]
    for node in nodes.nodes.values():
        async with Consumer.at(node) as consumer:
            await consumer.channel.exchange_declare("kept", exchange_type="fanout", durable=True)
            await consumer.channel.queue_declare("kept", durable=True)
            await consumer.channel.queue_bind("kept", "kept")
    persistent = {"delivery_mode": "2"}
    async with gateway_over(nodes.nodes.values(), folder) as gateway:
        backend = gateway.backend
        both = publish("kept", payload=b"before", options=persistent, distribution=REDUNDANT, acks_n=2)
        assert await gateway.handle(both) == Reply(True)
        await until(lambda: gateway.state().delivered_n == 1)

        killed.kill()
        attempts = [asyncio.ensure_future(backend.deliver(stored(publish("kept")), killed.name)) for _ in range(5)]
        said = await outcomes(*attempts)
        assert {each.partition(":")[0] for each in said} == {"rabbit-2"}
        assert "rabbit-2" not in said
        await until(lambda: not backend.state()[1].is_up)
        assert await backend.destinations(stored(publish())) == ["rabbit-1"]
        for n in range(10):
            assert await gateway.handle(publish("kept", payload=b"%d" % n, options=persistent)) == Reply(True)
        await until(lambda: gateway.state().delivered_n == 11)
        both = publish("kept", payload=b"meanwhile", options=persistent, distribution=REDUNDANT, acks_n=2)
        assert await gateway.handle(both) == Reply(True)
        async with Consumer.at(nodes.nodes["rabbit-1"]) as consumer:
            expected = [b"before", *(b"%d" % n for n in range(10)), b"meanwhile"]
            assert await consumer.bodies("kept", 12) == expected

        killed.start()
        await until(lambda: gateway.state().delivered_n == 12, START_S)
        async with Consumer.at(killed) as consumer:
            assert await consumer.bodies("kept", 2) == [b"before", b"meanwhile"]
        async with Consumer.at(nodes.nodes["rabbit-1"]) as consumer:
            assert await consumer.count("kept") == 0


def test_a_node_that_says_nothing_counts_as_lost(nodes: RabbitNodes) -> None:
    asyncio.run(soon(silent(nodes.nodes["rabbit-2"])))


async def silent(node: RabbitNode) -> None:
    backend = RabbitBackend([broker_of(node, heartbeat_s=1)])
    await started(backend, 1)
    node.pause()
    try:
        waiting = deliver(backend, "rabbit-2", exchange="amq.direct")
        assert await outcomes(waiting) == ["rabbit-2: connection lost: no heartbeat"]
    finally:
        node.resume()
    await until(lambda: backend.state()[0].is_up)
    await backend.close()
