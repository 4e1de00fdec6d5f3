"""Mime types are agreed per connection, so the metadata of a caller may be unreadable for a route (D-16).

Decides, for two connections, whether a request passes as it is, and if not what its metadata becomes. Does not choose
routes and does not split frames.

    caller     route      what the route gets
    ---------  ---------  -------------------------------------------------------------------------------------
    composite  composite  the same; the data's mime type as an entry more, where the two connections differ in it
    composite  broker     the ADDRESS alone; the caller's other entries become its wrapped metadata, unless it has some:
                          then they are lost (D-70)
    broker     composite  the ADDRESS as an entry (and the data's mime type, where they differ)
    broker     broker     the same
    any        other      what the ADDRESS wraps; else the entry of exactly that mime type; else no metadata. Other
                          entries are lost (D-70)

Entries that are lost are counted.

"composite", "broker" (either of our two mime types) and "other" are the connections' metadata mime types.
"""

from typing import Final

from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.metadata import (
    COMPOSITE_MIME,
    STREAM_DATA_MIME_ID,
    Entry,
    encode_entry,
    encode_well_known_entry,
    entries,
)
from rsocket_wire.rsocket.mimes import encode_mime, mime_id
from rsocket_wire.wire.caller import is_reserved
from rsocket_wire.wire.frames import MIME_TYPES, Address, decode_frame
from rsocket_wire.wire.tags import filled

COMPOSITE: Final = 1
BROKER: Final = 2
OTHER: Final = 3


class Translated:
    """What a request's metadata becomes for a route."""

    def __init__(self, metadata: bytes | None, lost_n: int = 0) -> None:
        self.metadata: Final = metadata  # None: none
        self.lost_n: Final = lost_n  # entries of the caller that the route does not get, the ADDRESS aside


class Mimes:
    """The pair of mime types of a connection. Equal pairs are one object, with one number."""

    def __init__(self, number: int, metadata_mime: str, data_mime: str) -> None:
        self.number: Final = number
        self.metadata_mime: Final = metadata_mime
        self.data_mime: Final = data_mime
        self.kind: Final = kind_of(metadata_mime)
        self.users_n = 0  # see `mime_pairs`


def kind_of(metadata_mime: str) -> int:
    """COMPOSITE, BROKER or OTHER."""
    if metadata_mime == COMPOSITE_MIME:
        return COMPOSITE
    return BROKER if metadata_mime in MIME_TYPES else OTHER


def passes(caller: Mimes, route: Mimes) -> bool:
    """The route can read what the caller sends."""
    if caller.number == route.number:
        return caller.kind != OTHER
    if caller.kind == COMPOSITE and route.kind == COMPOSITE:
        return caller.data_mime == route.data_mime
    return caller.kind == BROKER and route.kind == BROKER


def translate(metadata: bytes, raw_address: bytes, caller: Mimes, route: Mimes, has_data: bool) -> Translated:
    """The metadata for the route. `metadata` is whole; `raw_address` is the ADDRESS within it.

    `has_data` False: a METADATA_PUSH, whose data has no mime type. BrokerError for an ADDRESS that can be read and not
    written again (values over 127 bytes, D-21), or for another frame in its place.
    """
    if route.kind == COMPOSITE:
        if caller.kind == COMPOSITE:
            translated = metadata
        else:
            translated = encode_entry(caller.metadata_mime.encode("ascii", "replace"), raw_address)
        if has_data and caller.data_mime and caller.data_mime != route.data_mime and not _has_data_mime(translated):
            translated = translated + encode_well_known_entry(STREAM_DATA_MIME_ID, encode_mime(caller.data_mime))
        return Translated(translated)
    if route.kind == BROKER and caller.kind != COMPOSITE:
        return Translated(raw_address)
    address = decode_frame(raw_address)
    if not isinstance(address, Address):  # another broker has routed it, who knows by what
        raise BrokerError("bad-address", "the request carries a broker frame that is no ADDRESS")
    others = _others(metadata, raw_address) if caller.kind == COMPOSITE else []
    if route.kind == BROKER:
        return _wrapped(metadata, raw_address, address, others)
    if address.wrapped and not is_reserved(route.metadata_mime.encode("ascii", "replace")):  # D-102
        return Translated(address.wrapped, len(others))  # Spec "Wrapping and Unwrapping Metadata in an ADDRESS"
    entry = _entry_of(others, route.metadata_mime)
    if entry is None:
        return Translated(None, len(others))
    return Translated(metadata[entry.start : entry.end], len(others) - 1)


def _others(metadata: bytes, raw_address: bytes) -> list[Entry]:
    """The entries of composite metadata beside the ADDRESS."""
    return [entry for entry in entries(metadata) or [] if metadata[entry.start : entry.end] != raw_address]


def _wrapped(metadata: bytes, raw_address: bytes, address: Address, others: list[Entry]) -> Translated:
    """The ADDRESS as only metadata, the caller's other entries wrapped in it, as they are."""
    if address.wrapped:
        return Translated(raw_address, len(others))  # Spec: "it MUST not mutate the wrapped metadata"
    if not others:
        return Translated(raw_address)
    wrapped = b"".join([metadata[entry.begin : entry.end] for entry in others])
    # What was the last thing of its frame has something behind it now.
    tags, hints = filled(address.tags), filled(address.metadata)
    return Translated(Address(address.origin_route_id, tags, hints, wrapped, address.flags).encode())


def _has_data_mime(metadata: bytes) -> bool:
    for entry in entries(metadata) or []:
        if entry.id == STREAM_DATA_MIME_ID or entry.mime == b"message/x.rsocket.mime-type.v0":
            return True
    return False


def _entry_of(found: list[Entry], mime: str) -> Entry | None:
    wanted_id = mime_id(mime)
    wanted = mime.encode("ascii", "replace")
    for entry in found:
        if (entry.id >= 0 and entry.id == wanted_id) or (entry.id < 0 and entry.mime == wanted):
            return entry
    return None
