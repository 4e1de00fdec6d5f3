"""AMQP 1.0 values, as far as a codec needs them that knows what it wants: constructors, lists, stepping over the rest.

    +-------------+---------+
    | constructor | value … |                          what is of fixed width: 0, 1, 2, 4, 8, 16 bytes
    +-------------+---------+---------+
    | constructor | length  | value … |                variable: a length of 8 or 32 bits
    +-------------+---------+-------+------------+
    | constructor | size    | count | values …   |     compound: lists and maps; size and count of 8 or 32 bits
    +-------------+---------+-------+------------+----------------------+
    | constructor | size    | count | one constructor | values …        |     array
    +-------------+---------+-------+-----------------+-----------------+

A constructor is a byte whose upper half tells which of these follows, or 00, a descriptor, which is a value, and again
a constructor: AMQP 1.0 part 1, "Type Encodings". What is wrong is an InvalidFrame with the caller's subject.
"""

from typing import Final

from rsocket_wire.errors import InvalidFrame
from rsocket_wire.wire.buffer import Reader
from rsocket_wire.wire.ints import u32_bytes

MAX_NESTING: Final = 32  # values in each other, in what is stepped over; bounds our own stack

# "Primitive Type Definitions"
DESCRIBED: Final = 0x00
NULL: Final = 0x40
LIST0: Final = 0x45
UBYTE: Final = 0x50
ULONG: Final = 0x80
STR8: Final = 0xA1
STR32: Final = 0xB1
SYM8: Final = 0xA3
SYM32: Final = 0xB3
LIST8: Final = 0xC0
LIST32: Final = 0xD0
MAP8: Final = 0xC1
MAP32: Final = 0xD1

# constructor -> name, of all that AMQP 1.0 defines: for sentences
TYPE_NAMES: Final[dict[int, str]] = {
    DESCRIBED: "described value",
    NULL: "null",
    0x41: "true",
    0x42: "false",
    0x43: "uint0",
    0x44: "ulong0",
    LIST0: "list0",
    UBYTE: "ubyte",
    0x51: "byte",
    0x52: "smalluint",
    0x53: "smallulong",
    0x54: "smallint",
    0x55: "smalllong",
    0x56: "boolean",
    0x60: "ushort",
    0x61: "short",
    0x70: "uint",
    0x71: "int",
    0x72: "float",
    0x73: "char",
    0x74: "decimal32",
    ULONG: "ulong",
    0x81: "long",
    0x82: "double",
    0x83: "timestamp",
    0x84: "decimal64",
    0x94: "decimal128",
    0x98: "uuid",
    0xA0: "vbin8",
    STR8: "str8",
    SYM8: "sym8",
    0xB0: "vbin32",
    STR32: "str32",
    SYM32: "sym32",
    LIST8: "list8",
    MAP8: "map8",
    LIST32: "list32",
    MAP32: "map32",
    0xE0: "array8",
    0xF0: "array32",
}

# The upper four bits of a constructor
EMPTY: Final = 0x4
FIXED_16: Final = 0x9  # the last of fixed width: 0, 1, 2, 4, 8, 16 bytes
VARIABLE_1: Final = 0xA
VARIABLE_4: Final = 0xB
COMPOUND_4: Final = 0xD
ARRAY_1: Final = 0xE
ARRAY_4: Final = 0xF
EXTENDED: Final = 0xF  # lower four bits: one more byte of the constructor follows


def pull_items(reader: Reader, is_wide: bool, subject: str) -> tuple[Reader, int]:
    """Size and count of a list, map or array, of 32 or of 8 bits each: what stands behind them, and the count."""
    size = reader.pull_u32(subject) if is_wide else reader.pull_u8(subject)
    at = reader.advance(size, subject)
    items = Reader(reader.data, at, at + size)
    count = items.pull_u32(subject) if is_wide else items.pull_u8(subject)
    return items, count


def list_bytes(items: bytes, count: int) -> bytes:
    """A list8 where the items fit into one. Each has a byte at least, so their number fits too."""
    size = len(items) + 1
    if size <= 0xFF:
        return bytes([LIST8, size, count]) + items
    return bytes([LIST32]) + u32_bytes(len(items) + 4) + u32_bytes(count) + items


def skip_values(reader: Reader, count: int, depth: int, subject: str) -> None:
    """Step over `count` values, which are in `depth - 1` others.

    Each has a byte at least, so a count that is too large ends soon.
    """
    for _ in range(count):
        skip_content(reader, pull_constructor(reader, depth, subject), depth, subject)


def pull_constructor(reader: Reader, depth: int, subject: str) -> int:
    """The first byte of a constructor, behind its descriptors, if it is described; the cursor is at the value then."""
    check_depth(depth, subject)
    code = reader.pull_u8(subject)
    while code == DESCRIBED:
        depth += 1
        check_depth(depth, subject)
        skip_values(reader, 1, depth, subject)
        code = reader.pull_u8(subject)
    if code >> 4 < EMPTY:
        raise InvalidFrame(f"{subject}: {code:#04x} at offset {reader.at - 1} is no constructor of AMQP 1.0")
    if code & 0xF == EXTENDED:
        reader.advance(1, subject)
    return code


def skip_content(reader: Reader, code: int, depth: int, subject: str) -> None:
    """Step over a value whose constructor was read. The category tells its length, also of types to come."""
    category = code >> 4
    if category <= FIXED_16:
        reader.advance(fixed_width(category), subject)
    elif category == VARIABLE_1:
        reader.advance(reader.pull_u8(subject), subject)
    elif category == VARIABLE_4:
        reader.advance(reader.pull_u32(subject), subject)
    else:
        items, count = pull_items(reader, category in (COMPOUND_4, ARRAY_4), subject)
        if category >= ARRAY_1:
            skip_elements(items, count, depth + 1, subject)
        else:
            if code in (MAP8, MAP32) and count % 2:
                raise InvalidFrame(f"{subject}: a map of {count} items at offset {items.at}, keys and values are pairs")
            skip_values(items, count, depth + 1, subject)
        if items.left:  # no sentence is made for nothing
            items.check_end(f"{subject}, {type_name(code)} of {count} items")


def skip_elements(items: Reader, count: int, depth: int, subject: str) -> None:
    """Step over the elements of an array, which have one constructor together."""
    code = pull_constructor(items, depth, subject)
    if code >> 4 <= FIXED_16:
        # All at once: four billion elements of no bytes take no time.
        items.advance(count * fixed_width(code >> 4), subject)
        return
    for _ in range(count):
        skip_content(items, code, depth, subject)


def fixed_width(category: int) -> int:
    """Bytes of a value of fixed width: 0, 1, 2, 4, 8, 16."""
    return 1 << category >> 5


def check_depth(depth: int, subject: str) -> None:
    """InvalidFrame for the value that is in too many others."""
    if depth > MAX_NESTING:
        raise InvalidFrame(f"{subject}: values are nested more than {MAX_NESTING} deep")


def type_name(code: int) -> str:
    """The name of a type and its code, for people."""
    return f"{TYPE_NAMES.get(code, 'type')} ({code:#04x})"


def wrong_type(subject: str, code: int, needed: str) -> InvalidFrame:
    """The error of a field of another type than `needed`."""
    return InvalidFrame(f"{subject}: {type_name(code)} is there, {needed} is needed")
