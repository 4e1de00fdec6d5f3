"""Identities: a kind, and a name that whoever vouches for it gives.

    certificate:spiffe://acme/shop/orders     a verified certificate: the URI of its SAN, SPIFFE's before others
    certificate:orders.shop.example           without one its first DNS name
    certificate:CN=orders,O=Acme              without both its subject, as RFC 4514 writes it
    jwt:orders-7                              the subject of a signed token
    user:ada                                  a name with a password
    uid:1000                                  who owns the process behind a Unix socket
    anonymous                                 nobody vouches for it

Decides what an identity is called. Two identities have one text only if they are the same: a name of a SAN that could
pass for one of the others is none, and in a subject all that separates parts is escaped (D-66). So the text may stand
for the identity as a key. Does not know how any of them is proved.
"""

from typing import Final

CERTIFICATE: Final = "certificate"
JWT: Final = "jwt"
USER: Final = "user"
UID: Final = "uid"
ANONYMOUS: Final = "anonymous"
KINDS: Final = (CERTIFICATE, JWT, USER, UID, ANONYMOUS)

SPIFFE: Final = "spiffe://"
# OpenSSL, and with it Python, calls attributes by long names; RFC 4514, section 3, has these short ones.
SHORT_NAMES: Final[dict[str, str]] = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL: Final = '",+;<>\\'  # in a value they get a backslash
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_OF_SCHEMES: Final = frozenset(_LETTERS + _LETTERS.upper() + "0123456789+.-")
_OF_HOSTS: Final = frozenset(_LETTERS + _LETTERS.upper() + "0123456789_.-*")

Attribute = tuple[str, str]  # name and value


class CertificateNames:
    """What a verified certificate calls its owner."""

    def __init__(self, identity: str, subject: str) -> None:
        self.identity: Final = identity  # text of the identity
        self.subject: Final = subject  # text of the identity that it would be without a SAN; empty: it has none


class Proof:
    """What a transport alone says of who is at its other end."""

    def __init__(
        self, principal: str = "", subject: str = "", is_private: bool = False, certificate: bytes = b""
    ) -> None:
        self.principal: Final = principal  # text of the identity; empty: nothing
        self.subject: Final = subject  # see `CertificateNames`
        self.is_private: Final = is_private  # nobody else can read what is said: encrypted, or only on this machine
        self.certificate: Final = certificate  # see `certificates.certificate_id`; empty: it has shown none


NO_PROOF: Final = Proof()


def identity_text(kind: str, name: str) -> str:
    """`user:ada`; of ANONYMOUS, which has no name, `anonymous`."""
    return f"{kind}:{name}" if name else kind


def is_identity(text: str) -> bool:
    """It could be the text of an identity."""
    kind, _, name = text.partition(":")
    return text == ANONYMOUS or (kind in KINDS and kind != ANONYMOUS and bool(name) and name.isprintable())


def kind_of(text: str) -> str:
    """The kind of an identity's text; of an empty one ANONYMOUS."""
    return text.partition(":")[0] if text else ANONYMOUS


def names_of_certificate(
    subject: tuple[tuple[Attribute, ...], ...], alternatives: tuple[Attribute, ...]
) -> CertificateNames:
    """As `ssl` has them: `subject`, steps in the certificate's order; `alternatives`, kinds and names of its SAN."""
    uris = [name for kind, name in alternatives if kind == "URI" and _is_uri(name)]
    spiffe = [name for name in uris if name.startswith(SPIFFE)]
    hosts = [name for kind, name in alternatives if kind == "DNS" and name and not set(name) - _OF_HOSTS]
    by_subject = identity_text(CERTIFICATE, subject_text(subject)) if subject else ""
    for names in (spiffe, uris, hosts):
        if names:
            return CertificateNames(identity_text(CERTIFICATE, names[0]), by_subject)
    return CertificateNames(by_subject, by_subject)


def subject_text(steps: tuple[tuple[Attribute, ...], ...]) -> str:
    """A subject as RFC 4514 writes it: the last step first. The attributes of one step, a set, are sorted."""
    written: list[str] = []
    for step in reversed(steps):
        parts = [f"{SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in step]
        written.append("+".join(sorted(parts)))
    return ",".join(written)


def _is_uri(name: str) -> bool:
    """It has a scheme, which no subject has, and nothing that a line of a log could not show."""
    scheme, colon, rest = name.partition(":")
    return bool(scheme and colon and rest) and not set(scheme) - _OF_SCHEMES and rest.isprintable() and " " not in rest


def _escaped(value: str) -> str:
    """The value as it may stand between separators, printable, on one line."""
    written: list[str] = []
    for at, each in enumerate(value):
        if each in _SPECIAL or (each == "#" and at == 0) or (each == " " and at in (0, len(value) - 1)):
            written.append(f"\\{each}")
        elif not each.isprintable():
            written += [f"\\{byte:02x}" for byte in each.encode("utf-8", "surrogatepass")]
        else:
            written.append(each)
    return "".join(written)
