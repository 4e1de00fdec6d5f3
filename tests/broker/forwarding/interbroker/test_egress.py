"""Requests that leave for other brokers: stamped, or refused where they cannot go (D-49)."""

import pytest

from broker.core import CoreSettings
from broker.routing.policies import Policy
from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.annotations import STREAMING, Annotations
from rsocket_wire.wire.frames import MIME_TYPE
from tests.broker.forwarding import brokers
from tests.fakes import address, composite, error, moved


@pytest.mark.parametrize("cut", [20, len(brokers.PLAIN) + 30])
def test_fragments_are_passed_on_as_they_come_wherever_the_metadata_is_cut(cut: int) -> None:
    """In the ADDRESS and behind it. D-69: another ADDRESS may come, so the first one waits for the rest."""
    broker, link = brokers.ingress()
    caller = broker.caller(data_mime=brokers.DATA_MIME)
    whole = brokers.PLAIN + composite(("text/plain", b"x" * 50))
    caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", whole[:cut], 0, FOLLOWS))
    assert link.received() == []
    said = brokers.annotated(brokers.section(brokers.TO, "b1", flags=STREAMING))
    stamped = frames.encode_request(REQUEST_RESPONSE, 1, b"", said + whole[:cut], 0, FOLLOWS)
    second = frames.encode_payload(1, FOLLOWS | NEXT, b"da", whole[cut:])
    third = frames.encode_payload(1, NEXT, b"ta")
    caller.send(second, third)
    assert link.received() == [moved(stamped, 2), moved(second, 2), moved(third, 2)]


def test_metadata_that_is_an_address_in_pieces_becomes_one_entry() -> None:
    broker, link = brokers.ingress()
    caller = broker.caller(metadata_mime=MIME_TYPE, data_mime=brokers.DATA_MIME)
    caller.send(frames.encode_request(REQUEST_STREAM, 1, b"", brokers.ORDERS[:9], 5, FOLLOWS))
    caller.send(frames.encode_payload(1, NEXT, b"data", brokers.ORDERS[9:]))
    said, rest = brokers.apart(link.one())
    assert said == Annotations(STREAMING, brokers.TO, "b1", ["b1"])
    assert rest == [brokers.caller_mimes(MIME_TYPE, brokers.DATA_MIME), (MIME_TYPE, brokers.ORDERS)]


@pytest.mark.parametrize("no_route", ["reject", "wait"])
def test_without_a_way_to_its_broker_a_route_is_none_and_nobody_waits_for_it(no_route: str) -> None:
    broker = brokers.Broker("b1", CoreSettings(no_route=no_route))
    broker.far(broker.remote("b3", None), "orders", 7)
    caller = broker.caller()
    caller.request(REQUEST_RESPONSE, 1, brokers.ORDERS)
    text = "no-route: no path leads to the broker b3, which has the route"
    assert caller.received() == [error(1, REJECTED, text)]


def test_a_frame_that_would_be_longer_than_frames_can_be_is_refused() -> None:
    broker, link = brokers.ingress()
    caller = broker.caller(data_mime=brokers.DATA_MIME)
    said = brokers.annotated(brokers.section(brokers.TO, "b1"))
    room = 0xFFFFFF - 9 - len(said) - len(brokers.PLAIN)
    caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"x" * (room + 1), brokers.PLAIN))
    size = 0xFFFFFF + 1
    text = f"too-large: the request would have {size} bytes with metadata that orders can read"
    assert (caller.received(), link.received()) == ([error(1, INVALID, text)], [])
    caller.send(frames.encode_request(REQUEST_RESPONSE, 3, b"x" * room, brokers.PLAIN))
    assert len(link.one().raw) == 0xFFFFFF


def test_a_link_without_annotations_gets_requests_for_its_own_broker_only() -> None:
    """D-49: no loop could be seen."""
    broker, link = brokers.ingress(version=0)
    broker.far(broker.remote("b3", link), "stock", 8)
    caller = broker.caller(data_mime=brokers.DATA_MIME)
    raw = caller.request(REQUEST_RESPONSE, 1, brokers.ORDERS)
    assert link.received() == [moved(raw, 2)]
    caller.request(REQUEST_RESPONSE, 3, address(service="stock"))
    text = "no-route: no path leads to the broker b3, which has the route"
    assert (caller.received(), link.received()) == ([error(3, REJECTED, text)], [])


def test_places_of_a_route_of_another_broker_are_shared_where_the_callers_are() -> None:
    broker, _ = brokers.ingress(CoreSettings(policy=Policy(max_in_flight_per_route=4)))
    greedy, other = broker.caller(), broker.caller()
    for number in (1, 3, 5, 7):
        greedy.request(REQUEST_RESPONSE, number, brokers.ORDERS)
    other.request(REQUEST_RESPONSE, 1, brokers.ORDERS)
    greedy.cancel(1)
    greedy.request(REQUEST_RESPONSE, 9, brokers.ORDERS)
    other.request(REQUEST_RESPONSE, 3, brokers.ORDERS)
    assert [frame.text.partition(":")[0] for frame in greedy.received()] == ["over-limit"]
    assert [frame.stream_id for frame in other.received()] == [1]
    assert [len(wire.peer.streams) for wire in (greedy, other)] == [3, 1]
