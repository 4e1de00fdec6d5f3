"""Frames of other programs and of the specification's diagrams: whole, cut short, damaged."""

from collections.abc import Iterator

import pytest

from rsocket_wire.errors import BrokerError, InvalidFrame, UnsupportedVersion
from rsocket_wire.wire import frames
from rsocket_wire.wire.ids import parse_id
from rsocket_wire.wire.keys import LB_METHOD, REGION, ROUTE_ID, SERVICE_NAME, Key
from rsocket_wire.wire.tags import Tag
from tests.rsocket_wire.wire.vectors import FOREIGN, SEED, Vector, by_name, composites, cut_frame, foreign

ONE = parse_id("00000000-0000-0000-0000-000000000001")
JS_ID = parse_id("11223344-5566-7788-99aa-bbccddeeff00")
PONG = Tag(SERVICE_NAME, b"pong")

DESCRIBED = foreign("java-encode") + foreign("js-encode") + foreign("spec-layout") + SEED

# What the composite blocks of broker_frames.json carry.
INSIDE: dict[str, frames.BrokerFrame] = {
    "js_setup_composite": frames.RouteSetup(JS_ID, "web", [], minor=frames.MINOR_JS),
    "js_request_composite": frames.Address(JS_ID, [PONG], minor=frames.MINOR_JS),
    "composite_address_service_unicast": by_name("address_service_unicast").expected(),
    "composite_info_uris": by_name("info_uris").expected(),
}

# What we make of bytes that should not have been written, or that Java reads in its own way. None: refused.
ODD: dict[str, frames.BrokerFrame | None] = {
    # Java writes an empty value as nothing at all: the next key is read as the value, and nothing tells.
    "setup_empty_value_first": frames.RouteSetup(ONE, "s", [Tag(Key.text("k1"), b"k2"), Tag(Key.text("v2"), None)]),
    # The value was too long for Java, so it wrote the key alone: null (D-07), which is at least not wrong.
    "setup_value_128": frames.RouteSetup(ONE, "s", [Tag(Key.text("k1"), None)]),
    # Java skipped an entry that it had announced.
    "setup_key_128_not_first": None,
    # D-21.
    "dec_js_address": frames.Address(JS_ID, [PONG], minor=frames.MINOR_JS),
    # Region is no hint, so nothing tells that it was meant as metadata.
    "dec_js_metadata_then_tags": frames.Address(JS_ID, [Tag(REGION, b"eu"), PONG], minor=frames.MINOR_JS),
    # Its RouteId is 02 without the W bit; it cannot write text keys, so this is no text of two bytes.
    "dec_js_name_routeid_2": frames.Address(JS_ID, [Tag(ROUTE_ID, b"abc")], minor=frames.MINOR_JS),
    # Java takes the first of two maps for the tags (D-03).
    "dec_spec_metadata_and_tags": frames.Address(ONE, [PONG], [Tag(LB_METHOD, b"roundrobin")]),
    "dec_spec_empty_metadata_8000": frames.Address(ONE, [PONG]),
    # One map and other bytes behind it: then it is metadata, and what follows must be a map (here it is not).
    "dec_wrapped_metadata": None,
    "dec_key_no_value": frames.Address(ONE, [Tag(SERVICE_NAME, None)]),  # D-07
    # D-05: ids without a name stay what they are.
    "dec_reserved_key_16": frames.Address(ONE, [Tag(Key.well_known(0x16), b"pong")]),
    "dec_two_reserved_keys": frames.Address(ONE, [Tag(Key.well_known(0x16), b"a"), Tag(Key.well_known(0x17), b"b")]),
    "dec_ext_7c": frames.Address(ONE, [Tag(Key.extension(0x7C, 1), b"a")]),
    "dec_type_33": None,
    "dec_short_header": None,
    "dec_truncated_id": None,
    "dec_more_bit_at_end": None,
    "dec_version_1_0": None,  # D-04
    # Without tags, the incompatible Python library happens to write what everybody writes.
    "py_setup_no_tags": frames.RouteSetup(JS_ID, "pong", []),
    # Its BROKER_INFO says that it is an ADDRESS; behind the origin id stands a timestamp, so a key of no bytes.
    "py_info_one_custom": None,
}


@pytest.mark.parametrize("vector", DESCRIBED, ids=repr)
def test_vector_decodes_to_what_was_put_in(vector: Vector) -> None:
    assert frames.decode_frame(vector.data) == vector.expected()


