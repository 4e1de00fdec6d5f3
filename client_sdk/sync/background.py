"""One thread with an event loop, for all in this process that call without a loop of their own.

    caller's thread ── run(coroutine) ──► event loop in the thread "rsocket background" ── result, error ──► caller

Decides when the thread begins (with its first user), when it ends (with the last one, or with the process), and that no
wait outlives it. Knows nothing of clients and brokers: they leave a word how they are closed (`hold`).
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from client_sdk.clock import find_loop_factory
from client_sdk.errors import ConnectionLost, DeadlineExceeded, NotConnected

LOOK_S: Final = 1.0  # how often a thread that waits looks whether the event loop is still there
BLOCKED_S: Final = 5.0  # beyond its deadline a call waits no longer for a loop that somebody blocks
CLOSE_S: Final = 2.0  # for what is held to be closed, and again for what was cancelled
STOP_S: Final = 6.0  # for the thread to end; a handler that blocks it is left behind

T = TypeVar("T")
Close = Callable[[], Awaitable[object]]


class LoopThread:
    """A thread that runs an event loop until it is stopped. `run` is for any other thread."""

    def __init__(self) -> None:
        self._pid: Final = os.getpid()
        self._loop: Final = (find_loop_factory() or asyncio.new_event_loop)()
        self._stopping: Final = asyncio.Event()
        self._held: Final[set[Close]] = set()  # only touched by the loop; one for each client and broker
        self._thread: Final = threading.Thread(target=self._main, name="rsocket background", daemon=True)
        self._thread.start()

    @property
    def is_forked(self) -> bool:
        """This process is a child of the one that has the thread: nothing works here."""
        return os.getpid() != self._pid

    def run(self, work: Callable[[], Awaitable[T]], timeout_s: float | None = None) -> T:
        """What the awaitable gives that `work` makes, both in the event loop; cancelled if this thread is interrupted.

        `timeout_s`: the work itself will have ended by then; the wait ends a little later whatever happens.
        Raises what it raises; ConnectionLost when the thread ends meanwhile, NotConnected when it had ended, or in a
        process that was forked; RuntimeError in the event loop's own thread.
        """
        self._check()
        doing = _do(work)
        try:
            future = asyncio.run_coroutine_threadsafe(doing, self._loop)
        except RuntimeError:  # the loop was closed just now
            doing.close()
            raise NotConnected("this client was closed", word="closed") from None
        try:
            return self._wait(future, timeout_s)
        except concurrent.futures.CancelledError:
            raise ConnectionLost("this client was closed", word="closed") from None
        except BaseException:
            future.cancel()
            raise

    def call(self, work: Callable[[], T]) -> T:
        """What a function gives that is called in the event loop; as `run`."""

        async def called() -> T:
            return work()

        return self.run(called)

    def hold(self, close: Close) -> None:
        """What shall be awaited before the loop ends. In the event loop only, as `let_go`."""
        self._held.add(close)

    def let_go(self, close: Close) -> None:
        """It is closed, or somebody else does it."""
        self._held.discard(close)

    def start_soon(self, work: Callable[[], object]) -> None:
        """Calls it in the event loop, if there still is one; waits for nothing. Safe while objects are collected."""
        if not self.is_forked:
            with contextlib.suppress(RuntimeError):  # closed, and what it had with it
                self._loop.call_soon_threadsafe(work)

    def stop(self) -> None:
        """Closes what is held, cancels what runs, ends the thread; waits for that unless it is this thread."""
        if self.is_forked:
            return
        self.start_soon(self._stopping.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_S)

    def _check(self) -> None:
        """Raises what keeps work of this thread from being done in that one."""
        if self.is_forked:
            text = f"this client belongs to process {self._pid}; after a fork, call connect() in the child"
            raise NotConnected(text, word="forked", says_how=True)
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a blocking call in the event loop that would have to answer it; handlers of a service are async: "
                "use client_sdk.connect there"
            )
        if not self._thread.is_alive():
            raise NotConnected("this client was closed", word="closed")

    def _wait(self, future: concurrent.futures.Future[T], timeout_s: float | None) -> T:
        left_s = float("inf") if timeout_s is None else timeout_s + BLOCKED_S
        while True:
            try:
                return future.result(min(LOOK_S, left_s))
            except TimeoutError:
                if future.done():
                    return future.result()  # what it raised itself
            left_s -= LOOK_S
            if not self._thread.is_alive():
                raise ConnectionLost("this client was closed", word="closed")
            if left_s <= 0:
                text = f"a call timed out after {timeout_s} s, the event loop of the sync clients is blocked"
                raise DeadlineExceeded(text)

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        await self._stopping.wait()
        await _ended_within([asyncio.ensure_future(close()) for close in self._held], CLOSE_S)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await _ended_within(tasks, CLOSE_S)
        await asyncio.get_running_loop().shutdown_asyncgens()


class Background:
    """Lends one LoopThread to all who ask: the first to `enter` starts it, the last to `leave` stops it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None  # None while nobody needs it
        self._users_n = 0
        self._is_hooked = False  # the ends of this process and the beginnings of others are known here

    def enter(self) -> LoopThread:
        """The thread; every `enter` needs its `leave`."""
        with self._lock:
            if not self._is_hooked:
                self._is_hooked = True
                atexit.register(self._end)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=self._forget)
            if self._thread is None:
                self._thread = LoopThread()
            self._users_n += 1
            return self._thread

    def leave(self, thread: LoopThread) -> None:
        """One user less of what `enter` gave. Nothing in a process that was forked since."""
        with self._lock:
            if thread is not self._thread:
                return
            self._users_n -= 1
            if self._users_n:
                return
            self._thread = None
        thread.stop()

    def _end(self) -> None:
        with self._lock:
            thread, self._thread, self._users_n = self._thread, None, 0
        if thread is not None:
            thread.stop()

    def _forget(self) -> None:
        """In a forked child the thread does not run, and the lock may be held for ever."""
        self._lock = threading.Lock()
        self._thread = None
        self._users_n = 0


BACKGROUND: Final = Background()  # the only one of the process


async def _do(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


async def _ended_within(tasks: list[asyncio.Future[Any]] | list[asyncio.Task[Any]], timeout_s: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)
