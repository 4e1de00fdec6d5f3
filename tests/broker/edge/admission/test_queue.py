"""Whose credentials are verified next: floods and guesses of one address keep no other one waiting."""

from __future__ import annotations

import asyncio

import pytest

from broker.connections.guesses import MAX_SLOWED
from broker.edge.admission import attempts as attempts_module
from broker.edge.admission.attempts import Attempts
from broker.edge.admission.queue import BEGIN_N, HOLD_S, LoginQueue
from broker.edge.admission.verdicts import NotAccepted, Unavailable, Verified
from rsocket_wire.wire.authentication import BEARER, SIMPLE, Credentials
from tests.system.support.shells import FakeLoop

BURST_N = 10  # wrong ones that an address has at once, with one a second
EVIL, GOOD = "10.6.6.6", "10.0.0.4"


class SlowVerifier:
    """Verifies when the test says; "right" is right, "old" was signed by somebody known."""

    def __init__(self, at_once_n: int = 2, max_waiting: int = 256) -> None:
        self.at_once_n = at_once_n
        self.max_waiting = max_waiting
        self.asked: list[Credentials] = []
        self._done: list[asyncio.Future[None]] = []

    @property
    def open_n(self) -> int:
        """That are being verified."""
        return sum(not each.done() for each in self._done)

    async def verify(self, credentials: Credentials) -> Verified:
        self.asked.append(credentials)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done.append(done)
        await done
        if not credentials.secret.startswith("right"):
            raise NotAccepted("wrong", is_guess=credentials.secret != "old")
        return Verified(credentials.name)

    def finish(self) -> None:
        """All that are being verified are."""
        for each in self._done:
            if not each.done():
                each.set_result(None)

    def prepare(self) -> None:
        pass

    def commit(self) -> set[str]:
        return set()

    async def close(self) -> None:
        pass


class Bench:
    """A queue whose clock the test moves."""

    def __init__(self, verifier: SlowVerifier, wrong_per_s: int = 1) -> None:
        self.loop = FakeLoop()
        self.verifier = verifier
        self.attempts = Attempts(wrong_per_s)
        self.queue = LoginQueue(verifier, self.attempts, self.loop)

    def ask(self, origin: str, secret: str = "wrong", name: str = "ada", type: str = SIMPLE) -> asyncio.Task[Verified]:
        task = asyncio.create_task(self.queue.verify(origin, Credentials(type, name, secret)))
        task.add_done_callback(lambda it: it.cancelled() or it.exception())  # which is seen with that
        return task

    async def settle(self) -> None:
        """What can go on without time has gone on."""
        for _ in range(6):
            await asyncio.sleep(0)
            self.loop.turn()

    async def verify_all(self, rounds: int = 1) -> None:
        """So many times: those that are being verified are done, and the next ones have begun."""
        for _ in range(rounds):
            await self.settle()
            self.verifier.finish()
        await self.settle()

    async def wait(self, seconds: float) -> None:
        """Time passes for lines that are held."""
        until = self.loop.now + seconds
        while (timers := self.loop.timers()) and timers[0].at <= until + HOLD_S / 10:
            self.loop.fire()
            await self.settle()
        self.loop.now = max(self.loop.now, until)

    def errors(self, tasks: list[asyncio.Task[Verified]]) -> list[str]:
        return [str(each.exception()) for each in tasks if each.done() and each.exception() is not None]


