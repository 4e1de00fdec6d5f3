"""TLS: certificates that are shown, and the authorities by which those of the other end must be signed."""

from __future__ import annotations

import asyncio
import ssl

from broker.config.certificates import load_pair
from rsocket_wire.errors import BrokerError

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def server_context(certificate: str, key: str, client_ca: str = "", min_version: str = "1.2") -> ssl.SSLContext:
    """A context for accepting; with `client_ca` every client must show a certificate signed by it.

    Raises BrokerError "bad-config" when a file is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[min_version]
    try:
        load_pair(context, certificate, key)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
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


def is_over_tls(transport: asyncio.BaseTransport) -> bool:
    """What is written to it is encrypted."""
    return transport.get_extra_info("sslcontext") is not None


def _bad_files(paths: tuple[str, ...], error: Exception) -> BrokerError:
    return BrokerError("bad-config", f"tls: {', '.join(path for path in paths if path)}: {error}")
