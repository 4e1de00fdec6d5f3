"""How a request of another broker goes on: to a route of this one, or to the next hop (D-49)."""

import pytest

from broker.core import CoreSettings
from broker.forwarding.interbroker.delivery import MAX_CALLER_MIMES
from broker.routing.health.leases import Lease
from broker.routing.policies import Policy
from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, STREAM_DATA_MIME_ID, encode_well_known_entry
from rsocket_wire.rsocket.mimes import encode_mime
from rsocket_wire.wire.frames import MIME_TYPE
from rsocket_wire.wire.ids import id_text
from tests.broker.forwarding import brokers
from tests.broker.forwarding.brokers import ORDERS, REST, TO, Broker, annotated, decided, last, section
from tests.fakes import Wire, address, addressed, announcement, composite, error, moved, route_id


def test_fragments_are_never_gathered_on_the_way() -> None:
    middle = brokers.Middle()
    first = frames.encode_request(
        REQUEST_RESPONSE, 1, b"", annotated(section(TO, "b1", flags=1)) + REST[:9], 0, FOLLOWS
    )
    middle.before.send(first)
    expected = annotated(section(TO, "b1", "b2", flags=1)) + REST[:9]
    assert middle.behind.one() == moved(frames.encode_request(REQUEST_RESPONSE, 1, b"", expected, 0, FOLLOWS), 2)
    second = frames.encode_payload(1, NEXT, b"data", REST[9:])
    middle.before.send(second)
    assert middle.behind.one() == moved(second, 2)


def test_a_section_that_is_cut_by_fragments_is_awaited() -> None:
    middle = brokers.Middle()
    metadata = annotated(section(TO, "b1")) + REST
    middle.before.send(frames.encode_request(REQUEST_STREAM, 1, b"", metadata[:50], 4, FOLLOWS))
    assert (middle.behind.received(), middle.before.received()) == ([], [])
    middle.before.send(frames.encode_payload(1, NEXT, b"data", metadata[50:]))
    expected = annotated(section(TO, "b1", "b2")) + REST
    assert middle.behind.one() == moved(frames.encode_request(REQUEST_STREAM, 1, b"data", expected, 4), 2)
    assert middle.before.peer.gathered_bytes == 0


def test_a_route_without_a_lease_left_refuses_what_others_decided() -> None:
    """D-50."""
    broker, service, link = last()
    route = broker.core.table.routes()[0]
    route.load.lease = Lease(broker.core.table.masks)
    route.load.lease.join(route.slot)
    link.send(decided(1))
    text = f"no-lease: the route {route.id_text} has no lease left"
    assert (link.received(), service.received()) == ([error(1, REJECTED, text)], [])


def test_too_much_that_waits_for_a_route_is_refused_to_other_brokers() -> None:
    """D-50: a link is read from always, so a slow service must not be fed by it without end."""
    _, service, link = last(CoreSettings(max_pending_bytes=1000))
    service.fill(480)
    link.send(decided(1, REQUEST_FNF))
    waits = service.peer.pending_bytes
    link.send(decided(3))
    limit = "the limit for requests of other brokers is 500 (half of limits.max_pending_bytes)"
    text = f"over-limit: {waits} bytes wait for the route {id_text(route_id(7))}, {limit}"
    assert link.received() == [error(3, REJECTED, text)]
    service.unblock()
    assert [frame.kind for frame in service.received()] == [frames.CANCEL, REQUEST_FNF]


def test_a_route_with_as_many_requests_as_it_may_have_refuses_one_more() -> None:
    _, service, link = last(CoreSettings(policy=Policy(max_in_flight_per_route=1)))
    for number in (1, 3):
        link.send(decided(number))
    text = f"over-limit: the route {TO[6:]} has 1 requests in flight, protection.max_in_flight_per_route is 1"
    assert (link.received(), len(service.received())) == ([error(3, REJECTED, text)], 1)


def ask_over(link: Wire, first: int, count: int) -> list[str]:
    """So many requests for route 7 over a link; what it is told."""
    for number in range(first, first + 2 * count, 2):
        link.send(decided(number))
    return [frame.text for frame in link.received()]


