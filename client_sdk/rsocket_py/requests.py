"""The requests of an `rsocket.RSocket`, made on our engine; whose connection and which metadata, others decide.

    request_response, fire_and_forget, metadata_push ──► a Future, which is a task of ours
    request_stream, request_channel ──► StreamRequest ── subscribe(Subscriber) ──► Delivery ◄── engine
                                              Publisher ──► Collector ──► engine's pump

Nothing is sent before `subscribe`; each `subscribe` is a request of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Self, TypeVar

from reactivestreams.publisher import Publisher
from reactivestreams.subscription import Subscription
from rsocket.exceptions import RSocketValueError
from rsocket.rsocket import RSocket
from rsocket.streams.backpressureapi import BackpressureApi
from rsocket.streams.null_subscrier import NullSubscriber

from client_sdk.io.connection import Connection
from client_sdk.payload import Payload, as_bytes, as_parts
from client_sdk.rsocket_py.delivery import Delivery
from client_sdk.rsocket_py.failures import as_ours, as_theirs
from client_sdk.rsocket_py.publishers import Collector, collect
from client_sdk.rsocket_py.typing import TheirPublisher, TheirSubscriber
from client_sdk.streams import MAX_N

Answer = TypeVar("Answer")


class Requests(RSocket):  # type: ignore[misc]
    """An RSocket that can make requests; who inherits it says where they go."""

    def __init__(self) -> None:
        self._tasks: Final[set[asyncio.Task[Any]]] = set()  # requests that run; the program bounds them

    def _connected(self) -> Connection:
        """The connection for a request that is made now; raises NotConnected."""
        raise NotImplementedError

    async def _turn(self) -> Connection:
        """The same, when a request may be made."""
        return self._connected()

    def _head(self, metadata: bytes | None) -> bytes | None:
        """The metadata of a request, made of what its payload has; raises BadRequest."""
        return metadata

    def request_response(self, payload: Payload) -> "asyncio.Future[Payload]":
        """One answer; cancelling the Future sends CANCEL."""
        # Whatever it waits for holds the task; a set of tasks, as for the others, would cost time on each request.
        return asyncio.get_running_loop().create_task(self._answer(payload))

    def fire_and_forget(self, payload: Payload) -> "asyncio.Future[None]":
        """The Future is done when the request is about to be written."""
        return self._start(lambda: self._fire(payload))

    def metadata_push(self, metadata: bytes) -> "asyncio.Future[None]":
        """The Future is done when the frame is about to be written."""
        return self._start(lambda: self._push(metadata))

    def request_stream(self, payload: Payload) -> "StreamRequest":
        """Subscribe to what this gives; before, `initial_request_n` limits what is asked for at once."""
        return StreamRequest(self, payload)

    def request_channel(
        self,
        payload: Payload,
        publisher: TheirPublisher | None = None,
        sending_done: asyncio.Event | None = None,
    ) -> "ChannelRequest":
        """Sends `payload`, then what `publisher` publishes; `sending_done` is set when nothing more will be sent."""
        return ChannelRequest(self, payload, publisher, sending_done)

    async def _answer(self, payload: Payload) -> Payload:
        try:
            data, metadata = as_parts(payload, "the payload")
            return await (await self._turn()).request_response(data, self._head(metadata))
        except Exception as error:
            raise as_theirs(error) from error

    async def _fire(self, payload: Payload) -> None:
        data, metadata = as_parts(payload, "the payload")
        await (await self._turn()).fire_and_forget(data, self._head(metadata))

    async def _push(self, metadata: bytes) -> None:
        await self._connected().metadata_push(self._head(as_bytes(metadata, "metadata")) or b"")

    def _start(self, do: Callable[[], Awaitable[Answer]]) -> asyncio.Task[Answer]:
        task = asyncio.get_running_loop().create_task(_translated(do))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class StreamRequest(BackpressureApi, Publisher, Subscription):  # type: ignore[misc]
    """A stream that may be asked for: a Publisher, and the Subscription of whoever subscribed last."""

    def __init__(self, rsocket: Requests, payload: Payload) -> None:
        self._rsocket: Final = rsocket
        self._payload: Final = payload
        self._initial_n = MAX_N
        self._is_channel = False
        self._delivery: Delivery | None = None  # of the last Subscriber

    def initial_request_n(self, n: int) -> Self:
        """How many items the request itself asks for; RSocketValueError for less than 1."""
        if n < 1:
            raise RSocketValueError("Initial request N must be > 0")
        self._initial_n = min(n, MAX_N)
        return self

    def subscribe(self, subscriber: TheirSubscriber | None) -> None:
        """Sends the request; without a Subscriber what comes back is dropped."""
        delivery = self._delivery = Delivery(subscriber or NullSubscriber(), self._initial_n)
        if subscriber is not None:
            subscriber.on_subscribe(delivery)
        delivery.start(self._rsocket._start(lambda: self._open(delivery)))

    def request(self, n: int) -> None:
        if self._delivery is not None:
            self._delivery.request(n)

    def cancel(self) -> None:
        if self._delivery is not None:
            self._delivery.cancel()

    async def _open(self, delivery: Delivery) -> None:
        if delivery.is_ended:
            return
        try:
            data, metadata = as_parts(self._payload, "the payload")
            head = self._rsocket._head(metadata)
            connection = await self._rsocket._turn()
            await connection.request_stream(data, head, self._initial_n, delivery, self._is_channel)
        except Exception as error:
            delivery.ended(error)
        else:
            delivery.opened()


class ChannelRequest(StreamRequest):
    """A channel that may be asked for; without a publisher it is a stream but for its frame."""

    def __init__(
        self, rsocket: Requests, payload: Payload, publisher: TheirPublisher | None, sending_done: asyncio.Event | None
    ) -> None:
        super().__init__(rsocket, payload)
        self._is_channel = True
        self._publisher: Final = publisher
        self._sending_done: Final = sending_done

    def subscribe(self, subscriber: TheirSubscriber | None) -> None:
        """Subscribes to the publisher, and sends the request."""
        if self._publisher is None:
            super().subscribe(subscriber)
            if self._sending_done is not None:
                self._sending_done.set()
            return
        delivery = self._delivery = Delivery(subscriber or NullSubscriber(), self._initial_n)
        items = _ChannelItems(delivery, collect(self._publisher), self._sending_done)
        try:
            if subscriber is not None:
                subscriber.on_subscribe(delivery)
        except BaseException:
            items.give_up()
            raise
        task = self._rsocket._start(lambda: self._open_channel(items))
        # A task that is cancelled before its first step runs none of its code.
        task.add_done_callback(lambda task: items.give_up() if task.cancelled() else None)
        delivery.start(task)

    async def _open_channel(self, items: "_ChannelItems") -> None:
        delivery = items.delivery
        if delivery.is_ended:
            items.give_up()
            return
        try:
            data, metadata = as_parts(self._payload, "the payload")
            items.first = Payload(data, self._rsocket._head(metadata))
            connection = await self._rsocket._turn()
            await connection.request_channel(items, b"", self._initial_n, delivery)
        except Exception as error:
            items.give_up()
            delivery.ended(error)


class _ChannelItems(AsyncIterator[object]):
    """What we send on a channel: the payload of the request, then what the program's Publisher publishes."""

    def __init__(self, delivery: Delivery, collector: Collector, sending_done: asyncio.Event | None) -> None:
        self.delivery: Final = delivery
        self.first: Payload | None = None  # from when it is known until it is sent
        self._collector: Final = collector
        self._rest: Final = collector.items()
        self._sending_done: Final = sending_done

    async def __anext__(self) -> object:
        first, self.first = self.first, None
        if first is not None:
            return first
        self.delivery.opened()
        try:
            return await anext(self._rest)
        except StopAsyncIteration:
            raise
        except Exception as error:
            raise as_ours(error) from error

    async def aclose(self) -> None:
        """Nothing more will be sent; the engine calls it at the end, whatever the end is."""
        await self._rest.aclose()
        self.give_up()

    def give_up(self) -> None:
        """The same, when the engine has not begun."""
        self._collector.cancel()
        if self._sending_done is not None:
            self._sending_done.set()


async def _translated(do: Callable[[], Awaitable[Answer]]) -> Answer:
    try:
        return await do()
    except Exception as error:
        raise as_theirs(error) from error
