"""Router annotations, version 1: what brokers tell each other of a request, in front of its metadata.

    +----+----+-------------------+----+----------+-----------+
    | 00 | 80 | FFFFFFFF 00002000 | c0 | size, 8  | count, 8  |  described list; d0: size and count of 32 bits
    +----+----+-------------------+----+----------+-----------+
    +----+-------+
    | 50 | flags |                                                bit 0: streaming; the others are kept as they are
    +----+-------+
    +----+    +----+------------+--------------+
    | 40 | or | b1 | length, 32 | to-override …                   null, or where it goes; a1 length, 8 is read too
    +----+    +----+------------+--------------+
    +----+-----------+-----------------+
    | a1 | length, 8 | ingress-router …                           1..255 bytes of UTF-8: where the request came in
    +----+-----------+-----------------+
    +----+---------+----------+----+-----------+--------+
    | c0 | size, 8 | count, 8 | a1 | length, 8 | name …         trace: who had it, in order; d0 as above
    +----+---------+----------+----+-----------+--------+
    | extra fields, any AMQP values …                            kept byte for byte

The descriptor may also be the symbol `skupper:router-annotations`: the definition gives a name and a code, and AMQP 1.0
part 1, "Composite Type Representation", allows either. The code is written.

Encoded in AMQP 1.0, as "Router Message Annotations" of skupper-router writes it down. Decoding answers `Annotations` or
raises `InvalidFrame`, encoding answers bytes or raises `BrokerError`, both with the word "bad-annotations". Whether a
name in the trace means a loop, and what to-override asks for, is for forwarding.
"""

from typing import Final

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire import amqp
from rsocket_wire.wire.buffer import Reader, utf8_bytes
from rsocket_wire.wire.ints import u32_bytes, u64_bytes
from rsocket_wire.wire.keys import Key

ANNOTATIONS_MIME: Final[bytes] = b"message/x.skupper-router-annotations"
VERSION: Final = 1
VERSION_KEY: Final = Key.text("qd.annotations-version")  # in the metadata of a BROKER_INFO

STREAMING: Final = 0x01  # no need to wait for the whole request before it is passed on
MAX_FLAGS: Final = 0xFF  # the 8 bits of the field; bits without a name are kept

DESCRIPTOR: Final = 0xFFFF_FFFF_0000_2000  # domain and section: what says that this is version 1
DESCRIPTOR_NAME: Final = b"skupper:router-annotations"  # the same as a symbol
DESCRIPTOR_V2: Final = 0x534B_5052_2D2D_5241  # "SKPR--RA": skupper-router since 2.0.0
FIRST_EXTRA: Final = 4  # fields in front of the extra ones: flags, to-override, ingress-router, trace

MAX_SECTION_BYTES: Final = 65_536  # bytes; a hundred names of 255 bytes are less than half of it
MAX_TRACE: Final = 255  # entries; the count of a list8, and more brokers than a request can pass
MAX_NAME_BYTES: Final = 255  # bytes of a name; the 8 bits of the length of a str8

WORD: Final = "bad-annotations"
SECTION: Final = "section"
EXTRA: Final = "extra fields"


class Annotations:
    """One section, immutable. Equal when all six fields are; how its lists were written makes no difference."""

    def __init__(
        self, flags: int, to_override: str | None, ingress: str, trace: list[str], extra: bytes = b"", extra_n: int = 0
    ) -> None:
        self.flags: Final = flags  # 8 bits; all but STREAMING are only kept
        self.to_override: Final = to_override  # None: there is none
        self.ingress: Final = ingress  # the broker that the caller is connected to
        self.trace: Final = trace  # brokers that the request has left, the first one first; never changed
        self.extra: Final = extra  # the items behind the fourth, as they came
        self.extra_n: Final = extra_n  # how many these are

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Annotations) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash((self.flags, self.ingress, self.extra))

    def fields(self) -> tuple[object, ...]:
        """What makes two of them equal."""
        return (self.flags, self.to_override, self.ingress, self.trace, self.extra, self.extra_n)

    def passed_on(self, name: str) -> "Annotations":
        """What the broker `name` sends on: its name behind the trace, all else as it came.

        "MUST be forwarded without modification" of the flags, and "These extra fields must be NOT be modified".
        """
        return Annotations(self.flags, self.to_override, self.ingress, [*self.trace, name], self.extra, self.extra_n)

    def encode(self) -> bytes:
        """The section, its lists as short as they can be; BrokerError "bad-annotations" for what cannot be said."""
        if self.flags < 0 or self.flags > MAX_FLAGS:
            raise BrokerError(WORD, f"flags: {self.flags:#x} do not fit 8 bits")
        if not self.trace or len(self.trace) > MAX_TRACE:
            raise BrokerError(WORD, f"trace: has {len(self.trace)} entries, 1..{MAX_TRACE} are allowed")
        if self.extra or self.extra_n:
            check_extra(self.extra, self.extra_n)
        names = b"".join([name_bytes(name, "trace") for name in self.trace])
        fields = [
            bytes([amqp.UBYTE, self.flags]),
            override_bytes(self.to_override),
            name_bytes(self.ingress, "ingress-router"),
            amqp.list_bytes(names, len(self.trace)),
            self.extra,
        ]
        data = (
            bytes([amqp.DESCRIBED, amqp.ULONG])
            + u64_bytes(DESCRIPTOR)
            + amqp.list_bytes(b"".join(fields), FIRST_EXTRA + self.extra_n)
        )
        if len(data) > MAX_SECTION_BYTES:
            raise BrokerError(WORD, f"{SECTION}: has {len(data)} bytes, the limit is {MAX_SECTION_BYTES}")
        return data


