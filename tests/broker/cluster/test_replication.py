"""What brokers tell each other of their routes: all that clients can say, or a word that it cannot be told."""

import pytest

from broker.cluster.replication import STATE
from broker.events import ROUTE_UNSAID, LifecycleEvent
from broker.log import event_line
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE, encode_metadata_push
from rsocket_wire.wire.frames import MIME_TYPE, MINOR_JS, UNICAST, RouteAdd, RouteSetup
from rsocket_wire.wire.keys import REGION, ROUTE_ID, SERVICE_NAME, parse_key
from rsocket_wire.wire.tags import Tag
from tests.fakes import Wire, address, composite, route_id
from tests.invariants import check_masks
from tests.topology import LINKED_S, Net, line, linked, route_text

JS_TEXT = b"x" * 200  # longer than any other client can say


def offered(net: Net, name: str, raw: bytes) -> Wire:
    """A connection at one broker whose SETUP has this ROUTE_SETUP; what it says is known everywhere."""
    wire = net.worlds[name].caller(metadata=composite((MIME_TYPE, raw)))
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
    raw = RouteSetup(route_id(1), "orders", []).encode() + REGION.wire + b"\x82eu" + parse_key("environment").wire
    server = offered(net, "b1", raw)
    assert net.tables() == {name: {route_text(1): "b1"} for name in net.names}
    caller = net.worlds["b3"].caller()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu", environment=asked))
    net.pump()
    assert server.one().data == b"hi"
    assert unsaid(net, "b1") == []
    marks = {world.core.table.digest.text for world in net.worlds.values()}
    assert len(marks) == 1


OWN_TAGS = ["d", "c", "cd", "", "blue"]


@pytest.mark.parametrize("value", OWN_TAGS)
@pytest.mark.parametrize("is_last", [False, True])
def test_a_tag_of_a_client_is_never_taken_for_what_brokers_say(value: str, is_last: bool) -> None:
    """D-63: it is a tag like any other, also where it stands last in what brokers are told."""
    net = linked(line(3))
    own = Tag(STATE, value.encode())
    tags = [Tag.of("service", "orders"), Tag.of("route_id", route_text(1)), own] if is_last else [own]
    raw = RouteSetup(route_id(1), "orders", tags).encode()
    server = offered(net, "b1", raw)
    for name in net.names:
        world = net.worlds[name]
        route = world.core.table.find(route_id(1))
        assert route is not None
        assert own in route.tags
        states = [mask.has(route.slot) for mask in (world.core.table.masks.draining, world.core.table.masks.congested)]
        assert states == [False, False]
    caller = net.worlds["b3"].caller()
    asked: dict[str, str | None] = {"service": "orders", STATE.name: value}
    caller.request(REQUEST_RESPONSE, 1, address(UNICAST, [], b"", **asked))
    net.pump()
    assert server.one().data == b"hi"


@pytest.mark.parametrize("value", OWN_TAGS)
def test_what_a_broker_says_of_a_route_with_such_a_tag_is_heard(value: str) -> None:
    net = linked(line(2))
    server = offered(net, "b1", RouteSetup(route_id(1), "orders", [Tag(STATE, value.encode())]).encode())
    masks = net.worlds["b2"].core.table.masks
    for is_congested in (True, False, True):
        if is_congested:
            net.worlds["b1"].core.congested(server.peer)
        else:
            net.worlds["b1"].core.relieved(server.peer, net.now)
        net.advance(0.5)
        assert (masks.congested.size(), masks.draining.size()) == (int(is_congested), 0)
    net.worlds["b1"].core.lifecycle.drains.drain_route(route_id(1), 5.0, 0.0, False, net.now)
    net.advance(0.5)
    assert (masks.congested.size(), masks.draining.size()) == (1, 1)
    check_masks(net.worlds["b2"].core)


def test_letters_that_a_broker_does_not_know_say_nothing_to_it() -> None:
    """D-63: those of a newer one."""
    net = linked(line(2))
    b1, b2 = (net.worlds[name].core for name in net.names)
    for stamp, (letters, expected) in enumerate([(b"xyz", (0, 0)), (b"xdy", (1, 0)), (b"zc", (0, 1)), (b"", (0, 0))]):
        raw = RouteAdd(b1.broker_id, route_id(7), 9 * 10**12 + stamp, "orders", [Tag(STATE, letters)]).encode()
        net.link("b1", "b2").peer.send(encode_metadata_push(composite((MIME_TYPE, raw))))
        net.pump()
        masks = b2.table.masks
        assert (masks.draining.size(), masks.congested.size()) == expected
        assert [tag.key for tag in b2.table.routes()[0].tags] == [SERVICE_NAME, ROUTE_ID]


def test_a_route_that_cannot_be_said_is_logged_and_counted() -> None:
    net = linked(line(2))
    net.worlds["b1"].events()
    wire = offered(net, "b1", js_setup(1, "orders", JS_TEXT))
    assert net.tables() == {"b1": {route_text(1): "b1"}, "b2": {}}
    [event] = unsaid(net, "b1")
    text = "io.rsocket.routing.Region: the value has 200 bytes, 127 fit"
    assert (event.route_id, event.service, event.detail) == (route_text(1), "orders", text)
    assert event_line(event) == f"route {route_text(1)} (orders): cannot be announced to other brokers: {text}"
    assert net.worlds["b1"].core.cluster.replication.unadvertised_n == 1
    net.advance(10.0)
    assert unsaid(net, "b1") == []  # once is enough
    say(net, wire, js_setup(1, "orders", b"eu"))
    assert net.table("b2") == {route_text(1): "b1"}


def test_a_route_that_can_be_said_no_more_is_not_known_with_its_old_tags() -> None:
    net = linked(line(3))
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
    net = linked(line(2))
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
    assert (unsaid(net, "b1"), net.worlds["b1"].core.cluster.replication.unadvertised_n) == ([], 0)
