"""Numbers and texts of single frames."""

import pytest

from client_sdk.gateways.samwise.frames import MAX_NUMBER, counted, encode_text, find_number, shown
from client_sdk.gateways.samwise.values import Refused


def test_plain_decimals_are_numbers() -> None:
    for number in (*range(1100), MAX_NUMBER - 1, MAX_NUMBER):
        assert find_number(b"%d" % number) == number


@pytest.mark.parametrize(
    "frame",
    [
        *(b"", b"-1", b"-0", b"+1", b" 1", b"1 ", b"1\0", b"1\n", b"01", b"00", b"1_0", b"1.0", b"1e3", b"0x1", b"x"),
        *(b"120xyz", b"2147483648", b"9999999999", b"10000000000", b"0" * 11, b"\x01\0\0\0", "١".encode(), b"\xb2"),
    ],
)
def test_anything_else_is_no_number(frame: bytes) -> None:
    assert find_number(frame) is None


def test_a_million_digits_are_not_looked_at() -> None:
    """int() of that many would raise, after a look at all of them."""
    assert find_number(b"1" * 1_000_000) is None


def test_a_frame_is_shown_in_ascii_and_not_all_of_a_long_one() -> None:
    assert shown(b"") == "''"
    assert shown("ä\0'\n".encode()) == r'''"\xc3\xa4\x00'\n"'''
    assert shown(b"x" * 40) == f"'{'x' * 40}'"
    assert shown(b"x" * 41) == f"'{'x' * 40}'... of 41 bytes"


def test_text_without_bytes_is_refused() -> None:
    assert encode_text("ä\0") == "ä\0".encode()
    with pytest.raises(Refused, match=r"^'\\udcff' cannot be written in UTF-8$"):
        encode_text("a\udcff")


def test_one_frame_and_more() -> None:
    assert [counted(count) for count in range(3)] == ["0 frames", "1 frame", "2 frames"]
