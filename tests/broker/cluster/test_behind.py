"""A service that reads slowly behind links: its callers wait at their own broker, and nothing is lost (D-63)."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE, encode_request
from rsocket_wire.wire.frames import MULTICAST
from tests.broker.forwarding.brokers import Broker
from tests.broker.forwarding.interbroker.test_shared_links import ORDERS, Way
from tests.fakes import Wire, address, addressed

ALL = addressed(address(MULTICAST, service="orders"))
SOON_S = 1.0  # until other brokers have heard of it


def send_until_paused(way: Way, caller: Wire, metadata: bytes = ORDERS, kind: int = REQUEST_FNF) -> int:
    """Requests that the caller sends before it is not read from; how many."""
    sent_n = 0
    while not caller.is_paused:
        caller.send(encode_request(kind, 1001 + 2 * sent_n, b"%d" % sent_n, metadata, 0))
        sent_n += 1
        way.net.pump()
        assert sent_n < 100
    return sent_n


@pytest.mark.parametrize("metadata", [ORDERS, ALL])
@pytest.mark.parametrize("brokers_n", [2, 3])
def test_a_caller_of_a_far_service_that_reads_slowly_waits_and_nothing_is_lost(brokers_n: int, metadata: bytes) -> None:
    way = Way(brokers_n)
    caller, bystander = way.caller(), way.caller()
    way.service.block()
    sent_n = send_until_paused(way, caller, metadata)
    assert sent_n == 2  # at the first one the service's own broker tells the others
    assert not bystander.is_paused
    way.service.unblock()
    way.net.advance(SOON_S)
    assert not caller.is_paused
    assert [frame.data for frame in way.service.received()] == [b"%d" % number for number in range(sent_n)]
    assert way.service.world.core.engine.drops.total_n == 0


def test_a_service_that_is_behind_for_moments_is_behind_for_other_brokers_all_the_while() -> None:
    """Or what a caller sends within the next quarter of a second finds no room, whenever it catches up for a moment."""
    way = Way(2)
    way.service.block()
    send_until_paused(way, way.caller())
    way.service.unblock()
    way.net.advance(0.05)
    caller = way.caller()
    way.service.block()
    assert send_until_paused(way, caller) == 1


def test_other_brokers_hear_of_a_service_that_is_behind_though_nobody_says_anything() -> None:
    way = Way(2)
    way.net.advance(SOON_S)
    way.service.block()
    way.net.advance(0.11)
    assert send_until_paused(way, way.caller()) == 1


@pytest.mark.parametrize("gone", ["route", "link"])
def test_callers_go_on_when_the_route_that_was_behind_or_the_link_to_it_is_gone(gone: str) -> None:
    way = Way(2)
    caller = way.caller()
    way.service.block()
    send_until_paused(way, caller, kind=REQUEST_RESPONSE)
    if gone == "route":
        way.service.lose()
        way.net.advance(SOON_S)
    else:
        way.net.break_link("b1", "b2")
        way.net.worlds["b1"].advance(0.1)
    assert (caller.is_paused, caller.peer.paused_by) == (False, {})


def test_who_has_waited_for_a_route_that_is_behind_waits_for_it_and_nobody_else_does() -> None:
    """The request is let in by a tick: whoever sends something next has nothing to do with it."""
    broker = Broker("b1", CoreSettings(no_route="wait"))
    route = broker.far(broker.remote("b2", broker.link("b2")), "orders", 7)
    caller, bystander = broker.caller(), broker.caller()
    broker.service("local", 8)
    masks = broker.core.table.masks
    masks.put(masks.draining, route.slot)
    caller.request(REQUEST_FNF, 1, address(service="orders"))
    route.load.is_behind = True
    masks.take(masks.draining, route.slot)
    broker.advance(0.1)
    bystander.request(REQUEST_FNF, 1, address(service="local"))
    assert (broker.core.engine.pending.size, caller.is_paused, bystander.is_paused) == (0, True, False)
    route.load.is_behind = False
    broker.advance(0.1)
    assert (caller.is_paused, caller.peer.paused_by) == (False, {})


def test_callers_that_come_feed_and_go_leave_nothing() -> None:
    way = Way(2)
    way.service.block()
    for _ in range(5):
        caller = way.caller()
        send_until_paused(way, caller)
        caller.lose()
    way.net.advance(SOON_S)
    assert way.net.worlds["b1"].core._back_pressure.behind == {}


def test_a_service_that_is_often_behind_for_a_moment_is_no_flood_of_words() -> None:
    way = Way(2)
    end = way.net.link("b2", "b1")
    before = len(end.seen)
    for _ in range(100):
        way.service.block()
        way.caller().send(encode_request(REQUEST_FNF, 1, b"", ORDERS, 0))
        way.net.pump()
        way.service.unblock()
    assert len(end.seen) - before < 10
