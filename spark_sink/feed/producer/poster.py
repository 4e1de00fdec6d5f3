"""A poster: looks at a folder, logs what has changed, and hands the log to each sink.

    look ──► changes ──► files are read, a few at a time ──► PostLog.append ──► known ──► look …
                                                                  └──► each sink by itself, from where it was
    reports ──► PostLog.report

What a crash leaves out is found again: what is not in the log is still in the folder, and what no sink has confirmed is
in the log. Owns its tasks, the log and the sinks, from `start` to `stop`.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from broker.events import POSTED, REPORTED
from client_sdk.clock import Clock
from spark_sink.feed.errors import BadPost, PostLogError
from spark_sink.feed.posts import RENAME, read_post
from spark_sink.feed.producer.folders import Watched
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.post_tables import Heard, Posting
from spark_sink.feed.producer.posting import PostOptions, PubTimes, find_posting, renamed
from spark_sink.feed.producer.readers import ReportedReaders
from spark_sink.feed.producer.scanning import FILE, Change, Look, Watch
from spark_sink.feed.producer.sending import Sending
from spark_sink.feed.records import FileRecords
from spark_sink.feed.reports import find_report
from spark_sink.feed.transport import Sink, Source

READERS_N: Final = 2  # threads that read files: one large file does not hold up the others
BATCH_N: Final = 64  # files of one of their turns
BATCH_BYTES: Final = 8 << 20  # of these, and one more
MAX_SAID: Final = 1_000  # problems that are remembered, so that each is said once; then all are said again
RETRY_S: Final = 1.0  # until a log is tried again that the disk did not take
DECLARE_S: Final = 1.0  # between declarations of what consumers have, at least
FINISH_LOOKS: Final = 10
FINISH_PAUSE_S: Final = 0.01
TRIM_S: Final = 60.0  # between looks at what is too old

_log: Final = logging.getLogger("spark_sink.feed")


class Poster:
    """One folder and its log of posts."""

    def __init__(
        self,
        watched: Watched,
        log: PostLog,
        options: PostOptions,
        *,
        sinks: Sequence[Sink] = (),
        reports: Sequence[Source] = (),
        readers: ReportedReaders | None = None,
        records: FileRecords | None = None,
        settle_s: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        """`sinks` are those whose names the log was given. `reports`: where reports come from, but for those that come
        over RSocket. `readers`: of the events folder that is posted, for required consumers. `records`: told of each
        post and each report. `settle_s`: how long a file must not change before it is posted, seconds. Opens nothing
        yet."""
        self.log: Final = log
        self.sendings: Final = tuple(Sending(sink, log, clock or Clock()) for sink in sinks)
        self._watched: Final = watched
        self._options: Final = options
        self._reports: Final = tuple(reports)
        self._declared: Final = readers
        self._records: Final = records or FileRecords()
        self._settle_s: Final = settle_s
        self._clock: Final = clock or Clock()
        self._times: Final = PubTimes()
        self._watch = Watch({})
        self._readers: Final = asyncio.Semaphore(READERS_N)
        self._reading: Final[set[asyncio.Task[None]]] = set()  # under way
        self._tasks: list[asyncio.Task[None]] = []  # from `start` to `stop`
        self._said: Final[set[str]] = set()
        self.problem = ""  # what was said last; empty: nothing since the last look without problems

    async def start(self, *, follows: bool = True) -> None:
        """`follows`: looks again and again, as it does not where `finish` is called. PostLogError: the log cannot be
        used."""
        self._watch = Watch(await self.log.open(), settle_s=self._settle_s)
        if self._declared is not None:
            await self._declared.start()
            self._tasks = [asyncio.create_task(self._declare(self._declared))]
        if follows:
            self._tasks.append(asyncio.create_task(self._follow()))
        self._tasks.append(asyncio.create_task(self._trim()))
        self._tasks += [asyncio.create_task(sending.run()) for sending in self.sendings]
        self._tasks += [asyncio.create_task(self._hear(source)) for source in self._reports]

    async def stop(self) -> None:
        """What is under way is found, or sent, after the next start."""
        tasks = [*self._tasks, *self._reading]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for sending in self.sendings:
            await sending.sink.close()
        for source in self._reports:
            await source.close()
        await self.log.close()

    @property
    def files_n(self) -> int:
        """What is posted and there."""
        return len(self._watch.known)

    @property
    def waiting_n(self) -> int:
        """What was found and is not posted yet."""
        return len(set(self._watch.waiting))

    async def look(self) -> None:
        """One look, and what it has found under way."""
        look = await asyncio.to_thread(self._watched.look, self._watch.known)
        self._say(look)
        changes = self._watch.compare(look, self._clock.now())
        await self._post([change for change in changes if change.kind != FILE])
        for batch in _batches([change for change in changes if change.kind == FILE]):
            task = asyncio.create_task(self._post_when_free(batch))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def finish(self) -> None:
        """Returns when all that is there is posted, and each sink has confirmed all posts. What cannot be posted, and
        what does not come to rest, is left out after FINISH_LOOKS looks."""
        for _ in range(FINISH_LOOKS):
            await self.look()
            while self._reading:
                await asyncio.wait(self._reading)
            if not self.waiting_n:
                break
            await self._clock.sleep(max(self._settle_s, FINISH_PAUSE_S))
        for sending in self.sendings:
            await sending.wait_until_confirmed(self.log.last_seq)

    async def heard(self, body: bytes) -> bool:
        """A report has come, and is kept when this returns; False: it is none of a post that is here. PostLogError."""
        try:
            post = read_post(body)
            report = find_report(post)
        except BadPost as error:
            _log.info("poster: a report is refused: %s", error)
            return False
        if report is None:
            return False
        heard = Heard(post, report, time.time_ns() // 1_000_000)
        is_kept = bool(await self.log.report([heard]))
        if is_kept:
            self._records.add(REPORTED, post, code=report.code, reason=report.message, consumer=heard.consumer)
        return is_kept

    async def _follow(self) -> None:
        while True:
            try:
                await self.look()
            except Exception as error:  # whatever a file system comes up with: the next look may do without it
                self._say_once(f"a look at {self._watched.root} has failed: {error!r}")
                await self._clock.sleep(RETRY_S)
            await self._clock.sleep(self._watched.pause_s)

    async def _post_when_free(self, batch: list[Change]) -> None:
        async with self._readers:
            try:
                await self._post(batch)
            except Exception as error:  # as in `_follow`
                self._say_once(f"{batch[0].path} and {len(batch) - 1} others cannot be posted now: {error!r}")

    async def _post(self, changes: list[Change]) -> None:
        """Logs them, or leaves them to the next look."""
        if not changes:
            return
        logged: set[Change] = set()
        try:
            made: dict[Change, Posting | None] = {}
            for change in changes:
                if change.kind == RENAME:
                    made[change] = await self._renamed(change)
            others = [change for change in changes if change.kind != RENAME]
            made.update(zip(others, await asyncio.to_thread(self._made, others), strict=True))
            postings = [posting for change in changes if (posting := made[change]) is not None]
            await self.log.append(postings, time.time_ns() // 1_000_000)
            logged.update(change for change in changes if made[change] is not None)
            for posting in postings:
                if posting.posts:
                    size = 0 if posting.entry is None else posting.entry.size
                    self._records.add(POSTED, posting.posts[0], size=size)
        except PostLogError as error:
            self._say_once(str(error))
            await self._clock.sleep(RETRY_S)
        finally:
            for change in changes:
                self._watch.done(change, is_posted=change in logged)

    async def _renamed(self, change: Change) -> Posting | None:
        try:
            return renamed(change, await self.log.identity_of(change.other), self._options, self._times)
        except (BadPost, PostLogError) as error:
            self._say_once(f"{change.path} cannot be posted: {error}")
            return None

    def _made(self, changes: list[Change]) -> list[Posting | None]:
        """In a thread."""
        return [self._find_posting(change) for change in changes]

    def _find_posting(self, change: Change) -> Posting | None:
        place = change.entry.place or change.path
        try:
            return find_posting(change, self._watched.root, place, self._options, self._times)
        except BadPost as error:  # it would be so each time: it is known, and nothing is said of it
            self._say_once(f"{change.path} cannot be posted: {error}")
            return Posting(change.path, [], change.entry)
        except FileNotFoundError:
            return None  # the next look says so
        except OSError as error:
            self._say_once(f"{change.path} cannot be posted: {error.strerror or error}")
            return None

    async def _trim(self) -> None:
        while True:
            try:
                while await self.log.trim(time.time_ns() // 1_000_000):
                    pass
            except PostLogError as error:
                self._say_once(str(error))
            await self._clock.sleep(TRIM_S)

    async def _declare(self, readers: ReportedReaders) -> None:
        while True:
            began = self._clock.now()
            try:
                await readers.declare(list(self._watch.known), list(self._watch.waiting))
            except (OSError, PostLogError) as error:
                self._say_once(f"a reader cannot be declared: {error}")
            await self._clock.sleep(max(DECLARE_S, 10 * (self._clock.now() - began)))

    async def _hear(self, source: Source) -> None:
        while True:
            arrival = await source.receive()
            while True:
                try:
                    await self.heard(arrival.body)
                    break
                except PostLogError as error:
                    self._say_once(str(error))
                    await self._clock.sleep(RETRY_S)
            source.acknowledge(arrival)

    def _say(self, look: Look) -> None:
        if look.is_whole and not self._reading:
            self.problem = ""
        for problem in look.problems:
            self._say_once(problem)

    def _say_once(self, problem: str) -> None:
        self.problem = problem
        if problem not in self._said:
            if len(self._said) >= MAX_SAID:
                self._said.clear()
            self._said.add(problem)
            _log.warning("poster: %s", problem)


def _batches(changes: Sequence[Change]) -> list[list[Change]]:
    """In turns of BATCH_N files and BATCH_BYTES."""
    batches: list[list[Change]] = []
    left = 0
    for change in changes:
        if not batches or len(batches[-1]) >= BATCH_N or left <= 0:
            batches.append([])
            left = BATCH_BYTES
        batches[-1].append(change)
        left -= change.entry.size
    return batches
