"""The connection to one RabbitMQ broker, which comes back by itself, and the order in which messages go over it.

    publish() ──► waiting ──► trusted exchange:  as many as there are in one write ──► in flight ──► confirmed
                         └──► others:            alone ──────────────────────────────► in flight ──► trusted

A message that RabbitMQ does not accept (an exchange that is missing or forbidden: 404, 403) closes the channel, and
what is in flight with it is lost. So the first message to an exchange goes alone: after all before it were confirmed,
and nothing behind it is written before it is. What RabbitMQ says then is about that message only, and the order stays.

An exchange can vanish later. Then the channel closes with several in flight; nobody knows which of them RabbitMQ has.
They are sent again in their order, the suspects alone, and no try of theirs is used up. A receiver may get one twice,
with the same `x-samwise-id`.
"""

import asyncio
import contextlib
import logging
import re
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiormq import AMQPError, Connection
from aiormq.exceptions import InvalidFrameError
from yarl import URL

from client_sdk.gateways.samwise.backends.backend import DestinationState, NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq_channel import ConfirmChannel
from client_sdk.gateways.samwise.backends.rabbitmq_publication import Publication
from client_sdk.gateways.samwise.values import DELETE, Message, Rpc
from client_sdk.reconnect.backoff import Backoff

CONNECT_S: Final = 5.0  # socket, TLS and login; and then for a channel, or the command of an rpc
CLOSE_S: Final = 2.0  # RabbitMQ's last words
# Longest time that a message on trial keeps others waiting, for those before it and for itself. A missing exchange is
# told within milliseconds; a confirm may take long, and then the exchange is there.
TRIAL_S: Final = 1.0
REFUSED_S: Final = 1.0  # so long an exchange that RabbitMQ refused is not tried again
MAX_EXCHANGES: Final = 10_000  # names that are remembered as trusted or as refused; at one more all are forgotten
WRITE_BYTES: Final = 262_144  # of messages in one write, one more message at most

