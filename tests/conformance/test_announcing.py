"""The section "Routing Protocol Semantics": announcements, Route Ids, default tags, the routing table."""

import pytest

from broker.core import CoreSettings
from broker.routing.table import Route, Table
from tests.conformance import scripts
from tests.conformance.scripts import (
    REGION,
    ROUTE_ID,
    SERVICE_NAME,
    caller,
    destination,
    error,
    forwarding,
    frame,
    heard,
    ident,
    on,
    request,
    route_setup,
    tags_in_table,
    u16,
    uuid,
)
from tests.fakes import Wire, World

NEWCOMER = "replaced: another connection came with the Route Id "


def asked(world: World, stream_id: int, *tags: scripts.AnyTag, flags: int = scripts.U) -> tuple[Wire, bytes]:
    """A caller and the request that it has sent."""
    wire = caller(world)
    raw = request(scripts.REQUEST_RESPONSE, stream_id, forwarding(scripts.address(flags, *tags)))
    wire.send(raw)
    return wire, raw


# Routable destinations


def test_only_who_sends_a_route_setup_receives_requests() -> None:
    world = World()
    silent = caller(world)
    other = scripts.connected(world, scripts.setup(scripts.COMPOSITE, scripts.composite(("text/plain", b"hello"))))
    orders = destination(world, 1, "orders")
    _, raw = asked(world, 1, (SERVICE_NAME, "orders"), flags=scripts.M)
    assert (heard(silent), heard(other), heard(orders)) == ([], [], [on(2, raw)])


@pytest.mark.parametrize("flags", [0x100, 0])
def test_route_setup_may_come_with_the_setup_or_with_a_later_metadata_push(flags: int) -> None:
    """D-25: rsocket-js writes a METADATA_PUSH without the M flag."""
    world = World()
    early = destination(world, 1, "orders", (REGION, "eu"))
    late = caller(world)
    late.send(frame(0, 0x0C, flags, forwarding(route_setup(2, "orders", (REGION, "us")))))
    for region, wire in (("eu", early), ("us", late)):
        _, raw = asked(world, 1, (SERVICE_NAME, "orders"), (REGION, region))
        assert heard(wire) == [on(2, raw)]


@pytest.mark.parametrize("kind", scripts.MODELS)
def test_route_setup_may_come_with_a_request(kind: int) -> None:
    """D-45: "or another frame in the METADATA field". The request is complete with it."""
    world = World()
    wire = caller(world)
    wire.send(request(kind, 1, forwarding(route_setup(1, "orders", (REGION, "eu")))))
    assert heard(wire) == ([] if kind == scripts.REQUEST_FNF else [frame(1, 0x0A, 0x40, b"")])
    _, raw = asked(world, 1, (SERVICE_NAME, "orders"), (REGION, "eu"))
    assert heard(wire) == [on(2, raw)]


def test_route_setup_in_a_request_that_cannot_be_read_makes_no_route() -> None:
    world = World()
    wire = caller(world)
    wire.send(request(scripts.REQUEST_FNF, 1, forwarding(route_setup(1, "orders")[:-1])))
    wire.send(request(scripts.REQUEST_FNF, 3, forwarding(route_setup(1, "", (REGION, "eu")))))
    assert (heard(wire), tags_in_table(world)) == ([], [])


def test_route_is_valid_as_long_as_its_connection() -> None:
    world = World()
    orders = destination(world, 1, "orders")
    world.advance(60)
    orders.send(frame(0, 0x03, 0, scripts.u64(0)))  # KEEPALIVE
    world.advance(60)
    _, raw = asked(world, 1, (SERVICE_NAME, "orders"))
    assert heard(orders) == [on(2, raw)]
    orders.lose()
    wire, _ = asked(world, 1, (SERVICE_NAME, "orders"))
    text = "no-route: no route has service=orders"
    assert (heard(wire), tags_in_table(world)) == ([error(1, scripts.REJECTED, text)], [])


def test_route_of_a_connection_that_is_resumed_was_valid_all_the_time() -> None:
    """ "resumption of the connection is not considered broken if resumption is successful" (D-39)."""
    world = World(CoreSettings(resume_ttl_s=60.0))
    token = b"a token of this client"
    mimes = bytes([len(scripts.COMPOSITE)]) + scripts.COMPOSITE.encode() + b"\x0atext/plain"
    metadata = forwarding(route_setup(1, "orders"))
    body = u16(1) + u16(0) + scripts.u32(20_000) + scripts.u32(90_000) + u16(len(token)) + token + mimes
    orders = scripts.connected(world, frame(0, 0x01, 0x180, body + scripts.u24(len(metadata)) + metadata))
    orders.lose()
    wire, raw = asked(world, 1, (SERVICE_NAME, "orders"))
    assert heard(wire) == []
    again = scripts.connected(
        world, frame(0, 0x0D, 0, u16(1) + u16(0) + u16(len(token)) + token + scripts.u64(0) + scripts.u64(0))
    )
    assert heard(again) == [frame(0, 0x0E, 0, scripts.u64(0)), on(2, raw)]


