"""Messages on disk until they are delivered: what waits is one transaction, in the loop or in a thread.

    put ─────┐                             ┌──► the file (tables.py) ──► commit ──► answers, all in one call
    read ────┼──► what waits, once a turn ─┤    one transaction
    settled ─┘                             └──► the disk takes none of it: one by one; puts are refused, what is settled
                                                is kept and written later, readers get a StoreError

With `durability` FSYNC a commit waits for the disk, in the thread: others come meanwhile, and all of them are the next
transaction, so 64 callers share one wait. With OS it is a copy to the system, which takes less time than to wake
a thread, and is done in the loop. What is small is written in the loop either way: Python lets threads wait for each
other at every statement.

Either way `put` has its answer after the commit, so what was answered is there after kill -9, with FSYNC after a power
failure, too. For the end of a delivery (`delivered`, `later` …) nobody waits: it is written with the next answer, or
LINGER_S later, and what a crash forgets of it is delivered again.
"""

import asyncio
import logging
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
MAX_HERE_BYTES: Final = 256 * 1024  # of messages that are written in the loop: a fraction of a millisecond

_log: Final = logging.getLogger("client_sdk")

T = TypeVar("T")


class _Job:
    """What is to be done: `work` gets the arguments of all its neighbours of the same kind in one list."""

    __slots__ = ("work", "args", "done", "is_kept", "result")

    def __init__(
        self, work: Callable[[list[Any]], Any], args: Any, done: Callable[[Any], None] | None, *, is_kept: bool
    ) -> None:
        self.work: Final = work
        self.args: Final = args
        self.done: Final = done  # gets the result, or the error; None: nobody waits
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
        self._thread: ThreadPoolExecutor | None = None  # the same
        self._totals = Totals(1, 0, 0, 0, 0)
        self._puts: list[_Job] = []
        self._jobs: list[_Job] = []  # in the order in which they were asked for
        self._ends: list[_Job] = []  # of messages that are done with: nothing that is asked depends on their order
        self._put_bytes = 0  # of what waits in `_puts`
        self._reads_n = 0  # of those in `_jobs` that read
        self._next: asyncio.Handle | None = None  # when what waits is done; None: nothing waits, or the thread is busy
        self._idle: asyncio.Handle | None = None  # when what nobody waits for is done
        self._is_urgent = False  # somebody waits for one of them
        self._is_busy = False  # the thread has the tables
        self._syncing: asyncio.Future[None] | None = None  # while another thread waits for the disk to have the log
        self._is_log_synced = False  # it has, and the log is moved when the tables are free
        self._has_spare = True  # pages in the file, perhaps, to give back
        self._is_closing = False
        self._freed: asyncio.Future[None] | None = None  # while `close` waits for the thread
        self._kept: list[_Job] = []  # what the disk did not take; no more than there are messages under way
        self._trouble = ""  # why, the last time; empty: it took all
        self._quiet_until = 0.0  # monotonic: until then nothing is said of it
        self._uids: Final = random.Random()  # seeded by the system
        self._loop: asyncio.AbstractEventLoop  # that called `open`
        self.unwritten_n = 0  # ends of deliveries that are not on disk yet: who delivers must not run ahead of it

    async def open(self) -> None:
        """StoreError: the file cannot be used, or another gateway uses it."""
        assert self._tables is None
        is_synced = self._durability == FSYNC
        self._tables = await asyncio.to_thread(
            lambda: Tables(self.path, is_synced=is_synced, max_messages=self._max_messages, max_bytes=self._max_bytes)
        )
        self._loop = asyncio.get_running_loop()
        self._totals = self._tables.totals
        self._is_closing = self._is_log_synced = False
        self._thread = ThreadPoolExecutor(1, "samwise store")
        self._did([])

    async def close(self) -> None:
        """After what was asked before is done, or the disk has refused it. Nothing if it is not open."""
        if self._thread is None or self._tables is None:
            return
        self._is_closing = True
        while self._is_busy or self._has_work():
            if self._is_busy:
                self._freed = self._loop.create_future()
                await self._freed
            else:
                self._do_next()
        for handle in (self._next, self._idle):
            if handle is not None:
                handle.cancel()
        self._next = self._idle = None
        for job in self._kept:
            job.result = StoreError(f"store {self.path}: {self._trouble}")
        kept, self._kept = self._kept, []
        self._resolve(kept, self._totals)
        if self._syncing is not None:
            await asyncio.wait([self._syncing])
        await self._loop.run_in_executor(self._thread, self._tables.close)
        self._thread.shutdown(wait=False)
        self._thread = self._tables = None

    @property
    def totals(self) -> Totals:
        """As of the last commit."""
        return self._totals

    # Callers

    def put(self, publish: Publish, at_ms: int, done: Callable[[Message | Refused | StoreError], None]) -> None:
        """`done` gets the message when it is on disk, or Refused: the store or the disk is full. `at_ms`: now, since
        the epoch."""
        encoded = encode_publish(publish)
        args = publish, f"{self._uids.getrandbits(128):032x}", at_ms, encoded
        self._put_bytes += len(encoded)
        self._add(self._puts, _Job(self._open_tables.put, args, done, is_kept=False))

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
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tell(self._jobs, _nothing, None, _resolver(answer))
        await answer

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

    def _parts(self) -> tuple[Tables, ThreadPoolExecutor]:
        """Of a store that is open."""
        assert self._tables is not None
        assert self._thread is not None
        return self._tables, self._thread

    @property
    def _open_tables(self) -> Tables:
        if self._tables is None or self._is_closing:
            raise StoreError(f"store {self.path}: it is closed")
        return self._tables

    async def _read(self, work: Callable[[Tables], T]) -> T:
        tables = self._open_tables
        answer: asyncio.Future[T] = self._loop.create_future()
        self._reads_n += 1
        self._add(self._jobs, _Job(lambda _: [work(tables)], None, _resolver(answer), is_kept=False))
        return await answer

    def _tell(
        self,
        jobs: list[_Job],
        work: Callable[[list[Any]], None],
        args: Any,
        done: Callable[[Any], None] | None = None,
    ) -> None:
        self.unwritten_n += 1
        self._add(jobs, _Job(work, args, done, is_kept=True))

    def _add(self, jobs: list[_Job], job: _Job) -> None:
        jobs.append(job)
        is_urgent = job.done is not None
        if self._is_busy:
            self._is_urgent |= is_urgent
        elif self._next is None or (is_urgent and not self._is_urgent):
            self._is_urgent |= is_urgent
            self._plan()

    def _plan(self) -> None:
        """When what waits is done: once a turn of the loop, or when nobody waits for it, a little later."""
        if self._next is not None:
            self._next.cancel()
        if self._is_urgent:
            self._next = self._loop.call_soon(self._do_next)
        else:
            self._next = self._loop.call_later(LINGER_S, self._do_next) if self._has_work() else None

    def _has_work(self) -> bool:
        return bool(self._puts or self._jobs or self._ends)

    def _look_again(self) -> None:
        """Tries again what the disk did not take, and gives back what is free, when nothing else is done."""
        self._idle = None
        if self._is_busy or self._next is not None:
            self._idle = self._loop.call_later(RETRY_S, self._look_again)
        else:
            self._do_next()

    def _do_next(self) -> None:
        """All that waits; where nothing does, a step of what is free is given back."""
        tables, thread = self._parts()
        if self._next is not None:
            self._next.cancel()
        self._next, self._is_urgent = None, False
        jobs = self._kept + self._puts + self._jobs + self._ends
        is_quick = bool(jobs) and not self._reads_n and self._put_bytes <= MAX_HERE_BYTES
        for each in (self._puts, self._jobs, self._ends):
            each.clear()
        self._put_bytes = self._reads_n = 0
        if is_quick and self._durability == OS:
            self._did(self._do(tables, jobs))
            return
        self._is_busy = True
        is_written = is_quick and self._write(tables, jobs) is None
        thread.submit(self._commit_there if is_written else self._do_there, tables, jobs)

    def _did(self, done: list[_Job]) -> None:
        """These have their results. What came meanwhile is next."""
        tables, thread = self._parts()
        self._is_busy = False
        if done:
            self._has_spare = True
            self._resolve(done, tables.totals)
        if self._freed is not None and not self._freed.done():
            self._freed.set_result(None)
        if self._is_closing:
            return
        if self._is_log_synced or (done and self._syncing is not None and tables.log_is_too_long):
            self._is_log_synced, self._is_busy = False, True
            if self._next is not None:  # what waits has its turn afterwards
                self._next.cancel()
                self._next = None
            thread.submit(self._shorten, tables)
            return
        if done and self._syncing is None and tables.log_is_long:
            self._syncing = self._loop.run_in_executor(None, tables.sync_log)
            self._syncing.add_done_callback(lambda _: self._synced())
        if self._next is None:
            self._plan()
        if (self._has_spare or self._kept) and self._idle is None:
            wait_s = RETRY_S if done or self._kept else 0.0  # a step that gave something back is followed by the next
            self._idle = self._loop.call_later(wait_s, self._look_again)

    def _synced(self) -> None:
        """The disk has the log but for the last bit, so that the others need not wait long if it is moved now."""
        self._syncing = None
        if self._is_closing:
            return
        self._is_log_synced = True
        if not self._is_busy:
            self._did([])

    def _resolve(self, jobs: list[_Job], totals: Totals) -> None:
        """In the order in which they were done."""
        self._totals = totals
        for job in jobs:
            self.unwritten_n -= job.is_kept
            try:
                if job.done is not None:
                    job.done(job.result)
            except Exception:  # the answers of others are behind it
                _log.exception("samwise store %s: a result could not be told, because of a bug", self.path)
        for job in jobs:
            if isinstance(job.result, Message):
                self.on_stored(job.result)  # also if its caller has gone

    # In the thread, or in the loop while the thread has nothing to do

    def _do_there(self, tables: Tables, jobs: list[_Job]) -> None:
        if jobs:
            done = self._do(tables, jobs)
        else:
            done = []
            self._has_spare = self._give_back(tables)
        self._loop.call_soon_threadsafe(self._did, done)

    def _commit_there(self, tables: Tables, jobs: list[_Job]) -> None:
        """What the loop has written: all that the thread does is to wait for the disk."""
        if self._commit(tables) is None:
            self._kept = []
            done = jobs
        else:
            done = self._do(tables, jobs)
        self._loop.call_soon_threadsafe(self._did, done)

    def _shorten(self, tables: Tables) -> None:
        tables.shorten_log()
        self._loop.call_soon_threadsafe(self._did, [])

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
        return self._write(tables, jobs) or self._commit(tables)

    def _write(self, tables: Tables, jobs: list[_Job]) -> Exception | None:
        """All of them, to be committed; with an error, none."""
        try:
            tables.begin()
            for work, group in groupby(jobs, lambda job: job.work):
                neighbours = list(group)
                results = work([job.args for job in neighbours])
                for job, result in zip(neighbours, results or (), strict=False):
                    job.result = result
            tables.write_totals()
        except Exception as error:  # whatever it is, the store goes on, and those who wait learn of it
            tables.rollback()
            return error
        return None

    def _commit(self, tables: Tables) -> Exception | None:
        try:
            tables.commit()
        except Exception as error:
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


def _resolver(answer: "asyncio.Future[Any]") -> Callable[[Any], None]:
    """Gives a result, or an error, to whoever waits still."""

    def resolve(result: Any) -> None:
        if answer.done():
            return
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    return resolve
