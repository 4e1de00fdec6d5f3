"""Reader and Writer, field by field."""

from collections.abc import Callable

import pytest

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.buffer import Reader, Writer, utf8_bytes, utf8_text

DATA = bytes.fromhex("01 0203 040506 0708090a 0b0c0d0e0f101112 6869 ffff")


def test_fields_written_are_read_again_in_their_order() -> None:
    writer = Writer()
    writer.push_u8(0x01)
    writer.push_u16(0x0203)
    writer.push_bytes(b"\x04\x05\x06")
    writer.push_u32(0x0708090A)
    writer.push_u64(0x0B0C0D0E0F101112)
    writer.push_bytes(b"hi")
    writer.push_bytes(b"\xff\xff")
    assert writer.to_bytes() == DATA

    reader = Reader(DATA)
    pulled = [reader.pull_u8(), reader.pull_u16(), reader.pull_u24(), reader.pull_u32(), reader.pull_u64()]
    assert pulled == [0x01, 0x0203, 0x040506, 0x0708090A, 0x0B0C0D0E0F101112]
    assert (reader.pull_text(2), reader.left, reader.rest(), reader.left) == ("hi", 2, b"\xff\xff", 0)
    reader.check_end()


def test_reader_sees_only_its_window() -> None:
    reader = Reader(DATA, 1, 3)
    assert (reader.left, reader.rest(), reader.at) == (2, b"\x02\x03", 3)


def test_nothing_left_is_an_empty_rest() -> None:
    assert Reader(b"").rest() == b""


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


def test_pull_from_nothing_is_refused() -> None:
    with pytest.raises(InvalidFrame, match="needs 1 bytes at offset 0, 0 are left"):
        Reader(b"").pull_u8()


def test_text_that_is_not_utf8_leaves_the_cursor() -> None:
    reader = Reader(b"a\xffb")
    with pytest.raises(InvalidFrame, match="name: byte 1 of 3 is not UTF-8"):
        reader.pull_text(3, "name")
    assert reader.at == 0


def test_bytes_behind_the_end_are_counted() -> None:
    reader = Reader(b"abc", 1)
    with pytest.raises(InvalidFrame, match="thing: ends at offset 1, but 2 more bytes follow"):
        reader.check_end("thing")


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


def test_utf8_both_ways() -> None:
    assert utf8_text(utf8_bytes("clé 値", "bad-tag", "x"), "x") == "clé 値"
    with pytest.raises(BrokerError, match="bad-name: x: character 1 cannot be written in UTF-8"):
        utf8_bytes("a\ud800", "bad-name", "x")
