"""Brokers by hand: BROKER_INFOs written from the diagram, proofs made by hmac alone, on the ends of links (D-46)."""

from __future__ import annotations

import hmac
from typing import Any

from broker.access.identities import Proof
from broker.cluster.settings import ClusterSettings
from broker.core import CoreSettings
from broker.edge.origins import is_loopback
from broker.forwarding.arrival import Arrival
from tests.conformance import scripts
from tests.conformance.scripts import AnyTag, address, broker_info, forwarding, heard, ident, u16, u32, u64
from tests.fakes import Wire, World

OCTETS = "application/octet-stream"
NO_ROUTE = scripts.error(1, scripts.REJECTED, "no-route: no route has service=orders")


SECRET = b"a secret of sixteen bytes or more"
OURS = ident(0xB1)  # the id of the broker under test
AT_MS = 1_700_000_000_000  # what its clock says first


def cluster(settings: CoreSettings | None = None, **more: Any) -> World:
    """The broker under test: one to which others may link. `more`: of its ClusterSettings."""
    usual: dict[str, Any] = {
        "urls": ["tcp://b1:7878"],
        "client_urls": ["tcp://b1.example:7878"],
        "plaintext": True,
    }
    return World(settings or CoreSettings(broker_name="b1"), cluster=ClusterSettings(SECRET, **{**usual, **more}))


def ours(at_ms: int, *more: AnyTag, urls: bool = True) -> bytes:
    """What the broker under test says of itself at that time."""
    metadata: list[AnyTag] = [("name", "b1"), ("qd.annotations-version", u32(1)), ("epoch", u64(AT_MS))]
    if urls:
        metadata += [("url", "tcp://b1:7878"), ("client-url", "tcp://b1.example:7878")]
    return broker_info(at_ms, *metadata, *more, broker=OURS)


def entries(raw: bytes) -> list[tuple[str, bytes]]:
    """The entries of the composite metadata of a METADATA_PUSH."""
    assert raw[:6] == bytes.fromhex("00000000 3100"), "METADATA_PUSH on stream 0 with the M flag"
    found: list[tuple[str, bytes]] = []
    at = 6
    while at < len(raw):
        name_to = at + 2 + raw[at]
        to = name_to + 3 + int.from_bytes(raw[name_to : name_to + 3], "big")
        found.append((raw[at + 1 : name_to].decode(), raw[name_to + 3 : to]))
        at = to
    return found


def value_of(frame: bytes, name: str, size: int) -> bytes:
    """The value of a text key in a BROKER_INFO, of which only the length is known."""
    at = frame.index(bytes([len(name)]) + name.encode()) + 1 + len(name)
    assert frame[at] & 0x7F == size
    return frame[at + 1 : at + 1 + size]


def proof(role: bytes, *signed: bytes, secret: bytes = SECRET) -> bytes:
    """32 bytes that only who knows the secret can make."""
    return hmac.digest(secret, role + b"".join(signed), "sha256")


