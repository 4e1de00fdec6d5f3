"""Quotas of identities: what is refused at each bound, that nothing else is disturbed, and what is left afterwards."""

from __future__ import annotations

import random

import pytest

from broker.access.quotas import Quota
from broker.access.roles import Offer, Role
from broker.core import CoreSettings
from rsocket_wire.errors import REJECTED, REJECTED_SETUP
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE, encode_request
from rsocket_wire.wire.frames import MULTICAST
from tests.fakes import Wire, World, address, addressed, announcement, error, setup
from tests.invariants import check_masks

ANY = Offer([("service", ["*"])])
OTHERS = Role("default", [], [ANY], [ANY])
STOCK = address(service="stock")
STOCK_ALL = address(MULTICAST, service="stock")


def world_of(quota: Quota, mode: str = "required") -> World:
    roles = (Role("orders", ["certificate:CN=orders-*"], [ANY], [ANY], quota), OTHERS)
    return World(CoreSettings(auth_mode=mode, auth_accept=("certificate", "anonymous"), roles=roles))


def connect(world: World, name: str, number: int = 0, service: str = "") -> Wire:
    """A connection of this principal; with a service it has a route."""
    wire = world.connect(origin=("", f"certificate:CN={name}"))
    wire.send(setup(announcement(number, service) if service else None))
    return wire


def refused(stream_id: int, text: str) -> object:
    return error(stream_id, REJECTED, f"over-limit: {text}")


def asked(kind: int, stream_id: int, raw: bytes) -> bytes:
    return encode_request(kind, stream_id, b"", addressed(raw))


def usages_n(world: World) -> int:
    return len(world.core.engine.denials.quotas.usages)


def test_requests_in_flight_count_over_all_connections_of_an_identity() -> None:
    world = world_of(Quota(max_in_flight=3))
    stock = connect(world, "stock", 1, "stock")
    first, second, other = connect(world, "orders-1"), connect(world, "orders-1"), connect(world, "orders-2")
    for stream_id in (1, 3):
        first.send(asked(REQUEST_RESPONSE, stream_id, STOCK))
    second.send(asked(REQUEST_RESPONSE, 1, STOCK))
    assert len(stock.received()) == 3
    second.send(asked(REQUEST_RESPONSE, 3, STOCK))
    text = "3 requests of this identity are in flight, role.orders.max_in_flight is 3"
    assert second.received() == [refused(3, text)]
    other.send(asked(REQUEST_RESPONSE, 1, STOCK))
    assert len(stock.received()) == 1
    first.cancel(1)
    stock.received()
    second.send(asked(REQUEST_RESPONSE, 5, STOCK))
    assert (len(stock.received()), first.received(), second.received(), other.received()) == (1, [], [], [])


def test_requests_a_second_count_over_all_connections_of_an_identity() -> None:
    world = world_of(Quota(requests_per_s=10))
    stock = connect(world, "stock", 1, "stock")
    callers = [connect(world, "orders-1"), connect(world, "orders-1")]
    for number in range(6):
        for caller in callers:
            caller.send(asked(REQUEST_FNF, 2 * number + 1, STOCK))
    assert len(stock.received()) == 10
    callers[0].send(asked(REQUEST_RESPONSE, 21, STOCK))
    text = "more than 10 requests a second came, role.orders.requests_per_s is 10"
    assert callers[0].received() == [refused(21, text)]
    world.advance(0.5)
    for number in range(10):
        callers[1].send(asked(REQUEST_FNF, 2 * number + 31, STOCK))
    assert len(stock.received()) == 5


def test_a_multicast_to_more_routes_than_the_quota_is_refused() -> None:
    world = world_of(Quota(max_multicast_routes=2))
    stocks = [connect(world, "stock", number, "stock") for number in (1, 2, 3)]
    orders, other = connect(world, "orders-1"), connect(world, "other")
    orders.send(asked(REQUEST_RESPONSE, 1, STOCK_ALL))
    assert orders.received() == [refused(1, "3 routes match, role.orders.max_multicast_routes is 2")]
    other.send(asked(REQUEST_RESPONSE, 1, STOCK_ALL))
    assert [len(stock.received()) for stock in stocks] == [1, 1, 1]


def test_one_connection_more_than_the_quota_is_refused_and_comes_in_when_another_has_left() -> None:
    world = world_of(Quota(max_connections=2))
    wires = [connect(world, "orders-1") for _ in range(3)]
    text = "over-limit: 2 connections of certificate:CN=orders-1 are open, role.orders.max_connections is 2"
    assert wires[2].received() == [error(0, REJECTED_SETUP, text)]
    assert [wire.is_closed for wire in (*wires, connect(world, "orders-2"))] == [False, False, True, False]
    for wire in (wires[0], wires[2]):
        wire.lose()
    assert not connect(world, "orders-1").is_closed


