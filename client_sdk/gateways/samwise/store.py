"""Messages on disk until they are delivered: a thread that writes, and what the event loop asks of it.

    put ─────┐                             ┌──► the file (tables.py) ──► commit ──► answers, all in one call
    read ────┼──► what waits for the thread┤    one transaction
    settled ─┘                             └──► the disk takes none of it: one by one; puts are refused, what is settled
                                                is kept and written later, readers get a StoreError

While the thread commits, others come, and all of them are the next transaction: 64 callers share one wait for the
disk. `put` has its answer after the commit, so what was answered is there after kill -9; with `durability` FSYNC after
a power failure, too. For the end of a delivery (`delivered`, `later` …) nobody waits: it is written with the next
answer, or LINGER_S later, and what a crash forgets of it is delivered again.
"""

import asyncio
import logging
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeVar

from client_sdk.gateways.samwise.tables import Letter, StoreError, Tables, Totals, encode_publish
from client_sdk.gateways.samwise.values import Message, Publish, Refused

FSYNC: Final = "fsync"  # what is stored survives a power failure
OS: Final = "os"  # it survives the end of the process, whatever ends it
DURABILITIES: Final = (FSYNC, OS)

QUIET_S: Final = 60.0  # between two lines in the log: a full disk may refuse each caller
LINGER_S: Final = 0.02  # that ends of deliveries wait for somebody to share a commit with; a crash repeats so many more
RETRY_S: Final = 1.0  # until what a full disk did not take is written again
MAX_READ_BYTES: Final = 16 * 1024 * 1024  # of messages in one reading, and one more: memory and callers bear it

_log: Final = logging.getLogger("client_sdk")

T = TypeVar("T")


class _Job:
    """What the thread is to do: `work` gets the arguments of all its neighbours of the same kind in one list."""

    __slots__ = ("work", "args", "answer", "is_kept", "result")

    def __init__(
        self, work: Callable[[list[Any]], Any], args: Any, answer: asyncio.Future[Any] | None, *, is_kept: bool
    ) -> None:
        self.work: Final = work
        self.args: Final = args
        self.answer: Final = answer  # None: nobody waits
        self.is_kept: Final = is_kept  # until it is done, instead of failing
        self.result: Any = None  # or the error


