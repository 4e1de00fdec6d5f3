"""A link is many callers at once: what bounds one client must not end it, nor refuse what only passes through."""

from __future__ import annotations

from itertools import pairwise

import pytest

from broker.core import CoreSettings
from broker.rsocket.frames import (
    COMPLETE,
    FOLLOWS,
    NEXT,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    encode_payload,
    encode_request,
)
from tests.fakes import Frame, Wire, address, addressed
from tests.topology import LINKED_S, Net

ORDERS = addressed(address(service="orders"))


class Way:
    """A line of brokers: callers at the first one, one service at the last one."""

    def __init__(self, brokers_n: int, **limits: int) -> None:
        names = [f"b{number + 1}" for number in range(brokers_n)]
        edges = list(pairwise(names))
        self.net = Net(names, edges, make=lambda name: CoreSettings(broker_name=name, **limits))
        self.net.advance(LINKED_S)
        self.service = self.net.worlds[names[-1]].service("orders", 1)
        self.net.pump()
        self.service.received()

    def caller(self) -> Wire:
        wire = self.net.worlds["b1"].caller()
        self.net.pump()
        return wire

    def ask(self, caller: Wire, stream_id: int, data: bytes = b"data", kind: int = REQUEST_RESPONSE) -> list[Frame]:
        """One request; what the service gets of it."""
        caller.send(encode_request(kind, stream_id, data, ORDERS))
        self.net.pump()
        return self.service.received()

    def ended(self) -> list[str]:
        """Links that are no more, and why."""
        return [end.peer.end_detail for end in self.net.ends if end.is_lost]


def test_a_request_of_the_longest_frame_that_clients_may_send_fits_on_a_link() -> None:
    """What is put in front of it counts for nobody, and the link does not end over it."""
    way = Way(3, max_frame_bytes=2000)
    caller = way.caller()
    request = encode_request(REQUEST_RESPONSE, 1, b"", ORDERS)
    data = bytes(2000 - len(request))
    assert [len(frame.raw) for frame in way.ask(caller, 1, data)] == [2000]
    assert way.ended() == []
    way.service.send(encode_payload(2, NEXT | COMPLETE, b"answer"))
    way.net.pump()
    assert caller.received() == [Frame(encode_payload(1, NEXT | COMPLETE, b"answer"))]


def test_small_fragments_of_many_callers_together_are_no_flood_of_their_link() -> None:
    """D-43: each caller is measured where it is connected."""
    way = Way(2, max_small_fragments_per_s=5)
    for _ in range(4):
        caller = way.caller()
        caller.send(encode_request(REQUEST_RESPONSE, 1, b"", ORDERS, flags=FOLLOWS))
        for _ in range(45):
            caller.send(encode_payload(1, NEXT | FOLLOWS, b"."))
        way.net.pump()
    assert way.ended() == []
    assert len(way.service.received()) == 4 * 46


@pytest.mark.parametrize("kind", [REQUEST_RESPONSE, REQUEST_FNF])
@pytest.mark.parametrize("drained", ["b2", "b3"])
def test_a_broker_that_drains_carries_what_others_have_decided(drained: str, kind: int) -> None:
    """D-42, D-50: it is on the way, or the decision fell before the others knew."""
    way = Way(3)
    way.net.worlds[drained].core.drain()
    assert [frame.kind for frame in way.ask(way.caller(), 1, kind=kind)] == [kind]
