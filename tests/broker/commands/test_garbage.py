"""Cycles are looked for rarely, and found all the same."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from broker.commands.process import GROWTH, LOOK_S, Collector
from tests.system.support.shells import FakeLoop


class Knot:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def loop() -> Iterator[FakeLoop]:
    loop = FakeLoop()
    with Collector(loop):
        yield loop
        assert loop.now == 3 * LOOK_S
    assert gc.isenabled()
    assert loop.timers() == []
    assert gc.get_freeze_count() == 0


def test_cycles_are_found_once_there_are_so_many_more_objects(loop: FakeLoop) -> None:
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
