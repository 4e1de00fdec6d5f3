"""What HTTP/1.1 says before the bytes of a file: an address, a request, the head of an answer. Knows no connections.

    https://user:secret@host:8443/a/b?c ──► Url ──► GET /a/b?c …
    HTTP/1.1 206 Partial Content …      ──► Head: status, headers, and how its body ends

RFC 9112, of which a client that only gets files needs this much.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

HEAD_END: Final = b"\r\n\r\n"
MAX_PORT: Final = 65_535
PORTS: Final = {"http": 80, "https": 443}
_PLACE_END: Final = re.compile("[/?#]")
_PLACE: Final = re.compile(r"(?:(.*)@)?(\[[0-9a-fA-F:.%]+\]|[^\x00-,/:-@\[-^`{-\x7f]+)(?::([0-9]*))?", re.DOTALL)
_UNQUOTED: Final = re.compile(r"[!#-;=?-\[\]_a-z~]*")  # of printable ASCII all but what RFC 3986 has no place for
_KEPT: Final = "/%:=&?~#+!$,;'@()*[]"
_STATUS: Final = re.compile(r"HTTP/1\.([01]) ([1-5]\d\d)(?: (.*))?")
_NAME: Final = re.compile(r"[!#-'*+\-.0-9A-Z^-z|~]+")


class BadHead(Exception):
    """What came is no answer of HTTP/1.1; the text says why."""


class Address(NamedTuple):
    """Where connections lead to."""

    scheme: str
    host: str
    port: int


class Url(NamedTuple):
    """What is asked for, and where."""

    address: Address
    target: str  # ASCII: path and query
    fields: str  # of each request: its first headers, with their line ends

    def request(self, headers: Mapping[str, str]) -> bytes:
        """GET, with these headers besides."""
        more = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        return f"GET {self.target} HTTP/1.1\r\n{self.fields}{more}\r\n".encode("ascii")


class Head(NamedTuple):
    """Of an answer."""

    status: int
    reason: str
    headers: Mapping[str, str]  # names in lower case; of one that is there twice both values, with a comma between them
    length: int | None  # bytes of the body; None: it is in chunks, or ends with its connection
    is_chunked: bool
    stays: bool  # the connection, after the body


def read_url(text: str) -> Url:
    """ValueError: it is no URL of http or https."""
    scheme, slashes, rest = text.partition("://")
    place = _PLACE_END.split(rest, maxsplit=1)[0]
    target = rest[len(place) :].partition("#")[0]
    if not target.startswith("/"):
        target = f"/{target}"
    if _UNQUOTED.fullmatch(target) is None:
        target = quote(target, safe=_KEPT)
    address, fields = _place_of(scheme.lower() if slashes else "", place)
    return Url(address, target, fields)


def read_head(data: bytes) -> Head:
    """Of what stands before HEAD_END. BadHead."""
    first, *lines = data.decode("latin-1").split("\r\n")
    matched = _STATUS.fullmatch(first)
    if matched is None:
        raise BadHead(f"{first[:60]!r} is no status of HTTP/1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or _NAME.fullmatch(name) is None:
            raise BadHead(f"{line[:60]!r} is no header")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    status = int(matched[2])
    encodings = headers.get("transfer-encoding", "").lower()
    if encodings not in ("", "chunked"):
        raise BadHead(f"Transfer-Encoding: {encodings[:60]!r} was not asked for")
    length = None
    if status < 200 or status in (204, 304):
        length, encodings = 0, ""
    elif not encodings and "content-length" in headers:
        length = _length_of(headers["content-length"])
    options = [each.strip().lower() for each in headers.get("connection", "").split(",")]
    stays = "close" not in options and (matched[1] == "1" or "keep-alive" in options)
    is_chunked = bool(encodings)
    return Head(status, matched[3] or "", headers, length, is_chunked, stays and (is_chunked or length is not None))


def read_chunk(line: bytes) -> int:
    """Bytes of the chunk that this line begins; 0: it is the last one. BadHead."""
    number = line.partition(b";")[0].strip(b" \t")
    if re.fullmatch(rb"[0-9a-fA-F]{1,15}", number) is None:
        raise BadHead(f"{line[:60]!r} begins no chunk")
    return int(number, 16)


@lru_cache(maxsize=1_024)
def _place_of(scheme: str, place: str) -> tuple[Address, str]:
    """Where connections lead to, and the first headers of each request."""
    matched = _PLACE.fullmatch(place)
    if scheme not in PORTS or matched is None:
        raise ValueError("it is none of http or https")
    user, host, port = matched.groups()
    if not host.isascii():
        host = host.encode("idna").decode("ascii")  # UnicodeError is a ValueError
    number = int(port[: len(str(MAX_PORT)) + 1]) if port else PORTS[scheme]
    if not 0 < number <= MAX_PORT:
        raise ValueError("its port is none")
    at = host if number == PORTS[scheme] else f"{host}:{number}"
    fields = f"Host: {at}\r\nAccept: */*\r\nAccept-Encoding: identity\r\n"
    if user is not None:
        fields += f"Authorization: Basic {b64encode(unquote(user).encode()).decode()}\r\n"
    return Address(scheme, host.strip("[]"), number), fields


def _length_of(value: str) -> int:
    # RFC 9112 6.3: the same one twice is allowed.
    (number, *others) = {each.strip() for each in value.split(",")}
    if others or re.fullmatch("[0-9]{1,18}", number) is None:
        raise BadHead(f"Content-Length: {value[:60]!r} is no length")
    return int(number)