def test_one_route_more_than_the_quota_is_refused_and_replacing_one_is_not() -> None:
    world = world_of(Quota(max_routes=2))
    wires = [connect(world, "orders-1", number, "stock") for number in (1, 2, 3)]
    text = "over-limit: 2 routes of this identity are there, role.orders.max_routes is 2"
    assert wires[2].received() == [error(0, REJECTED_SETUP, text)]
    again = connect(world, "orders-1", 2, "stock")
    assert [wire.is_closed for wire in (*wires, again)] == [False, True, True, False]


def test_observe_refuses_nothing_and_tells() -> None:
    quota = Quota(1, 1, 1, 1, 1)
    world = world_of(quota, "observe")
    stocks = [connect(world, "orders-1", number, "stock") for number in (1, 2)]
    caller = connect(world, "orders-1")
    for stream_id in (1, 3):
        caller.send(asked(REQUEST_RESPONSE, stream_id, STOCK_ALL))
    assert [len(stock.received()) for stock in stocks] == [2, 2]
    assert caller.received() == []
    assert world.core.lifecycle.admission.refused == {"over-limit": 2}
    assert world.core.engine.denials.by_end["observed"] >= 3
    routes = [event.detail for event in world.events() if event.name == "Denied" and event.reason == "over-limit"]
    assert routes == ["certificate:CN=orders-1: 1 routes of this identity are there, role.orders.max_routes is 1"]


def test_without_quotas_nothing_is_counted() -> None:
    world = world_of(Quota())
    connect(world, "stock", 1, "stock")
    orders = connect(world, "orders-1")
    orders.send(asked(REQUEST_RESPONSE, 1, STOCK))
    assert (usages_n(world), orders.peer.login.usage_key) == (0, "")


def test_anonymous_connections_share_nothing() -> None:
    quota = Quota(max_in_flight=1)
    role = Role("orders", ["anonymous"], [ANY], [ANY], quota)
    world = World(CoreSettings(auth_mode="required", auth_accept=("anonymous",), roles=(role,)))
    stock = world.connect()
    stock.send(setup(announcement(1, "stock")))
    for caller in (world.caller(), world.caller()):
        caller.send(asked(REQUEST_RESPONSE, 1, STOCK))
    assert (len(stock.received()), usages_n(world)) == (2, 3)


def test_a_role_that_changes_takes_its_quota_along() -> None:
    world = world_of(Quota(max_in_flight=1))
    stock = connect(world, "stock", 1, "stock")
    orders = connect(world, "orders-1")
    orders.send(asked(REQUEST_RESPONSE, 1, STOCK))
    for quota, numbers in ((Quota(max_in_flight=2), (1, 1)), (Quota(), (2, 0))):
        role = Role("orders", ["certificate:CN=orders-*"], [ANY], [ANY], quota)
        world.core.set_roles([role, OTHERS], world.now)
        world.pump()
        stock.received()
        for stream_id in (11, 13):
            orders.send(asked(REQUEST_RESPONSE, stream_id + 10 * numbers[0], STOCK))
        assert (len(stock.received()), usages_n(world)) == (numbers[0], numbers[1])


@pytest.mark.parametrize("seed", range(3))
def test_after_churn_nothing_is_counted_any_more(seed: int) -> None:
    rng = random.Random(seed)
    world = world_of(Quota(4, 3, 50, 5, 2))
    connect(world, "stock", 1, "stock")
    wires: list[Wire] = []
    next_id: dict[int, int] = {}
    for step in range(300):
        if not wires or rng.random() < 0.2:
            wires.append(connect(world, f"orders-{rng.randrange(3)}", 10 + step, rng.choice(("", "orders"))))
        wire = rng.choice(wires)
        stream_id = next_id.get(id(wire), 1)
        choice = rng.random()
        if wire.is_closed:
            wires.remove(wire)
            wire.lose()  # its transport follows
        elif choice < 0.6:
            next_id[id(wire)] = stream_id + 2
            raw = rng.choice((STOCK, STOCK_ALL, address(service="nobody")))
            wire.send(asked(rng.choice((REQUEST_RESPONSE, REQUEST_FNF)), stream_id, raw))
        elif choice < 0.8 and stream_id > 1:
            wire.cancel(rng.randrange(1, stream_id, 2))
        elif choice < 0.9:
            wire.lose()
        world.advance(0.01)
        check_masks(world.core)
        quotas = world.core.engine.denials.quotas
        for usage in quotas.usages.values():
            assert usage.peers
            assert sum(peer.begun for peer in usage.peers.values()) <= 5
    for wire in list(world.wires.values()):
        wire.lose()
    assert usages_n(world) == 0
