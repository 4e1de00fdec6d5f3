"""Big-endian numbers at an offset."""

import pytest

from rsocket_wire.wire.ints import u16_at, u24_at, u32_at, u64_at

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


def test_number_that_is_not_all_there_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        u16_at(DATA, 8)
    with pytest.raises(IndexError):
        u64_at(DATA, 2)
