"""Brokers remember the latest request of a link, and what stood in front of a route's latest one: nobody may notice."""

from collections.abc import Callable

import pytest

from broker.core import CoreSettings
from broker.routing.health.leases import Lease
from broker.routing.policies import Policy
from broker.routing.table import Route
from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.annotations import STREAMING
from rsocket_wire.wire.frames import MIME_TYPE, Address
from tests.broker.forwarding.brokers import DATA_MIME, Broker, annotated, apart, caller_mimes, section, to_route
from tests.fakes import Wire, address, addressed, composite, error, route_id, tags_of

REST = addressed(address(service="orders"), ("text/plain", b"more"))
HEAD = annotated(section(to_route(7), "b1"))
OF_LINKS, OTHERS = (COMPOSITE_MIME, DATA_MIME), (MIME_TYPE, "text/plain")  # mime types
Outcome = list[tuple[str, int, int, bytes | None, bytes]]


class Last:
    """b2 with route 7, a link to b1 on which it comes, and another service with route 8."""

    def __init__(self, warm: bytes) -> None:
        """`warm`: what the request before begins with; empty: there was none."""
        self.broker = Broker("b2", CoreSettings(policy=Policy(max_in_flight_per_route=2)))
        self.service = self.broker.service("orders", 7, data_mime=DATA_MIME)
        self.other = self.broker.service("orders", 8, data_mime=DATA_MIME)
        self.link = self.broker.link("b1")
        self.newcomers: list[Wire] = []
        if warm:
            self.link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"warm", warm + REST))
            self.service.answer(self.service.one().stream_id, b"")
            self.link.one()

    @property
    def route(self) -> Route:
        [route] = [one for one in self.broker.core.table.routes() if one.id[-1] == 7]
        return route

    def outcome(self, raw: bytes) -> Outcome:
        """What all of them get because of the link's request, but for stream ids."""
        self.link.send(raw)
        return [
            (wire.peer.name, frame.kind, frame.flags, frame.metadata, frame.data)
            for wire in [self.service, self.other, *self.newcomers, self.link]
            for frame in wire.received()
        ]

    def lease(self, requests_n: int) -> None:
        """Route 7 has granted so many requests."""
        self.route.load.lease = lease = Lease(self.broker.core.table.masks)
        lease.join(self.route.slot)
        if requests_n:
            lease.grant(requests_n, 5.0, self.broker.now)

    def come_back(self, service: str = "orders", mimes: tuple[str, str] = OF_LINKS) -> None:
        """Route 7 goes, and comes on another connection."""
        self.service.lose()
        self.newcomers.append(self.broker.service(service, 7, True, *mimes))

    def come_back_and_serve(self) -> None:
        """With other mime types, and callers with and without those have asked already."""
        self.come_back(mimes=OTHERS)
        for stream_id, mimes in ((11, ("", "text/plain")), (13, (COMPOSITE_MIME, "a/b"))):
            metadata = HEAD + composite(caller_mimes(*mimes)) + REST
            self.link.send(frames.encode_request(REQUEST_FNF, stream_id, b"", metadata))
        assert len(self.newcomers[0].received()) == 1


