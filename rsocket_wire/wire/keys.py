"""Keys of tags and of metadata: a number that everybody knows, or a text.

    +-+-------------+                        +-+-------------+----------- … +
    |1| id          |  well-known            |0| length      | UTF-8 text   |  1..127 bytes of text (D-06)
    +-+-------------+                        +-+-------------+----------- … +
    +-+-------------+---------------+---------------+
    |1| 0x7C | 0x7F | number, 16 bits               |  extension of a broker, of the specification
    +-+-------------+---------------+---------------+

A key is its bytes on the wire: ids are the truth, ids that nobody knows stay distinct, and the two spellings of a
well-known name (`io.rsocket.routing.X` in the specification, `io.rsocket.broker.X` in Java) are its id (D-05), also
when they arrive as text. Section "Well-known Types" of the specification. Knows nothing of values.
"""

from typing import Final

from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.buffer import utf8_bytes, utf8_text
from rsocket_wire.wire.ints import u16_bytes

MAX_KEY_BYTES: Final = 127  # bytes; the 7 bits of the length (D-06)
BROKER_EXTENSION: Final = 0x7C  # "Broker Implementation Ext Key": a 16-bit number follows
SPEC_EXTENSION: Final = 0x7F  # "Well Know Ext Key": a 16-bit number follows
WELL_KNOWN: Final = 0x80  # the W bit
SPEC_PREFIX: Final = "io.rsocket.routing."
JAVA_PREFIX: Final = "io.rsocket.broker."

# id -> (name behind io.rsocket.routing., short name for people)
WELL_KNOWN_NAMES: Final[dict[int, tuple[str, str]]] = {
    0x01: ("ServiceName", "service"),
    0x02: ("RouteId", "route_id"),
    0x03: ("InstanceName", "instance_name"),
    0x04: ("ClusterName", "cluster_name"),
    0x05: ("Provider", "provider"),
    0x06: ("Region", "region"),
    0x07: ("Zone", "zone"),
    0x08: ("Device", "device"),
    0x09: ("OS", "os"),
    0x0A: ("UserName", "user_name"),
    0x0B: ("UserId", "user_id"),
    0x0C: ("MajorVersion", "major_version"),
    0x0D: ("MinorVersion", "minor_version"),
    0x0E: ("PatchVersion", "patch_version"),
    0x0F: ("Version", "version"),
    0x10: ("Environment", "environment"),
    0x11: ("TestCell", "test_cell"),
    0x12: ("DNS", "dns"),
    0x13: ("IPv4", "ipv4"),
    0x14: ("IPv6", "ipv6"),
    0x15: ("Country", "country"),
    0x1A: ("TimeZone", "time_zone"),
    0x1B: ("ShardKey", "shard_key"),
    0x1C: ("ShardMethod", "shard_method"),
    0x1D: ("StickyRouteKey", "sticky_route_key"),
    0x1E: ("LBMethod", "lb_method"),
}


class Key:
    """One key, immutable; equal when the bytes on the wire are equal. Made by `well_known`, `text`, `extension`."""

    __slots__ = ("id", "name", "number", "short_name", "wire")

    def __init__(self, wire: bytes, id: int, number: int, name: str, short_name: str) -> None:
        """For the makers below, which prove that the five fit together."""
        self.wire: Final = wire  # the key on the wire, canonical
        self.id: Final = id  # 0..127; 0x7C or 0x7F for an extension; -1 for a text
        self.number: Final = number  # 0..65535 of an extension; -1 for the others
        self.name: Final = name  # "io.rsocket.routing.Region", "user", "well-known-0x16", "extension-0x7c-1"
        self.short_name: Final = short_name  # "region" for io.rsocket.routing.Region; else the name

    @staticmethod
    def well_known(id: int) -> "Key":
        """The key with this id, known to the specification or not; BrokerError "bad-tag" when no such key can be."""
        if id < 0 or id > 0x7F or id in (BROKER_EXTENSION, SPEC_EXTENSION):
            raise BrokerError("bad-tag", f"{id:#04x} is no well-known key: 0x00..0x7e without 0x7c are")
        return WELL_KNOWN_KEYS[id]

    @staticmethod
    def text(name: str) -> "Key":
        """The key of a text, or the well-known key that it names in full; BrokerError "bad-tag" unless 1..127 bytes."""
        known = FULL_NAMES.get(name)
        if known is not None:
            return known
        raw = utf8_bytes(name, "bad-tag", "a key")
        if not raw:
            raise BrokerError("bad-tag", "a key is empty; it needs 1..127 bytes")
        if len(raw) > MAX_KEY_BYTES:
            raise BrokerError("bad-tag", f"key {name[:32]!r}…: has {len(raw)} bytes, {MAX_KEY_BYTES} fit")
        return Key(len(raw).to_bytes(1, "big") + raw, -1, -1, name, name)

    @staticmethod
    def extension(base: int, number: int) -> "Key":
        """The extension key `number` (16 bits) of `base` 0x7C or 0x7F; BrokerError "bad-tag" for others."""
        if base not in (BROKER_EXTENSION, SPEC_EXTENSION):
            raise BrokerError("bad-tag", f"{base:#04x} is no base of extension keys: 0x7c and 0x7f are")
        if number < 0 or number > 0xFFFF:
            raise BrokerError("bad-tag", f"extension key {number} does not fit 16 bits")
        name = f"extension-{base:#04x}-{number}"
        return Key((WELL_KNOWN | base).to_bytes(1, "big") + u16_bytes(number), base, number, name, name)

    @staticmethod
    def from_text_wire(wire: bytes, subject: str) -> "Key":
        """The key of a length byte and its text that arrived; InvalidFrame when the text is not UTF-8."""
        name = utf8_text(wire[1:], subject)
        if name.startswith("io.rsocket."):
            known = FULL_NAMES.get(name)
            if known is not None:
                return known  # D-05
        return Key(wire, -1, -1, name, name)

    @property
    def is_hint(self) -> bool:
        """Says how to choose among the candidates, not which routes are candidates (D-12)."""
        return SHARD_KEY.id <= self.id <= LB_METHOD.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.wire == other.wire

    def __hash__(self) -> int:
        return hash(self.wire)

    def __repr__(self) -> str:
        return f"Key({self.name})"


