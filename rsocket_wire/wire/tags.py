"""Tags and maps of tags: what routes say of themselves, what callers ask for, and hints about the choice.

A map is entries one after another; the first bit of each value length says whether another entry follows:

    +-+-------------+--------- … +-+-------------+--------- … +-+-------------+---- …
    |W| key length  | key        |M| value length| value      |W| key length  | …
    +-+-------------+--------- … +-+-------------+--------- … +-+-------------+---- …
     W=1: see `keys`              M=1: another entry follows; length 0..127 (D-06)

    80 00            a map without entries that must be there (D-03): well-known key 0x00, no value
    (nothing)        a map without entries, where the frame may end
    … 86             the frame ends behind a key: the value is null (D-07)
    … 86 00          an empty value

Where a map is the last thing of its frame, it ends with the frame whatever M says: the JS client never sets M.
Knows nothing of frames. Source: "Well-known Keys" and the "ROUTE_SETUP" and "ADDRESS" sections of the specification.
"""

from typing import Final

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.buffer import Reader, Writer, too_short, utf8_bytes, utf8_text
from rsocket_wire.wire.ints import u16_at
from rsocket_wire.wire.keys import BROKER_EXTENSION, SPEC_EXTENSION, WELL_KNOWN_KEYS, Key, parse_key

MAX_TAGS: Final = 128  # entries of one map, both ways; the seed has no number, every entry costs a bitmap or a lookup
MAX_VALUE_BYTES: Final = 127  # bytes; the 7 bits of the length (D-06)
MORE: Final = 0x80  # the M bit
EMPTY_MAP: Final = b"\x80\x00"  # D-03


class Tag:
    """One key with its value, immutable; the value is bytes, empty bytes or null (None), which are three things."""

    __slots__ = ("key", "raw")

    def __init__(self, key: Key, raw: bytes | None) -> None:
        self.key: Final = key
        self.raw: Final = raw

    @staticmethod
    def of(key: Key | str, value: str | None) -> "Tag":
        """A tag as a person writes it: a name is read by `parse_key`; BrokerError "bad-tag" for what is no text."""
        known = parse_key(key) if isinstance(key, str) else key
        return Tag(known, None if value is None else utf8_bytes(value, "bad-tag", f"the value of {known.name}"))

    @property
    def value(self) -> str | None:
        """The value as text; bytes that are not UTF-8 (in metadata only) are shown as U+FFFD."""
        return None if self.raw is None else self.raw.decode("utf-8", "replace")

    def token(self) -> bytes:
        """What an index is keyed on: two tags that match have the same token.

        The key on the wire, 0x00, the value. Null and empty give the same token (D-07): "assume the value is null"
        can be read both ways, and a route must not be missed for it.
        """
        raw = self.raw
        return self.key.wire + b"\x00" if raw is None else self.key.wire + b"\x00" + raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tag) and self.key.wire == other.key.wire and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.token())

    def __repr__(self) -> str:
        """`region=eu`; for a tag without a value its key's short name."""
        return self.key.short_name if self.raw is None else f"{self.key.short_name}={self.value}"


def decode_map(reader: Reader, subject: str, utf8: bool, to_end: bool) -> list[Tag]:
    """The entries of a map in their order; `subject` names the map in errors.

    utf8: values must be UTF-8 (tags), else any bytes (metadata). to_end: the map ends with the frame, whatever the
    more bits say. Entries of key 0x00 (No Tag Present) are dropped. Nothing left: no entries. A key given twice stays
    twice. InvalidFrame, and then the reader has not moved: a length that reaches beyond the end, a key of no bytes,
    a more bit with nothing behind it, more than MAX_TAGS entries.
    """
    data = reader.data
    at = reader.at
    end = reader.end
    tags: list[Tag] = []
    entries_n = 0
    more = at < end
    while more:
        if at >= end:
            raise InvalidFrame(f"{subject}: entry {entries_n + 1} was announced, but the frame ends at offset {at}")
        entries_n += 1
        if entries_n > MAX_TAGS:
            raise InvalidFrame(f"{subject}: more than {MAX_TAGS} entries")
        key_at = at
        at = key_end(data, at, end, subject)
        key = decode_key(data, key_at, at, subject)
        raw: bytes | None = None
        if at < end:
            head = data[at]
            at += 1
            value_bytes = head & 0x7F
            if value_bytes > end - at:
                raise too_short(f"{subject}: value of {key.name}", value_bytes, at, end - at)
            raw = data[at : at + value_bytes]
            at += value_bytes
            more = head >= MORE or (to_end and at < end)
        else:
            more = False  # D-07: no value length is there, the value is null
        if key.id != 0:
            if utf8 and raw is not None and not raw.isascii():
                utf8_text(raw, f"{subject}: value of {key.name}")
            tags.append(Tag(key, raw))
    reader.at = at
    return tags


