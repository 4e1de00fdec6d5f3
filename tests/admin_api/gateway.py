"""A Samwise gateway without a gateway: the socket that its operators have, and what it says there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from broker.config.sections.samwise import SamwiseOptions
from broker.config.sections.samwise_checks import CONTROL_NAME


def destination(name: str, **more: Any) -> dict[str, Any]:
    """One of which only counts are known."""
    unknown = {"is_up": None, "waiting": 0, "detail": "", "acknowledged": 0, "retried": 0, "failed": 0}
    return {"name": name, **unknown, **more}


STATE = {
    "started_at_ms": 1_700_000_000_000,
    "callers": 17,
    "callers_refused": 8,
    "requests_waiting": 7,
    "accepted": 40,
    "refused": {"frames": 2, "empty": 1},
    "quirks": {"header-pairs": 3},
    "delivered": 24,
    "died": 2,
    "events_dropped": 3,
    "under_way": 3,
    "waiting": 14,
    "waiting_bytes": 1400,
    "oldest_age_s": 12.5,
    "dead": 2,
    "dead_bytes": 200,
    "destinations": [
        destination("rabbit-1", is_up=True, waiting=3, detail="connected", acknowledged=20),
        destination("rabbit-2", is_up=False, detail="connection refused", retried=5, failed=6),
        destination("billing", failed=1),
        destination("orders", acknowledged=4),
    ],
}


def letter(id: int, dead_at_ms: int | None = None) -> dict[str, Any]:
    """A message, as the gateway tells it."""
    return {
        "id": id,
        "uid": f"00ff-{id}",
        "exchange": "orders",
        "routing_key": "new",
        "distribution": "redundant",
        "acknowledgements": 2,
        "acknowledged_by": ["rabbit-1"],
        "tries": 3 if dead_at_ms else 0,
        "stored_at_ms": 1_700_000_000_000 + id,
        "due_at_ms": None,
        "dead_at_ms": dead_at_ms,
        "reason": "connection refused" if dead_at_ms else "",
        "payload_bytes": 100,
    }


class FakeGateway:
    """Is its process, too. Messages 1 to 5, of which 2 and 4 are dead letters; `said` in place of all of its answers.
    Messages are so large that `page_n` fit into an answer at most.

    With `is_stuck` it takes questions and answers none.
    """

    def __init__(self, folder: Path) -> None:
        self.pid = 42
        self.restarts = 1
        self.options = SamwiseOptions(
            endpoints=("ipc:///run/samwise", "tcp://127.0.0.1:5999"), dir=str(folder), backend="rabbitmq"
        )
        self.state: dict[str, Any] = dict(STATE)
        self.dead = {2, 4}
        self.ids = {1, 2, 3, 4, 5}
        self.page_n = 1000
        self.said: tuple[int, bytes] | None = None
        self.is_stuck = False
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeGateway:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(Path(self.options.dir) / CONTROL_NAME)).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Nobody listens at the socket any more."""
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        if self.is_stuck:
            await self._closing.wait()
        if self.said is not None:
            status, body = self.said
            return web.Response(body=body, status=status)
        return web.json_response(await self._value(request))

    async def _value(self, request: web.Request) -> object:
        if request.method == "GET" and request.path == "/state":
            return self.state
        if request.method == "GET" and request.path == "/messages":
            state, after, limit = request.query["state"], int(request.query["after"]), int(request.query["limit"])
            ids = self.dead if state == "dead" else self.ids - self.dead
            found = sorted(id for id in ids if id > after)[:limit][: self.page_n]
            items = [letter(id, 1_700_000_009_000 if state == "dead" else None) for id in found]
            return {"items": items, "state": state, "after": after, "limit": limit}
        assert request.method == "POST"
        wanted = set(json.loads(await request.read())["ids"])
        changed = wanted & (self.dead if request.path == "/messages/requeue" else self.ids)
        if request.path == "/messages/remove":
            self.ids -= changed
        self.dead -= changed
        return {"changed": len(changed)}