# RuntimeError: aiormq's for what was closed meanwhile.
_FAILURES: Final = (AMQPError, OSError, EOFError, TimeoutError, RuntimeError)
# RabbitMQ 3.10 refuses all messages to an exchange with these words; some, of a topic, with others.
_OF_EXCHANGE: Final = re.compile(r"(?:no exchange|access to exchange|internal exchange) '([^']*)'")
_log: Final = logging.getLogger("client_sdk")


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitBroker:
    """Where a RabbitMQ broker is, and who the gateway is there."""

    name: str  # what callers call it, and what acknowledgements are stored under
    host: str
    port: int = 5672
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    heartbeat_s: int = 3
    tls: ssl.SSLContext | None = None  # None: without TLS

    def connection(self) -> Connection:
        """A new one, not connected."""
        scheme = "amqp" if self.tls is None else "amqps"
        url = URL.build(scheme=scheme, host=self.host, port=self.port, user=self.user, password=self.password)
        made = Connection(url.with_query(heartbeat=str(self.heartbeat_s)), context=self.tls)
        made.vhost = self.vhost  # which a path could not say as it is
        return made

    async def connect(self, connection: Connection) -> None:
        """Connects it; raises what aiormq does, in words that say why."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await connection.connect()
        except InvalidFrameError as error:
            if "Connection.Close" not in str(error):
                raise
            # aiormq loses what the broker said then.
            text = f"virtual host {self.vhost!r} does not exist, or is not for user {self.user!r}, or is full"
            raise ConnectionError(text) from None


class RabbitLink:
    """One broker: connected, or trying to."""

    def __init__(self, broker: RabbitBroker, backoff: Backoff) -> None:
        self.broker: Final = broker
        self._backoff: Final = backoff
        self._on_change: Callable[[], None] = lambda: None  # until it is started
        self._task: asyncio.Task[None] | None = None  # None until it is started
        self._wake: Final = asyncio.Event()
        self._channel: ConfirmChannel | None = None  # None while there is none that publishes
        self._detail = "not connected yet"
        # Bounded by how many deliveries the gateway has under way, as what is in flight is.
        self._waiting: Final[deque[Publication]] = deque()
        self._trusted: Final = {""}  # exchanges; the default one is always there
        self._refused: Final[dict[str, tuple[float, str]]] = {}  # by exchange: until when, why
        self.is_up = False

    def start(self, on_change: Callable[[], None]) -> None:
        """Begins to connect."""
        self._on_change = on_change
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Ends it; deliveries that wait raise NotDelivered."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self.is_up = False
        self._detail = "the gateway stops"
        self._fail_all(self._detail)

    async def publish(self, message: Message) -> None:
        """Returns when the broker has confirmed it. What is published first is written first. NotDelivered."""
        if not self.is_up:
            raise NotDelivered(f"{self.broker.name}: {self._detail}", is_away=True)
        publication = Publication(message, asyncio.get_running_loop().create_future(), self.broker.name)
        self._waiting.append(publication)
        self._wake.set()
        try:
            await publication.outcome
        except asyncio.CancelledError:
            publication.drop()
            with contextlib.suppress(ValueError):  # it is in flight, or was
                self._waiting.remove(publication)
            raise

    async def command(self, rpc: Rpc, *, durable: bool) -> str:
        """Declares or deletes an exchange; why not, in RabbitMQ's words, or empty.

        On a connection of its own, as an unknown type closes the connection (503).
        """
        connection = self.broker.connection()
        # What was written and not yet seen by RabbitMQ may still meet a deleted exchange; the channel then closes.
        self._forget(rpc.name)
        try:
            await self.broker.connect(connection)
            async with asyncio.timeout(CONNECT_S):
                channel = await connection.channel(publisher_confirms=False)
                if rpc.action == DELETE:
                    await channel.exchange_delete(rpc.name)
                else:
                    await channel.exchange_declare(rpc.name, exchange_type=rpc.type, durable=durable)
        except (*_FAILURES, ValueError) as error:
            return f"{self.broker.name}: {_text(error)}"
        finally:
            self._forget(rpc.name)
            await _close(connection)
        return ""

    @property
    def state(self) -> DestinationState:
        """As operators see it."""
        in_flight_n = 0 if self._channel is None else len(self._channel.in_flight)
        return DestinationState(self.broker.name, self.is_up, len(self._waiting) + in_flight_n, self._detail)

    # the connection

    async def _run(self) -> None:
        while True:
            try:
                await self._connected()
            except _FAILURES as error:
                self._down(_text(error))
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._down(_text(error))
            await asyncio.sleep(self._backoff.next_s())

    async def _connected(self) -> None:
        """From a connection to its end, which is raised."""
        connection = self.broker.connection()
        try:
            await self.broker.connect(connection)
            while not connection.is_closed:
                channel = ConfirmChannel(connection, self._wake.set)
                async with asyncio.timeout(CONNECT_S):
                    await channel.open_it()
                self._channel = channel
                self._up()
                await self._write_all(channel)
                assert channel.end is not None
                if connection.is_closed:
                    raise ConnectionError(f"connection lost: {_text(channel.end)}")
                self._channel = None
                self._channel_closed(channel, channel.end)
            raise ConnectionError("connection lost")
        finally:
            await _close(connection)

    def _up(self) -> None:
        if self.is_up:
            return
        self._backoff.reset()
        self.is_up = True
        self._detail = f"up since {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"
        _log.info("%s (%s:%d): connected", self.broker.name, self.broker.host, self.broker.port)
        self._on_change()

    def _down(self, reason: str) -> None:
        was_up, self.is_up = self.is_up, False
        if was_up or reason != self._detail:  # each reason once
            _log.warning("%s (%s:%d): %s", self.broker.name, self.broker.host, self.broker.port, reason)
        self._detail = reason
        self._trusted.intersection_update({""})  # whoever comes back may have lost what was not durable
        self._refused.clear()
        self._fail_all(reason)
        if was_up:
            self._on_change()

    def _fail_all(self, reason: str) -> None:
        channel, self._channel = self._channel, None
        for publication in channel.in_flight.values() if channel is not None else ():
            publication.failed(reason)
        for publication in self._waiting:
            publication.failed(reason, is_away=not publication.is_suspect)
        self._waiting.clear()

    def _channel_closed(self, channel: ConfirmChannel, error: BaseException) -> None:
        """RabbitMQ did not like one of those in flight: if there was only one, it is known which."""
        reason = _text(error)
        in_flight = list(channel.in_flight.values())
        exchange = _OF_EXCHANGE.search(reason)
        named = [each for each in in_flight if exchange is not None and each.exchange == exchange[1]]
        for each in named or in_flight:
            self._trusted.discard(each.exchange)
            each.is_suspect = True
        if len(in_flight) > 1:
            self._waiting.extendleft(reversed(in_flight))
            return
        for each in in_flight:
            each.failed(reason)
        for each in named:
            if len(self._refused) >= MAX_EXCHANGES:
                self._refused.clear()
            self._refused[each.exchange] = (asyncio.get_running_loop().time() + REFUSED_S, reason)

    # what is written when

    async def _write_all(self, channel: ConfirmChannel) -> None:
        """Writes what waits until the channel is closed."""
        while not channel.is_closed:
            await self._until(channel, lambda: bool(self._waiting) and channel.is_written)
            if channel.is_closed:
                return
            batch = self._take_trusted()
            if batch:
                channel.write(batch)
            elif self._waiting:
                await self._try(channel)

    async def _try(self, channel: ConfirmChannel) -> None:
        """The first message to an exchange, and one that was there when a channel closed: alone."""
        await self._until(channel, lambda: not channel.in_flight, TRIAL_S)
        if channel.is_closed or not self._waiting:
            return
        publication = self._waiting.popleft()
        if publication.outcome.done():
            return
        channel.write([publication])
        await self._until(channel, lambda: not channel.in_flight, TRIAL_S)
        if not channel.is_closed:
            self._remember(publication.exchange)

    def _take_trusted(self) -> list[Publication]:
        """Those at the head that may go together. Nobody waits for cancelled ones; refused ones fail here."""
        batch: list[Publication] = []
        size = 0
        while self._waiting and size < WRITE_BYTES:
            head = self._waiting[0]
            refusal = self._find_refusal(head.exchange) if self._refused else None
            if refusal is not None:
                head.failed(refusal)
            elif not head.outcome.done():
                if head.is_suspect or head.exchange not in self._trusted:
                    break
                batch.append(head)
                size += head.size
            self._waiting.popleft()
        return batch

    def _find_refusal(self, exchange: str) -> str | None:
        until, reason = self._refused.get(exchange, (0.0, ""))
        if not until:
            return None
        if asyncio.get_running_loop().time() < until:
            return reason
        del self._refused[exchange]
        return None

    def _remember(self, exchange: str) -> None:
        if len(self._trusted) >= MAX_EXCHANGES:
            self._trusted.intersection_update({""})
        self._trusted.add(exchange)

    def _forget(self, exchange: str) -> None:
        self._refused.pop(exchange, None)
        if exchange:
            self._trusted.discard(exchange)

    async def _until(
        self, channel: ConfirmChannel, is_true: Callable[[], bool], longest_s: float | None = None
    ) -> None:
        """Returns when it is true, when the channel is closed, or when the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                while not is_true() and not channel.is_closed:
                    self._wake.clear()
                    await self._wake.wait()


async def _close(connection: Connection) -> None:
    """Whatever state it is in; a broker that says nothing is left alone."""
    with contextlib.suppress(*_FAILURES):
        async with asyncio.timeout(CLOSE_S):
            await connection.close()


def _text(error: BaseException) -> str:
    """What the broker or the system said, in one line."""
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_S:g} s"
    if isinstance(error, asyncio.CancelledError):
        return "no heartbeat"  # which is how aiormq says so
    return " ".join(str(error).split()) or type(error).__name__
