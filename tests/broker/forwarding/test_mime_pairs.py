"""Pairs of mime types: known as long as somebody uses them, and never taken for each other."""

import pytest

from broker.forwarding.settings import Settings
from rsocket_wire.errors import CONNECTION_ERROR
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE
from rsocket_wire.rsocket.metadata import encode_well_known_entry
from tests.fakes import World, address, addressed

PLAIN = address(service="orders")


def pairs(world: World) -> int:
    return len(world.core.engine.mimes)


def test_pairs_of_mime_types_are_known_as_long_as_a_connection_uses_them() -> None:
    """4,096 of them once kept all later clients with a new one out, until the broker ended."""
    world = World(Settings(max_connections=10_000))
    first = pairs(world)
    for number in range(5000):
        world.caller(data_mime=f"application/x-{number}").lose()
    assert pairs(world) == first
    callers = [world.caller(data_mime=f"application/x-{number % 4500}") for number in range(5000)]
    assert pairs(world) == first + 4500
    assert not any(caller.is_closed for caller in callers)
    for caller in callers[:4500]:
        caller.lose()
    assert pairs(world) == first + 500


@pytest.mark.parametrize("how", ["left", "refused", "failed", "ended"])
def test_pairs_are_forgotten_however_a_connection_ends(how: str) -> None:
    world = World()
    first = pairs(world)
    service = world.service("orders", 1, data_mime="application/x-1")
    if how == "left":
        service.lose()
    elif how == "refused":
        service.send(b"\x00\x00\x00\x00\x3d\x00")  # no frame of RSocket
    elif how == "failed":
        service.send(frames.encode_error(0, CONNECTION_ERROR, "tired"))
    else:
        world.core.stop("over", world.now)
    world.pump()
    assert pairs(world) == first
    service.lose()
    assert (pairs(world), service.peer.mimes) == (first, -1)


def test_a_request_that_waits_is_translated_by_the_pair_of_its_caller() -> None:
    """Also when pairs have come and gone since it came."""
    world = World(Settings(no_route="wait"))
    gone = world.caller(data_mime="application/x-1")
    caller = world.caller(data_mime="application/xml")
    caller.request(REQUEST_RESPONSE, 1, PLAIN)
    gone.lose()
    world.caller(data_mime="application/x-2")
    service = world.service("orders", 1)
    got = service.received()[-1]
    assert got.metadata == addressed(PLAIN) + encode_well_known_entry(0x7A, bytes([0x80 | 0x0A]))
