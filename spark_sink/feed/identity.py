"""The identity of a file: by which method it was made, its value, and whether bytes have it.

Section "THE FIXED HEADERS", `identity`, and the table of methods below `sum`. `md5` and `sha512` are compared with what
was fetched. `cod` asks the one who fetches to compute a digest: its value is the name of the method. `random`,
`arbitrary`, `md5name` and all other names are kept, and compared with each other only.
"""

import binascii
import hashlib
from typing import Final, Protocol

import msgspec

from spark_sink.feed.errors import BadPost, shown

MD5: Final = "md5"
SHA512: Final = "sha512"
COD: Final = "cod"
RANDOM: Final = "random"
ARBITRARY: Final = "arbitrary"
METHODS: Final = {MD5: 16, SHA512: 64}  # those that are compared with bytes, and how many bytes their digests have


class Digest(Protocol):
    """What `hashlib` gives."""

    def update(self, data: bytes | bytearray | memoryview, /) -> None: ...

    def digest(self) -> bytes: ...


class Identity(msgspec.Struct, frozen=True):
    """Two files with the same one are the same data."""

    method: str
    value: str  # of METHODS, base64 without line breaks; of COD the name of a method


def digest(method: str) -> Digest:
    """A new one of METHODS, which nothing was fed to."""
    # usedforsecurity: a system in FIPS mode has md5 for what is no security only. It tells equal data, not the sender.
    return hashlib.new(method, usedforsecurity=False)


def value_of(digest: Digest) -> str:
    """Base64, as posts have it."""
    return encoded(digest.digest())


def identity_of(method: str, data: bytes) -> Identity:
    """Of these bytes; `method` is one of METHODS."""
    made = digest(method)
    made.update(data)
    return Identity(method, value_of(made))


def is_checked(identity: Identity | None) -> bool:
    """Whether bytes can be compared with it."""
    return identity is not None and identity.method in METHODS


def cod_method(identity: Identity | None) -> str | None:
    """Which of METHODS the one who fetches has to compute; None: none, or one that is not known here."""
    return identity.value if identity is not None and identity.method == COD and identity.value in METHODS else None


def read_identity(field: str, value: object) -> Identity:
    """Of a header's value; BadPost unless it is an object of a method and a value that fits it."""
    if not isinstance(value, dict):
        raise BadPost(field, f"{shown(value)} is no object of method and value")
    method, text = value.get("method"), value.get("value")
    if not isinstance(method, str) or not method:
        raise BadPost(f"{field}.method", f"{shown(method)} is no name of a method")
    if isinstance(text, int) and not isinstance(text, bool):
        text = str(text)  # "a random integer is generated": text in sr3, a number in plain words
    if not isinstance(text, str):
        raise BadPost(f"{field}.value", f"{shown(text)} is no text")
    return checked(f"{field}.value", method, text)


def checked(field: str, method: str, value: str) -> Identity:
    """With this value; BadPost when it cannot be a digest of this method."""
    value = value.replace("\n", "")  # base64 with line breaks, which old programs wrote
    size = METHODS.get(method)
    if size is not None:
        try:
            is_digest = len(binascii.a2b_base64(value, strict_mode=True)) == size
        except ValueError:  # binascii.Error, and text that is not ASCII
            is_digest = False
        if not is_digest:
            raise BadPost(field, f"{shown(value)} is no base64 of the {size} bytes of {method}")
    return Identity(method, value)


def encoded(digest: bytes) -> str:
    """Base64 in one line."""
    return binascii.b2a_base64(digest, newline=False).decode()
