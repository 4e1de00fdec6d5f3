"""Requests between brokers: what is stamped, checked, passed on and stripped (D-49)."""

from __future__ import annotations

import pytest

from broker.core import CoreSettings
from broker.forwarding.interbroker.delivery import MAX_CALLER_MIMES
from broker.routing.table import Route
from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, STREAM_DATA_MIME_ID, encode_well_known_entry
from rsocket_wire.rsocket.mimes import encode_mime
from rsocket_wire.wire.annotations import STREAMING, Annotations
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0, MULTICAST
from tests.broker.forwarding.brokers import (
    CALLER_MIMES,
    DATA_MIME,
    Broker,
    annotated,
    apart,
    caller_mimes,
    ingress,
    last,
    section,
    to_route,
)
from tests.fakes import Frame, address, addressed, announcement, composite, error, fragments, moved, route_id
from tests.topology import LINKED_S, Net

ORDERS = address(service="orders")
REST = addressed(ORDERS, ("text/plain", b"more"))
UNICAST = to_route(7)


# Ingress


@pytest.mark.parametrize(
    ("metadata_mime", "data_mime"),
    [(COMPOSITE_MIME, "text/plain"), (MIME_TYPE, DATA_MIME), (MIME_TYPE_V0, "text/plain")],
)
def test_mime_types_that_links_do_not_have_are_said(metadata_mime: str, data_mime: str) -> None:
    """D-49: nothing is translated on the way."""
    broker, link = ingress()
    caller = broker.caller(metadata_mime=metadata_mime, data_mime=data_mime)
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    behind = MIME_TYPE if metadata_mime == COMPOSITE_MIME else metadata_mime
    assert apart(link.one())[1] == [caller_mimes(metadata_mime, data_mime), (behind, ORDERS)]


def test_what_is_said_of_mime_types_is_that_of_the_caller_when_others_have_come_and_gone() -> None:
    broker, link = ingress()
    for number in range(3):
        caller = broker.caller(data_mime=f"application/x-{number}")
        for stream_id in (1, 3):
            caller.request(REQUEST_FNF, stream_id, ORDERS)
            assert apart(link.one())[1][0] == caller_mimes(COMPOSITE_MIME, f"application/x-{number}")
        caller.lose()


def test_callers_at_other_brokers_have_as_many_mime_types_as_they_like() -> None:
    """D-16 holds for each; those that come again are known, or read again."""
    broker, service, link = last(data_mime="text/html")
    mimes = [f"application/x-{number}" for number in range(MAX_CALLER_MIMES + 2)]
    for number, mime in enumerate([*mimes, mimes[0], mimes[-1], "text/html", "text/html", mimes[7], "text/html"]):
        said = annotated(section(to_route(7), "b1"), caller_mimes(COMPOSITE_MIME, mime))
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
        said = annotated(section(to_route(7 + service_at), "b1"), caller_mimes(COMPOSITE_MIME, mime))
        link.send(frames.encode_request(REQUEST_FNF, 2 * number + 1, b"", said + addressed(ORDERS)))
        more = encode_well_known_entry(STREAM_DATA_MIME_ID, encode_mime(mime))
        assert services[service_at].one().metadata == addressed(ORDERS) + more


def test_a_redirect_stands_before_the_route() -> None:
    """D-55."""
    broker = Broker()
    link = broker.link("b2")
    broker.far(broker.remote("b2", link), "orders-next", 7)
    broker.core.query.set_redirects({"orders": "orders-next"})
    caller = broker.caller(data_mime=DATA_MIME)
    for number in (1, 3):
        caller.request(REQUEST_FNF, number, ORDERS)
        said, rest = apart(link.one())
        assert (said.to_override, rest) == (f"service:orders-next {UNICAST}", [(MIME_TYPE, ORDERS)])


@pytest.mark.parametrize("service", ["the orders", "orders ", "a b c", "route:x", "broker:b2"])
def test_a_redirect_to_a_name_with_spaces_arrives(service: str) -> None:
    """D-49: parts have a space between them, and a service's name may hold some."""
    net = Net(["b1", "b2"], [("b1", "b2")])
    net.advance(LINKED_S)
    there = net.worlds["b2"].service(service, 7)
    net.pump()
    for name in net.worlds:
        net.worlds[name].core.query.set_redirects({"orders": service})
    caller = net.worlds["b1"].caller()
    caller.request(REQUEST_FNF, 1, address(service="orders"))
    caller.request(REQUEST_FNF, 3, address(MULTICAST, service="orders"))
    net.pump()
    assert [frame.kind for frame in there.received()] == [REQUEST_FNF, REQUEST_FNF]


