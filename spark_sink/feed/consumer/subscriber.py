"""A mirror at work: takes posts from its sources, does what they ask for, keeps what it could not do, and reports.

    source ──► read ──► Mirror.decide ──► fetch, write, link … ──► memory, report: one transaction ──► acknowledged
                              │                   │ not this time
                              │                   └──► retries on disk ──► acknowledged ──► tried again
                              └──► refused, repeat: report ──► acknowledged

A message is acknowledged when its file is there or its retry is on the disk. What takes longer than PATIENCE_S becomes
a retry while it goes on, so that one slow host does not take the places of all messages that may be out; a host that
has failed rests, and its posts wait on the disk. Posts of one place are carried out one after the other.
"""

import asyncio
import contextlib
import getpass
import logging
import random
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from client_sdk.clock import Clock
from spark_sink.feed.consumer.fetching import Fetched, Fetcher, NotFetched, part_of
from spark_sink.feed.consumer.memory_tables import MemoryTables, Retry
from spark_sink.feed.consumer.mirror import (
    FAILED,
    Decision,
    Fetch,
    Ignored,
    MakeFolder,
    MakeHardLink,
    MakeLink,
    Mirror,
    MirrorOptions,
    Refused,
    Remove,
    Rename,
    Write,
)
from spark_sink.feed.consumer.places import BadPlace, Places
from spark_sink.feed.errors import BadPost, NotSent
from spark_sink.feed.posts import Post, read_post, read_remains
from spark_sink.feed.reports import (
    BAD_MESSAGE,
    CODES,
    DOWNLOADED,
    NOT_MODIFIED,
    REPORT_PREFIX,
    RESET,
    Report,
    report_post,
)
from spark_sink.feed.times import time_text
from spark_sink.feed.transactions import Transactions
from spark_sink.feed.transport import Arrival, Sink, Source

MAX_UNDER_WAY: Final = 512  # posts of all sources
PER_HOST_N: Final = 32  # fetches from one host at a time; more wait on the disk
PATIENCE_S: Final = 2.0  # for one post, after which it becomes a retry and goes on
REST_S: Final = 5.0  # of a host that could not be reached
SOON_S: Final = 0.2  # until what waits for its host is looked at again
TICK_S: Final = 0.2  # between two looks at retries
TRIES: Final = 10
FIRST_PAUSE_S: Final = 5.0  # between the first two tries; it doubles
LAST_PAUSE_S: Final = 3_600.0
DUE_N: Final = 64  # retries that are taken at once
REPORTS_N: Final = 64  # reports that are sent at once
DISK_PAUSE_S: Final = 1.0  # until a disk that takes nothing is tried again
EXPIRE_S: Final = 60.0  # between two looks at what is too old to be remembered

R = TypeVar("R")
_log: Final = logging.getLogger("spark_sink.feed")


@dataclass(frozen=True, kw_only=True)
class SubscriberOptions:
    """Of one mirror."""

    root: Path  # a folder that is there
    memory: Path  # the file that is kept over restarts
    mirror: MirrorOptions = field(default_factory=MirrorOptions)
    tries: int = TRIES  # of one post, the first one included
    first_pause_s: float = FIRST_PAUSE_S
    user: str = field(default_factory=getpass.getuser)  # in reports
    host: str = field(default_factory=socket.gethostname)
    is_synced: bool = True  # the memory survives a power failure


@dataclass
class SubscriberState:
    """Since the start."""

    received_n: int = 0
    written_n: int = 0  # files that are there for it, links and removals too
    bytes: int = 0  # that were fetched or written
    repeats_n: int = 0
    refused_n: int = 0
    failed_n: int = 0  # tries
    given_up_n: int = 0
    retries_n: int = 0  # that wait now
    reports_n: int = 0  # that were sent
    trouble: str = ""  # of the disk; empty: none