@pytest.mark.parametrize("limit", [8, 200])
def test_a_link_is_one_caller_among_others_where_places_are_shared(limit: int) -> None:
    """D-68: who asks behind it is known to the broker where they are connected, and shared there."""
    broker = Broker("b2", CoreSettings(policy=Policy(max_in_flight_per_route=limit)))
    service, link, other = broker.service("orders", 7), broker.link("b1"), broker.caller()
    assert ask_over(link, 1, limit) == []
    other.request(REQUEST_RESPONSE, 1, ORDERS)
    assert other.one().text.startswith("over-limit: of 1 routes")
    for number in (2, 4):
        service.answer(number, b"")
    link.received()
    text = f"over-limit: {limit - 2} requests of this connection are in flight at a route of orders: "
    text += f"protection.max_in_flight_per_route is {limit}, of which a caller gets at most half while others compete"
    assert ask_over(link, 9_001, 1) == [text]
    for number in (3, 5):
        other.request(REQUEST_RESPONSE, number, ORDERS)
    assert other.received() == []
    for stream_id in list(service.peer.streams)[: limit // 2 - 1]:
        service.answer(stream_id, b"")
    link.received()
    assert ask_over(link, 9_003, 2) == [text.replace(f"{limit - 2} ", f"{limit // 2} ", 1)]


def test_callers_at_other_brokers_have_as_many_mime_types_as_they_like() -> None:
    """D-16 holds for each; those that come again are known, or read again."""
    broker, service, link = last(data_mime="text/html")
    mimes = [f"application/x-{number}" for number in range(MAX_CALLER_MIMES + 2)]
    for number, mime in enumerate([*mimes, mimes[0], mimes[-1], "text/html", "text/html", mimes[7], "text/html"]):
        said = annotated(section(brokers.to_route(7), "b1"), brokers.caller_mimes(COMPOSITE_MIME, mime))
        link.send(frames.encode_request(REQUEST_FNF, 2 * number + 1, b"", said + addressed(ORDERS)))
        more = encode_well_known_entry(STREAM_DATA_MIME_ID, encode_mime(mime)) if mime != "text/html" else b""
        assert service.one().metadata == addressed(ORDERS) + more
    assert len(broker.core.engine.mimes) <= MAX_CALLER_MIMES + 2
    newcomer = broker.caller(data_mime="application/x-new")
    assert (newcomer.is_closed, broker.left_over()) == (False, [])


def test_what_is_remembered_of_a_caller_is_void_when_its_mime_types_are_forgotten() -> None:
    broker = Broker("b2")
    link = broker.link("b1")
    services = [broker.service("orders", number, data_mime="text/html") for number in (7, 8)]
    mimes = ["application/x", *(f"application/x-{number}" for number in range(MAX_CALLER_MIMES)), "application/x"]
    for number, mime in enumerate(mimes):
        service_at = 0 if mime == "application/x" else 1
        said = annotated(section(brokers.to_route(7 + service_at), "b1"), brokers.caller_mimes(COMPOSITE_MIME, mime))
        link.send(frames.encode_request(REQUEST_FNF, 2 * number + 1, b"", said + addressed(ORDERS)))
        more = encode_well_known_entry(STREAM_DATA_MIME_ID, encode_mime(mime))
        assert services[service_at].one().metadata == addressed(ORDERS) + more


def test_the_route_that_was_chosen_gets_it_and_no_other_that_matches() -> None:
    broker = Broker("b2")
    other, service = broker.service("orders", 6), broker.service("orders", 7, data_mime=brokers.DATA_MIME)
    link = broker.link("b1")
    for number in (1, 3, 5):
        link.send(frames.encode_request(REQUEST_FNF, number, b"", annotated(section(TO, "b1")) + brokers.PLAIN))
    assert (len(service.received()), other.received()) == (3, [])


def test_without_annotations_nothing_is_said_of_mime_types() -> None:
    broker = Broker("b2", CoreSettings(require_annotations=False))
    link = broker.link("b1", version=0)
    service = broker.service("orders", 7, data_mime=brokers.DATA_MIME)
    metadata = composite(brokers.caller_mimes("a/b", "c/d")) + addressed(address(service="orders"))
    link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", metadata))
    assert [frame.metadata for frame in service.received()] == [metadata]


def test_what_is_no_address_is_refused_where_it_would_have_to_be_translated() -> None:
    _, service, link = last(metadata_mime=MIME_TYPE)
    raw = annotated(section(brokers.to_route(7), "b1")) + announcement(9, "orders")
    link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", raw))
    text = "bad-address: the request carries a broker frame that is no ADDRESS"
    assert (link.received(), service.received()) == ([error(1, INVALID, text)], [])
