"""Which protocol somebody speaks by mistake."""

import pytest

from rsocket_wire.rsocket.foreign import (
    HTTP,
    NO_HTTP,
    NO_HTTP_LINE,
    TLS,
    foreign_length,
    foreign_protocol,
    foreign_text,
)
from rsocket_wire.rsocket.frames import Resume, Setup
from rsocket_wire.rsocket.framing import FrameCursor
from tests.fakes import framed

CLIENT_HELLO = bytes.fromhex("160301 0200 010001fc0303")
ALERT = bytes.fromhex("150303 0002 0246")


@pytest.mark.parametrize(
    ("first", "protocol"),
    [
        (CLIENT_HELLO, TLS),
        (ALERT, TLS),
        (b"GET / HTTP/1.1\r\n", HTTP),
        (b"HTTP/1.1 400 Bad Request\r\n", HTTP),
        (b"PRI * HTTP/2.0\r\n", HTTP),
        (b"GETTING", ""),
        (b"", ""),
        (CLIENT_HELLO[:4], ""),
        (bytes.fromhex("160301 00000000 0400"), ""),  # a SETUP of 1.4 MB
    ],
)
def test_the_first_bytes_tell(first: bytes, protocol: str) -> None:
    assert foreign_protocol(first) == protocol


def test_first_frames_of_rsocket_are_not_mistaken() -> None:
    setup = Setup("a/b", "c/d", 1, 1, bytes(0x160301)).encode()
    for raw in (setup, Resume(bytes(16), 0, 0).encode()):
        assert foreign_protocol(framed(raw)) == ""


def test_a_length_that_is_none_tells_too() -> None:
    lengths = [int.from_bytes(first[:3], "big") for first in (CLIENT_HELLO, b"GET", b"HTT", b"GOT", bytes(3))]
    assert [foreign_length(length) for length in lengths] == [TLS, HTTP, HTTP, "", ""]
    cursor = FrameCursor(True, 1000)
    cursor.feed(b"GET / HTTP/1.1", 0.0)
    assert not cursor.advance()
    assert cursor.fault == "HTTP in place of frames: the URL of who connects has a wrong scheme or port"
    assert cursor.foreign == HTTP


def test_the_answer_to_http_is_whole() -> None:
    head, _, body = NO_HTTP.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        NO_HTTP_LINE.encode(),
        b"Connection: close",
        b"Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}".encode(),
    ]


def test_who_dialled_is_told_what_to_use() -> None:
    assert foreign_text(TLS) == "the other side speaks TLS: use tls://, or wss:// for a WebSocket"
    assert "ws://" in foreign_text(HTTP)
