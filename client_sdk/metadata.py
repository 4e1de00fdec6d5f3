"""The composite metadata of requests: which entries a caller writes, and what a service reads of them.

Decides names of entries (mime types); their layout is `rsocket_wire.rsocket.metadata`'s. Sources: RSocket extensions
"Composite Metadata" and "Routing".
"""

from collections.abc import Mapping
from typing import Final

from client_sdk.errors import BadRequest
from rsocket_wire.rsocket.metadata import encode_entry, encode_well_known_entry, entries
from rsocket_wire.rsocket.mimes import MAX_MIME_BYTES, WELL_KNOWN_MIMES, mime_id

ROUTING_MIME: Final = "message/x.rsocket.routing.v0"
OCTET_STREAM_MIME: Final = "application/octet-stream"
ROUTING_ID: Final = WELL_KNOWN_MIMES[ROUTING_MIME]
MAX_CONTENT_BYTES: Final = 0xFFFFFF  # of one entry: its length has 24 bits
MAX_ROUTE_BYTES: Final = 255  # a routing entry has 8 bits for the length of a name

_NAMES: Final[dict[int, str]] = {id: name for name, id in WELL_KNOWN_MIMES.items()}


def entry_bytes(mime_type: str, content: bytes) -> bytes:
    """One entry; ValueError for a mime type that is not 1..128 characters of ASCII, BadRequest for too much content."""
    if len(content) > MAX_CONTENT_BYTES:
        text = f"metadata of {len(content)} bytes in one entry, at most {MAX_CONTENT_BYTES} can be sent"
        raise BadRequest(text, word="too-large")
    known = mime_id(mime_type)
    if known >= 0:
        return encode_well_known_entry(known, content)
    if not mime_type.isascii() or not 1 <= len(mime_type) <= MAX_MIME_BYTES:
        raise ValueError(f"mime type {mime_type[:40]!r} must be 1..{MAX_MIME_BYTES} ASCII characters")
    return encode_entry(mime_type.encode("ascii"), content)


def route_bytes(route: str) -> bytes:
    """The routing entry that names a handler; ValueError for a name that is not 1..255 bytes."""
    if not isinstance(route, str):
        one = next(iter(route), None) if isinstance(route, list | tuple) and len(route) == 1 else None
        mend = f"; write route={one!r}" if isinstance(one, str) else ""
        raise TypeError(f"route= is {type(route).__name__}, it must be str: the name of a handler{mend}")
    raw = route.encode()
    if not 1 <= len(raw) <= MAX_ROUTE_BYTES:
        raise ValueError(f"route {route[:40]!r} has {len(raw)} bytes, it must have 1..{MAX_ROUTE_BYTES}")
    return encode_well_known_entry(ROUTING_ID, bytes([len(raw)]) + raw)


def more_bytes(metadata: Mapping[str, bytes] | None) -> bytes:
    """Further entries, mime type by mime type."""
    if not metadata:
        return b""
    how = "metadata= must be a dict of bytes by mime type, such as {'text/plain': b'...'}"
    if not isinstance(metadata, Mapping):
        raise TypeError(how)
    for mime_type, content in metadata.items():
        if not isinstance(content, bytes):
            raise TypeError(f"{how}; {mime_type!r} has {type(content).__name__}")
    return b"".join(entry_bytes(mime_type, content) for mime_type, content in metadata.items())


def read_entries(metadata: bytes) -> list[tuple[str, bytes]] | None:
    """(mime type, content) of each entry in its order; None when the metadata is broken."""
    found = entries(metadata)
    if found is None:
        return None
    return [(mime_name(entry.id, entry.mime), metadata[entry.start : entry.end]) for entry in found]


def mime_name(id: int, mime: bytes) -> str:
    """As RSocket names the mime type of an entry; `id` is negative where `mime` says it."""
    if id < 0:
        return mime.decode("ascii", "replace")
    return _NAMES.get(id, f"well-known-{id:#04x}")