CHANGES: dict[str, Callable[[Last], None]] = {
    "nothing": lambda last: None,
    "its lease is spent": lambda last: last.lease(0),
    "its lease is there": lambda last: last.lease(3),
    "much waits": lambda last: last.service.fill(last.service.peer.settings.max_pending_bytes // 2),
    "it is gone": lambda last: last.service.lose(),
    "it came back": Last.come_back,
    "it came back with other mime types": lambda last: last.come_back(mimes=OTHERS),
    "it came back with other mime types and serves": Last.come_back_and_serve,
    "it came back as another service": lambda last: last.come_back("stock"),
    "it has another name": lambda last: last.service.announce(7, "stock"),
    "it has more tags": lambda last: last.service.announce(7, "orders", region="eu"),
    "another route joins": lambda last: last.newcomers.append(last.broker.service("orders", 9, True, *OF_LINKS)),
    "the broker is called b1": lambda last: last.broker.annotations.rename("b1"),
    "requests are redirected": lambda last: last.broker.core.query.set_redirects({"orders": "stock"}),
}
KINDS = [REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_request_like_the_latest_is_dealt_with_as_if_it_were_the_first(change: str, kind: int) -> None:
    raw = frames.encode_request(kind, 21, b"data", HEAD + REST, 8)
    found = []
    for last in (Last(HEAD), Last(b"")):
        CHANGES[change](last)
        found.append(last.outcome(raw))
    assert found[0] == found[1]
    assert found[0] or kind == REQUEST_FNF  # of which nobody could be told


@pytest.mark.parametrize(
    "metadata",
    [
        HEAD + addressed(address(service="orders")),
        HEAD + addressed(address(service="stock"), ("text/plain", b"more")),
        HEAD + addressed(address(service="orders", region="eu"), ("text/plain", b"more")),
        HEAD + addressed(address(service="orders"), ("text/plain", b"other")),
        HEAD + addressed(address(0x200, service="orders"), ("text/plain", b"more")),
        HEAD + composite(("text/plain", b"more")) + REST,
        HEAD + addressed(Address(route_id(5), tags_of({"service": "orders"})).encode()),
        HEAD + REST[:-13],
        HEAD + REST[:50],
        HEAD,
        HEAD[:-1],
        HEAD[:60],
        HEAD[:20],
        REST,
        HEAD + composite(caller_mimes(COMPOSITE_MIME, "text/plain")) + REST,
        HEAD + composite(caller_mimes(COMPOSITE_MIME, DATA_MIME)) + REST,
        HEAD + composite(caller_mimes("", "text/plain")) + REST,
        HEAD + composite(caller_mimes(COMPOSITE_MIME, DATA_MIME))[:50],
        HEAD + composite(caller_mimes(COMPOSITE_MIME, DATA_MIME), caller_mimes("", "c/d")) + REST,
        annotated(section(to_route(8), "b1")) + REST,
        annotated(section(to_route(7), "b3")) + REST,
        annotated(section(to_route(7), "b1", flags=STREAMING)) + REST,
        annotated(section(to_route(7), "b0", "b1")) + REST,
        annotated(section(None, "b1")) + REST,
    ],
)
@pytest.mark.parametrize("flags", [0, FOLLOWS])
@pytest.mark.parametrize("warm", [HEAD, HEAD + composite(caller_mimes(COMPOSITE_MIME, DATA_MIME))])
def test_what_begins_otherwise_than_the_latest_is_read_anew(warm: bytes, flags: int, metadata: bytes) -> None:
    for data in (b"", b"data", HEAD[-1:] + b"data"):
        raw = frames.encode_request(REQUEST_CHANNEL, 21, data, metadata, 8, flags | frames.COMPLETE)
        assert Last(warm).outcome(raw) == Last(b"").outcome(raw)


def test_a_link_that_has_as_many_streams_as_it_may_gets_no_more_of_the_same() -> None:
    last = Last(HEAD)
    last.link.peer.max_streams = 1
    for number in (21, 23):
        last.link.send(frames.encode_request(REQUEST_STREAM, number, b"", HEAD + REST, 8))
    text = "over-limit: 1 streams of this connection are open, the limit of a link is 1"
    assert (len(last.service.received()), last.link.received()) == (1, [error(23, REJECTED, text)])


def test_what_came_over_two_links_is_counted_so_each_time() -> None:
    last = Last(b"")
    far = annotated(section(to_route(7), "b0", "b1"))
    for number in (21, 23, 25):
        last.link.send(frames.encode_request(REQUEST_STREAM, number, b"", far + REST, 8))
    assert last.broker.annotations.hop_counts == [0, 0, 3]


def test_a_link_is_not_taken_for_the_client_whose_annotations_were_the_latest() -> None:
    """The client has the mime types of the service, the link has its own."""
    found: list[list[tuple[bytes | None, bytes]]] = []
    for is_asked in (False, True):
        broker = Broker("b2", CoreSettings(annotations_from_clients="accept"))
        service, link, client = broker.service("orders", 7), broker.link("b1"), broker.caller()
        if is_asked:
            client.send(frames.encode_request(REQUEST_RESPONSE, 1, b"warm", HEAD + REST))
            assert service.one().metadata == REST
        link.send(frames.encode_request(REQUEST_RESPONSE, 21, b"data", HEAD + REST))
        found.append([(frame.metadata, frame.data) for frame in service.received()])
    assert found[0] == found[1] != [(REST, b"data")]
    assert len(found[0]) == 1


def test_a_route_that_has_as_many_as_it_may_gets_no_more_of_the_same() -> None:
    last = Last(b"")
    for number in (21, 23, 25):
        last.link.send(frames.encode_request(REQUEST_RESPONSE, number, b"", HEAD + REST))
    text = f"over-limit: the route {to_route(7)[6:]} has 2 requests in flight, protection.max_in_flight_per_route is 2"
    assert (len(last.service.received()), last.link.received()) == (2, [error(25, REJECTED, text)])


def test_the_latest_are_counted_like_the_first() -> None:
    last = Last(HEAD)
    for number in (21, 23):
        last.link.send(frames.encode_request(REQUEST_STREAM, number, b"", HEAD + REST, 8))
    path = last.broker.annotations.paths["b1>b2"]
    counts = (path.requests, last.broker.annotations.hop_counts, last.route.load.requests, last.link.peer.requests)
    assert counts == (3, [0, 3], 3, 3)


def test_what_stands_in_front_of_a_request_is_its_own_whoever_sent_the_latest_to_that_route() -> None:
    """D-49: who else asks, and for what, changes nothing; nor does a name that the broker had before."""
    broker = Broker("b1")
    link = broker.link("b2")
    broker.far(broker.remote("b2", link), "orders", 7)
    broker.far(broker.remote("b2", link), "stock", 8)
    plain, text = broker.caller(data_mime=DATA_MIME), broker.caller(data_mime="text/plain")
    found: list[tuple[str | None, str, bool, int]] = []
    stream_id = 1
    for name in ("b1", "b1", "b5"):
        broker.annotations.rename(name)
        for caller in (plain, text):
            for kind in (REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_RESPONSE):
                for service in ("orders", "stock"):
                    caller.request(kind, stream_id, address(service=service))
                    said, rest = apart(link.one())
                    found.append((said.to_override, said.ingress, said.flags == STREAMING, len(rest)))
                    stream_id += 2
    expected = [
        (to_route(number), name, kind == REQUEST_STREAM, entries_n)
        for name in ("b1", "b1", "b5")
        for entries_n in (1, 2)
        for kind in (REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_RESPONSE)
        for number in (7, 8)
    ]
    assert found == expected
