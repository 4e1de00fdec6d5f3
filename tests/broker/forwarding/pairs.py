"""A caller and a service with one request between them: what most tests of forwarding begin with."""

from broker.core import CoreSettings
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from tests.fakes import Frame, Wire, World, address, addressed

MODELS = [REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL]
ANSWERED = [REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_CHANNEL]
TRANSPORTS = [(True, True), (True, False), (False, True), (False, False)]

ADDRESS = address(service="orders", region="eu")  # of the service of a `Pair`
COMPOSITE = addressed(ADDRESS, ("text/plain", b"for the service"))


def end(caller: Wire, how: str, stream_id: int = 1) -> None:
    """The caller ends a request: by a "cancel", the "loss" of its connection, an "error" of its own."""
    if how == "cancel":
        caller.cancel(stream_id)
    elif how == "loss":
        caller.lose()
    else:
        caller.fail(stream_id, 0x201, "of the caller")


class Pair:
    """`caller` opens stream 1; at `service` it is stream 2. The mime types are those of their metadata."""

    def __init__(
        self,
        caller_framed: bool = True,
        service_framed: bool = True,
        settings: CoreSettings | None = None,
        mime: str = COMPOSITE_MIME,
        service_mime: str = COMPOSITE_MIME,
    ) -> None:
        self.world = World(settings)
        self.service = self.world.service("orders", 1, service_framed, service_mime, region="eu")
        self.caller = self.world.caller(caller_framed, mime)

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
