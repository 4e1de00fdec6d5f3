"""Principals as people write them in a configuration, read into the texts of identities (`broker.access.identities`).

    certificate:spiffe://acme/broker-1                      as the identity is shown everywhere
    certificate:CN=broker-1,O=Acme\\, Inc.                  a subject by RFC 4514: its last step first
    organizationName=Acme\\, Inc., commonName=broker-1       a subject in the order of its certificate
    organizationName=Acme, commonName=a+serialNumber=7      one of its steps may have several attributes
    uid:1000, uid 1000                                      who owns the process behind a Unix socket

What is written in several ways has one text, so texts are compared (D-66).
"""

import re
from typing import Final

from broker.access.identities import (
    CERTIFICATE,
    SHORT_NAMES,
    UID,
    Attribute,
    identity_text,
    names_of_certificate,
    subject_text,
)
from broker.config.toml import shown_value
from rsocket_wire.errors import BrokerError

LONG_NAMES: Final = {short: name for name, short in SHORT_NAMES.items()}
_TOKEN: Final = re.compile(r"\\[0-9A-Fa-f]{2}|\\.|.", re.DOTALL)  # a character, or what a backslash makes one of
_UID: Final = re.compile(r"uid[ :](0|[1-9][0-9]{0,9})")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*|[0-9]+(\.[0-9]+)+")
_OF_CERTIFICATE: Final = f"{CERTIFICATE}:"


def read_principal(text: str) -> str:
    """The text of the identity; BrokerError "bad-config" whose text begins with the quoted text.

    A backslash takes the character behind it as it is, or two hexadecimal digits as a byte of UTF-8.
    """
    user = _UID.fullmatch(text.strip())
    if user is not None:
        return identity_text(UID, user[1])
    name = text.lstrip().removeprefix(_OF_CERTIFICATE)
    is_shown = name != text.lstrip()
    if is_shown and _is_alternative(name.strip()):
        return identity_text(CERTIFICATE, name.strip())
    try:
        steps = [tuple(_attribute(part) for part in _split(step, "+")) for step in _split(_TOKEN.findall(name), ",")]
    except ValueError as error:
        form = "it is written certificate:NAME, commonName=NAME, organizationName=NAME … or uid:NUMBER"
        raise BrokerError("bad-config", f"{shown_value(text)} is not a principal: {error}; {form}") from None
    if is_shown:
        steps.reverse()
    return identity_text(CERTIFICATE, subject_text(tuple(steps)))


def split_list(text: str) -> list[str]:
    """The principals of a list that semicolons separate; one in a value has a backslash in front."""
    return ["".join(item).strip() for item in _split(_TOKEN.findall(text), ";")]


def _is_alternative(name: str) -> bool:
    """It is what a SAN could say."""
    kind = "URI" if ":" in name else "DNS"
    return bool(names_of_certificate((), ((kind, name),)).identity)


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
    return LONG_NAMES.get(name.upper(), name), value


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
