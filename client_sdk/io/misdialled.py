"""Somebody else answers than the broker that the URL means: what the caller reads. Knows no connections."""

import os
import re
import ssl as tls
from typing import Final, NamedTuple

from client_sdk.errors import ClientError
from client_sdk.io.dial import Target

_PLAIN: Final = {"tls": "tcp://, or ws:// for a WebSocket,", "wss": "ws://"}
_ENCRYPTED: Final = {"tcp": "tls", "ws": "wss"}
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")
_UNKNOWN_CA: Final = (2, 18, 19, 20, 21)  # of OpenSSL: no issuer, or one that nobody has said to trust
_OF_TIME: Final = {
    9: "set the clock of this machine, or wait",
    10: "the broker needs a new one, if the clock of this machine is right",
}
_WANTS_OTHER: Final = "the broker does not accept this client's certificate: give one of a CA that it trusts"
_VERSIONS: Final = (
    "both sides have no version of TLS in common: compare the broker's tls.min_version with what this side allows"
)
_SHOW_ONE: Final = "ssl= needs context.load_cert_chain(CERTIFICATE, KEY), as --cert and --key do for commands"
# asyncio does not send the alert that says why: all of these look the same from here.
_WHY_ENDED: Final = (
    f"the broker's log says why: it may want a certificate of this client ({_SHOW_ONE}), not accept the one it has "
    "got, or allow other versions of TLS only"
)
# What the other side says in an alert, or this side finds: by OpenSSL's reason.
_ALERTS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": f"the broker wants a certificate of this client: {_SHOW_ONE}",
    "TLSV1_ALERT_UNKNOWN_CA": _WANTS_OTHER,
    "SSLV3_ALERT_BAD_CERTIFICATE": _WANTS_OTHER,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this client's certificate has expired: give a new one",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": _WANTS_OTHER,
    "TLSV1_ALERT_PROTOCOL_VERSION": _VERSIONS,
    "UNSUPPORTED_PROTOCOL": _VERSIONS,
}
_STATUS: Final = re.compile(r" HTTP(?:/1\.\d)? (\d{3})\b")
# To who asks for a WebSocket: by status, or by its hundred.
_ANSWERS: Final = {
    200: "this is a web server: write the URL of a ws:// listener of the broker",
    404: "the path of the URL may be wrong, or this is no broker: write the URL that the broker, or its proxy, has",
    401: "a proxy between wants a login of its own: let it pass these connections",
    403: "a proxy between, or the broker, allows this client nothing here: ask whoever runs it",
    407: "a proxy between wants a login of its own: let it pass these connections",
    300: "it leads elsewhere: write that URL, wss:// in place of https://",
    500: "a proxy between does not reach the broker, or it has failed: look into its log",
}


class Said(NamedTuple):
    """What the caller reads."""

    text: str
    says_how: bool  # to mend it, so that no other advice is wanted


def dial_said(target: Target, error: Exception) -> Said:
    """Why no pipe could be had, and what mends it."""
    if isinstance(error, tls.SSLCertVerificationError):
        return Said(_certificate_text(error), True)
    if isinstance(error, tls.SSLError):
        return _tls_said(target, error)
    text = reason_of(error)
    if isinstance(error, ConnectionError) and text.startswith("WebSocket: "):
        return _websocket_said(target, text)
    is_refused = isinstance(error, ConnectionRefusedError)
    if target.scheme in ("tls", "wss") and isinstance(error, ConnectionError) and not is_refused:
        return Said(f"{text or 'the other side closed the connection'} in the TLS handshake; {_WHY_ENDED}", True)
    if target.scheme == "unix" and isinstance(error, PermissionError):
        return Said(f"{text}: let this user, or its group, write to the socket", True)
    if "AF_UNIX path too long" in text:
        return Said("the path is longer than a socket's may be: put the socket into a folder with a shorter name", True)
    return Said(text, not isinstance(error, OSError))  # of credentials, or of the function that gives them


def reason_of(error: Exception) -> str:
    """`connection refused`: what the system says, without its number and the address, which the URL is beside."""
    if isinstance(error, tls.SSLError) or not isinstance(error, OSError) or error.errno is None:
        return str(error)
    said = os.strerror(error.errno) if error.errno > 0 else error.strerror  # below 0: of the resolver
    return (said or str(error)).lower()


def end_said(target: Target, error: ClientError) -> Said:
    """Why the connection has ended before it was accepted, and what mends it."""
    if error.word == "connection-lost":
        other = _ENCRYPTED.get(target.scheme)
        why = "is this the URL of a broker?" if target.scheme == "unix" else _WHY_ENDED
        mend = why if other is None else f"if it speaks TLS, use {other}://"
        alert = _find_alert(error.text)
        return Said(f"{error.text}; {alert}" if alert else f"{error.text} before it said anything; {mend}", True)
    if error.word == "bad-frame":
        text = error.text.replace("use ws://", "use wss://") if target.scheme == "tls" else error.text
        return Said(text, ": use " in text)
    return Said(error.text, False)


def _certificate_text(error: tls.SSLCertVerificationError) -> str:
    """What is wrong with the broker's certificate, and whose task it is."""
    said = error.verify_message.rstrip(".")
    if "IP address mismatch" in said or "ostname mismatch" in said:
        names = "`openssl x509 -noout -ext subjectAltName -in FILE` lists them"
        return f"the certificate is for another host: {said}; use a name that is in it ({names})"
    if error.verify_code in _OF_TIME:
        return f"the certificate does not hold now: {said}; {_OF_TIME[error.verify_code]}"
    if error.verify_code in _UNKNOWN_CA:
        trust = "ssl=ssl.create_default_context(cafile=FILE) trusts its CA in FILE, as --ca FILE does for commands"
        return f"the certificate is not trusted: {said}; {trust}"
    return f"the certificate is not accepted: {said}; the broker needs another one"


def _tls_said(target: Target, error: tls.SSLError) -> Said:
    if any(reason in str(error) for reason in _NO_TLS):
        use = f"use {_PLAIN[target.scheme]} in place of {target.scheme}://"
        return Said(f"the other side does not speak TLS: {use}", True)
    mend = _find_alert(str(error))
    return Said(f"{error}; {mend}" if mend else str(error), bool(mend))


def _find_alert(text: str) -> str:
    """What mends it; empty for a text without an alert that is known here."""
    return next((mend for reason, mend in _ALERTS.items() if reason in text), "")


def _websocket_said(target: Target, text: str) -> Said:
    is_silent = "answered nothing" in text
    if target.scheme == "wss":
        text = text.replace("use tcp://", "use tls://")
        text += f", and if it wants a certificate of this client, {_SHOW_ONE}" if is_silent else ""
    elif is_silent:
        text += ", and if it speaks TLS, use wss://"
    alert = _find_alert(text)
    if alert:
        return Said(f"{text}; {alert}", True)
    status = _STATUS.search(text)
    if status is None or "use " in text:
        return Said(text, "use " in text)
    mend = _ANSWERS.get(int(status[1]), _ANSWERS.get(int(status[1]) // 100 * 100))
    return Said(f"{text}; {mend}" if mend else text, mend is not None)
