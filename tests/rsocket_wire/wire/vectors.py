"""The frames under tests/vectors as values: what is written there, and what the codec should make of it.

broker_frames.json: bytes that other programs really wrote, with what was put in. seed_frames.json: bytes written by
hand from the diagrams of the specification. Keys there: a number is a well-known id, a text a text, a list of two
numbers an extension; values: a text, null, or {"hex": …} for bytes that are no text.
"""

import json
from pathlib import Path
from typing import Any

from rsocket_wire.wire.frames import Address, BrokerFrame, BrokerInfo, RouteAdd, RouteRemove, RouteSetup
from rsocket_wire.wire.ids import parse_id
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import Tag

VECTORS = Path(__file__).parents[2] / "vectors"
COMPOSITE_PREFIX = b"\x20message/x.rsocket.broker.frame.v0"


class Vector:
    """One item of a file."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.name: str = item["name"]
        self.kind: str = item.get("kind", "seed")
        self.frame: str = item["frame"]
        self.fields: dict[str, Any] = item["fields"]
        self.data: bytes = bytes.fromhex(item["hex"])
        self.encodes_back: bool = item.get("encodes_back", self.kind == "java-encode")

    def __repr__(self) -> str:
        return self.name

    def expected(self) -> BrokerFrame:
        """The frame that `fields` describe."""
        fields = self.fields
        flags = fields["flags"]
        minor = int(fields["version"].split(".")[1]) if "version" in fields else fields.get("minor", 1)
        tags = tags_of(fields, "tags")
        if self.frame == "ADDRESS":
            # The spec-layout vectors say in their source that it is …01.
            origin = parse_id(fields.get("origin_route_id", "00000000-0000-0000-0000-000000000001"))
            wrapped = bytes.fromhex(fields.get("wrapped", ""))
            return Address(origin, tags, tags_of(fields, "metadata"), wrapped, flags, minor)
        if self.frame == "ROUTE_SETUP":
            return RouteSetup(parse_id(fields["route_id"]), fields["service_name"], tags, flags, minor)
        broker_id = parse_id(fields["broker_id"])
        if self.frame == "BROKER_INFO":
            metadata = tags_of(fields, "metadata") if "metadata" in fields else tags
            return BrokerInfo(broker_id, fields["timestamp"], metadata, flags, minor)
        route_id = parse_id(fields["route_id"])
        if self.frame == "ROUTE_REMOVE":
            return RouteRemove(broker_id, route_id, fields["timestamp"], flags, minor)
        assert self.frame in ("ROUTE_ADD", "ROUTE_JOIN")  # D-01
        return RouteAdd(broker_id, route_id, fields["timestamp"], fields["service_name"], tags, flags, minor)


def tags_of(fields: dict[str, Any], name: str) -> list[Tag]:
    """The map of that name; `…_rawbyte` in the JS client's vectors has the key byte as it stands on the wire."""
    if name + "_rawbyte" in fields:
        return [Tag(Key.well_known(key & 0x7F), value.encode()) for key, value in fields[name + "_rawbyte"]]
    return [Tag(key_of(key), raw_of(value)) for key, value in fields.get(name, [])]


def key_of(key: int | str | list[int]) -> Key:
    if isinstance(key, int):
        return Key.well_known(key)
    return Key.text(key) if isinstance(key, str) else Key.extension(key[0], key[1])


def raw_of(value: str | dict[str, str] | None) -> bytes | None:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return None if value is None else value.encode()


def cut_frame(composite: bytes) -> bytes:
    """The broker frame in a composite metadata whose last entry it is, by its mime type as a text."""
    at = composite.index(COMPOSITE_PREFIX) + len(COMPOSITE_PREFIX)
    length = int.from_bytes(composite[at : at + 3], "big")
    assert at + 3 + length == len(composite)
    return composite[at + 3 :]


def vectors_of(file_name: str) -> list[Vector]:
    items = json.loads((VECTORS / file_name).read_text("utf-8"))
    return [Vector(item) for item in items]


FOREIGN = vectors_of("broker_frames.json")
SEED = vectors_of("seed_frames.json")


def foreign(kind: str) -> list[Vector]:
    """The vectors of one kind, without composite blocks and without encoders that only raised."""
    return [
        vector
        for vector in FOREIGN
        if vector.kind.split(" ")[0] == kind and vector.frame not in ("COMPOSITE", "ENCODE_ERROR")
    ]


def composites() -> list[Vector]:
    return [vector for vector in FOREIGN if vector.frame == "COMPOSITE"]


def by_name(name: str) -> Vector:
    return next(vector for vector in FOREIGN if vector.name == name)
