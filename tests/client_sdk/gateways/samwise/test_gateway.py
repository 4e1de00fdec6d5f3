import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.events import DEAD, DELIVERED, MessageRecord
from client_sdk.gateways.samwise.backends.backend import ANY, NotDelivered
from client_sdk.gateways.samwise.delivery import WINDOW_N, Retry
from client_sdk.gateways.samwise.gateway import MAX_REASON, MAX_UNWRITTEN, QUIET_S, Gateway
from client_sdk.gateways.samwise.store import OS, Store
from client_sdk.gateways.samwise.tables import StoreError
from client_sdk.gateways.samwise.values import (
    DECLARE,
    HEADER_PAIRS,
    RESTART,
    STOP,
    Control,
    Message,
    Ping,
    Reply,
    Rpc,
    Status,
)
from tests.client_sdk.clocks import FakeClock, rest
from tests.client_sdk.gateways.samwise.asking import handled
from tests.client_sdk.gateways.samwise.fake_backend import FakeBackend
from tests.client_sdk.gateways.samwise.messages import publish
from tests.system.support.waits import until

OK = Reply(True)
ROOT = Path(__file__).parents[4]
# Eight callers at a gateway whose destinations write down what they get; says what was answered with 0.
PUBLISHER = """
import asyncio, os, sys
from pathlib import Path
from client_sdk.gateways.samwise.gateway import Gateway
from client_sdk.gateways.samwise.store import Store
from tests.client_sdk.gateways.samwise.asking import handled
from tests.client_sdk.gateways.samwise.fake_backend import FakeBackend
from tests.client_sdk.gateways.samwise.messages import publish

arrived = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

class Writing(FakeBackend):
    async def deliver(self, message, to):
        await asyncio.sleep(0.005)
        os.write(arrived, message.publish.payload + b"\\n")
        return to

async def caller(gateway, name):
    for n in range(1_000_000):
        payload = b"%d-%s-%d" % (os.getpid(), name, n)
        assert (await handled(gateway, publish(payload, acks_n=1 + n % 2))).is_ok
        os.write(1, payload + b"\\n")

async def main():
    gateway = Gateway(Store(Path(sys.argv[1])), Writing("a", "b"))
    await gateway.start()
    await asyncio.gather(*(caller(gateway, b"%d" % n) for n in range(8)))

asyncio.run(main())
"""


class Recorded(list[MessageRecord]):
    """Records of which none is lost, unless a test says so."""

    dropped_n = 0


class Running:
    """A gateway on a clock that the test turns."""

    def __init__(self, path: Path, backend: FakeBackend, *, strict_redundancy: bool = False) -> None:
        self.backend = backend
        self.clock = FakeClock()
        self.records = Recorded()
        self.gateway = Gateway(
            Store(path / "store", durability=OS),
            backend,
            retry=Retry(tries=2, interval_s=5, threshold_s=10),
            strict_redundancy=strict_redundancy,
            records=self.records,
            gather_s=0.0,
            clock=self.clock,
        )

    async def put(self, *payloads: bytes, acks_n: int = 1, exchange: str = "orders") -> None:
        asked = (handled(self.gateway, publish(each, acks_n=acks_n, exchange=exchange)) for each in payloads)
        assert await asyncio.gather(*asked) == [OK] * len(payloads)

    async def turn_until(self, is_true: Callable[[], object]) -> None:
        """Time passes until the condition holds."""

        async def turn() -> None:
            while not is_true():
                await self.clock.turn(1)
                await asyncio.sleep(0.001)  # the store's thread

        async with asyncio.timeout(10):
            await turn()

    async def seconds_until(self, is_true: Callable[[], object]) -> float:
        begin_at = self.clock.at
        await self.turn_until(is_true)
        return self.clock.at - begin_at

    def waiting_n(self) -> int:
        return self.gateway.state().waiting


Run = Callable[..., Awaitable[Running]]


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    started: list[Running] = []

    async def start(backend: FakeBackend, *, strict_redundancy: bool = False) -> Running:
        running = Running(tmp_path, backend, strict_redundancy=strict_redundancy)
        await running.gateway.start()
        started.append(running)
        return running

    yield start
    for each in started:
        await each.gateway.stop(0)


