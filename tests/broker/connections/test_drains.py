"""Draining a route, a tag or the broker: nothing new, what runs may end, connections go one after another (D-42)."""

import pytest

from broker.connections.drains import MAX_DRAINS
from broker.core import CoreSettings
from broker.events import DRAIN_ENDED, DRAIN_STARTED
from rsocket_wire.errors import CONNECTION_CLOSE, REJECTED_SETUP, BrokerError
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MULTICAST
from rsocket_wire.wire.tags import Tag
from tests.fakes import Wire, World, address, ask, error, orders, route_id

ORDERS = address(service="orders")
EU = Tag.of("region", "eu")


def served(wires: list[Wire]) -> list[int]:
    return [len(wire.received()) for wire in wires]


def busy(kind: int) -> tuple[World, Wire, Wire]:
    """A service that has got a request, and its caller."""
    world, service, caller = orders()
    caller.request(kind, 1, ORDERS)
    service.received()
    return world, service, caller


def test_a_drained_route_gets_no_new_requests_and_the_others_do() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2, 3)]
    caller = world.caller()
    assert world.core.lifecycle.drains.drain_route(route_id(2), 10, 0, False, world.now) == 1
    ask(caller, 6)
    assert served(wires) == [3, 0, 3]
    assert caller.received() == []


def test_what_runs_on_a_drained_route_goes_on() -> None:
    world, service, caller = busy(REQUEST_STREAM)
    world.core.lifecycle.drains.drain_route(route_id(1), 10, 0, True, world.now)
    world.advance(5)
    service.answer(2, b"still here", 0x20)
    assert [frame.data for frame in caller.received()] == [b"still here"]
    assert not service.is_closed


def test_the_connection_of_a_drained_route_is_told_to_go_when_it_is_idle() -> None:
    world, service, caller = busy(REQUEST_RESPONSE)
    world.core.lifecycle.drains.drain_route(route_id(1), 10, 0, True, world.now)
    world.advance(3)
    assert not service.is_closed
    service.answer(2, b"done")
    world.advance(1)
    text = f"draining: the route {world.core.lifecycle.limits.closed.latest[-1].route_id} is taken out of service"
    assert service.received() == [error(0, CONNECTION_CLOSE, text)]
    assert service.is_closed
    assert [frame.data for frame in caller.received()] == [b"done"]


def test_and_after_the_grace_time_at_the_latest() -> None:
    world, service, caller = busy(REQUEST_STREAM)
    world.core.lifecycle.drains.drain_route(route_id(1), 10, 0, True, world.now)
    world.advance(9.9)
    assert not service.is_closed
    world.advance(1.1)
    (frame,) = service.received()
    assert (frame.stream_id, frame.code) == (0, CONNECTION_CLOSE)
    assert frame.text.endswith(" is taken out of service, 1 requests end with it")
    assert [frame.text.partition(":")[0] for frame in caller.received()] == ["route-lost"]


def test_a_route_that_comes_back_is_still_drained_and_left_alone() -> None:
    world = World()
    caller = world.caller()
    world.service("orders", 1)
    world.core.lifecycle.drains.drain_route(route_id(1), 0, 0, True, world.now)
    world.advance(1.1)
    again = world.service("orders", 1)
    ask(caller, 2)
    world.advance(60)
    assert served([again]) == [0]
    assert not again.is_closed
    assert world.core.lifecycle.drains.undrain_route(route_id(1), world.now)
    ask(caller, 2)
    assert served([again]) == [2]
    assert not world.core.lifecycle.drains.undrain_route(route_id(1), world.now)


def test_a_drained_tag_concerns_those_that_have_it_and_those_that_join_with_it() -> None:
    world = World()
    wires = [world.service("orders", 1, region="eu"), world.service("orders", 2, region="us")]
    caller = world.caller()
    assert world.core.lifecycle.drains.drain_tag(EU, 10, 0, False, world.now) == 1
    wires.append(world.service("orders", 3, region="eu"))
    ask(caller, 3)
    assert served(wires) == [0, 3, 0]
    wires[1].announce(2, "orders", region="eu")
    wires[2].announce(3, "orders", region="us")
    ask(caller, 3)
    assert served(wires) == [0, 0, 3]
    world.core.lifecycle.drains.undrain_tag(EU, world.now)
    ask(caller, 6)
    assert served(wires) == [2, 2, 2]


def test_a_route_that_is_drained_twice_is_in_service_after_both_have_ended() -> None:
    world = World()
    service, caller = world.service("orders", 1, region="eu"), world.caller()
    world.core.lifecycle.drains.drain_tag(EU, 10, 0, False, world.now)
    world.core.lifecycle.drains.drain_route(route_id(1), 10, 0, False, world.now)
    world.core.lifecycle.drains.undrain_tag(EU, world.now)
    ask(caller, 1)
    assert served([service]) == [0]
    world.core.lifecycle.drains.undrain_route(route_id(1), world.now)
    ask(caller, 1)
    assert served([service]) == [1]


def test_connections_are_told_one_after_another_over_the_spread() -> None:
    world = World()
    wires = [world.service("orders", number, region="eu") for number in range(1, 6)]
    world.core.lifecycle.drains.drain_tag(EU, 10, 10, True, world.now)
    closed = []
    for _ in range(11):
        world.advance(1.0)
        closed.append(sum(wire.is_closed for wire in wires))
    assert closed == [1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5]
    assert [drain.left_n for drain in world.core.lifecycle.drains.all()] == [0]


