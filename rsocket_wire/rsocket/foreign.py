"""Protocols that somebody speaks by mistake where RSocket over TCP is expected, by their first bytes. For both ends.

RSocket   | length (24) | stream id (32): 0 | …      the first frame is a SETUP, RESUME or their answer
TLS       | 21 or 22 | 3 | 0..4 | length (16) | …    an alert, or a handshake
HTTP      GET / HTTP/1.1                             or what answers it
"""

from typing import Final

TLS: Final = "TLS"
HTTP: Final = "HTTP"
_METHODS: Final = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"PRI * ")
_HTTP_BEGINNINGS: Final = (*_METHODS, b"HTTP/")
_TLS_RECORDS: Final = (21, 22)  # alert, handshake
# The answer to HTTP. Its first line is known to `rsocket_wire.upgrade`, which is a client of the same mistake.
NO_HTTP_LINE: Final = "HTTP/1.1 400 RSocket without HTTP"
_NO_HTTP_TEXT: Final = (
    "This port speaks RSocket without HTTP (tcp://, tls://). RSocket over WebSocket (ws://, wss://) has another port, "
    "usually 7879, and the REST API a third: admin.listen, usually 7070.\n"
)
_NO_HTTP_HEAD: Final = "Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "
NO_HTTP: Final = f"{NO_HTTP_LINE}\r\n{_NO_HTTP_HEAD}{len(_NO_HTTP_TEXT)}\r\n\r\n{_NO_HTTP_TEXT}".encode()


def foreign_protocol(first: bytes) -> str:
    """TLS or HTTP, if that is what begins with these bytes; else empty."""
    if first.startswith(_HTTP_BEGINNINGS):
        return HTTP
    is_record = len(first) >= 5 and first[0] in _TLS_RECORDS and first[1] == 3 and first[2] <= 4
    # A frame of that length would go on with its stream id, which is 0.
    return TLS if is_record and first[3:5] != b"\0\0" else ""


def foreign_length(length: int) -> str:
    """As `foreign_protocol`, of what was read as the length of a frame: the first three bytes."""
    first = length.to_bytes(3, "big")
    if any(beginning.startswith(first) for beginning in _HTTP_BEGINNINGS):
        return HTTP
    return TLS if first[0] in _TLS_RECORDS and first[1] == 3 and first[2] <= 4 else ""


def foreign_text(protocol: str) -> str:
    """For the side that has dialled: what mends it that the other one speaks TLS or HTTP."""
    if protocol == HTTP:
        return "the other side speaks HTTP: use ws:// for a WebSocket; at the REST port, the port of the broker (7878)"
    return "the other side speaks TLS: use tls://, or wss:// for a WebSocket"
