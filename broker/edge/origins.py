"""Where a connection comes from, as the limits per address and per principal count it. Decides what one origin is, and
whether others could read what is said there."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from typing import Any, Final, NamedTuple

from broker.access.certificates import certificate_id
from broker.access.identities import NO_PROOF, UID, CertificateNames, Proof, identity_text, names_of_certificate
from broker.forwarding.arrival import FOR_ALL

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid: SO_PEERCRED of Linux
PREFIX_BITS: Final = 64  # of an IPv6 address: a host has all addresses behind them and can change at will


class Origin(NamedTuple):
    """Of one connection."""

    address: str = ""  # "10.0.0.4", "2001:db8::/64"; a Unix socket has none
    proof: Proof = NO_PROOF
    names: tuple[str, ...] = ()  # in the certificate, see `certificate_names`
    entrance: int = FOR_ALL  # who may come where it was accepted, see `Arrival`


NOWHERE: Final = Origin()
_NAMELESS: Final = CertificateNames("", "")
_LOOPBACK_V6: Final = "::/64"  # the /64 of ::1, which nobody else has


def origin_of(transport: asyncio.BaseTransport) -> Origin:
    """Returns the origin of a connection.

    The principal is what the certificate at the other end says, which is there only when it was verified, or who owns
    the process at the other end of a Unix socket.
    """
    address = peer_address(transport)
    if not address:
        return Origin(proof=Proof(_owner_of(transport), is_private=True))
    certificate = transport.get_extra_info("peercert")
    is_private = transport.get_extra_info("sslcontext") is not None or is_loopback(address)
    if not certificate:
        return Origin(address, Proof(is_private=is_private))
    names = _names_of(certificate)
    proof = Proof(names.identity, names.subject, is_private, _id_of_certificate(transport))
    return Origin(address, proof, certificate_names(certificate))


def is_loopback(address: str) -> bool:
    """It is one of this machine's own; `address` as `address_of` has it, so that of IPv6 the whole /64 of ::1 is."""
    return ipaddress.ip_address(address.partition("/")[0]).is_loopback or address == _LOOPBACK_V6


def certificate_names(certificate: dict[str, Any]) -> tuple[str, ...]:
    """Returns the subject alternative names of a certificate, as `ssl` gives it, that may be the name of a broker.

    Those are the DNS names, and the last step of each URI: `eu-1` of `spiffe://acme/brokers/eu-1`.
    """
    found: list[str] = []
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "DNS":
            found.append(value)
        elif kind == "URI":
            found.append(value.rpartition("/")[2])
    return tuple(found)


def peer_address(transport: asyncio.BaseTransport) -> str:
    """Returns the address of the other end as `address_of` has it; empty where there is none, as at a Unix socket.

    Always the same for one transport: the name is remembered with it.
    """
    name = transport.get_extra_info("peername")
    return address_of(name[0]) if isinstance(name, tuple) else ""


def address_of(host: str) -> str:
    """Returns an IPv4 address as it is, of an IPv6 address its /64."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, PREFIX_BITS), strict=False))


def peer_name(scheme: str, transport: asyncio.BaseTransport) -> str:
    """`tcp 10.0.0.4:5123`."""
    name = transport.get_extra_info("peername")
    if isinstance(name, tuple):
        return name_of(scheme, name)
    path = name or transport.get_extra_info("sockname")  # who has dialled a Unix socket has no name
    return f"{scheme} {path}" if path and not isinstance(path, tuple) else scheme


def name_of(scheme: str, address: tuple[Any, ...]) -> str:
    """The same of the address of an IP socket."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{scheme} {host}:{address[1]}"


def address_in(name: str) -> str:
    """Returns the address in a peer's name, `tcp 10.0.0.4:5123`, as `address_of` has it; `unix` where there is none."""
    scheme, _, place = name.partition(" ")
    host = place.rpartition(":")[0].strip("[]")
    try:
        return address_of(host) if host and scheme != "unix" else scheme
    except ValueError:
        return host  # a name, which a link has that was dialled


def _names_of(certificate: dict[str, Any]) -> CertificateNames:
    """Of a certificate as `ssl` gives it."""
    subject = tuple(tuple(step) for step in certificate.get("subject", ()))
    return names_of_certificate(subject, tuple(certificate.get("subjectAltName", ())))


def _id_of_certificate(transport: asyncio.BaseTransport) -> bytes:
    """By which lists of revoked ones name it; empty if it cannot be read."""
    connection = transport.get_extra_info("ssl_object")
    raw = connection.getpeercert(binary_form=True) if connection is not None else None
    try:
        return certificate_id(raw) if raw else b""
    except ValueError:
        return b""


def _owner_of(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("socket")
    peercred = getattr(socket, "SO_PEERCRED", None)  # Linux; other systems tell it otherwise, and there it is not told
    if peer is None or peercred is None:
        return ""
    try:
        raw = peer.getsockopt(socket.SOL_SOCKET, peercred, _UCRED.size)
    except OSError:
        return ""  # the socket is gone already
    return identity_text(UID, str(_UCRED.unpack(raw)[1]))
