"""The connection to one RabbitMQ broker, which comes back by itself. What is written when is `rabbitmq_queue`'s.

publish() ──► queue ──► channel ──► in flight ──► confirmed, or returned, or the channel is closed
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from aiormq import Connection
from aiormq.channel import Channel
from pamqp.commands import Exchange

from client_sdk.gateways.rabbitmq import CONNECT_S, FAILURES, RabbitBroker, close_connection, reason_of
from client_sdk.gateways.samwise.backends.backend import DestinationState, NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq_channel import ConfirmChannel
from client_sdk.gateways.samwise.backends.rabbitmq_publication import Publication
from client_sdk.gateways.samwise.backends.rabbitmq_queue import PublishQueue
from client_sdk.gateways.samwise.values import DELETE, Message, Rpc
from client_sdk.reconnect.backoff import Backoff

# Longest time that a message on trial keeps others waiting, for those before it and for itself. A missing exchange is
# told within milliseconds; a confirm may take long, and then the exchange is there.
TRIAL_S: Final = 1.0
LOOK_S: Final = 0.5  # between two looks whether the broker takes messages
BLOCKED: Final = "the broker takes no messages, it is low on memory or disk"

_log: Final = logging.getLogger("client_sdk")


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
        self._queue: Final = PublishQueue()
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

    def publish(self, message: Message) -> "asyncio.Future[str]":
        """Has the broker's name when it has confirmed the message, or NotDelivered. What is published first is written
        first."""
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if not self.is_up:
            outcome.set_exception(NotDelivered(f"{self.broker.name}: {self._detail}", is_away=True))
            return outcome
        try:
            publication = Publication(message, outcome, self.broker.name)
        except NotDelivered as error:
            outcome.set_exception(error)
            return outcome
        outcome.add_done_callback(partial(self._ended, publication))
        self._queue.add(publication)
        self._wake.set()
        return outcome

    def _ended(self, publication: Publication, outcome: "asyncio.Future[str]") -> None:
        if outcome.cancelled():
            publication.drop()  # it may be in flight
            self._queue.discard(publication)

    async def command(self, rpc: Rpc, *, durable: bool) -> str:
        """Declares or deletes an exchange; why not, in RabbitMQ's words, or empty.

        On a connection of its own, as an unknown type closes the connection (503).
        """
        connection: Connection | None = None
        # What was written and not yet seen by RabbitMQ may still meet a deleted exchange; the channel then closes.
        self._queue.forget(rpc.name)
        try:
            connection = self.broker.connection()
            await self.broker.connect(connection)
            async with asyncio.timeout(CONNECT_S):
                channel = await connection.channel(publisher_confirms=False)
                assert isinstance(channel, Channel)  # aiormq has no other
                if rpc.action == DELETE:
                    await channel.rpc(_Delete(exchange=rpc.name))
                else:
                    await channel.rpc(_Declare(exchange=rpc.name, exchange_type=rpc.type, durable=durable))
        except FAILURES as error:
            return f"{self.broker.name}: {reason_of(error)}"
        finally:
            self._queue.forget(rpc.name)
            if connection is not None:
                await close_connection(connection)
        return ""

    @property
    def state(self) -> DestinationState:
        """As operators see it."""
        in_flight_n = 0 if self._channel is None else len(self._channel.in_flight)
        return DestinationState(self.broker.name, self.is_up, len(self._queue) + in_flight_n, self._detail)

    # the connection

    async def _run(self) -> None:
        while True:
            try:
                await self._connected()
            except FAILURES as error:
                self._down(reason_of(error))
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._down(reason_of(error))
            except Exception:
                _log.exception("%s: a mistake of the gateway", self.broker.name)
                self._down("a mistake of the gateway, see its log")
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
                await self._write_all(connection, channel)
                assert channel.end is not None
                if connection.is_closed:
                    raise ConnectionError(f"connection lost: {reason_of(channel.end)}")
                self._channel = None
                in_flight = list(channel.in_flight.values())
                self._queue.channel_closed(in_flight, reason_of(channel.end), asyncio.get_running_loop().time())
            raise ConnectionError("connection lost")
        finally:
            await close_connection(connection)

    def _up(self) -> None:
        if self.is_up:
            return
        self._backoff.reset()
        self.is_up = True
        self._detail = f"connected since {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"
        _log.info("%s (%s:%d): connected", self.broker.name, self.broker.host, self.broker.port)
        self._on_change()

    def _down(self, reason: str) -> None:
        was_up, self.is_up = self.is_up, False
        if was_up or reason != self._detail:  # each reason once
            _log.warning("%s (%s:%d): %s", self.broker.name, self.broker.host, self.broker.port, reason)
        self._detail = reason
        self._fail_all(reason)
        if was_up:
            self._on_change()

    def _fail_all(self, reason: str) -> None:
        channel, self._channel = self._channel, None
        for publication in channel.in_flight.values() if channel is not None else ():
            publication.failed(reason)
        self._queue.broker_lost(reason)

    # what is written when

    async def _write_all(self, connection: Connection, channel: ConfirmChannel) -> None:
        """Writes what waits until the channel is closed. While the broker takes nothing it is down."""
        while not channel.is_closed:
            if not _is_blocked(connection):
                self._channel = channel
                self._up()
            elif self.is_up:
                self._down(BLOCKED)
            if len(self._queue) and channel.is_writable:
                batch = self._queue.take(asyncio.get_running_loop().time())
                if batch:
                    channel.write(batch)
                elif len(self._queue):
                    await self._try_one(channel)
            await self._until(channel, lambda: len(self._queue) > 0 and channel.is_writable, LOOK_S)

    async def _try_one(self, channel: ConfirmChannel) -> None:
        """One alone, after all before it were confirmed."""
        await self._until(channel, lambda: not channel.in_flight, TRIAL_S)
        publication = self._queue.take_one() if channel.is_writable else None
        if publication is None:
            return
        channel.write([publication])
        await self._until(channel, lambda: not channel.in_flight, TRIAL_S)
        if not channel.is_closed:
            self._queue.trust(publication.exchange)

    async def _until(
        self, channel: ConfirmChannel, is_true: Callable[[], bool], longest_s: float | None = None
    ) -> None:
        """Returns when it is true, when the channel is closed, or when the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                while not is_true() and not channel.is_closed:
                    self._wake.clear()
                    await self._wake.wait()


class _Declare(Exchange.Declare):
    """Of an exchange with any name: pamqp has those of AMQP 0-9-1 only, RabbitMQ others, too."""

    def validate(self) -> None:
        """RabbitMQ does."""


class _Delete(Exchange.Delete):
    """The same."""

    def validate(self) -> None:
        """RabbitMQ does."""


def _is_blocked(connection: Connection) -> bool:
    """RabbitMQ said connection.blocked, and since then not that it is over: `ready` would wait."""
    ready = connection.ready()
    try:
        ready.send(None)
    except StopIteration:
        return False
    ready.close()
    return True
