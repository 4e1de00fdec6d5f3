"""Requests that were dropped without anybody to tell: counted, and told by service or link."""

import pytest

from broker.core import CoreSettings
from broker.events import REQUESTS_DROPPED
from rsocket_wire.rsocket.frames import REQUEST_FNF
from rsocket_wire.wire.frames import MULTICAST, UNICAST
from tests.broker.forwarding.brokers import decided, ingress, last
from tests.fakes import address


def test_fire_and_forgets_for_a_service_that_is_full_are_counted_and_told_once_a_second() -> None:
    """Nobody else could be told."""
    broker, service, link = last(CoreSettings(max_pending_bytes=1000))
    service.fill(500)
    broker.events()
    for stream_id in (1, 3, 5):
        link.send(decided(stream_id, REQUEST_FNF))
    broker.advance(1.0)
    told = [event for event in broker.events() if event.kind == REQUESTS_DROPPED]
    text = "3 fire-and-forgets or pushes dropped: too many bytes wait for its routes"
    assert [(event.service, event.reason, event.detail) for event in told] == [("orders", "over-limit", text)]
    assert [event.requests for event in told] == [3]
    assert broker.core.engine.drops.total_n == 3


@pytest.mark.parametrize("flags", [UNICAST, MULTICAST])
def test_fire_and_forgets_that_find_no_room_on_a_link_are_told_under_its_name(flags: int) -> None:
    """For which service they were is not known any more."""
    broker, link = ingress(CoreSettings(max_buffered_bytes=100_000))
    caller = broker.caller()
    link.block()
    broker.events()
    for number in range(5):
        caller.request(REQUEST_FNF, 1 + 2 * number, address(flags, service="orders"), bytes(30_000))
    broker.advance(1.0)
    [told] = [event for event in broker.events() if event.kind == REQUESTS_DROPPED]
    assert (told.service, told.peer, told.requests) == ("", link.peer.name, 2)
    assert told.detail == "b2: 2 fire-and-forgets or pushes dropped: too many bytes wait for the link"
