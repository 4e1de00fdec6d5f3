"""A feed without a feed: the socket that its operators have, and what it says there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiohttp import web

from broker.config.sections.feed import FeedOptions, PostOptions

FILE = "a file\n"
CONSUMER = {
    "name": "feed@mirror",
    "first_report_at_ms": 1_700_000_000_000,
    "last_report_at_ms": 1_700_000_060_000,
    "has": 5,
    "missing": 2,
    "failed": 1,
    "missing_since_ms": 1_700_000_030_000,
}
STATE: dict[str, Any] = {
    "started_at_ms": 1_700_000_000_000,
    "events_dropped": 4,
    "posted": [
        {
            "name": "data",
            "what": "files",
            "folder": "/srv/data",
            "base_url": "http://127.0.0.1:7070/feed/data/",
            "files": 7,
            "waiting": 1,
            "last_post": 12,
            "problem": "b cannot be posted: Permission denied",
            "sinks": [
                {"name": "rabbit", "state": "up", "confirmed_to": 12, "waiting": 0},
                {"name": "mqtt", "state": "connection refused", "confirmed_to": 9, "waiting": 3},
            ],
            "consumers": [
                CONSUMER,
                CONSUMER | {"name": "sr3@far", "missing": 0, "failed": 0, "missing_since_ms": None},
            ],
        },
        {
            "name": "events",
            "what": "segments",
            "folder": "/var/lib/events",
            "base_url": "http://127.0.0.1:7070/feed/events/",
            "files": 1000,
            "waiting": 0,
            "last_post": 1000,
            "problem": "",
            "sinks": [],
            "consumers": [],
        },
    ],
    "mirrors": [
        {
            "name": "mirror",
            "folder": "/srv/mirror",
            "received": 20,
            "done": 11,
            "bytes": 4096,
            "repeats": 5,
            "refused": 1,
            "failed": 4,
            "given_up": 1,
            "retries": 2,
            "reports": 18,
            "problem": "database or disk is full",
            "sources": [{"name": "mirror.rabbit", "state": "up"}],
        }
    ],
    "winnowed": [
        {
            "name": "first",
            "received": 9,
            "passed": 4,
            "repeats": 3,
            "refused": 2,
            "problem": "",
            "sources": [{"name": "first.rabbit", "state": "connection refused"}],
        }
    ],
}
POST: dict[str, Any] = {
    "number": 11,
    "path": "a/b",
    "block": None,
    "topic": "v03.post.a",
    "pub_time": "20231114T221400",
    "posted_at_ms": 1_700_000_040_000,
    "state": "stands",
    "reports": [
        {
            "consumer": "feed@mirror",
            "code": 499,
            "has_it": False,
            "message": "wrong digest",
            "at_ms": 1_700_000_050_000,
        },
        {"consumer": "sr3@far", "code": 201, "has_it": True, "message": "downloaded", "at_ms": 1_700_000_041_000},
    ],
}


class FakeFeed:
    """Is its process, too. `asked`: the queries for posts that have come."""

    def __init__(self, folder: Path) -> None:
        self.pid = 43
        self.restarts = 2
        data = folder / "data"
        data.mkdir()
        (data / "b\nc").write_text(FILE)
        self.options = FeedOptions(dir=str(folder), post={"data": PostOptions(folder=str(data))})
        self.asked: list[dict[str, str]] = []
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeFeed:
        app = web.Application()
        app.router.add_get("/state", self._state)
        app.router.add_get("/posts", self._posts)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.options.control_path)).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _state(self, request: web.Request) -> web.Response:
        return web.json_response(STATE)

    async def _posts(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.query))
        after, limit = int(request.query["after"]), int(request.query["limit"])
        items = [POST] if after < POST["number"] else []
        return web.json_response({"items": items, "folder": request.query["folder"], "after": after, "limit": limit})
