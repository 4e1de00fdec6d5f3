"""The log of posts: appended and synced before anything is sent, and what each sink has confirmed of it.

    append, confirm, report ──► transactions.py ──► post_tables.py ──► commit ──► answers
    read ─────────────────────► another thread, another connection: who reads does not wait for a commit

What was answered is there after kill -9. All methods are for the event loop that called `open`.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from spark_sink.feed.errors import PostLogError
from spark_sink.feed.identity import Identity
from spark_sink.feed.producer.post_tables import (
    FILE_MODE,
    KEEP_POSTS,
    KEEP_S,
    ConsumerRow,
    Heard,
    Logged,
    Posting,
    PostRow,
    PostTables,
    ReportRow,
)
from spark_sink.feed.producer.scanning import Entry
from spark_sink.feed.transactions import Transactions

PAGE_N: Final = 64  # posts of one reading at most
PAGE_BYTES: Final = 1 << 20  # of their bodies, and one more: a reader holds so much

T = TypeVar("T")


class PostLog:
    """One file, which one process writes at a time."""

    def __init__(
        self,
        path: Path,
        *,
        prefix: str = "v03.post",
        sinks: Sequence[str] = (),
        required: Sequence[str] = (),
        keep_n: int = KEEP_POSTS,
        keep_s: float = KEEP_S,
        is_synced: bool = True,
    ) -> None:
        """`prefix`: of topics. `required`: as of `PostTables`. `keep_n` and `keep_s` are for posts that stand for no
        file. Opens nothing yet."""
        self.path: Final = path
        self.prefix: Final = prefix
        self.sinks: Final = tuple(sinks)
        self._required: Final = tuple(required)
        self.origin = ""  # of this log, 16 hexadecimal digits that no other has; empty before `open`
        self.last_seq = 0  # of the post that was appended last
        self._keep_n: Final = keep_n
        self._keep_ms: Final = keep_s * 1000
        self._is_synced: Final = is_synced
        self._lock = -1  # descriptor, from `open` to `close`
        self._writing: Final = Transactions[PostTables]("post log writes")
        self._reader: ThreadPoolExecutor | None = None  # from `open` to `close`
        self._reading: PostTables | None = None  # of the thread that reads; the same
        self._confirmed: dict[str, tuple[int, set[int]]] = {}
        self._waiters: Final[set[asyncio.Future[None]]] = set()  # who waits for a post

    async def open(self) -> dict[str, Entry]:
        """What the folder held, by relPath. PostLogError: it cannot be used, or another poster uses it."""
        self._lock = _locked(self.path)
        try:
            await self._writing.open(self._make)
            self._reader = ThreadPoolExecutor(1, "post log reads")
            self._reading = await asyncio.get_running_loop().run_in_executor(self._reader, self._make)
            self.origin = self._reading.origin
            await self._write(lambda tables: tables.keep_sinks(self.sinks))
            self.last_seq = await self._read(PostTables.last_seq)
            for sink in self.sinks:
                self._confirmed[sink] = await self._read(partial(PostTables.confirmed, sink=sink))
            return await self._read(PostTables.known)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """After what was asked before is done."""
        await self._writing.close()
        if self._reading is not None:
            await self._read(PostTables.close)
            self._reading = None
        if self._reader is not None:
            self._reader.shutdown(wait=False)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self._wake()

    def _make(self) -> PostTables:
        return PostTables(self.path, required=self._required, is_synced=self._is_synced)

    # Writing. Each returns when it is on the disk. PostLogError: the disk did not take it.

    async def append(self, postings: Sequence[Posting], at_ms: int) -> None:
        """Posts behind all others, in this order. `at_ms`: now, since the epoch."""

        def work(tables: PostTables) -> int:
            for posting in postings:
                tables.append(posting, self.prefix, at_ms)
            return tables.last_seq()

        self.last_seq = max(self.last_seq, await self._write(work))
        self._wake()

    async def confirm(self, sink: str, seqs: Iterable[int]) -> None:
        """A sink has confirmed these posts: they are not sent to it again."""
        new = list(seqs)
        _, beyond = self._confirmed[sink]
        await self._write(lambda tables: tables.confirm(sink, new))
        beyond.update(new)

    async def confirm_to(self, sink: str, to_seq: int) -> None:
        """It wants nothing up to this post any more."""
        _, beyond = self._confirmed[sink]
        await self._write(lambda tables: tables.confirm_to(sink, to_seq))
        self._confirmed[sink] = to_seq, {seq for seq in beyond if seq > to_seq}

    async def report(self, heard: Sequence[Heard]) -> int:
        """Keeps reports; how many of them are of posts that are here."""
        return await self._write(lambda tables: sum(tables.report(each) for each in heard))

    async def trim(self, now_ms: int) -> int:
        """Removes posts that need not be kept; how many."""
        before_ms = int(now_ms - self._keep_ms)
        return await self._write(lambda tables: tables.trim(self._keep_n, before_ms))

    # Reading

    async def read(self, after_seq: int) -> list[Logged]:
        """A page of posts behind this number, in order; empty: there are no others."""
        return await self._read(lambda tables: tables.read(after_seq, PAGE_N, PAGE_BYTES))

    def confirmed(self, sink: str) -> tuple[int, frozenset[int]]:
        """Up to which post a sink has confirmed all, and those beyond."""
        to, beyond = self._confirmed[sink]
        return to, frozenset(beyond)

    async def identity_of(self, path: str) -> Identity | None:
        """As what is there under this name was posted; None: as nothing, or it is not known."""
        return await self._read(lambda tables: tables.identity_of(path))

    async def fold_unreported(self, consumer: str, fold: Callable[[Iterator[str]], T]) -> T:
        """What `fold` makes of the relPaths of posts that stand for a file which the consumer has not got, in order; in
        the thread that reads."""
        return await self._read(lambda tables: fold(tables.unreported(consumer)))

    async def posts(
        self, after_seq: int, max_n: int, path: str = "", without: str = ""
    ) -> list[tuple[PostRow, list[ReportRow]]]:
        """As `PostTables.posts`, each with its reports."""

        def work(tables: PostTables) -> list[tuple[PostRow, list[ReportRow]]]:
            return [(row, tables.reports_of(row.seq)) for row in tables.posts(after_seq, max_n, path, without)]

        return await self._read(work)

    async def consumers(self) -> list[ConsumerRow]:
        """Who has reported, by name, and how far they are."""
        return await self._read(PostTables.consumers)

    async def wait_beyond(self, seq: int) -> None:
        """Returns when there is a post with a greater number, or the log is closed."""
        while self.last_seq <= seq and self._reading is not None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _read(self, work: Callable[[PostTables], T]) -> T:
        if self._reading is None:
            raise PostLogError(f"log of posts {self.path}: it is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, work, self._reading)
        except sqlite3.Error as error:
            raise PostLogError(f"log of posts {self.path}: {error}") from error

    async def _write(self, work: Callable[[PostTables], T]) -> T:
        if self._reading is None:
            raise PostLogError(f"log of posts {self.path}: it is closed")
        try:
            return await self._writing.do(work)
        except Exception as error:
            raise PostLogError(f"log of posts {self.path}: {error}") from error


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of this log until it is closed, or the process ends, however that happens."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise PostLogError(f"log of posts {path}: {error.strerror or error}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise PostLogError(f"log of posts {path}: another poster uses it") from None
    return lock
