"""Certificates and keys in files: whether they are what they should be, and whose eyes they are for.

Decides that before anybody listens or dials with them. What a certificate says, and until when, is for those to whom it
is shown.
"""

import os
import ssl
import stat
from typing import Final

CERTIFICATE: Final = "certificate"
KEY: Final = "key"


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


def is_open_to_all(path: str) -> bool:
    """Every user of this machine may read the file."""
    try:
        return os.stat(path).st_mode & stat.S_IROTH != 0
    except OSError:
        return False
