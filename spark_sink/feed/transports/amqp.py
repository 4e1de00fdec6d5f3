"""Posts over AMQP 0-9-1: a durable topic exchange, and a durable queue that several processes may share.

    sink ──► exchange (topic, v03.post.a.b) ──► queue ──► source, `prefetch` messages at a time

Section "Mapping to AMQP 0.9.1". A message is JSON in its body, persistent, with the content type that sr3 wants. A post
is sent when the broker has confirmed it, and is taken from the queue when the consumer acknowledges it: what is lost
with a connection comes again.
"""

import asyncio
import contextlib
import logging
from typing import Final

from aiormq import Connection
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.connection import TransportFactory
from aiormq.exceptions import DeliveryError
from pamqp.commands import Basic

from client_sdk.gateways.rabbitmq import CONNECT_S, FAILURES, RabbitBroker, close_connection, reason_of
from spark_sink.feed.errors import NotSent
from spark_sink.feed.posts import Post
from spark_sink.feed.topics import amqp_binding, amqp_topic, from_amqp
from spark_sink.feed.transport import Arrival
from spark_sink.feed.transports.amqp_messages import MessageReader, MessageTransport
from spark_sink.feed.transports.reconnecting import CONTENT_TYPE, SEND_S, Reconnecting, is_cancelled
from spark_sink.feed.transports.settings import LinkSettings, SinkSettings, SourceSettings

PERSISTENT: Final = 2
HEARTBEAT_S: Final = 10


class _Link(Reconnecting):
    """A channel of a connection."""

    def __init__(self, settings: LinkSettings) -> None:
        where = settings.where()
        self.name: Final = settings.name
        self._exchange: Final = settings.exchange
        self._broker: Final = RabbitBroker(
            name=settings.name,
            host=where.host,
            port=where.port,
            user=where.user or "guest",
            password=where.password or "guest",
            vhost=where.vhost,
            heartbeat_s=HEARTBEAT_S,
            tls=where.tls,
        )
        super().__init__(f"{settings.name} ({where.host}:{where.port})")
        logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # it tells each attempt to connect, with a traceback

    def _find_reason(self, error: BaseException) -> str | None:
        return reason_of(error) if isinstance(error, (*FAILURES, asyncio.CancelledError)) else None

    async def _connected(self) -> None:
        connection = self._broker.connection(self._transport())
        try:
            await self._broker.connect(connection)
            async with asyncio.timeout(CONNECT_S):
                channel = await connection.channel()
                await channel.exchange_declare(self._exchange, exchange_type="topic", durable=True)
                await self._prepare(channel)
            self._up()
            await self._use(connection, channel)
            raise ConnectionError("connection lost")
        finally:
            await close_connection(connection)

    def _transport(self) -> TransportFactory | None:
        """As of `RabbitBroker.connection`."""
        return None

    async def _prepare(self, channel: AbstractChannel) -> None:
        """Declares what else there has to be."""

    async def _use(self, connection: Connection, channel: AbstractChannel) -> None:
        """Until the channel is closed."""
        await asyncio.wait([connection.closing, channel.closing], return_when=asyncio.FIRST_COMPLETED)


