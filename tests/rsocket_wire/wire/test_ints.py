"""Big-endian numbers at an offset."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.wire.ints import u16_at, u16_bytes, u24_at, u24_bytes, u32_at, u32_bytes, u64_at, u64_bytes

DATA = bytes.fromhex("ff0102030405060708")


def test_numbers_are_big_endian_and_read_at_the_offset() -> None:
    assert [u16_at(DATA, 1), u24_at(DATA, 1), u32_at(DATA, 1), u64_at(DATA, 1)] == [
        0x0102,
        0x010203,
        0x01020304,
        0x0102030405060708,
    ]


def test_numbers_are_unsigned() -> None:
    ones = b"\xff" * 8
    assert [u16_at(ones, 0), u24_at(ones, 0), u32_at(ones, 0), u64_at(ones, 0)] == [
        2**16 - 1,
        2**24 - 1,
        2**32 - 1,
        2**64 - 1,
    ]


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(0, 2**64 - 1))
def test_numbers_written_are_read_again(number: int) -> None:
    assert u64_at(u64_bytes(number), 0) == number
    assert u32_at(u32_bytes(number >> 32), 0) == number >> 32
    assert u24_at(u24_bytes(number >> 40), 0) == number >> 40
    assert u16_at(u16_bytes(number >> 48), 0) == number >> 48


def test_number_that_is_not_all_there_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        u16_at(DATA, 8)
    with pytest.raises(IndexError):
        u64_at(DATA, 2)


def test_number_that_does_not_fit_is_an_overflow_error() -> None:
    with pytest.raises(OverflowError):
        u24_bytes(2**24)
    with pytest.raises(OverflowError):
        u16_bytes(-1)