def parse_key(name: str) -> Key:
    """The key that a person means.

    Well-known: a full name of either spelling; a short one in snake_case, kebab-case, camelCase or as Java's constants
    (`route_id`, `route-id`, `routeId`, `ROUTE_ID`; `service` too); what `Key.name` says of ids without a name.
    Anything else is a text key. BrokerError "bad-tag" when that cannot be sent.
    """
    known = SHORT_NAMES.get(name.replace("_", "").replace("-", "").lower())
    if known is not None:
        return known
    if name.startswith("well-known-0x"):
        id = small_hex(name[13:])
        if 0 <= id < SPEC_EXTENSION and id != BROKER_EXTENSION and WELL_KNOWN_KEYS[id].name == name:
            return WELL_KNOWN_KEYS[id]
    if name.startswith("extension-0x7c-") or name.startswith("extension-0x7f-"):
        number = name[15:]
        if number.isascii() and number.isdigit() and len(number) <= 5 and int(number) <= 0xFFFF:
            return Key.extension(int(name[12:14], 16), int(number))
    return Key.text(name)


def key_of(wire: bytes) -> Key | None:
    """The text or well-known key whose bytes these are; None for an extension, and for bytes of no key."""
    if len(wire) == 1 and wire[0] & WELL_KNOWN:
        id = wire[0] & ~WELL_KNOWN
        return None if id in (BROKER_EXTENSION, SPEC_EXTENSION) else WELL_KNOWN_KEYS[id]
    if len(wire) < 2 or wire[0] != len(wire) - 1:
        return None
    name = wire[1:].decode("utf-8", "replace")
    return Key(wire, -1, -1, name, name)


def keys_named(name: str) -> list[Key]:
    """All keys that a person may mean, the likeliest first: `parse_key(name)`, and the text key when it is another."""
    first = parse_key(name)
    second = Key.text(name)
    return [first] if first == second else [first, second]


def make_well_known_keys() -> list[Key]:
    """The keys of the ids 0..127, by id; those of 0x7C and 0x7F are never handed out."""
    keys: list[Key] = []
    for id in range(0x80):
        name = f"well-known-{id:#04x}"
        short_name = name
        if id in WELL_KNOWN_NAMES:
            last, short_name = WELL_KNOWN_NAMES[id]
            name = SPEC_PREFIX + last
        keys.append(Key((WELL_KNOWN | id).to_bytes(1, "big"), id, -1, name, short_name))
    return keys


def make_full_names(keys: list[Key]) -> dict[str, Key]:
    """Both spellings of each name."""
    names: dict[str, Key] = {}
    for id, (last, _) in WELL_KNOWN_NAMES.items():
        names[SPEC_PREFIX + last] = keys[id]
        names[JAVA_PREFIX + last] = keys[id]
    return names


def make_short_names(keys: list[Key]) -> dict[str, Key]:
    """Each short name in lower case and without separators."""
    names: dict[str, Key] = {}
    for id, (last, short_name) in WELL_KNOWN_NAMES.items():
        names[last.lower()] = keys[id]
        names[short_name.replace("_", "")] = keys[id]
    return names


def small_hex(digits: str) -> int:
    """The number of two hexadecimal digits; -1 for another text."""
    if len(digits) != 2 or not digits.isalnum() or not digits.isascii():
        return -1
    try:
        return int(digits, 16)
    except ValueError:
        return -1


WELL_KNOWN_KEYS: Final[list[Key]] = make_well_known_keys()
FULL_NAMES: Final[dict[str, Key]] = make_full_names(WELL_KNOWN_KEYS)
SHORT_NAMES: Final[dict[str, Key]] = make_short_names(WELL_KNOWN_KEYS)

# Those that the code speaks of.
NO_TAG: Final = WELL_KNOWN_KEYS[0x00]
SERVICE_NAME: Final = WELL_KNOWN_KEYS[0x01]
ROUTE_ID: Final = WELL_KNOWN_KEYS[0x02]
REGION: Final = WELL_KNOWN_KEYS[0x06]
ZONE: Final = WELL_KNOWN_KEYS[0x07]
SHARD_KEY: Final = WELL_KNOWN_KEYS[0x1B]
SHARD_METHOD: Final = WELL_KNOWN_KEYS[0x1C]
STICKY_ROUTE_KEY: Final = WELL_KNOWN_KEYS[0x1D]
LB_METHOD: Final = WELL_KNOWN_KEYS[0x1E]

# Hints of ours in the metadata of an ADDRESS.
DEADLINE: Final = Key.text("deadline_ms")  # D-41
EXCLUDE_SELF: Final = Key.text("exclude_self")  # D-103
MAX_DEADLINE_MS: Final = 0x7FFFFFFF  # 24 days: a longer one is not said, and none
