"""Destinations and a caller around one broker, for the sections about requests."""

from broker.core import CoreSettings
from tests.conformance import scripts
from tests.conformance.scripts import SERVICE_NAME, U, address, caller, carried, destination, heard, request, u32
from tests.fakes import Wire, World

ORDERS = address(U, (SERVICE_NAME, "orders"))
ALL = address(scripts.M, (SERVICE_NAME, "orders"))


class Stage:
    """Some destinations of "orders" and a caller."""

    def __init__(self, count: int = 1, settings: CoreSettings | None = None, mime: str = scripts.COMPOSITE) -> None:
        self.world = World(settings)
        self.mime = mime
        self.orders = [destination(self.world, number + 1, "orders", mime=mime) for number in range(count)]
        self.caller = caller(self.world, mime)

    def ask(self, kind: int, stream_id: int = 1, raw: bytes = ORDERS, data: bytes = b"data", n: int = 8) -> bytes:
        """Sends a request; the frame that was sent."""
        sent = request(kind, stream_id, carried(self.mime, raw), data, n)
        self.caller.send(sent)
        return sent

    def heard(self) -> list[list[bytes]]:
        """What each destination has heard since the last call."""
        return [heard(wire) for wire in self.orders]


def served(wires: list[Wire]) -> list[int]:
    return [len(heard(wire)) for wire in wires]


def capped(raw: bytes, n: int) -> bytes:
    """A REQUEST_STREAM or REQUEST_CHANNEL with another initial credit; other requests as they are."""
    return raw[:6] + u32(n) + raw[10:] if raw[4] >> 2 >= scripts.REQUEST_STREAM else raw
