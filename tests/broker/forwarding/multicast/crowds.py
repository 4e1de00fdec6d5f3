"""A caller and several services with one multicast between them."""

from __future__ import annotations

from broker.core import CoreSettings
from broker.forwarding.multicast.window import PIECE_BYTES
from rsocket_wire.rsocket.frames import NEXT, REQUEST_STREAM, encode_payload
from rsocket_wire.wire.frames import MULTICAST
from tests.fakes import Frame, World, address, moved

ALL = address(MULTICAST, service="orders")
MIXED = [True, False, True, False]
HEAD_BYTES = 2 + PIECE_BYTES  # what a frame that waits costs beside its data: type, flags, and itself


class Crowd:
    """One caller and some services; at each service the request is stream 2."""

    def __init__(self, size: int = 3, settings: CoreSettings | None = None, framed: bool = True) -> None:
        self.world = World(settings)
        self.services = [self.world.service("orders", number + 1, framed=MIXED[number % 4]) for number in range(size)]
        self.caller = self.world.caller(framed)

    def open(self, kind: int, n: int = 8, flags: int = 0) -> bytes:
        """Sends the request on stream 1 and takes it from the services; the frame that was sent."""
        raw = self.caller.request(kind, 1, ALL, b"hi", n, flags)
        for service in self.services:
            service.received()
        return raw

    def received(self) -> list[list[Frame]]:
        """What arrived at each service."""
        return [service.received() for service in self.services]


def asked_of(raw: bytes, n: int) -> Frame:
    """The request as a branch sees it that is asked for `n` items first; other models say no N."""
    return moved(raw[:6] + n.to_bytes(4, "big") + raw[10:] if raw[4] >> 2 >= REQUEST_STREAM else raw, 2)


def items(*texts: bytes, stream_id: int = 1) -> list[Frame]:
    return [Frame(encode_payload(stream_id, NEXT, text)) for text in texts]
