"""Where operators ask a gateway that runs: HTTP on a Unix socket in its folder, for who may open it.

    GET  /state                                        what it has done, and what waits
    GET  /messages?state=waiting&after=0&limit=100     a page of stored messages, by id; an empty one is the end
    POST /messages/requeue   {"ids": [7]}              dead letters are tried again
    POST /messages/remove    {"ids": [7]}              messages and dead letters are gone

Bodies and answers are JSON, values of `broker.views.samwise`; a refusal is a sentence. The store is open in one process
only, so a gateway that runs is asked, and one that does not run is stood in for by whoever wants to know.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, UnixConnector, web

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
from client_sdk.gateways.samwise.store import Store
from client_sdk.gateways.samwise.tables import Letter, StoreError

MAX_PAGE: Final = 1000  # messages of one answer
MAX_IDS: Final = 10_000  # of one change
ASK_S: Final = 30.0  # for an answer; the store may be busy with callers
SOCKET_MODE: Final = 0o600


class Listed(Protocol):
    """A gateway, or its store: see there."""

    async def list_waiting(self, after_id: int, max_n: int) -> list[Letter]: ...

    async def list_dead(self, after_id: int, max_n: int) -> list[Letter]: ...


class Running(Listed, Protocol):
    """A gateway."""

    async def requeue(self, ids: Sequence[int]) -> int: ...

    async def remove(self, ids: Sequence[int]) -> int: ...

    def state(self) -> GatewayView: ...


class NotRunning(Exception):
    """No gateway answers at that socket."""


class ControlListener:
    """The socket, from `start` to `close`."""

    def __init__(self, gateway: Running, path: Path) -> None:
        self._gateway: Final = gateway
        self._path: Final = path
        app = web.Application()
        app.add_routes(
            [
                web.get("/state", self._state),
                web.get("/messages", self._list),
                web.post("/messages/requeue", self._requeue),
                web.post("/messages/remove", self._remove),
            ]
        )
        self._runner: Final = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def start(self) -> None:
        """OSError. Whoever has the store has the socket, too: one that is there is of a process that is gone."""
        self._path.unlink(missing_ok=True)
        await self._runner.setup()
        before = os.umask(0o777 & ~SOCKET_MODE)
        try:
            await web.UnixSite(self._runner, str(self._path)).start()
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Also before it was started."""
        is_started = bool(self._runner.sites)
        await self._runner.cleanup()
        if is_started:
            self._path.unlink(missing_ok=True)

    async def _state(self, request: web.Request) -> web.Response:
        return _json(self._gateway.state())

    async def _list(self, request: web.Request) -> web.Response:
        state = request.query.get("state", WAITING)
        try:
            after_id, limit = int(request.query.get("after", "0")), int(request.query.get("limit", "100"))
        except ValueError:
            return _refuse("after and limit must be whole numbers")
        if not 0 <= after_id <= MAX_ID:
            return _refuse(f"after must be 0 to {MAX_ID}")
        if state not in (WAITING, DEAD) or not 1 <= limit <= MAX_PAGE:
            return _refuse(f"state must be {WAITING} or {DEAD}, limit 1 to {MAX_PAGE}")
        try:
            return _json(await page(self._gateway, state, after_id, limit))
        except StoreError as error:
            return _refuse(str(error), status=503)

    async def _requeue(self, request: web.Request) -> web.Response:
        return await self._change(request, self._gateway.requeue)

    async def _remove(self, request: web.Request) -> web.Response:
        return await self._change(request, self._gateway.remove)

    async def _change(self, request: web.Request, change: Any) -> web.Response:
        try:
            ids = msgspec.json.decode(await request.read(), type=MessageIds).ids
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return _refuse(str(error))
        if not 1 <= len(ids) <= MAX_IDS:
            return _refuse(f"ids must be 1 to {MAX_IDS}")
        try:
            return _json(ChangedMessages(await change(ids)))
        except StoreError as error:
            return _refuse(str(error), status=503)


class ControlClient:
    """Asks a gateway that runs; `async with` it."""

    def __init__(self, path: Path) -> None:
        self._session: Final = ClientSession(
            connector=UnixConnector(str(path)), timeout=ClientTimeout(ASK_S), base_url="http://gateway"
        )

    async def __aenter__(self) -> "ControlClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

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
            async with self._session.request(method, path, **more) as response:
                data = await response.read()
        except (ClientError, TimeoutError) as error:
            raise NotRunning(str(error)) from None
        if response.status != 200:
            raise StoreError(data.decode(errors="replace"))
        return data


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


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _refuse(text: str, status: int = 400) -> web.Response:
    return web.Response(text=text, status=status)
