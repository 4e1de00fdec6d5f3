"""The service of `rsocket-broker offer`, which shows what it is asked and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from broker.commands import terminal
from broker.log import one_line
from client_sdk import Client, Connecting, Payload, Request, Service, State

DRAIN_S = 5.0  # for what still runs when enough has come


class OfferedService:
    """What comes is shown and counted; `done` after `take_n` requests."""

    def __init__(self, answer: bytes | None, items_n: int, take_n: int | None, is_json: bool) -> None:
        """`answer` None: what came is the answer."""
        self._answer = answer
        self._items_n = items_n
        self._left_n = take_n
        self._is_json = is_json
        self.done = asyncio.Event()

    def service(self, name: str, tags: dict[str, str | None]) -> Service:
        """A service that answers all models, whatever the route."""
        offered = Service(name, tags=tags)

        @offered.request_response()
        async def one(request: Request) -> bytes:
            return self._take(request, request.data)

        @offered.request_stream()
        async def many(request: Request) -> AsyncIterator[bytes]:
            answer = self._take(request, request.data)
            for _ in range(self._items_n):
                yield answer

        @offered.request_channel()
        async def each(request: Request, payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
            async for payload in payloads:
                yield self._take(request, payload.data or b"")

        @offered.fire_and_forget()
        async def note(request: Request) -> None:
            self._take(request, request.data)

        @offered.metadata_push()
        async def push(request: Request) -> None:
            self._take(request, request.data)

        return offered

    def _take(self, request: Request, data: bytes) -> bytes:
        """Shows what came; the answer to it."""
        if self._is_json:
            shown = {"model": request.model, "route": request.route, "data": data.decode(errors="replace")}
            terminal.put_line(msgspec.json.encode(shown))
        else:
            terminal.put_line(f"{request.model} {one_line(request.route or '-')}: ".encode() + data)
        if self._left_n is not None:
            self._left_n -= 1
            if self._left_n <= 0:
                self.done.set()
        return data if self._answer is None else self._answer


async def serve_until_done(connecting: Connecting, offered: OfferedService, service: Service) -> int:
    async with connecting as client:
        terminal.complain(f"offering {service.name!r} at {client.broker} as {client.route_id}")
        waits = [asyncio.ensure_future(client.closed()), asyncio.ensure_future(offered.done.wait())]
        telling = asyncio.ensure_future(_tell(client, service.name))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*waits, telling):
                task.cancel()
        await client.drain(DRAIN_S)
    return 0


async def _tell(client: Client, name: str) -> None:
    """A line when the connection has ended, and why; one when the service is offered again."""
    is_away = False
    async for change in client.changes():
        if change.state is State.RECONNECTING and not is_away:
            is_away = True
            why = "" if change.reason is None else f": {change.reason.word}: {change.reason.text}"
            terminal.complain(f"the connection has ended{why}")
        elif change.state is State.CONNECTED and is_away:
            is_away = False
            terminal.complain(f"offering {name!r} again at {change.broker}")
