"""RSocket frames against bytes made by hand from the protocol's diagrams ("Frame Types")."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.errors import InvalidFrame
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM

# stream 0, SETUP | 1.0 | 20 000 ms | 90 000 ms | "a/b" | "c/d"
PLAIN_SETUP = bytes.fromhex("00000000 0400 0001 0000 00004e20 00015f90 03 612f62 03 632f64")
# with M, R and L: … | token of 2 | … | metadata of 2 | data
FULL_SETUP = bytes.fromhex("00000000 05c0 0001 0002 00000001 7fffffff 0002 beef 03 612f62 03 632f64 000002 6d64 646174")

# stream 0, RESUME | 1.0 | token of 2 | last received server position | first available client position
RESUME_RAW = bytes.fromhex("00000000 3400 0001 0000 0002 beef 0000000000000102 7fffffffffffffff")
RESUME_OK_RAW = bytes.fromhex("00000000 3800 0000000000010203")


def setup_of(raw: bytes) -> frames.Setup:
    """The SETUP, decoded where it stands between other bytes."""
    flags = ((raw[4] & 3) << 8) | raw[5]
    return frames.decode_setup(b"\xff" * 5 + raw + b"\xff" * 7, 5, 5 + len(raw), flags)


def parts(raw: bytes) -> tuple[int, int]:
    """`request_parts` of a frame between other bytes, relative to the frame; what is absent stays -1."""
    flags = ((raw[4] & 3) << 8) | raw[5]
    at, to = frames.request_parts(b"\xff" * 5 + raw + b"\xff" * 7, 5, 5 + len(raw), raw[4] >> 2, flags)
    return (at, to) if at < 0 else (at - 5, to - 5)


def test_types_have_the_numbers_of_the_protocol() -> None:
    names = "SETUP LEASE KEEPALIVE REQUEST_RESPONSE REQUEST_FNF REQUEST_STREAM REQUEST_CHANNEL REQUEST_N CANCEL "
    names += "PAYLOAD ERROR METADATA_PUSH RESUME RESUME_OK"
    assert {**dict(enumerate(names.split(), 0x01)), 0x3F: "EXT"} == frames.KIND_NAMES
    assert {name: getattr(frames, name) for name in frames.KIND_NAMES.values()} == {
        name: kind for kind, name in frames.KIND_NAMES.items()
    }


def test_flags_have_the_bits_of_the_protocol() -> None:
    assert [frames.IGNORE, frames.METADATA, FOLLOWS, frames.COMPLETE, NEXT] == [0x200, 0x100, 0x80, 0x40, 0x20]
    assert [frames.RESUME_ENABLE, frames.LEASE_ENABLE, frames.RESPOND] == [0x80, 0x40, 0x80]


@pytest.mark.parametrize(
    ("setup", "raw"),
    [
        (frames.Setup("a/b", "c/d", 20_000, 90_000), PLAIN_SETUP),
        (frames.Setup("a/b", "c/d", 1, frames.MAX_N, b"md", b"dat", True, True, b"\xbe\xef", 1, 2), FULL_SETUP),
    ],
    ids=["plain", "with everything"],
)
def test_setup_is_written_and_read(setup: frames.Setup, raw: bytes) -> None:
    assert setup.encode() == raw
    assert setup_of(raw) == setup


def test_setup_with_empty_metadata_is_not_one_without() -> None:
    raw = PLAIN_SETUP[:4] + b"\x05\x00" + PLAIN_SETUP[6:] + bytes(3)
    assert setup_of(raw).metadata == b""
    assert setup_of(PLAIN_SETUP).metadata is None
    assert frames.Setup("a/b", "c/d", 20_000, 90_000, b"").encode() == raw


def test_setup_times_have_31_bits() -> None:
    raw = PLAIN_SETUP[:10] + b"\x80\x00\x00\x01" + b"\xff\xff\xff\xff" + PLAIN_SETUP[18:]
    assert (setup_of(raw).keepalive_ms, setup_of(raw).lifetime_ms) == (1, frames.MAX_N)


@pytest.mark.parametrize("raw, optional_bytes", [(PLAIN_SETUP, 0), (FULL_SETUP, 3)])
def test_setup_cut_anywhere_is_an_invalid_frame(raw: bytes, optional_bytes: int) -> None:
    """Only the data at the end may be shorter: it has no length."""
    for size in range(6, len(raw) - optional_bytes):
        with pytest.raises(InvalidFrame, match="SETUP"):
            setup_of(raw[:size])
    for size in range(len(raw) - optional_bytes, len(raw) + 1):
        assert setup_of(raw[:size]).data == raw[len(raw) - optional_bytes : size]


def test_setup_with_a_mime_type_that_is_not_ascii_is_an_invalid_frame() -> None:
    with pytest.raises(InvalidFrame, match="SETUP metadata mime type: b'a/\\\\xff' is not ASCII"):
        setup_of(PLAIN_SETUP.replace(b"a/b", b"a/\xff"))


@settings(derandomize=True, deadline=None, max_examples=75)
@given(st.binary(max_size=60), st.integers(0, 0x3FF))
def test_any_bytes_are_a_setup_or_an_invalid_frame(body: bytes, flags: int) -> None:
    try:
        setup = frames.decode_setup(bytes(6) + body, 0, 6 + len(body), flags)
    except InvalidFrame:
        return
    assert len(setup.metadata or b"") + len(setup.data) + len(setup.token) <= len(body)


MIMES = st.text(st.characters(max_codepoint=127), max_size=255)
TIMES = st.integers(0, frames.MAX_N)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    st.builds(frames.Setup, MIMES, MIMES, TIMES, TIMES, st.none() | st.binary(max_size=30), st.binary(max_size=30)),
    st.booleans(),
    st.none() | st.binary(max_size=30),
)
def test_setup_written_is_read_again(setup: frames.Setup, wants_lease: bool, token: bytes | None) -> None:
    setup = replace(setup, wants_lease=wants_lease, wants_resume=token is not None, token=token or b"")
    assert setup_of(setup.encode()) == setup


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (frames.encode_keepalive(b"hi"), "00000000 0c00 0000000000000000 6869"),
        (frames.encode_keepalive(b"", respond=True, position=258), "00000000 0c80 0000000000000102"),
        (frames.encode_error(0, 0x101, "no"), "00000000 2c00 00000101 6e6f"),
        (frames.encode_error(0x7FFFFFFF, 0x202, "ü"), "7fffffff 2c00 00000202 c3bc"),
        (frames.encode_error(1, 0x201, "a\udfffb"), "00000001 2c00 00000201 613f62"),  # "?" for what has no UTF-8
        (frames.encode_cancel(5), "00000005 2400"),
        (frames.encode_request_n(5, frames.MAX_N), "00000005 2000 7fffffff"),
        (frames.encode_payload(5, frames.COMPLETE), "00000005 2840"),
        (frames.encode_payload(5, NEXT, b"hi"), "00000005 2820 6869"),
        (frames.encode_payload(5, NEXT | FOLLOWS, b"hi", b"m"), "00000005 29a0 000001 6d 6869"),
        (frames.encode_payload(5, NEXT, b"hi", b""), "00000005 2920 000000 6869"),
        (frames.encode_request(REQUEST_RESPONSE, 1, b"hi", None), "00000001 1000 6869"),
        (frames.encode_request(REQUEST_FNF, 1, b"hi", b"m"), "00000001 1500 000001 6d 6869"),
        (frames.encode_request(REQUEST_STREAM, 1, b"hi", b"m", 3), "00000001 1900 00000003 000001 6d 6869"),
        (frames.encode_request(REQUEST_CHANNEL, 1, b"", None, 3, frames.COMPLETE | FOLLOWS), "00000001 1cc0 00000003"),
        (frames.encode_request(REQUEST_FNF, 1, b"hi", None, 9), "00000001 1400 6869"),
        (frames.encode_metadata_push(b"meta"), "00000000 3100 6d657461"),
        (frames.encode_metadata_push(b""), "00000000 3100"),
    ],
)
def test_frame_is_written(raw: bytes, expected: str) -> None:
    assert raw == bytes.fromhex(expected)


@pytest.mark.parametrize("kind", [REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL])
def test_metadata_of_a_request_is_found(kind: int) -> None:
    fields_bytes = 4 if kind in (REQUEST_STREAM, REQUEST_CHANNEL) else 0
    begin = 6 + fields_bytes
    assert parts(frames.encode_request(kind, 1, b"data", None, 1)) == (begin, begin)
    assert parts(frames.encode_request(kind, 1, b"data", b"", 1)) == (begin + 3, begin + 3)
    assert parts(frames.encode_request(kind, 1, b"data", b"meta", 1)) == (begin + 3, begin + 7)
    assert parts(frames.encode_request(kind, 1, b"", b"meta", 1)) == (begin + 3, begin + 7)


def test_metadata_of_a_payload_is_found() -> None:
    assert parts(frames.encode_payload(1, NEXT, b"data", b"meta")) == (9, 13)
    assert parts(frames.encode_payload(1, NEXT, b"data")) == (6, 6)


@pytest.mark.parametrize("kind", [REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL])
def test_request_that_is_cut_before_its_metadata_ends_has_no_parts(kind: int) -> None:
    raw = frames.encode_request(kind, 1, b"", b"meta", 1)
    for size in range(6, len(raw)):
        assert parts(raw[:size]) == (-1, -1)


@settings(derandomize=True, deadline=None, max_examples=75)
@given(st.binary(min_size=6, max_size=24))
def test_parts_of_any_bytes_lie_within_the_frame(raw: bytes) -> None:
    at, to = parts(raw)
    assert (at, to) == (-1, -1) or 6 <= at <= to <= len(raw)


def test_credit_has_31_bits() -> None:
    assert frames.initial_n(bytes.fromhex("ff 00000001 1800 80000003"), 1) == 3
    assert frames.initial_n(frames.encode_request_n(1, frames.MAX_N), 0) == frames.MAX_N


def resume_of(raw: bytes) -> tuple[object, ...]:
    """The RESUME, decoded where it stands between other bytes."""
    resume = frames.decode_resume(b"\xff" * 5 + raw + b"\xff" * 9, 5, 5 + len(raw))
    return resume.token, resume.received_position, resume.first_position, resume.major, resume.minor


def test_resume_is_written_and_read() -> None:
    assert frames.Resume(b"\xbe\xef", 258, (1 << 63) - 1).encode() == RESUME_RAW
    assert resume_of(RESUME_RAW) == (b"\xbe\xef", 258, (1 << 63) - 1, 1, 0)


def test_resume_of_rsocket_js_has_its_version_the_wrong_way_round() -> None:
    """1.0.0-alpha.3, RSocketConnector.js: `majorVersion: setupFrame.minorVersion`."""
    assert resume_of(RESUME_RAW[:6] + b"\0\0\0\1" + RESUME_RAW[10:]) == (b"\xbe\xef", 258, (1 << 63) - 1, 0, 1)


def test_positions_have_63_bits() -> None:
    assert resume_of(RESUME_RAW[:14] + b"\xff" * 16)[1:3] == ((1 << 63) - 1, (1 << 63) - 1)
    assert frames.decode_resume_ok(RESUME_OK_RAW[:6] + b"\xff" * 8, 0, 14) == (1 << 63) - 1


@pytest.mark.parametrize("size", range(6, len(RESUME_RAW)))
def test_resume_cut_anywhere_is_an_invalid_frame(size: int) -> None:
    with pytest.raises(InvalidFrame, match="RESUME"):
        resume_of(RESUME_RAW[:size])


def test_resume_ok_is_written_and_read() -> None:
    assert frames.encode_resume_ok(0x010203) == RESUME_OK_RAW
    assert frames.decode_resume_ok(b"\xff" * 5 + RESUME_OK_RAW, 5, 5 + len(RESUME_OK_RAW)) == 0x010203


@pytest.mark.parametrize("size", range(6, len(RESUME_OK_RAW)))
def test_resume_ok_cut_anywhere_is_an_invalid_frame(size: int) -> None:
    with pytest.raises(InvalidFrame, match="RESUME_OK last received client position"):
        frames.decode_resume_ok(RESUME_OK_RAW + b"\xff" * 9, 0, size)


def test_keepalive_tells_a_position() -> None:
    raw = b"\xff" * 3 + frames.encode_keepalive(b"more", respond=True, position=0x0102030405060708)
    assert frames.keepalive_position(raw, 3, len(raw)) == 0x0102030405060708
    assert [frames.keepalive_position(raw, 3, end) for end in (9, 16, 17)] == [-1, -1, 0x0102030405060708]


def test_frames_of_streams_have_a_position_and_no_others() -> None:
    assert [kind for kind in range(64) if frames.has_position(kind)] == list(range(REQUEST_RESPONSE, frames.ERROR + 1))