def test_a_drain_that_is_ended_closes_nobody_more() -> None:
    world = World()
    wires = [world.service("orders", number, region="eu") for number in range(1, 6)]
    world.core.lifecycle.drains.drain_tag(EU, 10, 10, True, world.now)
    world.advance(3)
    world.core.lifecycle.drains.undrain_tag(EU, world.now)
    world.advance(60)
    assert sum(wire.is_closed for wire in wires) == 2


def test_a_multicast_goes_to_those_that_are_not_drained() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    world.core.lifecycle.drains.drain_route(route_id(1), 10, 0, False, world.now)
    ask(caller, 1, REQUEST_FNF, address(MULTICAST, service="orders"))
    assert served(wires) == [0, 1]


def test_a_broker_that_drains_refuses_requests_and_connections_and_closes_those_it_has() -> None:
    world, service, caller = busy(REQUEST_RESPONSE)
    assert world.core.lifecycle.drains.drain_broker(10, 4, True, world.now) == 2
    caller.request(REQUEST_RESPONSE, 3, ORDERS)
    assert [frame.text.partition(":")[0] for frame in caller.received()] == ["draining"]
    late = world.caller()
    assert late.received() == [error(0, REJECTED_SETUP, "draining: the broker takes no new connections")]
    service.answer(2, b"done")
    assert [frame.data for frame in caller.received()] == [b"done"]
    world.advance(1)
    assert (service.is_closed, caller.is_closed) == (True, False)
    world.advance(2)
    assert caller.is_closed


def test_a_broker_that_is_in_service_again_takes_requests() -> None:
    world, service, caller = orders()
    world.core.lifecycle.drains.drain_broker(10, 10, False, world.now)
    assert world.core.lifecycle.drains.undrain_broker(world.now)
    ask(caller, 1)
    assert served([service]) == [1]
    assert world.caller().received() == []


def test_what_is_drained_again_has_the_new_times() -> None:
    world = World()
    service = world.service("orders", 1)
    world.core.lifecycle.drains.drain_route(route_id(1), 0, 30, True, world.now)
    world.core.lifecycle.drains.drain_route(route_id(1), 0, 30, False, world.now)
    world.advance(60)
    assert not service.is_closed
    assert [(drain.kind, drain.closes) for drain in world.core.lifecycle.drains.all()] == [("route", False)]


def test_the_end_of_one_drain_does_not_end_the_closing_of_another() -> None:
    world = World()
    service = world.service("orders", 1, region="eu")
    world.core.lifecycle.drains.drain_tag(EU, 100, 30, True, world.now)
    world.core.lifecycle.drains.drain_route(route_id(1), 10, 5, True, world.now)
    world.core.lifecycle.drains.undrain_tag(EU, world.now)
    world.advance(1.1)
    assert service.is_closed


def test_the_drain_that_closes_first_closes() -> None:
    world = World()
    service, caller = world.service("orders", 1, region="eu"), world.caller()
    caller.request(REQUEST_STREAM, 1, ORDERS)
    world.core.lifecycle.drains.drain_tag(EU, 3600, 0, True, world.now)
    world.core.lifecycle.drains.drain_route(route_id(1), 2, 0, True, world.now)
    world.advance(2)
    assert service.is_closed
    assert [drain.left_n for drain in world.core.lifecycle.drains.all()] == [0, 0]


def test_each_drain_is_told() -> None:
    world = World()
    world.service("orders", 1, region="eu")
    world.events()
    world.core.lifecycle.drains.drain_tag(EU, 10, 20, True, world.now)
    world.core.lifecycle.drains.undrain_tag(EU, world.now)
    world.core.lifecycle.drains.drain_broker(10, 20, False, world.now)
    world.core.lifecycle.drains.undrain_broker(world.now)
    told = [(event.kind, event.route_id, event.reason, event.detail) for event in world.events()]
    assert told == [
        (DRAIN_STARTED, "", "tag", "region=eu: 1 connections are closed within 30 s"),
        (DRAIN_ENDED, "", "tag", "region=eu: in service again after 0.0 s"),
        (DRAIN_STARTED, "", "broker", "1 connections stay open"),
        (DRAIN_ENDED, "", "broker", "in service again after 0.0 s"),
    ]


def test_no_more_is_drained_than_may_be() -> None:
    world = World(CoreSettings())
    for number in range(MAX_DRAINS):
        world.core.lifecycle.drains.drain_tag(Tag.of("user", str(number)), 0, 0, False, world.now)
    with pytest.raises(BrokerError, match="1000 drains are there already, end some of them first"):
        world.core.lifecycle.drains.drain_tag(Tag.of("user", "more"), 0, 0, False, world.now)
    world.core.lifecycle.drains.drain_tag(Tag.of("user", "5"), 1, 1, False, world.now)
    world.core.lifecycle.drains.undrain_tag(Tag.of("user", "6"), world.now)
    world.core.lifecycle.drains.drain_tag(Tag.of("user", "more"), 0, 0, False, world.now)
    assert len(world.core.lifecycle.drains.all()) == MAX_DRAINS
