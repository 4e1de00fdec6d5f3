"""Brokers remember the latest request of a link, and what stood in front of a route's latest one: nobody may notice.

Whatever else comes, and whatever changes in between, is compared in `tests.fuzz.test_remembered`.
"""

from broker.core import CoreSettings
from broker.routing.policies import Policy
from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.annotations import STREAMING
from tests.broker.forwarding.brokers import DATA_MIME, Broker, annotated, apart, section, to_route
from tests.fakes import address, addressed, error

REST = addressed(address(service="orders"), ("text/plain", b"more"))
HEAD = annotated(section(to_route(7), "b1"))


class Last:
    """b2 with route 7, a link to b1 on which it comes, and another service with route 8."""

    def __init__(self, warm: bytes) -> None:
        """`warm`: what the request before begins with; empty: there was none."""
        self.broker = Broker("b2", CoreSettings(policy=Policy(max_in_flight_per_route=2)))
        self.service = self.broker.service("orders", 7, data_mime=DATA_MIME)
        self.other = self.broker.service("orders", 8, data_mime=DATA_MIME)
        self.link = self.broker.link("b1")
        if warm:
            self.link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"warm", warm + REST))
            self.service.answer(self.service.one().stream_id, b"")
            self.link.one()


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
    path, route = last.broker.annotations.paths["b1>b2"], last.broker.core.table.routes()[0]
    counts = (path.requests, last.broker.annotations.hop_counts, route.load.requests, last.link.peer.requests)
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
