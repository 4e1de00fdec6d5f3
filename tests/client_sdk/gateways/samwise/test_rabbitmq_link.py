import asyncio
import ssl
from pathlib import Path

import pytest
from aiormq import Connection

from client_sdk.gateways.samwise.backends.backend import NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq import RabbitBackend, RabbitBroker
from client_sdk.gateways.samwise.backends.rabbitmq_link import BLOCKED
from client_sdk.gateways.samwise.values import DECLARE, DELETE, Refused, Reply, Request, Rpc
from tests.client_sdk.gateways.samwise.asking import handled
from tests.client_sdk.gateways.samwise.messages import publish_to, stored
from tests.client_sdk.gateways.samwise.rabbitmq import (
    CERTIFICATE,
    HOST,
    START_S,
    Consumer,
    RabbitNode,
    RabbitNodes,
    free_port,
)
from tests.client_sdk.gateways.samwise.rabbitmq_deliveries import (
    MARKS,
    broker_of,
    deliver,
    details,
    gateway_over,
    outcomes,
    started,
)
from tests.system.support.waits import soon, until

pytestmark = MARKS


def certificate() -> str:
    text = CERTIFICATE.read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


async def test_a_broker_that_cannot_be_reached_is_down_and_the_others_work(first: RabbitNode) -> None:
    away = RabbitBroker(name="away", host=HOST, port=free_port())
    changes: list[str] = []
    backend = RabbitBackend([away, broker_of(first)])
    await backend.start(lambda: changes.append("changed"))
    await until(lambda: backend.state()[1].is_up and "Connect call failed" in backend.state()[0].detail)
    message = stored(publish_to("amq.direct"))
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
    assert await backend.destinations(stored(publish_to())) == []
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
        assert await both.destinations(stored(publish_to())) == ["rabbit-2"]
        with pytest.raises(NotDelivered) as failed:
            await both.deliver(stored(publish_to()), "rabbit-1")
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
        await both.deliver(stored(publish_to(options={"user_id": "bob"})), "rabbit-1")
    assert failed.value.is_hopeless


async def test_what_one_broker_only_does_not_take_is_not_hopeless() -> None:
    """Its user has changed since the message was stored."""
    brokers = [RabbitBroker(name=name, host=HOST, user=user) for name, user in (("a", "samwise"), ("b", "guest"))]
    backend = RabbitBackend(brokers)
    message = stored(publish_to(options={"user_id": "guest"}))
    with pytest.raises(NotDelivered, match=r"a: .* user_id is 'guest', the gateway's user at a is 'samwise'") as failed:
        await backend.deliver(message, "a")
    assert (failed.value.is_hopeless, failed.value.is_away) == (False, False)
    with pytest.raises(NotDelivered, match="b: not connected yet"):
        await backend.deliver(message, "b")


async def test_what_is_too_long_for_one_broker_goes_to_the_other(nodes: RabbitNodes, tmp_path: Path) -> None:
    async with gateway_over(nodes.nodes.values(), tmp_path) as gateway:
        for _ in range(4):
            assert await handled(gateway, publish_to("amq.direct", headers=(("long", b"x" * 10_000),))) == Reply(True)
        await until(lambda: gateway.state().delivered == 4)
        assert (gateway.state().died, set(gateway.counters.acknowledged)) == (0, {"rabbit-1"})


async def test_deliveries_that_wait_fail_when_the_gateway_stops(first: RabbitNode) -> None:
    backend = RabbitBackend([broker_of(first)])
    await started(backend, 1)
    tasks = [deliver(backend, exchange="amq.direct") for _ in range(10)]
    await asyncio.sleep(0)
    await soon(backend.close())
    said = await outcomes(*tasks)
    assert said[1:] == ["rabbit-1: the gateway stops"] * 9
    assert said[0] in ("rabbit-1", said[1])  # it was on its way
    assert await backend.destinations(stored(publish_to())) == []


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
            assert await handled(gateway, publish_to("amq.fanout", payload=b"%d" % n)) == Reply(True)
        await until(lambda: gateway.state().delivered == 40)
        turns = [await consumer.bodies(queues[0], 20), await other.bodies(queues[1], 20)]
        assert sorted(turns) == [[b"%d" % n for n in range(40) if n % 2 == first] for first in (0, 1)]
        for n in range(20):
            asked = publish_to("amq.fanout", payload=b"%d" % n, acks_n=2)
            assert await handled(gateway, asked) == Reply(True)
        await until(lambda: gateway.state().delivered == 60)
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
            publish_to(exchanges.get(n % 10, "amq.direct"), keys.get(n % 10, "key"), b"%d" % n, mandatory=n % 10 == 7)
            for n in range(100)
        ]
        asked.insert(50, Rpc(version=110, broker="", action=DECLARE, name="e", type="nonsense"))
        replies = await soon(asyncio.gather(*(handled(gateway, each) for each in asked)))
        refused = replies.pop(50)
        assert refused.text == "malformed rpc request: rabbit-1: COMMAND_INVALID - unknown exchange type 'nonsense'"
        assert replies == [Reply(True)] * 100
        await until(lambda: (gateway.state().delivered, gateway.state().died) == (80, 20))
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
        both = publish_to("kept", payload=b"before", options=persistent, acks_n=2)
        assert await handled(gateway, both) == Reply(True)
        await until(lambda: gateway.state().delivered == 1)

        killed.kill()
        attempts = [asyncio.ensure_future(backend.deliver(stored(publish_to("kept")), killed.name)) for _ in range(5)]
        said = await outcomes(*attempts)
        assert {each.partition(":")[0] for each in said} == {"rabbit-2"}
        assert "rabbit-2" not in said
        await until(lambda: not backend.state()[1].is_up)
        assert await backend.destinations(stored(publish_to())) == ["rabbit-1"]
        for n in range(10):
            assert await handled(gateway, publish_to("kept", payload=b"%d" % n, options=persistent)) == Reply(True)
        await until(lambda: gateway.state().delivered == 11)
        both = publish_to("kept", payload=b"meanwhile", options=persistent, acks_n=2)
        assert await handled(gateway, both) == Reply(True)
        async with Consumer.at(nodes.nodes["rabbit-1"]) as consumer:
            expected = [b"before", *(b"%d" % n for n in range(10)), b"meanwhile"]
            assert await consumer.bodies("kept", 12) == expected

        killed.start()
        await until(lambda: gateway.state().delivered == 12, START_S)
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
