"""What the tests of the faces call."""

import asyncio
from collections.abc import AsyncIterator

from client_sdk import ApplicationError, Payload, Request, Service


class Orders:
    """A service with a handler of each kind, and what has come to it. It lives in any event loop."""

    def __init__(self) -> None:
        self.service = Service("orders", tags={"region": "eu"})
        self.seen: list[tuple[str, bytes]] = []
        self.began = asyncio.Event()  # somebody asked for what never ends
        self.ended: list[str] = []  # what never ends was cancelled
        self._add_once()
        self._add_many()

    def _add_once(self) -> None:
        @self.service.request_response()
        async def echo(data: bytes) -> bytes:
            return data

        @self.service.request_response("fail")
        async def fail(data: bytes) -> bytes:
            raise ApplicationError("none is left", word="out-of-stock", code=0x301)

        @self.service.request_response("never")
        async def never(data: bytes) -> bytes:
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.append("never")
            return b""

        @self.service.fire_and_forget("line")
        async def line(data: bytes) -> None:
            self.seen.append(("fire_and_forget", data))

        @self.service.metadata_push()
        async def pushed(request: Request) -> None:
            self.seen.append(("metadata_push", request.data))

    def _add_many(self) -> None:
        @self.service.request_stream()
        async def count(data: bytes) -> AsyncIterator[bytes]:
            try:
                for number in range(int(data)):
                    yield b"%d" % number
            finally:
                self.ended.append("stream")

        @self.service.request_channel()
        async def back(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
            try:
                async for payload in payloads:
                    yield payload
            finally:
                self.ended.append("channel")
