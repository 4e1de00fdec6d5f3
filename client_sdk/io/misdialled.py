"""Somebody else answers than the broker that the URL means: what the caller reads. Knows no connections."""

import os
import ssl as tls
from typing import Final

from client_sdk.errors import ClientError
from client_sdk.io.dial import Target

_PLAIN: Final = {"tls": "tcp://, or ws:// for a WebSocket,", "wss": "ws://"}
_ENCRYPTED: Final = {"tcp": "tls", "ws": "wss"}
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")


def dial_text(target: Target, error: Exception) -> str:
    """Why no pipe could be had, and what mends it."""
    if isinstance(error, tls.SSLCertVerificationError):
        said = error.verify_message.rstrip(".")
        if "IP address mismatch" in said or "ostname mismatch" in said:
            return f"the certificate is for another host: {said}; use a name that is in it"
        trust = "ssl=ssl.create_default_context(cafile=FILE) trusts the CA in FILE, as --ca FILE does for commands"
        return f"the certificate is not trusted: {said}; {trust}"
    if isinstance(error, tls.SSLError) and error.reason in _NO_TLS:
        return f"the other side does not speak TLS: use {_PLAIN[target.scheme]} in place of {target.scheme}://"
    text = reason_of(error)
    if target.scheme == "wss":
        return text.replace("use tcp://", "use tls://")
    is_silent = target.scheme == "ws" and "answered nothing" in text
    return f"{text}, and if it speaks TLS, use wss://" if is_silent else text


def reason_of(error: Exception) -> str:
    """`connection refused`: what the system says, without its number and the address, which the URL is beside."""
    if isinstance(error, tls.SSLError) or not isinstance(error, OSError) or error.errno is None:
        return str(error)
    said = os.strerror(error.errno) if error.errno > 0 else error.strerror  # below 0: of the resolver
    return (said or str(error)).lower()


def end_text(target: Target, error: ClientError) -> str:
    """Why the connection has ended before it was accepted, and what mends it."""
    other = _ENCRYPTED.get(target.scheme)
    if error.word == "connection-lost" and other is not None:
        return f"{error.text} before it said anything; if it speaks TLS, use {other}://"
    if error.word == "bad-frame" and target.scheme == "tls":
        return error.text.replace("use ws://", "use wss://")
    return error.text
