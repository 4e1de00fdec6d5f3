"""The five frames: round trips, what the encoder refuses, what the decoder says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire import frames
from rsocket_wire.wire.frames import MINOR_JS, Address, BrokerInfo, RouteAdd, RouteRemove, RouteSetup, decode_frame
from rsocket_wire.wire.ids import parse_id
from rsocket_wire.wire.keys import LB_METHOD, REGION, SERVICE_NAME, SHARD_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.rsocket_wire.wire import test_tags

ID = parse_id("00112233-4455-6677-8899-aabbccddeeff")
BROKER = parse_id("b0b1b2b3-b4b5-b6b7-b8b9-babbbcbdbebf")
ORDERS = Tag(SERVICE_NAME, b"orders")
HEADER = "00000001"
REGION_NO_TEXT = "tags: value of io.rsocket.routing.Region: byte 0 of 2 is not UTF-8"

IDS = st.binary(min_size=16, max_size=16)
TIMES = st.integers(0, frames.MAX_TIMESTAMP_MS)
NAMES = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=63)
TAGS, METADATA = st.lists(test_tags.TAGS), st.lists(test_tags.METADATA)
FLAGS = st.integers(0, frames.MAX_FLAGS)
FRAMES = st.one_of(
    st.builds(RouteSetup, IDS, NAMES, TAGS, FLAGS),
    st.builds(RouteAdd, IDS, IDS, TIMES, NAMES, TAGS, FLAGS),
    st.builds(RouteRemove, IDS, IDS, TIMES, FLAGS),
    st.builds(BrokerInfo, IDS, TIMES, METADATA, FLAGS),
    st.builds(Address, IDS, TAGS, METADATA, st.binary(max_size=40), FLAGS),
    st.builds(Address, IDS, TAGS),
)


@settings(derandomize=True, deadline=None, max_examples=75)
@given(FRAMES)
def test_frame_written_is_read_again(frame: frames.BrokerFrame) -> None:
    data = frame.encode()
    again = decode_frame(data)
    assert again == frame
    assert again.encode() == data


@settings(derandomize=True, deadline=None, max_examples=125)
@given(st.integers(0, 7), st.sampled_from([0, 1, MINOR_JS]), st.binary(max_size=80))
def test_any_bytes_behind_a_header_are_a_frame_or_refused(kind: int, minor: int, tail: bytes) -> None:
    data = bytes(2) + minor.to_bytes(2, "big") + bytes([kind << 2, 0x80]) + tail
    found, word = kind, "bad-frame"
    try:
        found = decode_frame(data).kind
    except InvalidFrame as error:
        word = error.word
    assert (found, word) == (kind, "bad-frame")


def test_frames_are_equal_by_all_they_say() -> None:
    frame = Address(ID, [ORDERS])
    assert frame == Address(ID, [ORDERS], [], b"", frames.UNICAST)
    assert hash(frame) == hash(Address(ID, [ORDERS]))
    for other in (
        Address(BROKER, [ORDERS]),
        Address(ID, []),
        Address(ID, [ORDERS], [Tag(LB_METHOD, b"x")]),
        Address(ID, [ORDERS], wrapped=b"x"),
        Address(ID, [ORDERS], flags=frames.SHARD),
        Address(ID, [ORDERS], minor=2),
        RouteSetup(ID, "orders", [ORDERS]),
        "frame",
    ):
        assert frame != other


def test_frame_is_shown_for_eyes() -> None:
    assert repr(RouteSetup(ID, "orders", [Tag(REGION, b"eu"), Tag(Key.text("user"), None)])) == (
        "ROUTE_SETUP(0.1 flags=0x000 route_id=00112233-4455-6677-8899-aabbccddeeff service_name=orders"
        " tags=[region=eu, user])"
    )
    assert repr(RouteRemove(b"\x01", ID, 5)) == (
        "ROUTE_REMOVE(0.1 flags=0x000 broker_id=01 route_id=00112233-4455-6677-8899-aabbccddeeff timestamp_ms=5)"
    )


def test_null_tag_at_the_end_of_an_address_is_written_unless_something_follows() -> None:
    null = Tag(REGION, None)
    for frame in (Address(ID, [ORDERS, null]), Address(ID, [null], [Tag(LB_METHOD, b"a")])):
        assert decode_frame(frame.encode()) == frame
    for frame in (Address(ID, [ORDERS, null], wrapped=b"x"), Address(ID, [ORDERS], [null]), Address(ID, [], [null])):
        with pytest.raises(BrokerError, match=r"bad-tag: .*is null .* only the last of a frame"):
            frame.encode()


@pytest.mark.parametrize(
    ("frame", "word", "text"),
    [
        (RouteSetup(b"", "s", []), "bad-id", "ROUTE_SETUP route id: has 0 bytes, an id has 16"),
        (RouteAdd(ID + b"x", ID, 1, "s", []), "bad-id", "ROUTE_ADD broker id: has 17 bytes, an id has 16"),
        (RouteAdd(ID, ID[1:], 1, "s", []), "bad-id", "ROUTE_ADD route id: has 15 bytes, an id has 16"),
        (RouteRemove(ID[1:], ID, 1), "bad-id", "ROUTE_REMOVE broker id: has 15 bytes, an id has 16"),
        (RouteRemove(ID, ID[1:], 1), "bad-id", "ROUTE_REMOVE route id: has 15 bytes, an id has 16"),
        (BrokerInfo(b"", 1, []), "bad-id", "BROKER_INFO broker id: has 0 bytes, an id has 16"),
        (Address(b"", []), "bad-id", "ADDRESS origin route id: has 0 bytes, an id has 16"),
        (RouteSetup(ID, "", []), "bad-name", "ROUTE_SETUP service name: has 0 bytes, 1..255 are allowed"),
        (RouteSetup(ID, "é" * 128, []), "bad-name", "ROUTE_SETUP service name: has 256 bytes, 1..255 are allowed"),
        (RouteAdd(ID, ID, 1, "", []), "bad-name", "ROUTE_ADD service name: has 0 bytes, 1..255 are allowed"),
        (RouteSetup(ID, "a\ud800", []), "bad-name", "ROUTE_SETUP service name: character 1 cannot be written in UTF-8"),
        (RouteAdd(ID, ID, -1, "s", []), "bad-time", "ROUTE_ADD timestamp: -1 ms is not in 0..2**63-1"),
        (RouteRemove(ID, ID, 2**63), "bad-time", f"ROUTE_REMOVE timestamp: {2**63} ms is not in 0..2**63-1"),
        (BrokerInfo(ID, 2**64, []), "bad-time", f"BROKER_INFO timestamp: {2**64} ms is not in 0..2**63-1"),
        (Address(ID, [], flags=0x400), "bad-flags", "ADDRESS: flags 0x400 do not fit 10 bits"),
        (Address(ID, [], flags=-1), "bad-flags", "ADDRESS: flags -0x1 do not fit 10 bits"),
        (
            BrokerInfo(ID, 1, [Tag(REGION, b"v" * 128)]),
            "bad-tag",
            "io.rsocket.routing.Region: the value has 128 bytes, 127 fit",
        ),
        (RouteSetup(ID, "s", [ORDERS] * 129), "bad-tag", "a map of 129 entries, 128 are allowed"),
    ],
    ids=str,
)
def test_frame_that_cannot_be_written_is_refused_with_numbers(frame: frames.BrokerFrame, word: str, text: str) -> None:
    with pytest.raises(BrokerError) as caught:
        frame.encode()
    assert (caught.value.word, caught.value.text) == (word, text)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (HEADER + "1480" + "00" * 15, "ADDRESS origin route id: needs 16 bytes at offset 6, 15 are left"),
        (HEADER + "0400" + "00" * 16, "ROUTE_SETUP service name: needs 1 bytes at offset 22, 0 are left"),
        (HEADER + "0400" + "00" * 17, "ROUTE_SETUP service name: is empty"),
        (HEADER + "0400" + "00" * 16 + "0261", "ROUTE_SETUP service name: needs 2 bytes at offset 23, 1 are left"),
        (HEADER + "0400" + "00" * 16 + "02c328", "ROUTE_SETUP service name: byte 0 of 2 is not UTF-8"),
        (HEADER + "0800" + "00" * 32 + "80" + "00" * 7, f"ROUTE_ADD timestamp: {2**63} ms is beyond 2**63-1"),
        (HEADER + "0c00" + "00" * 41, "ROUTE_REMOVE: ends at offset 46, but 1 more bytes follow"),
        (HEADER + "1000" + "00" * 16 + "ff" * 8, f"BROKER_INFO timestamp: {2**64 - 1} ms is beyond 2**63-1"),
        (HEADER + "1480" + "00" * 16 + "860165" + "8602c328", f"ADDRESS {REGION_NO_TEXT}"),
        (HEADER + "1480" + "00" * 16 + "8602c328", f"ADDRESS {REGION_NO_TEXT}"),
        (HEADER + "1480" + "00" * 16 + "860165" + "00", "ADDRESS tags: the key at offset 25 has no bytes"),
        ("00001c01" + "1480" + "00" * 16 + "8602c328", f"ADDRESS {REGION_NO_TEXT}"),
        ("00001c01" + "0400" + "00" * 16 + "0161" + "8602c328", f"ROUTE_SETUP {REGION_NO_TEXT}"),
    ],
)
def test_bytes_that_are_no_frame_are_refused_with_numbers(data: str, text: str) -> None:
    with pytest.raises(InvalidFrame) as caught:
        decode_frame(bytes.fromhex(data))
    assert (caught.value.word, caught.value.text) == ("bad-frame", text)


def test_hints_of_the_js_client_are_metadata_when_they_lead() -> None:
    """D-21."""
    start = bytes.fromhex("00001c01" + "1420") + ID
    hint, tag = b"\x9b\x06region", b"\x86\x02eu"
    shard, region = Tag(SHARD_KEY, b"region"), Tag(REGION, b"eu")
    assert decode_frame(start + hint + tag) == Address(ID, [region], [shard], b"", frames.SHARD, MINOR_JS)
    assert decode_frame(start + tag + hint) == Address(ID, [region, shard], [], b"", frames.SHARD, MINOR_JS)
    assert decode_frame(start) == Address(ID, [], [], b"", frames.SHARD, MINOR_JS)


def test_broker_info_of_the_js_version_is_read_like_its_other_maps() -> None:
    """D-21."""
    data = bytes.fromhex("00001c01" + "1000") + BROKER + bytes(8) + b"\x04\x02c1\x86\x01\xff"
    expected = BrokerInfo(BROKER, 0, [Tag(Key.well_known(4), b"c1"), Tag(REGION, b"\xff")], minor=MINOR_JS)
    assert decode_frame(data) == expected


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.builds(Address, IDS, TAGS, METADATA, st.binary(min_size=1, max_size=40), FLAGS))
def test_where_wrapped_metadata_begins_is_known_once_both_maps_have_come(address: Address) -> None:
    raw = address.encode()
    maps = len(raw) - len(address.wrapped)
    assert [frames.find_wrapped(raw[:size]) for size in range(maps, len(raw) + 1)] == [maps] * (len(raw) - maps + 1)
    cut = decode_frame(raw[:maps])
    assert isinstance(cut, Address)
    assert (cut.tags, cut.metadata, cut.wrapped) == (address.tags, address.metadata, b"")
    for size in range(maps):
        assert frames.find_wrapped(raw[:size]) == -1


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        RouteSetup(ID, "orders", [ORDERS]).encode(),
        Address(ID, [ORDERS]).encode(),  # one map: nothing is wrapped
        Address(ID, [ORDERS], [], b"x").encode()[:-1].replace(bytes.fromhex("00000001"), bytes.fromhex("00010001"), 1),
        Address(ID, [ORDERS], [Tag(REGION, b"eu")]).encode() + b"\x00",
    ],
)
def test_nothing_is_wrapped_in_what_is_no_address_or_has_one_map(raw: bytes) -> None:
    assert frames.find_wrapped(raw) == (-1 if not raw.endswith(b"\x00") else len(raw) - 1)


def test_a_key_at_the_end_of_what_has_come_has_a_value_that_is_to_come() -> None:
    """D-07 holds where the frame ends."""
    raw = Address(ID, [ORDERS, Tag(REGION, b"eu")], [], b"wrapped").encode()
    key_to = raw.index(b"eu") - 1
    assert frames.find_wrapped(raw[:key_to]) == -1
