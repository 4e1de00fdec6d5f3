"""Numbers, text, bytes and True in the wrong place: told by the name of the parameter, whatever the function is."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from client_sdk import Hedging, Password, RetryBudget, RetryPolicy, Service, Token, json_codec
from client_sdk.mistakes.kinds import kinds_of

SERVICE = Service("orders")
VALUES: list[object] = [None, 3, 2.5, "text", b"bytes", True, ["a"], {"a": 1}, object(), datetime.timedelta(seconds=1)]
# What is checked, what else it has to be given, and how many parameters it has that are of such a kind.
CHECKED: list[tuple[Callable[..., Any], dict[str, Any], int]] = [
    (RetryPolicy, {}, 4),
    (Hedging, {}, 2),
    (RetryBudget, {}, 2),
    (Token, {"token": "abc"}, 1),
    (Password, {"name": "ada", "password": "abc"}, 2),
    (json_codec, {}, 1),
    (SERVICE.health_check, {}, 2),
]


@pytest.mark.parametrize(("function", "given", "checked_n"), CHECKED, ids=lambda case: getattr(case, "__name__", ""))
def test_a_value_of_another_kind_is_told_by_the_name_of_the_parameter(
    function: Callable[..., Any], given: dict[str, Any], checked_n: int
) -> None:
    kinds = kinds_of(function)
    assert len(kinds) == checked_n
    for name, right in kinds.items():
        for value in VALUES:
            if type(value) in right or (type(value) is int and float in right):
                continue
            with pytest.raises(TypeError, match=f"^(the )?{name} is "):
                function(**{**given, name: value})
