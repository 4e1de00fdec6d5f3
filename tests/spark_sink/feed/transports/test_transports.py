"""spark_sink.feed.transports.{amqp,mqtt}: what a Source and a Sink promise, with real RabbitMQ and Mosquitto."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import aiormq
import pytest

from broker.config.certificates import client_context
from spark_sink.feed.errors import NotSent
from spark_sink.feed.posts import read_post
from spark_sink.feed.transport import UP, Arrival, Sink, Source
from spark_sink.feed.transports.opening import open_sink, open_source
from spark_sink.feed.transports.settings import BadLink, SinkSettings, SourceSettings
from tests.client_sdk.gateways.samwise.rabbitmq import CERTIFICATE, HOST, RabbitNode
from tests.spark_sink.feed.samples import post_of
from tests.spark_sink.feed.transports.conftest import Broker
from tests.spark_sink.feed.transports.mosquitto import Mosquitto
from tests.spark_sink.feed.vectors import SENT
from tests.system.support.waits import soon, until

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("rabbitmq")]
ROOT = Path(__file__).parents[4]
PREFIX = "v03.post"
# A consumer that acknowledges each post, after it has said so, until it is killed.
CONSUMER = """
import asyncio, sys
from spark_sink.feed.transports.opening import open_source
from spark_sink.feed.transports.settings import SourceSettings

async def main():
    url, exchange, version = sys.argv[1:]
    source = open_source(SourceSettings(name=exchange, url=url, exchange=exchange, mqtt_version=version))
    while True:
        arrival = await source.receive()
        print(arrival.body.decode(), flush=True)
        source.acknowledge(arrival)