# Route Id


def test_destination_without_a_route_id_is_refused() -> None:
    for size in range(16):
        raw = scripts.header(scripts.ROUTE_SETUP) + ident(1)[:size]
        wire = scripts.connected(World(), scripts.setup(scripts.COMPOSITE, forwarding(raw)))
        text = f"bad-route: ROUTE_SETUP route id: needs 16 bytes{' at offset 6' if size else ''}, "
        said = heard(wire)[0]
        assert said[:10] == error(0, scripts.REJECTED_SETUP, "")
        assert said[10:].startswith(text[:43].encode())
        assert wire.is_closed


def test_each_connection_of_a_service_is_a_route_of_its_own() -> None:
    world = World()
    wires = [destination(world, number, "orders") for number in (1, 2, 3, 4)]
    assert [wire.is_closed for wire in wires] == [False] * 4
    for number, wire in enumerate(wires, 1):
        _, raw = asked(world, 1, (ROUTE_ID, uuid(number)))
        assert heard(wire) == [on(2, raw)]
    _, raw = asked(world, 1, (SERVICE_NAME, "orders"), flags=scripts.M)
    assert [heard(wire) for wire in wires] == [[on(4, raw)]] * 4


def test_third_of_four_connections_comes_back_with_its_route_id() -> None:
    """The example of the specification, with the id 1234."""
    world = World()
    wires = [destination(world, number, "orders") for number in (1, 2, 1234, 4)]
    wires[2].lose()
    assert [row[1] for row in tags_in_table(world)] == [("io.rsocket.routing.RouteId", uuid(id)) for id in (1, 2, 4)]
    wires[2] = destination(world, 1234, "orders")
    _, raw = asked(world, 1, (ROUTE_ID, uuid(1234)))
    assert [heard(wire) for wire in wires] == [[], [], [on(2, raw)], []]


# Handling ROUTE_SETUP frames


@pytest.mark.parametrize("by_push", [False, True])
def test_second_connection_with_a_route_id_ends_the_first_and_takes_its_place(by_push: bool) -> None:
    """D-09: CONNECTION_CLOSE, the end of its streams, then the new route with nothing of the old one."""
    world = World()
    first = destination(world, 1, "orders", (REGION, "eu"))
    waiting, _ = asked(world, 1, (SERVICE_NAME, "orders"))
    heard(first)
    if by_push:
        second = caller(world)
        second.send(scripts.push(forwarding(route_setup(1, "orders", (REGION, "us")))))
    else:
        second = destination(world, 1, "orders", (REGION, "us"))
    assert (heard(first), first.is_closed) == ([error(0, scripts.CONNECTION_CLOSE, NEWCOMER + uuid(1))], True)
    text = "route-lost: the connection of orders went away before the request ended"
    assert heard(waiting) == [error(1, 0x203, text)]
    assert tags_in_table(world) == [
        [
            ("io.rsocket.routing.Region", "us"),
            ("io.rsocket.routing.ServiceName", "orders"),
            ("io.rsocket.routing.RouteId", uuid(1)),
        ]
    ]
    refused, _ = asked(world, 1, (SERVICE_NAME, "orders"), (REGION, "eu"))
    assert heard(refused) == [error(1, scripts.REJECTED, "no-route: no route has region=eu")]
    _, raw = asked(world, 1, (SERVICE_NAME, "orders"), (REGION, "us"))
    assert (heard(first), heard(second)) == ([], [on(2, raw)])


def test_end_of_the_replaced_connection_does_not_remove_the_new_route() -> None:
    world = World()
    first = destination(world, 1, "orders")
    second = destination(world, 1, "orders")
    first.lose()
    _, raw = asked(world, 1, (SERVICE_NAME, "orders"))
    assert heard(second) == [on(2, raw)]


def test_same_connection_may_send_route_setup_again() -> None:
    world = World()
    orders = destination(world, 1, "orders", (REGION, "eu"))
    orders.send(scripts.push(forwarding(route_setup(1, "orders", (REGION, "us")))))
    assert (heard(orders), orders.is_closed, tags_in_table(world)[0][0]) == (
        [],
        False,
        ("io.rsocket.routing.Region", "us"),
    )


