"""client_sdk.gateways.samwise.endpoint.rates"""

import pytest

from client_sdk.gateways.samwise.endpoint import rates
from client_sdk.gateways.samwise.endpoint.rates import Rates

OF_ALL = "3 requests a second are allowed for all callers"
OF_ONE = "2 requests a second are allowed for one caller"


def test_without_limits_everything_goes() -> None:
    limits = Rates(0, 0)
    assert [limits.find_excess(b"a", 5.0) for _ in range(1000)] == [""] * 1000


def test_one_second_of_requests_may_come_at_once_and_then_one_by_one() -> None:
    limits = Rates(0, 2)
    assert [limits.find_excess(b"a", 100.0) for _ in range(3)] == ["", "", OF_ONE]
    assert limits.find_excess(b"b", 100.0) == ""
    assert [limits.find_excess(b"a", 100.5) for _ in range(2)] == ["", OF_ONE]
    assert [limits.find_excess(b"a", 1000.0) for _ in range(3)] == ["", "", OF_ONE]


def test_all_callers_together_have_a_limit() -> None:
    limits = Rates(3, 2)
    assert [limits.find_excess(caller, 9.0) for caller in (b"a", b"b", b"c", b"d")] == ["", "", "", OF_ALL]


def test_what_is_refused_for_all_costs_the_caller_nothing_and_the_other_way_round() -> None:
    limits = Rates(3, 2)
    assert [limits.find_excess(b"a", 9.0) for _ in range(3)] == ["", "", OF_ONE]
    assert [limits.find_excess(b"b", 9.0) for _ in range(2)] == ["", OF_ALL]
    assert [limits.find_excess(b"b", 9.4) for _ in range(2)] == ["", OF_ONE]


def test_of_many_callers_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_BUCKETS", 2)
    limits = Rates(0, 2)
    assert [limits.find_excess(b"a", 1.0) for _ in range(3)] == ["", "", OF_ONE]
    assert [limits.find_excess(caller, 1.0) for caller in (b"b", b"c")] == ["", ""]
    assert limits.find_excess(b"a", 1.0) == ""
