"""What a process sets up for itself: signals until its very end, and an end with who has started it."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.commands import process
from tests.system.support.processes import ROOT

TOLD_BY_A_THREAD = """
    told = asyncio.Event()
    heed_signals(told.set, lambda: None)
    thread = threading.Thread(target=lambda: (released.acquire(), signal.pthread_kill(threading.get_ident(), number)))
    thread.start()
    asyncio.get_running_loop().call_later(0.05, released.release)  # by then the loop sleeps
    async with asyncio.timeout(20):
        await told.wait()
"""
TAKEN_AT_THE_END = """
    heed_signals(lambda: None, lambda: None)
    set_handler = signal.signal
    thread = threading.Thread(target=released.acquire, daemon=True)
    thread.start()

    def set_late(number: int, handler: object) -> None:
        signal.pthread_kill(thread.ident, number)  # the moment before it has its last handler
        time.sleep(0.05)
        set_handler(number, handler)
        signal.pthread_kill(thread.ident, number)

    signal.signal = set_late
"""


def ended_as(body: str, number: str, has_uvloop: bool) -> int:
    """The status of a process that runs it."""
    program = f"""
import asyncio, signal, sys, threading, time

if not {has_uvloop}:
    sys.modules["uvloop"] = None
from broker.commands.process import heed_signals, run

number = signal.{number}
released = threading.Semaphore(0)

async def main() -> int:{body}
    return 7

sys.exit(run(main()))
"""
    return subprocess.run([sys.executable, "-P", "-c", program], timeout=60, check=False, cwd=ROOT).returncode


@pytest.mark.parametrize("path", ["/dev/null", __file__])
async def test_an_input_that_nobody_holds_open_has_ended(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Systems tell nobody when there is more of a file, so that it cannot be waited for."""
    file = os.open(Path(path), os.O_RDONLY)
    try:
        monkeypatch.setattr(process, "STDIN", file)
        stopped = asyncio.Event()
        process.stop_at_eof(stopped.set)
        async with asyncio.timeout(10.0):
            await stopped.wait()
    finally:
        os.close(file)


@pytest.mark.parametrize("has_uvloop", [True, False])
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_that_another_thread_takes_wakes_the_loop(number: str, has_uvloop: bool) -> None:
    assert ended_as(TOLD_BY_A_THREAD, number, has_uvloop) == 7


@pytest.mark.parametrize("has_uvloop", [True, False])
def test_signals_that_another_thread_takes_at_the_end_do_not_change_the_status(has_uvloop: bool) -> None:
    assert ended_as(TAKEN_AT_THE_END, "SIGTERM", has_uvloop) == 7
