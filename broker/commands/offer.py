"""`rsocket-broker offer`: a service at a terminal, which shows what it is asked and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import click
import msgspec

from broker import exit_status
from broker.commands import terminal
from broker.log import one_line
from client_sdk import Client, Connecting, Payload, Request, Service, State, connect

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


@click.command(epilog=exit_status.EPILOG)
@click.argument("name")
@terminal.with_connection_options
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A tag of the route; repeatable.")
@click.option("--answer", help="The answer: TEXT, @FILE or -; by default requests are echoed.")
@click.option(
    "--items", "items_n", default=1, show_default=True, type=click.IntRange(0), help="Items that answer a stream."
)
@click.option("--take", "take_n", type=click.IntRange(1), metavar="N", help="End after N requests or items.")
@click.option("--json", "is_json", is_flag=True, help="Show requests as JSON; --answer must be JSON.")
def offer(
    place: terminal.Place,
    /,
    name: str,
    tags: tuple[str, ...],
    answer: str | None,
    items_n: int,
    take_n: int | None,
    is_json: bool,
) -> None:
    """Offer a service NAME until Ctrl-C, show what is asked, and answer.

    To try callers, routes and tags. URL: the broker, as of `call`.
    """
    own_tags = dict(map(terminal.split_tag, tags))

    def main() -> Coroutine[Any, Any, int]:
        text = None if answer is None else terminal.read_text("--answer", answer)
        if is_json and text is not None:
            terminal.checked_json("--answer", text)
        offered = OfferedService(text, items_n, take_n, is_json)
        service = offered.service(name, own_tags)
        connecting = connect(place.url, service=service, ssl=place.ssl, credentials=place.credentials)
        return _serve(connecting, offered, service)

    terminal.run(main)


async def _serve(connecting: Connecting, offered: OfferedService, service: Service) -> int:
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
