"""What is said of a connection that could not be made."""

import errno
import socket
import ssl

import pytest

from client_sdk.errors import ConnectionLost
from client_sdk.io.dial import Target
from client_sdk.io.misdialled import Said, dial_said, end_said, reason_of

SHOW_ONE = "ssl= needs context.load_cert_chain(CERTIFICATE, KEY), as --cert and --key do for commands"
OTHER = "the broker does not accept this client's certificate: give one of a CA that it trusts"
LOG = (
    f"the broker's log says why: it may want a certificate of this client ({SHOW_ONE}), not accept the one it has got, "
    "or allow other versions of TLS only"
)


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


def refused(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


def alert(reason: str) -> ssl.SSLError:
    return ssl.SSLError(1, f"[SSL: {reason}] an alert (_ssl.c:1)")


def rejected(status: int) -> ConnectionError:
    return ConnectionError(f"WebSocket: server rejected WebSocket connection: HTTP {status}")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (refused(10, "certificate has expired"), "the broker needs a new one, if the clock of this machine is right"),
        (refused(9, "certificate is not yet valid"), "set the clock of this machine, or wait"),
        (
            refused(20, "unable to get local issuer certificate"),
            "trusts its CA in FILE, as --ca FILE does for commands",
        ),
        (refused(66, "EE certificate key too weak"), "key too weak; the broker needs another one"),
        (
            refused(62, "Hostname mismatch, certificate is not valid for 'b'."),
            "use a name that is in it (`openssl x509 -noout -ext subjectAltName -in FILE` lists them)",
        ),
        (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), f"the broker wants a certificate of this client: {SHOW_ONE}"),
        (alert("TLSV1_ALERT_UNKNOWN_CA"), OTHER),
        (alert("TLSV1_ALERT_PROTOCOL_VERSION"), "tls.min_version with what this side allows"),
        (ConnectionResetError(), f"the other side closed the connection in the TLS handshake; {LOG}"),
        (ConnectionResetError(errno.ECONNRESET, ""), f"connection reset by peer in the TLS handshake; {LOG}"),
    ],
)
def test_a_failure_of_tls_says_whose_task_it_is(error: Exception, said: str) -> None:
    text, says_how = dial_said(Target("tls://b"), error)
    assert (text.endswith(said), says_how) == (True, True), text


def test_a_failure_that_nothing_is_known_of_gets_the_usual_advice() -> None:
    for error in (ConnectionRefusedError(errno.ECONNREFUSED, ""), alert("NO_CIPHERS"), rejected(400)):
        assert not dial_said(Target("tls://b"), error).says_how


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, "this is a web server: write the URL of a ws:// listener of the broker"),
        (404, "the path of the URL may be wrong"),
        (407, "a proxy between wants a login of its own"),
        (302, "it leads elsewhere: write that URL"),
        (503, "a proxy between does not reach the broker"),
    ],
)
def test_an_answer_of_http_says_who_gave_it(status: int, said: str) -> None:
    text, says_how = dial_said(Target("ws://b/to"), rejected(status))
    assert (f"HTTP {status}; {said}" in text, says_how) == (True, True), text


def test_a_connection_that_ends_at_once_says_why_that_may_be() -> None:
    closed = ConnectionLost("the other side closed the connection")
    before = "the other side closed the connection before it said anything"
    assert {scheme: end_said(Target(f"{scheme}://b"), closed) for scheme in ("tcp", "wss")} == {
        "tcp": Said(f"{before}; if it speaks TLS, use tls://", True),
        "wss": Said(f"{before}; {LOG}", True),
    }
    assert end_said(Target("unix:///b"), closed) == Said(f"{before}; is this the URL of a broker?", True)
    alerted = ConnectionLost(f"the connection broke: {alert('TLSV1_ALERT_UNKNOWN_CA')}")
    assert end_said(Target("tls://b"), alerted) == Said(f"{alerted.text}; {OTHER}", True)


def test_a_socket_that_cannot_be_used_says_why() -> None:
    of_others = PermissionError(errno.EACCES, "Permission denied")
    assert dial_said(Target("unix:///b"), of_others) == Said(
        "permission denied: let this user, or its group, write to the socket", True
    )
    assert dial_said(Target("unix:///b"), OSError("AF_UNIX path too long")).says_how
