"""`serve` with several workers: the process that starts them, and answers operators for all of them (D-53).

    supervisor ── holds the ports, serves the admin API, forwards nothing
       ├─ worker 1 ── a broker ─┐
       ├─ worker 2 ── a broker ─┼─ accept on the same ports; linked by Unix sockets, each with each
       └─ worker 3 ── a broker ─┘

Decides the order of starting and stopping. All workers are ready before anybody is told where to connect. A worker that
ends is started again (`worker_process`), the others go on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from broker.commands.workers.plan import Assignment, Plan
from broker.commands.workers.ports import Ports
from broker.commands.workers.worker_process import COMMAND, READY, WorkerProcess
from broker.config.load import Sources
from broker.config.options import Config
from broker.config.sections.admin_checks import AdminToken, tokens_of
from broker.edge.admission.verdicts import Verifier
from broker.reload import read_again
from broker.views.schemas import WorkerView
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.ids import id_text

STOP_EXTRA_S: Final = 20.0  # beyond server.stop_grace_s: last bytes and event files; then workers are killed
SECRET_BYTES: Final = 32
ORDERLY: Final = (0, -signal.SIGTERM, -signal.SIGINT)  # ends of a worker; by a signal: it was just being started

MakeWorker = Callable[[Assignment, Sequence[str], Callable[[int], None]], WorkerProcess]

_log: Final = logging.getLogger(__name__)


class Supervisor:
    """All workers of one machine. Is `admin_api.processes.Supervisor`."""

    def __init__(
        self,
        config: Config,
        workers_n: int,
        command: Sequence[str] = COMMAND,
        stop_extra_s: float = STOP_EXTRA_S,
        make_worker: MakeWorker = WorkerProcess,
        sources: Sources | None = None,
    ) -> None:
        """`sources`: of the configuration, see `Server`."""
        self.config = config
        self.listeners: list[str] = []  # URLs, with the ports that the system gave
        self.broker_id = config.broker.id or id_text(os.urandom(16))
        self.started_at_ms = time.time_ns() // 1_000_000
        self.is_stopping = False
        self.tokens: tuple[AdminToken, ...] | None = None  # see `Server`
        self.operators: Verifier | None = None  # likewise
        self.on_return: Callable[[int], None] | None = None  # see `Workers`; None: nobody wants to know
        self._sources = sources
        self._workers_n = workers_n
        self._command = command
        self._stop_extra_s = stop_extra_s
        self._make_worker = make_worker
        self._ports = Ports()
        self._folder = ""  # of the Unix sockets; empty until `start`
        self._plan: Plan | None = None  # None until `start`
        self._processes: list[WorkerProcess] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_wishes = 0
        self._wish = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """At least one worker takes requests."""
        return any(worker.state == READY for worker in self._processes)

    def now_ms(self) -> int:
        """Epoch."""
        return time.time_ns() // 1_000_000

    def states(self) -> list[WorkerView]:
        """By number."""
        return [worker.view() for worker in self._processes]

    def admin_path(self, number: int) -> str:
        """The Unix socket at which a worker answers."""
        assert self._plan is not None  # there are workers
        return self._plan.admin_path(number)

    async def start(self) -> None:
        """Returns when all workers are ready; BrokerError when one cannot start, and then none runs."""
        self.tokens = tokens_of(self.config.admin.tokens)
        server = self.config.server
        listens = tuple(self._ports.hold(listen) for listen in server.listen)
        self.listeners += [str(listen) for listen in listens]
        cluster = replace(self.config.cluster, listen=tuple(map(self._ports.hold, self.config.cluster.listen)))
        self._folder = tempfile.mkdtemp(prefix="rsocket-broker-")  # only this user may look into it
        config = replace(self.config, server=replace(server, listen=listens), cluster=cluster)
        plan = Plan(
            config, self._workers_n, self._folder, self.broker_id, secrets.token_hex(SECRET_BYTES), self._sources
        )
        self._plan = plan
        self._processes = [
            self._make_worker(plan.assignment(number), self._command, self._returned)
            for number in range(1, self._workers_n + 1)
        ]
        self._tasks = [asyncio.create_task(worker.run()) for worker in self._processes]
        for task in self._tasks:
            task.add_done_callback(_say_failed)
        for worker in self._processes:
            error = await worker.first
            if error:
                raise BrokerError("cannot-listen", error)

    def reload(self) -> None:
        """Has the workers read the files of `broker.reload` again; a mistake in one of them is logged, once."""
        operators = self.operators
        files = read_again(self.config, self._sources, [operators.prepare] if operators is not None else [])
        if files is None or self._plan is None:
            return
        self.tokens = files.tokens
        if operators is not None:
            operators.commit()
        self.config = replace(self.config, role=files.roles, admin=files.admin)
        self._plan = replace(self._plan, config=replace(self._plan.config, role=files.roles))
        for worker in self._processes:
            worker.reload(self._plan.assignment(worker.number))

    def wish_stop(self) -> None:
        """Somebody wants the workers to stop; the second time at once. Safe as a signal handler of the loop."""
        self._stop_wishes += 1
        self._wish.set()
        self._stop_workers()

    async def wait_for_wish(self) -> None:
        """Until somebody wants them to stop."""
        await self._wish.wait()

    async def stop(self) -> bool:
        """Stops all; returns when none is left. False: one of them did not end in order."""
        if not self._stop_wishes:
            self._stop_workers()
        longest_s = self.config.server.stop_grace_s + self._stop_extra_s
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=longest_s)
            for worker, task in zip(self._processes, self._tasks, strict=True):
                if task in late:
                    _log.error("worker %d: has not ended after %g s and is killed", worker.number, longest_s)
                    worker.kill()
            await asyncio.wait(self._tasks)
        self._ports.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        failed = [worker for worker in self._processes if worker.status not in ORDERLY]
        for worker in failed:
            _log.error("worker %d: ended with %d when it was told to stop", worker.number, worker.status)
        return not failed and not any(task.exception() for task in self._tasks)

    def _returned(self, number: int) -> None:
        if self.on_return is not None:
            self.on_return(number)

    def _stop_workers(self) -> None:
        self.is_stopping = True
        for worker in self._processes:
            worker.stop()


def _say_failed(task: asyncio.Task[None]) -> None:
    """Where operators see it, and at once: a worker is missing for good."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a worker is not restarted, because of a bug in the broker", exc_info=error)
