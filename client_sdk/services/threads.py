"""Threads for handlers that are no async functions: they may block, and the event loop goes on.

    event loop ── start(call) ──► a thread that is idle, or a new one ── result, error ──► future in the event loop

The threads are daemons: one that never returns keeps no process alive, which those of `concurrent.futures` would. How
many there are is bounded by the `Limit` of the handler. Knows nothing of requests.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

MAX_THREADS: Final = 32  # of one handler, unless it says `max_concurrency`
IDLE_S: Final = 10.0  # a thread without work for so long ends


class Job:
    """One call, and who waits for it."""

    __slots__ = ("_call", "_context", "_error", "_loop", "_result", "ended", "future")

    def __init__(self, call: Callable[[], Any], ended: Callable[[], None]) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._context: Final = contextvars.copy_context()  # a span of the request is there in the thread, too
        self._call: Final = call
        self._result: Any = None
        self._error: BaseException | None = None
        self.ended: Final = ended
        self.future: Final[asyncio.Future[Any]] = self._loop.create_future()

    def run(self) -> None:
        """In the thread."""
        try:
            self._result = self._context.run(self._call)
        except BaseException as error:  # the thread is only lent: whatever it is belongs to who waits
            self._error = error

    def hand_over(self) -> None:
        """In the thread: the event loop gets the result."""
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # it is closed: nobody waits, but the handler may be used in another one
            self.ended()

    def _deliver(self) -> None:
        if not self.future.done():
            error = self._error
            if error is None:
                self.future.set_result(self._result)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                self.future.set_exception(error)
            else:  # SystemExit and its like would end the event loop, StopIteration cannot be in a future
                self.future.set_exception(RuntimeError(f"the handler raised {type(error).__name__}"))
        self.ended()


class Threads:
    """The threads of one handler; all methods belong to an event loop."""

    def __init__(self, name: str, idle_s: float = IDLE_S) -> None:
        """`name` is what debuggers show; a thread without work for `idle_s` ends."""
        self._name: Final = name
        self._idle_s: Final = idle_s
        self._jobs: Final[queue.SimpleQueue[Job]] = queue.SimpleQueue()  # each has a thread that waits for it
        self._lock: Final = threading.Lock()
        self._idle_n = 0  # threads that wait and have no job yet

    def start(self, call: Callable[[], Any], ended: Callable[[], None]) -> asyncio.Future[Any]:
        """What the call gives; `ended` is called when the thread has returned, also if nobody waits any more.

        In the event loop, behind the result; in the thread when the loop has been closed.
        """
        job = Job(call, ended)
        with self._lock:
            is_new = self._idle_n == 0
            if not is_new:
                self._idle_n -= 1
        if is_new:
            threading.Thread(target=self._work, name=f"rsocket {self._name}", daemon=True).start()
        self._jobs.put(job)
        return job.future

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._idle_s)
            except queue.Empty:
                with self._lock:
                    if self._idle_n > 0:
                        self._idle_n -= 1
                        return
                continue  # a job is on its way to this thread
            job.run()
            with self._lock:
                self._idle_n += 1  # before the result is there: who then starts another job finds this thread
            job.hand_over()
            del job
