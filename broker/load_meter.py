"""The load of this process, once a minute, as an event: what to look at when the broker is slow.

Decides when it is told and measures what the core cannot: the CPU time of the process, and the largest lag of its event
loop in that minute. One of several workers measures its own process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from broker.core import Core

LOAD_S: Final = 60.0  # seconds between two events; a day of them is 1440 rows


class LoadMeter:
    """What the process has done since it was last told."""

    def __init__(self, core: Core, now: float, cpu_clock: Callable[[], float] = time.process_time) -> None:
        """`now` seconds, monotonic. `cpu_clock`: seconds of CPU that the process has taken."""
        self._core: Final = core
        self._cpu_clock: Final = cpu_clock
        self._since = now
        self._cpu_s = cpu_clock()  # at that moment
        self._lag_max_s = 0.0

    def look(self, lag_s: float, now: float) -> None:
        """After a tick of the event loop that came so late: tells the load when it is time."""
        self._lag_max_s = max(self._lag_max_s, lag_s)
        passed_s = now - self._since
        if passed_s < LOAD_S:
            return
        cpu_s = self._cpu_clock()
        cpu_permille = round((cpu_s - self._cpu_s) / passed_s * 1000)
        self._core.tell_load(cpu_permille, int(self._lag_max_s * 1e6), now)
        self._since = now
        self._cpu_s = cpu_s
        self._lag_max_s = 0.0
