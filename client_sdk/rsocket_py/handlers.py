"""Handlers written for rsocket-py, behind our engine: its request handlers, and with them its `RequestRouter`.

    engine ── Responder ──► RSocketPyResponder ──► RequestHandler
    Collector (publishers.py) ──► items of a stream         Subscription.request(n) ──► so many items of a channel

Every handler runs in the task of its request, so one that awaits holds up nobody. Texts of its exceptions reach the
caller, as its users are used to. One handler answers all requests of a service, whoever sends them: behind a broker
there is no connection per caller.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any, Final, cast

from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketProtocolError
from rsocket.request_handler import RequestHandler

from client_sdk.errors import ClientError, SetupRejected
from client_sdk.payload import Payload
from client_sdk.rsocket_py.failures import as_ours, as_theirs
from client_sdk.rsocket_py.lifecycle import ReconnectingClient, end_soon, follow, tell_failure
from client_sdk.rsocket_py.publishers import Collector, collect
from client_sdk.rsocket_py.typing import HandlerSource, RSocketPyHandler, TheirSubscriber
from client_sdk.streams import Inflow
from rsocket_wire.rsocket.frames import Setup

_log: Final = logging.getLogger("client_sdk")


def handler_of(source: HandlerSource) -> RSocketPyHandler:
    """A handler: made by a factory or a class, given as it is, or for a RequestRouter. TypeError for anything else."""
    from rsocket.routing.request_router import RequestRouter
    from rsocket.routing.routing_request_handler import RoutingRequestHandler

    made: object = source
    if isinstance(source, RequestRouter):
        made = RoutingRequestHandler(source)
    elif callable(source) and not isinstance(source, RequestHandler):
        made = source()
    if not isinstance(made, RequestHandler):
        kind = type(made).__name__
        raise TypeError(f"handler= gives {kind}, it must be or make a rsocket.request_handler.BaseRequestHandler")
    return cast(RSocketPyHandler, made)


class RSocketPyResponder:
    """Answers the requests of one service with an rsocket-py handler (the engine's `Responder`)."""

    setup: Setup  # what our side says; set by `connect`, which alone uses it

    def __init__(self, source: HandlerSource) -> None:
        self.handler: Final = handler_of(source)
        self._followers: Final[set[asyncio.Task[None]]] = set()  # one for each client that is not closed

    async def set_up(self) -> None:
        """Tells the handler what our SETUP says, as their server would; SetupRejected when it does not want that."""
        setup = self.setup
        payload = Payload(setup.data, setup.metadata)
        try:
            await self.handler.on_setup(setup.data_mime.encode(), setup.metadata_mime.encode(), payload)
        except Exception as error:
            raise SetupRejected(f"on_setup of the handler raised {type(error).__name__}: {error}") from error

    async def start(self, client: ReconnectingClient) -> None:
        """Starts the client, and tells the handler from now on what becomes of its connection."""
        try:
            await client.start()
        except ClientError as error:
            await tell_failure(self.handler, client.as_rsocket(), error)
            raise
        lifetime = timedelta(milliseconds=self.setup.lifetime_ms)
        task = asyncio.create_task(follow(client, self.handler, lifetime), name="rsocket-py handler")
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)

    async def ended(self) -> None:
        """The client was closed: returns when the handler has heard of it, or takes too long."""
        await end_soon(self._followers)

    async def request_response(self, metadata: bytes | None, data: bytes) -> Payload:
        try:
            future = await self.handler.request_response(Payload(data, metadata))
            answer = await future
        except Exception as error:
            raise as_ours(error) from error
        if not isinstance(answer, Payload):
            raise TypeError(f"request_response gave {type(answer).__name__}, it must give a Payload")
        return answer

    async def fire_and_forget(self, metadata: bytes | None, data: bytes) -> None:
        await self.handler.request_fire_and_forget(Payload(data, metadata))

    async def metadata_push(self, metadata: bytes) -> None:
        await self.handler.on_metadata_push(Payload(None, metadata))

    async def request_stream(self, metadata: bytes | None, data: bytes) -> AsyncGenerator[object, None]:
        try:
            collector = collect(await self.handler.request_stream(Payload(data, metadata)))
            async with aclosing(collector.items()) as items:
                async for item in items:
                    yield item
        except Exception as error:
            raise as_ours(error) from error

    async def request_channel(
        self, metadata: bytes | None, data: bytes, payloads: AsyncIterator[Payload]
    ) -> AsyncGenerator[object, None]:
        # Their handlers get the first payload as an argument, and never through the subscriber.
        first = await anext(payloads)
        feeder: asyncio.Task[None] | None = None
        try:
            publisher, subscriber = await self.handler.request_channel(first)
            collector = None if publisher is None else collect(publisher)
            if subscriber is not None:
                demand = _Demand()
                subscriber.on_subscribe(demand)
                feeder = asyncio.create_task(_feed(subscriber, demand, payloads, collector))
            if collector is not None:
                async with aclosing(collector.items()) as items:
                    async for item in items:
                        yield item
            if feeder is not None:
                await feeder
        except Exception as error:
            raise as_ours(error) from error
        finally:
            if feeder is not None and not feeder.done():
                feeder.cancel()
                await asyncio.wait([feeder])


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


async def _feed(
    subscriber: TheirSubscriber, demand: _Demand, payloads: AsyncIterator[Payload], collector: Collector | None
) -> None:
    """Gives their Subscriber as many items as it asks for. What it raises ends the channel, and nothing else."""
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
            subscriber.on_next(payload, is_complete=False)
        if isinstance(payloads, Inflow):
            payloads.cancel()  # the caller hears that its half is wanted no more
    except asyncio.CancelledError:
        _tell(subscriber, RSocketProtocolError(ErrorCode.CANCELED, data="canceled: the caller cancelled"))
        raise
    except ClientError as error:
        _tell(subscriber, as_theirs(error))
    except Exception as error:
        if collector is None:
            raise
        collector.on_error(error)


def _tell(subscriber: TheirSubscriber, error: Any) -> None:
    try:
        subscriber.on_error(error)
    except Exception:
        _log.exception("a Subscriber failed in on_error")
