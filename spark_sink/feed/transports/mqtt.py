"""Posts over MQTT: topics of an exchange, at quality of service 1, in a session that outlives the process.

    sink ──► xpublic/v03/post/a/b ──► session of the source ──► source, `prefetch` messages at a time

Section "Mapping to MQTT". A message is JSON in its payload; MQTT 5 says so (ContentType), as sr3 wants it. A post is
sent when the broker has acknowledged it. The consumer's acknowledgement is ours to give, and is given in the order in
which messages came ([MQTT-4.6.0-2]): what a killed process had not done comes again. aiomqtt would give it for what is
only in memory, and would take a refusal for a success, so both are done here with the client that it has.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from spark_sink.feed.errors import NotSent
from spark_sink.feed.posts import Post
from spark_sink.feed.topics import from_mqtt, matches, mqtt_filter, mqtt_topic
from spark_sink.feed.transport import Arrival
from spark_sink.feed.transports.reconnecting import CONTENT_TYPE, LOST, SEND_S, Reconnecting
from spark_sink.feed.transports.settings import MQTT_3, LinkSettings, SourceSettings

if TYPE_CHECKING:
    from paho.mqtt.reasoncodes import ReasonCode

QOS: Final = 1
KEEPALIVE_S: Final = 10  # as AMQP's heartbeat
ANSWER_S: Final = 10.0  # of the broker: to a connection, a subscription
FOR_EVER_S: Final = 0xFFFFFFFF  # of a session, in MQTT 5

_FAILURES: Final = (aiomqtt.MqttError, OSError, TimeoutError, ValueError)


class _Client(aiomqtt.Client):
    """With acknowledgements that are given and taken by us."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._client.manual_ack_set(True)
        self._sent: Final[
            dict[int, asyncio.Future[str]]
        ] = {}  # by message id; the result: why it was refused, or empty
        self._early: Final[dict[int, str]] = {}  # answers that came before their id was known

    def acknowledge(self, message: aiomqtt.Message) -> None:
        """It will not come again."""
        self._client.ack(message.mid, message.qos)

    async def send(self, topic: str, body: bytes, properties: Properties | None) -> str:
        """Why the broker refused it; empty: it did not. MqttError when the connection is lost."""
        info = self._client.publish(topic, body, qos=QOS, properties=properties)
        if info.rc:
            raise aiomqtt.MqttError(LOST)
        if info.mid in self._early:
            return self._early.pop(info.mid)
        answer = self._sent[info.mid] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(SEND_S):
                refusal: str = await answer
            return refusal
        finally:
            self._sent.pop(info.mid, None)

    def lose(self) -> None:
        """The connection is gone: what has no answer has none."""
        for answer in self._sent.values():
            if not answer.done():
                answer.set_exception(aiomqtt.MqttError(LOST))

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason_code: "ReasonCode", properties: Any) -> None:
        refusal = str(reason_code) if reason_code.is_failure else ""
        answer = self._sent.get(mid)
        if answer is None:
            self._early[mid] = refusal
        elif not answer.done():
            answer.set_result(refusal)


class _Link(Reconnecting):
    """A client, one after the other; the session stays."""

    def __init__(self, settings: LinkSettings) -> None:
        self.name: Final = settings.name
        self._where: Final = settings.where()
        self._exchange: Final = settings.exchange
        self._is_old: Final = settings.mqtt_version == MQTT_3
        self._client: _Client | None = None  # while it is connected
        super().__init__(f"{settings.name} ({self._where.host}:{self._where.port})")

    def _find_reason(self, error: BaseException) -> str | None:
        if not isinstance(error, _FAILURES):
            return None
        return " ".join(str(error).split()) or f"no answer within {ANSWER_S:g} s"

    async def _connected(self) -> None:
        where = self._where
        client = _Client(
            where.host,
            where.port,
            username=where.user or None,
            password=where.password or None,
            tls_context=where.tls,
            timeout=ANSWER_S,
            keepalive=KEEPALIVE_S,
            **self._options(),
        )
        async with client:
            try:
                await self._prepare(client)
                self._client = client
                self._up()
                async for message in client.messages:
                    self._take(client, message)
                raise aiomqtt.MqttError(LOST)
            finally:
                self._client = None
                client.lose()
                self._lost()

    def _options(self) -> dict[str, Any]:
        """Of the client: whose session it is."""
        return {"protocol": aiomqtt.ProtocolVersion.V311 if self._is_old else aiomqtt.ProtocolVersion.V5}

    async def _prepare(self, client: _Client) -> None:
        """Subscribes, if it does."""

    def _take(self, client: _Client, message: aiomqtt.Message) -> None:
        """A message has come."""

    def _lost(self) -> None:
        """The connection has ended."""


