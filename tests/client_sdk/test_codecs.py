"""Codecs: what bytes mean, and what the sender of wrong ones is told."""

import dataclasses
from decimal import Decimal
from typing import Any, TypedDict

import msgspec
import pytest

from client_sdk.codecs import BYTES, JSON, MAX_KEPT_DECODERS, Codec, json_codec


class Struct(msgspec.Struct):
    name: str
    count_n: int = 1


@dataclasses.dataclass
class Data:
    name: str
    count_n: int = 1


class Typed(TypedDict):
    name: str
    count_n: int


@pytest.mark.parametrize(
    "type, value",
    [
        (Struct, Struct("a", 2)),
        (Data, Data("a", 2)),
        (Typed, {"name": "a", "count_n": 2}),
        (dict[str, Any], {"name": "a", "count_n": 2}),
        (Any, {"name": "a", "count_n": 2}),
    ],
)
def test_json_reads_what_it_wrote_as_the_type_that_is_asked_for(type: Any, value: Any) -> None:
    assert JSON.encode(value) == b'{"name":"a","count_n":2}'
    assert JSON.decode(JSON.encode(value), type) == value


@pytest.mark.parametrize(
    "data, type, text",
    [
        (b"", Struct, "Input data was truncated"),
        (b"{", Struct, "Input data was truncated"),
        (b'{"name":1}', Struct, r"Expected `str`, got `int` - at `\$\.name`"),
        (b"{}", Struct, "Object missing required field `name`"),
        (b'{"name":"\xff"}', Struct, "invalid start byte|Invalid UTF-8"),
        (b"[" * 100_000, Any, "maximum recursion depth|Stack overflow"),
        (b"[[1]]", set[Any], "[Uu]nhashable|a hashable value"),
        (b"1" * 5000, int, "out of range"),
        (b"1e999", float, "out of range"),
    ],
)
def test_whatever_the_sender_sends_it_is_told_where_it_does_not_fit(data: bytes, type: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        JSON.decode(data, type)


def test_json_refuses_types_and_values_that_it_has_not() -> None:
    with pytest.raises(TypeError):
        JSON.decoder(list[int] | set[int])
    with pytest.raises(TypeError, match="complex"):
        JSON.encode(1j)


def test_hooks_and_strictness_are_those_of_msgspec() -> None:
    loose: Codec = json_codec(strict=False, enc_hook=lambda value: str(value), dec_hook=lambda type, value: type(value))
    assert loose.decode(b'"7"', int) == 7
    assert loose.encode(1j) == b'"1j"'
    assert loose.decode(b'"1j"', complex) == 1j
    assert JSON.decode(b'"1.5"', Decimal) == Decimal("1.5")


def test_decoders_are_kept_up_to_a_bound_and_made_anew_beyond() -> None:
    codec = json_codec()
    for number in range(MAX_KEPT_DECODERS + 10):
        made = msgspec.defstruct(f"T{number}", [("n", int)])
        assert codec.decode(b'{"n":1}', made) == made(n=1)
    assert len(codec._decoders) == MAX_KEPT_DECODERS


def test_bytes_stay_as_they_are_and_nothing_else_is_taken() -> None:
    assert BYTES.decode(b"\x00", bytes) == BYTES.encode(bytearray(b"\x00")) == b"\x00"
    with pytest.raises(ValueError, match="bytes cannot be decoded as int"):
        BYTES.decode(b"1", int)
    with pytest.raises(TypeError, match="str is not bytes"):
        BYTES.encode("1")
