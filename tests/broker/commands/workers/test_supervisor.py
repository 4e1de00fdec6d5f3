"""The order of starting and stopping: real processes that are no brokers."""

import asyncio
import io
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from broker.commands.workers.plan import Assignment
from broker.commands.workers.supervisor import STOP_EXTRA_S, MakeWorker, Supervisor
from broker.commands.workers.worker_process import ENDED, READY, WorkerProcess
from broker.config.load import Sources, load
from rsocket_wire.errors import BrokerError
from tests.broker.commands.workers.test_worker_process import READS, SAYS_READY, WAITS
from tests.system.support.waits import soon, until

ID = "6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11"
COUNTS = """
import signal, sys, time
seen = []
def take(number, frame):
    seen.append(number)
    if len(seen) == 2:
        sys.exit(0)
signal.signal(signal.SIGTERM, take)
signal.signal(signal.SIGINT, take)
"""
IGNORES = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
# Short sleeps: a signal that comes between one and the next is taken all the same.
FOR_EVER = "import time\nwhile True: time.sleep(0.02)\n"
Supervise = Callable[..., Supervisor]


@pytest.fixture
async def supervise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Supervise]:
    """`supervise(PROGRAM)`: two workers that run it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: list[Supervisor] = []

    def make(
        program: str, stop_extra_s: float = STOP_EXTRA_S, make_worker: MakeWorker = WorkerProcess, **options: object
    ) -> Supervisor:
        variables = {f"RSB_{key.upper()}": str(value) for key, value in options.items()}
        config = load(None, variables, {"server.listen": ("tcp://127.0.0.1:0",), "admin.listen": "off"})
        supervisor = Supervisor(config, 2, [sys.executable, "-c", program], stop_extra_s, make_worker)
        made.append(supervisor)
        return supervisor

    yield make
    for supervisor in made:
        for worker in supervisor._processes:
            worker.kill()
        await soon(supervisor.stop())


async def test_all_are_ready_before_anybody_is_told_where(supervise: Supervise) -> None:
    supervisor = supervise(SAYS_READY + WAITS, broker__id=ID)
    assert (supervisor.is_ready, supervisor.listeners) == (False, [])
    await soon(supervisor.start())
    assert [(each.number, each.state) for each in supervisor.states()] == [(1, READY), (2, READY)]
    assert (supervisor.is_ready, supervisor.is_stopping, supervisor.broker_id) == (True, False, ID)
    assert [url.rpartition(":")[0] for url in supervisor.listeners] == ["tcp://127.0.0.1"]
    assert not supervisor.listeners[0].endswith(":0")
    folder = os.path.dirname(supervisor.admin_path(1))
    assert os.stat(folder).st_mode & 0o777 == 0o700


async def test_nothing_is_left_when_all_have_stopped(supervise: Supervise) -> None:
    supervisor = supervise(SAYS_READY + WAITS)
    await soon(supervisor.start())
    folder = os.path.dirname(supervisor.admin_path(1))
    waiting = asyncio.create_task(supervisor.wait_for_wish())
    supervisor.wish_stop()
    await soon(waiting)
    assert supervisor.is_stopping
    assert await soon(supervisor.stop())
    assert [each.state for each in supervisor.states()] == [ENDED, ENDED]
    assert not os.path.exists(folder)


class Mistaken(WorkerProcess):
    """One that we have a mistake in."""

    async def run(self) -> None:
        raise ZeroDivisionError


async def test_nothing_is_left_even_where_a_worker_was_kept_by_a_mistake_of_ours(
    supervise: Supervise, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = supervise(SAYS_READY + WAITS, make_worker=Mistaken)
    starting = asyncio.create_task(supervisor.start())
    await until(lambda: len(caplog.records) == 2)
    starting.cancel()
    supervisor.wish_stop()
    assert not await soon(supervisor.stop())
    assert list(tmp_path.iterdir()) == []
    assert {each.message for each in caplog.records} == {"a worker is not restarted, because of a bug in the broker"}


async def test_who_cannot_start_is_told_and_all_end(supervise: Supervise) -> None:
    supervisor = supervise(READS + 'print(\'{"error":"no such certificate"}\', flush=True); sys.exit(1)')
    with pytest.raises(BrokerError, match="no such certificate"):
        await soon(supervisor.start())
    assert not await soon(supervisor.stop())
    assert [each.pid for each in supervisor.states()] == [0, 0]


async def test_a_wish_to_stop_while_they_are_starting_ends_them_in_order(supervise: Supervise) -> None:
    supervisor = supervise(READS + WAITS)
    starting = asyncio.create_task(supervisor.start())
    await until(lambda: len(supervisor.states()) == 2 and all(each.pid for each in supervisor.states()))
    supervisor.wish_stop()
    with pytest.raises(BrokerError):
        await soon(starting)
    assert await soon(supervisor.stop())


async def test_the_second_wish_to_stop_is_passed_on(supervise: Supervise) -> None:
    supervisor = supervise(COUNTS + SAYS_READY + FOR_EVER)
    await soon(supervisor.start())
    supervisor.wish_stop()
    stopping = asyncio.create_task(supervisor.stop())
    supervisor.wish_stop()
    assert await soon(stopping)


async def test_a_worker_that_does_not_end_is_killed(supervise: Supervise, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = supervise(IGNORES + SAYS_READY + FOR_EVER, stop_extra_s=0.1, server__stop_grace_s=0)
    await soon(supervisor.start())
    assert not await soon(supervisor.stop())
    assert [each.state for each in supervisor.states()] == [ENDED, ENDED]
    assert caplog.messages[-1] == "worker 2: ended with -9 when it was told to stop"


HEEDS = """
import os, signal
path = os.environ["HANGUPS"]
signal.signal(signal.SIGHUP, lambda *_: open(path, "a").write("x"))
"""


async def test_on_a_reload_workers_are_told_and_those_that_are_started_again_get_the_new_roles(
    supervise: Supervise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, hangups = tmp_path / "broker.toml", tmp_path / "hangups"
    monkeypatch.setenv("HANGUPS", str(hangups))
    supervisor = supervise(HEEDS + SAYS_READY + WAITS, auth__mode="observe", auth__accept="uid")
    supervisor._sources = Sources(str(file), {}, {})
    await soon(supervisor.start())
    supervisor.reload()  # there is no such file
    auth = '[auth]\nmode = "observe"\naccept = ["uid"]\n'
    file.write_text(auth + '[role.all]\nwho = ["uid:*"]\n')
    supervisor.reload()
    await until(lambda: hangups.exists() and hangups.read_text() == "xx")
    for worker in supervisor._processes:
        told = Assignment.read(io.BytesIO(worker._assignment).read)
        assert told is not None
        assert [(name, role.who) for name, role in told.config.role.items()] == [("all", ("uid:*",))]
    supervisor.reload()  # nothing has changed
    assert hangups.read_text() == "xx"
