"""Multicast windows (D-44): what each branch is asked for, with items of any size, and that nobody starves."""

import pytest

from broker.core import CoreSettings
from broker.forwarding.multicast.call import Branch
from broker.forwarding.multicast.merge import Merge
from broker.forwarding.multicast.window import PIECE_BYTES
from rsocket_wire.rsocket.frames import FOLLOWS, MAX_N, NEXT, PAYLOAD, REQUEST_CHANNEL, REQUEST_STREAM
from tests.broker.forwarding.multicast.crowds import ALL, HEAD_BYTES, Crowd, items
from tests.fakes import Wire

MIB = 1 << 20


class Source:
    """A branch's route that always has another item of `size` bytes, and sends what it is asked for."""

    def __init__(self, wire: Wire, name: bytes, size: int) -> None:
        self.wire = wire
        self.name = name
        self.size = size
        self.asked_n = 0
        self.sent_n = 0

    def hear(self) -> None:
        for frame in self.wire.received():
            self.asked_n += frame.n

    def send(self) -> bool:
        """Sends one item if it was asked for one."""
        self.hear()
        if self.sent_n == self.asked_n:
            return False
        self.sent_n += 1
        self.wire.answer(2, self.name + bytes(self.size - 1), NEXT)
        return True

    def send_all(self) -> None:
        while self.send():
            pass

    @property
    def branch(self) -> Branch:
        """What the broker knows of it."""
        branch = self.wire.peer.streams[2]
        assert isinstance(branch, Branch)
        return branch


class Fan:
    """A caller with a stream of many sources."""

    def __init__(self, size: int, item_bytes: int, n: int, settings: CoreSettings | None = None) -> None:
        self.crowd = Crowd(size, settings)
        self.caller = self.crowd.caller
        self.caller.request(REQUEST_STREAM, 1, ALL, n=n)
        self.sources = [
            Source(wire, b"%c" % (ord("a") + number % 26), item_bytes)
            for number, wire in enumerate(self.crowd.services)
        ]

    def send_all(self) -> None:
        for source in self.sources:
            source.send_all()

    def names(self) -> str:
        """Whose items the caller got since the last call; nothing else may have come."""
        frames = self.caller.received()
        assert all(frame.kind == PAYLOAD and frame.flags == NEXT for frame in frames)
        return "".join(chr(frame.data[0]) for frame in frames)

    def most_outstanding(self) -> int:
        """The most that the first source is asked for at one time, once it is known."""
        worst = 0
        for number in range(200):
            self.sources[0].send()
            if number > 100:
                worst = max(worst, self.outstanding()[0])
        return worst

    def outstanding(self) -> list[int]:
        """Of each source, what it was asked for and did not send."""
        for source in self.sources:
            source.hear()
        return [source.asked_n - source.sent_n for source in self.sources]


# The first ask


