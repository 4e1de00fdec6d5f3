"""Multicast streams and channels under any interleaving of items, credit, completions, errors and losses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core import CoreSettings
from broker.rsocket.frames import (
    CANCEL,
    COMPLETE,
    ERROR,
    FOLLOWS,
    NEXT,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_N,
    REQUEST_STREAM,
    encode_payload,
)
from tests.fakes import (
    Wire,
    World,
    completed,
)
from tests.forwarding.crowds import ALL

BRANCHES = 3
# What ends a request is rare, or most requests would end before anything has happened.
DEEDS = ["item"] * 8 + ["piece"] * 5 + ["ask"] * 4 + ["say", "grant"] * 2 + ["complete"] * 2 + ["lose", "deaf"]
ENDS = ["fail", "cancel", "leave"]
STEPS = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 11), st.integers(0, 3)), min_size=5, max_size=60)
LAST_STEPS = st.lists(st.tuples(st.sampled_from(DEEDS + ENDS), st.integers(0, 11), st.integers(0, 3)), max_size=10)


class Model:
    """What a well-behaved caller and well-behaved branches may do, and what the caller must see of it."""

    def __init__(self, kind: int, n: int, prefetch_n: int, on_leave: str) -> None:
        self.world = World(CoreSettings(multicast_prefetch_n=prefetch_n, multicast_on_leave=on_leave))
        self.services = [self.world.service("orders", number + 1) for number in range(BRANCHES)]
        self.caller = self.world.caller()
        self.kind = kind
        self.asked_n = n
        self.sent: list[list[bytes]] = [[] for _ in range(BRANCHES)]  # whole items, by branch
        self.partial = [b""] * BRANCHES
        self.credit = [0] * BRANCHES
        self.talks = [True] * BRANCHES
        self.listens = [kind == REQUEST_CHANNEL] * BRANCHES
        self.is_gone = [False] * BRANCHES
        self.granted_n = [0] * BRANCHES
        self.may_send_n = 0
        self.said = 0
        self.heard = [0] * BRANCHES
        self.talks_caller = kind == REQUEST_CHANNEL
        self.is_over = False  # the caller has its end, or ended it
        self.got: list[bytes] = []
        self.got_partial = b""
        self.got_owner = -1
        self.count = 0
        self.caller.request(kind, 1, ALL, b"hi", n)
        self.look()

    def look(self) -> None:
        """Takes what arrived, and checks everything that must always hold."""
        for index, service in enumerate(self.services):
            for frame in service.received():
                assert not self.is_gone[index]
                if frame.kind in (REQUEST_STREAM, REQUEST_CHANNEL, REQUEST_N):
                    assert self.talks[index] or frame.kind == REQUEST_N
                    self.credit[index] += frame.n
                elif frame.kind == PAYLOAD:
                    assert self.listens[index], "items only for those that listen"
                    if frame.flags & COMPLETE:
                        self.listens[index] = False
                    else:
                        self.heard[index] += 1
                        assert self.heard[index] <= self.granted_n[index]
                elif frame.kind == CANCEL:
                    assert self.talks[index] or self.listens[index], "a stream that ended is not cancelled"
                    self.talks[index] = self.listens[index] = False
                elif frame.kind == ERROR:
                    self.talks[index] = self.listens[index] = False
        for frame in self.caller.received():
            assert not self.is_over, f"{frame} behind the end"
            if frame.kind == PAYLOAD and frame.flags & NEXT:
                owner = frame.data[0] - ord("a")
                assert self.got_owner in (-1, owner), "fragments of two items are mixed"
                self.got_partial += frame.data
                if frame.flags & FOLLOWS:
                    self.got_owner = owner
                else:
                    self.got.append(self.got_partial)
                    self.got_partial = b""
                    self.got_owner = -1
                    assert len(self.got) <= self.asked_n, "more than the caller asked for"
                    mine = [item for item in self.got if item[:1] == frame.data[:1]]
                    assert self.sent[owner][: len(mine)] == mine, "items of a branch keep their order"
                assert not frame.flags & COMPLETE
            elif frame.kind == PAYLOAD:
                assert frame == completed(1)
                assert not any(self.talks)
                self.answered = True
                if self.kind == REQUEST_STREAM or not self.talks_caller:
                    self.is_over = True
            elif frame.kind == REQUEST_N:
                assert self.talks_caller
                self.may_send_n += frame.n
                assert all(
                    self.may_send_n <= granted
                    for granted, listens in zip(self.granted_n, self.listens, strict=True)
                    if listens
                )
            elif frame.kind == CANCEL:
                assert self.talks_caller
                assert not any(self.listens)
                self.talks_caller = False
                if self.answered:
                    self.is_over = True
            else:
                assert frame.kind == ERROR
                self.is_over = True

    answered = False

    def step(self, what: str, index: int, more: int) -> None:
        service: Wire = self.services[index % BRANCHES]
        can_talk = what != "ask" and self.talks[index] and not self.is_gone[index]
        if what == "ask" and not self.is_over and not self.answered:
            self.asked_n += index
            self.caller.ask(1, index)
        elif what == "item" and can_talk and self.credit[index] > 0 and not self.partial[index]:
            for _ in range(min(more + 1, self.credit[index])):
                self.item(index, NEXT)
        elif what == "piece" and can_talk and self.credit[index] > 0:
            text = b"%c%d;" % (ord("a") + index, self.count)
            self.count += 1
            self.partial[index] += text
            is_last = more > 1
            if is_last:
                self.sent[index].append(self.partial[index])
                self.partial[index] = b""
                self.credit[index] -= 1
            service.answer(2, text, NEXT if is_last else NEXT | FOLLOWS)
        elif what == "complete" and can_talk and not self.partial[index]:
            self.talks[index] = False
            if more and self.credit[index]:
                self.item(index, NEXT | COMPLETE)
            else:
                service.answer(2, b"", COMPLETE)
        elif what == "fail" and can_talk:
            self.talks[index] = self.listens[index] = False
            service.fail(2, 0x201, "no")
        elif what == "lose" and not self.is_gone[index]:
            self.is_gone[index] = True
            self.talks[index] = self.listens[index] = False
            service.lose()
        elif what == "deaf" and self.listens[index]:
            self.listens[index] = False
            service.cancel(2)
        elif what == "grant" and self.listens[index]:
            self.granted_n[index] += more + 1
            service.ask(2, more + 1)
        elif what == "say" and self.talks_caller and not self.is_over:
            if index == 2:
                self.talks_caller = False
                if self.answered:
                    self.is_over = True
                self.caller.send(encode_payload(1, COMPLETE))
            elif self.said < self.may_send_n:
                self.said += 1
                self.caller.send(encode_payload(1, NEXT, b"said"))
        elif what == "cancel" and not self.is_over:
            self.is_over = True
            self.caller.cancel(1)
        elif what == "leave" and not self.caller.is_lost:
            self.is_over = True
            self.caller.lose()

    def item(self, index: int, flags: int) -> None:
        text = b"%c%d;" % (ord("a") + index, self.count)
        self.count += 1
        self.sent[index].append(text)
        self.credit[index] -= 1
        self.services[index].answer(2, text, flags)

    def finish(self) -> None:
        """Everybody completes, and the caller asks for all: then it has all, and nothing is left."""
        for index in range(BRANCHES):
            if self.partial[index]:
                self.step("piece", index, 2)
                self.look()
            self.step("complete", index, 0)
            self.look()
            self.step("deaf", index, 0)
            self.look()
        self.step("ask", 1000, 0)
        self.look()
        self.step("say", 2, 0)
        self.look()
        assert self.is_over
        assert self.world.left_over() == []


@pytest.mark.parametrize("on_leave", ["ignore", "error"])
@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
@settings(max_examples=150, deadline=None)
@given(steps=STEPS, last_steps=LAST_STEPS, n=st.integers(1, 5), prefetch_n=st.sampled_from([1, 2, 3, 32]))
def test_a_merge_keeps_its_promises_whatever_happens(
    kind: int,
    on_leave: str,
    steps: list[tuple[str, int, int]],
    last_steps: list[tuple[str, int, int]],
    n: int,
    prefetch_n: int,
) -> None:
    """Never more than asked for, fragments never mixed, one end, nothing behind it, nothing left."""
    model = Model(kind, n, prefetch_n, on_leave)
    for what, number, more in [*steps, *last_steps]:
        model.step(what, number % 4 + 1 if what == "ask" else number % BRANCHES, more)
        model.look()
    model.finish()


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, BRANCHES - 1), st.integers(0, 3)), max_size=80),
    n=st.integers(1, 5),
)
def test_no_branch_starves_while_the_caller_wants_items(steps: list[tuple[int, int]], n: int) -> None:
    """Whoever is asked and answers is asked again: with endless credit every branch gets all of its items through."""
    model = Model(REQUEST_STREAM, n, 4, "ignore")
    model.step("ask", 10_000, 0)
    model.look()
    for index, more in steps:
        assert model.credit[index] > 0
        model.step("item", index, more)
        model.look()
    assert sum(len(items) for items in model.sent) == len(model.got)
    model.finish()