class AmqpSource(_Link):
    """A `Source`: one queue."""

    def __init__(self, settings: SourceSettings) -> None:
        """BadLink, ValueError: a pattern that is too long."""
        super().__init__(settings)
        self._settings: Final = settings
        self._bindings: Final = [amqp_binding(each) for each in settings.patterns]
        self._arrived: asyncio.Queue[Arrival] = asyncio.Queue()  # at most `prefetch`
        self._acknowledged: asyncio.Queue[int] = asyncio.Queue()  # as many
        self._tags = Tags()  # of the channel
        self._reader: MessageReader | None = None  # whose messages are taken; None while there is none
        self._is_deleted: Final = asyncio.Event()  # the queue, since it was declared

    async def receive(self) -> Arrival:
        """The next one; it waits over lost connections."""
        self.start()
        return await self._arrived.get()

    def acknowledge(self, arrival: Arrival) -> None:
        """It leaves the queue, unless its connection is gone."""
        reader, tag = arrival.token if isinstance(arrival.token, tuple) else (None, 0)
        if reader is not None and reader is self._reader:
            self._acknowledged.put_nowait(tag)

    def _transport(self) -> TransportFactory:
        return MessageTransport(self._use_reader, self._take, self._broker.tls)

    def _use_reader(self, reader: MessageReader) -> None:
        """Of a new connection; what comes over any other is not taken any more."""
        self._reader = reader

    async def _prepare(self, channel: AbstractChannel) -> None:
        settings = self._settings
        arguments: dict[str, int] = {}
        if settings.expire_s:
            arguments["x-expires"] = round(settings.expire_s * 1000)
        if settings.message_ttl_s:
            arguments["x-message-ttl"] = round(settings.message_ttl_s * 1000)
        queue = settings.queue or settings.name
        await channel.basic_qos(prefetch_count=settings.prefetch_n)
        await channel.queue_declare(queue, durable=True, arguments=dict(arguments))
        for each in self._bindings:
            await channel.queue_bind(queue, self._exchange, each)
        self._arrived = _renewed(self._arrived)
        self._acknowledged, self._tags = asyncio.Queue(), Tags()
        self._is_deleted.clear()
        channel.on_consumer_cancel_callbacks.add(self._deleted)
        await channel.basic_consume(queue, _not_taken)

    async def _use(self, connection: Connection, channel: AbstractChannel) -> None:
        acknowledging = asyncio.create_task(self._acknowledge(channel))
        deletion = asyncio.create_task(self._is_deleted.wait())
        try:
            await asyncio.wait(
                [connection.closing, channel.closing, acknowledging, deletion], return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._reader = None
            self._arrived = _renewed(self._arrived)  # they come again
            for task in (acknowledging, deletion):
                task.cancel()
            await asyncio.gather(acknowledging, deletion, return_exceptions=True)
            await self._acknowledge_rest(channel)
        if self._is_deleted.is_set():
            raise ConnectionError("the queue was deleted")

    async def _acknowledge(self, channel: AbstractChannel) -> None:
        while True:
            await self._send(channel, await self._acknowledged.get(), waits=False)

    async def _acknowledge_rest(self, channel: AbstractChannel) -> None:
        """Those that the consumer gave right before the end, so that they do not come again."""
        with contextlib.suppress(*FAILURES):
            async with asyncio.timeout(CONNECT_S):
                while not self._acknowledged.empty():
                    await self._send(channel, self._acknowledged.get_nowait(), waits=True)

    async def _send(self, channel: AbstractChannel, first: int, *, waits: bool) -> None:
        """Acknowledges it, and all others that are to be."""
        fresh = {first, *(self._acknowledged.get_nowait() for _ in range(self._acknowledged.qsize()))}
        for tag, is_multiple in self._tags.acknowledge(fresh):
            await channel.basic_ack(tag, multiple=is_multiple, wait=waits)

    async def _deleted(self, frame: Basic.Cancel) -> None:
        """RabbitMQ says that there is no queue any more, and else nothing: it is declared again."""
        self._is_deleted.set()

    def _take(self, reader: MessageReader, tag: int, routing_key: str, body: bytes) -> None:
        if reader is self._reader:
            self._arrived.put_nowait(Arrival(body, from_amqp(routing_key), self.name, (reader, tag)))


class Tags:
    """Messages of one channel, which are numbered from 1: as few acknowledgements as say which are done with."""

    def __init__(self) -> None:
        self._first = 1  # that is not acknowledged
        self._after: Final[set[int]] = set()  # behind it, that are; fewer than may be out

    def acknowledge(self, fresh: set[int]) -> list[tuple[int, bool]]:
        """Those to be sent for these: the number, and whether it is for all before it, too."""
        self._after.update(fresh)
        while self._first in self._after:
            self._after.remove(self._first)
            self._first += 1
        # One that was sent before is unknown to the broker, and would be an error.
        before = max((tag for tag in fresh if tag < self._first), default=0)
        alone = [(tag, False) for tag in sorted(fresh) if tag > self._first]
        return [(before, True), *alone] if before else alone


class AmqpSink(_Link):
    """A `Sink`: one exchange."""

    def __init__(self, settings: SinkSettings) -> None:
        """BadLink."""
        super().__init__(settings)
        self._channel: AbstractChannel | None = None  # None while there is none

    async def send(self, post: Post, prefix: str) -> None:
        """Returns when the broker has it on disk, where a queue wants it. NotSent."""
        self.start()
        await self.settled()
        channel = self._channel
        if channel is None:
            raise NotSent(f"{self.name}: {self._state}")
        properties = Basic.Properties(content_type=CONTENT_TYPE, delivery_mode=PERSISTENT)
        try:
            async with asyncio.timeout(SEND_S):
                await channel.basic_publish(
                    post.encode(),
                    exchange=self._exchange,
                    routing_key=amqp_topic(prefix, post.rel_path),
                    properties=properties,
                )
        except DeliveryError:
            raise NotSent(f"{self.name}: the broker could not store it (basic.nack)") from None
        except (*FAILURES, asyncio.CancelledError) as error:
            if is_cancelled(error):
                raise
            raise NotSent(f"{self.name}: {reason_of(error)}") from None

    async def _use(self, connection: Connection, channel: AbstractChannel) -> None:
        self._channel = channel
        try:
            await super()._use(connection, channel)
        finally:
            self._channel = None


async def _not_taken(message: DeliveredMessage) -> None:
    """The reader takes them all, so aiormq has none."""


def _renewed(arrived: "asyncio.Queue[Arrival]") -> "asyncio.Queue[Arrival]":
    """Empty; who waits for the next one goes on waiting."""
    while not arrived.empty():
        arrived.get_nowait()
    return arrived
