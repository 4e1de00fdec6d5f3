"""A caller and a service with one request between them: what most tests of forwarding begin with."""

from broker.core import CoreSettings
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from tests.fakes import Frame, Wire, World, address

MODELS = [REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL]
ANSWERED = [REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_CHANNEL]
TRANSPORTS = [(True, True), (True, False), (False, True), (False, False)]


def end(caller: Wire, how: str, stream_id: int = 1) -> None:
    """The caller ends a request: by a "cancel", the "loss" of its connection, an "error" of its own."""
    if how == "cancel":
        caller.cancel(stream_id)
    elif how == "loss":
        caller.lose()
    else:
        caller.fail(stream_id, 0x201, "of the caller")


class Pair:
    """`caller` opens stream 1; at `service` it is stream 2."""

    def __init__(
        self, caller_framed: bool = True, service_framed: bool = True, settings: CoreSettings | None = None
    ) -> None:
        self.world = World(settings)
        self.service = self.world.service("orders", 1, framed=service_framed)
        self.caller = self.world.caller(framed=caller_framed)

    def open(self, kind: int, data: bytes = b"hi", n: int = 8, flags: int = 0) -> bytes:
        """Sends the request on stream 1 and takes it from the service; the frame that was sent."""
        raw = self.caller.request(kind, 1, address(service="orders"), data, n, flags)
        self.service.received()
        return raw

    def received(self) -> tuple[list[Frame], list[Frame]]:
        """What arrived at the caller and at the service since the last call."""
        return self.caller.received(), self.service.received()

    @property
    def is_open(self) -> bool:
        """The stream is in both tables; it is never in one only."""
        in_caller = 1 in self.caller.peer.streams
        assert in_caller == (2 in self.service.peer.streams)
        return in_caller