# Emitting ROUTE_ADD and ROUTE_REMOVE frames


def test_broker_without_links_to_other_brokers_emits_nothing() -> None:
    """Nobody is interested: callers, destinations and silent connections hear nothing of routes that come and go."""
    world = World()
    wires = [caller(world), caller(world, scripts.FORWARDING), destination(world, 9, "audit"), world.connect()]
    orders = destination(world, 1, "orders")
    orders.send(scripts.push(forwarding(route_setup(1, "orders", (REGION, "eu")))))
    again = destination(world, 1, "orders")
    again.lose()
    stock = destination(world, 2, "stock")
    stock.lose()
    world.advance(1)
    assert [heard(wire) for wire in [*wires, again, stock]] == [[]] * 6
    assert heard(orders) == [error(0, scripts.CONNECTION_CLOSE, NEWCOMER + uuid(1))]


# Default tags


def test_both_default_tags_are_added_and_routed_by() -> None:
    world = World()
    orders = destination(world, 1, "orders", (REGION, "eu"))
    assert tags_in_table(world) == [
        [
            ("io.rsocket.routing.Region", "eu"),
            ("io.rsocket.routing.ServiceName", "orders"),
            ("io.rsocket.routing.RouteId", uuid(1)),
        ]
    ]
    wanted: list[list[scripts.AnyTag]] = [
        [(SERVICE_NAME, "orders")],
        [(ROUTE_ID, uuid(1))],
        [(SERVICE_NAME, "orders"), (ROUTE_ID, uuid(1))],
    ]
    for place, tags in enumerate(wanted):
        _, raw = asked(world, 1, *tags)
        assert heard(orders) == [on(2 * place + 2, raw)]


@pytest.mark.parametrize("text", ["io.rsocket.routing.", "io.rsocket.broker."])
def test_default_tags_that_are_present_are_left_as_they_are(text: str) -> None:
    """As ids, and as the texts of their names (D-05)."""
    world = World()
    one = destination(world, 1, "orders", (SERVICE_NAME, "purchases"), (ROUTE_ID, "mine"))
    two = destination(world, 2, "orders", (text + "ServiceName", "sales"), (text + "RouteId", "yours"))
    assert tags_in_table(world) == [
        [("io.rsocket.routing.ServiceName", "purchases"), ("io.rsocket.routing.RouteId", "mine")],
        [("io.rsocket.routing.ServiceName", "sales"), ("io.rsocket.routing.RouteId", "yours")],
    ]
    for name, wire in (("purchases", one), ("sales", two)):
        _, raw = asked(world, 1, (SERVICE_NAME, name))
        assert heard(wire) == [on(2, raw)]
    refused, _ = asked(world, 1, (SERVICE_NAME, "orders"))
    assert heard(refused) == [error(1, scripts.REJECTED, "no-route: no route has service=orders")]


# The routing table: see `test_brokers` for what other brokers say


def test_route_setup_is_newer_than_what_it_replaces_even_when_the_clock_went_back() -> None:
    """D-08."""
    world = World()
    orders = destination(world, 1, "orders")
    times = [world.core.table.routes()[0].timestamp_ms]
    world.core.tick(world.now, world.at_ms - 60_000)
    orders.send(scripts.push(forwarding(route_setup(1, "orders"))))
    times += [route.timestamp_ms for route in world.core.table.routes()]
    destination(world, 1, "orders")
    times += [route.timestamp_ms for route in world.core.table.routes()]
    assert times[0] < times[1] < times[2]


def test_table_has_each_route_id_once() -> None:
    world = World()
    for name in ("orders", "stock", "orders"):
        destination(world, 1, name)
        destination(world, 2, name)
    assert [route.id for route in world.core.table.routes()] == [ident(1), ident(2)]
    table = Table()
    for at_ms in range(5):
        table.join(Route(ident(1), "orders", [], None), at_ms)
    assert [route.id for route in table.routes()] == [ident(1)]


@pytest.mark.parametrize("kind", scripts.MODELS)
def test_routes_that_come_and_go_are_in_the_next_answer(kind: int) -> None:
    world = World()
    wire = caller(world)
    metadata = forwarding(scripts.address(scripts.U, (SERVICE_NAME, "orders")))
    refused = (
        [error(1, scripts.REJECTED, "no-route: no route has service=orders")] if kind != scripts.REQUEST_FNF else []
    )
    wire.send(request(kind, 1, metadata))
    assert heard(wire) == refused
    orders = destination(world, 1, "orders")
    raw = request(kind, 3, metadata)
    wire.send(raw)
    assert (heard(orders), heard(wire)) == ([on(2, raw)], [])
