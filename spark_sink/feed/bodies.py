"""The body of a post: an object of JSON whose values are kept as the bytes that they came in.

"Headers which are unknown to a given broker MUST be forwarded without modification": numbers of any length, escapes
and blanks within values stay as they are. Order stays, too; a header that is there twice has its last value, in the
place of the first (D-83). Section "Standards": UTF-8 without a byte order mark, and no other encoding.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from spark_sink.feed.errors import BadPost

MAX_POST_BYTES: Final = 512 * 1024  # of a body: a file of 384 KiB within it, or a manifest of 4,000 blocks
MAX_DEPTH: Final = 32  # of objects and arrays in each other

_HEADERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # to the end where one does not end: no second try
_NO_BRACKETS: Final = bytes(each for each in range(256) if each not in b"[]{}")
_AS_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_BOMS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def read_body(body: bytes) -> dict[str, msgspec.Raw]:
    """Its headers, in their order; BadPost when it is too large or too deep, or no object of JSON in UTF-8."""
    if len(body) > MAX_POST_BYTES:
        raise BadPost("body", f"{len(body)} bytes, {MAX_POST_BYTES} are allowed")
    if body.startswith(_BOMS):
        raise BadPost("body", "it begins with a byte order mark")
    # Before anything recurses. Brackets can be deep only where there are that many.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and not _is_flat(body):
        raise BadPost("body", f"brackets that do not close, or more than {MAX_DEPTH} within each other")
    try:
        if not body.isascii():
            body.decode()
        return _HEADERS.decode(body)
    except msgspec.ValidationError:
        raise BadPost("body", "it is no object of JSON") from None
    except UnicodeDecodeError as error:
        raise BadPost("body", f"it is no UTF-8 at byte {error.start}") from None
    except msgspec.DecodeError as error:
        raise BadPost("body", f"it is no JSON: {error}") from None


def write_body(headers: Mapping[str, msgspec.Raw]) -> bytes:
    """JSON of these headers in their order, values as they are."""
    return b"{" + b", ".join([msgspec.json.encode(name) + b": " + bytes(raw) for name, raw in headers.items()]) + b"}"


def _is_flat(body: bytes) -> bool:
    """Whether all brackets close, at most MAX_DEPTH of them within each other. Each pass takes the innermost away."""
    brackets = _TEXTS.sub(b"", body).translate(_AS_SQUARE, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"")
    return not brackets
