"""How evenly loads are shared out."""

from broker.routing.balance import gini, max_over_mean


def test_evenness() -> None:
    assert (max_over_mean([5, 5, 5, 5]), gini([5, 5, 5, 5])) == (1.0, 0.0)
    assert (max_over_mean([8, 0, 0, 0]), gini([8, 0, 0, 0])) == (4.0, 0.75)
    assert (max_over_mean([1, 3]), gini([1, 3])) == (1.5, 0.25)
    assert (max_over_mean([4]), gini([4])) == (1.0, 0.0)
    assert (max_over_mean([]), gini([]), max_over_mean([0]), gini([0])) == (0.0, 0.0, 0.0, 0.0)
