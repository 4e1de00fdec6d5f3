"""AMQP values that are stepped over, as extra fields of router annotations: every type, nesting, counts, lengths."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.amqp import MAX_NESTING, TYPE_NAMES
from rsocket_wire.wire.annotations import Annotations, decode_annotations
from tests.rsocket_wire.wire import annotation_vectors
from tests.rsocket_wire.wire.annotation_vectors import ARRAY8, LEGAL, NULL, ONE, compound8, compound32, refusal, section

# Those that are none: bytes, how many, and the sentence. Extra fields begin at offset 31 here.
ILLEGAL: list[tuple[bytes, int, str]] = [
    (b"", 1, "extra fields: needs 1 bytes at offset 31, 0 are left"),
    (b"\x01", 1, "extra fields: 0x01 at offset 31 is no constructor of AMQP 1.0"),
    (b"\x3f", 1, "extra fields: 0x3f at offset 31 is no constructor of AMQP 1.0"),
    (b"\x00\x40", 1, "extra fields: needs 1 bytes at offset 33, 0 are left"),
    (b"\x00\x40\x20", 1, "extra fields: 0x20 at offset 33 is no constructor of AMQP 1.0"),
    (b"\x4f", 1, "extra fields: needs 1 bytes at offset 32, 0 are left"),
    (b"\x50", 1, "extra fields: needs 1 bytes at offset 32, 0 are left"),
    (b"\x98" + bytes(15), 1, "extra fields: needs 16 bytes at offset 32, 15 are left"),
    (b"\xa1\x02b", 1, "extra fields: needs 2 bytes at offset 33, 1 are left"),
    (b"\xb0\xff\xff\xff\xff", 1, "extra fields: needs 4294967295 bytes at offset 36, 0 are left"),
    (b"\xc0\x00", 1, "extra fields: needs 1 bytes at offset 33, 0 are left"),
    (b"\xc0\x09\x00", 1, "extra fields: needs 9 bytes at offset 33, 1 are left"),
    (b"\xd0\x00\x00\x00\x03\x00\x00\x00", 1, "extra fields: needs 4 bytes at offset 36, 3 are left"),
    (compound8(annotation_vectors.LIST8, 2, ONE), 1, "extra fields: needs 1 bytes at offset 36, 0 are left"),
    (
        compound8(annotation_vectors.LIST8, 1, ONE + NULL),
        1,
        "extra fields, list8 (0xc0) of 1 items: ends at offset 36, but 1 more bytes follow",
    ),
    (
        compound8(annotation_vectors.MAP8, 1, ONE),
        1,
        "extra fields: a map of 1 items at offset 34, keys and values are pairs",
    ),
    (
        compound32(annotation_vectors.MAP32, 3, ONE * 3),
        1,
        "extra fields: a map of 3 items at offset 40, keys and values are pairs",
    ),
    (compound8(ARRAY8, 0, b""), 1, "extra fields: needs 1 bytes at offset 34, 0 are left"),
    (compound8(ARRAY8, 3, b"\x60" + bytes(5)), 1, "extra fields: needs 6 bytes at offset 35, 5 are left"),
    (
        compound8(ARRAY8, 2, b"\x60" + bytes(5)),
        1,
        "extra fields, array8 (0xe0) of 2 items: ends at offset 39, but 1 more bytes follow",
    ),
    (compound8(ARRAY8, 2, b"\xa1\x01b"), 1, "extra fields: needs 1 bytes at offset 37, 0 are left"),
    (
        compound8(ARRAY8, 1, b"\xc1\x03\x01\x54\x01"),
        1,
        "extra fields: a map of 1 items at offset 37, keys and values are pairs",
    ),
    (ONE, 2, "extra fields: needs 1 bytes at offset 33, 0 are left"),
    (ONE + ONE, 1, "section of 5 fields: ends at offset 33, but 2 more bytes follow"),
]


@pytest.mark.parametrize("name", LEGAL)
def test_extra_fields_of_every_type_are_kept_byte_for_byte(name: str) -> None:
    extra, extra_n = b"".join(LEGAL[name]), len(LEGAL[name])
    found = decode_annotations(section(extra, extra_n))
    assert found == Annotations(0, None, "b", ["b"], extra, extra_n)
    assert decode_annotations(found.encode()) == found


@pytest.mark.parametrize(("extra", "extra_n", "text"), ILLEGAL, ids=[text for _, _, text in ILLEGAL])
def test_extra_fields_that_are_none_are_refused_when_they_come_and_when_they_go(
    extra: bytes, extra_n: int, text: str
) -> None:
    assert refusal(section(extra, extra_n)) == text
    with pytest.raises(BrokerError, match=r"bad-annotations: (\d )?extra fields"):
        Annotations(0, None, "b", ["b"], extra, extra_n).encode()


def test_every_type_of_amqp_is_among_the_legal_ones() -> None:
    assert set(TYPE_NAMES) <= {value[0] for values in LEGAL.values() for value in values}


NESTS: dict[str, Callable[[bytes], bytes]] = {
    "lists": lambda inner: compound32(annotation_vectors.LIST32, 1, inner),
    "maps": lambda inner: compound32(annotation_vectors.MAP32, 2, NULL + inner),
    "descriptors": lambda inner: b"\x00" + inner + NULL,
    "described": lambda inner: b"\x00\x40" + inner,
    "arrays": lambda inner: compound32(annotation_vectors.ARRAY32, 1, inner),
}


@pytest.mark.parametrize("name", NESTS)
def test_values_in_each_other_are_read_up_to_the_limit(name: str) -> None:
    inner = NULL
    for _ in range(MAX_NESTING - 1):
        inner = NESTS[name](inner)
    assert decode_annotations(section(inner, 1)).extra == inner
    text = f"extra fields: values are nested more than {MAX_NESTING} deep"
    assert refusal(section(NESTS[name](inner), 1)) == text
    for _ in range(1000):
        inner = NESTS[name](inner)
    assert refusal(section(inner, 1)) == text


def test_an_array_of_four_billion_nulls_is_read_at_once() -> None:
    extra = compound32(annotation_vectors.ARRAY32, 0xFFFF_FFFF, NULL)
    assert decode_annotations(section(extra, 1)).extra == extra


@pytest.mark.parametrize("content", [b"\xa1", b"\xc0", b"\xe0"])
def test_a_count_of_four_billion_ends_with_the_bytes(content: bytes) -> None:
    extra = compound32(annotation_vectors.ARRAY32, 0xFFFF_FFFF, content)
    assert refusal(section(extra, 1)) == "extra fields: needs 1 bytes at offset 41, 0 are left"
    assert refusal(section(b"", 0, 0xFFFF_FFFF)) == "extra fields: needs 1 bytes at offset 31, 0 are left"


@settings(derandomize=True, deadline=None, max_examples=125)
@given(st.binary(max_size=60), st.integers(0, 6))
def test_any_bytes_as_extra_fields_are_kept_or_refused(extra: bytes, extra_n: int) -> None:
    annotation_vectors.assert_section_or_refused(section(extra, extra_n))
