"""What a broker says of itself: the metadata of a BROKER_INFO, as values (D-46).

spec "BROKER_INFO": information a broker passes to another broker; it may be passed on.

name                     in traces; unique in a cluster
qd.annotations-version   4 bytes, signed, big-endian: the router annotations that it speaks
epoch                    8 bytes: when this run of it began, milliseconds since the epoch
url, client-url          where brokers, and where clients, reach it; each as often as there are some
neighbour                16 bytes of id, 2 of cost: a link that is up; as often as there are some
state                    `draining` when it is about to leave
nonce, proof             while a link is made, never passed on: see `proof`
"""

from typing import Final

from rsocket_wire.errors import InvalidFrame
from rsocket_wire.wire.annotations import VERSION_KEY, decode_version, encode_version
from rsocket_wire.wire.frames import BrokerInfo
from rsocket_wire.wire.ids import ID_BYTES, id_text
from rsocket_wire.wire.ints import u16_at, u16_bytes
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import MAX_VALUE_BYTES, Tag

NAME: Final = Key.text("name")
EPOCH: Final = Key.text("epoch")
URL: Final = Key.text("url")
CLIENT_URL: Final = Key.text("client-url")
NEIGHBOUR: Final = Key.text("neighbour")
STATE: Final = Key.text("state")
NONCE: Final = Key.text("nonce")
PROOF: Final = Key.text("proof")

MAX_TRACE_NAME_BYTES: Final = 63  # of a broker's name: it stands in the trace of every request
MAX_URLS: Final = 16  # of one kind, that a broker may have
NONCE_BYTES: Final = 16
DRAINING: Final = "draining"
_NO_NAME_CHARACTERS: Final = " ,>"  # they part names in to-override and in ways


class Info:
    """One broker, as it says."""

    def __init__(self, id: bytes, name: str, timestamp_ms: int, epoch_ms: int, version: int) -> None:
        self.id: Final = id
        self.name: Final = name
        self.timestamp_ms: Final = timestamp_ms
        self.epoch_ms: Final = epoch_ms
        self.version: Final = version  # of the annotations; 0: none
        self.urls: list[str] = []
        self.client_urls: list[str] = []
        self.neighbours: dict[bytes, int] = {}  # id -> cost
        self.state = ""
        self.nonce = b""
        self.proof = b""

    def encode(self) -> bytes:
        """The frame."""
        metadata = [
            Tag(NAME, self.name.encode()),
            Tag(VERSION_KEY, encode_version(self.version)),
            Tag(EPOCH, self.epoch_ms.to_bytes(8, "big")),
        ]
        for key, urls in ((URL, self.urls), (CLIENT_URL, self.client_urls)):
            for url in urls[:MAX_URLS]:
                if len(url.encode()) <= MAX_VALUE_BYTES:
                    metadata.append(Tag(key, url.encode()))
        for id, cost in self.neighbours.items():
            metadata.append(Tag(NEIGHBOUR, id + u16_bytes(cost)))
        for key, raw in ((STATE, self.state.encode()), (NONCE, self.nonce), (PROOF, self.proof)):
            if raw:
                metadata.append(Tag(key, raw))
        return BrokerInfo(self.id, self.timestamp_ms, metadata).encode()

    def public(self) -> "Info":
        """The same without what belongs to one handshake."""
        copy = Info(self.id, self.name, self.timestamp_ms, self.epoch_ms, self.version)
        copy.urls = self.urls
        copy.client_urls = self.client_urls
        copy.neighbours = self.neighbours
        copy.state = self.state
        return copy


def read_info(frame: BrokerInfo) -> Info:
    """What the frame says, unknown keys passed over; InvalidFrame when a name or a number in it is none."""
    name = ""
    version = 0
    epoch_ms = 0
    for tag in frame.metadata:
        raw = tag.raw if tag.raw is not None else b""
        if tag.key == NAME:
            name = tag.value or ""
        elif tag.key == VERSION_KEY:
            version = decode_version(raw)
        elif tag.key == EPOCH:
            epoch_ms = int.from_bytes(raw[:8], "big")
    fault = fault_of_name(name)
    if fault:
        raise InvalidFrame(f"BROKER_INFO of {id_text(frame.broker_id)}: {fault}", "bad-broker")
    info = Info(frame.broker_id, name, frame.timestamp_ms, epoch_ms, max(0, version))
    for tag in frame.metadata:
        raw = tag.raw if tag.raw is not None else b""
        if tag.key == NEIGHBOUR:
            if len(raw) != ID_BYTES + 2:
                text = f"a neighbour of {len(raw)} bytes, {ID_BYTES + 2} are needed"
                raise InvalidFrame(f"BROKER_INFO of {name}: {text}", "bad-broker")
            info.neighbours[raw[:ID_BYTES]] = max(1, u16_at(raw, ID_BYTES))
        elif tag.key == URL and len(info.urls) < MAX_URLS:
            info.urls.append(tag.value or "")
        elif tag.key == CLIENT_URL and len(info.client_urls) < MAX_URLS:
            info.client_urls.append(tag.value or "")
        elif tag.key == STATE:
            info.state = tag.value or ""
        elif tag.key == NONCE:
            info.nonce = raw
        elif tag.key == PROOF:
            info.proof = raw
    return info


def fault_of_name(name: str) -> str:
    """Why no broker in a cluster can have this name; empty when one can."""
    size = len(name.encode())
    if not name:
        return "it has no name"
    if size > MAX_TRACE_NAME_BYTES:
        return f"its name has {size} bytes, {MAX_TRACE_NAME_BYTES} are allowed"
    for character in _NO_NAME_CHARACTERS:
        if character in name:
            return f"its name {name!r} has a space, a comma or a >, which part names"
    return ""
