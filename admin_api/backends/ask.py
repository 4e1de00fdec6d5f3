"""Asks workers over their Unix sockets: all at once, each for a bounded time. Knows nothing of what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from admin_api.errors import AdminError, Problem
from broker.views.schemas import Listed

ANSWER_S: Final = 5.0  # for one answer; a worker that takes longer is as good as gone
SILENT_S: Final = 1.0  # the same for one that did not answer the last time: one question of an operator is several
PAGE: Final = 1000  # items of one request, the most that a worker gives
MAX_GATHERED: Final = 10_000  # items of one list that one worker is asked for, where the whole list is needed
HOST: Final = "http://localhost"  # the path of the socket says which one

T = TypeVar("T")
Query = Iterable[tuple[str, str]]


class Reply(NamedTuple):
    """What one worker answered, whatever it is."""

    worker: int
    status: int
    body: bytes

    @property
    def is_good(self) -> bool:
        """It answers the question."""
        return self.status == 200

    def decode(self, kind: type[T]) -> T:
        """The body; of a reply that is good."""
        return msgspec.json.decode(self.body, type=kind)

    def refusal(self, missing: frozenset[int]) -> AdminError:
        """The same problem; of a reply that is not good."""
        problem = self.decode(Problem)
        return AdminError(problem.code, problem.detail, problem.reasons, id=problem.id, missing=missing)


class Replies(NamedTuple):
    """Of all workers."""

    good: list[Reply]  # by number, at least one
    missing: frozenset[int]  # workers that do not answer


class Lists(NamedTuple, Generic[T]):
    """The lists of all workers, whole or as much as was wanted of each."""

    items: dict[int, list[T]]  # by worker, at least one
    total_n: int  # items of all lists
    missing: frozenset[int]


class WorkerClient:
    """Asks, and closes its sessions in the end."""

    def __init__(
        self,
        numbers: Callable[[], list[int]],
        socket_path: Callable[[int], str],
        answer_s: float = ANSWER_S,
        silent_s: float = SILENT_S,
    ) -> None:
        """`numbers`: of all workers; `socket_path`: at which one answers."""
        self._numbers: Final = numbers
        self._socket_path: Final = socket_path
        self._answer_s: Final = answer_s
        self._silent_s: Final = silent_s
        self._sessions: dict[int, aiohttp.ClientSession] = {}  # by worker
        self._silent: set[int] = set()  # workers that took too long the last time

    async def close(self) -> None:
        """Asks no more."""
        for session in self._sessions.values():
            await session.close()

    async def ask(
        self, worker: int, path: str, query: Query = (), method: str = "GET", body: bytes = b""
    ) -> Reply | None:
        """What it answers; None when it does not. `path`: with its escapes."""
        parameters = urlencode(list(query))
        url = URL(f"{HOST}{path}{'?' if parameters else ''}{parameters}", encoded=True)
        timeout = aiohttp.ClientTimeout(total=self._silent_s if worker in self._silent else self._answer_s)
        try:
            async with self._session(worker).request(method, url, data=body or None, timeout=timeout) as response:
                reply = Reply(worker, response.status, await response.read())
        except TimeoutError:
            self._silent.add(worker)
            return None
        except (aiohttp.ClientError, OSError):
            return None
        self._silent.discard(worker)
        return reply

    async def ask_all(self, path: str, query: Query = (), method: str = "GET", body: bytes = b"") -> Replies:
        """Asks all workers. AdminError if none answers, or what the first one says if all refuse."""
        query = list(query)
        numbers = self._numbers()
        replies = await asyncio.gather(*(self.ask(number, path, query, method, body) for number in numbers))
        missing = _missing(numbers, replies)
        return Replies(check(replies, missing), missing)

    async def ask_each(self, path: str) -> list[Reply]:
        """The replies of the workers that answer, whatever they are."""
        replies = await asyncio.gather(*(self.ask(number, path) for number in self._numbers()))
        return [reply for reply in replies if reply is not None]

    async def list_all(
        self, path: str, kind: type[Listed[T]], query: Query = (), wanted_n: int = MAX_GATHERED
    ) -> Lists[T]:
        """The first `wanted_n` items of the list of each worker, MAX_GATHERED at most. AdminError as above."""
        numbers, query = self._numbers(), list(query)
        wanted_n = min(wanted_n, MAX_GATHERED)
        lists = await asyncio.gather(*(self._list(number, path, kind, query, wanted_n) for number in numbers))
        found = {number: each for number, each in zip(numbers, lists, strict=True) if isinstance(each, Listed)}
        if not found:
            check([each for each in lists if isinstance(each, Reply)])
        items = {number: each.items for number, each in found.items()}
        return Lists(items, sum(each.total for each in found.values()), _missing(numbers, lists))

    async def _list(
        self, worker: int, path: str, kind: type[Listed[T]], query: list[tuple[str, str]], wanted_n: int
    ) -> Reply | Listed[T] | None:
        """Its reply when that is no list."""
        items: list[T] = []
        while True:
            limit_n = min(PAGE, wanted_n - len(items))
            reply = await self.ask(worker, path, [*query, ("limit", str(limit_n)), ("offset", str(len(items)))])
            if reply is None or not reply.is_good:
                return reply
            part = reply.decode(kind)
            items += part.items
            if not part.items or len(items) >= min(part.total, wanted_n):
                return Listed(items, part.total, 0, wanted_n)

    def _session(self, worker: int) -> aiohttp.ClientSession:
        session = self._sessions.get(worker)
        if session is None:
            # A connection for each question: the process at the other end may be another one each time.
            connector = aiohttp.UnixConnector(self._socket_path(worker), force_close=True)
            session = aiohttp.ClientSession(connector=connector, skip_auto_headers=["Accept-Encoding"])  # not packed
            self._sessions[worker] = session
        return session


def check(replies: Sequence[Reply | None], missing: frozenset[int] = frozenset()) -> list[Reply]:
    """The good ones. AdminError if there is none: what the first worker says all would, or no worker answers."""
    answered = [reply for reply in replies if reply is not None]
    good = [reply for reply in answered if reply.is_good]
    if good:
        return good
    if answered:
        raise answered[0].refusal(missing)
    raise AdminError("not-ready", "no worker answers", ["starting: all workers are being started"])


def _missing(numbers: Sequence[int], answers: Sequence[object]) -> frozenset[int]:
    return frozenset(number for number, answer in zip(numbers, answers, strict=True) if answer is None)
