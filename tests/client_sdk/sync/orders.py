"""What the tests of the faces call."""

import asyncio
import queue
from collections.abc import AsyncIterator, Callable

from client_sdk import ApplicationError, Payload, Request, Service
from tests.client_sdk.samples import gives, raises


class Orders:
    """A service with a handler of each kind, and what has come to it. It lives in any event loop."""

    def __init__(self) -> None:
        self.service = Service("orders", tags={"region": "eu"})
        self.seen: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self.began = asyncio.Event()  # somebody asked for what never ends
        self.on_begin: Callable[[], object] = self.began.set
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()  # "never", "stream" or "channel", in any thread
        self._add_once()
        self._add_many()

    def _add_once(self) -> None:
        self.service.request_response()(gives(lambda data: data))
        self.service.request_response("fail")(raises(ApplicationError("none is left", word="out-of-stock", code=0x301)))

        @self.service.request_response("never")
        async def never(data: bytes) -> bytes:
            self.on_begin()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.put("never")
            return b""

        @self.service.request_response("note")
        async def note(request: Request) -> bytes:
            return request.entry("text/plain") or b"none"

        self.service.fire_and_forget("line")(gives(lambda data: self.seen.put(("fire_and_forget", data))))
        self.service.metadata_push()(gives(lambda data: self.seen.put(("metadata_push", data))))

    def _add_many(self) -> None:
        @self.service.request_stream()
        async def count(data: bytes) -> AsyncIterator[bytes]:
            try:
                for number in range(int(data)):
                    yield b"%d" % number
            finally:
                self.ended.put("stream")

        @self.service.request_stream("ticks")
        async def ticks(data: bytes) -> AsyncIterator[bytes]:
            try:
                yield b"the first"
                await asyncio.Event().wait()
            finally:
                self.ended.put("ticks")

        @self.service.request_channel()
        async def back(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
            try:
                async for payload in payloads:
                    yield payload
            finally:
                self.ended.put("channel")
