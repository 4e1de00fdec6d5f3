"""Reader and Writer, field by field."""

from collections.abc import Callable

import pytest

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.buffer import Reader, Writer

DATA = bytes.fromhex("01 0203 040506 0708090a 0b0c0d0e0f101112 6869 ffff")


PULLS: list[Callable[[Reader], object]] = [
    lambda reader: reader.pull_u16("name"),
    lambda reader: reader.pull_u24("name"),
    lambda reader: reader.pull_u32("name"),
    lambda reader: reader.pull_u64("name"),
    lambda reader: reader.pull_bytes(2, "name"),
    lambda reader: reader.pull_text(2, "name"),
]


@pytest.mark.parametrize("pull", PULLS)
def test_failed_pull_names_the_field_and_leaves_the_cursor(pull: Callable[[Reader], object]) -> None:
    reader = Reader(b"\x00\x00\x00\x00\x00\x00", 2, 3)
    with pytest.raises(InvalidFrame, match=r"^bad-frame: name: needs \d bytes at offset 2, 1 are left$"):
        pull(reader)
    assert reader.at == 2


PUSHES: list[Callable[[Writer, int], None]] = [
    lambda writer, number: writer.push_u8(number, "n"),
    lambda writer, number: writer.push_u16(number, "n"),
    lambda writer, number: writer.push_u32(number, "n"),
    lambda writer, number: writer.push_u64(number, "n"),
]


@pytest.mark.parametrize(("push", "bits"), list(zip(PUSHES, [8, 16, 32, 64], strict=True)))
def test_number_that_does_not_fit_is_refused(push: Callable[[Writer, int], None], bits: int) -> None:
    writer = Writer()
    for number in (-1, 2**bits):
        with pytest.raises(BrokerError, match=f"n: {number} is not an unsigned number of {bits} bits"):
            push(writer, number)
    push(writer, 2**bits - 1)
    assert writer.to_bytes() == b"\xff" * (bits // 8)
