"""broker.commands.gateway_process: a gateway that dies is started again, and ends with its broker."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from broker.commands import gateway_process
from broker.commands.gateway_process import FEED, GatewayProcess
from broker.config.options import Config
from client_sdk.gateways.samwise.assignment import Assignment, assignment_of
from tests.system.support.waits import soon, until

ASSIGNMENT = assignment_of(Config(), ["tcp://b:1"])

# Notes that it was started, and then does what it is told.
BEGIN = "import os, signal, sys, time; open('starts', 'a').write(f'{os.getpid()}\\n'); "
WAITS_FOR_EOF = BEGIN + "sys.stdin.buffer.read(); open('ended', 'w').close()"


class Program:
    """A program in place of the gateway."""

    def __init__(self, folder: Path, text: str) -> None:
        self.process = GatewayProcess(
            "samwise gateway", (sys.executable, "-c", f"import os; os.chdir({str(folder)!r}); {text}"), 0.01
        )
        self._starts = folder / "starts"

    @property
    def pids(self) -> list[int]:
        """Of all that were started."""
        return [int(line) for line in self._starts.read_text().splitlines()] if self._starts.exists() else []


async def test_one_that_dies_is_started_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    program = Program(tmp_path, WAITS_FOR_EOF)
    program.process.start(ASSIGNMENT)
    await until(lambda: len(program.pids) == 1)
    os.kill(program.pids[0], signal.SIGKILL)
    await until(lambda: len(program.pids) == 2)
    assert program.process.restarts == 1
    assert program.process.pid == program.pids[1]
    await soon(program.process.stop())
    assert "ended with -9, is started again in 0.01 s" in caplog.text


async def test_one_that_cannot_live_is_started_ever_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gateway_process, "LAST_PAUSE_S", 0.04)
    program = Program(tmp_path, BEGIN + "sys.exit(1)")
    program.process.start(ASSIGNMENT)
    await until(lambda: len(program.pids) == 5)
    await soon(program.process.stop())
    pauses = [line.rpartition("in ")[2] for line in caplog.text.splitlines() if "is started again" in line]
    assert pauses[:4] == ["0.01 s", "0.02 s", "0.04 s", "0.04 s"]


async def test_one_that_a_caller_has_stopped_is_not_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = Program(tmp_path, BEGIN)
    program.process.start(ASSIGNMENT)
    await until(lambda: "because somebody asked for it" in caplog.text)
    await soon(program.process.stop())
    assert len(program.pids) == 1


async def test_it_is_told_what_to_do(tmp_path: Path) -> None:
    program = Program(tmp_path, BEGIN + f"open('told', 'wb').write(sys.stdin.buffer.read({len(ASSIGNMENT.encode())}))")
    program.process.start(ASSIGNMENT)
    await until(lambda: program.process.pid == 0 and program.pids)
    await soon(program.process.stop())
    with (tmp_path / "told").open("rb") as file:
        assert Assignment.read(file) == ASSIGNMENT


async def test_one_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_process, "STOP_S", 0.1)
    program = Program(tmp_path, "signal = __import__('signal'); signal.signal(15, signal.SIG_IGN); " + WAITS_FOR_EOF)
    program.process.start(ASSIGNMENT)
    await until(lambda: program.pids)
    await soon(program.process.stop())
    with pytest.raises(ProcessLookupError):
        os.kill(program.pids[0], 0)


async def test_the_second_wish_ends_it_at_once(tmp_path: Path) -> None:
    program = Program(tmp_path, "signal = __import__('signal'); signal.signal(15, signal.SIG_IGN); " + WAITS_FOR_EOF)
    program.process.start(ASSIGNMENT)
    await until(lambda: program.pids)
    program.process.wish_stop()
    began_at = time.monotonic()
    stopping = asyncio.create_task(program.process.stop())
    await asyncio.sleep(0)
    program.process.wish_stop()
    await soon(stopping)
    assert time.monotonic() - began_at < gateway_process.STOP_S


async def test_two_wishes_while_it_is_being_started_end_it_at_once(tmp_path: Path) -> None:
    program = Program(tmp_path, WAITS_FOR_EOF)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which it inherits
    try:
        program.process.start(ASSIGNMENT)
        await asyncio.sleep(0)
        program.process.wish_stop()
        program.process.wish_stop()
        began_at = time.monotonic()
        await soon(program.process.stop())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - began_at < gateway_process.STOP_S


async def test_what_cannot_be_started_is_tried_again_until_the_broker_stops(caplog: pytest.LogCaptureFixture) -> None:
    process = GatewayProcess("samwise gateway", ("/no/such/program",), 0.01)
    process.start(ASSIGNMENT)
    await until(lambda: process.restarts == 2)
    await soon(process.stop())
    assert "cannot be started: [Errno 2] No such file or directory" in caplog.text


async def test_one_that_was_never_started_is_stopped() -> None:
    await soon(GatewayProcess("feed", FEED).stop())
