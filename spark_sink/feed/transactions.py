"""Work on tables of SQLite in a thread of its own: what waits while it commits is the next transaction.

    write ──► what waits ──► the thread ──► one transaction ──► commit ──► answers

Everything has its answer after the commit, so what was answered is there after kill -9. Where the disk takes none of it
each piece of work is tried alone, and whoever asked for one that fails has its error.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

R = TypeVar("R")


class Tables(Protocol):
    """What a transaction is of."""

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


T = TypeVar("T", bound=Tables)


class _Job(NamedTuple):
    work: Callable[[Any], Any]
    answer: "asyncio.Future[Any]"


class Transactions(Generic[T]):
    """One file's, from `open` to `close`. For the event loop that opened it."""

    def __init__(self, name: str) -> None:
        """`name`: of the thread."""
        self._name: Final = name
        self._thread: ThreadPoolExecutor | None = None  # from `open` to `close`
        self._tables: T | None = None  # from `open` to `close`
        self._jobs: list[_Job] = []
        self._writing: asyncio.Task[None] | None = None  # while there are jobs

    async def open(self, make: Callable[[], T]) -> None:
        """Makes the tables, in the thread; raises what that raises."""
        self._thread = ThreadPoolExecutor(1, self._name)
        self._tables = await asyncio.get_running_loop().run_in_executor(self._thread, make)

    async def close(self) -> None:
        """After what was asked before is done."""
        if self._writing is not None:
            await self._writing
        tables, self._tables = self._tables, None
        if tables is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, tables.close)
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    async def do(self, work: Callable[[T], R]) -> R:
        """What it gives, when it is on the disk. Raises what it, or the commit, raises."""
        tables = self._tables
        assert tables is not None  # it is open
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._jobs.append(_Job(work, answer))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(tables))
        return await answer

    async def _write(self, tables: T) -> None:
        loop = asyncio.get_running_loop()
        while self._jobs:
            jobs, self._jobs = self._jobs, []
            results = await loop.run_in_executor(self._thread, partial(_transact, tables, jobs))
            for job, result in zip(jobs, results, strict=True):
                if job.answer.done():
                    continue  # who asked was cancelled
                if isinstance(result, Exception):
                    job.answer.set_exception(result)
                else:
                    job.answer.set_result(result)
        self._writing = None


def _transact(tables: Tables, jobs: Sequence[_Job]) -> list[Any]:
    """What each has given, or the error with which none of it was done. In the thread."""
    try:
        tables.begin()
        results = [job.work(tables) for job in jobs]
        tables.commit()
    except Exception as error:  # whatever it is, those who wait learn of it, and the next ones have their turn
        tables.rollback()
        if len(jobs) == 1:
            return [error]
        return [result for job in jobs for result in _transact(tables, [job])]
    return results
