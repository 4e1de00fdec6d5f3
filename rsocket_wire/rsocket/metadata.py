"""Composite metadata (RSocket extension "Composite Metadata"): finding one entry without making objects of the others.

Decides where an entry lies. Entries stand back to back:

    custom mime     |0| mime length - 1 (7) | mime … | content length (24) | content … |
    well-known mime |1| mime id (7)         |          content length (24) | content … |
"""

from typing import Final

from rsocket_wire.wire.caller import RESERVED, is_reserved
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0
from rsocket_wire.wire.ints import u24_at, u24_bytes

COMPOSITE_MIME: Final = "message/x.rsocket.composite-metadata.v0"
STREAM_DATA_MIME_ID: Final = 0x7A  # message/x.rsocket.mime-type.v0: the data mime type of one stream
MAX_ENTRIES: Final = 256  # a request with more is refused: nobody needs them and each costs a step

ABSENT: Final = -1  # the metadata is whole and has no such entry
CUT: Final = -2  # the metadata ends before the entry does: more may come
BROKEN: Final = -3  # more than MAX_ENTRIES entries

_BROKER_MIME: Final = MIME_TYPE.encode()
_BROKER_MIME_V0: Final = MIME_TYPE_V0.encode()
_N: Final = len(_BROKER_MIME)
_N_V0: Final = len(_BROKER_MIME_V0)
_N_RESERVED: Final = len(RESERVED)


def find_broker_frame(data: bytes, at: int, end: int) -> tuple[int, int, bool]:
    """(from, to) of the last whole entry of either broker mime type (D-02, D-69), else (ABSENT | CUT | BROKEN, 0).

    And whether some entry, whole or not, is one that only brokers may write (D-102): it is found by the same walk.
    """
    found = ABSENT
    found_end = 0
    has_claim = False
    for _ in range(MAX_ENTRIES):
        if at == end:
            return found, found_end, has_claim
        head = data[at]
        at += 1
        is_broker_frame = False
        if head < 0x80:
            length = head + 1
            if end - at < length + 3:
                has_claim = has_claim or is_reserved(data[at : min(at + length, end)])
                return (found, found_end, has_claim) if found >= 0 else (CUT, 0, has_claim)
            if length == _N_V0 and data[at : at + length] == _BROKER_MIME_V0:
                is_broker_frame = True
            elif length == _N:
                is_broker_frame = data[at : at + length] == _BROKER_MIME
            elif length >= _N_RESERVED and is_reserved(data[at : at + length]):
                has_claim = True
            at += length
        elif end - at < 3:
            return (found, found_end, has_claim) if found >= 0 else (CUT, 0, has_claim)
        length = u24_at(data, at)
        at += 3
        if end - at < length:
            return (found, found_end, has_claim) if found >= 0 else (CUT, 0, has_claim)
        if is_broker_frame:
            found = at
            found_end = at + length
        at += length
    return (found, found_end, has_claim) if at == end else (BROKEN, 0, has_claim)


def custom_entries(data: bytes, at: int, end: int) -> list[tuple[bytes, int, int]]:
    """(mime, from, to) of entries with a custom mime type; of one that breaks off `to` is where the metadata ends."""
    found: list[tuple[bytes, int, int]] = []
    for _ in range(MAX_ENTRIES):
        if at >= end:
            break
        head = data[at]
        at += 1
        mime = b""
        if head < 0x80:
            mime = data[at : at + head + 1]
            at += head + 1
        if end - at < 3:
            break
        length = u24_at(data, at)
        at += 3
        if mime:
            found.append((mime, at, min(at + length, end)))
        at += length
    return found


def broker_frames(data: bytes) -> list[tuple[int, int]]:
    """(from, to) of all entries of either broker mime type, as `custom_entries` has them."""
    return [(at, to) for mime, at, to in custom_entries(data, 0, len(data)) if is_broker_mime(mime)]


def is_broker_mime(mime: bytes) -> bool:
    """Entries of this mime type hold a broker frame (D-02)."""
    return mime == _BROKER_MIME or mime == _BROKER_MIME_V0


class Entry:
    """One entry of composite metadata: its mime as written (`id` 0..127, or -1 and `mime`), and its place."""

    def __init__(self, id: int, mime: bytes, begin: int, start: int, end: int) -> None:
        self.id: Final = id
        self.mime: Final = mime
        self.begin: Final = begin  # of the entry, its head included
        self.start: Final = start  # of the content
        self.end: Final = end


def entries(data: bytes) -> list[Entry] | None:
    """All entries of whole composite metadata; None when it breaks off or has more than MAX_ENTRIES."""
    found: list[Entry] = []
    at = 0
    end = len(data)
    while at < end:
        begin = at
        head = data[at]
        at += 1
        mime = b""
        if head < 0x80:
            mime = data[at : at + head + 1]
            at += head + 1
        if end - at < 3:
            return None
        length = u24_at(data, at)
        at += 3
        if end - at < length or len(found) == MAX_ENTRIES:
            return None
        found.append(Entry(head & 0x7F if head >= 0x80 else -1, mime, begin, at, at + length))
        at += length
    return found


def encode_entry(mime: bytes, content: bytes) -> bytes:
    """An entry with a custom mime type of 1..128 bytes of ASCII."""
    return bytes([len(mime) - 1]) + mime + u24_bytes(len(content)) + content


def encode_well_known_entry(mime_id: int, content: bytes) -> bytes:
    """An entry with a well-known mime type."""
    return bytes([0x80 | mime_id]) + u24_bytes(len(content)) + content