class MqttSource(_Link):
    """A `Source`: one session."""

    def __init__(self, settings: SourceSettings) -> None:
        """BadLink, ValueError: a pattern that is too long."""
        super().__init__(settings)
        self._settings: Final = settings
        self._filters: Final = [mqtt_filter(settings.exchange, each) for each in settings.patterns]
        self._arrived: Final[asyncio.Queue[Arrival]] = asyncio.Queue()  # at most `prefetch`
        # Of this connection, in the order in which they came, and whether the consumer is done with it.
        self._unacknowledged: Final[dict[int, tuple[aiomqtt.Message, bool]]] = {}

    async def receive(self) -> Arrival:
        """The next one; it waits over lost connections."""
        self.start()
        return await self._arrived.get()

    def acknowledge(self, arrival: Arrival) -> None:
        """It will not come again, unless its connection is gone."""
        message = arrival.token
        assert isinstance(message, aiomqtt.Message)
        known = self._unacknowledged.get(message.mid)
        if known is not None and known[0] is message:
            self._unacknowledged[message.mid] = (message, True)
            self._acknowledge_done()

    def _acknowledge_done(self) -> None:
        client = self._client
        while client is not None and self._unacknowledged:
            message, is_done = next(iter(self._unacknowledged.values()))
            if not is_done:
                return
            del self._unacknowledged[message.mid]
            client.acknowledge(message)

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        options = {**super()._options(), "identifier": settings.queue or settings.name}
        if self._is_old:
            return {**options, "clean_session": False}
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho says no types
        properties.SessionExpiryInterval = round(settings.expire_s) or FOR_EVER_S
        properties.ReceiveMaximum = settings.prefetch_n
        return {**options, "clean_start": False, "properties": properties}

    async def _prepare(self, client: _Client) -> None:
        for each in self._filters:
            await client.subscribe(each, qos=QOS)

    def _take(self, client: _Client, message: aiomqtt.Message) -> None:
        topic = from_mqtt(str(message.topic), self._exchange)
        if message.qos:
            self._unacknowledged[message.mid] = (message, False)
        body = message.payload if isinstance(message.payload, bytes) else str(message.payload or "").encode()
        arrival = Arrival(body, topic, self.name, message)
        if any(matches(each, topic) for each in self._settings.patterns):
            self._arrived.put_nowait(arrival)
        else:  # a filter takes more than a pattern that goes on behind `#`
            self.acknowledge(arrival)

    def _lost(self) -> None:
        self._unacknowledged.clear()
        while not self._arrived.empty():  # they come again
            self._arrived.get_nowait()


class MqttSink(_Link):
    """A `Sink`: the topics of one exchange."""

    async def send(self, post: Post, prefix: str) -> None:
        """Returns when the broker has acknowledged it. NotSent."""
        self.start()
        await self.settled()
        client = self._client
        if client is None:
            raise NotSent(f"{self.name}: {self._state}")
        properties = None
        if not self._is_old:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            properties.ContentType = CONTENT_TYPE
            properties.PayloadFormatIndicator = 1
        topic = mqtt_topic(self._exchange, prefix, post.rel_path)
        try:
            refusal = await client.send(topic, post.encode(), properties)
        except TimeoutError:
            raise NotSent(f"{self.name}: no answer within {SEND_S:g} s") from None
        except (aiomqtt.MqttError, ValueError) as error:
            raise NotSent(f"{self.name}: {error}") from None
        if refusal:
            raise NotSent(f"{self.name}: the broker refused it: {refusal}")
