"""What stands in front of a request between brokers: stamped, read, bounded and counted (D-49)."""

import pytest

from broker.core import CoreSettings
from broker.forwarding.interbroker import annotations as hops
from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0, MULTICAST
from tests.broker.forwarding import brokers
from tests.broker.forwarding.brokers import DATA_MIME, ORDERS, TO, Middle, caller_mimes, ingress, last, section
from tests.fakes import address, addressed, composite, error, fragments
from tests.topology import LINKED_S, Net


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
    assert brokers.apart(link.one())[1] == [caller_mimes(metadata_mime, data_mime), (behind, ORDERS)]


def test_what_is_said_of_mime_types_is_that_of_the_caller_when_others_have_come_and_gone() -> None:
    broker, link = ingress()
    for number in range(3):
        caller = broker.caller(data_mime=f"application/x-{number}")
        for stream_id in (1, 3):
            caller.request(REQUEST_FNF, stream_id, ORDERS)
            assert brokers.apart(link.one())[1][0] == caller_mimes(COMPOSITE_MIME, f"application/x-{number}")
        caller.lose()


def test_a_redirect_stands_before_the_route() -> None:
    """D-55."""
    broker = brokers.Broker()
    link = broker.link("b2")
    broker.far(broker.remote("b2", link), "orders-next", 7)
    broker.core.query.set_redirects({"orders": "orders-next"})
    caller = broker.caller(data_mime=DATA_MIME)
    for number in (1, 3):
        caller.request(REQUEST_FNF, number, ORDERS)
        said, rest = brokers.apart(link.one())
        assert (said.to_override, rest) == (f"service:orders-next {TO}", [(MIME_TYPE, ORDERS)])


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
    ingress, last = brokers.Broker("b1"), brokers.Broker("b2")
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
        ((brokers.CALLER_MIMES, b"\x01\xff\x03a/b"), "not ASCII"),
        ((brokers.CALLER_MIMES, b"\x03a/b"), "4 bytes are not two texts"),
    ],
)
def test_mime_types_that_no_entry_can_have_are_refused(said: tuple[str, bytes], text: str) -> None:
    _, service, link = last(metadata_mime=COMPOSITE_MIME)
    metadata = brokers.annotated(section(brokers.to_route(7), "b1"), said) + addressed(address(service="orders"))
    link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", metadata))
    refused = [error(1, REJECTED, f"bad-annotations: caller-mimes: {text}")]
    assert (link.received(), service.received()) == (refused, [])


@pytest.mark.parametrize("limit", [1, 2])
def test_max_hops_bounds_the_trace(limit: int) -> None:
    middle = Middle(CoreSettings(max_hops=limit))
    assert middle.ask(section(TO, *[f"a{number}" for number in range(limit)])) == []
    names = [f"a{number}" for number in range(limit + 1)]
    text = f"too-many-hops: {'>'.join(names)}>b2: {limit + 1} brokers passed it on, the limit is {limit}"
    assert middle.ask(section(TO, *names), stream_id=3) == [error(3, REJECTED, text)]


def test_as_many_hops_are_allowed_as_brokers_are_known_and_one_always() -> None:
    middle = Middle()
    middle.broker.annotations.brokers_n = 0
    assert middle.ask(section(TO, "b1")) == []
    assert len(middle.ask(section(TO, "b0", "b1"), stream_id=3)) == 1


def test_ways_that_nobody_counts_apart_are_counted_together() -> None:
    middle = Middle()
    middle.broker.annotations.brokers_n = 10_000
    for number in range(hops.MAX_PATHS + 5):
        middle.ask(section(TO, f"c{number}", "b1"), REQUEST_FNF)
    paths = middle.broker.annotations.paths
    assert len(paths) == hops.MAX_PATHS + 1
    assert (paths[""].requests, paths["c0>b1>b2"].requests) == (5, 1)


def test_what_is_remembered_of_sections_and_prefixes_is_bounded() -> None:
    middle = Middle()
    read = middle.broker.annotations.read
    first = read(section(TO, "b1"))
    assert read(section(TO, "b1")) is first
    for number in range(hops.MAX_SECTIONS):
        read(section(brokers.to_route(number + 100), "b1"))
    assert read(section(TO, "b1")) is not first
    long = section(TO, "b1", extra=b"\xa1\xff" + b"x" * 255 + b"\xb1\x00\x00\x04\x00" + b"x" * 1024, extra_n=2)
    assert read(long) is not read(long)
