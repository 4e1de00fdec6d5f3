"""Back pressure: who is paused, who is told, and who ends when too much waits."""

from broker.connections.back_pressure import TOLD_S
from broker.core import CoreSettings
from broker.routing.table import Route
from rsocket_wire.rsocket.frames import REQUEST_FNF, encode_request
from tests.fakes import Wire, World, address, addressed


def congested(world: World) -> tuple[Wire, Wire]:
    """A caller, and the service `orders` whose transport takes nothing."""
    service, caller = world.service("orders", 1), world.caller()
    world.core.congested(service.peer)
    return caller, service


def test_a_congested_route_is_told_at_once_and_held_for_a_while() -> None:
    world = World()
    _, service = congested(world)
    pressure = world.core.lifecycle.back_pressure
    route = service.peer.route
    assert isinstance(route, Route)
    assert (pressure.take_congested(world.now), pressure.take_congested(world.now)) == ([route], [])
    pressure.release(service.peer, world.now)
    assert pressure.take_relieved(world.now + TOLD_S / 2) == []
    assert pressure.take_relieved(world.now + 2 * TOLD_S) == [route]
    assert pressure.take_relieved(world.now + 2 * TOLD_S) == []


def test_the_request_that_holds_most_ends_and_no_connection() -> None:
    world = World(CoreSettings(max_buffered_bytes=5000))
    _, service = congested(world)
    for number, size in enumerate((100, 9000, 100)):
        raw = encode_request(REQUEST_FNF, 2 * number + 2, bytes(size), addressed(address(service="orders")))
        service.peer.request(raw)
    pressure = world.core.lifecycle.back_pressure
    assert pressure.shed(world.now) is None
    assert 0 < pressure.outbound.used_bytes <= 5000
    (dropped,) = world.core.engine.drops.take(world.now + 100)
    assert (dropped.service, dropped.requests_n) == ("orders", 1)
