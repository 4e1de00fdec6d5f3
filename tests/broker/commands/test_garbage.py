"""Cycles are looked for rarely, and found all the same."""

import gc
import multiprocessing
import weakref

from broker.commands.process import GROWTH, LOOK_S, Collector
from tests.system.support.shells import FakeLoop


class Knot:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_found_once_there_are_so_many_more_objects() -> None:
    """In a process of its own: beside all tests these are millions of objects, and none of theirs would stay frozen."""
    alone = multiprocessing.get_context("spawn").Process(target=_collect)
    alone.start()
    alone.join()
    assert alone.exitcode == 0


def _collect() -> None:
    loop = FakeLoop()
    with Collector(loop):
        kept_n = gc.get_freeze_count()
        knot = weakref.ref(Knot())
        loop.tick()
        assert knot() is not None
        assert not gc.isenabled()
        more: list[list[int]] = [[] for _ in range(GROWTH * kept_n)]
        loop.tick()
        assert knot() is None
        knot = weakref.ref(Knot())
        loop.tick()
        assert knot() is not None, "there are not so many more again"
        assert len(more) == GROWTH * kept_n
        assert loop.now == 3 * LOOK_S
    assert gc.isenabled()
    assert loop.timers() == []
    assert gc.get_freeze_count() == 0
