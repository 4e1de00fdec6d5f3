"""A mirror at work: takes posts from its sources, does what they ask for, keeps what it could not do, and reports.

    source ──► read ──► Mirror.decide ──► fetch, write, link … ──► memory, report: one transaction ──► acknowledged
                              │                   │ not this time
                              │                   └──► retries on disk ──► acknowledged ──► tried again
                              └──► refused, repeat: report ──► acknowledged

A message is acknowledged when its file is there or its retry is on the disk. What takes longer than PATIENCE_S becomes
a retry while it goes on, so that one slow host does not take the places of all messages that may be out, and from then
on what finds no room at that host waits on the disk; a host that has failed rests, and its posts wait there, too; then
one of them is tried, and the others when that was fetched. What is about one place is carried out in the order in which
it came (`turns`).
"""

import asyncio
import contextlib
import errno
import getpass
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.events import FAILED, MIRRORED, REFUSED, REPEATED
from client_sdk.clock import Clock
from spark_sink.feed.blocks import file_bytes_of
from spark_sink.feed.consumer.carrier import Carrier
from spark_sink.feed.consumer.fetching import Fetched
from spark_sink.feed.consumer.hosts import FIRST_PAUSE_S, LAST_PAUSE_S, PER_HOST_N, TRIES, Hosts, Rivals, Waiting
from spark_sink.feed.consumer.http_client import NotFetched
from spark_sink.feed.consumer.memory import Memory
from spark_sink.feed.consumer.memory_tables import MAX_REPORTS, MemoryTables, Retry
from spark_sink.feed.consumer.mirror import (
    Decision,
    Fetch,
    Ignored,
    Mirror,
    MirrorOptions,
    Refused,
    claims_of_decision,
)
from spark_sink.feed.consumer.outgoing import MAX_ONWARD, Outgoing, onward_post
from spark_sink.feed.consumer.places import BadPlace, Places
from spark_sink.feed.consumer.turns import Turns
from spark_sink.feed.errors import BadPost
from spark_sink.feed.posts import Post, read_post, read_remains
from spark_sink.feed.records import FileRecords
from spark_sink.feed.reports import (
    BAD_MESSAGE,
    CODES,
    DOWNLOADED,
    NOT_COPIED,
    NOT_MODIFIED,
    REPORT_PREFIX,
    RESET,
    SEND_FAILED,
    Report,
    report_post,
)
from spark_sink.feed.times import time_text
from spark_sink.feed.transport import Arrival, Sink, Source
from spark_sink.feed.transports.settings import POST_PREFIX

MAX_UNDER_WAY: Final = 512  # posts of all sources
PATIENCE_S: Final = 2.0  # for one post, after which it becomes a retry and goes on
SOON_S: Final = 0.2  # until what waits for its host is looked at again
TICK_S: Final = 0.2  # between two looks at retries
EXPIRE_S: Final = 60.0  # between two looks at what is too old to be remembered
# What a folder answers as long as it is as it is: a file or link in the way of a folder, or the other way round. Of one
# that is to go, what is in it may go later: `sr3 watch` says so in this order.
LASTING: Final = frozenset((errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL))

_log: Final = logging.getLogger("spark_sink.feed")


@dataclass(frozen=True, kw_only=True)
class SubscriberOptions:
    """Of one mirror."""

    root: Path  # a folder that is there
    memory: Path  # the file that is kept over restarts
    mirror: MirrorOptions = field(default_factory=MirrorOptions)
    base_url: str = ""  # of what is passed on: where this mirror's files are to be had; empty: where they were
    prefix: str = POST_PREFIX  # of the topics of what is passed on
    tries: int = TRIES  # of one post, the first one included; those that did not reach the host do not count
    first_pause_s: float = FIRST_PAUSE_S
    user: str = field(default_factory=getpass.getuser)  # in reports
    host: str = field(default_factory=socket.gethostname)
    is_synced: bool = True  # the memory survives a power failure
    tls: ssl.SSLContext | None = None  # of servers of files; None: with the certificates of the system


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
    onward_n: int = 0  # posts that wait to be passed on, now
    reports_n: int = 0  # that were sent
    trouble: str = ""  # of the disk; empty: none


