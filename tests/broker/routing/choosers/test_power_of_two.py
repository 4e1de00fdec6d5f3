"""The chooser that takes the less busy of two candidates that it draws."""

from broker.routing.choosers.power_of_two import PowerOfTwo
from tests.broker.routing.made import all_of, counted, is_likely, loaded, picks


def test_power_of_two_takes_the_less_busy_of_two() -> None:
    """Of 4 routes the busiest never wins; the least busy is in 1/2 of the pairs, then 1/3, then 1/6."""
    table = loaded({1: 0, 2: 1, 3: 2, 4: 3})
    assert is_likely(counted(PowerOfTwo(), all_of(table), 6000), {1: 3, 2: 2, 3: 1})


def test_power_of_two_weighs() -> None:
    """3 in flight at weight 4 are less than 1 at weight 1."""
    table = loaded({1: 1, 2: 3}, weights={2: 4})
    assert set(picks(PowerOfTwo(), all_of(table), 50)) == {2}
