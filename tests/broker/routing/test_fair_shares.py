"""Who may have one more of a bounded number of places (D-68)."""

import pytest

from broker.routing.fair_shares import ASK_S, UNKNOWN, Shares

A, B, C = 1, 2, 3


def shares(limit_n: int, **held: int) -> Shares:
    """So many places, and who holds them: `a` is A."""
    made = Shares(limit_n, True)
    for name, held_n in held.items():
        for _ in range(held_n):
            made.began("abc".index(name) + 1)
    return made


@pytest.mark.parametrize(
    ("limit_n", "half_n"),
    [(1, 1), (2, 1), (3, 2), (8, 4), (1023, 512), (1024, 512)],
)
def test_with_another_one_there_a_caller_gets_half_rounded_up(limit_n: int, half_n: int) -> None:
    below, at = shares(limit_n, a=half_n - 1, b=1), shares(limit_n, a=half_n, b=1)
    assert not below.is_over(A, below.held(A), half_n, 0.0)
    assert at.is_over(A, at.held(A), half_n + 1, 0.0)
    assert not at.is_over(C, at.held(C), half_n + 1, 0.0)


def test_of_three_that_ask_in_turn_each_has_another_one_that_asks() -> None:
    held = shares(2, a=1)
    for at, caller in enumerate((A, B, C, C, A)):
        held.ask(caller, 100.0 + at)
    assert held.is_over(A, held.held(A), 1, 100.0 + 3 + ASK_S - 0.01)
    assert not held.is_over(A, held.held(A), 1, 100.0 + 3 + ASK_S)


def test_what_was_taken_before_anybody_counted_is_unknown_until_somebody_says() -> None:
    late = Shares(1024, False)
    late.began(A)
    late.ended(A)
    assert late.held(A) == UNKNOWN
    late.know(A, 512)
    assert late.is_over(A, late.held(A), 513, 0.0)
    late.ended(A)
    assert (late.held(A), late.is_over(A, late.held(A), 512, 0.0)) == (511, False)
    late.know(B, 1)
    late.ended(B)
    assert late.held(B) == UNKNOWN  # it is counted anew if need be


def test_who_holds_nothing_is_not_kept() -> None:
    exact, late = shares(2, a=1, b=1), Shares(2, False)
    exact.ended(A)
    assert len(exact._held) == 1
    late.know(A, 2)
    for caller in range(10, 1000):
        late.know(caller, 0)
    assert (late.held(A), len(late._held) <= 2 * 2 + 64) == (2, True)