class Subscriber:
    """One mirror, from `start` to `stop`."""

    def __init__(
        self,
        sources: Sequence[Source],
        options: SubscriberOptions,
        *,
        reports: Sequence[Sink] = (),
        clock: Clock | None = None,
    ) -> None:
        """`reports`: where reports go. ValueError: a pattern is no regular expression. Opens nothing yet."""
        self.state: Final = SubscriberState()
        self._sources: Final = tuple(sources)
        self._options: Final = options
        self._reports: Final = tuple(reports)
        self._clock: Final = clock or Clock()
        self._mirror: Final = Mirror(options.mirror)
        self._places: Final = Places(options.root)
        self._fetcher: Final = Fetcher(self._places, per_host_n=PER_HOST_N)
        self._memory: Final = Transactions[MemoryTables]("feed memory")
        self._slots: Final = asyncio.Semaphore(MAX_UNDER_WAY)
        self._locks: Final[dict[str, tuple[asyncio.Lock, int]]] = {}  # by place, and how many want it
        self._active: Final[dict[str, int]] = {}  # fetches by host
        self._resting: dict[str, float] = {}  # hosts, and until when
        self._retrying: Final[set[int]] = set()  # retries under way
        self._tasks: list[asyncio.Task[None]] = []  # from `start` to `stop`
        self._working: Final[set[asyncio.Task[None]]] = set()
        self._has_reports: Final = asyncio.Event()

    async def start(self) -> None:
        """MemoryFileError: the memory cannot be used."""
        options = self._options
        await self._memory.open(lambda: MemoryTables(options.memory, is_synced=options.is_synced))
        kept = await self._memory.do(MemoryTables.remembered)
        self._mirror.winnow.load(kept, time.time())
        self.state.retries_n = await self._memory.do(MemoryTables.retries_n)
        await self._fetcher.start()
        self._has_reports.set()
        self._tasks = [asyncio.create_task(self._receive(source)) for source in self._sources]
        self._tasks += [asyncio.create_task(each) for each in (self._retry(), self._expire())]
        if self._reports:
            self._tasks.append(asyncio.create_task(self._report()))

    async def stop(self) -> None:
        """What is under way comes again after the next start."""
        tasks = [*self._tasks, *self._working]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for source in self._sources:
            await source.close()
        for sink in self._reports:
            await sink.close()
        await self._fetcher.close()
        await self._memory.close()

    # What comes

    async def _receive(self, source: Source) -> None:
        while True:
            arrival = await source.receive()
            await self._slots.acquire()
            self.state.received_n += 1
            self._begin(self._take(source, arrival))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _take(self, source: Source, arrival: Arrival) -> None:
        try:
            await self._process(arrival.body, None, lambda: source.acknowledge(arrival))
        except Exception:  # one post never stops the others; it comes again after the next start
            _log.exception("subscriber: a post could not be handled, because of a bug")
        finally:
            self._slots.release()

    async def _retry(self) -> None:
        while True:
            fresh = [each for each in await self._due(time.time()) if each.id not in self._retrying]
            for each in fresh:
                await self._slots.acquire()
                self._retrying.add(each.id)
                self._begin(self._take_again(each))
            self.state.retries_n = await self._kept(MemoryTables.retries_n)
            await self._clock.sleep(TICK_S if not fresh else 0.0)

    async def _due(self, now: float) -> list[Retry]:
        """Retries whose time has come, but for those whose host cannot take any."""
        self._resting = {host: until for host, until in self._resting.items() if until > now}
        busy = frozenset({*self._resting, *(host for host, n in self._active.items() if n >= PER_HOST_N)})
        return await self._kept(lambda tables: tables.take_due(now, busy, DUE_N))

    async def _take_again(self, retry: Retry) -> None:
        try:
            await self._process(retry.body, retry, lambda: None)
        except Exception:
            _log.exception("subscriber: a post could not be handled, because of a bug")
        finally:
            self._retrying.discard(retry.id)
            self._slots.release()

    async def _process(self, body: bytes, retry: Retry | None, acknowledge: Callable[[], None]) -> None:
        try:
            post = read_post(body)
        except BadPost as error:
            await self._refuse(read_remains(body), Refused(BAD_MESSAGE, str(error)), retry)
            acknowledge()
            return
        decision = self._mirror.decide(post, time.time())
        if isinstance(decision, Ignored | Refused):
            await self._refuse(post, decision, retry)
            acknowledge()
            return
        host = decision.host if isinstance(decision, Fetch) else ""
        if retry is None and host and self._must_wait(host):
            await self._keep(host, time.time() + SOON_S, 0, "", body)
            acknowledge()
            return
        work = asyncio.ensure_future(self._carry_out(post, retry))
        late: int | None = None  # the number of the retry that it became
        try:
            if retry is None:
                await asyncio.wait([work], timeout=PATIENCE_S)
                if not work.done():  # it goes on, and comes again if this process does not live to its end
                    late = await self._keep(host, time.time() + LAST_PAUSE_S, 0, "it takes its time", body)
                    self._retrying.add(late)
                    retry = Retry(late, host, 0.0, 0, "", body)
                    acknowledge()
            failure = await work
            if failure is not None:
                await self._failed(post, body, host, failure, retry)
            elif retry is not None:
                ended = retry.id
                await self._kept(lambda tables: tables.end_retry(ended))
            if late is None:
                acknowledge()
        finally:
            work.cancel()
            if late is not None:
                self._retrying.discard(late)

    # What is done

    async def _carry_out(self, post: Post, retry: Retry | None) -> NotFetched | None:
        """Why it was not done this time; None: all is done."""
        async with self._place(post.place):
            decision = self._mirror.decide(post, time.time())  # another may have been here before
            if isinstance(decision, Ignored | Refused):
                await self._refuse(post, decision, None)
                return None
            if retry is not None and self._mirror.winnow.is_outdated(post):
                await self._refuse(post, Refused(NOT_MODIFIED, "something younger is here"), None)
                return None
            try:
                fetched = await self._do(post, decision)
            except NotFetched as error:
                return error
            except BadPlace as error:
                await self._refuse(post, Refused(BAD_MESSAGE, str(error)), None)
                return None
            except OSError as error:
                return NotFetched(f"{post.place}: {error.strerror or error}")
            await self._done(post, fetched)
            return None

    async def _do(self, post: Post, decision: Decision) -> Fetched:
        """OSError, BadPlace, NotFetched."""
        places = self._places
        match decision:
            case Write(names, content):
                await asyncio.to_thread(places.put, names, content, post.mtime_ns, post.mode)
                return Fetched(len(content))
            case Fetch(names, host, is_block):
                async with self._host(host):
                    if is_block:
                        return await self._fetch_block(post, names)
                    return await self._fetcher.fetch(post, names)
            case MakeLink(names, target):
                await asyncio.to_thread(places.symlink, names, target)
            case MakeHardLink(names, target, otherwise):
                try:
                    await asyncio.to_thread(places.hardlink, names, target)
                except (FileNotFoundError, NotADirectoryError):
                    return await self._do(post, otherwise)
            case Rename(before, names, otherwise):
                try:
                    await asyncio.to_thread(places.rename, before, names)
                except (FileNotFoundError, NotADirectoryError):
                    if await asyncio.to_thread(places.find, names) is None:
                        return await self._do(post, otherwise)
            case Remove(names, is_folder):
                await asyncio.to_thread(lambda: places.remove(names, is_folder=is_folder))
            case MakeFolder(names):
                await asyncio.to_thread(places.make_folder, names)
            case Refused(_, text):
                raise NotFetched(text, is_final=True)
        return Fetched(0)

    async def _fetch_block(self, post: Post, names: list[str]) -> Fetched:
        blocks = post.blocks
        assert blocks is not None  # `decide` has seen it
        part = part_of(post, blocks)
        there = await self._kept(lambda tables: tables.blocks(part))
        try:
            fetched = await self._fetcher.fetch_block(post, blocks, names, there)
        except NotFetched as error:
            if len(there) + 1 == blocks.count and "has not the" in str(error):
                await self._kept(lambda tables: tables.end_blocks(part))
            raise
        if fetched.is_whole:
            await self._kept(lambda tables: tables.end_blocks(part))
        else:
            await self._kept(lambda tables: tables.add_block(part, blocks.number, fetched.unsure))
        return fetched

    async def _done(self, post: Post, fetched: Fetched) -> None:
        self.state.written_n += 1
        self.state.bytes += fetched.size
        code = DOWNLOADED
        if fetched.computed is not None:
            post, code = post.identified(fetched.computed), RESET
        kept = self._mirror.done(post, time.time())
        report = self._report_of(post, code, CODES[code])

        def work(tables: MemoryTables) -> None:
            for one in kept:
                tables.remember(one)
            if report is not None:
                tables.add_report(report)

        await self._kept(work)
        self._has_reports.set()

    async def _refuse(self, post: Post, decision: Refused | Ignored, retry: Retry | None) -> None:
        report = None
        if isinstance(decision, Refused):
            if decision.code == NOT_MODIFIED:
                self.state.repeats_n += 1
            else:
                self.state.refused_n += 1
                _log.warning("subscriber: a post is refused: %s", decision.text)
            report = self._report_of(post, decision.code, decision.text)
        if report is None and retry is None:
            return

        def work(tables: MemoryTables) -> None:
            if report is not None:
                tables.add_report(report)
            if retry is not None:
                tables.end_retry(retry.id)

        await self._kept(work)
        self._has_reports.set()

    async def _failed(self, post: Post, body: bytes, host: str, failure: NotFetched, retry: Retry | None) -> None:
        self.state.failed_n += 1
        tries = 1 + (0 if retry is None else retry.tries)
        text = str(failure)
        if failure.is_final or tries >= self._options.tries:
            self.state.given_up_n += 1
            await self._refuse(post, Refused(FAILED, text), retry)
            return
        if host:
            self._resting[host] = time.time() + REST_S if "Cannot connect" in text else 0.0
        pause_s = min(self._options.first_pause_s * 2 ** (tries - 1), LAST_PAUSE_S)
        due_at = time.time() + pause_s * (0.5 + random.random() / 2)
        if retry is None:
            await self._keep(host, due_at, tries, text, body)
        else:
            id = retry.id
            await self._kept(lambda tables: tables.postpone(id, due_at, tries, text))

    async def _keep(self, host: str, due_at: float, tries: int, reason: str, body: bytes) -> int:
        """A retry; its number."""

        def work(tables: MemoryTables) -> tuple[int, list[Retry]]:
            given_up = tables.add_retry(host, due_at, tries, reason, body)
            return tables.last_retry(), given_up

        id, given_up = await self._kept(work)
        for each in given_up:
            self.state.given_up_n += 1
            await self._refuse(read_remains(each.body), Refused(FAILED, "too many posts wait"), None)
        return id

    async def _kept(self, work: Callable[[MemoryTables], R]) -> R:
        """What it gives, when it is on the disk, however long that takes none."""
        while True:
            try:
                result = await self._memory.do(work)
            except sqlite3.Error as error:
                if str(error) != self.state.trouble:
                    _log.error("subscriber: %s: %s", self._options.memory, error)
                self.state.trouble = str(error)
                await self._clock.sleep(DISK_PAUSE_S)
            else:
                self.state.trouble = ""
                return result

    # Hosts and places

    def _must_wait(self, host: str) -> bool:
        return self._active.get(host, 0) >= PER_HOST_N or self._resting.get(host, 0.0) > time.time()

    @contextlib.asynccontextmanager
    async def _host(self, host: str) -> AsyncIterator[None]:
        self._active[host] = self._active.get(host, 0) + 1
        try:
            yield
        finally:
            self._active[host] -= 1
            if not self._active[host]:
                del self._active[host]

    @contextlib.asynccontextmanager
    async def _place(self, place: str) -> AsyncIterator[None]:
        """Nobody else works at this place."""
        lock, wanted_n = self._locks.get(place, (asyncio.Lock(), 0))
        self._locks[place] = (lock, wanted_n + 1)
        try:
            async with lock:
                yield
        finally:
            lock, wanted_n = self._locks[place]
            if wanted_n == 1:
                del self._locks[place]
            else:
                self._locks[place] = (lock, wanted_n - 1)

    # Reports

    def _report_of(self, post: Post, code: int, text: str) -> bytes | None:
        """None where nobody gets any, and for what is no post at all."""
        if not self._reports:
            return None
        options = self._options
        report = Report(code, time_text(time.time_ns()), options.host, options.user, text)
        try:
            return report_post(post, report).encode()
        except BadPost:
            return None

    async def _report(self) -> None:
        while True:
            await self._has_reports.wait()
            self._has_reports.clear()
            while page := await self._kept(lambda tables: tables.reports(REPORTS_N)):
                for _, body in page:
                    await self._send(read_post(body))
                last = page[-1][0]
                await self._kept(lambda tables, last=last: tables.end_reports(last))  # type: ignore[misc]
                self.state.reports_n += len(page)

    async def _send(self, post: Post) -> None:
        for sink in self._reports:
            while True:
                try:
                    await sink.send(post, REPORT_PREFIX)
                    break
                except NotSent:
                    await self._clock.sleep(DISK_PAUSE_S)

    async def _expire(self) -> None:
        while True:
            before = self._mirror.winnow.expire(time.time())
            await self._kept(lambda tables, before=before: tables.forget_before(before))  # type: ignore[misc]
            await self._clock.sleep(EXPIRE_S)
