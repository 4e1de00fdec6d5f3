"""Multicast streams and channels under any interleaving of items, credit, completions, errors and losses.

Everything that anybody sees is compared with a reference that knows the rules and no frames.
"""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core import CoreSettings
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, FOLLOWS, MAX_N, NEXT, PAYLOAD, REQUEST_CHANNEL, REQUEST_STREAM
from tests.broker.forwarding.multicast.crowds import ALL, HEAD_BYTES
from tests.fakes import Frame, World, completed

BRANCHES = 4
# What ends a request is rare, or most requests would end before anything has happened.
DEEDS = ["item"] * 8 + ["piece"] * 5 + ["ask"] * 4 + ["say", "grant"] * 3 + ["complete"] * 2 + ["lose", "deaf"]
ENDS = ["fail", "cancel", "leave"]
STEPS = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 11), st.integers(0, 4)), min_size=5, max_size=80)
LAST_STEPS = st.lists(st.tuples(st.sampled_from(DEEDS + ENDS), st.integers(0, 11), st.integers(0, 4)), max_size=10)


class Book:
    """The reference for what a branch sends: its items in order, and which of them wait."""

    def __init__(self) -> None:
        self.asked_n = 0  # and not sent whole
        self.partial: list[bytes] = []
        self.waiting: deque[list[bytes]] = deque()


class Ledger:
    """The reference for the caller's items: the credit, whose turn it is, and what the caller must have got."""

    def __init__(self, size: int, n: int) -> None:
        self.books = [Book() for _ in range(size)]
        self.credit_n = n
        self.turns: deque[int] = deque()  # branches that have whole items
        self.out: list[list[bytes]] = []

    def ask(self, n: int) -> None:
        self.credit_n = min(self.credit_n + n, MAX_N)
        while self.credit_n and self.turns:
            index = self.turns.popleft()
            self.out.append(self.books[index].waiting.popleft())
            self.credit_n -= 1
            if self.books[index].waiting:
                self.turns.append(index)

    def piece(self, index: int, text: bytes, is_last: bool) -> None:
        book = self.books[index]
        book.partial.append(text)
        if not is_last:
            return
        item, book.partial = book.partial, []
        book.asked_n -= 1
        if self.credit_n:
            self.credit_n -= 1
            self.out.append(item)
        else:
            book.waiting.append(item)
            if len(book.waiting) == 1:
                self.turns.append(index)

    def bytes(self) -> int:
        pieces = [text for book in self.books for item in [*book.waiting, book.partial] for text in item]
        return sum(len(text) + HEAD_BYTES for text in pieces)


class Words:
    """The reference for what the caller of a channel says: every branch that listens hears what all have asked for."""

    def __init__(self, size: int) -> None:
        self.granted_n = [0] * size
        self.floor_n = 0
        self.passed_n = 0
        self.held: deque[tuple[bytes, int, bool]] = deque()  # text, flags, whether it begins an item
        self.out: list[tuple[bytes, int]] = []
        self.is_within = False

    def grant(self, index: int, n: int, listens: list[bool]) -> None:
        self.granted_n[index] = min(self.granted_n[index] + n, self.passed_n + MAX_N)
        self.go_on(listens)

    def say(self, text: bytes, flags: int, listens: list[bool]) -> None:
        self.held.append((text, flags, not self.is_within and flags & NEXT != 0))
        self.is_within = flags & FOLLOWS != 0
        self.go_on(listens)

    def go_on(self, listens: list[bool]) -> None:
        """Whoever listens may have changed."""
        asked = [n for n, is_listening in zip(self.granted_n, listens, strict=True) if is_listening]
        if not asked:
            self.held.clear()
            return
        self.floor_n = max(self.floor_n, min(asked))
        while self.held and not (self.held[0][2] and self.passed_n == self.floor_n):
            text, flags, begins = self.held.popleft()
            self.passed_n += begins
            self.out.append((text, flags))

    def bytes(self) -> int:
        return sum(len(text) + HEAD_BYTES for text, _, _ in self.held)


