"""Principals: who is at the other end of a connection, as a certificate or the system says, and as people write it.

    organizationName=Acme\\, Inc., commonName=broker-1       the subject of a verified certificate, in its order
    organizationName=Acme, commonName=a+serialNumber=7      one of its steps may have several attributes
    uid 1000                                                who owns the process behind a Unix socket

A principal is compared part by part: attribute names and values are kept apart, and the text that `str` gives is the
same for two principals only if all their parts are, whatever is in a value. So it may stand for the principal as a key,
and what counts principals or compares them needs no more than that text (D-66).
"""

import re
from dataclasses import dataclass
from typing import Final

from broker.config.toml import shown_value
from rsocket_wire.errors import BrokerError

# What people write for the attributes that OpenSSL, and with it Python, calls by long names (RFC 4514, section 3).
SHORT_NAMES: Final = {
    "CN": "commonName",
    "L": "localityName",
    "ST": "stateOrProvinceName",
    "O": "organizationName",
    "OU": "organizationalUnitName",
    "C": "countryName",
    "STREET": "streetAddress",
    "DC": "domainComponent",
    "UID": "userId",
}
SPECIAL: Final = ",+\\"  # in a value they need a backslash in front
_TOKEN: Final = re.compile(r"\\[0-9A-Fa-f]{2}|\\.|.", re.DOTALL)  # a character, or what a backslash makes one of
_UID: Final = re.compile(r"uid (0|[1-9][0-9]{0,9})")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*|[0-9]+(\.[0-9]+)+")

Attribute = tuple[str, str]  # name and value


@dataclass(frozen=True)
class Principal:
    """A subject, or the user of a Unix socket; nobody when it has neither."""

    steps: tuple[tuple[Attribute, ...], ...] = ()  # of a subject, in its order; the attributes of one step are sorted
    uid: int = -1  # -1: it is no user of this machine

    @staticmethod
    def of_certificate(certificate: dict[str, tuple[tuple[Attribute, ...], ...]]) -> "Principal":
        """The subject of a certificate as `ssl` gives it."""
        return Principal(tuple(tuple(sorted(step)) for step in certificate.get("subject", ())))

    @staticmethod
    def parse(text: str) -> "Principal":
        """What people have written; BrokerError "bad-config" whose text begins with the quoted text.

        A backslash takes the character behind it as it is, or two hexadecimal digits as a byte of UTF-8.
        """
        user = _UID.fullmatch(text.strip())
        if user is not None:
            return Principal(uid=int(user[1]))
        try:
            tokens = _TOKEN.findall(text)
            steps = [[_attribute(part) for part in _split(step, "+")] for step in _split(tokens, ",")]
        except ValueError as error:
            form = "it is written commonName=NAME, organizationName=NAME … or uid NUMBER"
            raise BrokerError("bad-config", f"{shown_value(text)} is not a principal: {error}; {form}") from None
        return Principal(tuple(tuple(sorted(step)) for step in steps))

    def __str__(self) -> str:
        """What `parse` reads as the same principal, and no other one."""
        if self.uid >= 0:
            return f"uid {self.uid}"
        return ", ".join("+".join(f"{name}={_escaped(value)}" for name, value in step) for step in self.steps)


def split_list(text: str) -> list[str]:
    """The principals of a list that semicolons separate; one in a value has a backslash in front."""
    return ["".join(item).strip() for item in _split(_TOKEN.findall(text), ";")]


def _split(tokens: list[str], separator: str) -> list[list[str]]:
    """The parts between separators without a backslash in front."""
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _attribute(tokens: list[str]) -> Attribute:
    """Name and value of `commonName=a`; ValueError with a sentence."""
    written = "".join(tokens).strip()
    if "=" not in tokens:
        raise ValueError(f"{shown_value(written)} is not NAME=VALUE (a comma in a value is written \\,)")
    at = tokens.index("=")
    name = "".join(tokens[:at]).strip()
    if not _NAME.fullmatch(name):
        raise ValueError(f"{shown_value(name)} is not an attribute name")
    value = _value(tokens[at + 1 :])
    if not value:
        raise ValueError(f"{name} has no value")
    return SHORT_NAMES.get(name.upper(), name), value


def _value(tokens: list[str]) -> str:
    """The text of these tokens, without the spaces around it that have no backslash in front."""
    while tokens and tokens[0] == " ":
        tokens = tokens[1:]
    while tokens and tokens[-1] == " ":
        tokens = tokens[:-1]
    raw = bytearray()
    for token in tokens:
        if token == "\\":
            raise ValueError("a backslash is its last character")
        raw += bytes.fromhex(token[1:]) if len(token) == 3 else token[-1].encode()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{shown_value(''.join(tokens))} is not UTF-8") from None


def _escaped(value: str) -> str:
    """The value as it may stand between separators, printable, on one line."""
    written: list[str] = []
    for at, each in enumerate(value):
        if each in SPECIAL:
            written.append(f"\\{each}")
        elif not each.isprintable() or (each == " " and at in (0, len(value) - 1)):
            written += [f"\\{byte:02x}" for byte in each.encode("utf-8", "surrogatepass")]
        else:
            written.append(each)
    return "".join(written)
