"""Which calls are made again: only where that is safe, and never more than the budget allows."""

import math

import pytest

from client_sdk import RetryBudget, RetryPolicy, errors
from client_sdk.calls.retry import WINDOW_S


def taken(budget: RetryBudget, now: float) -> int:
    """How many retries there are at this moment."""
    n = 0
    while budget.take(now):
        n += 1
    return n


def test_a_budget_is_a_part_of_the_requests_and_a_few_per_second() -> None:
    budget = RetryBudget(ratio=0.2, min_per_s=1)
    assert taken(budget, 50.0) == WINDOW_S
    for _ in range(100):
        budget.note_request(50.5)
    assert taken(budget, 50.9) == 20


def test_a_budget_forgets_what_is_older_than_its_window() -> None:
    budget = RetryBudget(ratio=0.5, min_per_s=0)
    for _ in range(10):
        budget.note_request(100.0)
    assert budget.take(101.0)
    assert taken(budget, 109.9) == 4  # all that is left of the ten requests' five
    assert taken(budget, 110.0) == 0  # the requests are forgotten
    for _ in range(10):
        budget.note_request(111.5)
    assert taken(budget, 111.5) == 1  # four that were taken in 109 count still
    assert taken(budget, 500.0) == 0
    for _ in range(10):
        budget.note_request(500.0)
    assert taken(budget, 500.0) == 5


def test_a_budget_of_nothing_allows_nothing() -> None:
    budget = RetryBudget(ratio=0, min_per_s=0)
    budget.note_request(1.0)
    assert not budget.take(1.0)


NOT_PROCESSED = [
    errors.NoRoute("x"),
    errors.OverLimit("x"),
    errors.NoLease("x"),
    errors.Draining("x"),
    errors.NotConnected("x"),
]
PERHAPS_PROCESSED = [
    errors.ConnectionLost("x"),
    errors.Canceled("x"),
    errors.RouteLost("x"),
    errors.DeadlineExceeded("x"),
]
NEVER_AGAIN = [
    errors.ApplicationError("x"),
    errors.BadAddress("x"),
    errors.TooLate("x"),
    errors.SetupRejected("x"),
    errors.ClientError("x"),
]


@pytest.mark.parametrize(
    ("errors", "is_safe", "is_safe_twice"),
    [
        ([*NOT_PROCESSED, errors.NotConnected("x", word="draining")], True, True),
        ([*PERHAPS_PROCESSED, errors.ConnectionLost("", word="x")], False, True),
        (NEVER_AGAIN, False, False),
        ([errors.NotConnected("x", word="closed"), errors.NotConnected("x", word="replaced")], False, False),
        ([errors.ConnectionLost("x", word="closed")], False, False),
    ],
)
def test_an_error_is_followed_by_another_try_where_that_may_help(
    errors: list[errors.ClientError], is_safe: bool, is_safe_twice: bool
) -> None:
    """Where nobody has processed it; what may have been, only when it may happen twice."""
    for error in errors:
        found = [RetryPolicy().is_safe(error, idempotent=idempotent) for idempotent in (False, True)]
        assert found == [is_safe, is_safe_twice], repr(error)


def test_delays_double_to_a_bound_and_chance_shortens_them_to_a_half_at_most() -> None:
    policy = RetryPolicy(first_delay_s=0.1, max_delay_s=0.5)
    assert [policy.delay_s(n, lambda: 1.0) for n in (1, 2, 3, 4, 1000)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    assert [policy.delay_s(n, lambda: 0.0) for n in (1, 2, 3, 4)] == [0.05, 0.1, 0.2, 0.25]


def test_a_policy_that_nobody_changed_outlives_a_restart() -> None:
    policy = RetryPolicy()
    for chance, least_s, most_s in ((0.0, 1.7, 1.8), (1.0, 3.5, 3.6)):
        waited_s = sum(policy.delay_s(n, lambda: chance) for n in range(1, policy.attempts))  # noqa: B023
        assert least_s < waited_s < most_s


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attempts": 0}, "attempts is 0"),
        ({"first_delay_s": -1}, "first_delay_s"),
        ({"first_delay_s": 2, "max_delay_s": 1}, "max_delay_s"),
        ({"try_timeout_s": 0}, "try_timeout_s"),
        ({"try_timeout_s": math.nan}, "nan"),
    ],
)
def test_policies_that_make_no_sense_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RetryPolicy(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [{"ratio": -0.1}, {"ratio": math.nan}, {"min_per_s": math.nan}])
def test_budgets_that_make_no_sense_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="neither may be below 0"):
        RetryBudget(**arguments)
