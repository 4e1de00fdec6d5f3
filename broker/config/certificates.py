"""Certificates and keys in files: whether they are what they should be, whose eyes they are for, and contexts of them.

What a certificate says, and until when, is for those to whom it is shown.
"""

import os
import ssl
import stat
from typing import Final

from rsocket_wire.errors import BrokerError

CERTIFICATE: Final = "certificate"
KEY: Final = "key"

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """What the context shows from now on. ssl.SSLError, OSError; nobody is asked for the password of a key."""
    context.load_cert_chain(certificate, key, password="")


def fault_of_pair(certificate: str, key: str) -> tuple[str, str] | None:
    """Which of both files is wrong, CERTIFICATE or KEY, and why; None when the key is that of the certificate.

    What cannot be read is no fault here.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        load_pair(context, certificate, key)
    except ssl.SSLError as error:
        if fault_of_roots(certificate):
            return CERTIFICATE, "holds no certificate in PEM"
        if error.reason == "KEY_VALUES_MISMATCH":
            return KEY, "is the key of another certificate"
        if error.reason is None:  # all that OpenSSL says of what is no key, or one that is encrypted
            return KEY, "holds no private key in PEM without a password"
        return CERTIFICATE, f"cannot be used: {error.reason.lower().replace('_', ' ')}"
    except OSError:
        pass
    return None


def fault_of_roots(path: str) -> str:
    """Why the file holds no certificates that others could be signed by; empty when it does, or cannot be read."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        return "holds no certificate in PEM"
    except OSError:
        pass
    return ""


def server_context(
    certificate: str, key: str, client_ca: str = "", min_version: str = "1.2", is_optional: bool = False
) -> ssl.SSLContext:
    """A context for accepting; with `client_ca` every client must show a certificate signed by it.

    `is_optional`: it need show none, but one that it shows must be. Raises BrokerError "bad-config" when a file is not
    what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[min_version]
    try:
        load_pair(context, certificate, key)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL if is_optional else ssl.CERT_REQUIRED
    except (ssl.SSLError, OSError) as error:
        raise _bad_files((certificate, key, client_ca), error) from None
    return context


def client_context(ca: str = "", certificate: str = "", key: str = "", min_version: str = "1.2") -> ssl.SSLContext:
    """A context for dialling: the other end must show a certificate of its host's name, signed by one of `ca`.

    `ca` empty: by one of those whom the system trusts. `certificate` and `key` are shown to who asks for them. Raises
    BrokerError "bad-config" when a file is not what it should be.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
        context.minimum_version = _VERSIONS[min_version]
        if certificate:
            load_pair(context, certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise _bad_files((ca, certificate, key), error) from None
    return context


def is_open_to_all(path: str) -> bool:
    """Every user of this machine may read the file."""
    try:
        return os.stat(path).st_mode & stat.S_IROTH != 0
    except OSError:
        return False


def _bad_files(paths: tuple[str, ...], error: Exception) -> BrokerError:
    return BrokerError("bad-config", f"tls: {', '.join(path for path in paths if path)}: {error}")
