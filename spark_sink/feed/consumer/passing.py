"""Passes posts on without fetching anything: the first occurrence of each, to all sinks.

    source ──► read ──► wanted, no repeat ──► memory, a queue for each sink: one transaction ──► acknowledged
                                                        └──► Outgoing ──► sink

Two posters of the same data become one source of it. A post goes on as it came, headers that nobody knows included; it
is acknowledged when it waits on the disk for all sinks, so nothing is lost, and what a crash leaves out may go on
twice. Posts of one place go on one after the other. A sink that is away gets what it has missed when it is back, and
holds up nothing until MAX_ONWARD posts wait for it; one that can never take a post is left out.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from broker.events import PASSED, REPEATED
from client_sdk.clock import Clock
from spark_sink.feed.consumer.memory import Memory
from spark_sink.feed.consumer.memory_tables import MemoryTables
from spark_sink.feed.consumer.outgoing import MAX_ONWARD, Outgoing
from spark_sink.feed.consumer.turns import Claim, Turns
from spark_sink.feed.consumer.winnow import Winnow
from spark_sink.feed.errors import BadPost
from spark_sink.feed.posts import Post, read_post
from spark_sink.feed.records import FileRecords
from spark_sink.feed.transport import Arrival, Sink, Source
from spark_sink.feed.transports.settings import POST_PREFIX

EXPIRE_S: Final = 60.0  # between two looks at what is too old to be remembered
TICK_S: Final = 0.2  # between two looks at how many posts wait, where there are too many

_log: Final = logging.getLogger("spark_sink.feed")


class Passer:
    """From some sources to some sinks, from `start` to `stop`."""

    def __init__(
        self,
        sources: Sequence[Source],
        sinks: Sequence[Sink],
        memory: Path,
        winnow: Winnow,
        accepts: Callable[[str], bool],
        *,
        records: FileRecords | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`memory`: the file that is kept over restarts. `accepts`: is a relPath wanted? `records`: told how many
        were passed on, and how many not. Opens nothing yet."""
        self.received_n = 0
        self.passed_n = 0
        self.repeats_n = 0
        self.refused_n = 0
        self.sources: Final = tuple(sources)
        self._file: Final = memory
        self._winnow: Final = winnow
        self._accepts: Final = accepts
        self._records: Final = records or FileRecords()
        self._clock: Final = clock or Clock()
        self._memory: Final = Memory(memory, self._clock)
        self._turns: Final = Turns()  # of posts under way, as many as the sources let out
        self._outgoing: Final = [
            Outgoing(f"posts {sink.name}", sink, POST_PREFIX, self._memory, self._clock) for sink in sinks
        ]
        self._waiting_n = 0  # posts that wait for the sink that has most of them
        self._tasks: list[asyncio.Task[None]] = []  # from `start` to `stop`
        self._working: Final[set[asyncio.Task[None]]] = set()

    @property
    def problem(self) -> str:
        """Why the last post is not passed on, or not remembered; empty: it is."""
        unsent = next(filter(None, (each.trouble for each in self._outgoing)), "")
        return unsent or (f"{self._file}: {self._memory.trouble}" if self._memory.trouble else "")

    async def start(self) -> None:
        """MemoryFileError: the memory cannot be used."""
        await self._memory.open()
        self._winnow.load(await self._memory.do(MemoryTables.remembered), time.time())
        await self._memory.do(lambda tables: tables.keep_queues([each.queue for each in self._outgoing]))
        await self._count()
        self._tasks = [asyncio.create_task(self._receive(source)) for source in self.sources]
        self._tasks += [asyncio.create_task(each.run()) for each in self._outgoing]
        self._tasks.append(asyncio.create_task(self._expire()))

    async def stop(self) -> None:
        """What is under way comes again after the next start."""
        tasks = [*self._tasks, *self._working]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._records.tell_counts()
        for source in self.sources:
            await source.close()
        for each in self._outgoing:
            await each.sink.close()
        await self._memory.close()

    async def _receive(self, source: Source) -> None:
        while True:
            arrival = await source.receive()
            while self._waiting_n > MAX_ONWARD:
                await self._clock.sleep(TICK_S)
                await self._count()
            self.received_n += 1
            task = asyncio.create_task(self._take(source, arrival))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _take(self, source: Source, arrival: Arrival) -> None:
        try:
            post = read_post(arrival.body)
            if self._accepts(post.rel_path):
                async with self._turns.turn([Claim(post.place)]):
                    await self._pass(post)
        except BadPost as error:
            self.refused_n += 1
            _log.warning("winnow: a post is refused: %s", error)
        except Exception:  # one post never stops the others, nor takes a place of those that may be out
            self.refused_n += 1
            _log.exception("winnow: a post is refused, because of a bug")
        source.acknowledge(arrival)

    async def _pass(self, post: Post) -> None:
        if self._winnow.is_repeat(post, time.time()):
            self.repeats_n += 1
            self._records.count(REPEATED, post)
            return
        kept, body = self._winnow.remember(post, time.time()), post.encode()

        def work(tables: MemoryTables) -> int:
            tables.remember(kept)
            for each in self._outgoing:
                tables.add_outgoing(each.queue, body)
            return self._most_waiting(tables)

        self._waiting_n = await self._memory.do(work)
        self.passed_n += 1
        self._records.count(PASSED, post)
        for each in self._outgoing:
            each.wake()

    async def _count(self) -> None:
        self._waiting_n = await self._memory.do(self._most_waiting)

    def _most_waiting(self, tables: MemoryTables) -> int:
        return max((tables.outgoing[each.queue] for each in self._outgoing), default=0)

    async def _expire(self) -> None:
        while True:
            before = self._winnow.expire(time.time())
            await self._memory.do(lambda tables, before=before: tables.forget_before(before))  # type: ignore[misc]
            self._records.tell_counts()
            await self._clock.sleep(EXPIRE_S)
