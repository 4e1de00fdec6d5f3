"""Tags, and maps of them on the wire."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.buffer import Reader, Writer
from rsocket_wire.wire.keys import NO_TAG, REGION, SERVICE_NAME, ZONE, Key
from rsocket_wire.wire.tags import MAX_TAGS, Tag, check_values, decode_flat_map, decode_map, encode_map, filled

KEYS = st.one_of(
    st.integers(1, 0x7E).filter(lambda id: id != 0x7C).map(Key.well_known),
    st.builds(Key.extension, st.sampled_from([0x7C, 0x7F]), st.integers(0, 0xFFFF)),
    st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=31).map(Key.text),
)
METADATA = st.builds(Tag, KEYS, st.binary(max_size=127))
TAGS = st.builds(Tag, KEYS, st.text(alphabet=st.characters(codec="utf-8"), max_size=31).map(str.encode))


def written(tags: list[Tag], *, last: bool) -> str:
    writer = Writer()
    encode_map(writer, tags, last)
    return writer.to_bytes().hex()


def read(data: str, *, utf8: bool = True, to_end: bool = False) -> tuple[list[Tag], int]:
    """The entries and how many bytes were left."""
    reader = Reader(bytes.fromhex(data))
    return decode_map(reader, "tags", utf8, to_end), reader.left


def test_tag_of_a_person_is_the_tag_of_the_wire() -> None:
    assert Tag.of("region", "eu") == Tag(REGION, b"eu")
    assert Tag.of(REGION, None) == Tag(REGION, None)
    assert Tag.of("clé", "値") == Tag(Key.text("clé"), "値".encode())
    with pytest.raises(BrokerError, match="bad-tag: the value of user"):
        Tag.of("user", "\udfff")


def test_null_empty_and_text_are_three_values() -> None:
    null, empty, text = Tag(REGION, None), Tag(REGION, b""), Tag(REGION, b"eu")
    assert len({null, empty, text}) == 3
    assert [tag.value for tag in (null, empty, text)] == [None, "", "eu"]
    assert [repr(tag) for tag in (null, empty, text)] == ["region", "region=", "region=eu"]
    assert null != "region"


def test_null_values_are_written_as_empty_ones_where_something_follows() -> None:
    """D-07: for whoever passes on what others have said."""
    tags = [Tag(REGION, None), Tag(ZONE, b"a"), Tag(ZONE, None)]
    assert written(filled(tags), last=False) == "8680" + "878161" + "8700"
    assert [tag.token() for tag in filled(tags)] == [tag.token() for tag in tags]


def test_tags_that_do_not_match_have_other_tokens() -> None:
    tags = [
        Tag(REGION, b"eu"),
        Tag(ZONE, b"eu"),
        Tag(REGION, b"e"),
        Tag(Key.text("Region"), b"eu"),
        Tag(Key.text("a"), b"\x00b"),
        Tag(Key.text("a\x00"), b"b"),
        Tag(Key.extension(0x7C, 0), b""),
        Tag(Key.well_known(0x7B), b"\x00\x00"),
    ]
    assert len({tag.token() for tag in tags}) == len(tags)


def test_metadata_value_that_is_no_text_is_shown_all_the_same() -> None:
    assert Tag(REGION, b"a\xff").value == "a\ufffd"


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(METADATA, max_size=8), st.binary(max_size=8))
def test_map_in_the_middle_is_read_again_and_leaves_the_rest(tags: list[Tag], rest: bytes) -> None:
    data = written(tags, last=False) + rest.hex()
    assert read(data, utf8=False) == (tags, len(rest))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(TAGS, max_size=8), st.booleans(), st.booleans())
def test_map_at_the_end_is_read_again(tags: list[Tag], null_at_the_end: bool, to_end: bool) -> None:
    if null_at_the_end:
        tags = [*tags, Tag(ZONE, None)]
    assert read(written(tags, last=True), to_end=to_end) == (tags, 0)


def test_map_without_entries() -> None:
    assert written([], last=True) == ""
    assert written([], last=False) == "8000"
    assert read("") == ([], 0)
    assert read("", to_end=True) == ([], 0)
    assert read("8000") == ([], 0)
    assert read("80") == ([], 0)
    assert read("800081") == ([], 1)


def test_more_bit_ends_the_map_in_the_middle_only() -> None:
    assert read("860165 870166") == ([Tag(REGION, b"e")], 3)
    assert read("860165 870166", to_end=True) == ([Tag(REGION, b"e"), Tag(ZONE, b"f")], 0)


@pytest.mark.parametrize("to_end", [False, True])
@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("00", "tags: the key at offset 0 has no bytes"),
        ("868165 00", "tags: the key at offset 3 has no bytes"),
        ("046162", "tags: key: needs 5 bytes at offset 0, 3 are left"),
        ("fc00", "tags: key: needs 3 bytes at offset 0, 2 are left"),
        ("ff", "tags: key: needs 3 bytes at offset 0, 1 are left"),
        ("860265", "tags: value of io.rsocket.routing.Region: needs 2 bytes at offset 2, 1 are left"),
        ("868165", "tags: entry 2 was announced, but the frame ends at offset 3"),
        ("8080", "tags: entry 2 was announced, but the frame ends at offset 2"),
        ("02c3280161", "tags: key: byte 0 of 2 is not UTF-8"),
        ("8602c328", "tags: value of io.rsocket.routing.Region: byte 0 of 2 is not UTF-8"),
    ],
)
def test_map_that_cannot_be_read_says_where_and_leaves_the_cursor(data: str, text: str, to_end: bool) -> None:
    reader = Reader(bytes.fromhex(data))
    with pytest.raises(InvalidFrame) as caught:
        decode_map(reader, "tags", True, to_end)
    assert (caught.value.word, caught.value.text, reader.at) == ("bad-frame", text, 0)


def test_map_of_128_entries_is_the_largest() -> None:
    tags = [Tag(Key.extension(0x7C, number), b"v") for number in range(MAX_TAGS)]
    data = written(tags, last=True)
    assert read(data) == (tags, 0)
    with pytest.raises(InvalidFrame, match="more than 128 entries"):
        read("868165" + data)
    with pytest.raises(InvalidFrame, match="more than 128 entries"):
        read("860165" + data, to_end=True)
    with pytest.raises(BrokerError, match="bad-tag: a map of 129 entries, 128 are allowed"):
        written([*tags, tags[0]], last=True)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("tags", "text"),
    [
        (
            [Tag(REGION, None), Tag(ZONE, b"a")],
            "the value of tag region is null (None), as only the last of a frame can be; give it a text, or leave "
            "the tag out",
        ),
        ([Tag(REGION, b"v" * 128)], "io.rsocket.routing.Region: the value has 128 bytes, 127 fit"),
        ([Tag(NO_TAG, b"")], "key 0x00 says that there is no tag, it cannot be one"),
    ],
)
def test_map_that_cannot_be_written_is_refused_and_nothing_written(tags: list[Tag], text: str, last: bool) -> None:
    writer = Writer()
    with pytest.raises(BrokerError) as caught:
        encode_map(writer, tags, last)
    assert (caught.value.word, caught.value.text, writer.to_bytes()) == ("bad-tag", text, b"")


def test_flat_map_of_the_js_client() -> None:
    """D-21: no more bit, lengths of 8 bits, keys are ids with or without their first bit."""
    reader = Reader(bytes.fromhex("8102 6f6b 02c8" + "78" * 200 + "8000 86"))
    tags = decode_flat_map(reader, "tags")
    assert tags == [Tag(SERVICE_NAME, b"ok"), Tag(Key.well_known(2), b"x" * 200), Tag(REGION, None)]
    assert reader.left == 0
    assert decode_flat_map(Reader(b""), "tags") == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("860265", "tags: value of io.rsocket.routing.Region: needs 2 bytes at offset 2, 1 are left"),
        ("7c0001", "tags: extension key 0x7c at offset 0, which this client cannot write"),
        ("860165ff", "tags: extension key 0x7f at offset 3, which this client cannot write"),
        ("8600" * 129, "tags: more than 128 entries"),
    ],
)
def test_flat_map_that_cannot_be_read(data: str, text: str) -> None:
    reader = Reader(bytes.fromhex(data))
    with pytest.raises(InvalidFrame) as caught:
        decode_flat_map(reader, "tags")
    assert (caught.value.text, reader.at) == (text, 0)


def test_values_are_checked_when_metadata_turns_out_to_be_tags() -> None:
    check_values([Tag(REGION, None), Tag(ZONE, "é".encode())], "tags")
    with pytest.raises(InvalidFrame, match=r"tags: value of io\.rsocket\.routing\.Zone: byte 0 of 1 is not UTF-8"):
        check_values([Tag(REGION, b"a"), Tag(ZONE, b"\xff")], "tags")
