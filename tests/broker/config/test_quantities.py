"""broker.config.quantities: times and sizes with samd's letters."""

import pytest

from broker.config.quantities import find_size_bytes, find_time_s


@pytest.mark.parametrize(
    "text, time_s",
    [
        ("250M", 0.25),
        ("250ms", 0.25),
        ("5s", 5.0),
        ("5 s", 5.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1d", 86_400.0),
        ("0s", 0),
    ],
)
def test_a_time_has_the_letters_of_samd(text: str, time_s: float) -> None:
    assert find_time_s(text) == time_s


@pytest.mark.parametrize("text, size", [("7B", 7), ("1K", 1024), ("10M", 10 << 20), ("3G", 3 << 30)])
def test_a_size_has_the_letters_of_samd(text: str, size: int) -> None:
    assert find_size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "1.5s", "5S", "5sec", "5s ", "٣s", "9" * 16 + "s", "5K", "5G"])
def test_what_is_no_time_is_not_guessed(text: str) -> None:
    assert find_time_s(text) is None


@pytest.mark.parametrize("text", ["", "5", "M", "-5M", "1.5M", "5m", "5MB", "5s", "5T", "٣M"])
def test_what_is_no_size_is_not_guessed(text: str) -> None:
    assert find_size_bytes(text) is None
