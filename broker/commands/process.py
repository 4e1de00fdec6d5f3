"""What a process that runs a broker sets up for itself: its loop, its signals, its file descriptors, its memory."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, Final

from broker.commands.hangup import HANGUP
from broker.core import COMPILED
from broker.edge.descriptors import DESCRIPTORS
from broker.edge.link import Loop

LARGE_BLOCK_BYTES: Final = 1 << 20  # of memory that the system gets back at once
STDIN: Final = 0
LOOK_S: Final = 60.0  # between two counts of the objects
GROWTH: Final = 2  # times as many objects as were left by the last collection: then there is another
STOPS: Final = (signal.SIGTERM, signal.SIGINT)
_M_MMAP_THRESHOLD: Final = -3  # of mallopt(3)
_log: Final = logging.getLogger("broker")


class Collector:
    """Collects when there are twice as many objects as after the last collection, and counts them once a minute.

    Python itself collects after so many more objects were made than freed, whatever they are. Those of a broker leave
    no cycles: neither connections nor requests nor calls of the REST API. With ever new addresses, where each new
    object takes the place of an old one, Python found nothing in 20 to 200 ms at once, a fifth of the CPU time;
    without its looks the 99th percentile of others' requests is 2 to 3 ms instead of 60. What leaves cycles all the
    same is found here, late.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._kept_n = 0  # objects that the last collection left

    def __enter__(self) -> None:
        """When all has started: what that made stays for ever."""
        gc.disable()
        self._collect()
        self._timer = self._loop.call_at(self._loop.time() + LOOK_S, self._look)

    def __exit__(self, *_: object) -> None:
        """Leaves it to Python again."""
        if self._timer is not None:
            self._timer.cancel()
        gc.unfreeze()
        gc.enable()

    def _look(self) -> None:
        gc.freeze()  # the frozen are counted without a list of them
        if gc.get_freeze_count() > GROWTH * self._kept_n:
            self._collect()
        self._timer = self._loop.call_at(self._loop.time() + LOOK_S, self._look)

    def _collect(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._kept_n = gc.get_freeze_count()


def run(main: Coroutine[Any, Any, int]) -> int:
    """Runs it to its end, on uvloop where there is one; its result. A later signal does not change it."""
    main = _to_its_end(main)
    try:
        import uvloop  # optional: not on every system
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def heed_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    """SIGTERM and SIGINT call `stop`; SIGHUP, which would end the process at once, calls `reload`.

    A terminal that was closed sends it, too. One that came before means nothing: no file was read yet.
    """
    # Not the loop's handlers: the loop puts the default back when it forgets one, also when it is closed, and until the
    # next line of ours any thread may get the signal that ends the process. These are exchanged in one step.
    loop = asyncio.get_running_loop()
    for number in STOPS:
        signal.signal(number, _caller_of(loop, stop))
    if HANGUP is not None:
        signal.signal(HANGUP, _caller_of(loop, reload))
    # Python's handlers run in this thread, which may sleep in the loop while another one takes the signal: a loop that
    # has a handler is woken by all signals. This one is nobody's, and by default it does nothing.
    loop.add_signal_handler(signal.SIGURG, _do_nothing)


def stop_at_eof(stop: Callable[[], None]) -> None:
    """Calls `stop` when standard input ends: who has started the process is gone. What is in it is not looked at."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(STDIN, _read_on, stop)
    except PermissionError:  # /dev/null or a file, which nobody holds open and which ends at once
        loop.call_soon(stop)


def prepare() -> None:
    """Before a broker starts: takes descriptors, and has the C library give back large blocks once they are free.

    Else glibc raises its threshold to the largest block that it has seen, and what a slow peer had waiting stays with
    the process: 18 MB after 20 peers with 10 MB each, one after another, and with this nothing.
    """
    take_descriptors()
    with contextlib.suppress(OSError, AttributeError):  # where it knows how
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def take_descriptors() -> None:
    """Each connection needs a file descriptor; systems give few until they are asked for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def say_shortage(max_connections: int) -> None:
    """One line when the system gives fewer descriptors than that."""
    DESCRIPTORS.measure()
    shortage = DESCRIPTORS.shortage(max_connections)
    if shortage:
        _log.warning("broker: %s", shortage)


def say_core() -> None:
    """One line when the core is interpreted, which nobody wants who measures or pays for CPU time."""
    if not COMPILED:
        _log.info(
            "broker: the core is interpreted and needs five to seven times the CPU for each request; with a C compiler,"
            " and without RSOCKET_BROKER_PURE, `pip install` compiles it"
        )


async def _to_its_end(main: Coroutine[Any, Any, int]) -> int:
    try:
        return await main
    finally:  # Python needs some time more
        ignored = STOPS if HANGUP is None else (*STOPS, HANGUP)
        signal.pthread_sigmask(signal.SIG_BLOCK, ignored)  # one of between now and the next lines calls nothing
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def _caller_of(loop: asyncio.AbstractEventLoop, told: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
    """A handler of Python that has the loop call `told`."""

    def heed(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(told)

    return heed


def _do_nothing() -> None:
    pass


def _read_on(stop: Callable[[], None]) -> None:
    if not os.read(STDIN, 4096):
        asyncio.get_running_loop().remove_reader(STDIN)
        stop()
