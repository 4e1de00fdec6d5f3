"""A broker between others, made by hand: links, routes of other brokers, and sections as they stand on a link."""

from broker.core import CoreSettings
from broker.forwarding.interbroker.link import Link
from broker.forwarding.interbroker.remote import Remote
from broker.routing.table import Route
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE, Setup
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, entries
from rsocket_wire.wire.annotations import ANNOTATIONS_MIME, Annotations, decode_annotations
from tests.fakes import Frame, Wire, World, address, addressed, composite, route_id, tags_of

SECTION = ANNOTATIONS_MIME.decode()
CALLER_MIMES = "message/x.rsocket.broker.caller-mimes.v0"
DATA_MIME = "application/octet-stream"


class Broker(World):
    """The broker `name`; what it knows of others, a test says."""

    def __init__(self, name: str = "b1", settings: CoreSettings | None = None) -> None:
        super().__init__(settings)
        self.annotations = self.core.engine.annotations
        self.annotations.rename(name)
        self.annotations.brokers_n = 4

    def link(self, name: str, version: int = 1) -> Wire:
        """A link to the broker `name`."""
        wire = self.connect(name=f"tcp {name}")
        wire.send(Setup(COMPOSITE_MIME, DATA_MIME, 1000, 3000).encode())
        wire.peer.link = Link(broker_id(name), name, version)
        return wire

    def remote(self, name: str, via: Wire | None) -> Remote:
        """Another broker, reached over that link."""
        remote = Remote(broker_id(name), name, via.peer if via is not None else None)
        self.annotations.remotes[name] = remote
        return remote

    def far(self, remote: Remote, service: str, number: int, **tags: str | None) -> Route:
        """A route that another broker has."""
        route = Route(route_id(number), service, tags_of(tags), remote)
        self.core.table.join(route, self.at_ms, self.now)
        masks = self.core.table.masks
        masks.put(masks.remote, route.slot)
        masks.put(masks.elsewhere, route.slot)
        return route

    def refusals(self) -> dict[str, int]:
        return self.annotations.refused


def ingress(settings: CoreSettings | None = None, version: int = 1) -> tuple[Broker, Wire]:
    """b1, and its link to b2, which has route 7 of `orders`."""
    broker = Broker("b1", settings)
    link = broker.link("b2", version=version)
    broker.far(broker.remote("b2", link), "orders", 7)
    return broker, link


def last(
    settings: CoreSettings | None = None, metadata_mime: str = COMPOSITE_MIME, data_mime: str = "text/plain"
) -> tuple[Broker, Wire, Wire]:
    """b2, its service that is route 7 of `orders`, and its link to b1."""
    broker = Broker("b2", settings)
    return broker, broker.service("orders", 7, True, metadata_mime, data_mime), broker.link("b1")


def broker_id(name: str) -> bytes:
    """The id of a broker that a test names."""
    return name.encode().ljust(16, b".")


def to_route(number: int) -> str:
    """The to-override that means a route."""
    return f"route:00000000-0000-0000-0000-{number:012x}"


def section(
    to: str | None, *trace: str, ingress: str = "", flags: int = 0, extra: bytes = b"", extra_n: int = 0
) -> bytes:
    """The bytes of a section; the ingress is the first of the trace unless it is said."""
    return Annotations(flags, to, ingress or trace[0], list(trace), extra, extra_n).encode()


def annotated(raw: bytes, *rest: tuple[str, bytes]) -> bytes:
    """Composite metadata of a section and entries behind it."""
    return composite((SECTION, raw), *rest)


def caller_mimes(metadata_mime: str, data_mime: str) -> tuple[str, bytes]:
    """The entry that says the caller's mime types."""
    raw = b"".join(bytes([len(mime)]) + mime.encode() for mime in (metadata_mime, data_mime))
    return CALLER_MIMES, raw


def apart(frame: Frame) -> tuple[Annotations, list[tuple[str, bytes]]]:
    """The section of a request on a link, and the entries behind it."""
    metadata = frame.metadata
    assert metadata is not None
    found = entries(metadata)
    assert found is not None
    assert found[0].mime == ANNOTATIONS_MIME
    rest = [(entry.mime.decode(), metadata[entry.start : entry.end]) for entry in found[1:]]
    return decode_annotations(metadata[found[0].start : found[0].end]), rest


ORDERS = address(service="orders")
PLAIN = addressed(ORDERS, ("text/plain", b"more"))  # metadata as a client sends it
REST = composite(caller_mimes("a/b", "c/d")) + PLAIN  # as it stands behind the section on a link
TO = to_route(7)


def decided(stream_id: int, kind: int = REQUEST_RESPONSE) -> bytes:
    """A request for route 7, as it comes from b1."""
    return frames.encode_request(kind, stream_id, b"", annotated(section(TO, "b1")) + REST)


class Middle:
    """b2 between b1 and b3, which has the route 7 of `orders`."""

    def __init__(self, settings: CoreSettings | None = None) -> None:
        self.broker = Broker("b2", settings)
        self.before = self.broker.link("b1")
        self.behind = self.broker.link("b3")
        self.route = self.broker.far(self.broker.remote("b3", self.behind), "orders", 7)

    def ask(self, raw: bytes, kind: int = REQUEST_RESPONSE, stream_id: int = 1, rest: bytes = REST) -> list[Frame]:
        """A request with this section comes from b1; what b1 gets at once."""
        self.before.send(frames.encode_request(kind, stream_id, b"data", annotated(raw) + rest, 8))
        return self.before.received()
