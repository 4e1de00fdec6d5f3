"""A caller and several services with one multicast between them."""

from broker.core import CoreSettings
from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from broker.forwarding.multicast.window import PIECE_BYTES
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import NEXT, REQUEST_STREAM, encode_payload
from rsocket_wire.wire.frames import MULTICAST
from tests.fakes import Frame, Wire, World, address, addressed, framed, moved

ALL = address(MULTICAST, service="orders")
MIXED = [True, False, True, False]
HEAD_BYTES = 2 + PIECE_BYTES  # what a frame that waits costs beside its data: type, flags, and itself
ROUTES_N = MAX_BRANCHES_PER_TURN + 500  # a whole turn and a part of one


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


class Wide:
    """Many services, a caller, and turns that only the test takes."""

    def __init__(self, routes_n: int = ROUTES_N, settings: CoreSettings | None = None) -> None:
        self.world = World(settings)
        self.core = self.world.core
        self.services = [self.world.service("orders", number + 1) for number in range(routes_n)]
        self.other, self.caller = self.world.service("carts", 9999), self.world.caller()
        self.is_left = False

    def send(self, wire: Wire, *frames: bytes) -> None:
        """In one piece; no turn passes."""
        self.is_left = self.core.receive(wire.peer, framed(*frames), self.world.now)
        self.carry()

    def turn(self) -> None:
        self.core.work(self.world.now)
        if self.is_left:
            self.is_left = self.core.go_on(self.caller.peer, self.world.now)
        self.carry()

    def finish(self) -> None:
        """All turns that are left."""
        while self.core.has_work():
            self.turn()

    def carry(self) -> None:
        for peer in self.core.take_writes():
            self.world.wires[peer.id].take(peer.take_output(), peer.is_ending)

    def ask(self, kind: int, flags: int = 0, n: int = 8) -> None:
        self.send(self.caller, frames.encode_request(kind, 1, b"hi", addressed(ALL), n, flags))

    def asked_n(self) -> int:
        """Services that have got something so far."""
        return len([service for service in self.services if service.frames])
