"""Certificates that their authorities have revoked: lists in DER, and what names a certificate there (RFC 5280).

    certificate ──► certificate_id ──► |authority, 16 bytes|serial number|  ──► RevokedCertificates.covers
    list        ──► add ──► authority: serial numbers ──────────────────────────────┘

Decides which certificate a list means. Whether a list is signed by its authority OpenSSL finds out, where a certificate
is shown; this is for connections that are there already. Lists of changes only, and such as one authority makes for
others, are not read (D-101). ValueError for what is none of this.
"""

from hashlib import blake2b
from typing import Final

ISSUER_BYTES: Final = 16  # of the hash of an authority's name

_INTEGER: Final = 0x02
_UTC_TIME: Final = 0x17
_TIME: Final = 0x18
_UNIVERSAL: Final = 0x1C  # texts: UTF-32
_BMP: Final = 0x1E  # UTF-16
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0  # [0] of a certificate


class _Element:
    """One value in DER: its tag, and where its content is."""

    def __init__(self, raw: bytes, at: int, to: int) -> None:
        """The one that begins at `at`, and ends before `to`."""
        if at + 2 > to:
            raise ValueError("breaks off")
        self.tag: Final = raw[at]
        size = raw[at + 1]
        start = at + 2
        if size >= 0x80:
            size_n = size - 0x80
            if not 1 <= size_n <= 4 or start + size_n > to:
                raise ValueError("has a length that cannot be read")
            size = int.from_bytes(raw[start : start + size_n], "big")
            start += size_n
        self.start: Final = start
        self.end: Final = start + size
        if self.end > to:
            raise ValueError("breaks off")


class RevokedCertificates:
    """Of all lists that were added."""

    def __init__(self) -> None:
        self.by_issuer: Final[dict[bytes, set[bytes]]] = {}  # hash of the authority's name, serial numbers
        self.until: Final[list[str]] = []  # when each list expires, as it says so; it need not

    def add(self, raw: bytes) -> None:
        """A list in DER."""
        whole = _Element(raw, 0, len(raw))
        parts = _parts(raw, _Element(raw, whole.start, whole.end))
        if parts and parts[0].tag == _INTEGER:  # its version
            del parts[0]
        if len(parts) < 3 or parts[1].tag != _SEQUENCE:
            raise ValueError("is no list of revoked certificates")
        found = self.by_issuer.setdefault(_issuer_hash(raw, parts[1]), set())
        rest = parts[3:]  # behind its signature's algorithm, its authority and when it was made
        if rest and rest[0].tag in (_UTC_TIME, _TIME):
            moment = raw[rest[0].start : rest[0].end].decode("ascii", "replace")
            century = "" if rest[0].tag == _TIME else "20" if moment < "50" else "19"
            self.until.append(century + moment)
            del rest[0]
        if not rest or rest[0].tag != _SEQUENCE:
            return  # nobody's certificate is revoked
        at = rest[0].start
        while at < rest[0].end:
            entry = _Element(raw, at, rest[0].end)
            serial = _Element(raw, entry.start, entry.end)
            found.add(raw[serial.start : serial.end])
            at = entry.end

    def covers(self, id: bytes) -> bool:
        """This certificate is revoked; an empty id is no certificate's."""
        return id[ISSUER_BYTES:] in self.by_issuer.get(id[:ISSUER_BYTES], ()) if id else False


def certificate_id(raw: bytes) -> bytes:
    """Names a certificate in DER among all: its authority and its number."""
    parts = _certificate_parts(raw)
    return _issuer_hash(raw, parts[2]) + raw[parts[0].start : parts[0].end]


def subject_hash(raw: bytes) -> bytes:
    """What names an authority in `RevokedCertificates.by_issuer`, by its own certificate in DER."""
    return _issuer_hash(raw, _certificate_parts(raw)[4])


def _certificate_parts(raw: bytes) -> list[_Element]:
    """Number, algorithm, authority, times, subject, and what follows."""
    whole = _Element(raw, 0, len(raw))
    parts = _parts(raw, _Element(raw, whole.start, whole.end))
    if parts and parts[0].tag == _VERSION:
        del parts[0]
    if len(parts) < 5 or parts[0].tag != _INTEGER:
        raise ValueError("is no certificate")
    return parts


def _parts(raw: bytes, of: _Element) -> list[_Element]:
    """The values in one."""
    found: list[_Element] = []
    at = of.start
    while at < of.end:
        found.append(_Element(raw, at, of.end))
        at = found[-1].end
    return found


def _issuer_hash(raw: bytes, name: _Element) -> bytes:
    """Of a name. As RFC 5280, section 7.1, wants it, case and space do not count, nor how a text is encoded."""
    steps: list[str] = []
    for step in _parts(raw, name):
        attributes: list[str] = []
        for attribute in _parts(raw, step):
            pair = _parts(raw, attribute)
            if len(pair) != 2:
                raise ValueError("has a name that cannot be read")
            value = _text(raw[pair[1].start : pair[1].end], pair[1].tag)
            attributes.append(f"{raw[pair[0].start : pair[0].end].hex()}={' '.join(value.split()).casefold()}")
        steps.append("\x01".join(sorted(attributes)))
    return blake2b("\x00".join(steps).encode("utf-8", "surrogatepass"), digest_size=ISSUER_BYTES).digest()


def _text(raw: bytes, tag: int) -> str:
    if tag == _BMP:
        return raw.decode("utf-16-be", "replace")
    if tag == _UNIVERSAL:
        return raw.decode("utf-32-be", "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