async def test_what_is_published_is_delivered_and_counted(run: Run) -> None:
    running = await run(FakeBackend("a", "b"))
    await running.put(b"1", b"2", b"3")
    await until(lambda: running.waiting_n() == 0)
    running.records.dropped_n = 7
    assert running.backend.delivered == [(b"1", "a"), (b"2", "b"), (b"3", "a")]
    state = running.gateway.state()
    assert (state.accepted, state.delivered, state.died, state.under_way) == (3, 3, 0, 0)
    assert state.events_dropped == 7
    assert [(each.name, each.acknowledged, each.retried, each.failed) for each in state.destinations] == [
        ("a", 2, 0, 0),
        ("b", 1, 0, 0),
    ]
    assert state.refused == {}
    assert state.oldest_age_s is None


async def test_it_is_told_which_message_reached_whom_after_how_long(run: Run) -> None:
    running = await run(FakeBackend("a"))
    running.backend.acknowledges = False
    await running.put(b"1")
    await until(lambda: running.backend.answers)
    running.clock.at += 1.5
    running.backend.answers[1, "a"].set_result(None)
    await until(lambda: running.records)
    (record,) = running.records
    assert record == MessageRecord(
        seq=0,
        at_ms=record.accepted_at_ms + 1500,
        message_id=running.backend.messages[0].uid,
        exchange="orders",
        routing_key="key",
        destination="a",
        outcome=DELIVERED,
        reason="",
        accepted_at_ms=running.backend.messages[0].stored_at_ms,
        after_ms=1500,
        tries=1,
    )


async def test_a_redundant_message_tells_each_acknowledgement_and_what_was_tried(run: Run) -> None:
    running = await run(FakeBackend("a", "b"))
    running.backend.acknowledges = False
    await running.put(b"1", acks_n=2)
    await until(lambda: len(running.backend.answers) == 2)
    running.backend.answers[1, "a"].set_result(None)
    running.backend.answers[1, "b"].set_exception(NotDelivered("busy"))
    running.backend.acknowledges = True
    await running.turn_until(lambda: running.gateway.state().delivered == 1)
    assert [(each.destination, each.outcome, each.tries) for each in running.records] == [
        ("a", DELIVERED, 1),
        ("b", DELIVERED, 2),
    ]


async def test_the_answer_comes_when_it_is_on_disk_and_before_it_is_delivered(run: Run) -> None:
    running = await run(FakeBackend())
    await running.put(b"1")
    assert running.waiting_n() == 1
    assert running.backend.delivered == []


async def test_order_is_kept_however_many_wait(run: Run) -> None:
    running = await run(FakeBackend())
    payloads = [b"%d" % i for i in range(WINDOW_N + 500)]
    await running.put(*payloads)
    running.backend.set_up("a")
    await running.put(b"last")
    await until(lambda: running.waiting_n() == 0)
    assert running.backend.delivered == [(each, "a") for each in [*payloads, b"last"]]


async def test_memory_holds_a_window_of_what_waits(run: Run) -> None:
    running = await run(FakeBackend())
    await running.put(*[b"x"] * (WINDOW_N + 500))
    assert len(running.gateway.delivery._entries) == WINDOW_N


async def test_what_the_backend_could_never_take_is_refused_and_not_stored(run: Run) -> None:
    running = await run(FakeBackend("a"))
    assert await handled(running.gateway, replace(publish(), immediate=True)) == Reply(False, "immediate is not there")
    assert running.gateway.state().refused == {"backend": 1}
    assert running.gateway.state().accepted == running.waiting_n() == 0


async def test_mandatory_is_refused_where_nobody_is_there(run: Run) -> None:
    running = await run(FakeBackend())
    mandatory = replace(publish(), mandatory=True)
    assert await handled(running.gateway, mandatory) == Reply(False, "nobody is there")
    running.backend.set_up("a")
    assert await handled(running.gateway, mandatory) == OK


async def test_strict_redundancy_refuses_what_is_kept_otherwise(run: Run) -> None:
    running = await run(FakeBackend("a", "b"), strict_redundancy=True)
    text = "redundant: 3 acknowledgements wanted, 2 destinations are there"
    assert await handled(running.gateway, publish(acks_n=3)) == Reply(False, text)
    assert await handled(running.gateway, publish(acks_n=2)) == OK


