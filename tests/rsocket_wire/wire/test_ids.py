"""16 bytes and their texts."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.ids import ID_BYTES, id_text, parse_id

RAW = bytes.fromhex("112233445566778899aabbccddeeff00")
TEXT = "11223344-5566-7788-99aa-bbccddeeff00"


@pytest.mark.parametrize(
    "text", [TEXT, TEXT.upper(), RAW.hex(), RAW.hex().upper(), f"Id{{{TEXT}}}", f"Id{{{RAW.hex()}}}"]
)
def test_every_way_to_write_an_id_is_read(text: str) -> None:
    assert parse_id(text) == RAW


def test_text_of_an_id_is_the_canonical_uuid() -> None:
    assert id_text(RAW) == TEXT


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.binary(min_size=ID_BYTES, max_size=ID_BYTES))
def test_any_16_bytes_are_an_id(raw: bytes) -> None:
    assert id_text(raw) == str(uuid.UUID(bytes=raw))
    assert parse_id(id_text(raw)) == raw


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Id{}",
        TEXT[:-1],
        TEXT + "0",
        "Id{" + TEXT,
        TEXT + "}",
        "id{" + TEXT + "}",
        "{" + TEXT + "}",
        "urn:uuid:" + TEXT,
        TEXT.replace("-", "_"),
        "1122334-45566-7788-99aa-bbccddeeff00",
        " " * 32,
        RAW.hex()[:-2] + " 0",
        "١" * 32,
        "g" * 32,
    ],
)
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(BrokerError, match=r"^bad-id: ") as caught:
        parse_id(text)
    assert caught.value.word == "bad-id"


def test_long_text_is_cut_in_the_error() -> None:
    with pytest.raises(BrokerError) as caught:
        parse_id("x" * 100_000)
    assert len(caught.value.text) < 200


def test_id_of_another_length_has_no_text() -> None:
    with pytest.raises(BrokerError, match="bad-id: id: has 15 bytes, an id has 16"):
        id_text(RAW[:15])
