"""One connection after the other has a Route Id, or one connection has several of them, at several brokers. D-09"""

from __future__ import annotations

import pytest

from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.wire.frames import MULTICAST
from tests.fakes import address
from tests.invariants import check_masks
from tests.topology import line, linked, route_text


@pytest.mark.parametrize("service", ["orders", "stock"])
def test_a_connection_that_says_another_route_id_leaves_the_old_one_to_another_broker(service: str) -> None:
    """What b1 has under the old id is a far route at b2, and the connection's new route is a near one; `service`: the
    name that it has there.
    """
    net = linked(line(2))
    first = net.worlds["b1"].service("orders", 1, region="eu")
    net.pump()
    b2 = net.worlds["b2"]
    other = b2.service("orders", 3)
    second = b2.service("orders", 1, region="us")
    second.announce(2, service)  # before b1 hears of the first one
    check_masks(b2.core)
    caller = b2.caller()
    caller.request(REQUEST_FNF, 1, address(MULTICAST, service="orders", region="eu"))
    b2.core.tick(b2.now, b2.at_ms)
    for number in range(4):
        caller.request(REQUEST_RESPONSE, 2 * number + 3, address(service=service))
    got = [len(wire.received()) for wire in (second, other)]
    assert got == ([2, 2] if service == "orders" else [4, 0])
    net.pump()
    net.advance(3.0)
    for world in net.worlds.values():
        check_masks(world.core)
    assert first.is_closed  # the second connection had its id, once
    expected = {route_text(2): "b2", route_text(3): "b2"}
    assert net.tables() == {"b1": expected, "b2": expected}