@pytest.mark.parametrize("cut", [20, len(REST) + 30])
def test_fragments_are_passed_on_as_they_come_wherever_the_metadata_is_cut(cut: int) -> None:
    """In the ADDRESS and behind it. D-69: another ADDRESS may come, so the first one waits for the rest."""
    broker, link = ingress()
    caller = broker.caller(data_mime=DATA_MIME)
    whole = REST + composite(("text/plain", b"x" * 50))
    caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", whole[:cut], 0, FOLLOWS))
    assert link.received() == []
    said = annotated(section(UNICAST, "b1", flags=STREAMING))
    stamped = frames.encode_request(REQUEST_RESPONSE, 1, b"", said + whole[:cut], 0, FOLLOWS)
    second = frames.encode_payload(1, FOLLOWS | NEXT, b"da", whole[cut:])
    third = frames.encode_payload(1, NEXT, b"ta")
    caller.send(second, third)
    assert link.received() == [moved(stamped, 2), moved(second, 2), moved(third, 2)]


def test_metadata_that_is_an_address_in_pieces_becomes_one_entry() -> None:
    broker, link = ingress()
    caller = broker.caller(metadata_mime=MIME_TYPE, data_mime=DATA_MIME)
    caller.send(frames.encode_request(REQUEST_STREAM, 1, b"", ORDERS[:9], 5, FOLLOWS))
    caller.send(frames.encode_payload(1, NEXT, b"data", ORDERS[9:]))
    said, rest = apart(link.one())
    assert said == Annotations(STREAMING, UNICAST, "b1", ["b1"])
    assert rest == [caller_mimes(MIME_TYPE, DATA_MIME), (MIME_TYPE, ORDERS)]


@pytest.mark.parametrize("no_route", ["reject", "wait"])
def test_without_a_way_to_its_broker_a_route_is_none_and_nobody_waits_for_it(no_route: str) -> None:
    broker = Broker("b1", CoreSettings(no_route=no_route))
    broker.far(broker.remote("b3", None), "orders", 7)
    caller = broker.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    text = "no-route: no path leads to the broker b3, which has the route"
    assert caller.received() == [error(1, REJECTED, text)]


def test_a_frame_that_would_be_longer_than_frames_can_be_is_refused() -> None:
    broker, link = ingress()
    caller = broker.caller(data_mime=DATA_MIME)
    said = annotated(section(UNICAST, "b1"))
    room = 0xFFFFFF - 9 - len(said) - len(REST)
    caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"x" * (room + 1), REST))
    size = 0xFFFFFF + 1
    text = f"too-large: the request would have {size} bytes with metadata that orders can read"
    assert (caller.received(), link.received()) == ([error(1, INVALID, text)], [])
    caller.send(frames.encode_request(REQUEST_RESPONSE, 3, b"x" * room, REST))
    assert len(link.one().raw) == 0xFFFFFF


def test_a_link_without_annotations_gets_requests_for_its_own_broker_only() -> None:
    """D-49: no loop could be seen."""
    broker, link = ingress(version=0)
    broker.far(broker.remote("b3", link), "stock", 8)
    caller = broker.caller(data_mime=DATA_MIME)
    raw = caller.request(REQUEST_RESPONSE, 1, ORDERS)
    assert link.received() == [moved(raw, 2)]
    caller.request(REQUEST_RESPONSE, 3, address(service="stock"))
    text = "no-route: no path leads to the broker b3, which has the route"
    assert (caller.received(), link.received()) == ([error(3, REJECTED, text)], [])


# The last hop


def test_the_route_that_was_chosen_gets_it_and_no_other_that_matches() -> None:
    broker = Broker("b2")
    other, service = broker.service("orders", 6), broker.service("orders", 7, data_mime=DATA_MIME)
    link = broker.link("b1")
    for number in (1, 3, 5):
        link.send(frames.encode_request(REQUEST_FNF, number, b"", annotated(section(UNICAST, "b1")) + REST))
    assert (len(service.received()), other.received()) == (3, [])


@pytest.mark.parametrize(
    ("caller", "metadata", "reader", "expected"),
    [
        ((COMPOSITE_MIME, "text/plain"), REST, (COMPOSITE_MIME, "text/plain"), REST),
        ((MIME_TYPE, "text/plain"), addressed(ORDERS), (MIME_TYPE, "text/plain"), ORDERS),
        ((MIME_TYPE_V0, "text/plain"), composite((MIME_TYPE_V0, ORDERS)), (MIME_TYPE, "text/plain"), ORDERS),
        ((MIME_TYPE, "text/plain"), addressed(ORDERS), (COMPOSITE_MIME, "text/plain"), addressed(ORDERS)),
        (("a/b", "text/plain"), addressed(ORDERS), (MIME_TYPE, "text/plain"), ORDERS),
        (
            (COMPOSITE_MIME, "text/plain"),
            REST,
            (MIME_TYPE, "text/plain"),
            address(wrapped=composite(("text/plain", b"more")), service="orders"),
        ),
        ((COMPOSITE_MIME, "text/plain"), REST, ("text/plain", "text/plain"), b"more"),
        ((COMPOSITE_MIME, "application/json"), REST, (COMPOSITE_MIME, DATA_MIME), REST + b"\xfa\x00\x00\x01\x85"),
    ],
)
def test_the_route_gets_what_it_would_get_of_a_caller_that_is_connected_there(
    caller: tuple[str, str], metadata: bytes, reader: tuple[str, str], expected: bytes
) -> None:
    """D-16, D-49."""
    broker = Broker("b2")
    metadata_mime, data_mime = reader
    if metadata_mime == "text/plain":  # such a connection cannot announce its route itself
        service = broker.caller(metadata_mime=metadata_mime, data_mime=data_mime)
        broker.core.table.join(Route(route_id(7), "orders", [], service.peer), broker.at_ms)
    else:
        service = broker.service("orders", 7, metadata_mime=metadata_mime, data_mime=data_mime)
    link = broker.link("b1")
    raw = annotated(section(UNICAST, "b1"), caller_mimes(*caller)) + metadata
    link.send(frames.encode_request(REQUEST_STREAM, 1, b"data", raw, 3))
    assert service.received() == [moved(frames.encode_request(REQUEST_STREAM, 1, b"data", expected, 3), 2)]