async def test_redundant_waits_for_the_third_and_asks_nobody_twice(run: Run) -> None:
    running = await run(FakeBackend("a", "b"))
    await running.put(b"1", acks_n=3)
    await until(lambda: len(running.records) == 2)
    running.backend.set_up("a", "b", "c")
    await until(lambda: running.waiting_n() == 0)
    assert running.backend.delivered == [(b"1", "a"), (b"1", "b"), (b"1", "c")]


async def test_ping_rpc_and_status_are_answered(run: Run) -> None:
    running = await run(FakeBackend("a"))
    declare = Rpc(version=110, broker="", action=DECLARE, name="orders", type="direct")
    assert await handled(running.gateway, Ping(100)) == OK
    assert await handled(running.gateway, declare) == OK
    assert running.backend.rpcs == [declare]
    assert await handled(running.gateway, replace(declare, name="bad")) == Reply(False, "406: type")
    await handled(running.gateway, replace(publish(), quirks=(HEADER_PAIRS,)))
    await until(lambda: running.waiting_n() == 0)
    assert await handled(running.gateway, Status(120)) == Reply(
        True,
        "callers: 0 connected, 0 turned away, 0 requests wait\n"
        "accepted: 1\n"
        "refused (backend): 1\n"
        "accepted (header-pairs): 1\n"
        "delivered: 1\n"
        "waiting: 0 messages, 0 bytes\n"
        "under way: 0 deliveries\n"
        "dead letters: 0 messages, 0 bytes\n"
        "destination a: up, since today, 0 wait for it\n"
        "deliveries to a: 1 acknowledged, 0 retried, 0 failed",
    )


