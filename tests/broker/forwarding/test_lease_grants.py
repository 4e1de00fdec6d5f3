"""Leases (D-19): a destination that grants requests is never sent more than it granted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core import CoreSettings
from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket.frames import LEASE, REQUEST_FNF, REQUEST_RESPONSE, encode_keepalive, encode_lease
from rsocket_wire.wire.frames import MULTICAST, SHARD
from rsocket_wire.wire.keys import SHARD_KEY
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import Wire, World, address, addressed, ask, orders

ORDERS = address(service="orders")
GRANT = bytes.fromhex("00000000 0800 7fffffff 7fffffff")  # what the broker grants: 24 days, 2^31-1 requests


def leased(world: World, number: int = 1, framed: bool = True) -> Wire:
    """A service that asks for leases."""
    wire = world.service("orders", number, framed, wants_lease=True)
    assert [frame.raw for frame in wire.received()] == [GRANT]
    return wire


def leased_orders(settings: CoreSettings | None = None, framed: bool = True) -> tuple[World, Wire, Wire]:
    """A broker, its service `orders`, which asks for leases, and a caller."""
    world = World(settings)
    return world, leased(world, framed=framed), world.caller()


def leased_caller(world: World) -> Wire:
    """A connection that asks for leases and offers nothing."""
    wire = world.caller(wants_lease=True)
    assert [frame.raw for frame in wire.received()] == [GRANT]
    return wire


def grant(wire: Wire, requests_n: int, ttl_ms: int = 60_000) -> None:
    wire.send(encode_lease(ttl_ms, requests_n))


@pytest.mark.parametrize("kind", MODELS)
def test_before_its_first_lease_it_is_sent_nothing(kind: int) -> None:
    _, service, caller = leased_orders()
    ask(caller, 1, kind)
    assert service.received() == []
    if kind != REQUEST_FNF:
        (frame,) = caller.received()
        assert (frame.code, frame.text.partition(":")[0]) == (REJECTED, "no-lease")


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("kind", MODELS)
def test_it_is_sent_exactly_what_it_granted(kind: int, framed: bool) -> None:
    _, service, caller = leased_orders(framed=framed)
    grant(service, 3)
    ask(caller, 5, kind)
    assert [frame.kind for frame in service.received()] == [kind] * 3
    grant(service, 1)
    ask(caller, 5, kind)
    assert [frame.kind for frame in service.received()] == [kind]


def test_a_lease_looks_at_no_more_waiting_requests_than_it_lets_in() -> None:
    world, service, caller = leased_orders(CoreSettings(no_route="wait"))
    ask(caller, 50)
    before = world.core.engine.query.hits
    grant(service, 2)
    assert len(service.received()) == 2
    assert world.core.engine.query.hits - before == 2


def test_a_lease_beside_grants_that_are_left_looks_at_no_waiting_request() -> None:
    world, service, caller = leased_orders(CoreSettings(no_route="wait"))
    ask(caller, 50, raw=address(service="orders", region="eu"))
    grant(service, 2)
    before = world.core.engine.query.hits
    grant(service, 2)
    assert world.core.engine.query.hits == before


def test_grants_end_with_their_time() -> None:
    world, service, caller = leased_orders()
    grant(service, 100, 1000)
    ask(caller, 1)
    world.advance(0.999)
    ask(caller, 1)
    assert len(service.received()) == 2
    world.advance(0.001)
    ask(caller, 1)
    assert service.received() == []


def test_a_later_lease_takes_the_place_of_an_earlier() -> None:
    world, service, caller = leased_orders()
    grant(service, 100, 1000)
    grant(service, 2, 60_000)
    world.advance(2)  # the first one's time
    ask(caller, 5)
    assert len(service.received()) == 2
    grant(service, 5)
    grant(service, 0)
    ask(caller, 1)
    assert service.received() == []
    grant(service, 5, 0)
    ask(caller, 1)
    assert service.received() == []


def test_routes_with_grants_left_are_chosen() -> None:
    world = World()
    first, second, third = leased(world, 1), leased(world, 2), world.service("orders", 3)
    caller = world.caller()
    grant(first, 2)
    ask(caller, 9)
    assert [len(wire.received()) for wire in (first, second, third)] == [2, 0, 7]


def test_all_callers_share_the_grants() -> None:
    world = World()
    service, callers = leased(world), [world.caller() for _ in range(4)]
    grant(service, 6)
    for caller in callers:
        ask(caller, 3, REQUEST_RESPONSE)
    assert len(service.received()) == 6
    assert sum(len(caller.received()) for caller in callers) == 6


def test_a_multicast_goes_to_those_that_have_a_grant_left() -> None:
    world = World()
    first, second = leased(world, 1), leased(world, 2)
    caller = world.caller()
    grant(first, 1)
    grant(second, 2)
    for _ in range(3):
        ask(caller, 1, REQUEST_RESPONSE, address(MULTICAST, service="orders"))
    assert [sum(frame.kind == REQUEST_RESPONSE for frame in wire.received()) for wire in (first, second)] == [1, 2]
    (frame,) = caller.received()
    assert frame.text.partition(":")[0] == "no-lease"


def test_the_owner_of_a_key_that_grants_nothing_has_no_deputy() -> None:
    world = World()
    services = [leased(world, number) for number in (1, 2)]
    caller = world.caller()
    raw = address(SHARD, [(SHARD_KEY, "user")], service="orders", user="7")
    for service in services:
        grant(service, 1)
    ask(caller, 2, REQUEST_RESPONSE, raw)
    assert sorted(len(service.received()) for service in services) == [0, 1]
    assert [frame.text.partition(":")[0] for frame in caller.received()] == ["no-lease"]


def test_a_push_needs_no_grant() -> None:
    _, service, caller = leased_orders()
    grant(service, 1)
    caller.push(addressed(ORDERS))
    caller.push(addressed(ORDERS))
    ask(caller, 1)
    assert [frame.name for frame in service.received()] == ["METADATA_PUSH"] * 2 + ["REQUEST_FNF"]


def test_grants_stay_when_the_tags_change_and_when_the_name_does() -> None:
    _, service, caller = leased_orders()
    grant(service, 3)
    ask(caller, 1)
    service.announce(1, "orders", region="eu")
    ask(caller, 1)
    service.announce(1, "stock")
    ask(caller, 2, REQUEST_FNF, address(service="stock"))
    assert len(service.received()) == 3


def test_a_lease_that_comes_before_the_route_counts() -> None:
    world = World()
    service, caller = leased_caller(world), world.caller()
    grant(service, 1)
    service.announce(1, "orders")
    ask(caller, 2)
    assert len(service.received()) == 1


def test_a_lease_of_one_that_did_not_ask_for_leases_is_ignored() -> None:
    world, service, caller = orders()
    grant(service, 1)
    ask(caller, 3)
    assert len(service.received()) == 3
    assert world.core.engine.ignored == 1


def test_a_lease_that_is_too_short_is_ignored() -> None:
    _, service, caller = leased_orders()
    grant(service, 2)
    service.send(encode_lease(0, 0)[:-1])
    ask(caller, 3)
    assert len(service.received()) == 2


def test_who_asked_for_leases_may_call() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = leased_caller(world)
    ask(caller, 5)
    assert len(service.received()) == 5


def test_the_broker_grants_again_before_its_grant_ends() -> None:
    world = World()
    caller = leased_caller(world)
    renewed = 0
    for _ in range(30 * 24):
        for _ in range(60):
            world.now += 60
            world.core.tick(world.now, world.at_ms)
            caller.send(encode_keepalive(b""))
        renewed += sum(frame.kind == LEASE for frame in caller.received())
    assert renewed == 2  # in 30 days


@given(st.lists(st.tuples(st.sampled_from(["grant", "ask", "wait"]), st.integers(0, 4)), max_size=50))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_never_more_than_granted_whatever_happens(steps: list[tuple[str, int]]) -> None:
    world, service, caller = leased_orders()
    left, until = 0, 0.0
    for step, n in steps:
        if step == "grant":
            grant(service, n, 2000)
            left, until = n, world.now + 2
        elif step == "wait":
            world.advance(n / 2)
        else:
            ask(caller, n)
            allowed = min(n, left) if world.now < until else 0
            assert len(service.received()) == allowed
            left -= allowed