@pytest.mark.parametrize(
    "n, first", [(1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (319, 31), (320, 32), (100_000, 32), (MAX_N, 32)]
)
def test_the_first_ask_is_the_branch_s_part_of_what_the_caller_wants(n: int, first: int) -> None:
    """So that of what was asked for within N no item has to wait, whatever its size; one is asked of each at least."""
    assert Fan(10, 1, n).outstanding() == [first] * 10


def test_unknown_huge_items_wait_for_nobody_when_the_caller_wants_enough() -> None:
    fan = Fan(10, 16 * MIB - 100, 10)
    for source in fan.sources:
        source.send()
    assert fan.names() == "abcdefghij"
    assert fan.caller.peer.merging_bytes == 0


# The window


def test_the_window_grows_with_every_item_until_the_prefetch() -> None:
    fan = Fan(1, 10, 1)
    fan.caller.ask(1, 1000)
    rounds = []
    for _ in range(6):
        rounds.append(fan.outstanding()[0])
        for _ in range(rounds[-1]):
            fan.sources[0].send()
    assert rounds == [1, 2, 4, 8, 14, 24]
    assert fan.most_outstanding() == 32


@pytest.mark.parametrize(
    "item_bytes, window", [(1, 32), (MIB // 32, 32), (MIB // 32 + 1, 31), (MIB // 10, 10), (MIB, 1)]
)
def test_a_window_holds_as_many_items_as_fit_into_the_bytes_of_a_branch(item_bytes: int, window: int) -> None:
    assert Fan(2, item_bytes - HEAD_BYTES if item_bytes > 1 else 1, 1000).most_outstanding() == window


@pytest.mark.parametrize("size, window", [(10, 8), (5, 16), (1, 32)])
def test_branches_share_what_their_caller_may_hold(size: int, window: int) -> None:
    """80 items fit, in all multicast streams of the caller together."""
    fan = Fan(size, 100, 100_000, CoreSettings(multicast_buffer_bytes=80 * (HEAD_BYTES + 100)))
    assert fan.most_outstanding() == window
    fan.caller.request(REQUEST_STREAM, 3, ALL, n=1)
    fan.crowd.received()
    assert fan.most_outstanding() == min(32, 40 // size)


def test_a_large_item_is_forgotten_after_some_small_ones() -> None:
    fan = Fan(1, 10, 100_000)
    source = fan.sources[0]
    source.size = 2 * MIB
    source.send()
    source.size = 10
    windows = []
    for _ in range(80):
        source.send()
        windows.append(fan.outstanding()[0])
    assert windows[31] < 32
    assert max(windows[40:]) == 32


def test_ten_branches_with_items_of_a_mebibyte_and_a_caller_that_asks_one_at_a_time() -> None:
    fan = Fan(10, MIB, 1)
    got = ""
    for _ in range(60):
        fan.send_all()
        assert fan.caller.peer.merging_bytes <= 10 * (MIB + HEAD_BYTES)
        fan.caller.ask(1, 1)
        got += fan.names()
    assert got == "abcdefghij" * 6 + "a"


def test_a_hundred_branches_with_a_caller_that_asks_for_ten_stay_within_the_buffer() -> None:
    fan = Fan(100, 100 << 10, 10)
    got = 0
    for _ in range(30):
        fan.send_all()
        fan.caller.ask(1, 10)
        got += len(fan.names())
    assert got == 310
    assert fan.caller.peer.merging_bytes <= 16 * MIB


def test_fragments_of_few_bytes_cost_what_they_take() -> None:
    crowd = Crowd(1)
    crowd.open(REQUEST_STREAM, n=1)
    for _ in range(10):
        crowd.services[0].answer(2, b"", NEXT | FOLLOWS)
    assert crowd.caller.peer.merging_bytes == 10 * (PIECE_BYTES + 2)


# Nobody starves


@pytest.mark.parametrize("empty_n", [0, 5])
def test_a_branch_that_the_caller_had_no_credit_for_is_asked_with_the_next(empty_n: int) -> None:
    """Empty payloads that it sends meanwhile change nothing."""
    fan = Fan(2, 1, 1)
    fan.sources[0].send()
    assert fan.names() == "a"
    assert fan.outstanding() == [0, 1]
    for _ in range(empty_n):
        fan.sources[0].wire.answer(2, b"", 0)
    fan.caller.ask(1, 1)
    assert fan.outstanding() == [1, 1]


# The largest numbers


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_credit_at_hand_is_at_most_31_bits(kind: int) -> None:
    crowd = Crowd(2)
    crowd.open(kind, n=MAX_N)
    for _ in range(3):
        crowd.caller.ask(1, MAX_N)
    call = crowd.caller.peer.streams[1]
    assert isinstance(call, Merge)
    assert call.credit_n == MAX_N
    one = crowd.services[0]
    n = 32
    for number in range(200):
        one.answer(2, b"%d" % number, NEXT)
        n -= 1
        for frame in one.received():
            assert 0 < frame.n <= 32
            n += frame.n
    assert 0 < n <= 32
    assert crowd.caller.received() == items(*[b"%d" % number for number in range(200)])