def decode_annotations(data: bytes) -> Annotations:
    """The annotations that all of `data` is; InvalidFrame "bad-annotations" for anything else.

    Every legal form is read: lists of both lengths, a to-override of both lengths. The sentence names the field, what
    it needed and what was there. Takes time in proportion to `data`, whatever is in it.
    """
    try:
        return read_section(data)
    except InvalidFrame as error:
        raise InvalidFrame(error.text, WORD) from None


def encode_version(version: int) -> bytes:
    """The value of VERSION_KEY: "encoded as a signed integer", here 4 bytes; BrokerError when it does not fit."""
    if version < -0x8000_0000 or version > 0x7FFF_FFFF:
        raise BrokerError(WORD, f"{VERSION_KEY.name}: {version} does not fit 32 bits")
    return u32_bytes(version & 0xFFFF_FFFF)


def decode_version(raw: bytes | None) -> int:
    """The version that a broker says, any signed number; InvalidFrame "bad-annotations" unless it has 4 bytes.

    "the numerically lower version will be used": below 1 there are no annotations on the link.
    """
    if raw is None or len(raw) != 4:
        there = "no value" if raw is None else f"{len(raw)} bytes"
        raise InvalidFrame(f"{VERSION_KEY.name}: has {there}, a signed number of 4 bytes is needed", WORD)
    return int.from_bytes(raw, "big", signed=True)


# Decoding. The word of what is raised here is put right by decode_annotations.


def read_section(data: bytes) -> Annotations:
    """The section, from its descriptor to its last byte."""
    if len(data) > MAX_SECTION_BYTES:
        raise InvalidFrame(f"{SECTION}: has {len(data)} bytes, the limit is {MAX_SECTION_BYTES}")
    reader = Reader(data)
    pull_descriptor(reader)
    code = reader.pull_u8(SECTION)
    if code not in (amqp.LIST0, amqp.LIST8, amqp.LIST32):
        raise amqp.wrong_type(SECTION, code, "a list8 (0xc0) or a list32 (0xd0)")
    if code == amqp.LIST0:
        raise too_few_fields(0)
    items, count = amqp.pull_items(reader, code == amqp.LIST32, SECTION)
    if count < FIRST_EXTRA:
        raise too_few_fields(count)
    flags = pull_flags(items)
    to_override = pull_override(items)
    ingress = pull_name(items, "ingress-router")
    trace = pull_trace(items)
    extra_at = items.at
    amqp.skip_values(items, count - FIRST_EXTRA, 1, EXTRA)
    items.check_end(f"{SECTION} of {count} fields")
    reader.check_end(SECTION)
    return Annotations(flags, to_override, ingress, trace, data[extra_at : items.end], count - FIRST_EXTRA)


def pull_descriptor(reader: Reader) -> None:
    """What says that a section of version 1 follows: a symbol, or the one form that a number of this size has."""
    code = reader.pull_u8(SECTION)
    if code != amqp.DESCRIBED:
        raise amqp.wrong_type(SECTION, code, "a described value (0x00)")
    code = reader.pull_u8("descriptor")
    if code in (amqp.SYM8, amqp.SYM32):
        pull_symbolic_descriptor(reader, code)
        return
    if code != amqp.ULONG:
        raise amqp.wrong_type("descriptor", code, f"the ulong (0x80) {DESCRIPTOR:#018x} or its symbol (0xa3, 0xb3)")
    descriptor = reader.pull_u64("descriptor")
    if descriptor == DESCRIPTOR_V2:
        raise InvalidFrame(f"descriptor: {descriptor:#018x} is that of version 2, version {VERSION} is supported")
    if descriptor != DESCRIPTOR:
        raise InvalidFrame(f"descriptor: {descriptor:#018x} is there, {DESCRIPTOR:#018x} is needed")


