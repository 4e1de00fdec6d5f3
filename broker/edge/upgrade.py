"""HTTP in front of a WebSocket: RFC 6455, section 4, at both ends. The library `websockets` reads and writes it.

Decides whether what is asked for, or answered, is a WebSocket. Does not decide who may have one. Knows no sockets.
"""

import logging
from http import HTTPStatus
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidURI
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

MAX_HEAD_BYTES: Final = 64 << 10  # of a request, and of an answer; browsers send a tenth of it
SUBPROTOCOL: Final = "rsocket"  # for those that ask for it
_LINE_END: Final = b"\r\n"
_END: Final = 2 * _LINE_END

_quiet: Final = logging.getLogger(f"{__name__}.websockets")
_quiet.disabled = True  # what strangers send is told in one line, by the listener


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


class UpgradeRequest:
    """What a client asks for."""

    def __init__(self, head: bytes) -> None:
        self._protocol: Final = ServerProtocol(logger=_quiet)
        self._protocol.receive_data(head)
        events = self._protocol.events_received()
        self._request: Final = events[0] if events and isinstance(events[0], Request) else None
        self.path: Final = self._request.path.partition("?")[0] if self._request is not None else ""
        self.hosts: Final[list[str]] = self._request.headers.get_all("Host") if self._request is not None else []
        self.origin: Final = self._header("Origin")

    @property
    def fault(self) -> str:
        """Why it cannot be understood; empty when it can."""
        error: BaseException | None = self._protocol.handshake_exc
        if self._request is None and error is not None:
            return str(error.__cause__ or error)
        return ""

    @property
    def wants_websocket(self) -> bool:
        """It is not for a page."""
        return "websocket" in self._header("Upgrade").lower()

    def accept(self) -> tuple[bytes, str]:
        """The answer, and why it is a refusal; empty when it is none."""
        assert self._request is not None  # there is no fault
        response = self._protocol.accept(self._request)
        error = self._protocol.handshake_exc
        if error is None and SUBPROTOCOL in self._header("Sec-WebSocket-Protocol").replace(" ", "").split(","):
            response.headers["Sec-WebSocket-Protocol"] = SUBPROTOCOL
        return response.serialize(), "" if error is None else str(error)

    def _header(self, name: str) -> str:
        """All its values, as one."""
        return "" if self._request is None else ", ".join(self._request.headers.get_all(name))


def refusal(status: HTTPStatus, text: str) -> bytes:
    """An answer that is no WebSocket; the connection closes behind it."""
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n"
    if status is HTTPStatus.UPGRADE_REQUIRED:
        head += "Upgrade: websocket\r\n"
    body = f"{text}\n".encode()
    head += f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode("ascii") + body


class UpgradeClient:
    """What this end asks another broker for."""

    def __init__(self, url: str) -> None:
        """ValueError for a URL that is none of a WebSocket."""
        try:
            uri = parse_uri(url)
        except InvalidURI as error:
            raise ValueError(str(error)) from None
        self._protocol: Final = ClientProtocol(uri, logger=_quiet)
        self._head: Final = HttpHead()

    def request(self) -> bytes:
        """The first bytes."""
        self._protocol.send_request(self._protocol.connect())
        return b"".join(self._protocol.data_to_send())

    def feed(self, data: bytes) -> bytes | None:
        """What came behind the answer, None until that is whole; ConnectionError when it is no WebSocket."""
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
            raise ConnectionError(f"WebSocket: the answer is {head.partition(_LINE_END)[0].decode(errors='replace')}")
        return self._head.rest
