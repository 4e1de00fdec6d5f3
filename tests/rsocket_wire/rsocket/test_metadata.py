"""Finding the broker's frame in composite metadata (extension "Composite Metadata")."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.rsocket.metadata import (
    ABSENT,
    BROKEN,
    COMPOSITE_MIME,
    CUT,
    MAX_ENTRIES,
    STREAM_DATA_MIME_ID,
    broker_frames,
    encode_entry,
    encode_well_known_entry,
    entries,
    find_broker_frame,
)
from rsocket_wire.rsocket.mimes import WELL_KNOWN_MIMES

MIME = b"message/x.rsocket.forwarding"
MIME_V0 = b"message/x.rsocket.broker.frame.v0"
ROUTING = encode_well_known_entry(0x7E, b"\x05hello")
JSON = encode_entry(b"application/x.json", b"{}")
EMPTY = encode_well_known_entry(0x00, b"")


def find(metadata: bytes) -> bytes | int:
    """The content of the frame found, between other bytes; or ABSENT, CUT, BROKEN."""
    data = b"\x9b" * 5 + metadata + b"\x9b" * 40
    at, to, _ = find_broker_frame(data, 5, 5 + len(metadata))
    if at < 0:
        assert to == 0
        return at
    assert 5 <= at <= to <= 5 + len(metadata)
    return data[at:to]


def test_entries_are_written_as_the_extension_draws_them() -> None:
    assert encode_entry(b"a/b", b"hi") == bytes.fromhex("02 612f62 000002 6869")
    assert encode_entry(b"x" * 128, b"") == b"\x7f" + b"x" * 128 + bytes(3)
    assert encode_well_known_entry(0x7E, b"hi") == bytes.fromhex("fe 000002 6869")


def test_ids_and_names_are_those_of_the_extensions() -> None:
    assert COMPOSITE_MIME == "message/x.rsocket.composite-metadata.v0"
    assert WELL_KNOWN_MIMES["message/x.rsocket.mime-type.v0"] == STREAM_DATA_MIME_ID


@pytest.mark.parametrize("mime", [MIME, MIME_V0])
def test_frame_of_either_mime_type_is_found_among_others(mime: bytes) -> None:
    """D-02."""
    entry = encode_entry(mime, b"frame")
    for metadata in (entry, ROUTING + entry, JSON + entry, EMPTY + ROUTING + JSON + entry + ROUTING, entry + b"\x7f"):
        assert find(metadata) == b"frame"
    assert find(encode_entry(mime, b"")) == b""


def test_last_frame_wins() -> None:
    """D-69."""
    assert find(ROUTING + encode_entry(MIME_V0, b"one") + encode_entry(MIME, b"two") + ROUTING) == b"two"
    assert find(ROUTING + encode_entry(MIME, b"one") + encode_entry(MIME_V0, b"two") + JSON) == b"two"
    assert find(ROUTING + encode_entry(MIME, b"one") + encode_entry(MIME_V0, b"two")[:-1]) == b"one"


def test_frames_are_listed_with_what_has_come_of_the_last_one() -> None:
    metadata = encode_entry(MIME, b"one") + ROUTING + encode_entry(MIME_V0, b"") + JSON + encode_entry(MIME, b"three")
    both = [b"one", b""]
    for less, found in ((0, [*both, b"three"]), (2, [*both, b"thr"]), (5, [*both, b""]), (6, both)):
        cut = metadata[: len(metadata) - less]
        assert [cut[at:to] for at, to in broker_frames(cut)] == found


@pytest.mark.parametrize("mime", [MIME, MIME_V0])
def test_mime_type_is_compared_whole(mime: bytes) -> None:
    for other in (mime[:-1], mime + b"x", mime[:-1] + b"x", b"X" + mime[1:], mime.upper()):
        assert find(encode_entry(other, b"frame")) == ABSENT


def test_bytes_of_a_mime_type_within_other_content_are_not_an_entry() -> None:
    assert find(encode_entry(b"a/b", encode_entry(MIME, b"frame"))) == ABSENT
    assert find(encode_well_known_entry(1, encode_entry(MIME, b"frame"))) == ABSENT


def test_metadata_without_a_frame_is_whole() -> None:
    assert [find(b""), find(ROUTING), find(ROUTING + JSON + EMPTY)] == [ABSENT] * 3


@pytest.mark.parametrize("mime", [MIME, MIME_V0])
def test_metadata_that_is_cut_says_so_at_every_byte(mime: bytes) -> None:
    before = [b"", ROUTING, ROUTING + JSON]
    metadata = ROUTING + JSON + encode_entry(mime, b"frame")
    for size in range(len(metadata)):
        assert find(metadata[:size]) == (ABSENT if metadata[:size] in before else CUT)
    assert find(metadata) == b"frame"


def test_as_many_entries_as_allowed_are_looked_through() -> None:
    assert find(EMPTY * MAX_ENTRIES) == ABSENT
    assert find(EMPTY * (MAX_ENTRIES - 1) + encode_entry(MIME, b"frame")) == b"frame"
    assert find(EMPTY * MAX_ENTRIES + encode_entry(MIME, b"frame")) == BROKEN
    assert find(EMPTY * (MAX_ENTRIES + 1)) == BROKEN
    assert find(EMPTY * MAX_ENTRIES + b"\x80") == BROKEN
    assert find(encode_entry(MIME, b"frame") + EMPTY * MAX_ENTRIES) == BROKEN


def test_entries_of_whole_metadata_are_listed() -> None:
    found = entries(ROUTING + JSON + EMPTY)
    assert found is not None
    assert [(entry.id, entry.mime, entry.begin, entry.start, entry.end) for entry in found] == [
        (0x7E, b"", 0, 4, 10),
        (-1, b"application/x.json", 10, 32, 34),
        (0x00, b"", 34, 38, 38),
    ]
    assert entries(b"") == []


def test_entries_of_metadata_that_is_cut_are_none() -> None:
    metadata = ROUTING + JSON
    for size in range(1, len(metadata)):
        assert (entries(metadata[:size]) is None) == (size != len(ROUTING))


def test_more_entries_than_allowed_are_none() -> None:
    found = entries(EMPTY * MAX_ENTRIES)
    assert found is not None
    assert len(found) == MAX_ENTRIES
    assert entries(EMPTY * (MAX_ENTRIES + 1)) is None


@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    st.lists(
        st.binary(max_size=9)
        | st.sampled_from([ROUTING, JSON, EMPTY, encode_entry(MIME, b"one"), encode_entry(MIME_V0, b"two")]),
        max_size=6,
    )
)
def test_any_bytes_are_searched_as_they_are_listed(pieces: list[bytes]) -> None:
    metadata = b"".join(pieces)
    found = find(metadata)
    listed = entries(metadata)
    if listed is None:
        assert found == CUT or isinstance(found, bytes)  # what lies before the cut is good
        return
    frames = [metadata[entry.start : entry.end] for entry in listed if entry.mime in (MIME, MIME_V0)]
    assert found == (frames[-1] if frames else ABSENT)
    assert [metadata[at:to] for at, to in broker_frames(metadata)] == frames
