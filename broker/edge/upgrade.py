"""HTTP in front of a WebSocket, as it is asked for: RFC 6455, section 4. The library `websockets` reads and writes it.

Decides whether what is asked for is a WebSocket. Does not decide who may have one. Knows no sockets.
"""

import logging
from http import HTTPStatus
from typing import Final

from websockets.http11 import Request
from websockets.server import ServerProtocol

SUBPROTOCOL: Final = "rsocket"  # for those that ask for it

_quiet: Final = logging.getLogger(f"{__name__}.websockets")
_quiet.disabled = True  # what strangers send is told in one line, by the listener


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
