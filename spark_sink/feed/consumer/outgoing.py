"""What a mirror sends: reports, and the posts that it passes on. Each sink has a queue of its own in the memory, and is
sent what waits there in its order, until it has confirmed it; so one that is away holds up no other.

    queue ──► sink ──► confirmed: gone
               └─ NotTaken ──► "untaken" queue, in the memory too ──► tried every UNTAKEN_S, for UNTAKEN_KEPT_S

"Propagating": what is passed on is the post as it came, with the URL where this mirror has the file, in place of the
former one, and with what was computed on receipt. All other headers are as they were.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from client_sdk.clock import Clock
from client_sdk.reconnect.backoff import Backoff
from spark_sink.feed.consumer.memory import Memory
from spark_sink.feed.consumer.memory_tables import MemoryTables
from spark_sink.feed.errors import BadPost, NotSent, NotTaken, SendError
from spark_sink.feed.posts import RENAME, Post, former_value, read_post
from spark_sink.feed.reports import find_report
from spark_sink.feed.times import read_time
from spark_sink.feed.transport import Sink

MAX_ONWARD: Final = 1_000_000  # posts that wait to be passed on; then no others are taken
PAGE_N: Final = 64  # that are under way to one sink
UNTAKEN_S: Final = 10.0  # until what nobody has taken is tried again, a page at a time
UNTAKEN_KEPT_S: Final = 7 * 86_400.0  # how long that goes on
_FILE_OP: Final = msgspec.json.Decoder(dict[str, object])


class Outgoing:
    """One sink, from `run` until that is cancelled."""

    def __init__(self, queue: str, sink: Sink, prefix: str, memory: Memory, clock: Clock) -> None:
        """`queue`: its name in the memory. `prefix`: of topics."""
        self.queue: Final = queue
        self.sink: Final = sink
        self.trouble = ""  # why the last one was not sent; empty: it was
        self.sent_n = 0
        self._prefix: Final = prefix
        self._memory: Final = memory
        self._clock: Final = clock
        self._backoff: Final = Backoff()
        self._has_more: Final = asyncio.Event()
        self._has_untaken: Final = asyncio.Event()

    @property
    def queues(self) -> tuple[str, str]:
        """Names in the memory: of what waits in its order, and of what nobody has taken."""
        return self.queue, f"{self.queue} untaken"

    def wake(self) -> None:
        """There is more."""
        self._has_more.set()

    async def run(self) -> None:
        """Sends until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._try_untaken())
            while True:
                self._has_more.clear()
                while page := await self._page(self.queue):
                    for some in _groups(page):
                        await self._send_all(self.queue, some)
                await self._has_more.wait()

    async def _try_untaken(self) -> None:
        _, untaken = self.queues
        while True:
            self._has_untaken.clear()
            while page := await self._page(untaken):
                if not await self._send_all(untaken, page):
                    await self._clock.sleep(UNTAKEN_S)
            await self._has_untaken.wait()

    async def _page(self, queue: str) -> list[tuple[int, Post]]:
        """The first ones of a queue."""
        page = await self._memory.do(lambda tables: tables.first_outgoing(queue, PAGE_N))
        return [(seq, read_post(body)) for seq, body in page]

    async def _send_all(self, queue: str, posts: list[tuple[int, Post]]) -> int:
        """Side by side; how many of them are done with. The others wait behind what nobody has taken before."""
        results = await asyncio.gather(*(self._is_sent(post) for _, post in posts))
        done = [seq for (seq, _), is_sent in zip(posts, results, strict=True) if is_sent]
        rest = [seq for (seq, _), is_sent in zip(posts, results, strict=True) if not is_sent]
        _, untaken = self.queues

        def work(tables: MemoryTables) -> None:
            tables.end_outgoing(queue, done)
            tables.move_outgoing(queue, rest, untaken)

        await self._memory.do(work)
        if rest:
            self._has_untaken.set()
        self.sent_n += len(done)
        return len(done)

    async def _is_sent(self, post: Post) -> bool:
        """False: nobody who is there has taken it, and it is to be tried again."""
        while True:
            try:
                await self.sink.send(post, self._prefix)
                self.trouble = ""
                self._backoff.reset()
                return True
            except NotTaken as error:
                self.trouble = str(error)
                return _is_too_old(post, time.time())
            except NotSent as error:
                self.trouble = str(error)
                await self._clock.sleep(self._backoff.next_s())
            except SendError as error:  # it would be so each time
                self.trouble = str(error)
                return True


def onward_post(post: Post, base_url: str, names: list[str], strip: Callable[[str], str]) -> Post:
    """The post as it is passed on by who has the file, below `base_url`, under these names. BadPost: it becomes too
    large. `strip` gives a former name as it is here."""
    values: dict[str, object] = {"baseUrl": base_url}
    values |= {name: None for name in ("rename", "retrievePath") if name in post.headers}
    place = "/".join(names)
    if place != post.rel_path.removeprefix("/"):
        values["relPath"] = place
    operation = post.file_op
    if operation is not None and operation.kind == RENAME and "fileOp" in post.headers:
        former = strip(operation.value)
        if former != operation.value or "relPath" in values:
            values["fileOp"] = {**_FILE_OP.decode(post.headers["fileOp"]), RENAME: former_value(former, place)}
    return post.changed(**values)


def _is_too_old(post: Post, now: float) -> bool:
    """Of a report. `now`: seconds since 1970."""
    try:
        report = find_report(post)
        return report is None or read_time("elapsedTime", report.elapsed) / 1e9 + UNTAKEN_KEPT_S < now
    except BadPost:
        return True


def _groups(page: list[tuple[int, Post]]) -> list[list[tuple[int, Post]]]:
    """What may be sent at the same time: data of different files. Everything else goes alone, in its turn."""
    groups: list[list[tuple[int, Post]]] = []
    paths: set[str] = set()
    for seq, post in page:
        if not groups or post.file_op is not None or post.rel_path in paths or groups[-1][-1][1].file_op is not None:
            groups.append([])
            paths.clear()
        groups[-1].append((seq, post))
        paths.add(post.rel_path)
    return groups