async def end(*tasks: asyncio.Task[Verified]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_flood_of_wrong_passwords_leaves_another_address_its_turn() -> None:
    """However many wait from there, who comes from elsewhere is verified next but one."""
    bench = Bench(SlowVerifier())
    flood = [bench.ask(EVIL, name=str(number)) for number in range(200)]
    await bench.verify_all()
    good = bench.ask(GOOD, "right")
    await bench.verify_all(rounds=2)
    before = [each.secret for each in bench.verifier.asked].index("right")
    assert (await good, before) == (Verified("ada"), 5), "two were done, two began before it came, one was next"
    await end(*flood)


async def test_addresses_take_turns_however_many_each_has_waiting() -> None:
    bench = Bench(SlowVerifier(at_once_n=1), wrong_per_s=0)
    flood = [bench.ask(EVIL, name="evil") for _ in range(5)]
    others = [bench.ask(f"10.0.0.{number}", "right", f"user-{number}") for number in range(2)]
    await bench.verify_all(rounds=7)
    assert [each.name for each in bench.verifier.asked] == ["evil", "user-0", "user-1", *["evil"] * 4]
    await end(*flood, *others)


async def test_an_address_that_guesses_tries_as_fast_as_its_bucket_allows_and_holds_no_place() -> None:
    bench = Bench(SlowVerifier(at_once_n=64), wrong_per_s=1)
    flood = [bench.ask(EVIL) for _ in range(50)]
    await bench.settle()
    assert bench.verifier.open_n == BURST_N, "all of them could be wrong"
    await bench.verify_all()
    assert (len(bench.verifier.asked), bench.verifier.open_n) == (BURST_N, 0)
    for second in range(1, 4):
        await bench.wait(1.0)
        assert bench.verifier.open_n == 1
        await bench.verify_all()
        assert len(bench.verifier.asked) == BURST_N + second
    good = bench.ask(GOOD, "right")
    await bench.verify_all()
    assert good.done(), "nobody waits for those that are held"
    await end(*flood)
    bench.queue.stop()
    assert bench.loop.timers() == []


async def test_who_was_right_before_does_not_wait_for_others_behind_the_same_address() -> None:
    """As behind a load balancer, where one guesses and all have one address."""
    bench = Bench(SlowVerifier(at_once_n=64), wrong_per_s=1)
    known = [bench.ask(EVIL, "right", "ada"), bench.ask(EVIL, "right-token", "", BEARER)]
    await bench.verify_all()
    flood = [bench.ask(EVIL, name=str(number)) for number in range(50)]
    await bench.verify_all(rounds=2)
    again = [bench.ask(EVIL, "right", "ada"), bench.ask(EVIL, "right-token", "", BEARER)]
    strange = bench.ask(EVIL, "right", "bob")
    await bench.verify_all()
    assert [each.done() for each in (*known, *again, strange)] == [True] * 4 + [False]
    await end(*flood, strange)


async def test_guesses_at_the_name_of_somebody_who_was_right_count_like_others() -> None:
    bench = Bench(SlowVerifier(at_once_n=1), wrong_per_s=1)
    first = bench.ask(EVIL, "right", "ada")
    await bench.verify_all()
    flood = [bench.ask(EVIL, "wrong", "ada") for _ in range(50)]
    await bench.verify_all(rounds=30)
    assert (first.done(), len(bench.verifier.asked)) == (True, 1 + BURST_N)
    await end(*flood)


async def test_what_is_signed_and_does_not_hold_is_no_guess_and_0_slows_nobody() -> None:
    for secret, wrong_per_s in (("old", 1), ("wrong", 0)):
        bench = Bench(SlowVerifier(), wrong_per_s)
        flood = [bench.ask(EVIL, secret, type=BEARER) for _ in range(30)]
        await bench.verify_all(rounds=15)
        assert bench.errors(flood) == ["wrong"] * 30


async def test_places_are_taken_from_whom_most_wait_from() -> None:
    bench = Bench(SlowVerifier(at_once_n=1, max_waiting=8), wrong_per_s=0)
    begun = bench.ask(EVIL)
    await bench.settle()
    flood = [bench.ask(EVIL) for _ in range(8)]
    await bench.settle()
    assert bench.errors(flood) == [], "an address has all places while nobody else wants them"
    more = bench.ask(EVIL)
    await bench.settle()
    assert bench.errors([more]) == ["8 logins wait, 8 of one address"]
    others = [bench.ask(f"10.0.0.{number % 2}", "right", str(number)) for number in range(4)]
    await bench.settle()
    assert bench.errors(flood) == [f"8 logins wait, {most_n} of one address" for most_n in (8, 7, 6, 5)][::-1]
    assert bench.errors(others) == []
    await end(begun, *flood, *others)


async def test_places_of_who_is_held_are_taken_too() -> None:
    bench = Bench(SlowVerifier(at_once_n=64, max_waiting=8), wrong_per_s=1)
    for _ in range(BURST_N):
        bench.attempts.came_wrong(EVIL, b"", 0.0)
    flood = [bench.ask(EVIL) for _ in range(8)]
    await bench.settle()
    good = bench.ask(GOOD, "right")
    await bench.verify_all()
    assert (good.done(), len(bench.errors(flood))) == (True, 1)
    await end(*flood)


async def test_who_gives_up_while_it_waits_or_is_verified_leaves_its_place() -> None:
    bench = Bench(SlowVerifier(at_once_n=1), wrong_per_s=1)
    tasks = [bench.ask(EVIL) for _ in range(3)]
    await bench.settle()
    tasks[1].cancel()
    await bench.settle()
    tasks[0].cancel()
    await bench.settle()
    assert len(bench.verifier.asked) == 2
    bench.ask(GOOD, "right")
    await end(tasks[2])
    await bench.verify_all(rounds=2)
    assert (bench.queue._waiting_n, bench.queue._verified_n, bench.queue._tried) == (0, 0, {})


async def test_who_has_given_up_in_the_same_turn_of_the_loop_is_passed_over() -> None:
    """Its turn is cancelled at once, and its task learns it in the next turn of the loop."""
    bench = Bench(SlowVerifier(at_once_n=1))
    tasks = [bench.ask(origin, "right") for origin in (EVIL, GOOD, "10.0.0.5")]
    await bench.settle()
    bench.verifier.finish()
    while not tasks[0].done():
        await asyncio.sleep(0)
    tasks[1].cancel()
    bench.loop.turn()
    await bench.verify_all(rounds=2)
    assert (tasks[1].cancelled(), tasks[2].result()) == (True, Verified("ada"))
    assert (bench.queue._waiting_n, bench.queue._verified_n, bench.queue._tried) == (0, 0, {})


async def test_many_begin_in_slices_so_that_the_loop_is_not_held() -> None:
    bench = Bench(SlowVerifier(at_once_n=1000, max_waiting=1000), wrong_per_s=0)
    tasks = [bench.ask(f"10.0.{number}.1") for number in range(3 * BEGIN_N)]
    await asyncio.sleep(0)
    for turn in range(1, 4):
        bench.loop.turn()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(bench.verifier.asked) == turn * BEGIN_N
    await end(*tasks)


async def test_what_is_remembered_of_addresses_and_logins_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_module, "MAX_RIGHT", 2)
    attempts = Attempts(1)
    keys = [attempts.key_of(GOOD, Credentials(SIMPLE, name, "x")) for name in ("ada", "bob", "eve")]
    for key in keys:
        attempts.came_right(key)
    assert [attempts.was_right(key) for key in keys] == [False, True, True]
    for number in range(MAX_SLOWED + 1):
        for _ in range(BURST_N):
            attempts.came_wrong(str(number), b"", 0.0)
    assert [attempts.may_try(each, 0, 0.0) for each in ("0", "1", str(MAX_SLOWED))] == [True, False, False]


def test_a_login_is_known_again_by_its_address_and_name_or_token() -> None:
    attempts = Attempts(1)
    same = [Credentials(SIMPLE, "ada", "one"), Credentials(SIMPLE, "ada", "two")]
    other = [Credentials(SIMPLE, "bob", "one"), Credentials(BEARER, "", "ada"), Credentials(BEARER, "", "bob")]
    assert len({attempts.key_of(GOOD, each) for each in same}) == 1
    assert len({attempts.key_of(GOOD, each) for each in [same[0], *other]} | {attempts.key_of(EVIL, same[0])}) == 5


async def test_unavailable_counts_against_nobody() -> None:
    class Away(SlowVerifier):
        async def verify(self, credentials: Credentials) -> Verified:
            raise Unavailable("away")

    bench = Bench(Away())
    tasks = [bench.ask(EVIL) for _ in range(3 * BURST_N)]
    await bench.verify_all(rounds=BURST_N)
    assert bench.errors(tasks) == ["away"] * 3 * BURST_N
