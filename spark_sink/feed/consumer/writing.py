"""Writes small files: those that wait at the same time are written by one turn of a thread, folder by folder.

    put ──► what waits ──► a thread: hidden file, synced, its name … the folder, synced ──► answers

Everything has its answer when it is on the disk. What fails in one file fails for that one alone.
"""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from spark_sink.feed.consumer.places import NewFile, Places

THREADS_N: Final = 2  # one writes while the other waits for the disk; of more, each waits for the interpreter, too
TURN_N: Final = 32  # files of one turn
SIDE_N: Final = 16  # files that are worth a turn beside another one: the more a turn has, the less each costs


class _Job(NamedTuple):
    file: NewFile
    answer: "asyncio.Future[None]"


class Writing:
    """Of one folder, until `close`."""

    def __init__(self, places: Places) -> None:
        self._places: Final = places
        self._threads: Final = ThreadPoolExecutor(THREADS_N, "feed writes")
        self._waiting: Final[deque[_Job]] = deque()
        self._turns: Final[set[asyncio.Task[None]]] = set()  # at most THREADS_N

    async def put(self, names: list[str], data: bytes, mtime_ns: int | None, mode: int | None) -> None:
        """The file is there when this returns. OSError."""
        job = _Job(NewFile(names, data, mtime_ns, mode), asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if not self._turns or (len(self._turns) < THREADS_N and len(self._waiting) >= SIDE_N):
            self._turns.add(asyncio.create_task(self._turn()))
        await job.answer

    async def close(self) -> None:
        """After what was begun is written."""
        await asyncio.gather(*self._turns)
        self._threads.shutdown(wait=False)

    async def _turn(self) -> None:
        try:
            await self._work()
        finally:  # at once: what comes from now on needs another one
            turn = asyncio.current_task()
            assert turn is not None  # it is in one
            self._turns.discard(turn)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            share_n = min(TURN_N, max(SIDE_N, -(-len(self._waiting) // THREADS_N)))
            jobs = [self._waiting.popleft() for _ in range(min(share_n, len(self._waiting)))]
            failures = await loop.run_in_executor(self._threads, self._places.put_all, [job.file for job in jobs])
            for job, failure in zip(jobs, failures, strict=True):
                if job.answer.done():
                    continue  # who asked was cancelled
                if failure is None:
                    job.answer.set_result(None)
                else:
                    job.answer.set_exception(failure)
