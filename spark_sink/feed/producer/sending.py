"""Hands the log of posts to one sink: in its order, from where the sink was, with a window of unconfirmed posts.

Two posts of one name are never under way together: so the last one that a sink has is the last one of the file,
whatever had to be sent again. What is confirmed is written down before the names are free again.
"""

import asyncio
import logging
from typing import Final

from client_sdk.clock import Clock
from client_sdk.reconnect.backoff import Backoff
from spark_sink.feed.errors import NotSent, PostLogError
from spark_sink.feed.posts import RENAME, Post, read_post
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.transport import Sink

WINDOW_N: Final = 256  # posts that may be under way to one sink

_log: Final = logging.getLogger("spark_sink.feed")


class Sending:
    """One sink, from `run` until that is cancelled."""

    def __init__(self, sink: Sink, log: PostLog, clock: Clock) -> None:
        self.sink: Final = sink
        self.trouble = ""  # why the last post was not sent; empty: it was
        self._log: Final = log
        self._clock: Final = clock
        self._backoff: Final = Backoff()
        self._window: Final = asyncio.Semaphore(WINDOW_N)
        self._names: Final[dict[str, asyncio.Future[None]]] = {}  # of posts under way
        self._sent: list[tuple[int, tuple[str, ...]]] = []  # confirmed, and not written down yet
        self._has_sent: Final = asyncio.Event()
        self._progress: Final = asyncio.Event()  # something more was confirmed, or need not be sent
        self._taken: Final[dict[int, None]] = {}  # posts that are under way or not written down, in their order
        self._read_to = 0  # all posts up to it are taken, or need not be sent

    async def run(self) -> None:
        """Sends until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._confirm())
            to, beyond = self._log.confirmed(self.sink.name)
            self._read_to = to
            while True:
                await self._log.wait_beyond(self._read_to)
                try:
                    last_seq = self._log.last_seq
                    page = await self._log.read(self._read_to)
                except PostLogError as error:
                    await self._wait(str(error))
                    continue
                for logged in page:
                    if logged.seq not in beyond:
                        post = read_post(logged.body)
                        names = _names_of(post)
                        await self._window.acquire()
                        while busy := [self._names[name] for name in names if name in self._names]:
                            await busy[0]
                        for name in names:
                            self._names[name] = asyncio.get_running_loop().create_future()
                        self._taken[logged.seq] = None
                        group.create_task(self._send(logged.seq, post, names))
                    self._read_to = logged.seq
                if not page:
                    self._read_to = max(self._read_to, last_seq)  # what is there is superseded
                    self._progress.set()

    async def wait_until_confirmed(self, to_seq: int) -> None:
        """Returns when nothing up to this post has to be sent to it any more."""
        while self._read_to < to_seq or self._taken:
            self._progress.clear()
            await self._progress.wait()

    async def _send(self, seq: int, post: Post, names: tuple[str, ...]) -> None:
        while True:
            try:
                await self.sink.send(post, self._log.prefix)
                break
            except NotSent as error:
                await self._wait(str(error))
        self.trouble = ""
        self._backoff.reset()
        self._sent.append((seq, names))
        self._has_sent.set()

    async def _confirm(self) -> None:
        while True:
            await self._has_sent.wait()
            self._has_sent.clear()
            sent, self._sent = self._sent, []
            while True:
                try:
                    await self._log.confirm(self.sink.name, [seq for seq, _ in sent])
                    for seq, _ in sent:
                        self._taken.pop(seq, None)
                    await self._log.confirm_to(self.sink.name, min(self._taken, default=self._read_to + 1) - 1)
                    break
                except PostLogError as error:
                    await self._wait(str(error))
            self._progress.set()
            for _, names in sent:
                for name in names:
                    self._names.pop(name).set_result(None)
                self._window.release()

    async def _wait(self, trouble: str) -> None:
        if trouble != self.trouble:
            _log.warning("poster: sink %s: %s", self.sink.name, trouble)
        self.trouble = trouble
        await self._clock.sleep(self._backoff.next_s())


def _names_of(post: Post) -> tuple[str, ...]:
    """Of the files that a post is about; blocks of one file are about different parts of it."""
    if post.blocks is not None:
        return (f"{post.rel_path}\0{post.blocks.number}",)
    operation = post.file_op
    if operation is not None and operation.kind == RENAME and operation.value != post.rel_path:
        return post.rel_path, operation.value
    return (post.rel_path,)
