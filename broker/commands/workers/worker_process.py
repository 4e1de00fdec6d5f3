"""Keeps one worker running.

    starting ──ready──► ready ──ends──► waiting ──pause──► starting …
        └──cannot start, the first time──► ended        ──told to stop──► stopping ──► ended

A worker that lived for LIVED_S is started again at once. One that did not is waited for, longer each time, so that a
worker that cannot live does not take a core for itself. One that hangs is killed: the system would go on to give it
connections that nobody answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from broker.commands.hangup import HANGUP
from broker.commands.workers.messages import BEAT_S, StartReport
from broker.commands.workers.plan import Assignment
from broker.views.schemas import WorkerView

STARTING: Final = "starting"
READY: Final = "ready"
WAITING: Final = "waiting"  # to be started again
STOPPING: Final = "stopping"
ENDED: Final = "ended"
READ_BYTES: Final = 4096  # of beats, at one time
LIVED_S: Final = 5.0  # it was not the start that failed
LAST_PAUSE_S: Final = 5.0
COMMAND: Final = (sys.executable, "-m", "broker.commands.workers")

_log: Final = logging.getLogger(__name__)


class Timing(NamedTuple):
    """How long a worker is waited for."""

    start_s: float = 60.0  # to become ready; a cold Python with all imports on a busy machine needs ten
    beat_s: float = BEAT_S
    hung_beats_n: int = 10  # so many that do not come are a worker that hangs; other brokers have given it up after 3 s
    first_pause_s: float = 0.1  # before a worker is started again that did not live for LIVED_S


TIMING: Final = Timing()


class WorkerProcess:
    """One worker, whatever process it is."""

    def __init__(
        self,
        assignment: Assignment,
        command: Sequence[str] = COMMAND,
        on_return: Callable[[int], None] | None = None,
        timing: Timing = TIMING,
    ) -> None:
        """`on_return`: called with its number when it is ready again; None: nobody wants to know."""
        self.number: Final = assignment.number
        self.state = STARTING
        self.name = ""  # in traces; empty before it is ready for the first time
        self.pid = 0  # 0: it does not run
        self.restarts = 0
        self.started_at_ms = 0  # when it became ready, epoch; 0: it is not
        self.status = 0  # with which its latest process ended, negative for a signal
        # Its first start; empty: it is ready; else why not.
        self.first: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()
        self._assignment = assignment.encode()
        self._command: Final = command
        self._timing: Final = timing
        self._on_return: Final = on_return
        self._process: asyncio.subprocess.Process | None = None  # None: it does not run
        self._stop: Final = asyncio.Event()

    def view(self) -> WorkerView:
        """For operators."""
        return WorkerView(self.number, self.name, self.pid, self.state, self.restarts, self.started_at_ms)

    async def run(self) -> None:
        """Starts it, again and again, until it is to stop or did not start at all."""
        loop = asyncio.get_running_loop()
        pause_s = 0.0
        while not self._stop.is_set():
            self.state = STARTING
            began_at = loop.time()
            error = await self._live()
            if self._stop.is_set():
                break
            if not self.first.done():
                self.first.set_result(error or f"worker {self.number} ended with {self.status} before it was ready")
                break
            pause_s = next_pause_s(pause_s, loop.time() - began_at, self._timing.first_pause_s)
            again = f"is started again in {pause_s:g} s" if pause_s else "is started again"
            why = f": {error}" if error else ""
            _log.warning("worker %d: ended with %d%s, %s", self.number, self.status, why, again)
            self.state = WAITING
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()
            if not self._stop.is_set():
                self.restarts += 1
        self.state = ENDED
        if not self.first.done():
            self.first.set_result("the broker was told to stop")

    def reload(self, assignment: Assignment) -> None:
        """It is to read its files again, and to be told this when it is started again."""
        self._assignment = assignment.encode()
        if HANGUP is not None:
            self._signal(HANGUP)

    def stop(self) -> None:
        """It is to end, and is not started again; the second time at once."""
        # Both mean the same to it, but two of a kind, one right after the other, would be one to the system.
        number = signal.SIGINT if self._stop.is_set() else signal.SIGTERM
        self._stop.set()
        self.state = STOPPING
        self._signal(number)

    def kill(self) -> None:
        """It ends now."""
        self._stop.set()
        self._signal(signal.SIGKILL)

    async def _live(self) -> str:
        """One process, from its start to its end; why it could not start, empty if it could."""
        try:
            # A session of its own: Ctrl-C in the terminal is for the supervisor, which says it to all once.
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            self.status = 1
            return f"it cannot be started: {error}"
        self._process, self.pid = process, process.pid
        if self._stop.is_set():  # meanwhile
            self._signal(signal.SIGTERM)
        try:
            return await self._talk(process)
        finally:
            self.status = await process.wait()
            self._process, self.pid, self.started_at_ms = None, 0, 0

    async def _talk(self, process: asyncio.subprocess.Process) -> str:
        """Tells it what it has to know, and listens until it has nothing more to say: it has ended."""
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        report: StartReport | None = None
        told = self._assignment
        try:
            async with asyncio.timeout(self._timing.start_s):
                process.stdin.write(told)
                await process.stdin.drain()
                report = StartReport.decode(await process.stdout.readline())
        except (ConnectionError, RuntimeError):
            pass  # it has ended already; RuntimeError: uvloop has closed its pipe
        except TimeoutError:
            self._signal(signal.SIGKILL)
            return f"it was not ready within {self._timing.start_s:g} s"
        if report is None or report.error:
            return report.error if report is not None else ""
        self.name = report.name
        self.started_at_ms = time.time_ns() // 1_000_000
        _log.info("worker %d: ready as %s, process %d", self.number, self.name, process.pid)
        if not self._stop.is_set():
            self.state = READY
        if told is not self._assignment and HANGUP is not None:
            self._signal(HANGUP)  # it was not ready for the first one
        if not self.first.done():
            self.first.set_result("")
        elif self._on_return is not None:
            self._on_return(self.number)
        watching = asyncio.create_task(self._watch(process.stdout))
        try:
            await process.wait()
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        return "" if watching.cancelled() else watching.result()

    async def _watch(self, output: asyncio.StreamReader) -> str:
        """Kills it when it hangs, and says so; empty when it has nothing more to say."""
        missed_n = 0  # beats of our own without one of the worker: while this process is stopped, none is missed
        while missed_n < self._timing.hung_beats_n:
            try:
                async with asyncio.timeout(self._timing.beat_s):
                    if not await output.read(READ_BYTES):
                        return ""
                missed_n = 0
            except TimeoutError:
                missed_n += 1
        self._signal(signal.SIGKILL)
        return f"it hung for {self._timing.hung_beats_n * self._timing.beat_s:g} s"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


def next_pause_s(before_s: float, lived_s: float, first_s: float) -> float:
    """How long to wait before the next start. `before_s`: the pause before this one; `lived_s`: how long it lived."""
    if lived_s >= LIVED_S:
        return 0.0
    return min(before_s * 2, LAST_PAUSE_S) if before_s else first_s
