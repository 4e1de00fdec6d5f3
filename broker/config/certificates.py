"""Certificates and keys in files: whether they are what they should be, whose eyes they are for, and contexts of them.

What a certificate says, and until when, is for those to whom it is shown.
"""

import base64
import os
import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from broker.access.certificates import RevokedCertificates, subject_hash
from broker.access.identities import subject_text
from rsocket_wire.errors import BrokerError
from rsocket_wire.files import pem_advice

CERTIFICATE: Final = "certificate"
KEY: Final = "key"

MAX_LISTS_BYTES: Final = 16 << 20  # 300,000 revoked certificates; read in the event loop, in half a second

_KEY_LINE: Final = b"PRIVATE KEY-----"
_BEGIN: Final = b"-----BEGIN X509 CRL-----"
_END: Final = b"-----END X509 CRL-----"
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
        if fault_of_roots(certificate) and not fault_of_roots(key) and _KEY_LINE in Path(certificate).read_bytes():
            return CERTIFICATE, "holds no certificate but a key: are certificate and key swapped?"
        if fault_of_roots(certificate):
            return CERTIFICATE, f"holds no certificate in PEM{pem_advice(certificate)}"
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
        return f"holds no certificate in PEM{pem_advice(path)}"
    except OSError:
        pass
    return ""


def read_revoked(path: str) -> RevokedCertificates:
    """The certificates that the lists of a file revoke, in PEM; OSError, ValueError with a sentence."""
    raw = Path(path).read_bytes()
    if len(raw) > MAX_LISTS_BYTES:
        raise ValueError(f"has {len(raw)} bytes, {MAX_LISTS_BYTES} can be used")
    found = RevokedCertificates()
    for number, block in enumerate(raw.split(_BEGIN)[1:], 1):
        try:
            found.add(base64.b64decode(block.partition(_END)[0]))
        except ValueError as error:
            raise ValueError(f"has a list that cannot be read, number {number}: {error}") from None
    if not found.by_issuer:
        raise ValueError("holds no list of revoked certificates in PEM")
    return found


def unlisted_authorities(client_ca: str, revoked: RevokedCertificates) -> list[str]:
    """Names of the authorities that no list is of: nobody with a certificate of theirs gets in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(client_ca)
    except (ssl.SSLError, OSError):
        return []
    found: list[str] = []
    for raw, shown in zip(context.get_ca_certs(binary_form=True), context.get_ca_certs(), strict=True):
        if subject_hash(raw) not in revoked.by_issuer:
            subject = tuple(tuple(step) for step in shown.get("subject", ()))
            found.append(subject_text(subject))  # type: ignore[arg-type]  # typeshed has it wider
    return found


def expired_at(revoked: RevokedCertificates, at: datetime) -> list[datetime]:
    """When lists have expired, of those that have by that moment: nobody with a certificate of theirs gets in."""
    found: list[datetime] = []
    for text in revoked.until:
        try:
            moment = datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            continue  # OpenSSL will say what it makes of it
        if moment <= at:
            found.append(moment)
    return found


def server_context(
    certificate: str,
    key: str,
    client_ca: str = "",
    min_version: str = "1.2",
    is_optional: bool = False,
    client_crl: str = "",
) -> ssl.SSLContext:
    """A context for accepting; with `client_ca` every client must show a certificate signed by it.

    `is_optional`: it need show none, but one that it shows must be. `client_crl`: and a list in there must be of its
    authority, and not have it. Raises BrokerError "bad-config" when a file is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[min_version]
    try:
        load_pair(context, certificate, key)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL if is_optional else ssl.CERT_REQUIRED
        if client_crl:
            context.load_verify_locations(client_crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (ssl.SSLError, OSError) as error:
        raise _bad_files((certificate, key, client_ca, client_crl), error) from None
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
