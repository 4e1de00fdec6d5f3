"""The state of one accepted connection, row by row."""

import pytest

from rsocket_wire import errors
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.connection import NEW, OPEN, Connection
from rsocket_wire.rsocket.frames import EXT, IGNORE, REQUEST_RESPONSE, RESUME, Setup
from rsocket_wire.rsocket.framing import FrameCursor
from tests.fakes import framed, raw_frame


def cursor(raw: bytes) -> FrameCursor:
    """A cursor on this frame, which lies between others."""
    found = FrameCursor(True)
    found.feed(framed(b"\xff" * 6, raw) + b"\xff" * 20, 0.0)
    assert found.advance()
    assert found.advance()
    return found


def setup(
    keepalive_ms: int = 20_000,
    lifetime_ms: int = 90_000,
    wants_lease: bool = False,
    wants_resume: bool = False,
    major: int = 1,
    minor: int = 0,
) -> bytes:
    return Setup(
        "a/b", "c/d", keepalive_ms, lifetime_ms, b"m", b"d", wants_lease, wants_resume, b"t", major, minor
    ).encode()


def opened(raw: bytes = b"") -> Connection:
    connection = Connection()
    assert connection.handle_first(cursor(raw or setup())) is None
    return connection


def refused(raw: bytes) -> tuple[int, str]:
    """Code and message of the ERROR that a first frame gets; the connection does not open."""
    connection = Connection()
    refusal = connection.handle_first(cursor(raw))
    assert refusal is not None
    assert (connection.state, connection.setup, connection.lifetime_s) == (NEW, None, 0.0)
    return refusal.code, refusal.message


def test_new_with_setup_is_open() -> None:
    connection = opened()
    assert connection.state == OPEN
    assert connection.setup is not None
    assert (connection.setup.metadata_mime, connection.setup.data_mime) == ("a/b", "c/d")
    assert (connection.setup.metadata, connection.setup.data) == (b"m", b"d")


def test_new_with_any_minor_version_is_open() -> None:
    assert opened(setup(minor=7)).state == OPEN


def test_new_with_resume_is_refused() -> None:
    text = "unknown-session: there is no session to resume, connect again with a SETUP"
    assert refused(raw_frame(RESUME, rest=bytes(24))) == (errors.REJECTED_RESUME, text)
    assert refused(raw_frame(RESUME)) == (errors.REJECTED_RESUME, text)


@pytest.mark.parametrize(
    "raw, named",
    [
        (frames.encode_keepalive(b"", respond=True), "KEEPALIVE on stream 0"),
        (frames.encode_error(0, errors.CONNECTION_ERROR, "no"), "ERROR on stream 0"),
        (frames.encode_request(REQUEST_RESPONSE, 1, b"", None), "REQUEST_RESPONSE on stream 1"),
        (frames.encode_metadata_push(b""), "METADATA_PUSH on stream 0"),
        (frames.encode_payload(2, 0), "PAYLOAD on stream 2"),
        (frames.encode_cancel(1), "CANCEL on stream 1"),
        (raw_frame(0), "type 0x00 on stream 0"),
        (raw_frame(0x20, IGNORE, b"", 9), "type 0x20 on stream 9"),
        (raw_frame(EXT), "EXT on stream 0"),
        (raw_frame(0x01, stream_id=1) + setup()[6:], "SETUP on stream 1"),
        (raw_frame(RESUME, 0, bytes(24), 1), "RESUME on stream 1"),
    ],
)
def test_new_with_anything_else_is_refused(raw: bytes, named: str) -> None:
    """ "Any other frame … or a SETUP|RESUME frame with a Stream ID > 0, MUST cause … ERROR[INVALID_SETUP]"."""
    assert refused(raw) == (errors.INVALID_SETUP, f"bad-setup: the first frame is {named}, it must be SETUP on 0")


@pytest.mark.parametrize(
    "raw, code, message",
    [
        (setup()[:12], errors.INVALID_SETUP, "bad-setup: SETUP keepalive time: needs 4 bytes at offset"),
        (setup(major=2), errors.UNSUPPORTED_SETUP, "bad-version: RSocket 2.0 requested, this broker supports 1.0"),
        (setup(major=0, minor=2), errors.UNSUPPORTED_SETUP, "bad-version: RSocket 0.2 requested"),
        (raw_frame(0x01, rest=b"\x00\x02\x00\x03"), errors.UNSUPPORTED_SETUP, "bad-version: RSocket 2.3 requested"),
        (
            setup(keepalive_ms=0),
            errors.INVALID_SETUP,
            "bad-setup: keepalive time 0 ms and lifetime 90000 ms, both must be",
        ),
        (
            setup(lifetime_ms=0),
            errors.INVALID_SETUP,
            "bad-setup: keepalive time 20000 ms and lifetime 0 ms, both must be",
        ),
        (setup(wants_resume=True), errors.REJECTED_SETUP, "resume-unsupported: "),
    ],
)
def test_setup_that_cannot_be_accepted_is_refused(raw: bytes, code: int, message: str) -> None:
    found_code, found_message = refused(raw)
    assert found_code == code
    assert found_message.startswith(message)


def test_setup_cut_anywhere_is_refused() -> None:
    whole = setup()
    for size in range(6, len(whole) - 1):  # the last byte is data, which has no length
        code, message = refused(whole[:size])
        assert (code, message[:17]) == (errors.INVALID_SETUP, "bad-setup: SETUP ")


@pytest.mark.parametrize(
    "keepalive_ms, lifetime_ms, lifetime_s",
    [
        (20_000, 90_000, 90.0),
        (1_000, 1_001, 1.001),
        (1_000, 1_000, 2.0),
        (20_000, 500, 20.5),
        (20_000, 300_000, 300.0),
        (20_000, 300_001, 300.0),  # D-43
        (1, 0x7FFFFFFF, 300.0),
        (150_000, 0x7FFFFFFF, 300.0),
        (150_001, 0x7FFFFFFF, 300.002),  # a client that speaks so rarely is waited for twice as long
        (200_000, 350_000, 350.0),
        (400_000, 1, 400.001),
        (0x7FFFFFFF, 0x7FFFFFFF, 4294967.294),
    ],
)
def test_lifetime_is_what_the_peer_can_keep(keepalive_ms: int, lifetime_ms: int, lifetime_s: float) -> None:
    assert opened(setup(keepalive_ms, lifetime_ms)).lifetime_s == pytest.approx(lifetime_s)


@pytest.mark.parametrize("data", [b"", b"abc", bytes(1 << 20)])
def test_keepalive_is_answered_with_its_data_if_it_asks_for_an_answer(data: bytes) -> None:
    asked = frames.encode_keepalive(data, respond=True, position=77)
    assert opened().handle_keepalive(cursor(asked)) == frames.encode_keepalive(data)
    assert opened().handle_keepalive(cursor(frames.encode_keepalive(data))) is None


def test_keepalive_that_is_cut_gets_no_answer() -> None:
    asked = frames.encode_keepalive(b"", respond=True)
    for size in range(6, len(asked)):
        assert opened().handle_keepalive(cursor(asked[:size])) is None
