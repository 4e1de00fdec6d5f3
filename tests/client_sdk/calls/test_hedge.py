"""A second request where the first is late: the first answer counts, the loser is cancelled."""

import asyncio
import math
from typing import Any

import pytest

from client_sdk import Client, Hedging, NoRoute, RetryBudget, address, connect
from client_sdk.calls.hedge import KEPT_N, LEAST_N, MAX_KINDS, hedged
from tests.client_sdk.clocks import FakeClock, rest
from tests.client_sdk.fake_broker import FakeBroker


class Asked:
    """What was asked: each request is a future that the test answers."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[str]] = []

    async def __call__(self) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return await answer


class Race:
    """A hedged call with a second request after one second, if the budget allows it."""

    def __init__(self, retries_n: int = 1) -> None:
        self.clock = FakeClock()
        self.asked = Asked()
        budget = RetryBudget(ratio=0, min_per_s=retries_n / 10)
        self.call = asyncio.ensure_future(hedged(self.asked, 1.0, budget, self.clock))

    async def late(self) -> "Race":
        await rest()
        await self.clock.turn(1.0)
        return self


async def test_a_quick_answer_asks_once() -> None:
    race = Race()
    await rest()
    await race.clock.turn(0.9)
    race.asked.answers[0].set_result("quick")
    assert await race.call == "quick"
    assert len(race.asked.answers) == 1


@pytest.mark.parametrize("winner", [0, 1])
async def test_a_late_answer_asks_once_more_and_the_loser_is_cancelled(winner: int) -> None:
    race = await Race().late()
    race.asked.answers[winner].set_result("first of two")
    assert await race.call == "first of two"
    assert [answer.cancelled() for answer in race.asked.answers] == [winner == 1, winner == 0]


async def test_without_a_budget_nobody_asks_twice() -> None:
    race = await Race(retries_n=0).late()
    assert len(race.asked.answers) == 1
    race.asked.answers[0].set_result("late")
    assert await race.call == "late"


async def test_an_error_of_one_waits_for_the_other() -> None:
    race = await Race().late()
    first, second = race.asked.answers
    first.set_exception(NoRoute("first"))
    await rest()
    second.set_result("second")
    assert await race.call == "second"


async def test_two_errors_are_the_firsts() -> None:
    race = await Race().late()
    first, second = race.asked.answers
    second.set_exception(NoRoute("second"))
    await rest()
    first.set_exception(NoRoute("first"))
    with pytest.raises(NoRoute, match="first"):
        await race.call


async def test_an_error_before_the_time_is_an_error() -> None:
    race = Race()
    await rest()
    race.asked.answers[0].set_exception(NoRoute("at once"))
    with pytest.raises(NoRoute, match="at once"):
        await race.call


async def test_whoever_cancels_cancels_both() -> None:
    race = await Race().late()
    race.call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await race.call
    assert [answer.cancelled() for answer in race.asked.answers] == [True, True]


def test_what_is_late_is_learnt_of_each_kind_of_call() -> None:
    hedging = Hedging(quantile=0.9)
    for number in range(LEAST_N - 1):
        hedging.note("a", number / 1000)
    assert hedging.delay_s("a") is None  # too few
    hedging.note("a", 0.019)
    assert hedging.delay_s("a") == 0.018
    assert hedging.delay_s("b") is None


def test_old_latencies_are_forgotten() -> None:
    hedging = Hedging(quantile=0.5)
    for _ in range(KEPT_N):
        hedging.note("a", 5.0)
    for _ in range(KEPT_N):
        hedging.note("a", 0.1)
    assert hedging.delay_s("a") == 0.1


def test_no_more_kinds_are_kept_than_it_may() -> None:
    hedging = Hedging()
    for kind in range(MAX_KINDS):
        for _ in range(LEAST_N):
            hedging.note(kind, 1.0)
    assert hedging.delay_s(0) == 1.0
    hedging.note(MAX_KINDS, 1.0)
    assert [hedging.delay_s(kind) for kind in (0, MAX_KINDS)] == [None, None]


def test_a_fixed_time_learns_nothing() -> None:
    hedging = Hedging(after_s=0.05)
    for _ in range(KEPT_N):
        hedging.note("a", 5.0)
    assert hedging.delay_s("a") == 0.05


@pytest.mark.parametrize("arguments", [{"after_s": 0}, {"after_s": math.nan}, {"quantile": 0}, {"quantile": 1}])
def test_times_that_make_no_sense_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Hedging(**arguments)  # type: ignore[arg-type]


async def ask(client: Client, **options: Any) -> None:
    """Nobody answers, and that does not matter."""
    with pytest.raises(NoRoute):
        await client.request_response(address("x"), **options)


async def test_hedging_that_no_call_can_use_is_told_once(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    said = [
        "hedging= has no effect on a request/response without idempotent=True; give that to calls that may happen twice"
    ]
    hedging = Hedging(after_s=5)
    async with connect(broker.url, hedging=hedging) as client:
        for calls_n in range(LEAST_N + 1):
            assert [record.getMessage() for record in caplog.records] == (said if calls_n == LEAST_N else [])
            await ask(client)
        assert caplog.messages == said

        caplog.clear()
        for _ in range(2):
            await ask(client, hedging=(own := Hedging(after_s=5)))
            await ask(client, hedging=own)
        assert caplog.messages == 2 * said

        caplog.clear()
        used = Hedging(after_s=5)
        await ask(client, hedging=used, idempotent=True)
        await ask(client, hedging=used)
        assert caplog.messages == []