@pytest.mark.parametrize("size", [0, 1 << 20, (1 << 23) + 5])
@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("resumes", [True, False])
def test_requests_of_any_size_are_stripped_for_connections_of_all_kinds(size: int, framed: bool, resumes: bool) -> None:
    """D-49: what is written with other metadata is a whole frame, whatever carries it."""
    broker = Broker("b2", CoreSettings(resume_buffer_bytes=1 << 25))
    wire = broker.service("orders", 7, framed, data_mime=DATA_MIME, token=b"token" if resumes else None)
    link = broker.link("b1")
    for number, kind in ((1, REQUEST_FNF), (3, REQUEST_CHANNEL)):
        link.send(frames.encode_request(kind, number, b"x" * size, annotated(section(UNICAST, "b1")) + REST, 8))
    expected = [frames.encode_request(kind, 2, b"x" * size, REST, 8) for kind in (REQUEST_FNF, REQUEST_CHANNEL)]
    assert wire.received() == [Frame(expected[0]), moved(expected[1], 4)]


@pytest.mark.parametrize("is_multicast", [False, True])
@pytest.mark.parametrize("pair", [("a/b", "c/d"), (MIME_TYPE, "c/d"), ("", ""), ("x" * 200, "y" * 200)])
@pytest.mark.parametrize("mime", [COMPOSITE_MIME, MIME_TYPE])
@pytest.mark.parametrize("cut", [0, 1, 30, 80])
def test_what_a_caller_says_of_mime_types_as_brokers_do_is_only_an_entry_of_its_own(
    cut: int, mime: str, pair: tuple[str, str], is_multicast: bool
) -> None:
    """D-49: the service gets what it gets of a caller that is connected beside it."""
    wanted = address(MULTICAST, service="orders") if is_multicast else ORDERS
    metadata = composite(caller_mimes(*pair)) + addressed(wanted, ("text/plain", b"more"))
    ingress, last = Broker("b1"), Broker("b2")
    there, here = ingress.link("b2"), last.link("b1")
    ingress.far(ingress.remote("b2", there), "orders", 7)
    service = last.service("orders", 7, metadata_mime=mime)
    frames = fragments(REQUEST_RESPONSE, 1, metadata, b"data", [cut] if cut else [])
    last.caller(data_mime=DATA_MIME).send(*frames)
    beside = service.received()
    ingress.caller(data_mime=DATA_MIME).send(*frames)
    for frame in there.received():
        here.send(b"\0\0\0\1" + frame.raw[4:])
    behind = service.received()
    assert [frame.metadata for frame in behind] == [frame.metadata for frame in beside]
    assert here.received() == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (caller_mimes("", "a/b"), "0 bytes are no mime type, 1..128 are"),
        (caller_mimes("x" * 129, "a/b"), "129 bytes are no mime type, 1..128 are"),
        ((CALLER_MIMES, b"\x01\xff\x03a/b"), "not ASCII"),
        ((CALLER_MIMES, b"\x03a/b"), "4 bytes are not two texts"),
    ],
)
def test_mime_types_that_no_entry_can_have_are_refused(said: tuple[str, bytes], text: str) -> None:
    _, service, link = last(metadata_mime=COMPOSITE_MIME)
    metadata = annotated(section(to_route(7), "b1"), said) + addressed(address(service="orders"))
    link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", metadata))
    refused = [error(1, REJECTED, f"bad-annotations: caller-mimes: {text}")]
    assert (link.received(), service.received()) == (refused, [])


def test_without_annotations_nothing_is_said_of_mime_types() -> None:
    broker = Broker("b2", CoreSettings(require_annotations=False))
    link = broker.link("b1", version=0)
    service = broker.service("orders", 7, data_mime=DATA_MIME)
    metadata = composite(caller_mimes("a/b", "c/d")) + addressed(address(service="orders"))
    link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", metadata))
    assert [frame.metadata for frame in service.received()] == [metadata]


def test_what_is_no_address_is_refused_where_it_would_have_to_be_translated() -> None:
    _, service, link = last(metadata_mime=MIME_TYPE)
    raw = annotated(section(to_route(7), "b1")) + announcement(9, "orders")
    link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", raw))
    text = "bad-address: the request carries a broker frame that is no ADDRESS"
    assert (link.received(), service.received()) == ([error(1, INVALID, text)], [])
