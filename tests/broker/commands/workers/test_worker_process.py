"""A worker is kept running: real processes that are no brokers."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from broker.commands.workers import worker_process
from broker.commands.workers.messages import BEAT
from broker.commands.workers.plan import Plan
from broker.commands.workers.worker_process import ENDED, LAST_PAUSE_S, LIVED_S, READY, Timing, WorkerProcess
from broker.config.load import load
from tests.system.support.waits import soon, until

READS = "import sys; n = int.from_bytes(sys.stdin.buffer.read(4), 'big'); sys.stdin.buffer.read(n)\n"
SAYS_READY = READS + 'print(\'{"name":"w1"}\', flush=True)\n'
WAITS = "sys.stdin.buffer.read()\n"
PLAN = Plan(load(None, {}, {}), 2, "/tmp/w", "6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11", "secret")
FIRST_PAUSE_S = Timing().first_pause_s
Run = Callable[..., WorkerProcess]


@pytest.fixture
async def run() -> AsyncIterator[Run]:
    """`run(PROGRAM)`: a worker that runs it."""
    kept: list[tuple[WorkerProcess, asyncio.Task[None]]] = []

    def make(program: str, **timing: Any) -> WorkerProcess:
        worker = WorkerProcess(PLAN.assignment(1), [sys.executable, "-c", program], timing=Timing(**timing))
        kept.append((worker, asyncio.create_task(worker.run())))
        return worker

    yield make
    for worker, task in kept:
        worker.kill()
        await soon(task)


@pytest.mark.parametrize(
    "before_s, lived_s, pause_s",
    [
        (0.0, 0.0, FIRST_PAUSE_S),
        (FIRST_PAUSE_S, 0.0, 2 * FIRST_PAUSE_S),
        (4.0, LIVED_S - 0.1, LAST_PAUSE_S),
        (LAST_PAUSE_S, 0.0, LAST_PAUSE_S),
        (LAST_PAUSE_S, LIVED_S, 0.0),
    ],
)
def test_who_lives_is_started_at_once_and_who_does_not_later_each_time(
    before_s: float, lived_s: float, pause_s: float
) -> None:
    assert worker_process.next_pause_s(before_s, lived_s, FIRST_PAUSE_S) == pause_s


async def test_a_worker_that_ends_is_started_again(run: Run) -> None:
    worker = run(SAYS_READY + WAITS)
    assert await soon(worker.first) == ""
    pid, view = worker.pid, worker.view()
    assert (view.number, view.name, view.pid, view.state, view.restarts) == (1, "w1", pid, READY, 0)
    assert view.ready_at_ms > 0
    worker._signal(signal.SIGKILL)
    await until(lambda: worker.restarts == 1 and worker.state == READY)
    assert worker.pid not in (0, pid)
    assert worker.status == -signal.SIGKILL


async def test_a_worker_that_hangs_is_killed_and_started_again(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    worker = run(SAYS_READY + WAITS, beat_s=0.01)  # and says no more
    await soon(worker.first)
    await until(lambda: worker.restarts > 0)
    assert worker.status == -signal.SIGKILL
    assert "worker 1: ended with -9: it hung for 0.1 s, is started again" in caplog.text


async def test_a_worker_that_says_now_and_then_that_it_lives_does_not_hang(run: Run) -> None:
    worker = run(SAYS_READY + WAITS, beat_s=0.001, hung_beats_n=3)
    output = asyncio.StreamReader()
    watching = asyncio.create_task(worker._watch(output))
    for _ in range(100):
        output.feed_data(BEAT)
        await asyncio.sleep(0)
    output.feed_eof()
    assert await soon(watching) == ""


async def test_a_worker_that_cannot_start_at_first_says_why_and_is_left(run: Run) -> None:
    worker = run(READS + 'print(\'{"error":"no such certificate"}\', flush=True); sys.exit(1)')
    assert await soon(worker.first) == "no such certificate"
    await until(lambda: worker.state == ENDED)
    assert (worker.status, worker.restarts, worker.pid) == (1, 0, 0)


@pytest.mark.parametrize("program", ["import sys; sys.exit(3)", READS + "print('what?'); sys.exit(3)"])
async def test_a_worker_that_ends_without_a_word_is_told_by_its_status(run: Run, program: str) -> None:
    assert await soon(run(program).first) == "worker 1 ended with 3 before it was ready"


async def test_a_worker_that_does_not_become_ready_is_killed(run: Run) -> None:
    worker = run(READS + WAITS, start_s=0.2)
    assert await soon(worker.first) == "it was not ready within 0.2 s"
    await until(lambda: worker.state == ENDED)
    assert worker.status == -signal.SIGKILL


async def test_a_program_that_is_not_there_is_told() -> None:
    worker = WorkerProcess(PLAN.assignment(1), ["/nowhere/python"])
    await soon(worker.run())
    assert worker.first.result().startswith("it cannot be started: ")


class KilledAtOnce:
    """A process whose pipe is closed before anything is written to it, as uvloop tells it."""

    pid = 4711
    stdout = asyncio.StreamReader

    @property
    def stdin(self) -> KilledAtOnce:
        return self

    def write(self, data: bytes) -> None:
        raise RuntimeError("unable to perform operation on <WriteUnixTransport>; the handler is closed")

    async def wait(self) -> int:
        return -signal.SIGKILL


async def test_a_worker_that_is_killed_before_it_was_told_anything_has_ended(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*command: object, **options: object) -> KilledAtOnce:
        return KilledAtOnce()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    worker = run("")
    assert await soon(worker.first) == "worker 1 ended with -9 before it was ready"
    await until(lambda: worker.state == ENDED)


async def test_a_worker_that_is_told_to_stop_is_not_started_again(run: Run) -> None:
    worker = run(SAYS_READY + WAITS)
    await soon(worker.first)
    worker.stop()
    await until(lambda: worker.state == ENDED)
    assert (worker.restarts, worker.pid, worker.status) == (0, 0, -signal.SIGTERM)


async def test_a_worker_that_waits_to_be_started_again_stops_at_once(run: Run) -> None:
    worker = run(SAYS_READY, first_pause_s=1000.0)  # and ends
    await until(lambda: worker.state == worker_process.WAITING)
    worker.stop()
    await until(lambda: worker.state == ENDED)
    assert worker.restarts == 0