asyncio.run(main())
"""


@asynccontextmanager
async def both(broker: Broker, **settings: object) -> AsyncIterator[tuple[Source, Sink]]:
    """A source whose queue is there, and a sink."""
    source, sink = broker.source(**settings), broker.sink()
    first = asyncio.ensure_future(source.receive())  # connects it
    try:
        await until(lambda: source.state() == UP)
        yield Waiting(source, first), sink
    finally:
        first.cancel()
        await source.close()
        await sink.close()


class Waiting:
    """A Source of which somebody waits for the first one already."""

    def __init__(self, source: Source, first: "asyncio.Future[Arrival]") -> None:
        self._source = source
        self._first: asyncio.Future[Arrival] | None = first

    @property
    def name(self) -> str:
        return self._source.name

    async def receive(self) -> Arrival:
        first, self._first = self._first, None
        return await (first if first is not None else self._source.receive())

    def acknowledge(self, arrival: Arrival) -> None:
        self._source.acknowledge(arrival)

    async def close(self) -> None:
        await self._source.close()

    def state(self) -> str:
        return self._source.state()


async def test_posts_arrive_as_they_were_sent_and_with_their_topic(broker: Broker) -> None:
    posts = [
        post_of(relPath="a/b/ä ö#?%.txt", own={"x": [1, "é"]}),
        post_of(relPath="top"),
        post_of(relPath="a+b/c*d/#/f", identity={"method": "mine", "value": "xx"}),
    ]
    async with both(broker) as (source, sink):
        for post in posts:
            await soon(sink.send(post, PREFIX))
        arrivals = [await soon(source.receive()) for _ in posts]
    assert [each.body for each in arrivals] == [post.encode() for post in posts]
    assert [read_post(each.body) for each in arrivals] == posts
    assert [each.topic for each in arrivals] == ["v03.post.a.b", "v03.post", "v03.post.a+b.c*d.#"]
    assert {each.source for each in arrivals} == {source.name}


async def test_what_is_not_acknowledged_comes_again_and_nothing_else(broker: Broker) -> None:
    posts = [post_of(relPath=f"f{number}") for number in range(4)]
    async with both(broker) as (source, sink):
        for post in posts:
            await soon(sink.send(post, PREFIX))
        arrivals = [await soon(source.receive()) for _ in posts]
        for each in (arrivals[0], arrivals[1]):
            source.acknowledge(each)
    async with both(broker) as (source, _):
        again = [await soon(source.receive()) for _ in range(2)]
        assert [each.body for each in again] == [post.encode() for post in posts[2:]]


async def test_acknowledgements_may_come_in_any_order(broker: Broker) -> None:
    async with both(broker, prefetch=3) as (source, sink):
        for number in range(9):
            await soon(sink.send(post_of(relPath=f"f{number}"), PREFIX))
        for _ in range(3):
            arrivals = [await soon(source.receive()) for _ in range(3)]
            for each in reversed(arrivals):
                source.acknowledge(each)


@pytest.mark.parametrize("broker", ["amqp", "mqtt"], indirect=True)  # in MQTT 3.1.1 the broker has a bound of its own
async def test_no_more_than_prefetch_are_out(broker: Broker) -> None:
    async with both(broker, prefetch=2) as (source, sink):
        for number in range(5):
            await soon(sink.send(post_of(relPath=f"f{number}"), PREFIX))
        first, second = [await soon(source.receive()) for _ in range(2)]
        third = asyncio.ensure_future(source.receive())
        await asyncio.wait([third], timeout=0.1)  # for what must not happen
        assert not third.done()
        source.acknowledge(first)
        source.acknowledge(second)
        assert read_post((await soon(third)).body).rel_path == "f2"


async def test_only_what_the_patterns_take_arrives(broker: Broker) -> None:
    async with both(broker, patterns=("v03.post.a.*", "v03.post.#.end")) as (source, sink):
        for path in ("a/f", "a/b/f", "a/b/c/f", "x/end/f", "x/f"):
            await soon(sink.send(post_of(relPath=path), PREFIX))
        paths = set[str]()  # MQTT 5 may send what two filters take twice
        while "x/end/f" not in paths:
            paths.add(read_post((await soon(source.receive())).body).rel_path)
    assert paths == {"a/b/f", "x/end/f"}


async def test_both_come_back_when_the_broker_does(broker: Broker) -> None:
    async with both(broker) as (source, sink):
        await soon(sink.send(post_of(relPath="before"), PREFIX))
        await asyncio.to_thread(broker.stop)
        await until(lambda: source.state() != UP and sink.state() != UP)
        with pytest.raises(NotSent, match=f"^{sink.name}: "):
            await soon(sink.send(post_of(relPath="meanwhile"), PREFIX))
        await asyncio.to_thread(broker.start)
        await until(lambda: source.state() == UP and sink.state() == UP)
        await soon(sink.send(post_of(relPath="after"), PREFIX))
        paths = set[str]()
        while paths != {"before", "after"}:
            arrival = await soon(source.receive())
            paths.add(read_post(arrival.body).rel_path)
            source.acknowledge(arrival)


async def test_an_acknowledgement_after_a_lost_connection_is_nothing(broker: Broker) -> None:
    async with both(broker) as (source, sink):
        await soon(sink.send(post_of(relPath="f"), PREFIX))
        arrival = await soon(source.receive())
        await asyncio.to_thread(broker.stop)
        await until(lambda: source.state() != UP)
        source.acknowledge(arrival)
        await asyncio.to_thread(broker.start)
        again = await soon(source.receive())
        assert again.body == arrival.body
        source.acknowledge(again)


async def test_a_consumer_that_is_killed_loses_nothing(broker: Broker) -> None:
    sink = broker.sink()
    seen: set[bytes] = set()
    expected = {post_of(relPath=f"{turn}-{number}").encode() for turn in range(2) for number in range(20)}
    for turn in range(2):
        arguments = [sys.executable, "-c", CONSUMER, broker.url, broker.exchange, broker.version]
        consumer = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
        assert consumer.stdout is not None
        if turn == 0:
            await soon(sink.send(post_of(relPath="first"), PREFIX))
            while not seen:  # until its queue was there, posts went nowhere
                with_first = asyncio.ensure_future(consumer.stdout.readline())
                while not with_first.done():
                    await soon(sink.send(post_of(relPath="first"), PREFIX))
                    await asyncio.wait([with_first], timeout=0.1)
                seen.add(with_first.result().strip())
        for number in range(20):
            await soon(sink.send(post_of(relPath=f"{turn}-{number}"), PREFIX))
        wanted = {post_of(relPath=f"{turn}-{number}").encode() for number in range(7)}
        if turn:  # this one is not killed before it has all that the other one left
            wanted = expected
        while not wanted <= seen:
            seen.add((await soon(consumer.stdout.readline())).strip())
        consumer.kill()
        seen.update((await consumer.stdout.read()).splitlines())  # what it had said and acknowledged
        await consumer.wait()
    await sink.close()


@pytest.mark.parametrize("broker", ["amqp"], indirect=True)
async def test_a_queue_that_somebody_deletes_is_made_again(broker: Broker) -> None:
    async with both(broker) as (source, sink):
        async with aiormq.connect(broker.url) as connection:
            await (await connection.channel()).queue_delete(source.name)
        await until(lambda: source.state() == "the queue was deleted")
        await until(lambda: source.state() == UP)
        await soon(sink.send(post_of(relPath="f"), PREFIX))
        assert read_post((await soon(source.receive())).body).rel_path == "f"


@pytest.mark.parametrize("protocol", ["amqp", "mqtt"])
async def test_posts_go_over_tls_to_who_a_given_ca_says(
    protocol: str, rabbit: RabbitNode, mosquitto: Mosquitto
) -> None:
    port = rabbit.tls_port if protocol == "amqp" else mosquitto.tls_port
    encrypted = Broker(f"{protocol}s://{HOST}:{port}", f"x{uuid4().hex[:8]}", rabbit.stop, rabbit.go_on, port)
    async with both(encrypted, tls=client_context(str(CERTIFICATE))) as (source, _):
        sink = encrypted.sink(tls=client_context(str(CERTIFICATE)))
        await soon(sink.send(post_of(), PREFIX))
        assert (await soon(source.receive())).body == post_of().encode()
        await sink.close()
    stranger = encrypted.sink()
    with pytest.raises(NotSent, match="certificate verify failed"):
        await soon(stranger.send(post_of(), PREFIX))
    await stranger.close()


async def test_posts_of_sr3_arrive_byte_for_byte(broker: Broker) -> None:
    bodies = [read_post(body).encode() for body in SENT.values()]
    async with both(broker, patterns=("#",)) as (source, sink):
        for body in bodies:
            await soon(sink.send(read_post(body), PREFIX))
        for body in bodies:
            arrival = await soon(source.receive())
            assert arrival.body == body
            source.acknowledge(arrival)


async def test_where_nobody_is_a_post_is_not_sent_and_the_source_says_why(broker: Broker) -> None:
    nowhere = broker.url.rpartition(":")[0] + ":1"
    sink, source = broker.sink(url=nowhere), broker.source(url=nowhere)
    with pytest.raises(NotSent, match=r"refused|failed"):
        await soon(sink.send(post_of(), PREFIX))
    waiting = asyncio.ensure_future(source.receive())
    await until(lambda: source.state() not in (UP, "not connected yet"))
    waiting.cancel()
    await source.close()
    await sink.close()


@pytest.mark.parametrize(
    "url, why",
    [
        ("kafka://h", "none of the schemes tcp, tls, ws, wss, unix, amqp, amqps, mqtt, mqtts"),
        ("amqp://", "names no host"),
        ("mqtt://h:port", "port"),
    ],
)
def test_what_is_no_url_is_told(url: str, why: str) -> None:
    with pytest.raises(BadLink, match=f"^one: .*{why}"):
        open_sink(SinkSettings(name="one", url=url))


def test_a_pattern_that_is_too_long_is_told() -> None:
    with pytest.raises(BadLink, match=r"^one: the pattern .* has more than 255 bytes"):
        open_source(SourceSettings(name="one", url="amqp://h", patterns=("v03.post." + "a" * 255,)))