_Put = tuple[list[Outgoing], bytes | None]  # what is to be sent, and to whom; None: nothing


@dataclass(slots=True, eq=False)
class _Task:
    """A post under way."""

    body: bytes
    source: str  # that it came from; empty: it is not known
    retry: Retry | None  # None: its message is not acknowledged yet
    acknowledge: Callable[[], None]  # called once
    began_at: float  # monotonic
    host: str = ""  # from which it is fetched; empty: from none, or it is not known yet
    keeping: asyncio.Task[None] | None = None  # while it becomes a retry, and since then
    is_visiting: bool = False  # the host
    is_slow: bool = False  # that has taken too long
    has_waited: bool = False  # others that came later may have been carried out before it


class Subscriber:
    """One mirror, from `start` to `stop`."""

    def __init__(
        self,
        sources: Sequence[Source],
        options: SubscriberOptions,
        *,
        reports: Mapping[str, Sink] | None = None,
        onward: Sequence[Sink] = (),
        records: FileRecords | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`reports`: where reports go, by the name of the source that their post is from. `onward`: where posts go when
        what they announce is there. `records`: told what becomes of posts. ValueError: a pattern is no regular
        expression. Opens nothing yet."""
        self.state: Final = SubscriberState()
        self._sources: Final = tuple(sources)
        self._options: Final = options
        self._records: Final = records or FileRecords()
        self._clock: Final = clock or Clock()
        self._mirror: Final = Mirror(options.mirror)
        self._memory: Final = Memory(options.memory, self._clock, is_synced=options.is_synced)
        self._reports: Final = {
            source: self._outgoing("reports", sink, REPORT_PREFIX) for source, sink in (reports or {}).items()
        }
        self._onward: Final = [self._outgoing("posts", sink, options.prefix) for sink in onward]
        self._carrier: Final = Carrier(Places(options.root), self._memory, options.tls)
        self._slots: Final = asyncio.Semaphore(MAX_UNDER_WAY)
        self._turns: Final = Turns()
        self._rivals: Final = Rivals()
        self._waiting: Final = Waiting()
        self._hosts: Final = Hosts(tries=options.tries, first_pause_s=options.first_pause_s)
        self._retrying: Final[set[int]] = set()  # retries under way
        self._under_way: Final[dict[_Task, None]] = {}  # those whose messages are not acknowledged, the oldest first
        self._tasks: list[asyncio.Task[None]] = []  # from `start` to `stop`
        self._working: Final[set[asyncio.Task[None]]] = set()

    async def start(self) -> None:
        """MemoryFileError: the memory cannot be used."""
        await self._memory.open()
        kept = await self._memory.do(MemoryTables.remembered)
        self._mirror.winnow.load(kept, time.time())
        queues = [queue for each in self._sending for queue in each.queues]
        await self._memory.do(lambda tables: tables.keep_queues(queues))
        await self._carrier.start()
        await self._count()
        self._tasks = [asyncio.create_task(self._receive(source)) for source in self._sources]
        self._tasks += [asyncio.create_task(each) for each in (self._retry(), self._expire())]
        self._tasks += [asyncio.create_task(each.run()) for each in self._sending]

    async def stop(self) -> None:
        """What is under way comes again after the next start."""
        tasks = [*self._tasks, *self._working]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for source in self._sources:
            await source.close()
        for each in self._sending:
            await each.sink.close()
        self._records.tell_counts()
        await self._carrier.stop()
        await self._memory.close()

    @property
    def _sending(self) -> Iterator[Outgoing]:
        yield from self._reports.values()
        yield from self._onward

    def _outgoing(self, what: str, sink: Sink, prefix: str) -> Outgoing:
        return Outgoing(f"{what} {sink.name}", sink, prefix, self._memory, self._clock)

    # What comes

    async def _receive(self, source: Source) -> None:
        while True:
            arrival = await source.receive()
            while self.state.onward_n > MAX_ONWARD:
                await self._clock.sleep(TICK_S)
            await self._slots.acquire()
            self.state.received_n += 1
            self._begin(self._taken(source, arrival))

    def _taken(self, source: Source, arrival: Arrival) -> _Task:
        return _Task(arrival.body, source.name, None, lambda: source.acknowledge(arrival), self._clock.now())

    def _begin(self, task: _Task) -> None:
        if task.retry is None:
            self._under_way[task] = None
        working = asyncio.create_task(self._work(task))
        self._working.add(working)
        working.add_done_callback(self._working.discard)

    async def _work(self, task: _Task) -> None:
        try:
            await self._process(task)
        except Exception:  # one post never stops the others
            _log.exception("subscriber: a post could not be handled, because of a bug: it is tried again in an hour")
            await self._put_off(task)
        finally:
            self._under_way.pop(task, None)
            if task.retry is not None:
                self._retrying.discard(task.retry.id)
            self._slots.release()

    async def _put_off(self, task: _Task) -> None:
        """It takes no place among those that may be out."""
        tries = 0 if task.retry is None else task.retry.tries + 1
        await self._try_again(task, time.time() + LAST_PAUSE_S, tries, "a bug")

    async def _retry(self) -> None:
        while True:
            self._lose_patience()
            self._carrier.hurry(self._rivals.held_up())
            fresh = await self._due(time.time())
            for each in fresh:
                await self._slots.acquire()
                self._retrying.add(each.id)
                self._begin(_Task(each.body, each.source, each, _nothing, self._clock.now()))
            await self._count()
            await self._clock.sleep(TICK_S if not fresh else 0.0)

    async def _due(self, now: float) -> list[Retry]:
        """Retries whose time has come and that are not under way, of each host as many as it can take."""
        hosts = self._hosts
        room = {host: hosts.room_n(host, now) for host in hosts.known}
        # Those under way are still due, and come first.
        limits = {host: n + hosts.active_n(host) if n > 0 else 0 for host, n in room.items()}
        due = await self._memory.do(lambda tables: tables.take_due(now, lambda host: limits.get(host, PER_HOST_N)))
        fresh = []
        for each in due:
            left_n = room.get(each.host, PER_HOST_N)
            if each.id not in self._retrying and left_n > 0:
                room[each.host] = left_n - 1
                fresh.append(each)
        return fresh

    def _lose_patience(self) -> None:
        """What is under way for too long becomes a retry, and goes on."""
        long_ago = self._clock.now() - PATIENCE_S
        for task in self._under_way:
            if task.began_at > long_ago:
                break
            if task.is_visiting and not task.is_slow:
                task.is_slow = True
                self._hosts.slow(task.host)
                self._waiting.give_up(task.host)
            if task.keeping is None:
                task.keeping = asyncio.create_task(self._keep_meanwhile(task))

    async def _keep_meanwhile(self, task: _Task) -> None:
        """It comes again if this process does not live to its end."""
        id = await self._keep(task, time.time() + LAST_PAUSE_S, 0, "it takes its time")
        self._retrying.add(id)
        task.retry = Retry(id, task.host, 0.0, 0, "", task.body, task.source)
        task.acknowledge()

    async def _process(self, task: _Task) -> None:
        try:
            post = read_post(task.body)
        except BadPost as error:
            await self._refuse(task, read_remains(task.body), Refused(BAD_MESSAGE, str(error)))
            return
        decision = self._mirror.decide(post, time.time())
        if isinstance(decision, Ignored | Refused):
            await self._refuse(task, post, decision)
            return
        if isinstance(decision, Fetch):
            task.host = decision.host
            if task.retry is None and not await self._has_room(task):
                await self._try_again(task, time.time() + SOON_S, 0, "")
                return
        with self._visit(task, post, decision):
            async with self._turns.turn(claims_of_decision(decision)) as has_waited:
                if has_waited or task.has_waited:  # others have changed what is known
                    decision = self._mirror.decide(post, time.time())
                self._rivals.begin(task)
                await self._carry_out(task, post, decision)

    async def _has_room(self, task: _Task) -> bool:
        """Whether its host can take it; a host that is well can soon, and is waited for."""
        while self._hosts.room_n(task.host, time.time()) <= 0:
            task.has_waited = True
            if not self._hosts.is_well(task.host) or not await self._waiting.wait(task.host):
                return False
        return True

    # What is done

    async def _carry_out(self, task: _Task, post: Post, decision: Decision) -> None:
        if isinstance(decision, Ignored | Refused):
            await self._refuse(task, post, decision)
        elif (task.has_waited or task.retry is not None) and self._mirror.winnow.is_outdated(post):
            await self._carrier.give_up(post, decision)
            await self._refuse(task, post, Refused(NOT_MODIFIED, "something younger is here"))
        else:
            try:
                fetched = await self._carrier.carry_out(post, decision)
            except NotFetched as error:
                await self._failed(task, post, decision, error)
            except BadPlace as error:
                await self._refuse(task, post, Refused(BAD_MESSAGE, str(error)))
            except OSError as error:
                failure = NotFetched(f"{post.place}: {error.strerror or error}", is_final=error.errno in LASTING)
                await self._failed(task, post, decision, failure)
            else:
                self._hosts.reached(task.host)
                await self._done(task, post, decision, fetched)

    async def _done(self, task: _Task, post: Post, decision: Decision, fetched: Fetched) -> None:
        self.state.written_n += 1
        self.state.bytes += fetched.size
        code = DOWNLOADED
        found = post
        if fetched.computed is not None:
            found, code = post.identified(fetched.computed), RESET
        kept = self._mirror.done(post, time.time())
        outgoing = self._reports_of(task.source, found, code, CODES[code])
        if self._onward and fetched.is_whole and not fetched.part:
            outgoing.append((self._onward, self._onward_of(found, decision)))
        part = fetched.part

        def blocks_onward(tables: MemoryTables) -> None:
            for body in tables.block_posts(part):
                onward = self._onward_of(read_post(body), decision)
                for each in self._onward if onward is not None else ():
                    tables.add_outgoing(each.queue, onward or b"")
            tables.end_blocks(part)

        def work(tables: MemoryTables) -> None:
            for one in kept:
                tables.remember(one)
            self._put(tables, outgoing)
            if part:
                blocks_onward(tables)

        if fetched.is_whole:
            size = fetched.size if post.blocks is None else file_bytes_of(post.blocks) or 0
            tries = 0 if task.retry is None else task.retry.tries
            self._records.add(MIRRORED, post, size=size, code=code, tries=tries)
        await self._end(task, work)

    async def _refuse(self, task: _Task, post: Post, decision: Refused | Ignored) -> None:
        outgoing: list[_Put] = []
        if isinstance(decision, Refused):
            if decision.code == NOT_MODIFIED:
                self.state.repeats_n += 1
                self._records.count(REPEATED, post)
            else:
                outcome = FAILED if decision.code == NOT_COPIED else REFUSED
                tries = 0 if task.retry is None else task.retry.tries
                self._records.add(outcome, post, code=decision.code, reason=decision.text, tries=tries)
                self.state.refused_n += 1
                _log.warning("subscriber: a post is refused: %s", decision.text)
            outgoing = self._reports_of(task.source, post, decision.code, decision.text)
        if not outgoing and task.retry is None and task.keeping is None:
            task.acknowledge()
            return
        await self._end(task, lambda tables: self._put(tables, outgoing))

    async def _failed(self, task: _Task, post: Post, decision: Decision, failure: NotFetched) -> None:
        self.state.failed_n += 1
        text = str(failure)
        again = self._hosts.failed(
            task.host,
            time.time(),
            tries=0 if task.retry is None else task.retry.tries,
            is_host=failure.is_host,
            is_final=failure.is_final,
            is_again=task.retry is not None,
        )
        if again is None:
            self.state.given_up_n += 1
            await self._carrier.give_up(post, decision)
            await self._refuse(task, post, Refused(NOT_COPIED, text))
            return
        if again.is_news:
            _log.warning("subscriber: not done yet, it will be tried again: %s", text)
        if failure.is_host:
            self._waiting.give_up(task.host)
        await self._try_again(task, again.at, again.tries, text)

    async def _try_again(self, task: _Task, due_at: float, tries: int, reason: str) -> None:
        """It waits on the disk."""
        if task.keeping is not None:
            await task.keeping
        retry = task.retry
        if retry is not None:
            await self._memory.do(lambda tables: tables.postpone(retry.id, due_at, tries, reason))
        else:
            await self._keep(task, due_at, tries, reason)
            task.acknowledge()

    async def _end(self, task: _Task, work: Callable[[MemoryTables], None]) -> None:
        """It is done with, and so is its retry, in one transaction."""
        if task.keeping is not None:
            await task.keeping
        retry = task.retry

        def end(tables: MemoryTables) -> None:
            work(tables)
            if retry is not None:
                tables.end_retry(retry.id)

        await self._memory.do(end)
        if retry is None:
            task.acknowledge()
        for each in self._sending:
            each.wake()

    async def _keep(self, task: _Task, due_at: float, tries: int, reason: str) -> int:
        """A retry; its number."""
        id, given_up = await self._memory.do(
            lambda tables: tables.add_retry(task.host, due_at, tries, reason, task.body, task.source)
        )
        for each in given_up:
            self.state.given_up_n += 1
            post, text = read_remains(each.body), "too many posts wait"
            self._records.add(FAILED, post, code=NOT_COPIED, reason=text, tries=each.tries)
            reports = self._reports_of(each.source, post, NOT_COPIED, text)
            await self._memory.do(lambda tables, reports=reports: self._put(tables, reports))  # type: ignore[misc]
        return id

    @contextlib.contextmanager
    def _visit(self, task: _Task, post: Post, decision: Decision) -> Iterator[None]:
        """Of the host from which something is fetched, if it is."""
        if isinstance(decision, Fetch) and not decision.is_block:
            self._rivals.wait(task, "/".join(decision.names), post.url)
        self._hosts.begin(task.host)
        task.is_visiting = True
        try:
            yield
        finally:
            task.is_visiting = False
            self._hosts.end(task.host, was_slow=task.is_slow)
            self._waiting.next(task.host)
            self._rivals.end(task)

    # What goes out

    def _put(self, tables: MemoryTables, outgoing: "Sequence[_Put]") -> None:
        for sinks, body in outgoing:
            if body is not None:
                for each in sinks:
                    tables.add_outgoing(each.queue, body, None if sinks is self._onward else MAX_REPORTS)

    def _reports_of(self, source: str, post: Post, code: int, text: str) -> "list[_Put]":
        """To whom the post is from; to all, if that is not known."""
        sinks = [self._reports[source]] if source in self._reports else list(self._reports.values())
        return [(sinks, self._report_of(post, code, text))] if sinks else []

    def _report_of(self, post: Post, code: int, text: str) -> bytes | None:
        """None: for what is no post at all."""
        options = self._options
        report = Report(code, time_text(time.time_ns()), options.host, options.user, text)
        try:
            return report_post(post, report).encode()
        except BadPost:
            return None

    def _onward_of(self, post: Post, decision: Decision) -> bytes | None:
        """None: it would be too large."""
        if not self._options.base_url or isinstance(decision, Ignored | Refused):
            return post.encode()
        try:
            return onward_post(post, self._options.base_url, decision.names, self._mirror.stripped).encode()
        except BadPost as error:
            _log.warning("subscriber: a post cannot be passed on (%d): %s", SEND_FAILED, error)
            return None

    async def _count(self) -> None:
        """What operators see."""
        state = self.state
        queues = {each.queue for each in self._onward}
        state.retries_n, state.onward_n = await self._memory.do(
            lambda tables: (tables.waiting.total(), sum(tables.outgoing[each] for each in queues))
        )
        state.reports_n = sum(each.sent_n for each in self._reports.values())
        state.trouble = self._memory.trouble

    async def _expire(self) -> None:
        while True:
            before = self._mirror.winnow.expire(time.time())
            await self._memory.do(lambda tables, before=before: tables.forget_before(before))  # type: ignore[misc]
            self._records.tell_counts()
            await self._clock.sleep(EXPIRE_S)


def _nothing() -> None:
    """Of a retry, whose message was acknowledged before."""
