"""client_sdk.gateways.samwise.endpoint.zmtp: bytes in every cut, from callers of 2.0, 3.0 and 3.1."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_sdk.gateways.samwise.endpoint.zmtp import (
    MAX_COMMAND_BYTES,
    MAX_ID_BYTES,
    SIGNATURE,
    Assembly,
    Message,
    Reader,
    ZmtpError,
    error_bytes,
    frame_bytes,
)

# As libzmq 4.3.5 writes them (3.1, https://rfc.zeromq.org/spec/37/), and libzmq 3.2 (2.0, /15/).
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ\x08Identity\x00\x00\x00\x00"
NAMED = b"\x04\x2a\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ\x08Identity\x00\x00\x00\x04shop"
OURS = b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
OUR_READY = b"\x04\x29\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER\x08Identity\x00\x00\x00\x00"
PING = [b"", b"120", b"ping"]
PING_BYTES = b"\x01\x00\x01\x03120\x00\x04ping"


def reader(max_frames: int = 100, max_bytes: int = 100_000, max_kept: int = 3) -> Reader:
    return Reader(Assembly(max_frames=max_frames, max_bytes=max_bytes, max_kept=max_kept))


def ready(**limits: int) -> Reader:
    """Of a caller that has said who it is."""
    one = reader(**limits)
    one.feed(GREETING + READY)
    assert one.take(99) is None
    assert one.is_ready
    one.answer = b""
    return one


def taken(one: Reader, turn_frames: int = 10_000) -> list[Message]:
    """All messages that are there."""
    found = []
    has_more = True
    while has_more:
        message = one.take(turn_frames)
        has_more = one.has_more
        if message is not None:
            found.append(message)
    return found


def test_a_caller_of_3_is_greeted_and_read() -> None:
    one = reader()
    one.feed(GREETING[:11])
    assert one.take(99) is None
    assert one.answer == OURS
    one.feed(GREETING[11:] + NAMED + PING_BYTES)
    assert taken(one) == [Message(PING, 3, 7, is_cut=False)]
    assert one.answer == OURS + OUR_READY
    assert one.identity == b"shop"


def test_a_caller_of_2_is_greeted_and_read() -> None:
    one = reader()
    one.feed(SIGNATURE + b"\x01")
    assert one.take(99) is None
    assert one.answer == b"\x01\x06\x00\x00"  # its version, ROUTER, no name
    one.feed(b"\x03\x00\x04shop" + PING_BYTES)
    assert [message.frames for message in taken(one)] == [PING]
    assert one.identity == b"shop"


def test_commands_are_a_part_of_what_is_read_in_one_turn() -> None:
    one = ready()
    one.feed(b"\x04\x08\x04PING\x00\x00!" * 250 + PING_BYTES)
    for _ in range(2):
        assert one.take(100) is None
        assert one.has_more
    assert [message.frames for message in taken(one)] == [PING]
    assert one.answer == b"\x04\x06\x04PONG!" * 250


@given(st.lists(st.integers(1, 40)))
def test_bytes_may_come_in_any_pieces(sizes: list[int]) -> None:
    """Three requests, one of them with a long frame."""
    messages = [PING, [b"", b"100", b"x" * 300], [b"a"]]
    data = GREETING + READY + b"".join(map(frame_bytes, messages))
    one = reader()
    found = []
    for size in [*sizes, len(data)]:
        one.feed(data[:size])
        data = data[size:]
        found += taken(one)
    assert [message.frames for message in found] == messages
    assert one.held_bytes == 0


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_what_is_written_is_read(size: int) -> None:
    one = ready()
    frames = [b"", b"x" * size, b"end"]
    one.feed(frame_bytes(frames))
    assert [message.frames for message in taken(one)] == [frames]


def test_of_a_message_beyond_a_limit_the_first_frames_are_kept_and_all_are_counted() -> None:
    one = ready(max_frames=4)
    one.feed(frame_bytes([b"x" * 1000] * 6) + PING_BYTES)
    assert taken(one) == [Message([b"x" * 1000] * 4, 6, 6000, is_cut=True), Message(PING, 3, 7, is_cut=False)]


@pytest.mark.parametrize(
    "begin, kept",
    [
        ([], [b"x" * MAX_ID_BYTES]),
        ([b"hop", b""], [b"hop", b"", b"x" * MAX_ID_BYTES]),
        ([b"a", b"b", b"c"], [b"a", b"b", b"c"]),  # no more are kept
    ],
)
def test_a_frame_beyond_the_limit_is_a_message_before_it_has_come_and_is_dropped(
    begin: list[bytes], kept: list[bytes]
) -> None:
    one = ready(max_bytes=2_000)
    size = 1 << 30
    one.feed(frame_bytes([*begin, b""])[:-2] + b"\x02" + size.to_bytes(8, "big"))
    one.feed(b"x" * MAX_ID_BYTES)
    assert taken(one) == [Message(kept, len(begin) + 1, sum(map(len, begin)) + size, is_cut=True)]
    for _ in range(1023):
        one.feed(bytes(1 << 20))
        assert (one.take(99), one.held_bytes) == (None, 0)
    one.feed(bytes((1 << 20) - MAX_ID_BYTES) + PING_BYTES)
    assert taken(one) == [Message(PING, 3, 7, is_cut=False)]


def test_bytes_beyond_a_limit_are_dropped_as_they_come() -> None:
    one = ready(max_bytes=2_000)
    piece = b"\x03" + (1_500).to_bytes(8, "big") + b"y" * 1_500
    one.feed(piece)
    assert one.take(99) is None
    for _ in range(1_000):
        for at in range(0, len(piece), 100):
            one.feed(piece[at : at + 100])
            assert one.take(99) is None
            assert one.held_bytes <= 2_000 + 2 * len(piece)
    one.feed(b"\x00\x01z" + PING_BYTES)
    cut, ping = taken(one)
    assert (cut.frames_n, cut.size, cut.is_cut) == (1_002, 1_501_501, True)
    assert [len(frame) for frame in cut.frames] == [1_500, MAX_ID_BYTES, MAX_ID_BYTES]
    assert ping.frames == PING


def test_many_frames_are_read_in_many_turns() -> None:
    one = ready()
    one.feed(b"\x01\x00" * 1_000 + b"\x00\x00")
    turns_n = 1
    while one.take(10) is None:
        assert one.has_more
        turns_n += 1
    assert turns_n == 101


def test_a_ping_is_answered_with_its_context() -> None:
    one = ready()
    one.feed(b"\x04\x0e\x04PING\x00\x0acontext" + PING_BYTES)
    assert [message.frames for message in taken(one)] == [PING]
    assert one.answer == b"\x04\x0c\x04PONGcontext"


def test_commands_that_nobody_knows_are_passed_over() -> None:
    one = ready()
    one.feed(b"\x04\x05\x04ABCD" + PING_BYTES + b"\x04\x00")
    assert [message.frames for message in taken(one)] == [PING]


@pytest.mark.parametrize(
    "data, why",
    [
        (b"GET / HTTP/1.1\r\n", "it does not speak ZMTP 2.0 or later"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00", "it does not speak ZMTP 2.0 or later"),
        (b"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "it does not speak ZMTP 2.0 or later"),  # ZMTP 1.0
        (GREETING.replace(b"NULL\0", b"CURVE"), "it wants 'CURVE', here is NULL"),
        (GREETING + PING_BYTES, "its first frame is no command READY"),
        (GREETING + READY.replace(b"REQ", b"SUB"), "it is a socket 'SUB', here is ROUTER, for REQ and DEALER"),
        (SIGNATURE + b"\x01\x02\x00\x00", "it is a socket '2', here is ROUTER, for REQ and DEALER"),
        (SIGNATURE + b"\x01\x03\x01\x00", "its first frame is no name"),
        (GREETING + b"\x04\x06\x05ERROR", "its first command is 'ERROR', not READY"),
        (GREETING + b"\x04\x09\x05READY\x0bSo", "a property of its READY ends too early"),
        (GREETING + b"\x04\x0a\x05READY\x01a\xff\xff", "a property of its READY ends too early"),
        (
            GREETING + READY + b"\x06" + (1 << 40).to_bytes(8, "big"),
            f"a command has {1 << 40} bytes, {MAX_COMMAND_BYTES} are allowed",
        ),
        (GREETING + READY + error_bytes("go away"), "it has told an error"),
    ],
)
def test_what_cannot_go_on_is_told(data: bytes, why: str) -> None:
    one = reader()
    one.feed(data)
    with pytest.raises(ZmtpError) as caught:
        taken(one)
    assert str(caught.value) == why


def test_a_name_may_not_be_longer_than_the_protocol_allows() -> None:
    name = b"n" * (MAX_ID_BYTES + 1)
    body = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ\x08Identity" + len(name).to_bytes(4, "big") + name
    one = reader()
    one.feed(GREETING + b"\x06" + len(body).to_bytes(8, "big") + body)
    with pytest.raises(ZmtpError, match="its name has 256 bytes, 255 are allowed"):
        one.take(99)


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_told(data: bytes) -> None:
    for begin in (b"", SIGNATURE, GREETING, GREETING + READY):
        one = reader()
        with contextlib.suppress(ZmtpError):
            one.feed(begin + data)
            taken(one)


PIECES = (
    *(GREETING, GREETING[:11], SIGNATURE + b"\x01\x05\x00\x04shop", READY, NAMED, PING_BYTES),
    *(b"\x04\x08\x04PING\x00\x00!", b"\x04\x00", b"\x00\x00", b"\x01\x00" * 20),
    *(b"\x03" + (700).to_bytes(8, "big") + b"z" * 700, b"\x02" + (1_500).to_bytes(8, "big") + b"z" * 1_500),
)


def heard(pieces: list[bytes]) -> tuple[list[Message], str, bytes, bytes]:
    """The messages, why it cannot go on, what goes back, and the name."""
    one = reader(max_frames=10, max_bytes=1_000)
    found: list[Message] = []
    fault = ""
    try:
        for piece in pieces:
            one.feed(piece)
            has_more = True
            while has_more:
                message = one.take(3)
                found += [] if message is None else [message]
                has_more = one.has_more
    except ZmtpError as error:
        fault = str(error)
    return found, fault, one.answer, one.identity


@given(
    st.lists(st.sampled_from(PIECES), max_size=8),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3),
    st.lists(st.integers(0), max_size=5),
)
def test_whatever_comes_means_the_same_in_any_pieces(
    pieces: list[bytes], changes: list[tuple[int, int]], places: list[int]
) -> None:
    data = bytearray(GREETING + READY + b"".join(pieces))
    for place, value in changes:
        data[place % len(data)] = value
    cuts = sorted(place % len(data) for place in places)
    cut = [bytes(data[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert heard(cut) == heard([bytes(data)])
