"""Keeps the process of a gateway running beside a broker: that of Samwise, or of the feed.

    starting ──► running ──ends──► pause, which doubles ──► starting …      stop: SIGTERM, and after STOP_S SIGKILL

It is told over its standard input what to do, and ends when that does: nothing is left of it when the broker is killed.
One that ends with status 0 was asked to (by a caller, "stop" of Samwise's protocol 1.2), and is not started again. The
broker does not wait for it: callers' programs and services need not start in any order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Final

from broker.config.options import Config
from client_sdk.gateways.assignment import Assignment
from client_sdk.gateways.samwise.assignment import assignment_of
from spark_sink.feed.program.assignment import assignment_of as feed_assignment_of

SAMWISE: Final = (sys.executable, "-m", "client_sdk.gateways.samwise")
FEED: Final = (sys.executable, "-m", "spark_sink.feed.program")
FIRST_PAUSE_S: Final = 0.5
LAST_PAUSE_S: Final = 30.0
LIVED_S: Final = 10.0  # it was not the start that failed: the next pause is the first one again
STOP_S: Final = 15.0  # for requests and deliveries on their way, 5 s each, event files, 3 s, and the store

_log: Final = logging.getLogger(__name__)


class GatewayProcess:
    """One gateway, whatever process it is, from `start` to `stop`."""

    def __init__(self, name: str, command: Sequence[str], first_pause_s: float = FIRST_PAUSE_S) -> None:
        """`name`: in the log. `command`: what starts its program."""
        self.pid = 0  # 0: it does not run
        self.restarts = 0
        self._name: Final = name
        self._command: Final = command
        self._first_pause_s: Final = first_pause_s
        self._process: asyncio.subprocess.Process | None = None  # None: it does not run
        self._stop: Final = asyncio.Event()
        self._ending = signal.SIGTERM  # what a process gets that is to end
        self._task: asyncio.Task[None] | None = None  # None until `start`

    def start(self, assignment: Assignment) -> None:
        """Begins to; waits for nothing."""
        self._task = asyncio.create_task(self._run(assignment.encode()))

    def wish_stop(self) -> None:
        """It is to end, and is not started again; the second time at once. Safe as a signal handler of the loop."""
        self._ending = signal.SIGKILL if self._stop.is_set() else signal.SIGTERM
        self._signal(self._ending)
        self._stop.set()

    async def stop(self) -> None:
        """Returns when it has ended."""
        if not self._stop.is_set():
            self.wish_stop()
        if self._task is None:
            return
        _, late = await asyncio.wait([self._task], timeout=STOP_S)
        if late:
            _log.error("%s: has not ended after %g s and is killed", self._name, STOP_S)
            self._signal(signal.SIGKILL)
        await self._task

    async def _run(self, assignment: bytes) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._first_pause_s
        while not self._stop.is_set():
            began_at = loop.time()
            status = await self._live(assignment)
            if self._stop.is_set():
                return
            if status == 0:
                _log.warning("%s: has ended because somebody asked for it, and is not started again", self._name)
                return
            if loop.time() - began_at >= LIVED_S:
                pause_s = self._first_pause_s
            _log.error("%s: ended with %d, is started again in %g s", self._name, status, pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()
            pause_s = min(pause_s * 2, LAST_PAUSE_S)
            self.restarts += not self._stop.is_set()

    async def _live(self, assignment: bytes) -> int:
        """One process, from its start to its end; its exit status, negative for a signal."""
        try:
            # A session of its own: Ctrl-C in the broker's terminal is not for the gateway.
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            _log.error("%s: cannot be started: %s", self._name, error)
            return 1
        self._process, self.pid = process, process.pid
        if self._stop.is_set():  # meanwhile
            self._signal(self._ending)
        assert process.stdin is not None  # it is a pipe
        try:
            process.stdin.write(assignment)  # stays open as long as this process runs
            with contextlib.suppress(ConnectionError):
                await process.stdin.drain()
            return await process.wait()
        finally:
            process.stdin.close()
            self._process, self.pid = None, 0

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


class GatewayProcesses:
    """Those of one configuration, from `start` to `stop`."""

    def __init__(self, config: Config) -> None:
        self.samwise: Final = GatewayProcess("samwise gateway", SAMWISE) if config.samwise.endpoints else None
        self.feed: Final = GatewayProcess("feed", FEED) if config.feed.is_used else None
        self._config: Final = config

    def start(self, listeners: list[str], admin_url: str) -> None:
        """`listeners`: URLs that the broker listens on; `admin_url`: of its admin API, empty if it has none.
        BrokerError "bad-config": nobody can say where the brokers are."""
        if self.samwise is not None:
            self.samwise.start(assignment_of(self._config, listeners))
        if self.feed is not None:
            self.feed.start(feed_assignment_of(self._config, listeners, admin_url))

    def wish_stop(self) -> None:
        """See there."""
        for each in self._all():
            each.wish_stop()

    async def stop(self) -> None:
        """Returns when all have ended."""
        await asyncio.gather(*(each.stop() for each in self._all()))

    def _all(self) -> list[GatewayProcess]:
        return [each for each in (self.samwise, self.feed) if each is not None]