class Model:
    """Well-behaved branches, a caller that may send more than it was granted, and what all of them must see."""

    def __init__(self, kind: int, size: int, n: int, prefetch_n: int, branch_bytes: int, on_leave: str) -> None:
        self.prefetch_n = prefetch_n
        self.world = World(
            CoreSettings(
                multicast_prefetch_n=prefetch_n, multicast_branch_bytes=branch_bytes, multicast_on_leave=on_leave
            )
        )
        self.services = [self.world.service("orders", number + 1) for number in range(size)]
        self.caller = self.world.caller()
        self.kind = kind
        self.size = size
        self.ledger = Ledger(size, n)
        self.words = Words(size)
        self.talks = [True] * size
        self.listens = [kind == REQUEST_CHANNEL] * size
        self.is_gone = [False] * size
        self.heard: list[list[tuple[bytes, int]]] = [[] for _ in range(size)]
        self.may_send_n = 0
        self.talks_caller = kind == REQUEST_CHANNEL
        self.is_answered = False
        self.is_over = False  # the caller has its end, or ended it
        self.got: list[list[bytes]] = []
        self.got_partial: list[bytes] = []
        self.count = 0
        self.caller.request(kind, 1, ALL, b"hi", n)
        self.look()

    def look(self) -> None:
        """Takes what arrived, and checks everything that must always hold."""
        for index, service in enumerate(self.services):
            for frame in service.received():
                self._heard(index, frame)
        for frame in self.caller.received():
            assert not self.is_over, f"{frame} behind the end"
            self._got(frame)
        if self.is_answered and (self.kind == REQUEST_STREAM or not (self.talks_caller or self.words.held)):
            self.is_over = True
        if self.is_over:
            assert self.caller.peer.merging_bytes == 0
            assert not any(self.talks)
            assert not any(self.listens)
            return
        assert [*self.got, *([self.got_partial] if self.got_partial else [])] == self.ledger.out, "each in its turn"
        assert self.caller.peer.merging_bytes == self.ledger.bytes() + self.words.bytes()
        for index, book in enumerate(self.ledger.books):
            assert 0 <= book.asked_n + len(book.waiting) <= self.prefetch_n
            if self.ledger.credit_n:
                assert not book.waiting
                assert book.asked_n or not self.talks[index], "nobody starves while the caller wants items"
            if self.listens[index]:
                assert self.heard[index] == self.words.out, "who listens hears all, at the pace of the slowest"
        if self.talks_caller and any(self.listens):
            assert self.may_send_n == self.words.floor_n
            assert self.may_send_n - self.words.passed_n <= MAX_N

    def _heard(self, index: int, frame: Frame) -> None:
        assert not self.is_gone[index]
        if frame.kind in (REQUEST_STREAM, REQUEST_CHANNEL, frames.REQUEST_N):
            assert self.talks[index]
            assert 0 < frame.n <= self.prefetch_n
            self.ledger.books[index].asked_n += frame.n
        elif frame.kind == PAYLOAD:
            assert self.listens[index], "items only for those that listen"
            self.heard[index].append((frame.data, frame.flags))
            items_n = sum(flags & (NEXT | FOLLOWS) == NEXT for _, flags in self.heard[index])
            assert items_n <= self.words.granted_n[index]
            if frame.flags & COMPLETE:
                self.listens[index] = False
        else:
            assert frame.kind == frames.CANCEL
            assert self.talks[index] or self.listens[index], "a stream that ended is not cancelled"
            self.talks[index] = self.listens[index] = False

    def _got(self, frame: Frame) -> None:
        if frame.kind == PAYLOAD and frame.flags & NEXT:
            assert not frame.flags & COMPLETE
            self.got_partial.append(frame.data)
            if not frame.flags & FOLLOWS:
                self.got.append(self.got_partial)
                self.got_partial = []
        elif frame.kind == PAYLOAD:
            assert frame == completed(1)
            assert not self.is_answered
            assert not any(self.talks)
            self.is_answered = True
        elif frame.kind == frames.REQUEST_N:
            assert self.talks_caller
            assert 0 < frame.n <= MAX_N
            self.may_send_n += frame.n
        elif frame.kind == frames.CANCEL:
            assert self.talks_caller
            assert not any(self.listens)
            self.talks_caller = False
        else:
            assert frame.kind == frames.ERROR
            self.is_over = True

    def step(self, what: str, index: int, more: int) -> None:
        index %= self.size
        service = self.services[index]
        book = self.ledger.books[index]
        can_talk = self.talks[index] and not self.is_gone[index]
        if what == "item" and can_talk and not book.partial:
            for _ in range(min(more + 1, book.asked_n)):
                self._piece(index, NEXT)
        elif what == "piece" and can_talk and book.asked_n:
            self._piece(index, NEXT if more > 2 else NEXT | FOLLOWS)
        elif what == "complete" and can_talk and not book.partial:
            self.talks[index] = False
            if more > 1 and book.asked_n:
                self._piece(index, NEXT | COMPLETE)
            else:
                service.answer(2, b"", COMPLETE)
        elif what == "fail" and can_talk:
            self.talks[index] = self.listens[index] = False
            service.fail(2, 0x201, "no")
        elif what == "lose" and not self.is_gone[index]:
            self.is_gone[index] = True
            self.talks[index] = self.listens[index] = False
            book.partial = []
            self.words.go_on(self.listens)
            service.lose()
        elif what == "deaf" and self.listens[index]:
            self.listens[index] = False
            self.words.go_on(self.listens)
            service.cancel(2)
        elif what == "grant" and self.listens[index]:
            n = MAX_N - more if more > 2 else more + 1
            self.words.grant(index, n, self.listens)
            service.ask(2, n)
        elif not self.is_over:
            self._step_of_caller(what, index, more)

    def _step_of_caller(self, what: str, index: int, more: int) -> None:
        if what == "ask":
            n = MAX_N - index if more == 4 else index + 1
            self.ledger.ask(n)
            self.caller.ask(1, n)
        elif what == "say" and self.talks_caller:
            flags = {0: COMPLETE if index == 0 else NEXT, 1: NEXT | FOLLOWS}.get(more, NEXT)
            if self.words.is_within and flags == COMPLETE:
                flags = NEXT
            text = b"" if flags == COMPLETE else b"said %d" % more
            self.talks_caller = flags != COMPLETE
            self.words.say(text, flags, self.listens)
            self.caller.send(frames.encode_payload(1, flags, text))
        elif what == "cancel":
            self.is_over = True
            self.caller.cancel(1)
        elif what == "leave":
            self.is_over = True
            self.caller.lose()

    def _piece(self, index: int, flags: int) -> None:
        text = b"%c%d;" % (ord("a") + index, self.count) + bytes(self.count * 7 % 50)
        self.count += 1
        self.ledger.piece(index, text, not flags & FOLLOWS)
        self.services[index].answer(2, text, flags)

    def finish(self) -> None:
        """Everybody completes, and the caller asks for all: then it has all, and nothing is left."""
        self.step("ask", 0, 4)
        self.look()
        for index in range(self.size):
            if self.ledger.books[index].partial:
                self.step("piece", index, 3)
                self.look()
            self.step("complete", index, 0)
            self.look()
        for index in range(self.size):
            self.step("deaf", index, 0)
            self.look()
        self.step("say", 0, 3)
        self.step("say", 0, 0)
        self.look()
        assert self.is_over
        assert self.world.left_over() == []


