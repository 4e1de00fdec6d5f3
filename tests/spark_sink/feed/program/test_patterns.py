"""Which paths are wanted."""

import pytest

from spark_sink.feed.program.patterns import accepts_of


@pytest.mark.parametrize(
    "accept, reject, path, expected",
    [
        ([], [], "a/b", True),
        (["a/.*"], [], "a/b", True),
        (["a/.*", "c"], [], "c", True),
        (["^b"], [], "a/b", False),
        (["b$"], [], "a/b", True),
        ([], [".*/b"], "a/b", False),
        (["a/.*"], ["a/b"], "a/b", False),
    ],
)
def test_one_pattern_must_match_and_none_of_those_that_are_rejected(
    accept: list[str], reject: list[str], path: str, expected: bool
) -> None:
    assert accepts_of(accept, reject)(path) is expected
