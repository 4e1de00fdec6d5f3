"""An answer that costs much is made once for all who ask at a time, and kept for ten times as long as that took."""

from __future__ import annotations

import asyncio

import pytest

from admin_api.answers.shared import KEEP_S, MAX_KEPT, Shared


class Bench:
    """Answers that take CPU time, on clocks that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 0.0
        self.cost_s = 0.05
        self.made_n = 0
        self.go = asyncio.Event()
        self.go.set()
        self.shared = Shared[int](lambda: self.now, lambda: self.cpu)

    async def make(self) -> int:
        await self.go.wait()
        self.cpu += self.cost_s
        self.made_n += 1
        return self.made_n

    async def get(self, kind: str = "text") -> int:
        return await self.shared.get(kind, self.make)


async def test_who_asks_soon_gets_the_same_and_who_asks_later_a_new_one() -> None:
    bench = Bench()
    answers = [await bench.get()]
    bench.now += 0.49
    answers.append(await bench.get())
    bench.now += 0.02
    assert [*answers, await bench.get()] == [1, 1, 2]


async def test_no_answer_is_older_than_a_second() -> None:
    bench = Bench()
    bench.cost_s = 60.0
    await bench.get()
    bench.now += KEEP_S
    assert await bench.get() == 2


async def test_an_answer_that_costs_nothing_is_made_each_time() -> None:
    bench = Bench()
    bench.cost_s = 0.0
    assert [await bench.get() for _ in range(3)] == [1, 2, 3]


async def test_all_who_ask_at_a_time_share_one_answer_though_one_of_them_goes_away() -> None:
    bench = Bench()
    bench.go.clear()
    asking = [asyncio.create_task(bench.get()) for _ in range(20)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.wait([asking[0]])
    bench.go.set()
    assert await asyncio.gather(*asking[1:]) == [1] * 19
    assert asking[0].cancelled()


async def test_a_failure_is_everybodys_and_the_next_one_tries_again() -> None:
    bench = Bench()

    async def fail() -> int:
        raise RuntimeError("no")

    asking = [asyncio.create_task(bench.shared.get("text", fail)) for _ in range(2)]
    assert [str(error) for error in await asyncio.gather(*asking, return_exceptions=True)] == ["no", "no"]
    assert await bench.get() == 1


async def test_kinds_are_apart_and_bounded() -> None:
    bench = Bench()
    assert [await bench.get(str(number)) for number in range(MAX_KEPT)] == list(range(1, MAX_KEPT + 1))
    assert await bench.get("0") == 1
    await bench.get("one more")
    assert await bench.get("0") == MAX_KEPT + 2


@pytest.mark.parametrize("calls", [1000])
async def test_however_many_ask_it_takes_a_tenth_of_the_time(calls: int) -> None:
    bench = Bench()
    for _ in range(calls):
        before = bench.cpu
        await bench.get()
        bench.now += 0.01 + bench.cpu - before
    assert bench.cpu < 0.11 * (bench.now - 100.0)
