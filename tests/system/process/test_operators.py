"""What operators change in a broker with real sockets happens at once, not with the next request."""

from admin_api.backends.one import end_connection
from broker.server import Server
from rsocket_wire.errors import CONNECTION_CLOSE
from rsocket_wire.rsocket.frames import ERROR, REQUEST_RESPONSE
from rsocket_wire.wire.tags import Tag
from tests.conftest import MakeServer
from tests.fakes import route_id
from tests.system.support.waits import until
from tests.system.support.wires import Wire

EU = Tag.of("region", "eu")


def url_of(server: Server) -> str:
    return server.listeners[0]


async def last_word(wire: Wire) -> tuple[int, int, str]:
    """The ERROR that is all that still comes, as kind, code and code word; the broker closes behind it."""
    (frame,) = await wire.rest()
    return frame.kind, frame.code, frame.text.partition(":")[0]


async def test_a_drained_route_is_told_to_go_when_it_is_idle(server: Server) -> None:
    service = await Wire.service(url_of(server), "orders", 1)
    server.change(lambda core, now: core.lifecycle.drains.drain_route(route_id(1), 60, 0, True, now))
    assert await last_word(service) == (ERROR, CONNECTION_CLOSE, "draining")


async def test_a_drained_tag_gets_nothing_new_until_it_is_undrained(server: Server) -> None:
    service = await Wire.service(url_of(server), "orders", 1, region="eu")
    caller = await Wire.caller(url_of(server))
    server.change(lambda core, now: core.lifecycle.drains.drain_tag(EU, 60, 60, False, now))
    assert (await caller.ask("orders")).text.startswith("draining:")
    assert server.change(lambda core, now: core.lifecycle.drains.undrain_tag(EU, now))
    caller.request("orders")
    assert (await service.receive()).kind == REQUEST_RESPONSE
    assert not server.change(lambda core, now: core.lifecycle.drains.undrain_tag(EU, now))


async def test_requests_that_wait_for_what_is_drained_go_on_when_it_is_undrained(make_server: MakeServer) -> None:
    server = await make_server(**{"routing.no_route": "wait", "routing.no_route_timeout_s": 60})
    service = await Wire.service(url_of(server), "orders", 1)
    caller = await Wire.caller(url_of(server))
    server.change(lambda core, now: core.lifecycle.drains.drain_route(route_id(1), 60, 60, False, now))
    caller.request("orders", b"a book")
    await until(lambda: server.core.engine.pending.size)
    assert server.change(lambda core, now: core.lifecycle.drains.undrain_route(route_id(1), now))
    assert (await service.receive()).data == b"a book"


async def test_a_drained_broker_sends_everybody_away_and_takes_nobody(server: Server) -> None:
    caller = await Wire.caller(url_of(server))
    server.change(lambda core, now: core.lifecycle.drains.drain_broker(60, 0, True, now))
    assert await last_word(caller) == (ERROR, CONNECTION_CLOSE, "draining")
    assert server.change(lambda core, now: core.lifecycle.drains.undrain_broker(now))
    await Wire.caller(url_of(server))


async def test_requests_of_a_redirected_service_go_to_the_other_one_until_it_is_taken_back(server: Server) -> None:
    orders = await Wire.service(url_of(server), "orders", 1)
    green = await Wire.service(url_of(server), "green", 2)
    caller = await Wire.caller(url_of(server))
    server.change(lambda core, now: core.cluster.set_redirect("orders", "green", now))
    caller.request("orders", b"a book")
    assert (await green.receive()).data == b"a book"
    assert server.change(lambda core, now: core.cluster.remove_redirect("orders", now))
    caller.request("orders", b"a pen")
    assert (await orders.receive()).data == b"a pen"
    assert not server.change(lambda core, now: core.cluster.remove_redirect("orders", now))


async def test_requests_that_wait_go_to_where_they_are_redirected(make_server: MakeServer) -> None:
    server = await make_server(**{"routing.no_route": "wait", "routing.no_route_timeout_s": 60})
    green = await Wire.service(url_of(server), "green", 2)
    caller = await Wire.caller(url_of(server))
    caller.request("orders", b"a book")
    await until(lambda: server.core.engine.pending.size)
    server.change(lambda core, now: core.cluster.set_redirect("orders", "green", now))
    assert (await green.receive()).data == b"a book"


async def test_a_connection_that_an_operator_closes_is_told_so_at_once(server: Server) -> None:
    first, second = await Wire.caller(url_of(server)), await Wire.caller(url_of(server))
    assert server.change(lambda core, now: end_connection(core, 1, now))
    assert await last_word(first) == (ERROR, CONNECTION_CLOSE, "closed-by-operator")
    assert not server.change(lambda core, now: end_connection(core, 1, now))
    await second.ping()
