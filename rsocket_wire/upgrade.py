"""HTTP in front of a WebSocket: heads, and the end that asks, a client or a broker. RFC 6455, section 4.

The library `websockets` reads and writes it. Decides whether what is answered is a WebSocket. Knows no sockets.
"""

import logging
from typing import Final

from rsocket_wire.ports import WS_PORT
from rsocket_wire.rsocket.foreign import NO_HTTP_LINE

MAX_HEAD_BYTES: Final = 64 << 10  # of a request, and of an answer; browsers send a tenth of it
_LINE_END: Final = b"\r\n"
_END: Final = 2 * _LINE_END
_HTTP: Final = b"HTTP/"

_quiet: Final = logging.getLogger(f"{__name__}.websockets")
_quiet.disabled = True  # whoever asks is told the error


class HttpHead:
    """The head of a request or an answer, collected until it is whole."""

    def __init__(self) -> None:
        self._data = bytearray()  # MAX_HEAD_BYTES and one read at most: its owner looks at `is_too_long`
        self.rest = b""  # what came behind it

    def feed(self, data: bytes) -> bytes:
        """The head with the empty line at its end, once; empty until it is there."""
        searched = max(0, len(self._data) - len(_END) + 1)
        self._data += data
        end = self._data.find(_END, searched)
        if end < 0:
            return b""
        head = bytes(self._data[: end + len(_END)])
        self.rest = bytes(self._data[end + len(_END) :])
        self._data.clear()
        return head

    @property
    def is_too_long(self) -> bool:
        """It has more bytes than anybody needs."""
        return len(self._data) > MAX_HEAD_BYTES


class UpgradeClient:
    """What this end asks the other one for."""

    def __init__(self, url: str) -> None:
        """ValueError for a URL that is none of a WebSocket."""
        from websockets.client import ClientProtocol
        from websockets.exceptions import InvalidURI
        from websockets.uri import parse_uri

        try:
            uri = parse_uri(url)
        except InvalidURI as error:
            raise ValueError(str(error)) from None
        self._protocol: Final = ClientProtocol(uri, logger=_quiet)
        self._head: Final = HttpHead()
        self._first = b""  # bytes of the answer, as many as _HTTP has

    def request(self) -> bytes:
        """The first bytes."""
        self._protocol.send_request(self._protocol.connect())
        return b"".join(self._protocol.data_to_send())

    def feed(self, data: bytes) -> bytes | None:
        """What came behind the answer, None until that is whole; ConnectionError when it is no WebSocket."""
        self._first += data[: len(_HTTP) - len(self._first)]
        if not _HTTP.startswith(self._first):
            raise ConnectionError("WebSocket: the other side does not speak HTTP; if it is no WebSocket, use tcp://")
        head = self._head.feed(data)
        if not head:
            if self._head.is_too_long:
                raise ConnectionError(f"WebSocket: an answer of more than {MAX_HEAD_BYTES} bytes")
            return None
        self._protocol.receive_data(head)
        error: BaseException | None = self._protocol.handshake_exc
        if error is not None:
            raise ConnectionError(f"WebSocket: {error.__cause__ or error}")
        if not self._protocol.events_received():  # it has a body, so it is none
            line = head.partition(_LINE_END)[0].decode(errors="replace")
            if line == NO_HTTP_LINE:
                raise ConnectionError("WebSocket: the other side speaks RSocket without WebSocket: use tcp://")
            is_web_server = line.split(" ")[1:2] == ["200"]
            why = f"this is a web server, perhaps the REST API of a broker: use its port of ws://, {WS_PORT} by default"
            raise ConnectionError(f"WebSocket: the answer is {line}" + (f"; {why}" if is_web_server else ""))
        return self._head.rest
