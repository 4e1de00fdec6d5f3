"""Answers the requests of one client with the handlers of a service: the engine's `Responder`.

    request ──► routes: which handler ──► in service? ──► handler ──► answer, or items

Decides who is refused before a handler is asked (D-56), and how a gather is answered (`gather_answers`).
Counts what is being worked on. Does not know connections: over all those of a client it is one.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final

from client_sdk import tracing
from client_sdk.errors import Refused, split_word
from client_sdk.io.failures import failure_of
from client_sdk.io.stream_pump import close_items, is_cancelled
from client_sdk.metadata import OCTET_STREAM_MIME
from client_sdk.payload import Payload, as_parts
from client_sdk.services.gather_answers import (
    GATHER_MIME,
    answer_payload,
    answered_by,
    asks_tags,
    asks_who,
    failure_payload,
    is_gather,
    tags_entry,
)
from client_sdk.services.handler_stream import HandlerStream
from client_sdk.services.handlers import Handler
from client_sdk.services.request import DrainingEvent, Request
from client_sdk.services.service import Service
from rsocket_wire.errors import REJECTED
from rsocket_wire.models import FIRE_AND_FORGET, METADATA_PUSH, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM

_GATHER: Final = GATHER_MIME.encode()
_NO_ID: Final = bytes(16)


class ServiceResponder:
    """One for each client that offers the service."""

    def __init__(self, service: Service, route_id: bytes = _NO_ID) -> None:
        """`route_id`: of the client, 16 bytes."""
        self._service: Final = service
        self._health: Final = service.health
        self._responses: Final = service.routes[REQUEST_RESPONSE]
        self._streams: Final = service.routes[REQUEST_STREAM]
        self._who: Final = answered_by(route_id, service.name)
        self.find_tags: Callable[[], Mapping[str, str | None]] = lambda: service.tags  # as the broker is told them
        self._idle: asyncio.Event | None = None  # set when nothing is worked on; None until somebody waits for it
        self.working_n = 0  # requests, whatever their model; bounded by the engine
        self.is_draining = False  # new requests are refused
        self.draining: Final = DrainingEvent()  # set a little before: what runs may end kindly

    async def request_response(self, metadata: bytes | None, data: bytes) -> Payload | bytes:
        handler = self._responses.find(metadata)
        if self._health.is_out or self.is_draining:
            self._refuse(Request(REQUEST_RESPONSE, data, metadata))
        self.working_n += 1
        try:
            if tracing.is_wanted(metadata):
                answer = await self._traced(handler, Request(REQUEST_RESPONSE, data, metadata, self.draining))
            elif handler.is_plain:
                answer = await handler.function(
                    data if handler.body else Request(REQUEST_RESPONSE, data, metadata, self.draining)
                )
            else:
                answer = await handler.call(Request(REQUEST_RESPONSE, data, metadata, self.draining))
        except Exception as error:
            handler.note(error)
            raise
        finally:
            self._ended()
        if type(answer) is bytes:
            return answer  # a Payload around it would cost as much as finding the handler
        return Payload(*as_parts(answer, handler.returned))

    async def fire_and_forget(self, metadata: bytes | None, data: bytes) -> None:
        # Also while the service is out: nobody would learn that it was refused.
        await self._take(FIRE_AND_FORGET, Request(FIRE_AND_FORGET, data, metadata, self.draining))

    async def metadata_push(self, metadata: bytes) -> None:
        outer = Request(METADATA_PUSH, b"", metadata)
        await self._take(
            METADATA_PUSH, Request(METADATA_PUSH, outer.entry(OCTET_STREAM_MIME) or b"", metadata, self.draining)
        )

    def request_stream(self, metadata: bytes | None, data: bytes) -> AsyncIterator[object]:
        request = Request(REQUEST_STREAM, data, metadata, self.draining)
        if metadata is not None and _GATHER in metadata and is_gather(request.entries):
            return self._present() if asks_who(request.entries) else self._gathered(request)
        return self._items(self._streams.find(metadata), request)

    def request_channel(
        self, metadata: bytes | None, data: bytes, payloads: AsyncIterator[Payload]
    ) -> AsyncIterator[object]:
        request = Request(REQUEST_CHANNEL, data, metadata, self.draining)
        handler = self._service.routes[REQUEST_CHANNEL].find(metadata)
        if self._health.is_out or self.is_draining:
            self._refuse(request)
        return self._answers(handler, request, payloads)

    async def wait_idle(self, timeout_s: float) -> int:
        """Until nothing is worked on; how many requests still are when the time is over."""
        idle = self._idle = asyncio.Event()
        if not self.working_n:
            return 0
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await idle.wait()
        except TimeoutError:
            return self.working_n
        return 0

    def _ended(self) -> None:
        self.working_n -= 1
        if not self.working_n and self._idle is not None:
            self._idle.set()

    def _refuse(self, request: Request) -> None:
        """REJECTED, so that the caller may ask somebody else. Not for a multicast, which one ERROR ends for all."""
        address = request.address
        if address is not None and address.routing == "multicast":
            return
        raise self._refusal()

    def _refusal(self) -> Refused:
        """Why it takes no requests now."""
        name = self._service.name
        if self.is_draining:
            return Refused("draining", f"this instance of service {name!r} is about to stop", REJECTED)
        return Refused("unhealthy", f"service {name!r} is out of service: {self._health.reason}", REJECTED)

    async def _call(self, handler: Handler, request: Request) -> Any:
        traced = tracing.is_wanted(request.metadata)
        return await (self._traced(handler, request) if traced else handler.call(request))

    async def _traced(self, handler: Handler, request: Request) -> Any:
        with tracing.server_span(request.entries, request.model, self._service.name, request.route):
            return await handler.call(request)

    async def _take(self, model: str, request: Request) -> None:
        handler = self._service.routes[model].find(request.metadata)
        self.working_n += 1
        try:
            await self._call(handler, request)
        finally:
            self._ended()

    def _answers(
        self, handler: Handler, request: Request, payloads: AsyncIterator[Payload] | None
    ) -> AsyncIterator[object]:
        self.working_n += 1
        return HandlerStream(self._service.name, handler, request, payloads, self._ended)

    async def _single(self, handler: Handler, request: Request) -> AsyncGenerator[object, None]:
        """The answer to a request/response as the only item of a stream."""
        self.working_n += 1
        try:
            answer = await self._call(handler, request)
        finally:
            self._ended()
        yield answer

    async def _gathered(self, request: Request) -> AsyncGenerator[object, None]:
        """Marked items; a failure is one, too: an ERROR would end the answers of all others."""
        items: AsyncIterator[object] | None = None
        who = self._who + tags_entry(self.find_tags()) if asks_tags(request.entries) else self._who
        try:
            items = self._items(self._gatherer(request.metadata), request)
            async for item in items:
                yield answer_payload(who, *as_parts(item, "an item"))
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled(error):
                raise
            yield failure_payload(who, *failure_of(error, "a gather"))
        finally:
            if items is not None:
                await close_items(items)

    async def _present(self) -> AsyncGenerator[object, None]:
        """Who this is, and whether it takes requests."""
        if self._health.is_out or self.is_draining:
            yield failure_payload(self._who, REJECTED, str(self._refusal()))
        else:
            yield answer_payload(self._who, b"", None)

    def _gatherer(self, metadata: bytes | None) -> Handler:
        """The handler that answers a gather."""
        try:
            return self._responses.find(metadata)
        except Refused as error:
            if error.word != "no-handler":
                raise
        try:
            return self._streams.find(metadata)
        except Refused as error:
            if error.word != "no-handler":
                raise
            text = f"request_response and request_stream handlers answer a gather, and {split_word(error.message)[1]}"
            raise Refused(error.word, text, error.code) from None

    def _items(self, handler: Handler, request: Request) -> AsyncIterator[object]:
        if self._health.is_out or self.is_draining:
            self._refuse(request)
        if handler.model == REQUEST_RESPONSE:
            return self._single(handler, request)
        return self._answers(handler, request, None)
