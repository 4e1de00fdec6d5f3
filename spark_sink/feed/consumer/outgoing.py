"""What a mirror sends: reports, and the posts that it passes on. Each sink has a queue of its own in the memory, and is
sent what waits there in its order, until it has confirmed it; so one that is away holds up no other.

"Propagating": what is passed on is the post as it came, with the URL where this mirror has the file, in place of the
former one, and with what was computed on receipt. All other headers are as they were.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from client_sdk.clock import Clock
from client_sdk.reconnect.backoff import Backoff
from spark_sink.feed.consumer.memory import Memory
from spark_sink.feed.consumer.memory_tables import MemoryTables
from spark_sink.feed.errors import NotSent, SendError
from spark_sink.feed.posts import RENAME, Post, former_value, read_post
from spark_sink.feed.transport import Sink

MAX_ONWARD: Final = 1_000_000  # posts that wait to be passed on; then no others are taken
PAGE_N: Final = 64  # that are under way to one sink
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

    def wake(self) -> None:
        """There is more."""
        self._has_more.set()

    async def run(self) -> None:
        """Sends until it is cancelled."""
        memory = self._memory
        while True:
            self._has_more.clear()
            while page := await memory.do(lambda tables: tables.first_outgoing(self.queue, PAGE_N)):
                for group in _groups([(seq, read_post(body)) for seq, body in page]):
                    await asyncio.gather(*(self._send(post) for _, post in group))
                    sent = [seq for seq, _ in group]
                    await memory.do(partial(MemoryTables.end_outgoing, queue=self.queue, seqs=sent))
                    self.sent_n += len(group)
            await self._has_more.wait()

    async def _send(self, post: Post) -> None:
        while True:
            try:
                await self.sink.send(post, self._prefix)
                self.trouble = ""
                self._backoff.reset()
                return
            except NotSent as error:
                self.trouble = str(error)
                await self._clock.sleep(self._backoff.next_s())
            except SendError as error:  # it would be so each time
                self.trouble = str(error)
                return


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