class Store:
    """The messages of one gateway. All methods are for the event loop that called `open`.

    `on_stored` is called with each message in the order of their ids, right after the commit.
    """

    def __init__(
        self,
        path: Path,
        *,
        durability: str = FSYNC,
        max_messages: int = 1_000_000,
        max_bytes: int = 4 * 1024**3,
        on_stored: Callable[[Message], None] = lambda message: None,
    ) -> None:
        """`max_messages` and `max_bytes` are of all messages that are stored, dead letters too. Opens nothing yet."""
        if durability not in DURABILITIES:
            raise ValueError(f"durability is {durability!r}, it must be one of {', '.join(DURABILITIES)}")
        self.path: Final = path
        self.on_stored = on_stored
        self._durability: Final = durability
        self._max_messages: Final = max_messages
        self._max_bytes: Final = max_bytes
        self._tables: Tables | None = None  # from `open` to `close`
        self._thread: threading.Thread | None = None  # the same
        self._totals = Totals(1, 0, 0, 0, 0)
        # Shared with the thread, under the lock of this condition.
        self._changed: Final = threading.Condition()
        self._puts: list[_Job] = []
        self._jobs: list[_Job] = []  # in the order in which they were asked for
        self._ends: list[_Job] = []  # of messages that are done with: nothing that is asked depends on their order
        self._is_urgent = False  # somebody waits for one of them
        self._is_asleep = False  # the thread has nothing to do
        self._is_closing = False
        # The thread's own.
        self._kept: list[_Job] = []  # what the disk did not take; no more than there are messages under way
        self._trouble = ""  # why, the last time; empty: it took all
        self._quiet_until = 0.0  # monotonic: until then nothing is said of it
        # The loop's own.
        self._uids: Final = random.Random()  # seeded by the system
        self.unwritten_n = 0  # ends of deliveries that are not on disk yet: who delivers must not run ahead of it

    async def open(self) -> None:
        """StoreError: the file cannot be used, or another gateway uses it."""
        assert self._tables is None
        is_synced = self._durability == FSYNC
        self._tables = await asyncio.to_thread(
            lambda: Tables(self.path, is_synced=is_synced, max_messages=self._max_messages, max_bytes=self._max_bytes)
        )
        self._totals = self._tables.totals
        self._is_closing = False
        work = (self._tables, asyncio.get_running_loop())
        self._thread = threading.Thread(target=self._work, args=work, name="samwise store", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """After what was asked before is done, or the disk has refused it. Nothing if it is not open."""
        if self._thread is None or self._tables is None:
            return
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)
        self._thread = self._tables = None

    @property
    def totals(self) -> Totals:
        """As of the last commit."""
        return self._totals

    # Callers

    async def put(self, publish: Publish, at_ms: int) -> Message:
        """The message, when it is on disk. Refused: the store or the disk is full. `at_ms`: now, since the epoch."""
        # Not os.urandom, which lets the thread run before it returns: 64 callers lost a fifth of their time by it.
        args = publish, f"{self._uids.getrandbits(128):032x}", at_ms, encode_publish(publish)
        message = await self._ask(self._puts, self._open_tables.put, args)
        assert isinstance(message, Message)
        return message

    # Delivery: what it reads. StoreError: the disk does not give it.

    async def read_new(self, after_id: int, max_n: int) -> tuple[list[Message], int]:
        """New messages behind this id, in order, and the id up to which there are no others."""
        return await self._read(lambda tables: tables.read_new(after_id, max_n, MAX_READ_BYTES))

    async def take_due(self, now_ms: int, max_n: int) -> tuple[list[Message], int | None]:
        """Messages that are due, which are then at hand, and when the next one is; None: no other."""
        return await self._read(lambda tables: tables.take_due(now_ms, max_n, MAX_READ_BYTES))

    async def take_lane(self, lane: str, max_n: int) -> tuple[list[Message], bool]:
        """The first messages of a lane, which are then at hand, and whether these were all."""
        return await self._read(lambda tables: tables.take_lane(lane, max_n, MAX_READ_BYTES))

    async def resume(self, latest_due_at_ms: int) -> tuple[list[str], int | None]:
        """Lanes in which messages wait, and when the next of the others is due, which is no later than this."""

        def work(tables: Tables) -> tuple[list[str], int | None]:
            tables.limit_due(latest_due_at_ms)
            return tables.lanes(), tables.next_due_at_ms()

        return await self._read(work)

    # Delivery: how it ended. None of these waits.

    def delivered(self, id: int) -> None:
        """It is done with."""
        self._tell(self._ends, self._open_tables.delivered, id)

    def acknowledged(self, id: int, names: Iterable[str]) -> None:
        """These have acknowledged it, and others have to."""
        self._tell(self._jobs, self._open_tables.acknowledged, (id, names))

    def later(self, id: int, due_at_ms: int, tries_n: int, reason: str) -> None:
        """It is tried again then."""
        self._tell(self._jobs, self._open_tables.later, (id, due_at_ms, tries_n, reason))

    def park(self, id: int, lane: str, tries_n: int, reason: str) -> None:
        """It waits in this lane."""
        self._tell(self._jobs, self._open_tables.park, (id, lane, tries_n, reason))

    def bury(self, id: int, tries_n: int, reason: str, at_ms: int) -> None:
        """It is a dead letter."""
        self._tell(self._jobs, self._open_tables.bury, (id, tries_n, reason, at_ms))

    async def written(self) -> None:
        """Returns when all that was told before is on disk, which may take until there is room on it. StoreError: the
        store was closed before."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tell(self._jobs, _nothing, None, done)
        await done

    # Operators

    async def list_waiting(self, after_id: int, max_n: int) -> list[Letter]:
        """A page of those that wait, by id; fewer where they are large, none: there are no others."""
        return await self._read(lambda tables: tables.list_waiting(after_id, max_n, MAX_READ_BYTES))

    async def list_dead(self, after_id: int, max_n: int) -> list[Letter]:
        """A page of dead letters, as `list_waiting`."""
        return await self._read(lambda tables: tables.list_dead(after_id, max_n, MAX_READ_BYTES))

    async def requeue(self, ids: Sequence[int], now_ms: int) -> int:
        """Dead letters are tried again; how many of these there were."""
        return await self._read(lambda tables: tables.requeue(ids, now_ms))

    async def remove(self, ids: Sequence[int]) -> int:
        """Messages and dead letters are gone; how many of these there were."""
        return await self._read(lambda tables: tables.remove(ids))

    # In the loop

    @property
    def _open_tables(self) -> Tables:
        if self._tables is None or self._is_closing:
            raise StoreError(f"store {self.path}: it is closed")
        return self._tables

    async def _ask(self, jobs: list[_Job], work: Callable[[list[Any]], Any], args: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._add(jobs, _Job(work, args, answer, is_kept=False))
        return await answer

    async def _read(self, work: Callable[[Tables], T]) -> T:
        tables = self._open_tables
        result: T = await self._ask(self._jobs, lambda _: [work(tables)], None)
        return result

    def _tell(
        self, jobs: list[_Job], work: Callable[[list[Any]], None], args: Any, answer: asyncio.Future[None] | None = None
    ) -> None:
        self.unwritten_n += 1
        self._add(jobs, _Job(work, args, answer, is_kept=True))

    def _add(self, jobs: list[_Job], job: _Job) -> None:
        with self._changed:
            jobs.append(job)
            if job.answer is not None or self._is_asleep:
                self._is_urgent |= job.answer is not None
                self._is_asleep = False
                self._changed.notify()

    def _resolve(self, jobs: list[_Job], totals: Totals) -> None:
        """In the order in which the thread has done them."""
        self._totals = totals
        for job in jobs:
            self.unwritten_n -= job.is_kept
            if isinstance(job.result, Message):
                self.on_stored(job.result)  # also if its caller has gone
            if job.answer is None or job.answer.done():
                continue
            if isinstance(job.result, Exception):
                job.answer.set_exception(job.result)
            else:
                job.answer.set_result(job.result)

    # In the thread

    def _work(self, tables: Tables, loop: asyncio.AbstractEventLoop) -> None:
        has_spare = True
        is_closing = False
        while not is_closing:
            with self._changed:
                if not self._has_work() and (self._kept or not has_spare):
                    self._is_asleep = not self._kept
                    self._changed.wait(RETRY_S if self._kept else None)
                    self._is_asleep = False
                if self._has_work():
                    self._changed.wait_for(lambda: self._is_urgent or self._is_closing, LINGER_S)
                self._is_urgent = False
                jobs = self._kept + self._puts + self._jobs + self._ends
                for each in (self._puts, self._jobs, self._ends):
                    each.clear()
                is_closing = self._is_closing
            if jobs:
                done = self._do(tables, jobs)
                loop.call_soon_threadsafe(self._resolve, done, tables.totals)
                has_spare = True
            else:
                has_spare = self._give_back(tables)
        for job in self._kept:
            job.result = StoreError(f"store {self.path}: {self._trouble}")
        loop.call_soon_threadsafe(self._resolve, self._kept, tables.totals)
        self._kept = []
        tables.close()

    def _has_work(self) -> bool:
        return bool(self._puts or self._jobs or self._ends or self._is_closing)

    def _do(self, tables: Tables, jobs: list[_Job]) -> list[_Job]:
        """Those that have a result now; the others are kept."""
        self._kept = []
        error = self._transact(tables, jobs)
        if error is None:
            return jobs
        # First what is done with, which needs no more room and may give some.
        ends = [job for job in jobs if job.is_kept]
        done = []
        if self._transact(tables, ends) is None:
            done += ends
        else:
            self._kept = ends
        for job in jobs:
            if not job.is_kept:
                failed = self._transact(tables, [job])
                if failed is not None:
                    is_put = job.work == tables.put
                    text = f"store {self.path}: {failed}"
                    job.result = Refused(f"not stored: {failed}", "disk") if is_put else StoreError(text)
                done.append(job)
        self._failed(str(error))
        return done

    def _transact(self, tables: Tables, jobs: list[_Job]) -> Exception | None:
        """All of them or, with an error, none."""
        try:
            tables.begin()
            for work, group in groupby(jobs, lambda job: job.work):
                neighbours = list(group)
                results = work([job.args for job in neighbours])
                for job, result in zip(neighbours, results or (), strict=False):
                    job.result = result
            tables.commit()
        except Exception as error:  # whatever it is, the thread goes on, and those who wait learn of it
            tables.rollback()
            return error
        return None

    def _give_back(self, tables: Tables) -> bool:
        try:
            return tables.free_pages()
        except sqlite3.Error:  # a full disk; what is free is used before it grows
            return False

    def _failed(self, why: str) -> None:
        """Something was not written, because of its size perhaps: others may be."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_S
            _log.error("samwise store %s: not written: %s", self.path, why)
        self._trouble = why


def _nothing(_: list[None]) -> None:
    """So that somebody learns when everything before it is done."""
