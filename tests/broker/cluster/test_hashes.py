"""Sets of hashes, and their bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from broker.cluster.hashes import MAX_CONTAINER_N, decode_hashes
from rsocket_wire.errors import InvalidFrame

TOP = 0xFFFFFFFF_FFFFFFFF
ONE = bytes.fromhex("0100000000000000 44332211 3a300000 01000000 6655 0000 10000000 7788")  # 0x1122334455668877
# Numbers that share buckets and containers much more often than hashes do, also at the ends.
MEMBERS = st.sets(
    st.one_of(st.integers(0, TOP), st.builds(lambda a, b, c: a << 32 | b << 16 | c, *[st.sampled_from([0, 1, 9])] * 3))
)


def test_a_set_is_these_bytes() -> None:
    """Of pyroaring's version and any other one in the cluster."""
    assert BitMap64().serialize() == bytes(8)
    assert BitMap64([0x11223344_55668877]).serialize() == ONE
    assert decode_hashes(ONE) == {0x11223344_55668877}


@given(MEMBERS)
def test_bytes_of_a_set_are_read_again(members: set[int]) -> None:
    assert decode_hashes(BitMap64(members).serialize()) == members


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The bytes of a set, of which some are others and the last ones may be missing."""
    raw = bytearray(BitMap64(draw(MEMBERS)).serialize())
    for at, byte in draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4)):
        raw[at % len(raw)] = byte
    cut = draw(st.integers(0, 400))
    return bytes(raw[: len(raw) - cut] if cut < len(raw) and cut % 4 == 0 else raw)


@given(st.one_of(damaged(), st.binary(max_size=100)))
def test_any_bytes_are_refused_or_the_bytes_of_the_set_that_is_read(raw: bytes) -> None:
    """One set, one table: what is accepted is what `serialize` writes."""
    try:
        found = decode_hashes(raw)
    except InvalidFrame:
        return
    assert BitMap64(found).serialize() == raw


def test_every_truncation_is_refused() -> None:
    raw = BitMap64([5, 6, 1 << 16, 1 << 40, TOP]).serialize()
    for end in range(len(raw)):
        with pytest.raises(InvalidFrame, match="TABLE: "):
            decode_hashes(raw[:end])


@pytest.mark.parametrize(
    "raw, sentence",
    [
        (b"", "TABLE: needs 8 bytes, 0 are there"),
        (ONE[:-1], "TABLE: needs 22 bytes at offset 8, 21 are left"),
        (b"\x02" + ONE[1:], "TABLE: says 2 buckets, 1 are there"),
        (bytes(7) + b"\x80", "TABLE: says -9223372036854775808 buckets, 0 are there"),
        (b"\x02" + ONE[1:] + ONE[8:], "TABLE: the bucket at 30 does not ascend"),
        (ONE[:12] + b"\x3b" + ONE[13:], "TABLE: the bucket at 8 has kind 12347 and 1 containers"),
        (ONE[:16] + bytes(4) + ONE[20:], "TABLE: the bucket at 8 has kind 12346 and 0 containers"),
        (ONE[:16] + b"\xff\xff\x00\x00" + ONE[20:], "TABLE: needs 524292 bytes at offset 8, 22 are left"),
        (ONE[:24] + b"\x11" + ONE[25:], "TABLE: the bucket at 8 has a container 21862 behind -1, 1 values at 17"),
        (ONE[:22] + b"\x01\x00" + ONE[24:] + ONE[-2:], "TABLE: the value at 30 does not ascend"),
    ],
)
def test_what_is_no_set_is_refused_with_a_sentence(raw: bytes, sentence: str) -> None:
    with pytest.raises(InvalidFrame) as caught:
        decode_hashes(raw)
    assert caught.value.text == sentence


def test_a_container_has_as_many_values_as_a_list_may_have() -> None:
    full = BitMap64(range(0, 2 * MAX_CONTAINER_N, 2))
    assert len(decode_hashes(full.serialize())) == MAX_CONTAINER_N
    full.add(1)
    with pytest.raises(InvalidFrame, match=r"a container 0 behind -1, 4097 values"):
        decode_hashes(full.serialize())
