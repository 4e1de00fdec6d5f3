"""Asking workers over their Unix sockets: all at once, each for a bounded time. Knows nothing of what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from admin_api.backends.merge import MAX_GATHERED, Answer, Body

ANSWER_S: Final = 5.0  # for one answer; a worker that takes longer is as good as gone
SILENT_S: Final = 1.0  # the same for one that did not answer the last time: one question of an operator is several
PAGE: Final = 1000  # items of one request, the most that a worker gives
HOST: Final = "http://localhost"  # the path of the socket says which one

Query = Iterable[tuple[str, str]]


class Reply(NamedTuple):
    """What one worker said to one question, whatever it is."""

    worker: int
    status: int
    body: bytes
    content_type: str

    @property
    def is_good(self) -> bool:
        """It answers the question."""
        return self.status == 200

    def json(self) -> Any:
        """The body; of a reply that is good."""
        return msgspec.json.decode(self.body)


class Places(Protocol):
    """Where workers answer."""

    def numbers(self) -> list[int]:
        """Of all workers."""

    def admin_path(self, number: int, /) -> str:
        """The Unix socket of one."""


class Asker:
    """Asks, and closes its sessions in the end."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._sessions: dict[int, aiohttp.ClientSession] = {}  # by worker
        self._silent: set[int] = set()  # workers that took too long the last time

    async def close(self) -> None:
        """Asks no more."""
        for session in self._sessions.values():
            await session.close()

    async def ask(
        self, worker: int, path: str, query: Query = (), method: str = "GET", body: bytes = b""
    ) -> Reply | None:
        """What it says; None when it does not answer. `path`: as it came, with its escapes."""
        asked = urlencode(list(query))
        url = URL(f"{HOST}{path}{'?' if asked else ''}{asked}", encoded=True)
        timeout = aiohttp.ClientTimeout(total=SILENT_S if worker in self._silent else ANSWER_S)
        try:
            async with self._session(worker).request(method, url, data=body or None, timeout=timeout) as reply:
                said = Reply(worker, reply.status, await reply.read(), reply.headers.get("Content-Type", ""))
        except TimeoutError:
            self._silent.add(worker)
            return None
        except (aiohttp.ClientError, OSError):
            return None
        self._silent.discard(worker)
        return said

    async def ask_all(self, path: str, query: Query = (), method: str = "GET", body: bytes = b"") -> list[Reply]:
        """What those say who answer, by number."""
        query = list(query)
        asked = [self.ask(number, path, query, method, body) for number in self._places.numbers()]
        return [reply for reply in await asyncio.gather(*asked) if reply is not None]

    async def whole(self, worker: int, path: str, query: Query = ()) -> Reply | list[Answer] | None:
        """All items of a list of one worker, MAX_GATHERED at most; its reply when that is no list."""
        query = list(query)
        items: list[Answer] = []
        while True:
            reply = await self.ask(worker, path, [*query, ("limit", str(PAGE)), ("offset", str(len(items)))])
            if reply is None or not reply.is_good:
                return reply
            part: Body = reply.json()
            items += [Answer(worker, each) for each in part["items"]]
            if not part["items"] or len(items) >= min(part["total"], MAX_GATHERED):
                return items

    def _session(self, worker: int) -> aiohttp.ClientSession:
        session = self._sessions.get(worker)
        if session is None:
            # A connection for each question: the process at the other end may be another one each time.
            connector = aiohttp.UnixConnector(self._places.admin_path(worker), force_close=True)
            session = self._sessions[worker] = aiohttp.ClientSession(connector=connector)
        return session
