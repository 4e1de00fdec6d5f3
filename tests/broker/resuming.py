"""Clients that come back to their session on another wire, as tests of resumption need them."""

from broker.core import CoreSettings
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE, Resume, encode_request, encode_resume_ok, has_position
from tests import fakes
from tests.fakes import Frame, Wire, World, address, addressed, announcement

ORDERS = address(service="orders")
NO_SESSION = "unknown-session: there is no session to resume, connect again with a SETUP"


def setup(token: bytes, service: str = "", number: int = 0) -> bytes:
    """A SETUP that asks for a session, with a route when it has a service."""
    return fakes.setup(announcement(number, service) if service else None, token=token)


class Client:
    """A peer that resumes: what it sent and got, on whatever wire, and where it stands."""

    def __init__(
        self,
        world: World,
        token: bytes,
        service: str = "",
        number: int = 0,
        framed: bool = True,
        origin: tuple[str, str] = ("", ""),
    ) -> None:
        self.world = world
        self.token = token
        self.wire = world.connect(framed, origin=origin)
        self.wire.send(setup(token, service, number))
        self.sent: list[bytes] = []  # frames with a position, all that it ever sent
        self.arrived_n = 0  # of them, that the broker has seen
        self.got: list[Frame] = []  # all frames, without those that are about the connection
        self.position = 0

    def send(self, *frames: bytes) -> None:
        """Sends frames with a position, or keeps them for later."""
        for raw in frames:
            self.sent.append(raw)
            if not self.wire.is_lost:
                self.arrived_n += 1
                self.wire.send(raw)

    def take(self, count: int = -1) -> list[Frame]:
        """Reads so many of the frames that came, -1: all. Those that are left will be lost with the wire."""
        frames = self.wire.received()
        if count >= 0:
            self.wire.frames = frames[count:]
            frames = frames[:count]
        for frame in frames:
            if frame.stream_id and has_position(frame.kind):
                self.position += len(frame.raw)
        self.got += [frame for frame in frames if frame.stream_id]
        return frames

    def resume(self, framed: bool = True, origin: tuple[str, str] = ("", "")) -> list[Frame]:
        """Comes back on a new wire; what the broker says to that: RESUME_OK, and what was missed."""
        self.wire = self.world.connect(framed, f"tcp 127.0.0.1:{len(self.world.wires) + 1}", origin)
        self.wire.send(Resume(self.token, self.position, 0).encode())
        frames = self.take()
        if frames and frames[0].kind == 0x0E:
            at = int.from_bytes(frames[0].data, "big")
            behind = [raw for place, raw in zip(self.places(), self.sent, strict=True) if place >= at]
            self.arrived_n = len(self.sent)
            self.wire.send(*behind)
        return frames

    def places(self) -> list[int]:
        """Where each frame that it sent begins."""
        return [sum(map(len, self.sent[:at])) for at in range(len(self.sent))]


def calling(settings: CoreSettings | None = None) -> tuple[World, Wire, Client]:
    """A broker, its service `orders`, and a caller that resumes."""
    world = World(settings)
    return world, world.service("orders", 1), Client(world, b"c")


def serving(settings: CoreSettings | None = None) -> tuple[World, Client, Wire]:
    """A broker, its service `orders`, which resumes, and a caller."""
    world = World(settings)
    return world, Client(world, b"s", "orders", 1), world.caller()


def resumed(position: int) -> Frame:
    return Frame(encode_resume_ok(position))


def request(stream_id: int, data: bytes = b"hi", kind: int = REQUEST_RESPONSE, n: int = 8) -> bytes:
    return encode_request(kind, stream_id, data, addressed(ORDERS), n)


def closed(world: World) -> list[str]:
    """Reasons of the connections that have ended."""
    return [each.reason for each in world.core.lifecycle.limits.closed.latest]


def event_names(world: World) -> list[tuple[str, str]]:
    return [(event.name, event.reason) for event in world.events()]
