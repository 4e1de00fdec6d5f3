"""A gateway as a process: its log, its loop, and when it is to stop.

It stops by a signal, or when the broker that has started it ends: then its standard input does.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

from broker.config.sections.process import LogOptions
from broker.log import setup as setup_log
from client_sdk.clock import find_loop_factory

EXIT_CANNOT_START: Final = 1
STDIN: Final = 0


def run(
    main: Callable[[asyncio.Event], Coroutine[Any, Any, int]], log: LogOptions, *, stops_at_eof: bool = False
) -> int:
    """Runs a gateway to its end; the exit status, which `main` gives. `main` gets what is set when it is to stop.
    `stops_at_eof`: it ends with its standard input, too."""
    setup_log(log.level, log.format)
    with asyncio.Runner(loop_factory=find_loop_factory()) as runner:
        return runner.run(_until_told(main, stops_at_eof))


async def _until_told(main: Callable[[asyncio.Event], Coroutine[Any, Any, int]], stops_at_eof: bool) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if stops_at_eof:
        loop.add_reader(STDIN, _read_on, stop.set)
    return await main(stop)


def _read_on(stop: Callable[[], None]) -> None:
    """What is in it is not looked at."""
    if not os.read(STDIN, 4096):
        asyncio.get_running_loop().remove_reader(STDIN)
        stop()
