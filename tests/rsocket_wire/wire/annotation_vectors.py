"""tests/vectors/router_annotations.json as values.

Sections of version 1 were written by hand from the definition and checked with qpid-proton, good ones in three forms:
compact, with 32-bit lists, and as proton itself writes them. What the file says of version 2 was captured from
skupper-router 2.5.0. Below it: sections and AMQP values made by hand, for what the file does not hold.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from rsocket_wire.errors import InvalidFrame
from rsocket_wire.wire.annotations import Annotations, decode_annotations

FILE = Path(__file__).parents[2] / "vectors" / "router_annotations.json"
EXTRA = {"new-field (string)": b"\xa1\x09new-field", "7 (ulong)": b"\x53\x07"}


class Example:
    """One good section in its three forms, and what it says."""

    def __init__(self, item: dict[str, Any]) -> None:
        fields = item["fields"]
        self.name: str = item["name"]
        self.compact, self.wide, self.proton = (bytes.fromhex(item[key]) for key in item if "_hex (" in key)
        extra = [EXTRA[name] for name in fields["extra"]]
        self.annotations = Annotations(
            fields["flags"], fields["to"], fields["ingress"], fields["trace"], b"".join(extra), len(extra)
        )

    def __repr__(self) -> str:
        return self.name

    @property
    def forms(self) -> list[bytes]:
        return [self.compact, self.wide, self.proton]


READ: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
EXAMPLES = [Example(item) for item in READ["v1_examples"]]
GOOD = [example for example in EXAMPLES if example.annotations.trace]
WITHOUT_TRACE = [example for example in EXAMPLES if not example.annotations.trace]
BAD: dict[str, bytes] = {item["name"]: bytes.fromhex(item["hex"]) for item in READ["v1_bad_inputs (must be refused)"]}
CAPTURED: list[dict[str, Any]] = READ["v2_captured_from_skupper_router_2.5.0"]["captures"]
# What stood before the message on a link that annotations go over, in either direction.
CAPTURED_BYTES = [bytes.fromhex(item[way]) for item in CAPTURED for way in ("sent", "received") if item[way]]

HEAD = bytes.fromhex("0080ffffffff00002000")
SYMBOLIC_HEADS = [  # the same by its name, as a sym8 and as a sym32
    b"\x00\xa3\x1askupper:router-annotations",
    b"\x00\xb3\x00\x00\x00\x1askupper:router-annotations",
]
LIST8, LIST32, MAP8, MAP32, ARRAY8, ARRAY32 = 0xC0, 0xD0, 0xC1, 0xD1, 0xE0, 0xF0
ONE = b"\x54\x01"
NULL = b"\x40"
STR = b"\xa1\x01b"


def compound8(code: int, count: int, body: bytes) -> bytes:
    """A list8, map8 or array8 of what stands in `body`."""
    return bytes([code, len(body) + 1, count]) + body


def compound32(code: int, count: int, body: bytes) -> bytes:
    """A list32, map32 or array32."""
    return bytes([code]) + (len(body) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + body


def section(extra: bytes, extra_n: int, count: int = -1) -> bytes:
    """A section with these extra fields, written by hand; `count` where it shall be another one than is true."""
    fields = bytes.fromhex("5000 40 a10162 c00401a10162") + extra
    return HEAD + compound32(0xD0, 4 + extra_n if count < 0 else count, fields)


def refusal(data: bytes) -> str:
    """What is said of bytes that are no section."""
    with pytest.raises(InvalidFrame) as raised:
        decode_annotations(data)
    assert raised.value.word == "bad-annotations"
    return raised.value.text


def assert_section_or_refused(data: bytes) -> None:
    """What is read can be written again with the same meaning, in no more bytes but those of a longer override."""
    found, word = None, ""
    try:
        found = decode_annotations(data)
    except InvalidFrame as error:
        word = error.word
    if found is None:
        assert word == "bad-annotations"
    else:
        again = found.encode()
        assert decode_annotations(again) == found
        assert len(again) <= len(data) + 3


# Extra fields that AMQP allows: every type, lists in each other, arrays, what is described, types to come.
LEGAL: dict[str, list[bytes]] = {
    "nothing": [],
    "no bytes": [bytes([code]) for code in range(0x40, 0x46)],
    "one byte": [bytes([code, 0xFF]) for code in range(0x50, 0x57)],
    "two bytes": [b"\x60\xff\xff", b"\x61\xff\xff"],
    "four bytes": [bytes([code]) + bytes(4) for code in range(0x70, 0x75)],
    "eight bytes": [bytes([code]) + bytes(8) for code in range(0x80, 0x85)],
    "sixteen bytes": [b"\x94" + bytes(16), b"\x98" + bytes(16)],
    "variable, short": [b"\xa0\x00", b"\xa0\x02\xff\xff", b"\xa1\x00", STR, b"\xa3\x01b"],
    "variable, long": [b"\xb0" + bytes(4), b"\xb1\x00\x00\x00\x01b", b"\xb3\x00\x00\x00\x01b"],
    "lists": [compound8(LIST8, 0, b""), compound8(LIST8, 2, ONE + STR), compound32(LIST32, 1, STR)],
    "list in a list": [compound8(LIST8, 2, compound32(LIST32, 1, ONE) + compound8(LIST8, 0, b""))],
    "maps": [compound8(MAP8, 0, b""), compound8(MAP8, 2, STR + ONE), compound32(MAP32, 4, (STR + ONE) * 2)],
    "arrays of nothing": [compound8(ARRAY8, 0, b"\x71"), compound32(ARRAY32, 0, b"\xa1")],
    "array of null": [compound8(ARRAY8, 3, NULL)],
    "array of int": [compound32(ARRAY32, 2, b"\x71" + bytes(8))],
    "array of uuid": [compound8(ARRAY8, 2, b"\x98" + bytes(32))],
    "array of str8": [compound8(ARRAY8, 3, b"\xa1\x01b\x00\x02bc")],
    "array of str32": [compound8(ARRAY8, 2, b"\xb1\x00\x00\x00\x01b\x00\x00\x00\x00")],
    "array of lists": [compound8(ARRAY8, 2, b"\xc0\x01\x00\x03\x01\x54\x01")],
    "array of maps": [compound8(ARRAY8, 1, b"\xc1\x06\x02\xa1\x01b\x54\x01")],
    "array of arrays": [compound8(ARRAY8, 2, b"\xe0\x02\x03\x40\x03\x01\x50\x07")],
    "array of what is described": [compound8(ARRAY8, 2, b"\x00" + STR + b"\x50\x01\x02")],
    "described": [b"\x00" + STR + ONE],
    "described by a list": [b"\x00" + compound8(LIST8, 1, ONE) + STR],
    "described twice": [b"\x00" + STR + b"\x00" + ONE + NULL],
    "described by what is described": [b"\x00\x00" + STR + ONE + NULL],
    "types to come": [b"\x46", b"\x57\x01", b"\x62\x01\x02", b"\xa2\x01x", compound8(0xC2, 1, ONE)],
    "extended types": [b"\x4f\x01", b"\x5f\x02\xff", b"\xaf\x03\x01x", compound8(ARRAY8, 2, b"\x5f\x02\xff\xff")],
}

# Any of these, and in each other.
VALUES = st.recursive(
    st.sampled_from([value for values in LEGAL.values() for value in values]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(lambda items: compound32(LIST32, len(items), b"".join(items))),
        st.lists(st.tuples(inner, inner), max_size=3).map(
            lambda pairs: compound32(MAP32, 2 * len(pairs), b"".join([key + value for key, value in pairs]))
        ),
        st.tuples(inner, inner).map(lambda pair: b"\x00" + pair[0] + pair[1]),
    ),
    max_leaves=8,
)
