"""broker.limited_log: a few lines of a kind for each address and second, and a number in place of the others (D-67)."""

import logging
from collections.abc import Iterator

import pytest

from broker import limited_log
from broker.edge.origins import address_in
from broker.events import ANNOTATIONS_REFUSED, PEER_CLOSED, PEER_CONNECTED, ROUTE_EJECTED, ROUTE_JOINED, LifecycleEvent
from broker.limited_log import LINES_PER_S, MAX_ADDRESSES, MAX_LINES_PER_S, NUMBERS_PER_S, OTHERS, LimitedLog
from broker.log import OF_STRANGERS, level_of, line_kind
from tests.system.support.waits import until

KIND = "PeerClosed (bad-frame)"


class Bench:
    """A limited log whose clock the test moves, and what it has written."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[tuple[int, str]] = []
        self.logger = logging.Logger("limited", logging.INFO)
        handler = logging.Handler()
        handler.emit = lambda record: self.lines.append((record.levelno, record.getMessage()))  # type: ignore[method-assign]
        self.logger.addHandler(handler)
        self.log = LimitedLog(self.logger, lambda: self.now)

    def say(self, times: int, address: str = "10.0.0.4", kind: str = KIND, level: int = logging.INFO) -> None:
        for number in range(times):
            self.log.say(kind, address, level, f"{address} line {number}")

    def taken(self) -> list[str]:
        lines, self.lines = self.lines, []
        return [text for _, text in lines]


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.log.flush()


async def test_so_many_lines_of_an_address_are_written_and_the_others_are_a_number(bench: Bench) -> None:
    bench.say(LINES_PER_S + 1481)
    assert bench.taken() == [f"10.0.0.4 line {number}" for number in range(LINES_PER_S)]
    bench.now += 0.5
    bench.say(2)
    bench.now += 0.5
    bench.say(1)
    assert bench.taken() == [f"10.0.0.4: 1483 more like it within a second: {KIND}", "10.0.0.4 line 0"]
    assert bench.log.lines == {("PeerClosed", True): LINES_PER_S + 1, ("PeerClosed", False): 1483}


async def test_addresses_and_kinds_have_lines_of_their_own(bench: Bench) -> None:
    for address in ("10.0.0.4", "10.0.0.5"):
        for kind in (KIND, "PeerClosed (setup-timeout)", "RouteJoined"):
            bench.say(LINES_PER_S + 1, address, kind)
    assert len(bench.taken()) == 6 * LINES_PER_S
    assert (bench.log.lines["PeerClosed", False], bench.log.lines["RouteJoined", False]) == (4, 2)


async def test_nothing_is_said_of_a_second_in_which_all_was_written(bench: Bench) -> None:
    for _ in range(5):
        bench.say(LINES_PER_S)
        bench.now += 1.0
    assert len(bench.taken()) == 5 * LINES_PER_S
    assert bench.log.lines == {("PeerClosed", True): 5 * LINES_PER_S}


async def test_the_number_is_told_when_the_second_is_over_though_nothing_more_comes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_log, "SECOND_S", 0.01)
    bench.say(LINES_PER_S + 3)
    bench.taken()
    await until(lambda: bench.lines)
    assert bench.taken() == [f"10.0.0.4: 3 more like it within a second: {KIND}"]


async def test_the_number_is_as_grave_as_the_gravest_line_that_it_stands_for(bench: Bench) -> None:
    bench.say(LINES_PER_S, level=logging.ERROR)
    bench.say(1, level=logging.INFO)
    bench.say(1, level=logging.WARNING)
    bench.log.flush()
    assert bench.lines[-1][0] == logging.WARNING


async def test_lines_below_the_level_are_not_counted(bench: Bench) -> None:
    bench.say(10 * LINES_PER_S, level=logging.DEBUG)
    bench.log.flush()
    assert (bench.taken(), bench.log.lines) == ([], {})


async def test_all_together_write_so_many_and_each_is_counted(bench: Bench) -> None:
    """Whoever has many addresses fills no disk either, neither with lines nor with their numbers."""
    for second in range(3):
        for number in range(MAX_ADDRESSES):
            bench.say(2, f"a{number}")
            bench.say(2, f"a{number}", "RouteJoined")
        assert len(bench.taken()) <= MAX_LINES_PER_S, second
        bench.now += 1.0
    assert sum(bench.log.lines.values()) == 3 * 4 * MAX_ADDRESSES


async def test_the_numbers_are_those_of_the_gravest_and_the_most_and_one_of_the_rest(bench: Bench) -> None:
    for number in range(NUMBERS_PER_S + 50):
        bench.say(LINES_PER_S + 1 + number, f"a{number}")
    bench.say(LINES_PER_S + 1, "grave", level=logging.WARNING)
    bench.lines.clear()
    bench.log.flush()
    numbers = bench.taken()
    assert len(numbers) == NUMBERS_PER_S
    assert numbers[0].startswith("grave: ")
    assert numbers[1] == f"a{NUMBERS_PER_S + 49}: {NUMBERS_PER_S + 60} more like it within a second: {KIND}"
    rest_n = 150 + 1 - (NUMBERS_PER_S - 1)
    assert numbers[-1].startswith(f"{OTHERS}: ")
    assert numbers[-1].endswith(f" more within a second, of {rest_n} kinds and addresses")


async def test_who_has_written_nothing_yet_is_heard_while_others_write_much(bench: Bench) -> None:
    """However many addresses they have, as long as what they do is of few kinds."""
    for number in range(MAX_LINES_PER_S):
        bench.say(LINES_PER_S, f"a{number}")
    bench.taken()
    bench.say(2, "10.1.0.1", "PeerClosed (slow-peer)", logging.WARNING)
    assert bench.taken() == ["10.1.0.1 line 0"]


async def test_so_many_addresses_are_told_apart_and_the_others_are_counted_together(bench: Bench) -> None:
    for number in range(MAX_ADDRESSES):
        bench.say(1, f"a{number}")
    for number in range(20):
        bench.say(1, f"b{number}", level=logging.WARNING)
    bench.taken()
    bench.log.flush()
    assert bench.taken()[0] == f"{OTHERS}: 20 more like it within a second: {KIND}"
    bench.say(1, "b1")
    assert bench.taken() == ["b1 line 0"]


# Which lines are about strangers


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (LifecycleEvent(PEER_CONNECTED, 1, 0, peer="tcp a:1"), "PeerConnected"),
        (LifecycleEvent(PEER_CLOSED, 1, 0, peer="tcp a:1", reason="setup-timeout"), "PeerClosed (setup-timeout)"),
        (LifecycleEvent(ROUTE_JOINED, 1, 0, peer="tcp a:1", service="x"), "RouteJoined"),
        (LifecycleEvent(ANNOTATIONS_REFUSED, 1, 0, peer="x", reason="loop"), "AnnotationsRefused (loop)"),
    ],
)
def test_lines_are_of_a_kind_when_they_tell_the_same(event: LifecycleEvent, kind: str) -> None:
    assert (line_kind(event), event.kind in OF_STRANGERS) == (kind, True)


def test_what_a_broker_does_by_itself_is_always_told() -> None:
    event = LifecycleEvent(ROUTE_EJECTED, 1, 0, service="x")
    assert (event.kind in OF_STRANGERS, level_of(event)) == (False, logging.WARNING)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("tcp 10.0.0.4:5123", "10.0.0.4"),
        ("ws [2001:db8:1:2:3:4:5:6]:5123", "2001:db8:1:2::/64"),
        ("unix /run/broker.sock", "unix"),
        ("unix", "unix"),
        ("tcp broker-1:7878", "broker-1"),
        ("tcp [no:address]:7878", "no:address"),
        ("", ""),
    ],
)
def test_the_address_stands_in_the_name_of_a_peer(name: str, address: str) -> None:
    assert address_in(name) == address
