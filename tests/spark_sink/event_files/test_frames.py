import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sink.errors import BadFrame
from spark_sink.event_files.frames import MAX_FRAME_BYTES, FrameSplitter, decode_header, decode_rows
from tests.spark_sink.records import HEADER, events, framed, header_frame, pulled, rows_frame


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(1, 20))
def test_frames_come_out_whole_however_the_bytes_come_in(frames: list[bytes], piece_bytes: int) -> None:
    stream = b"".join(map(framed, frames))
    splitter = FrameSplitter()
    found = []
    for start in range(0, len(stream), piece_bytes):
        splitter.add(stream[start : start + piece_bytes])
        found += pulled(splitter)
    assert (found, splitter.left_bytes) == (frames, 0)


@pytest.mark.parametrize("length", [0, MAX_FRAME_BYTES + 1, 0xFFFFFFFF])
def test_impossible_length_is_refused_with_the_number(length: int) -> None:
    splitter = FrameSplitter()
    splitter.add(length.to_bytes(4, "big"))
    with pytest.raises(BadFrame, match=str(length)):
        splitter.pull()


def test_header_is_read() -> None:
    assert decode_header(header_frame()[4:]) == HEADER


@pytest.mark.parametrize(
    "change, text",
    [
        ({"format": 2}, "format 2"),
        ({"broker_id": "../x"}, "cannot begin a file name"),
        ({"broker_id": ""}, "cannot begin a file name"),
        ({"broker_id": ".x"}, "cannot begin a file name"),
        ({"epoch": -1}, "epoch -1"),
        ({"first_number": 0}, "segment 0"),
        ({"first_frame": 0}, "frame 0"),
        ({"weight": 0}, "weight 0"),
        ({"epoch": "now"}, "no header"),
    ],
)
def test_header_that_cannot_be_used_is_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(BadFrame, match=text):
        decode_header(header_frame(**change)[4:])


def test_rows_are_the_records_field_by_field() -> None:
    records = events(seed=1, count=20)
    rows = decode_rows(rows_frame(records))
    assert [msgspec.structs.astuple(row) for row in rows] == [
        tuple([tuple(pair) for pair in value] if isinstance(value, list) else value for value in record.row()[1:])
        for record in records
    ]


def test_every_truncation_of_a_frame_of_rows_is_refused() -> None:
    frame = rows_frame(events(seed=2, count=10))
    for end in range(len(frame)):
        with pytest.raises(BadFrame):
            decode_rows(frame[:end])


@given(st.binary(max_size=200))
def test_any_bytes_are_rows_or_a_bad_frame(data: bytes) -> None:
    with contextlib.suppress(BadFrame):
        decode_rows(data)


@pytest.mark.parametrize(
    "place, value",
    [
        (1, "seven"),
        (2, -1),
        (2, 2**62),
        (3, -1),
        (13, 2**63),
        (13, 1.5),
        (19, None),
        (20, [[1]]),
        (20, [[1, 2, 3]]),
        (0, 9),
    ],
)
def test_row_with_a_wrong_field_is_refused(place: int, value: object) -> None:
    row: list[object] = list(events(seed=3, count=1)[0].row())
    row[place] = value
    with pytest.raises(BadFrame):
        decode_rows(msgspec.msgpack.encode([row]))


@pytest.mark.parametrize("change", [-1, 1])
def test_row_with_a_field_too_few_or_too_many_is_refused(change: int) -> None:
    row = list(events(seed=4, count=1)[0].row())
    row = row[:-1] if change < 0 else [*row, 0]
    with pytest.raises(BadFrame):
        decode_rows(msgspec.msgpack.encode([row]))