async def test_ping_is_answered_whatever_is_stored_and_whoever_is_down(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", max_messages=1)
    gateway = Gateway(store, FakeBackend())
    await gateway.start()
    full = Reply(False, "buffer full: 1 messages are stored, no more may be (max_messages)")
    assert await asyncio.gather(*(handled(gateway, publish()) for _ in range(3))) == [OK, full, full]
    assert await handled(gateway, Ping(100)) == OK
    assert gateway.state().refused == {"full": 2}
    await gateway.stop(0)


async def test_the_first_stop_or_restart_is_told_to_the_command(run: Run) -> None:
    running = await run(FakeBackend())
    assert await handled(running.gateway, Control(120, RESTART)) == OK
    assert await handled(running.gateway, Control(120, STOP)) == OK
    assert await running.gateway.asked() == RESTART


async def test_an_error_that_nobody_foresaw_is_answered_without_its_text(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    running = await run(FakeBackend())
    rpc = Rpc(version=110, broker="", action=DECLARE, name="worse", type="direct")
    assert await handled(running.gateway, rpc) == Reply(False, "internal error: see the log of the gateway")
    assert running.gateway.state().refused == {"internal": 1}
    assert "secret" in caplog.text


async def test_what_failed_is_tried_after_the_interval_then_dead_then_requeued(run: Run) -> None:
    running = await run(FakeBackend("a"))
    running.backend.failure = NotDelivered("no such exchange")
    await running.put(b"1")
    await until(lambda: running.gateway.counters.failed == {"a": 1})
    while not (waiting := (await running.gateway.list_waiting(0, 10))[0]).reason:  # it is written in the next round
        pass
    assert (waiting.reason, waiting.message.tries_n) == ("no such exchange", 1)
    assert await running.seconds_until(lambda: len(running.backend.delivered) == 2) >= 5
    await until(lambda: running.gateway.state().dead == 1)
    state = running.gateway.state()
    (destination,) = state.destinations
    assert (state.died, destination.retried, destination.failed) == (1, 1, 2)
    (dead,) = running.records
    assert (dead.destination, dead.outcome, dead.reason, dead.tries) == ("", DEAD, "no such exchange", 2)
    (letter,) = await running.gateway.list_dead(0, 10)
    assert (letter.message.uid, letter.reason) == (dead.message_id, "no such exchange")
    running.backend.failure = None
    assert await running.gateway.requeue([letter.message.id, 77]) == 1
    await until(lambda: running.gateway.state().delivered == 1)
    assert await running.gateway.list_dead(0, 10) == []


async def test_what_is_hopeless_is_dead_at_once(run: Run) -> None:
    running = await run(FakeBackend("a"))
    running.backend.failure = NotDelivered("too large" * 100, is_hopeless=True)
    await running.put(b"1")
    await until(lambda: running.gateway.state().dead == 1)
    assert len(running.backend.delivered) == 1
    assert [len(each.reason) for each in running.records] == [MAX_REASON]


async def test_removed_messages_are_not_delivered(run: Run) -> None:
    running = await run(FakeBackend())
    await running.put(b"1", b"2")
    assert await running.gateway.remove([1, 99]) == 1
    running.backend.set_up("a")
    await until(lambda: running.waiting_n() == 0)
    assert running.backend.delivered == [(b"2", "a")]


async def test_an_acknowledgement_that_does_not_come_ends_the_delivery_after_the_threshold(run: Run) -> None:
    running = await run(FakeBackend("a", "b"))
    running.backend.acknowledges = False
    await running.put(b"1")
    await until(lambda: (1, "a") in running.backend.answers)
    assert await running.seconds_until(lambda: running.backend.cancelled) >= 10
    await until(lambda: (1, "b") in running.backend.answers)
    (waiting,) = await running.gateway.list_waiting(0, 10)
    running.backend.answers[1, "b"].set_result(None)
    await until(lambda: running.waiting_n() == 0)
    assert running.gateway.counters.failed == {"a": 1}
    assert waiting.message.id == 1


async def test_an_exchange_without_service_does_not_hold_up_others(run: Run) -> None:
    class Services(FakeBackend):
        async def destinations(self, message: Message) -> list[str]:
            return [ANY] if message.publish.exchange in self.up else []

    running = await run(Services("there", is_fixed=False))
    await running.put(b"1", b"2", b"3", exchange="away")
    await running.put(b"4", exchange="there")
    await until(lambda: running.gateway.counters.acknowledged == {"there": 1})
    running.backend.set_up("there", "away")
    await until(lambda: running.waiting_n() == 0)
    assert [payload for payload, _ in running.backend.delivered] == [b"4", b"1", b"2", b"3"]


async def test_stop_waits_for_acknowledgements_under_way(run: Run) -> None:
    running = await run(FakeBackend("a"))
    running.backend.acknowledges = False
    await running.put(b"1")
    await until(lambda: running.backend.answers)
    stopping = asyncio.ensure_future(running.gateway.stop(30))
    await rest()
    assert await handled(running.gateway, publish()) == Reply(False, "stopping: the gateway stops")
    running.backend.answers[1, "a"].set_result(None)
    await stopping
    assert running.backend.is_closed
    again = await run(FakeBackend())
    assert again.waiting_n() == 0


async def test_what_was_not_acknowledged_is_delivered_after_the_next_start_without_a_try_used_up(run: Run) -> None:
    running = await run(FakeBackend("a"))
    running.backend.acknowledges = False
    await running.put(b"1", b"2")
    await until(lambda: len(running.backend.answers) == 2)
    await running.gateway.stop(0)
    assert running.backend.cancelled == [(1, "a"), (2, "a")]
    assert running.gateway.counters.failed == {}
    again = await run(FakeBackend())
    assert [letter.message.tries_n for letter in await again.gateway.list_waiting(0, 10)] == [0, 0]
    again.backend.set_up("b")
    await until(lambda: again.waiting_n() == 0)
    assert again.backend.delivered == [(b"1", "b"), (b"2", "b")]


async def test_a_store_in_use_is_told_and_the_backend_is_not_started(run: Run, tmp_path: Path) -> None:
    await run(FakeBackend())
    second = Running(tmp_path, FakeBackend())
    with pytest.raises(StoreError, match="another gateway uses it"):
        await second.gateway.start()


async def test_a_backend_that_cannot_start_leaves_the_store_to_others(run: Run, tmp_path: Path) -> None:
    class Broken(FakeBackend):
        async def start(self, on_change: Callable[[], None]) -> None:
            raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await Running(tmp_path, Broken()).gateway.start()
    await run(FakeBackend())


async def test_reading_goes_on_when_the_disk_gives_messages_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await run(FakeBackend())
    store = running.gateway.store
    read_new, errors_n = store.read_new, 0

    async def broken(after_id: int, max_n: int) -> tuple[list[Message], int]:
        nonlocal errors_n
        errors_n += 1
        raise StoreError("disk I/O error")

    monkeypatch.setattr(store, "read_new", broken)
    await running.put(*[b"x"] * (WINDOW_N + 1))
    running.backend.set_up("a")
    await running.turn_until(lambda: errors_n > 1)
    monkeypatch.setattr(store, "read_new", read_new)
    await running.turn_until(lambda: running.waiting_n() == 0)
    assert len(running.backend.delivered) == WINDOW_N + 1


async def test_messages_that_are_due_are_not_given_up_for_the_disk(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await run(FakeBackend("a"))
    running.backend.failure = NotDelivered("no")
    await running.put(b"1")
    await until(lambda: running.gateway.counters.failed == {"a": 1})
    take_due, errors_n = running.gateway.store.take_due, 0

    async def broken(now_ms: int, max_n: int) -> tuple[list[Message], int | None]:
        nonlocal errors_n
        errors_n += 1
        raise StoreError("disk I/O error")

    monkeypatch.setattr(running.gateway.store, "take_due", broken)
    await running.turn_until(lambda: errors_n > 1)
    running.backend.failure = None
    monkeypatch.setattr(running.gateway.store, "take_due", take_due)
    await running.turn_until(lambda: running.waiting_n() == 0)


async def test_a_backend_that_does_not_say_where_to_is_asked_again(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeBackend):
        is_broken = True

        async def destinations(self, message: Message) -> tuple[str, ...]:
            if self.is_broken:
                raise KeyError("bug")
            return tuple(self.up)

    backend = Broken("a")
    running = await run(backend)
    await running.put(b"1")
    await until(lambda: "KeyError" in caplog.text)
    backend.is_broken = False
    assert await running.seconds_until(lambda: backend.delivered) >= 5


async def test_a_crash_in_a_delivery_is_a_failure_of_it(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    running = await run(FakeBackend("a", "b"))
    running.backend.failure = ZeroDivisionError("secret")
    await running.put(b"1")
    await until(lambda: running.gateway.state().dead == 1)
    (letter,) = await running.gateway.list_dead(0, 1)
    assert letter.reason == "ZeroDivisionError"


async def test_deliveries_wait_where_their_ends_do_not_come_to_the_disk(run: Run) -> None:
    running = await run(FakeBackend())
    await running.put(b"1", b"2")
    running.gateway.store.unwritten_n += MAX_UNWRITTEN
    running.backend.set_up("a")
    await running.turn_until(lambda: running.clock.at > 1010)
    assert running.backend.delivered == []
    running.gateway.store.unwritten_n -= MAX_UNWRITTEN
    await running.turn_until(lambda: running.waiting_n() == 0)


async def test_kill_9_loses_nothing_that_was_answered(run: Run, tmp_path: Path) -> None:
    answered: list[bytes] = []
    for _ in range(3):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PUBLISHER, str(tmp_path / "store"), str(tmp_path / "arrived"),
            stdout=PIPE, cwd=ROOT,
        )  # fmt: skip
        assert process.stdout is not None
        answered += [await process.stdout.readline() for _ in range(300)]
        process.kill()
        answered += [line async for line in process.stdout if line.endswith(b"\n")]
        await process.wait()
    running = await run(FakeBackend("a", "b"))
    await until(lambda: running.waiting_n() == 0)
    arrived = (tmp_path / "arrived").read_bytes().splitlines()
    arrived += [payload for payload, _ in running.backend.delivered]
    assert {line.strip() for line in answered} - set(arrived) == set()
    assert len(answered) >= 900


async def test_the_log_tells_of_dead_letters_once_a_minute(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    running = await run(FakeBackend("a"))
    running.backend.failure = NotDelivered("full\nof\x1b it", is_hopeless=True)
    await running.put(b"1", exchange="or\nders")
    await until(lambda: running.gateway.state().died == 1)
    await running.put(b"1", b"1")
    await until(lambda: running.gateway.state().died == 3)
    await running.clock.turn(QUIET_S)
    await running.put(b"1")
    await until(lambda: running.gateway.state().died == 4)
    assert [record.getMessage() for record in caplog.records if "dead" in record.getMessage()] == [
        r"samwise gateway: new dead letters: 1, the last one to or\nders: full\nof\x1b it",
        r"samwise gateway: new dead letters: 3, the last one to orders: full\nof\x1b it",
    ]
