"""ROUTE_SETUPs make, change and replace the routes of connections."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED, REJECTED_SETUP
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0, RouteSetup
from tests.fakes import World, address, composite, error, moved, route_id, routes_in

ORDERS = address(service="orders")


def test_a_connection_may_change_the_tags_of_its_route() -> None:
    world = World()
    service = world.service("orders", 1, region="eu")
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu"))
    service.announce(1, "orders", region="us")
    assert routes_in(world) == [["orders", "us"]]
    service.received()
    service.answer(2, b"what ran goes on")
    assert [frame.data for frame in caller.received()] == [b"what ran goes on"]
    caller.request(REQUEST_RESPONSE, 3, address(service="orders", region="eu"))
    assert [frame.code for frame in caller.received()] == [REJECTED]
    request = caller.request(REQUEST_FNF, 5, address(service="orders", region="us"))
    assert service.received() == [moved(request, 4)]
    (route,) = world.core.table.routes()
    assert route.load.requests == 2
    assert world.left_over() == []


def test_a_connection_may_change_the_id_of_its_route() -> None:
    world = World()
    service = world.service("orders", 1)
    service.announce(2, "stock")
    assert routes_in(world) == [["stock"]]
    assert world.core.table.find(route_id(1)) is None


@pytest.mark.parametrize(("is_later", "code"), [(False, REJECTED_SETUP), (True, CONNECTION_ERROR)])
def test_a_route_with_more_tags_than_it_may_have_is_refused(is_later: bool, code: int) -> None:
    """The conformance tests have what else cannot be a route. Protocol: a client MUST ignore an ERROR[…
    REJECTED_SETUP …] after it has completed connection establishment.
    """
    world = World(CoreSettings(max_tags_per_route=3))
    tags: dict[str, str | None] = {"a": "1", "b": "2", "c": "3", "d": "4"}
    if is_later:
        wire = world.service("orders", 1)
        wire.announce(1, "orders", **tags)
    else:
        wire = world.service("orders", 1, **tags)  # type: ignore[arg-type]
    assert wire.received() == [error(0, code, "bad-route: 4 tags, limits.max_tags_per_route is 3")]
    assert (wire.is_closed, routes_in(world), world.core.table.index.size()) == (True, [], 0)


@pytest.mark.parametrize("is_later", [False, True])
def test_the_last_of_several_route_setups_counts(is_later: bool) -> None:
    """D-69."""
    world = World()
    setups = [RouteSetup(route_id(1), name, []).encode() for name in ("orders", "stock")]
    metadata = composite((MIME_TYPE, setups[0]), ("text/plain", b"x"), (MIME_TYPE_V0, setups[1]))
    wire = world.caller(metadata=None if is_later else metadata)
    if is_later:
        wire.push(metadata)
    assert (wire.is_closed, routes_in(world)) == (False, [["stock"]])


def test_as_many_tags_as_the_limit_says_are_taken() -> None:
    world = World(CoreSettings(max_tags_per_route=3))
    world.service("orders", 1, a="1", b="2", c="3")
    assert routes_in(world) == [["orders", "1", "2", "3"]]


def test_composite_metadata_of_a_setup_that_breaks_off_is_refused() -> None:
    wire = World().caller(metadata=composite((MIME_TYPE, b"abc"))[:-1])
    text = "bad-route: the composite metadata of the SETUP is truncated"
    assert wire.received() == [error(0, REJECTED_SETUP, text)]


@pytest.mark.parametrize("metadata", [None, b"", composite(("text/plain", b"hello"))])
def test_a_connection_without_a_route_is_a_caller(metadata: bytes | None) -> None:
    world = World()
    wire = world.caller(metadata=metadata)
    assert (wire.is_closed, routes_in(world), wire.peer.route) == (False, [], None)


def test_metadata_of_another_mime_type_is_nobodys_business() -> None:
    world = World()
    wire = world.caller(metadata_mime="application/json", metadata=b"{}")
    assert (wire.is_closed, routes_in(world)) == (False, [])


# D-09: the same Route Id again


def test_a_replaced_connection_that_still_sends_is_not_heard() -> None:
    world = World()
    first = world.service("orders", 1)
    second = world.service("orders", 1)
    first.received()
    first.request(REQUEST_FNF, 1, ORDERS)
    first.announce(1, "orders")
    assert (first.received(), second.received(), second.is_closed) == ([], [], False)