class Broker:
    """Another broker, which has said nothing yet."""

    def __init__(self, world: World, number: int = 0xB9, secret: bytes = SECRET, version: int = 1) -> None:
        self.world = world
        self.id = ident(number)
        self.name = f"b{number - 0xB0}"
        self.secret = secret
        self.version = version
        self.epoch_ms = 7  # when this run of it began
        self.nonce = (number << 64).to_bytes(16, "big")
        self.wire: Wire

    def info(self, at_ms: int, *more: AnyTag) -> bytes:
        """What it says of itself."""
        version = ("qd.annotations-version", u32(self.version & 0xFFFF_FFFF))
        return broker_info(at_ms, ("name", self.name), version, ("epoch", u64(self.epoch_ms)), *more, broker=self.id)

    def dial(self, *more: AnyTag, principal: str = "", address: str = "", certificate: str = "") -> Broker:
        """Its SETUP arrives. `certificate`: the name in it; empty: its own."""
        raw = self.info(AT_MS, *more, ("nonce", self.nonce))
        self.wire = self.world.connect(origin=(address, principal, Arrival([certificate or self.name])))
        self.wire.send(scripts.setup(scripts.COMPOSITE, forwarding(raw), "application/octet-stream"))
        return self

    def accept(self, url: str, principal: str = "", address: str = "", certificate: str = "") -> Broker:
        """The broker under test has reached it by that URL, and has said what it says first."""
        proof = Proof(principal, is_private=not address or is_loopback(address))
        arrival = Arrival([certificate or self.name])
        peer = self.world.core.dialled("tcp 10.0.0.9:7878", True, self.world.now, url, address, proof, arrival)
        self.wire = self.world.wires[peer.id] = Wire(self.world, peer)
        self.world.pump()
        return self

    def prove(self, their_nonce: bytes = b"", role: bytes = b"dial") -> None:
        """Answers a nonce: that which has just come."""
        signed = [self.id, OURS, their_nonce or value_of(heard(self.wire)[-1], "nonce", 16), self.nonce]
        self.say(self.info(AT_MS, ("proof", proof(role, *signed, secret=self.secret))))

    def link(self, at_ms: int = AT_MS + 1) -> Broker:
        """Dials, proves, and names the broker under test as its neighbour; what that says to it is taken away."""
        self.dial()
        self.prove()
        self.say(self.info(at_ms, ("neighbour", OURS + u16(10))))
        assert not self.wire.is_closed
        heard(self.wire)
        return self

    def say(self, *frames: bytes) -> None:
        """A METADATA_PUSH with these broker frames."""
        self.wire.send(scripts.push(forwarding(*frames)))

    def told(self) -> list[bytes]:
        """Broker frames that have come since the last call; KEEPALIVEs and digests are dropped."""
        pushes = [raw for raw in heard(self.wire) if raw[4] >> 2 == 0x0C]
        return [content for raw in pushes for mime, content in entries(raw) if mime == scripts.FORWARDING]


def kept(world: World) -> list[tuple[bytes, str, int]]:
    """The routing table: Route Ids, service names and timestamps."""
    return [(route.id, route.service, route.timestamp_ms) for route in world.core.table.routes()]


# Router annotations


ANNOTATIONS = "message/x.skupper-router-annotations"
CALLER_MIMES = "message/x.rsocket.broker.caller-mimes.v0"


def amqp_text(text: str) -> bytes:
    """str8-utf8"""
    return bytes([0xA1, len(text)]) + text.encode()


def amqp_list(items: bytes, count: int) -> bytes:
    """list8"""
    return bytes([0xC0, len(items) + 1, count]) + items


def section(
    flags: int, to_override: str | None, ingress: str, trace: list[str], extra: bytes = b"", extra_n: int = 0
) -> bytes:
    """Router annotations as their definition has them: a described list in AMQP 1.0."""
    to = b"\x40" if to_override is None else b"\xb1" + u32(len(to_override)) + to_override.encode()
    names = amqp_list(b"".join(amqp_text(name) for name in trace), len(trace))
    items = bytes([0x50, flags]) + to + amqp_text(ingress) + names + extra
    return bytes.fromhex("0080 FFFFFFFF00002000") + amqp_list(items, 4 + extra_n)


def caller_mimes(metadata: str = scripts.COMPOSITE, data: str = "text/plain") -> bytes:
    """Which mime types the caller has, where a link has others."""
    return bytes([len(metadata)]) + metadata.encode() + bytes([len(data)]) + data.encode()


def ask(world: World) -> Wire:
    """A caller that has asked for orders."""
    wire = scripts.caller(world)
    wire.send(
        scripts.request(scripts.REQUEST_RESPONSE, 1, forwarding(address(scripts.U, (scripts.SERVICE_NAME, "orders"))))
    )
    return wire


def neighbours(*ids: bytes) -> list[AnyTag]:
    """The metadata that says so."""
    return [("neighbour", id + u16(10)) for id in ids]


def added(number: int, at_ms: int, name: str, *tags: AnyTag) -> bytes:
    """The ROUTE_ADD of the broker under test: all tags of the ROUTE_SETUP, and the two that every route has."""
    return scripts.route_add(
        number, at_ms, name, *tags, (scripts.SERVICE_NAME, name), (scripts.ROUTE_ID, scripts.uuid(number)), broker=OURS
    )
