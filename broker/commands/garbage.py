"""When Python looks for cycles of objects that nobody needs any more."""

from __future__ import annotations

import asyncio
import gc
from typing import Final

from broker.edge.link import Loop

LOOK_S: Final = 60.0  # between two counts of the objects
GROWTH: Final = 2  # times as many objects as were left by the last collection: then there is another


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
