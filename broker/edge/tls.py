"""TLS for listeners: certificate, key, and a CA that clients must be signed by."""

from __future__ import annotations

import ssl

from broker.errors import BrokerError

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def server_context(certificate: str, key: str, client_ca: str = "", min_version: str = "1.2") -> ssl.SSLContext:
    """A context for accepting; with `client_ca` every client must show a certificate signed by it.

    Raises BrokerError "bad-config" when a file is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[min_version]
    try:
        context.load_cert_chain(certificate, key)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (ssl.SSLError, OSError) as error:
        files = ", ".join(name for name in (certificate, key, client_ca) if name)
        raise BrokerError("bad-config", f"tls: {files}: {error}") from None
    return context
