"""Addressing by roles: whom a caller reaches, what it is told where that is nobody, and whose origin it may name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.access.roles import Offer, Role
from broker.core import CoreSettings
from broker.events import FlowRecord, LifecycleEvent
from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from broker.forwarding.traffic.denials import MAX_IDENTITIES
from rsocket_wire.errors import CANCELED, CONNECTION_CLOSE, REJECTED
from rsocket_wire.rsocket.frames import CANCEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM, encode_request
from rsocket_wire.wire.annotations import ANNOTATIONS_MIME, Annotations
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, Address
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import SHARD_KEY, STICKY_ROUTE_KEY
from tests.fakes import (
    Wire,
    World,
    address,
    addressed,
    announcement,
    cancelled,
    composite,
    error,
    framed,
    route_id,
    setup,
    tags_of,
)

ANY = Offer([("service", ["*"])])
SERVICES = Role("services", ["certificate:CN=service-*"], [ANY])
ORDERS = Role(
    "orders",
    ["certificate:CN=orders"],
    [],
    [Offer([("service", ["billing"])]), Offer([("service", ["stock"]), ("environment", ["prod"])])],
)
TEST = Offer([("service", ["stock"]), ("environment", ["test"])])
TENANTS = Role("tenants", ["certificate:*"], [ANY], [Offer([("service", ["${name}-*"])])])


def world_of(mode: str = "required", no_route: str = "reject", from_clients: str = "reject") -> World:
    roles = (SERVICES, ORDERS, TENANTS)
    settings = CoreSettings(auth_mode=mode, auth_accept=("certificate",), roles=roles, no_route=no_route)
    return World(replace(settings, annotations_from_clients=from_clients))


def service(world: World, number: int, name: str, **tags: str) -> Wire:
    wire = world.connect(origin=("", f"certificate:CN=service-{number}"))
    wire.send(setup(announcement(number, name, **tags)))
    return wire


def caller(world: World, name: str = "orders") -> Wire:
    return world.caller(origin=("", f"certificate:CN={name}"))


def shop(world: World) -> list[Wire]:
    """stock in prod, twice in test, and billing."""
    places = ("prod", "test", "test")
    found = [service(world, at, "stock", environment=place) for at, place in enumerate(places, 1)]
    return [*found, service(world, 4, "billing")]


def reached(services: list[Wire]) -> list[int]:
    """Numbers of the routes that got something since the last call."""
    return [number for number, wire in enumerate(services, 1) if wire.received()]


def denied(stream_id: int, text: str) -> object:
    return error(stream_id, REJECTED, f"denied: {text}")


STOCK = address(service="stock")
STOCK_ALL = address(MULTICAST, service="stock")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (STOCK, [1]),
        (address(MULTICAST, service="stock"), [1]),
        (address(SHARD, [(SHARD_KEY, "user")], service="stock", user="7"), [1]),
        (address(0, [(STICKY_ROUTE_KEY, "user")], service="stock", user="7"), [1]),
        (address(route_id=id_text(route_id(1))), [1]),
        (address(service="billing"), [4]),
        (address(environment="test"), "any of the 2 routes with environment=test"),
        (address(service="stock", environment="test"), "any of the 2 routes with service=stock environment=test"),
        (address(MULTICAST, environment="test"), "any of the 2 routes with environment=test"),
        (address(SHARD, [(SHARD_KEY, "u")], environment="test", u="7"), "any of the 2 routes with environment=test"),
        (address(route_id=id_text(route_id(2))), f"the one route with route_id={id_text(route_id(2))}"),
    ],
)
def test_a_request_reaches_what_the_role_of_its_caller_allows(raw: bytes, expected: list[int] | str) -> None:
    world = world_of()
    services = shop(world)
    asker = caller(world)
    for turn, kind in enumerate([REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_FNF] * 2):
        asker.request(kind, 2 * turn + 1, raw)
        if isinstance(expected, str):
            text = f"the role orders does not allow to address {expected}"
            assert asker.received() == ([] if kind == REQUEST_FNF else [denied(2 * turn + 1, text)])
        assert reached(services) == ([] if isinstance(expected, str) else expected)
    asker.push(addressed(raw))
    assert reached(services) == ([] if isinstance(expected, str) else expected)


def test_what_nobody_has_is_no_route_as_ever_and_a_role_that_says_nothing_reaches_nobody() -> None:
    world = world_of()
    shop(world)
    asker = caller(world)
    asker.request(REQUEST_RESPONSE, 1, address(service="mail"))
    assert asker.one() == error(1, REJECTED, "no-route: no route has service=mail")
    silent = service(world, 5, "mail")  # its role has no address
    silent.request(REQUEST_RESPONSE, 1, address(service="billing"))
    text = "the role services does not allow to address the one route with service=billing"
    assert silent.one() == denied(1, text)


def test_callers_of_one_role_are_told_apart_where_their_names_count() -> None:
    world = world_of()
    services = [service(world, 1, "CN=ada-cache"), service(world, 2, "CN=eve-cache")]
    for stream_id in (1, 3):  # looked up, and remembered
        for number, name in enumerate(("ada", "eve"), 1):
            asker = caller(world, name)
            asker.request(REQUEST_RESPONSE, stream_id, address(service=f"CN={name}-cache"))
            assert reached(services) == [number]
            other = ("eve", "ada")[number - 1]
            asker.request(REQUEST_RESPONSE, stream_id + 2, address(service=f"CN={other}-cache"))
            assert asker.one().text.startswith("denied: the role tenants does not allow to address the one route with ")


def test_a_route_that_joins_or_changes_is_reached_as_its_tags_are_now() -> None:
    world = world_of()
    asker = caller(world)
    stock = service(world, 1, "stock", environment="test")
    asker.request(REQUEST_RESPONSE, 1, STOCK)
    assert asker.one().text.startswith("denied: ")
    stock.announce(1, "stock", environment="prod")
    asker.request(REQUEST_RESPONSE, 3, STOCK)
    assert reached([stock]) == [1]
    stock.announce(1, "stock", environment="test")
    asker.request(REQUEST_RESPONSE, 5, STOCK)
    assert (asker.one().text.startswith("denied: "), reached([stock])) == (True, [])
    stock.lose()
    asker.received()
    asker.request(REQUEST_RESPONSE, 7, STOCK)
    assert asker.one().text == "no-route: no route has service=stock"


def test_a_redirect_leads_nobody_where_the_role_does_not() -> None:
    world = world_of()
    services = [service(world, 1, "billing"), service(world, 2, "vault")]
    services.append(service(world, 3, "stock", environment="prod"))
    asker = caller(world)
    for redirects, expected in (({}, [1]), ({"billing": "vault"}, []), ({"billing": "stock"}, [3])):
        world.core.query.set_redirects(redirects)
        asker.request(REQUEST_RESPONSE, 2 * asker.peer.requests + 1, address(service="billing"))
        assert reached(services) == expected
    text = "the role orders does not allow to address the one route with service=vault"
    assert asker.one() == denied(3, text)


def test_a_request_that_waits_gets_the_first_route_that_its_caller_may_reach() -> None:
    world = world_of(no_route="wait")
    asker = caller(world)
    asker.request(REQUEST_RESPONSE, 1, STOCK)
    services = [service(world, 1, "stock", environment="test")]
    assert (asker.received(), reached(services)) == ([], [])
    services.append(service(world, 2, "stock", environment="prod"))
    assert reached(services) == [2]


def test_a_request_that_waits_for_nothing_but_others_routes_is_told_so_at_the_end() -> None:
    world = world_of(no_route="wait")
    asker = caller(world)
    asker.request(REQUEST_RESPONSE, 1, STOCK)
    service(world, 1, "stock", environment="test")
    world.advance(6.0)
    text = "the role orders does not allow to address the one route with service=stock, after 5.0 s of waiting"
    assert asker.one() == denied(1, text)


def test_another_role_counts_at_once_for_what_waits_too() -> None:
    world = world_of(no_route="wait")
    asker = caller(world)
    asker.request(REQUEST_RESPONSE, 1, STOCK)
    stock = service(world, 1, "stock", environment="test")
    world.core.engine.set_role(asker.peer, Role("all", ["*"], [], [ANY]), world.now)
    world.pump()
    assert reached([stock]) == [1]
    asker.request(REQUEST_RESPONSE, 3, STOCK)
    world.core.engine.set_role(asker.peer, ORDERS, world.now)
    asker.request(REQUEST_RESPONSE, 5, STOCK)
    assert [frame.stream_id for frame in asker.received() if frame.text.startswith("denied: ")] == [1, 3, 5]


def test_requests_that_a_new_role_does_not_allow_end_and_others_go_on() -> None:
    world = world_of()
    services = shop(world)
    asker = caller(world, "ada")
    world.core.engine.set_role(asker.peer, Role("all", ["*"], [], [ANY]), world.now)
    for stream_id, raw in ((1, address(environment="prod")), (3, address(environment="test")), (5, STOCK_ALL)):
        asker.request(REQUEST_STREAM, stream_id, raw)
    got = [[frame.stream_id for frame in wire.received()] for wire in services]
    assert [len(ids) for ids in got] == [2, 2, 1, 0]
    world.core.engine.set_role(asker.peer, ORDERS, world.now)
    world.pump()
    text = "denied: the role orders does not allow this request any more"
    assert asker.received() == [error(3, CANCELED, text)]
    ended = [[frame.stream_id for frame in wire.received() if frame.kind == CANCEL] for wire in services]
    assert ended == [[], got[1], got[2], []]
    for stream_id in got[0]:
        services[0].answer(stream_id, b"yes")
    assert sorted(frame.stream_id for frame in asker.received()) == [1, 5, 5]
    assert world.left_over() == []


def test_a_request_at_a_route_that_has_changed_its_tags_is_judged_by_what_it_is_now() -> None:
    world = world_of()
    services = shop(world)
    asker = caller(world)
    for stream_id in (1, 3):
        asker.request(REQUEST_STREAM, stream_id, address(environment="prod"))
    got = [cancelled(frame.stream_id) for frame in services[0].received()]
    services[0].announce(1, "stock", environment="test")
    assert asker.received() == []  # what runs goes on, until rights change
    world.core.engine.set_role(asker.peer, Role("orders", ["*"], [], ORDERS.address), world.now)
    world.pump()
    text = "denied: the role orders does not allow this request any more"
    assert (services[0].received(), asker.received()) == (got, [error(at, CANCELED, text) for at in (1, 3)])


@pytest.mark.parametrize("place", ["prod", "test"])
def test_a_request_at_a_route_that_has_left_is_judged_by_what_it_was(place: str) -> None:
    world = world_of()
    server = service(world, 1, "stock", environment=place)
    asker = caller(world, "ada")
    world.core.engine.set_role(asker.peer, Role("all", ["*"], [], [ANY]), world.now)
    asker.request(REQUEST_STREAM, 1, STOCK)
    server.fail(0, CONNECTION_CLOSE, "going")  # and it goes on with what it has
    world.core.engine.set_role(asker.peer, ORDERS, world.now)
    world.pump()
    text = "denied: the role orders does not allow this request any more"
    assert asker.received() == [error(1, CANCELED, text)] * (place == "test")


def test_to_a_multicast_that_has_not_begun_everywhere_a_new_role_counts() -> None:
    world = world_of()
    wires = [service(world, number, "stock", environment="prod") for number in range(1, MAX_BRANCHES_PER_TURN + 50)]
    test = service(world, 5000, "stock", environment="test")
    asker = caller(world, "ada")
    world.core.engine.set_role(asker.peer, Role("all", ["*"], [], [ANY]), world.now)
    raw = encode_request(REQUEST_STREAM, 1, b"x", addressed(STOCK_ALL), 8)
    world.core.receive(asker.peer, framed(raw), world.now)  # the branches open in the turns that follow
    world.core.engine.set_role(asker.peer, ORDERS, world.now)
    world.pump()
    assert (sum(len(wire.received()) for wire in wires), test.received()) == (len(wires), [])


def test_sticky_choices_of_two_roles_do_not_unsettle_each_other() -> None:
    world = world_of()
    services = [service(world, number, "stock", environment="prod") for number in (1, 2)]
    services += [service(world, number, "stock", environment="test") for number in (3, 4)]
    askers = [caller(world), caller(world, "ada")]
    world.core.engine.set_role(askers[1].peer, Role("test", ["*"], [], [TEST]), world.now)
    raw = address(0, [(STICKY_ROUTE_KEY, "user")], service="stock", user="7")
    found: list[list[int]] = []
    for turn in range(3):
        for asker in askers:
            asker.request(REQUEST_RESPONSE, 2 * turn + 1, raw)
            found.append(reached(services))
    assert found == found[:2] * 3


# Origins


def with_origin(number: int) -> bytes:
    return Address(route_id(number), tags_of({"service": "billing"})).encode()


def test_the_origin_of_an_address_is_no_route_of_another_identity() -> None:
    world = world_of()
    services = [service(world, 1, "billing")]
    asker = caller(world)
    asker.request(REQUEST_RESPONSE, 1, with_origin(7))  # nobody's
    asker.request(REQUEST_RESPONSE, 3, with_origin(7))
    assert reached(services) == [1]
    victim = service(world, 7, "mail")
    text = f"the origin of the ADDRESS, {id_text(route_id(7))}, is a route of another identity"
    for turn in range(2):  # also of the request that was all right until then
        asker.request(REQUEST_RESPONSE, 5 + 2 * turn, with_origin(7))
        assert asker.one() == denied(5 + 2 * turn, text)
    asker.push(addressed(with_origin(7)))
    assert reached(services) == []
    victim.lose()
    asker.request(REQUEST_RESPONSE, 9, with_origin(7))
    assert reached(services) == [1]


def test_of_many_addresses_each_origin_is_looked_at() -> None:
    world = world_of()
    services = [service(world, 1, "billing")]
    asker = caller(world)
    service(world, 7, "mail")
    text = f"the origin of the ADDRESS, {id_text(route_id(7))}, is a route of another identity"
    for turn in range(3):
        asker.request(REQUEST_RESPONSE, 8 * turn + 1, with_origin(8))  # nobody's
        asker.request(REQUEST_RESPONSE, 8 * turn + 3, with_origin(9))
        assert len(reached(services)) == 1
        asker.request(REQUEST_RESPONSE, 8 * turn + 5, with_origin(7))
        assert asker.one() == denied(8 * turn + 5, text)
    late = service(world, 9, "mail")
    asker.request(REQUEST_RESPONSE, 41, with_origin(9))
    assert asker.one() == denied(41, text.replace(id_text(route_id(7)), id_text(route_id(9))))
    late.lose()


def test_a_connection_names_its_own_route_and_those_of_its_identity() -> None:
    world = world_of()
    billing = [service(world, 1, "CN=ada-x")]
    wires = [world.connect(origin=("", "certificate:CN=ada")) for _ in range(2)]
    for number, wire in enumerate(wires, 7):
        wire.send(setup(announcement(number, "mail")))
    for turn, number in enumerate((7, 8)):
        raw = Address(route_id(number), tags_of({"service": "CN=ada-x"})).encode()
        wires[0].request(REQUEST_RESPONSE, 2 * turn + 1, raw)
        assert reached(billing) == [1]


def test_annotations_of_a_client_with_a_role_decide_nothing() -> None:
    world = world_of(from_clients="accept")
    services = shop(world)
    asker = caller(world)
    section = Annotations(0, f"route:{id_text(route_id(2))}", "b9", ["b9"]).encode()
    metadata = composite((ANNOTATIONS_MIME.decode(), section), (MIME_TYPE, address(environment="test")))
    asker.send(encode_request(REQUEST_RESPONSE, 1, b"x", metadata))
    assert (asker.one().text.partition(":")[0], reached(services)) == ("denied", [])


# Observed, told and counted


def test_with_observe_everybody_reaches_everything_and_it_is_told_and_counted() -> None:
    world = world_of("observe")
    services = shop(world)
    asker = caller(world)
    for turn in range(3):
        asker.request(REQUEST_RESPONSE, 2 * turn + 1, address(environment="test"))
        asker.request(REQUEST_RESPONSE, 2 * turn + 101, address(service="billing"))
    asker.request(REQUEST_FNF, 201, with_origin(1))
    assert (asker.received(), reached(services)) == ([], [2, 3, 4])
    assert world.core.engine.denials.by_end == {"refused": 0, "observed": 4}
    world.advance(1.0)
    (event,) = [event for event in world.events() if event.name == "Denied"]
    why = f"certificate:CN=orders: the origin of the ADDRESS, {id_text(route_id(1))}, is a route of another identity"
    assert (event.requests, event.reason, event.detail) == (4, "denied", why)


def test_refused_requests_are_told_once_a_second_for_each_identity() -> None:
    world = world_of()
    shop(world)
    for number in range(MAX_IDENTITIES + 3):
        asker = caller(world, f"{number}")
        for turn in range(2):
            asker.request(REQUEST_FNF, 2 * turn + 1, STOCK)
    happened = world.core.take_events()
    assert [event for event in happened if isinstance(event, LifecycleEvent) and event.name == "Denied"] == []
    world.advance(1.0)
    happened = world.core.take_events()
    told = [event.requests for event in happened if isinstance(event, LifecycleEvent) and event.name == "Denied"]
    counted = [event.requests for event in happened if isinstance(event, FlowRecord) and event.word == "denied"]
    assert (told, sum(counted)) == ([2] * MAX_IDENTITIES + [6], 2 * MAX_IDENTITIES + 6)
    assert world.core.engine.denials.by_end["refused"] == 2 * MAX_IDENTITIES + 6
    for seconds, events_n in ((0.0, 0), (0.5, 0), (1.0, 1)):
        asker.request(REQUEST_FNF, asker.peer.requests * 2 + 1, STOCK)
        world.advance(seconds)
        assert len([event for event in world.events() if event.name == "Denied"]) == events_n
