"""What operators may ask a gateway that runs, at its socket (`client_sdk.gateways.control`).

    GET  /state                                        what it has done, and what waits
    GET  /messages?state=waiting&after=0&limit=100     a page of stored messages, by id; an empty one is the end
    POST /messages/requeue   {"ids": [7]}              dead letters are tried again
    POST /messages/remove    {"ids": [7]}              messages and dead letters are gone

Bodies and answers are values of `broker.views.samwise`. The store is open in one process
only, so a gateway that runs is asked, and one that does not run is stood in for by whoever wants to know.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from broker.views.samwise import (
    DEAD,
    MAX_ID,
    WAITING,
    ChangedMessages,
    GatewayView,
    MessageIds,
    MessagesView,
    MessageView,
)
from client_sdk.gateways.control import ControlSession, ControlSocket, Refusal, answer_of, refusal_of
from client_sdk.gateways.samwise.store import Store
from client_sdk.gateways.samwise.tables import Letter, StoreError

MAX_PAGE: Final = 1000  # messages of one answer
MAX_IDS: Final = 10_000  # of one change


class Listed(Protocol):
    """A gateway, or its store: see there."""

    async def list_waiting(self, after_id: int, max_n: int) -> list[Letter]: ...

    async def list_dead(self, after_id: int, max_n: int) -> list[Letter]: ...


class Running(Listed, Protocol):
    """A gateway."""

    async def requeue(self, ids: Sequence[int]) -> int: ...

    async def remove(self, ids: Sequence[int]) -> int: ...

    def state(self) -> GatewayView: ...


class ControlListener(ControlSocket):
    """The socket of one gateway. Whoever has the store has the socket, too."""

    def __init__(self, gateway: Running, path: Path) -> None:
        self._gateway: Final = gateway
        routes = [
            web.get("/state", self._state),
            web.get("/messages", self._list),
            web.post("/messages/requeue", self._requeue),
            web.post("/messages/remove", self._remove),
        ]
        super().__init__(path, routes)

    async def _state(self, request: web.Request) -> web.Response:
        return answer_of(self._gateway.state())

    async def _list(self, request: web.Request) -> web.Response:
        state = request.query.get("state", WAITING)
        try:
            after_id, limit = int(request.query.get("after", "0")), int(request.query.get("limit", "100"))
        except ValueError:
            return refusal_of("after and limit must be whole numbers")
        if not 0 <= after_id <= MAX_ID:
            return refusal_of(f"after must be 0 to {MAX_ID}")
        if state not in (WAITING, DEAD) or not 1 <= limit <= MAX_PAGE:
            return refusal_of(f"state must be {WAITING} or {DEAD}, limit 1 to {MAX_PAGE}")
        try:
            return answer_of(await page(self._gateway, state, after_id, limit))
        except StoreError as error:
            return refusal_of(str(error), status=503)

    async def _requeue(self, request: web.Request) -> web.Response:
        return await self._change(request, self._gateway.requeue)

    async def _remove(self, request: web.Request) -> web.Response:
        return await self._change(request, self._gateway.remove)

    async def _change(self, request: web.Request, change: Any) -> web.Response:
        try:
            ids = msgspec.json.decode(await request.read(), type=MessageIds).ids
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return refusal_of(str(error))
        if not 1 <= len(ids) <= MAX_IDS:
            return refusal_of(f"ids must be 1 to {MAX_IDS}")
        try:
            return answer_of(ChangedMessages(await change(ids)))
        except StoreError as error:
            return refusal_of(str(error), status=503)


class ControlClient:
    """Asks a gateway that runs; `async with` it."""

    def __init__(self, path: Path) -> None:
        self._session: Final = ControlSession(path)

    async def __aenter__(self) -> "ControlClient":
        return self

    async def __aexit__(self, *told: object) -> None:
        await self._session.__aexit__(*told)

    async def page(self, state: str, after_id: int, limit: int) -> MessagesView:
        """NotRunning; StoreError: the gateway does not give it."""
        query = {"state": state, "after": str(after_id), "limit": str(limit)}
        return msgspec.json.decode(await self._ask("GET", "/messages", params=query), type=MessagesView)

    async def requeue(self, ids: list[int]) -> int:
        """How many of these were dead letters."""
        answer = await self._ask("POST", "/messages/requeue", data=msgspec.json.encode(MessageIds(ids)))
        return msgspec.json.decode(answer, type=ChangedMessages).changed

    async def remove(self, ids: list[int]) -> int:
        """How many of these there were."""
        answer = await self._ask("POST", "/messages/remove", data=msgspec.json.encode(MessageIds(ids)))
        return msgspec.json.decode(answer, type=ChangedMessages).changed

    async def _ask(self, method: str, path: str, **more: Any) -> bytes:
        try:
            return await self._session.ask(method, path, **more)
        except Refusal as error:
            raise StoreError(str(error)) from None


class StoppedGateway:
    """The store of a gateway that does not run, asked as `ControlClient` is. StoreError: it cannot be opened."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store

    async def __aenter__(self) -> "StoppedGateway":
        await self._store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def page(self, state: str, after_id: int, limit: int) -> MessagesView:
        """Messages, by id."""
        return await page(self._store, state, after_id, limit)

    async def requeue(self, ids: list[int]) -> int:
        """They are tried when a gateway runs."""
        return await self._store.requeue(ids, time.time_ns() // 1_000_000)

    async def remove(self, ids: list[int]) -> int:
        """How many of these there were."""
        return await self._store.remove(ids)


async def page(gateway: Listed, state: str, after_id: int, limit: int) -> MessagesView:
    """Messages that wait, or dead letters."""
    letters = await (gateway.list_dead if state == DEAD else gateway.list_waiting)(after_id, limit)
    return MessagesView([view_of(letter) for letter in letters], state, after_id, limit)


def view_of(letter: Letter) -> MessageView:
    """A message for people."""
    message, publish = letter.message, letter.message.publish
    return MessageView(
        id=message.id,
        uid=message.uid,
        exchange=publish.exchange,
        routing_key=publish.routing_key,
        distribution=publish.distribution,
        acknowledgements=publish.acks_n,
        acknowledged_by=sorted(message.acknowledged_by),
        tries=message.tries_n,
        stored_at_ms=message.stored_at_ms,
        due_at_ms=letter.due_at_ms,
        dead_at_ms=letter.dead_at_ms,
        reason=letter.reason,
        payload_bytes=len(publish.payload),
    )
