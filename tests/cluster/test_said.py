"""What brokers tell each other of their routes: all that clients can say, or a word that it cannot be told."""

from __future__ import annotations

import pytest

from broker.events import ROUTE_UNSAID, LifecycleEvent
from broker.log import event_line
from broker.rsocket.frames import REQUEST_RESPONSE, Setup
from broker.rsocket.metadata import COMPOSITE_MIME
from broker.wire.frames import MIME_TYPE, MINOR_JS, RouteSetup
from broker.wire.keys import ENVIRONMENT, REGION
from tests.fakes import Wire, address, composite, route_id
from tests.topology import LINKED_S, Net, line, route_text

JS_TEXT = b"x" * 200  # longer than any other client can say


def offered(net: Net, name: str, raw: bytes) -> Wire:
    """A connection at one broker whose SETUP has this ROUTE_SETUP; what it says is known everywhere."""
    wire = net.worlds[name].connect()
    wire.send(Setup(COMPOSITE_MIME, "text/plain", 20_000, 90_000, composite((MIME_TYPE, raw))).encode())
    net.pump()
    return wire


def say(net: Net, wire: Wire, raw: bytes) -> None:
    wire.push(composite((MIME_TYPE, raw)))
    net.pump()


def js_setup(number: int, service: str, region: bytes) -> bytes:
    """A ROUTE_SETUP as the JS client writes it, lengths of 8 bits. D-21"""
    head = RouteSetup(route_id(number), service, []).encode()
    return head[:2] + MINOR_JS.to_bytes(2, "big") + head[4:] + REGION.wire + bytes([len(region)]) + region


def unsaid(net: Net, name: str) -> list[LifecycleEvent]:
    return [event for event in net.worlds[name].events() if event.kind == ROUTE_UNSAID]


@pytest.mark.parametrize("asked", [None, ""])
def test_a_route_whose_last_tag_has_no_value_is_known_at_all_brokers(asked: str | None) -> None:
    """D-07: a key without a value byte, which stands before the default tags then."""
    net = line(3)
    net.advance(LINKED_S)
    raw = RouteSetup(route_id(1), "orders", []).encode() + REGION.wire + b"\x82eu" + ENVIRONMENT.wire
    server = offered(net, "b1", raw)
    assert net.tables() == {name: {route_text(1): "b1"} for name in net.names}
    caller = net.worlds["b3"].caller()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu", environment=asked))
    net.pump()
    assert server.one().data == b"hi"
    assert unsaid(net, "b1") == []
    marks = {world.core.table.digest.text for world in net.worlds.values()}
    assert len(marks) == 1


def test_a_route_that_cannot_be_said_is_logged_and_counted() -> None:
    net = line(2)
    net.advance(LINKED_S)
    net.worlds["b1"].events()
    wire = offered(net, "b1", js_setup(1, "orders", JS_TEXT))
    assert net.tables() == {"b1": {route_text(1): "b1"}, "b2": {}}
    [event] = unsaid(net, "b1")
    text = "io.rsocket.routing.Region: the value has 200 bytes, 127 fit"
    assert (event.route_id, event.service, event.detail) == (route_text(1), "orders", text)
    assert event_line(event) == f"route {route_text(1)} (orders): other brokers cannot be told of it: {text}"
    assert net.worlds["b1"].core.cluster.routes_unsaid == 1
    net.advance(10.0)
    assert unsaid(net, "b1") == []  # once is enough
    say(net, wire, js_setup(1, "orders", b"eu"))
    assert net.table("b2") == {route_text(1): "b1"}


def test_a_route_that_can_be_said_no_more_is_not_known_with_its_old_tags() -> None:
    net = line(3)
    net.advance(LINKED_S)
    wire = offered(net, "b1", js_setup(1, "orders", b"eu"))
    assert net.table("b3") == {route_text(1): "b1"}
    say(net, wire, js_setup(1, "orders", JS_TEXT))
    assert net.tables() == {"b1": {route_text(1): "b1"}, "b2": {}, "b3": {}}
    net.advance(10.0)
    assert net.tables() == {"b1": {route_text(1): "b1"}, "b2": {}, "b3": {}}
    assert len(net.digests()) == 1
    wire.lose()
    net.pump()
    assert net.tables() == {name: {} for name in net.names}


def test_what_others_remember_of_a_route_that_cannot_be_said_does_not_come_back() -> None:
    """The broker begins anew, and hears in its own name of the route with its old tags."""
    net = line(2)
    net.advance(LINKED_S)
    offered(net, "b1", js_setup(1, "orders", b"eu"))
    net.kill("b1")
    net.start("b1")
    offered(net, "b1", js_setup(1, "orders", JS_TEXT))
    net.advance(LINKED_S)
    assert net.tables() == {"b1": {route_text(1): "b1"}, "b2": {}}
    assert len(net.digests()) == 1


def test_a_broker_to_which_nobody_can_link_has_nobody_to_tell() -> None:
    net = Net(["b1"], [], secrets={"b1": b""})
    offered(net, "b1", js_setup(1, "orders", JS_TEXT))
    assert (unsaid(net, "b1"), net.worlds["b1"].core.cluster.routes_unsaid) == ([], 0)
