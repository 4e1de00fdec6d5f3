"""What is said of a connection that could not be made."""

import errno
import socket
import ssl

import pytest

from client_sdk.io.misdialled import reason_of


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "connection refused"),
        (PermissionError(errno.EACCES, "Permission denied", "/run/broker.sock"), "permission denied"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not known"),
        (ConnectionError("WebSocket: the answer is HTTP/1.1 200 OK"), "WebSocket: the answer is HTTP/1.1 200 OK"),
        (ssl.SSLError(1, "[SSL: NO_CIPHERS] no ciphers"), "[SSL: NO_CIPHERS] no ciphers"),
        (ValueError("no"), "no"),
    ],
)
def test_the_reason_is_what_the_system_says_without_its_number(error: Exception, said: str) -> None:
    assert reason_of(error) == said