@pytest.mark.parametrize("vector", [vector for vector in DESCRIBED if vector.encodes_back], ids=repr)
def test_value_encodes_to_the_bytes_of_the_vector(vector: Vector) -> None:
    assert vector.expected().encode().hex() == vector.data.hex()


@pytest.mark.parametrize("vector", [vector for vector in DESCRIBED if not vector.encodes_back], ids=repr)
def test_other_writing_of_a_frame_encodes_to_ours_which_means_the_same(vector: Vector) -> None:
    frame = frames.decode_frame(vector.data)
    if vector.name == "js_address_value_200":
        with pytest.raises(BrokerError, match=r"bad-tag: io\.rsocket\.routing\.ServiceName: the value has 200 bytes"):
            frame.encode()
    else:
        again = frames.decode_frame(frame.encode())
        assert (again.fields(), again.flags, again.minor) == (frame.fields(), frame.flags, frames.MINOR)


@pytest.mark.parametrize("vector", composites(), ids=repr)
def test_frame_inside_a_composite_block_decodes(vector: Vector) -> None:
    assert frames.decode_frame(cut_frame(vector.data)) == INSIDE[vector.name]


@pytest.mark.parametrize("name", sorted(ODD))
def test_odd_bytes_are_refused_or_read_as_the_table_says(name: str) -> None:
    expected = ODD[name]
    if expected is None:
        with pytest.raises(InvalidFrame):
            frames.decode_frame(by_name(name).data)
    else:
        assert frames.decode_frame(by_name(name).data) == expected


def test_every_vector_of_other_programs_has_a_test() -> None:
    raised = {"setup_null_value", "setup_name_256"}  # Java's encoder raised, there are no bytes
    described = {vector.name for vector in DESCRIBED}
    assert {vector.name for vector in FOREIGN} <= described | set(INSIDE) | set(ODD) | raised
    assert [by_name(name).data for name in sorted(raised)] == [b"", b""]


def test_major_version_1_is_refused_with_both_numbers() -> None:
    with pytest.raises(UnsupportedVersion, match=r"bad-version: version 1\.0 is not supported, 0\.1 is"):
        frames.decode_frame(by_name("dec_version_1_0").data)


def test_every_frame_type_and_both_layouts_have_a_seed_vector() -> None:
    assert {type(vector.expected()) for vector in SEED} == {
        frames.RouteSetup,
        frames.RouteAdd,
        frames.RouteRemove,
        frames.BrokerInfo,
        frames.Address,
    }
    layouts = {
        (bool(frame.metadata), bool(frame.tags), bool(frame.wrapped))
        for frame in [vector.expected() for vector in SEED]
        if isinstance(frame, frames.Address)
    }
    # All of the eight but metadata and wrapped metadata without tags.
    assert len(layouts) == 7


@pytest.mark.parametrize("vector", [*SEED, *FOREIGN], ids=repr)
def test_every_truncation_is_a_frame_or_refused(vector: Vector) -> None:
    for end in range(len(vector.data)):
        assert_frame_or_refused(vector.data[:end])


@pytest.mark.parametrize("vector", [*SEED, *FOREIGN], ids=repr)
def test_every_damaged_byte_is_a_frame_or_refused(vector: Vector) -> None:
    for damaged in damages(vector.data):
        assert_frame_or_refused(damaged)


def damages(data: bytes) -> Iterator[bytes]:
    """One byte changed at a time: each bit alone, and the values where lengths and bits change their meaning."""
    for at, byte in enumerate(data):
        others = {byte ^ 1 << bit for bit in range(8)} | {0x00, 0x01, 0x7C, 0x7F, 0x80, 0xFC, 0xFF}
        for other in others:
            yield data[:at] + bytes([other]) + data[at + 1 :]


def assert_frame_or_refused(data: bytes) -> None:
    """A frame that is read can be written again with the same meaning, or is refused by the encoder with a word."""
    word = ""
    try:
        frame = frames.decode_frame(data)
    except InvalidFrame as error:
        word = error.word
    if word:
        assert word in ("bad-frame", "bad-version")
        return
    try:
        again = frames.decode_frame(frame.encode())
    except BrokerError as error:
        word = error.word
    if word:
        # Only the JS client's long values, and a hint of it that is null, are read but cannot be written.
        assert (word, frame.minor) == ("bad-tag", frames.MINOR_JS)
        return
    assert (again.kind, again.fields(), again.flags) == (frame.kind, frame.fields(), frame.flags)
