"""A worker is kept running: real processes that are no brokers."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from broker.commands.workers import worker_process as module
from broker.commands.workers.messages import BEAT
from broker.commands.workers.plan import Plan
from broker.commands.workers.worker_process import (
    ENDED,
    FIRST_PAUSE_S,
    LAST_PAUSE_S,
    LIVED_S,
    READY,
    WAITING,
    Keeper,
    next_pause_s,
)
from broker.config.load import load
from tests.system.support.waits import soon, until

READS = "import sys; n = int.from_bytes(sys.stdin.buffer.read(4), 'big'); sys.stdin.buffer.read(n)\n"
SAYS_READY = READS + 'print(\'{"name":"w1"}\', flush=True)\n'
WAITS = "sys.stdin.buffer.read()\n"
Keep = Callable[[str], Keeper]


@pytest.fixture
async def keep() -> AsyncIterator[Keep]:
    """`keep(PROGRAM)`: a kept worker that runs it."""
    kept: list[tuple[Keeper, asyncio.Task[None]]] = []

    def make(program: str) -> Keeper:
        handed = Plan(load(None, {}, {}), 2, "/tmp/w", "6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11", "secret").handed(1)
        keeper = Keeper(handed, [sys.executable, "-c", program])
        kept.append((keeper, asyncio.create_task(keeper.keep())))
        return keeper

    yield make
    for keeper, task in kept:
        keeper.kill()
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
    assert next_pause_s(before_s, lived_s) == pause_s


async def test_a_worker_that_ends_is_started_again(keep: Keep) -> None:
    keeper = keep(SAYS_READY + WAITS)
    assert await soon(keeper.first) == ""
    pid = keeper.pid
    assert (keeper.state, keeper.name, keeper.restarts) == (READY, "w1", 0)
    keeper._signal(signal.SIGKILL)
    await until(lambda: keeper.restarts == 1 and keeper.state == READY)
    assert keeper.pid not in (0, pid)
    assert keeper.status == -signal.SIGKILL


async def test_a_worker_that_hangs_is_killed_and_started_again(
    keep: Keep, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.01)
    keeper = keep(SAYS_READY + WAITS)  # and says no more
    await soon(keeper.first)
    await until(lambda: keeper.restarts > 0)
    assert keeper.status == -signal.SIGKILL
    assert "worker 1: ended with -9: it hung for 0.1 s, is started again" in caplog.text


async def test_a_worker_that_says_now_and_then_that_it_lives_does_not_hang(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.001)
    monkeypatch.setattr(module, "HUNG_BEATS_N", 3)
    keeper = keep(SAYS_READY + WAITS)
    output = asyncio.StreamReader()
    watching = asyncio.create_task(keeper._watch(output))
    for _ in range(100):
        output.feed_data(BEAT)
        await asyncio.sleep(0)
    output.feed_eof()
    assert await soon(watching) == ""


async def test_a_worker_that_cannot_start_at_first_says_why_and_is_left(keep: Keep) -> None:
    keeper = keep(READS + 'print(\'{"error":"no such certificate"}\', flush=True); sys.exit(1)')
    assert await soon(keeper.first) == "no such certificate"
    await until(lambda: keeper.state == ENDED)
    assert (keeper.status, keeper.restarts, keeper.pid) == (1, 0, 0)


@pytest.mark.parametrize("program", ["import sys; sys.exit(3)", READS + "print('what?'); sys.exit(3)"])
async def test_a_worker_that_ends_without_a_word_is_told_by_its_status(keep: Keep, program: str) -> None:
    assert await soon(keep(program).first) == "worker 1 ended with 3 before it was ready"


async def test_a_worker_that_does_not_become_ready_is_killed(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_S", 0.2)
    keeper = keep(READS + WAITS)
    assert await soon(keeper.first) == "it was not ready within 0.2 s"
    await until(lambda: keeper.state == ENDED)
    assert keeper.status == -signal.SIGKILL


async def test_a_program_that_is_not_there_is_told() -> None:
    handed = Plan(load(None, {}, {}), 2, "/tmp/w", "6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11", "secret").handed(1)
    keeper = Keeper(handed, ["/nowhere/python"])
    await soon(keeper.keep())
    assert keeper.first.result().startswith("it cannot be started: ")


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
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*command: object, **options: object) -> KilledAtOnce:
        return KilledAtOnce()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    keeper = keep("")
    assert await soon(keeper.first) == "worker 1 ended with -9 before it was ready"
    await until(lambda: keeper.state == ENDED)


async def test_a_worker_that_is_told_to_stop_is_not_started_again(keep: Keep) -> None:
    keeper = keep(SAYS_READY + WAITS)
    await soon(keeper.first)
    keeper.stop()
    await until(lambda: keeper.state == ENDED)
    assert (keeper.restarts, keeper.pid, keeper.status) == (0, 0, -signal.SIGTERM)


async def test_a_worker_that_waits_to_be_started_again_stops_at_once(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 1000.0)
    keeper = keep(SAYS_READY)  # and ends
    await until(lambda: keeper.state == WAITING)
    keeper.stop()
    await until(lambda: keeper.state == ENDED)
    assert keeper.restarts == 0


async def test_operators_see_how_it_is(keep: Keep) -> None:
    keeper = keep(SAYS_READY + WAITS)
    await soon(keeper.first)
    view = keeper.view()
    assert (view.number, view.name, view.pid, view.state, view.restarts) == (1, "w1", keeper.pid, READY, 0)
    assert view.ready_at_ms > 0
