"""Handlers written for rsocket-py, behind our engine: its `BaseRequestHandler`, and with it its `RequestRouter`.

    engine ── Responder ──► RSocketPyResponder ──► BaseRequestHandler
    our pump asks for an item ──► request(1) ──► its Publisher ──► on_next ──► the pump
    its Subscription.request(n) ──► so many items of the caller's channel ──► on_next of its Subscriber

Every handler runs in the task of its request, so one that awaits holds up nobody. Texts of its exceptions reach the
caller, as its users are used to. rsocket-py is not typed; its objects are described by the protocols here.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

from client_sdk.errors import FIRST_APPLICATION_CODE, LAST_APPLICATION_CODE, ApplicationError, ClientError, Refused
from client_sdk.payload import Payload

_RSOCKET_CODES: Final = range(0x201, 0x205)


class RSocketPySubscription(Protocol):
    """`reactivestreams.Subscription`."""

    def request(self, n: int) -> None: ...

    def cancel(self) -> None: ...


class RSocketPySubscriber(Protocol):
    """`reactivestreams.Subscriber`."""

    def on_subscribe(self, subscription: Any) -> None: ...

    def on_next(self, value: Any, is_complete: bool = False) -> None: ...

    def on_error(self, exception: Exception) -> None: ...

    def on_complete(self) -> None: ...


class RSocketPyPublisher(Protocol):
    """`reactivestreams.Publisher`."""

    def subscribe(self, subscriber: Any) -> None: ...


class RSocketPyHandler(Protocol):
    """`rsocket.request_handler.BaseRequestHandler`, the part that answers requests."""

    async def request_response(self, payload: Any) -> Awaitable[Any]: ...

    async def request_stream(self, payload: Any) -> Any: ...

    async def request_channel(self, payload: Any) -> tuple[Any, Any]: ...

    async def request_fire_and_forget(self, payload: Any) -> None: ...

    async def on_metadata_push(self, payload: Any) -> None: ...


class RSocketPyResponder:
    """Answers the requests of one connection with an rsocket-py handler (the engine's `Responder`)."""

    def __init__(self, factory: Callable[[], RSocketPyHandler]) -> None:
        self._handler: Final = factory()

    async def request_response(self, metadata: bytes | None, data: bytes) -> Payload:
        try:
            future = await self._handler.request_response(Payload(data, metadata))
            answer = await future
        except Exception as error:
            raise _failure(error) from error
        if not isinstance(answer, Payload):
            raise TypeError(f"request_response gave {type(answer).__name__}, it must give a Payload")
        return answer

    async def fire_and_forget(self, metadata: bytes | None, data: bytes) -> None:
        await self._handler.request_fire_and_forget(Payload(data, metadata))

    async def metadata_push(self, metadata: bytes) -> None:
        await self._handler.on_metadata_push(Payload(None, metadata))

    async def request_stream(self, metadata: bytes | None, data: bytes) -> AsyncGenerator[object, None]:
        try:
            publisher: RSocketPyPublisher = await self._handler.request_stream(Payload(data, metadata))
            async for payload in _published(publisher):
                yield payload
        except Exception as error:
            raise _failure(error) from error

    async def request_channel(
        self, metadata: bytes | None, data: bytes, payloads: AsyncIterator[Payload]
    ) -> AsyncGenerator[object, None]:
        # Their handlers get the first payload as an argument, and never through the subscriber.
        first = await anext(payloads)
        feeder: asyncio.Task[None] | None = None
        try:
            publisher, subscriber = await self._handler.request_channel(first)
            if subscriber is not None:
                feeder = asyncio.create_task(_feed(subscriber, payloads))
            if publisher is not None:
                async for payload in _published(publisher):
                    yield payload
            if feeder is not None:
                await feeder
        except Exception as error:
            raise _failure(error) from error
        finally:
            if feeder is not None and not feeder.done():
                feeder.cancel()
                await asyncio.wait([feeder])


class _Collector:
    """Their Subscriber, which keeps what was published until our pump takes it."""

    def __init__(self) -> None:
        self.subscription: RSocketPySubscription | None = None
        self.items: Final[deque[object]] = deque()  # holds one at most, or what a publisher sends unasked
        self.is_ended = False
        self.error: Exception | None = None
        self.changed: Final = asyncio.Event()

    def on_subscribe(self, subscription: RSocketPySubscription) -> None:
        self.subscription = subscription

    def on_next(self, value: object, is_complete: bool = False) -> None:
        # An empty payload that completes is how their adapters say the end.
        is_empty = isinstance(value, Payload) and not value.data and not value.metadata
        if not (is_complete and is_empty):
            self.items.append(value)
        self.is_ended = self.is_ended or is_complete
        self.changed.set()

    def on_error(self, exception: Exception) -> None:
        self.error = exception
        self.on_complete()

    def on_complete(self) -> None:
        self.is_ended = True
        self.changed.set()


async def _published(publisher: RSocketPyPublisher) -> AsyncGenerator[object, None]:
    """What a Publisher publishes, asked for one by one."""
    collector = _Collector()
    publisher.subscribe(collector)
    try:
        while True:
            if not collector.items and not collector.is_ended and collector.subscription is not None:
                collector.changed.clear()
                collector.subscription.request(1)
            while not collector.items and not collector.is_ended:
                await collector.changed.wait()
                collector.changed.clear()
            if collector.items:
                yield collector.items.popleft()
            elif collector.error is not None:
                raise collector.error
            else:
                return
    finally:
        if not collector.is_ended and collector.subscription is not None:
            collector.subscription.cancel()


class _Demand:
    """Their Subscription on the items of a caller's channel."""

    def __init__(self) -> None:
        self.n = 0
        self.is_cancelled = False
        self.changed: Final = asyncio.Event()

    def request(self, n: int) -> None:
        self.n += n
        self.changed.set()

    def cancel(self) -> None:
        self.is_cancelled = True
        self.changed.set()


async def _feed(subscriber: RSocketPySubscriber, payloads: AsyncIterator[Payload]) -> None:
    """Gives their Subscriber as many items as it asks for."""
    demand = _Demand()
    subscriber.on_subscribe(demand)
    try:
        while not demand.is_cancelled:
            if demand.n == 0:
                demand.changed.clear()
                await demand.changed.wait()
                continue
            demand.n -= 1
            try:
                payload = await anext(payloads)
            except StopAsyncIteration:
                subscriber.on_complete()
                return
            subscriber.on_next(payload)
    except ClientError as error:
        subscriber.on_error(error)


def _failure(error: Exception) -> Exception:
    """What the caller gets: their codes and texts as they are."""
    if isinstance(error, (ApplicationError, Refused)):
        return error
    code = getattr(error, "error_code", None)  # rsocket.exceptions.RSocketProtocolError
    if isinstance(code, int) and FIRST_APPLICATION_CODE <= code <= LAST_APPLICATION_CODE:
        return ApplicationError(str(getattr(error, "data", "") or error), code=int(code))
    if isinstance(code, int) and code in _RSOCKET_CODES:
        return Refused("application-error", str(getattr(error, "data", "") or error), int(code))
    return ApplicationError(str(error) or type(error).__name__)
