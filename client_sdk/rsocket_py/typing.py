"""The objects of rsocket-py and reactivestreams that we hold: rsocket-py is not typed, so their types are said here.

Nothing here runs. Sources: `reactivestreams`, `rsocket.request_handler` and `rsocket.transports.transport` of 0.4.20.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol, TypeAlias


class TheirSubscription(Protocol):
    """`reactivestreams.Subscription`."""

    def request(self, n: int) -> None: ...

    def cancel(self) -> None: ...


class TheirSubscriber(Protocol):
    """`reactivestreams.Subscriber`."""

    def on_subscribe(self, subscription: Any) -> None: ...

    def on_next(self, value: Any, is_complete: bool = False) -> None: ...

    def on_error(self, exception: Exception) -> None: ...

    def on_complete(self) -> None: ...


class TheirPublisher(Protocol):
    """`reactivestreams.Publisher`."""

    def subscribe(self, subscriber: Any) -> None: ...


class RSocketPyHandler(Protocol):
    """`rsocket.request_handler.RequestHandler`."""

    async def on_setup(self, data_encoding: bytes, metadata_encoding: bytes, payload: Any) -> None: ...

    async def request_response(self, payload: Any) -> Awaitable[Any]: ...

    async def request_stream(self, payload: Any) -> Any: ...

    async def request_channel(self, payload: Any) -> tuple[Any, Any]: ...

    async def request_fire_and_forget(self, payload: Any) -> None: ...

    async def on_metadata_push(self, payload: Any) -> None: ...

    async def on_error(self, error_code: Any, payload: Any) -> None: ...

    async def on_keepalive_timeout(self, time_since_last_keepalive: timedelta, rsocket: Any) -> None: ...

    async def on_connection_error(self, rsocket: Any, exception: Exception) -> None: ...

    async def on_close(self, rsocket: Any, exception: Exception | None = None) -> None: ...


class RSocketPyRouter(Protocol):
    """`rsocket.routing.request_router.RequestRouter`."""

    def response(self, route: str) -> Any: ...

    def metadata_push(self, route: str) -> Any: ...

    async def route(self, frame_type: Any, route: str, payload: Any, composite_metadata: Any) -> Any: ...


class TheirTransport(Protocol):
    """`rsocket.transports.transport.Transport`."""

    async def connect(self) -> None: ...

    async def send_frame(self, frame: Any) -> None: ...

    async def next_frame_generator(self) -> Any: ...

    async def close(self) -> None: ...

    async def on_send_queue_empty(self) -> None: ...


HandlerSource: TypeAlias = Callable[[], RSocketPyHandler] | RSocketPyHandler | RSocketPyRouter
TransportProvider: TypeAlias = AsyncIterator[Any]
