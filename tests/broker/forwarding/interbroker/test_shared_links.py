"""A link is many callers at once: what bounds one client must not end it, nor refuse what only passes through."""

from typing import Any

import pytest

from broker.connections.back_pressure import SENT_BYTES
from broker.core import CoreSettings
from broker.events import ROUTE_EJECTED
from broker.forwarding.request import LINK_METADATA_BYTES
from rsocket_wire.errors import APPLICATION_ERROR, CANCELED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import CANCEL, COMPLETE, ERROR, FOLLOWS, NEXT, PAYLOAD, REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST
from rsocket_wire.wire.ids import id_text
from tests.broker.forwarding.brokers import Broker
from tests.fakes import Frame, Wire, address, addressed, route_id
from tests.topology import LINKED_S, Net, in_a_line

ORDERS = addressed(address(service="orders"))


class Way:
    """A line of brokers: callers at the first one, one service at the last one."""

    def __init__(self, brokers_n: int, **limits: Any) -> None:
        names, edges = in_a_line(brokers_n)
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
        caller.send(frames.encode_request(kind, stream_id, data, ORDERS))
        self.net.pump()
        return self.service.received()

    def ended(self) -> list[str]:
        """Links that are no more, and why."""
        return [end.peer.end_detail for end in self.net.ends if end.is_lost]


def test_a_request_of_the_longest_frame_that_clients_may_send_fits_on_a_link() -> None:
    """What is put in front of it counts for nobody, and the link does not end over it."""
    way = Way(3, max_frame_bytes=2000)
    caller = way.caller()
    request = frames.encode_request(REQUEST_RESPONSE, 1, b"", ORDERS)
    data = bytes(2000 - len(request))
    assert [len(frame.raw) for frame in way.ask(caller, 1, data)] == [2000]
    assert way.ended() == []
    way.service.send(frames.encode_payload(2, NEXT | COMPLETE, b"answer"))
    way.net.pump()
    assert caller.received() == [Frame(frames.encode_payload(1, NEXT | COMPLETE, b"answer"))]


def test_small_fragments_of_many_callers_together_are_no_flood_of_their_link() -> None:
    """D-43: each caller is measured where it is connected."""
    way = Way(2, max_small_fragments_per_s=5)
    for _ in range(4):
        caller = way.caller()
        caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", ORDERS, flags=FOLLOWS))
        for _ in range(45):
            caller.send(frames.encode_payload(1, NEXT | FOLLOWS, b"."))
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


def test_a_slow_service_behind_a_link_has_the_room_that_it_has_for_callers_of_its_own() -> None:
    """Its transport may hold more while it is fed by a link; the link is read from all the time."""
    way = Way(2)
    core = way.service.world.core
    core.congested(way.service.peer)
    way.ask(way.caller(), 1)
    (caller,) = way.service.peer.paused_callers.values()
    assert (caller.link is not None, caller.is_paused) == (True, False)
    way.service.unblock()
    assert way.service.peer.paused_callers == {}
    core.congested(way.service.peer)
    way.ask(way.caller(), 1)
    way.net.break_link("b1", "b2")
    way.service.unblock()
    assert way.service.peer.paused_callers == {}


