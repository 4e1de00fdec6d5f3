"""What a test of the SDK may not leave behind: tasks, sockets, errors that nobody heard of, a full log.

A test that hangs is told with the line that every task waits at, and not only with the one that was cut short.
"""

import asyncio
import functools
import gc
import inspect
import logging
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEST_S = 15.0  # no await of a test here may take longer: nothing hangs is what they are about
SETTLED_S = 2.0  # for sockets that were closed, until the event loop has let go of them
LOUD_LINES = 12  # warnings of one test; one line for each bad connection is right, one for each bad frame is a flood
RECOVERED = "connected again"  # behind a warning, and no complaint
BUG = "bug in the SDK"  # what the log says then
OPEN_FILES = Path("/proc/self/fd")


class Leftovers:
    """From the beginning of a test to its end, in its event loop."""

    def __init__(self, settled_s: float = SETTLED_S) -> None:
        self._settled_s = settled_s
        self._loop = asyncio.get_running_loop()
        self._tasks = asyncio.all_tasks()
        self._sockets = sockets()
        self._unheard: list[str] = []
        self._handler = self._loop.get_exception_handler()
        self._loop.set_exception_handler(self._hear)
        gc.freeze()  # what was there before, the modules of all tests above all, is not looked through

    async def assert_none(self, said: list[logging.LogRecord]) -> None:
        """AssertionError with everything that is left; `said` in the log by the test."""
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - self._tasks - {asyncio.current_task()}
        assert not tasks, f"{len(tasks)} tasks are left:\n{where(tasks)}"
        end_at = self._loop.time() + self._settled_s
        while open_now := sockets() - self._sockets:
            assert self._loop.time() < end_at, f"{len(open_now)} sockets are left open: {sorted(open_now)}"
            await asyncio.sleep(0.005)
        gc.collect()  # futures that nobody looked at say so when they go
        await asyncio.sleep(0)
        self._loop.set_exception_handler(self._handler)
        assert not self._unheard, "\n".join(self._unheard)
        warnings = [record.getMessage() for record in said if record.levelno >= logging.WARNING]
        loud = [text for text in warnings if RECOVERED not in text]
        assert len(loud) <= LOUD_LINES, f"{len(loud)} warnings: {loud[:LOUD_LINES]}"
        bugs = [record.getMessage() for record in said if BUG in record.getMessage()]
        assert not bugs, bugs

    def _hear(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        told = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
        self._unheard.append(f"{context['message']} {told}")


def sockets() -> set[str]:
    """Those that this process has open, as the system names them; empty where it does not."""
    found = set()
    jvm_port = callback_port()
    for each in OPEN_FILES.iterdir() if OPEN_FILES.is_dir() else ():
        try:
            target = os.readlink(each)
            if target.startswith("socket:") and not (jvm_port and port_of(int(each.name)) == jvm_port):
                found.add(target)
        except OSError:
            continue  # it was the folder that we look through, or is closed
    return found


def callback_port() -> int:
    """Where the JVM of Spark tests in this process connects, also when it collects garbage: at any time; 0: no JVM."""
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark is not None else None
    server = gateway.get_callback_server() if gateway is not None else None
    return int(server.get_listening_port()) if server is not None else 0


def port_of(number: int) -> int:
    """The local port of an open socket, by its file descriptor; 0: it has none."""
    with socket.socket(fileno=os.dup(number)) as same:
        name = same.getsockname()
    return int(name[1]) if isinstance(name, tuple) else 0


def where(tasks: set[asyncio.Task[Any]]) -> str:
    """The line that each task waits at."""
    lines = []
    for task in tasks:
        frames = task.get_stack(limit=8)
        at = " < ".join(f"{Path(f.f_code.co_filename).name}:{f.f_lineno} {f.f_code.co_name}" for f in reversed(frames))
        lines.append(f"  {task.get_name()}: {at or task.get_coro()}")
    return "\n".join(lines)


def is_below(folder: Path, item: Any) -> bool:
    """The test stands in this folder or below it."""
    return str(item.path).startswith(f"{folder}{os.sep}")


def bound_tests_below(folder: Path, items: list[Any]) -> None:
    """Gives the asynchronous tests in this folder and those below it TEST_S at most."""
    for item in items:
        if is_below(folder, item) and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.obj = _bounded(item.obj)


def _bounded(test: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        waits: list[str] = []
        loop = asyncio.get_running_loop()
        look = loop.call_later(TEST_S - 0.1, lambda: waits.append(where(asyncio.all_tasks())))
        try:
            async with asyncio.timeout(TEST_S) as bound:
                await test(*args, **kwargs)
        except TimeoutError:
            if not bound.expired():
                raise
            raise AssertionError(f"after {TEST_S:g} s these still wait:\n{''.join(waits)}") from None
        finally:
            look.cancel()

    return run
