"""Cutting what a peer sends into frames."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.rsocket.framing import FOLD_PIECES, MAX_FRAME_BYTES, FrameCursor
from tests.fakes import framed

BODIES = st.lists(st.binary(min_size=6, max_size=40), max_size=8)
TWO_FRAMES = bytes.fromhex("000006 00000005 2400 000008 80000007 2bff abcd")


def frames_of(pieces: list[bytes], is_framed: bool = True, max_bytes: int = MAX_FRAME_BYTES) -> list[bytes]:
    """The frames that a new cursor cuts from the pieces, then its fault as the last item when it has one."""
    cursor = FrameCursor(is_framed, max_bytes)
    found: list[bytes] = []
    for piece in pieces:
        cursor.feed(piece, 0.0)
        while cursor.advance():
            found.append(cursor.data[cursor.start : cursor.end])
    return [*found, cursor.fault.encode()] if cursor.fault else found


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    """The stream in pieces that end at these offsets; equal offsets make empty pieces."""
    ends = [*sorted(at), len(stream)]
    return [stream[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def test_header_is_read_as_the_protocol_draws_it() -> None:
    """Stream 5, CANCEL, no flags; stream 7 with the reserved bit set, PAYLOAD, all ten flags."""
    stream, messages = FrameCursor(True), FrameCursor(False)
    stream.feed(TWO_FRAMES, 0.0)
    for raw, header in ((TWO_FRAMES[3:9], (5, 0x09, 0)), (TWO_FRAMES[12:], (7, 0x0A, 0x3FF))):
        messages.feed(raw, 0.0)
        for cursor in (stream, messages):
            assert cursor.advance()
            assert (cursor.stream_id, cursor.kind, cursor.flags) == header
        assert not messages.advance()


def test_stream_cut_anywhere_gives_the_same_frames() -> None:
    """Every pair of offsets in a stream of two frames."""
    for first in range(len(TWO_FRAMES) + 1):
        for second in range(first, len(TWO_FRAMES) + 1):
            assert frames_of(cut(TWO_FRAMES, [first, second])) == [TWO_FRAMES[3:9], TWO_FRAMES[12:]]


@settings(derandomize=True, deadline=None, max_examples=50)
@given(BODIES, st.data())
def test_any_pieces_give_the_same_frames(bodies: list[bytes], data: st.DataObject) -> None:
    stream = framed(*bodies)
    assert frames_of(cut(stream, data.draw(st.lists(st.integers(0, len(stream)))))) == bodies
    assert frames_of(cut(stream, list(range(len(stream))))) == bodies


@settings(derandomize=True, deadline=None, max_examples=50)
@given(BODIES)
def test_message_is_a_frame(bodies: list[bytes]) -> None:
    assert frames_of(bodies, is_framed=False) == bodies


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.binary(max_size=30), max_size=6), st.booleans())
def test_any_bytes_are_frames_or_a_fault(pieces: list[bytes], is_framed: bool) -> None:
    cursor = FrameCursor(is_framed, 20)
    for piece in pieces:
        cursor.feed(piece, 0.0)
        for _ in range(len(piece) + 1):  # no frame is shorter than 6 bytes: this many steps are beyond enough
            if not cursor.advance():
                break
            assert 0 <= cursor.start <= cursor.end - 6
            assert cursor.end <= len(cursor.data)
        assert not cursor.advance()


def test_moment_of_the_bytes_is_that_of_the_frame() -> None:
    cursor = FrameCursor(True)
    cursor.feed(TWO_FRAMES[:5], 1.0)
    assert not cursor.advance()
    cursor.feed(TWO_FRAMES[5:], 2.5)
    assert cursor.advance()
    assert cursor.now == 2.5


@pytest.mark.parametrize("length", range(6))
def test_frame_shorter_than_a_header_is_a_fault(length: int) -> None:
    fault = f"a frame of {length} bytes, a header has 6".encode()
    assert frames_of([framed(b"123456", b"x" * length)]) == [b"123456", fault]
    assert frames_of([b"123456", b"x" * length], is_framed=False) == [b"123456", fault]


def test_frame_over_the_limit_is_a_fault_before_it_arrives() -> None:
    fault = b"a frame of 11 bytes, the limit is 10"
    assert frames_of([framed(b"x" * 10) + b"\x00\x00\x0b"], max_bytes=10) == [b"x" * 10, fault]
    assert frames_of([b"x" * 10, b"x" * 11], is_framed=False, max_bytes=10) == [b"x" * 10, fault]
    over = bytes(MAX_FRAME_BYTES + 1)
    assert frames_of([over], is_framed=False) == [b"a frame of 16777216 bytes, the limit is 16777215"]


@pytest.mark.parametrize("is_framed", [True, False])
def test_nothing_comes_after_a_fault(is_framed: bool) -> None:
    good = framed(b"123456") if is_framed else b"123456"
    cursor = FrameCursor(is_framed)
    cursor.feed(b"\x00\x00\x01", 0.0)
    assert not cursor.advance()
    fault = cursor.fault
    assert fault
    cursor.feed(good, 0.0)
    assert not cursor.advance()
    assert (cursor.data, cursor.fault) == (b"", fault)


@pytest.mark.parametrize("is_framed", [True, False])
def test_nothing_comes_after_close_and_nothing_is_kept(is_framed: bool) -> None:
    good = framed(b"123456") if is_framed else b"123456"
    cursor = FrameCursor(is_framed)
    cursor.feed(good + good if is_framed else good, 0.0)
    assert cursor.advance()
    cursor.close()
    for _ in range(3):
        assert not cursor.advance()
        cursor.feed(good, 0.0)
    assert (cursor.data, cursor._parts, cursor.fault) == (b"", [], "")


def test_close_forgets_half_a_frame() -> None:
    cursor = FrameCursor(True)
    cursor.feed(TWO_FRAMES[:8], 0.0)
    assert not cursor.advance()
    cursor.close()
    cursor.feed(TWO_FRAMES[8:], 0.0)
    assert not cursor.advance()
    assert (cursor.data, cursor._parts) == (b"", [])


def test_frames_that_arrive_whole_are_not_copied() -> None:
    cursor = FrameCursor(True)
    cursor.feed(TWO_FRAMES, 0.0)
    while cursor.advance():
        assert cursor.data is TWO_FRAMES


@pytest.mark.parametrize("is_framed", [True, False])
def test_bytes_that_were_looked_at_are_let_go(is_framed: bool) -> None:
    """A silent peer's last message does not stay in memory."""
    cursor = FrameCursor(is_framed)
    cursor.feed(framed(b"123456") if is_framed else b"123456", 0.0)
    assert cursor.advance()
    assert not cursor.advance()
    assert cursor.data == b""


def copied_bytes(stream: bytes, piece_bytes: int) -> tuple[int, int]:
    """(bytes that the cursor copied until the frame was whole, the most parts it held)."""
    cursor = FrameCursor(True)
    copied = 0
    most = 0
    for at in range(0, len(stream), piece_bytes):
        piece = stream[at : at + piece_bytes]
        cursor.feed(piece, 0.0)
        if cursor.advance():
            assert cursor.end == len(stream)
            return copied + len(cursor.data), most
        most = max(most, len(cursor._parts))
        if cursor._parts and cursor._parts[-1] is not piece:
            copied += len(cursor._parts[-1])
    raise AssertionError("the frame never became whole")


@pytest.mark.parametrize(("size", "piece_bytes"), [(MAX_FRAME_BYTES, 1024), (100_000, 1)])
def test_frame_in_short_pieces_is_copied_twice_and_no_more(size: int, piece_bytes: int) -> None:
    """Folded, and joined once, behind the first pieces for the length: nobody makes us hold an object for each byte."""
    stream = framed(bytes(size))
    copied, most = copied_bytes(stream, piece_bytes)
    assert copied <= 2 * len(stream) + 4096
    assert most <= FOLD_PIECES + len(stream) // piece_bytes // FOLD_PIECES + 1