def test_a_large_request_for_a_service_that_does_not_read_ends_and_nobody_else_does() -> None:
    """Links are read from always: of what has come over them the request that holds most goes."""
    way = Way(2, max_pending_bytes=1000)
    large, small = way.caller(), way.caller()
    for caller in (large, small):
        caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"the data", ORDERS, flags=FOLLOWS))
        way.net.pump()
    way.service.received()
    way.service.block()
    small.send(frames.encode_payload(1, NEXT, b"little"))
    way.net.pump()
    piece = bytes(8 << 20)
    for _ in range(SENT_BYTES // len(piece) + 1):
        large.send(frames.encode_payload(1, NEXT | FOLLOWS, piece))
        way.net.pump()
    [ended] = large.received()
    assert (ended.kind, ended.code, ended.text[:11]) == (ERROR, CANCELED, "over-limit:")
    way.service.unblock()
    got = way.service.received()
    assert sorted((frame.stream_id, frame.kind) for frame in got) == [(2, CANCEL), (4, PAYLOAD)]
    assert (small.received(), way.ended()) == ([], [])
    small.send(frames.encode_cancel(1))
    way.net.pump()
    assert [world.left_over() for world in way.net.worlds.values()] == [[], []]


@pytest.mark.parametrize("raw_address", [address(service="orders"), address(MULTICAST, service="orders")])
def test_errors_of_one_far_caller_eject_no_route_that_serves_others_well(raw_address: bytes) -> None:
    """D-37: for the last broker all of them are one caller."""
    way = Way(2)
    content, stranger = way.caller(), way.caller()
    last = way.service.world

    def ejected_by(times: int, metadata: bytes) -> list[str]:
        for number in range(times):
            stranger.send(frames.encode_request(REQUEST_RESPONSE, 2 * number + 1, b"", metadata))
            way.net.pump()
            way.service.fail(way.service.received()[-1].stream_id, APPLICATION_ERROR, "no such thing")
            way.net.pump()
        stranger.received()
        last.advance(0.1)
        return [event.route_id for event in last.events() if event.kind == ROUTE_EJECTED]

    [asked] = way.ask(content, 1)
    way.service.answer(asked.stream_id, b"yes")
    way.net.pump()
    assert ejected_by(20, addressed(raw_address)) == []
    way.net.advance(31.0)  # nobody is served well any more
    assert ejected_by(5, ORDERS) == [id_text(route_id(1))]


def test_a_broker_that_chooses_for_a_link_judges_for_it_too() -> None:
    """D-37: without annotations nobody else does."""
    broker = Broker("b2", CoreSettings(require_annotations=False))
    service = broker.service("orders", 1)
    link = broker.link("b1", version=0)
    for number in range(6):
        link.request(REQUEST_RESPONSE, 2 * number + 1, address(service="orders"))
        asked = service.received()[-1].stream_id
        if number == 0:
            service.answer(asked, b"yes")
        else:
            service.fail(asked, APPLICATION_ERROR, "no")
    broker.advance(0.1)
    assert [event.route_id for event in broker.events() if event.kind == ROUTE_EJECTED] == [id_text(route_id(1))]


def test_metadata_that_does_not_end_takes_no_room_of_other_callers() -> None:
    """Of each request as much is held as of one client, of all of a link together up to a bound of their own."""
    most = LINK_METADATA_BYTES // 5
    padding = addressed(address(service="orders"), ("a/b", bytes(most)))
    first = frames.encode_request(REQUEST_RESPONSE, 1, b"", padding, flags=FOLLOWS)
    limit = len(first) + 400  # what is put in front of it counts
    net = Net(["b1", "b2"], [("b1", "b2")], make=lambda name: CoreSettings(broker_name=name, max_metadata_bytes=limit))
    net.advance(LINKED_S)
    net.worlds["b2"].service("orders", 1, metadata_mime=MIME_TYPE)  # so that metadata must be whole
    net.pump()
    answers: list[list[str]] = []
    for _ in range(5):
        caller = net.worlds["b1"].caller()
        caller.send(first)
        net.pump()
        answers.append([frame.text for frame in caller.received()])
    text = f"over-limit: no complete ADDRESS in 1 fragments; a connection may hold {LINK_METADATA_BYTES} bytes"
    assert answers == [[], [], [], [], [text]]
    large = net.worlds["b1"].caller()
    padding = addressed(address(service="orders"), ("a/b", bytes(most + 500)))
    large.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", padding, flags=FOLLOWS))
    net.pump()
    text = f"over-limit: no complete ADDRESS in 1 fragments; a connection may hold {limit} bytes "
    text += "(limits.max_metadata_bytes)"
    assert [frame.text for frame in large.received()] == [text]
