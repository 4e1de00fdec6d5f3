"""Chance that a test can foresee."""

import pytest

from broker.routing.rng import Rng


def rolls(seed: int, n: int, count: int) -> list[int]:
    rng = Rng(seed)
    return [rng.below(n) for _ in range(count)]


def test_same_seed_rolls_the_same() -> None:
    """Xorshift32 with 13, 17, 5: its first numbers from 1 are 270369, 67634689, 2647435461, 307599695."""
    assert rolls(1, 1 << 32, 4) == [270369, 67634689, 2647435461, 307599695]
    assert rolls(1, 1 << 32, 4) == rolls(1 + (1 << 32), 1 << 32, 4)
    assert rolls(2, 100, 20) != rolls(1, 100, 20)


@pytest.mark.parametrize("seed", [0, 1 << 32, -(1 << 32)])
def test_seed_of_zeros_still_rolls(seed: int) -> None:
    assert len(set(rolls(seed, 1000, 50))) > 40


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 1 << 31])
def test_roll_is_below_n(n: int) -> None:
    assert all(0 <= roll < n for roll in rolls(99, n, 500))


def test_each_number_comes_about_as_often() -> None:
    counts = [0] * 10
    for roll in rolls(12345, 10, 10_000):
        counts[roll] += 1
    assert all(900 <= count <= 1100 for count in counts)
