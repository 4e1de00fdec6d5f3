"""RSocket frames in WebSocket messages, both ways and at both ends. The stranger at the other end is `websockets`."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import CLIENT, OPEN, SERVER, Protocol, Side

from rsocket_wire.rsocket import websocket
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES
from rsocket_wire.rsocket.websocket import BINARY, CONTINUATION, PING, PROTOCOL_ERROR, MessageReader
from tests.fakes import framed
from tests.rsocket_wire.rsocket.test_framing import cut

SEED = bytes(range(websocket.SEED_BYTES))
FIN = 0x80
KEY = bytes.fromhex("37fa213d")  # of the examples in RFC 6455, section 5.7
SIZES = (1, 7, 8, 9, 125, 126, 1000, 65_535, 65_536, 70_000)
BODIES = st.lists(st.binary(min_size=1, max_size=300), max_size=6)


def said(opcode: int, payload: bytes = b"", fin: int = FIN, key: bytes | None = KEY) -> bytes:
    """One WebSocket frame; without a key as a server sends it."""
    return head(fin | opcode, len(payload), key) + masked(payload, key)


def head(first: int, length: int, key: bytes | None = KEY) -> bytes:
    """Of a WebSocket frame."""
    mask = 0x80 if key is not None else 0
    if length < 126:
        raw = bytes([first, mask | length])
    elif length < 1 << 16:
        raw = bytes([first, mask | 126]) + length.to_bytes(2, "big")
    else:
        raw = bytes([first, mask | 127]) + length.to_bytes(8, "big")
    return raw + (key or b"")


def masked(payload: bytes, key: bytes | None) -> bytes:
    return bytes(byte ^ key[at % 4] for at, byte in enumerate(payload)) if key else payload


def fed(reader: MessageReader, pieces: Sequence[bytes], max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """All that the reader makes of the pieces."""
    return b"".join([reader.feed(piece, max_bytes) for piece in pieces])


def stranger(side: Side, data: bytes) -> list[bytes]:
    """The messages that the library reads at that end."""
    protocol = Protocol(side=side, state=OPEN, max_size=None)
    protocol.receive_data(data)
    assert protocol.parser_exc is None
    return [bytes(event.data) for event in protocol.events_received() if isinstance(event, Frame)]


# --- what is read


def test_the_examples_of_the_rfc_are_read() -> None:
    server, client = MessageReader(is_from_client=True), MessageReader(is_from_client=False)
    # "Hello", masked: PONG as it is drawn there; PING and messages as a server sends them.
    assert server.feed(bytes.fromhex("8a8537fa213d7f9f4d5158"), 100) == b""
    assert (server.pong, server.has_news) == (None, False)
    assert client.feed(bytes.fromhex("890548656c6c6f"), 100) == b""
    assert (client.pong, client.has_news) == (b"Hello", True)
    assert client.feed(bytes.fromhex("827e0100") + bytes(256), 100) == b"\0\1\0" + bytes(256)
    assert client.feed(bytes.fromhex("827f0000000000010000") + bytes(65_536), 100) == b"\1\0\0" + bytes(65_536)


@pytest.mark.parametrize("is_from_client", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_a_message_of_any_length_is_read(size: int, is_from_client: bool) -> None:
    body = bytes(at % 251 for at in range(size))
    raw = said(BINARY, body, key=KEY if is_from_client else None)
    for pieces in ([raw], [raw[:1], raw[1:]], cut(raw, [3, 9, 15, size // 2, size])):
        assert fed(MessageReader(is_from_client), pieces) == framed(body)


def test_a_message_is_passed_on_as_it_comes_behind_its_length() -> None:
    reader = MessageReader(is_from_client=True)
    raw = said(BINARY, b"0123456789")
    assert [reader.feed(piece, 100) for piece in (raw[:5], raw[5:6], raw[6:9], raw[9:])] == [
        b"",
        b"\0\0\x0a",
        b"012",
        b"3456789",
    ]


@given(bodies=BODIES, at=st.lists(st.integers(0, 2000), max_size=12), pings=st.booleans())
@settings(max_examples=60)
def test_messages_in_any_pieces_are_read(bodies: list[bytes], at: list[int], pings: bool) -> None:
    raw = b"".join([said(BINARY, body) + (said(PING, b"x") if pings else b"") for body in bodies])
    reader = MessageReader(is_from_client=True)
    assert fed(reader, cut(raw, [min(each, len(raw)) for each in at])) == framed(*bodies)
    assert reader.pong == (b"x" if pings and bodies else None)


@given(body=st.binary(min_size=1, max_size=300), at=st.lists(st.integers(0, 300), max_size=6))
@settings(max_examples=60)
def test_a_message_in_several_frames_is_gathered(body: bytes, at: list[int]) -> None:
    parts = cut(body, [min(each, len(body)) for each in at])
    raw = b"".join(
        [
            said(BINARY if number == 0 else CONTINUATION, part, FIN if number == len(parts) - 1 else 0)
            + said(PING, b"in between")
            for number, part in enumerate(parts)
        ]
    )
    whole, single = MessageReader(is_from_client=True), MessageReader(is_from_client=True)
    assert fed(whole, [raw, said(BINARY, b"next")]) == framed(body, b"next")
    assert fed(single, [raw[i : i + 1] for i in range(len(raw))]) == framed(body)
    assert (whole.pong, single.pong) == (b"in between", b"in between")


def test_a_message_in_a_million_pieces_of_a_byte_is_gathered() -> None:
    reader = MessageReader(is_from_client=True)
    part = said(CONTINUATION, b"x", 0) * 1000
    assert reader.feed(said(BINARY, b"x", 0), 2_000_000) == b""
    assert {reader.feed(part, 2_000_000) for _ in range(1000)} == {b""}
    assert reader.feed(said(CONTINUATION), 2_000_000) == framed(b"x" * 1_000_001)


@pytest.mark.parametrize("count", [10, 11])
def test_a_gathered_message_has_a_bound(count: int) -> None:
    reader = MessageReader(is_from_client=True)
    found = fed(reader, [said(BINARY, b"x" * 10, 0)] + [said(CONTINUATION, b"x" * 10, 0)] * (count - 1), 100)
    assert (found, reader.fault) == (b"", "" if count == 10 else "a frame of 110 bytes or more, the limit is 100")
    assert reader.close_code == (0 if count == 10 else websocket.TOO_BIG)
    last = fed(reader, [said(CONTINUATION, b"")], 100)
    assert last == (framed(b"x" * 100) if count == 10 else b"")


@pytest.mark.parametrize("last", [said(CONTINUATION, b"x"), said(CONTINUATION, b"x", 0) + said(CONTINUATION)])
def test_nothing_is_read_behind_a_message_that_is_too_long(last: bytes) -> None:
    reader = MessageReader(is_from_client=True)
    raw = said(BINARY, b"x" * 100, 0) + last + said(BINARY, b"more") + said(PING, b"x")
    assert fed(reader, [raw, said(BINARY, b"more")], 100) == b""
    assert (reader.fault, reader.pong) == ("a frame of 101 bytes or more, the limit is 100", None)


def test_an_empty_message_is_a_frame_of_a_client_and_nothing_of_a_server() -> None:
    assert MessageReader(is_from_client=True).feed(said(BINARY), 100) == b"\0\0\0"
    assert MessageReader(is_from_client=False).feed(
        said(BINARY, key=None) + said(BINARY, b"x", key=None), 100
    ) == framed(b"x")
    reader = MessageReader(is_from_client=True)
    assert reader.feed(said(BINARY, fin=0) + said(CONTINUATION), 100) == b"\0\0\0"


def test_texts_of_a_server_are_overlooked_however_long_they_are() -> None:
    reader = MessageReader(is_from_client=False)
    texts = [
        said(websocket.TEXT, b"hello", key=None),
        said(websocket.TEXT, b"", key=None),
        said(websocket.TEXT, b"hello", 0, key=None),
    ]
    texts += [said(CONTINUATION, bytes(1000), 0, key=None)] * 100 + [said(CONTINUATION, key=None)]
    raw = said(BINARY, b"one", key=None) + b"".join(texts) + said(BINARY, b"two", key=None)
    for pieces in ([raw], [raw[at : at + 7] for at in range(0, len(raw), 7)]):
        assert fed(reader, pieces, 10) == framed(b"one", b"two")
    assert reader.fault == ""


def test_only_the_latest_ping_is_remembered() -> None:
    reader = MessageReader(is_from_client=True)
    assert reader.feed(said(PING, b"one") + said(PING, b"two") + said(websocket.PONG, b"three"), 100) == b""
    assert (reader.pong, reader.has_news) == (b"two", True)


@pytest.mark.parametrize(("payload", "code"), [(b"", 0), (b"\x03\xe8", 1000), (b"\x0b\xb8bye", 3000)])
def test_nothing_is_read_behind_a_close(payload: bytes, code: int) -> None:
    reader = MessageReader(is_from_client=True)
    raw = said(BINARY, b"last") + said(websocket.CLOSE, payload) + said(BINARY, b"more")
    assert fed(reader, [raw, said(PING, b"still there?")]) == framed(b"last")
    assert (reader.is_closed, reader.close_code, reader.fault, reader.pong) == (True, code, "", None)


@pytest.mark.parametrize(
    ("raw", "code", "fault"),
    [
        (said(BINARY, b"x", key=None), PROTOCOL_ERROR, "a WebSocket frame that is not masked"),
        (said(PING, b"x", key=None), PROTOCOL_ERROR, "a WebSocket frame that is not masked"),
        (said(BINARY | 0x40, b"x"), PROTOCOL_ERROR, "a WebSocket frame that begins with 0xc2"),
        (said(BINARY | 0x20, b"x"), PROTOCOL_ERROR, "a WebSocket frame that begins with 0xa2"),
        (said(PING | 0x10, b"x"), PROTOCOL_ERROR, "a WebSocket frame that begins with 0x99"),
        (said(0x3, b"x"), PROTOCOL_ERROR, "a WebSocket frame that begins with 0x83"),
        (said(0xB, b"x"), PROTOCOL_ERROR, "a WebSocket frame that begins with 0x8b"),
        (said(websocket.TEXT, b"hello"), websocket.UNSUPPORTED_DATA, "a text message: a frame is a binary message"),
        (said(websocket.TEXT, b"\xff", 0), websocket.UNSUPPORTED_DATA, "a text message: a frame is a binary message"),
        (said(CONTINUATION, b"x"), PROTOCOL_ERROR, "a WebSocket frame that continues nothing"),
        (
            said(BINARY, b"x", 0) + said(BINARY, b"x"),
            PROTOCOL_ERROR,
            "a WebSocket frame that begins a message inside another",
        ),
        (said(PING, b"x", 0), PROTOCOL_ERROR, "a WebSocket control frame that is long, or in pieces"),
        (said(PING, bytes(126)), PROTOCOL_ERROR, "a WebSocket control frame that is long, or in pieces"),
        (b"\x82\xfe\0\x7d" + KEY, PROTOCOL_ERROR, "a WebSocket frame with a length of 125 in 16 bits"),
        (
            b"\x82\xff" + (65_535).to_bytes(8, "big"),
            PROTOCOL_ERROR,
            "a WebSocket frame with a length of 65535 in 64 bits",
        ),
        (b"\x82\xff" + b"\xff" * 8, PROTOCOL_ERROR, "a WebSocket frame with a length whose first bit is set"),
        (
            b"\x82\xff" + (MAX_FRAME_BYTES + 1).to_bytes(8, "big"),
            websocket.TOO_BIG,
            "a frame of 16777216 bytes, the limit is 16777215",
        ),
        (
            b"\x02\xff" + (1 << 62).to_bytes(8, "big"),
            websocket.TOO_BIG,
            f"a frame of {1 << 62} bytes, the limit is 16777215",
        ),
        (said(websocket.CLOSE, b"x"), PROTOCOL_ERROR, "a WebSocket CLOSE with code 0"),
        (said(websocket.CLOSE, b"\x03\xed"), PROTOCOL_ERROR, "a WebSocket CLOSE with code 1005"),
        (said(websocket.CLOSE, b"\xff\xff"), PROTOCOL_ERROR, "a WebSocket CLOSE with code 65535"),
    ],
)
def test_what_a_client_must_not_send_is_a_fault(raw: bytes, code: int, fault: str) -> None:
    for pieces in ([said(BINARY, b"good") + raw], [said(BINARY, b"good"), *(raw[i : i + 1] for i in range(len(raw)))]):
        reader = MessageReader(is_from_client=True)
        assert fed(reader, [*pieces, said(BINARY, b"more")]) == framed(b"good")
        assert (reader.close_code, reader.fault, reader.has_news) == (code, fault, True)


@given(raw=st.binary(max_size=200), at=st.lists(st.integers(0, 200), max_size=6), is_from_client=st.booleans())
@settings(max_examples=75)
def test_any_bytes_are_read_the_same_in_pieces(raw: bytes, at: list[int], is_from_client: bool) -> None:
    whole, cut_up = MessageReader(is_from_client), MessageReader(is_from_client)
    begin = said(BINARY, b"begun", 0, key=KEY if is_from_client else None)
    assert fed(whole, [begin, raw]) == fed(cut_up, [begin, *cut(raw, [min(each, len(raw)) for each in at])])
    for name in ("fault", "close_code", "is_closed", "pong", "has_news"):
        assert getattr(whole, name) == getattr(cut_up, name)


def test_what_a_server_must_not_mask_is_a_fault() -> None:
    reader = MessageReader(is_from_client=False)
    assert reader.feed(said(BINARY, b"x"), 100) == b""
    assert reader.fault == "a WebSocket frame that is masked"


# --- what is written


@pytest.mark.parametrize("seed", [SEED, b""], ids=["client", "server"])
@pytest.mark.parametrize("size", SIZES)
def test_a_message_of_any_length_is_written(size: int, seed: bytes) -> None:
    body = bytes(at % 251 for at in range(size))
    raw = websocket.MessageWriter(seed).encode(framed(body, b"x"))
    assert stranger(SERVER if seed else CLIENT, raw) == [body, b"x"]


@given(bodies=BODIES, at=st.lists(st.integers(0, 2000), max_size=12))
@settings(max_examples=60)
def test_frames_in_any_pieces_are_written(bodies: list[bytes], at: list[int]) -> None:
    stream = framed(*bodies)
    for seed in (SEED, b""):
        writer = websocket.MessageWriter(seed)
        pieces = [writer.encode(piece) for piece in cut(stream, [min(each, len(stream)) for each in at])]
        assert stranger(SERVER if seed else CLIENT, b"".join(pieces)) == bodies
        assert fed(MessageReader(is_from_client=bool(seed)), pieces) == stream


def test_a_frame_of_all_that_24_bits_can_say_is_written_and_read() -> None:
    body = bytes(MAX_FRAME_BYTES)
    for seed in (SEED, b""):
        raw = websocket.MessageWriter(seed).encode(framed(body))
        assert fed(MessageReader(is_from_client=bool(seed)), cut(raw, [100_000, 9_000_001])) == framed(body)


def test_control_frames_are_written() -> None:
    for seed, side in ((SEED, SERVER), (b"", CLIENT)):
        writer = websocket.MessageWriter(seed)
        protocol = Protocol(side=side, state=OPEN)
        protocol.receive_data(writer.control(websocket.PONG, b"x" * websocket.MAX_CONTROL_BYTES))
        protocol.receive_data(writer.control(websocket.CLOSE, websocket.NORMAL.to_bytes(2, "big")))
        pong, _ = protocol.events_received()
        assert isinstance(pong, Frame)
        assert (pong.opcode, pong.data) == (Opcode.PONG, b"x" * websocket.MAX_CONTROL_BYTES)
        assert protocol.close_rcvd is not None
        assert protocol.close_rcvd.code == CloseCode.NORMAL_CLOSURE


@pytest.mark.parametrize("cut_at", [1, 2, 3, 5])
def test_a_control_frame_never_stands_inside_of_a_message(cut_at: int) -> None:
    writer = websocket.MessageWriter()
    stream = framed(b"0123456789", b"next")
    first = writer.encode(stream[:cut_at])
    waits = [writer.control(websocket.PONG, b"one"), writer.control(websocket.PONG, b"two")]
    rest = writer.encode(stream[cut_at:])
    assert waits == [b"", b""]
    assert first + rest == said(BINARY, b"0123456789", key=None) + said(websocket.PONG, b"two", key=None) + said(
        BINARY, b"next", key=None
    )


def test_a_server_may_write_large_pieces_of_a_frame_as_they_are() -> None:
    writer = websocket.MessageWriter()
    body = bytes(at % 251 for at in range(1000))
    raw = writer.encode(framed(body)[:103])
    assert (writer.control(websocket.PONG, b"x"), writer.pass_on(901)) == (b"", None)
    assert [writer.pass_on(400), writer.pass_on(500)] == [b"", said(websocket.PONG, b"x", key=None)]
    assert (writer.pass_on(1), writer.control(websocket.PONG, b"y")) == (None, said(websocket.PONG, b"y", key=None))
    assert fed(MessageReader(is_from_client=False), [raw, body[100:]]) == framed(body)


def test_a_client_masks_all_that_it_writes() -> None:
    writer = websocket.MessageWriter(SEED)
    writer.encode(b"\0\0\x0a")
    assert writer.pass_on(10) is None


def test_every_message_has_a_key_of_its_own_that_the_seed_decides() -> None:
    raw = websocket.MessageWriter(SEED).encode(framed(*[b"x"] * 1000))
    keys = {raw[at + 2 : at + 6] for at in range(0, len(raw), 7)}
    assert len(raw) == 7000
    assert len(keys) == 1000
    assert websocket.MessageWriter(SEED).encode(framed(*[b"x"] * 1000)) == raw
    assert websocket.MessageWriter(bytes(websocket.SEED_BYTES)).encode(framed(b"x"))[2:6] not in keys


def test_what_is_gathered_is_measured() -> None:
    reader = MessageReader(is_from_client=True)
    sizes = []
    for piece in (
        said(BINARY, b"abc", 0),
        said(CONTINUATION, b"de", 0),
        said(CONTINUATION, b"f"),
        said(BINARY, b"ghi"),
    ):
        reader.feed(piece, MAX_FRAME_BYTES)
        sizes.append(reader.gathered_bytes)
    assert sizes == [3, 5, 0, 0]


@pytest.mark.parametrize("whole_n", range(4))
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_who_is_dropped_holds_nothing_more_and_still_hears_a_close(whole_n: int, size: int) -> None:
    """Dropped anywhere: between messages, in one, between and in WebSocket frames of one."""
    reader = MessageReader(is_from_client=True)
    pieces = [said(BINARY, b"abc"), said(BINARY, b"de", 0), said(CONTINUATION, b"", 0), said(CONTINUATION, b"f")]
    begun = b"".join(pieces[:whole_n]) + pieces[whole_n][: len(pieces[whole_n]) - 1]
    reader.feed(begun, MAX_FRAME_BYTES)
    reader.drop()
    rest = b"".join([pieces[whole_n][-1:], *pieces[whole_n + 1 :], *pieces, said(PING, b"?"), said(websocket.CLOSE)])
    heard = [reader.feed(piece, MAX_FRAME_BYTES) for piece in cut(rest, list(range(size, len(rest), size)))]
    assert (b"".join(heard), reader.gathered_bytes, reader.fault) == (b"", 0, "")
    assert (reader.pong, reader.is_closed) == (b"?", True)