def decode_flat_map(reader: Reader, subject: str) -> list[Tag]:
    """The entries that the JS client wrote, up to the end of the frame; errors as in `decode_map`, values any bytes.

        +-+-------------+---------------+--------- … +
        |-| id          | value length  | value      |   no more bit; lengths 0..255; keys are always ids
        +-+-------------+---------------+--------- … +

    D-21: it sets the first bit of some ids and forgets it on others (RouteId is written 02), so the bit is not read.
    """
    data = reader.data
    at = reader.at
    end = reader.end
    tags: list[Tag] = []
    entries_n = 0
    while at < end:
        entries_n += 1
        if entries_n > MAX_TAGS:
            raise InvalidFrame(f"{subject}: more than {MAX_TAGS} entries")
        id = data[at] & 0x7F
        if id in (BROKER_EXTENSION, SPEC_EXTENSION):
            raise InvalidFrame(f"{subject}: extension key {id:#04x} at offset {at}, which this client cannot write")
        at += 1
        raw: bytes | None = None
        if at < end:
            value_bytes = data[at]
            at += 1
            if value_bytes > end - at:
                raise too_short(f"{subject}: value of {WELL_KNOWN_KEYS[id].name}", value_bytes, at, end - at)
            raw = data[at : at + value_bytes]
            at += value_bytes
        if id != 0:
            tags.append(Tag(WELL_KNOWN_KEYS[id], raw))
    reader.at = at
    return tags


def check_values(tags: list[Tag], subject: str) -> None:
    """InvalidFrame when a value is not UTF-8: for maps of which only their end tells that they are tags."""
    for tag in tags:
        raw = tag.raw
        if raw is not None and not raw.isascii():
            utf8_text(raw, f"{subject}: value of {tag.key.name}")


def encode_map(writer: Writer, tags: list[Tag], last: bool) -> None:
    """Append a map; `last`: the frame ends behind it.

    No entries: nothing when `last`, else `80 00` (D-03). BrokerError "bad-tag", and then nothing is written, for what
    cannot be said (D-06): key 0x00, a value of more than 127 bytes, more than MAX_TAGS entries, a null value other
    than the last one of the frame.
    """
    if not tags:
        if not last:
            writer.push_bytes(EMPTY_MAP)
        return
    if len(tags) > MAX_TAGS:
        raise BrokerError("bad-tag", f"a map of {len(tags)} entries, {MAX_TAGS} are allowed")
    pieces: list[bytes] = []
    last_index = len(tags) - 1
    for index, tag in enumerate(tags):
        raw = tag.raw
        if tag.key.id == 0:
            raise BrokerError("bad-tag", "key 0x00 says that there is no tag, it cannot be one")
        pieces.append(tag.key.wire)
        if raw is None:
            if index != last_index or not last:
                text = f"the value of tag {tag.key.short_name} is null (None), as only the last of a frame can be"
                raise BrokerError("bad-tag", f"{text}; give it a text, or leave the tag out")
            continue
        value_bytes = len(raw)
        if value_bytes > MAX_VALUE_BYTES:
            raise BrokerError("bad-tag", f"{tag.key.name}: the value has {value_bytes} bytes, {MAX_VALUE_BYTES} fit")
        pieces.append((value_bytes if index == last_index else MORE | value_bytes).to_bytes(1, "big"))
        pieces.append(raw)
    writer.push_bytes(b"".join(pieces))


def filled(tags: list[Tag]) -> list[Tag]:
    """The same tags with empty values in place of null ones, as they can stand anywhere in a frame (D-07)."""
    return [Tag(tag.key, b"") if tag.raw is None else tag for tag in tags]


def key_end(data: bytes, at: int, end: int, subject: str) -> int:
    """The offset behind the key at offset `at` < `end`; InvalidFrame when it has no bytes or reaches beyond `end`."""
    head = data[at]
    if head == 0:
        raise InvalidFrame(f"{subject}: the key at offset {at} has no bytes")
    key_bytes = 1 + head
    if head >= 0x80:
        id = head & 0x7F
        key_bytes = 3 if id in (BROKER_EXTENSION, SPEC_EXTENSION) else 1
    if key_bytes > end - at:
        raise too_short(f"{subject}: key", key_bytes, at, end - at)
    return at + key_bytes


def decode_key(data: bytes, at: int, end: int, subject: str) -> Key:
    """The key `data[at:end]`, whose end is that of `key_end`."""
    head = data[at]
    if head < 0x80:
        return Key.from_text_wire(data[at:end], f"{subject}: key")
    if end - at == 1:
        return WELL_KNOWN_KEYS[head & 0x7F]
    return Key.extension(head & 0x7F, u16_at(data, at + 1))
