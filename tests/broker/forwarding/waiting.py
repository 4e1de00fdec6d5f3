"""A broker whose requests wait for a route, and what is left of them."""

from broker.core import CoreSettings
from rsocket_wire.wire.keys import Key
from tests.fakes import World, address

ORDERS = address(service="orders")
DEADLINE = Key.text("deadline_ms")
IN_VAIN = "no-route: no route has service=orders, after 5.0 s of waiting"


def waiting_world(**limits: int) -> World:
    return World(CoreSettings(no_route="wait", **limits))  # type: ignore[arg-type]


def held(world: World) -> tuple[int, int]:
    """Requests that wait, and their bytes."""
    return world.core.engine.pending.size, world.core.engine.pending.bytes_n


def nothing_left(world: World) -> bool:
    waiting = world.core.engine.pending
    rests = [(wire.peer.waiting_n, wire.peer.waiting_bytes) for wire in world.wires.values()]
    return not world.left_over() and waiting.size == waiting.bytes_n == 0 and set(rests) <= {(0, 0)}