@pytest.mark.parametrize("on_leave", ["ignore", "error"])
@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
@settings(max_examples=50, deadline=None)
@given(
    steps=STEPS,
    last_steps=LAST_STEPS,
    size=st.integers(1, BRANCHES),
    n=st.sampled_from([1, 2, 3, 4, 5, 9, MAX_N - 1, MAX_N]),
    prefetch_n=st.sampled_from([1, 2, 3, 32]),
    branch_bytes=st.sampled_from([1, 200, 500, 1 << 20]),
)
def test_a_merge_keeps_its_promises_whatever_happens(
    kind: int,
    on_leave: str,
    steps: list[tuple[str, int, int]],
    last_steps: list[tuple[str, int, int]],
    size: int,
    n: int,
    prefetch_n: int,
    branch_bytes: int,
) -> None:
    """Never more than asked for, each in its turn, fragments never mixed, one end, nothing behind it, nothing left."""
    model = Model(kind, size, n, prefetch_n, branch_bytes, on_leave)
    for what, number, more in [*steps, *last_steps]:
        model.step(what, number, more)
        model.look()
    model.finish()


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, BRANCHES - 1), st.integers(0, 3)), max_size=80), n=st.integers(1, 5))
def test_with_endless_credit_every_branch_gets_all_of_its_items_through(steps: list[tuple[int, int]], n: int) -> None:
    model = Model(REQUEST_STREAM, BRANCHES, n, 4, 1 << 20, "ignore")
    model.step("ask", 0, 4)
    model.look()
    for index, more in steps:
        assert model.ledger.books[index].asked_n > 0
        model.step("item", index, more)
        model.look()
    assert len(model.got) == model.count
    model.finish()