def pull_symbolic_descriptor(reader: Reader, code: int) -> None:
    """The descriptor's name, whose constructor was read. Of another one only as much is quoted as ours has."""
    size = reader.pull_u8("descriptor") if code == amqp.SYM8 else reader.pull_u32("descriptor")
    at = reader.advance(size, "descriptor")
    if size != len(DESCRIPTOR_NAME) or reader.data[at : at + size] != DESCRIPTOR_NAME:
        there = reader.data[at : at + min(size, len(DESCRIPTOR_NAME))].decode("ascii", "backslashreplace")
        rest = "…" if size > len(DESCRIPTOR_NAME) else ""
        raise InvalidFrame(f"descriptor: {there!r}{rest} is there, {DESCRIPTOR_NAME.decode()!r} is needed")


def pull_flags(items: Reader) -> int:
    """The ubyte of the flags; uint is what version 2 has."""
    code = items.pull_u8("flags")
    if code != amqp.UBYTE:
        raise amqp.wrong_type("flags", code, "a ubyte (0x50)")
    return items.pull_u8("flags")


def pull_override(items: Reader) -> str | None:
    """Null, or a text. The field is written as str32; others take the shorter form where it does."""
    code = items.pull_u8("to-override")
    if code == amqp.NULL:
        return None
    if code == amqp.STR8:
        return items.pull_text(items.pull_u8("to-override"), "to-override")
    if code != amqp.STR32:
        raise amqp.wrong_type("to-override", code, "null (0x40), a str32 (0xb1) or a str8 (0xa1)")
    return items.pull_text(items.pull_u32("to-override"), "to-override")


def pull_name(items: Reader, subject: str) -> str:
    """The name of a broker. "Entries on the trace list are restricted to the str8-utf8 type", and so is the ingress."""
    code = items.pull_u8(subject)
    if code != amqp.STR8:
        raise amqp.wrong_type(subject, code, "a str8 (0xa1)")
    length = items.pull_u8(subject)
    if not length:
        raise InvalidFrame(f"{subject}: is empty, a name of 1..{MAX_NAME_BYTES} bytes is needed")
    return items.pull_text(length, subject)


def pull_trace(items: Reader) -> list[str]:
    """The list of names."""
    code = items.pull_u8("trace")
    if code not in (amqp.LIST0, amqp.LIST8, amqp.LIST32):
        raise amqp.wrong_type("trace", code, "a list8 (0xc0) or a list32 (0xd0)")
    if code == amqp.LIST0:
        raise empty_trace()
    entries, count = amqp.pull_items(items, code == amqp.LIST32, "trace")
    if count > MAX_TRACE:
        raise InvalidFrame(f"trace: has {count} entries, the limit is {MAX_TRACE}")
    names = [pull_name(entries, f"trace entry {number}") for number in range(1, count + 1)]
    entries.check_end(f"trace of {count} entries")
    if not names:
        # "The current router identifier is added to the end of this list before the message is forwarded."
        raise empty_trace()
    return names


# Extra fields: nobody knows what they mean, but they have to be as many and as long as they say.


def check_extra(extra: bytes, extra_n: int) -> None:
    """InvalidFrame "bad-annotations", which is a BrokerError, unless `extra` is that many AMQP values."""
    try:
        reader = Reader(extra)
        amqp.skip_values(reader, extra_n, 1, EXTRA)
        reader.check_end(f"{extra_n} {EXTRA}")
    except InvalidFrame as error:
        raise InvalidFrame(error.text, WORD) from None


# Encoding


def override_bytes(text: str | None) -> bytes:
    """Null, or a str32, which is the type of the field."""
    if text is None:
        return bytes([amqp.NULL])
    raw = utf8_bytes(text, WORD, "to-override")
    return bytes([amqp.STR32]) + u32_bytes(len(raw)) + raw


def name_bytes(name: str, subject: str) -> bytes:
    """A str8; BrokerError unless it is 1..255 bytes."""
    raw = utf8_bytes(name, WORD, subject)
    if not raw or len(raw) > MAX_NAME_BYTES:
        raise BrokerError(WORD, f"{subject}: a name has {len(raw)} bytes, 1..{MAX_NAME_BYTES} are allowed")
    return bytes([amqp.STR8, len(raw)]) + raw


# Errors


def too_few_fields(count: int) -> InvalidFrame:
    """The error of a section without all of the four."""
    return InvalidFrame(f"{SECTION}: has {count} fields, flags, to-override, ingress-router and trace are needed")


def empty_trace() -> InvalidFrame:
    """The error of a trace in which not even the sender stands."""
    return InvalidFrame("trace: is empty, the sender must have added its name")
