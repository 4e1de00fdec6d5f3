"""Multicast by the rules of the specification: who gets the request, and what ends it."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST
from rsocket_wire.wire.keys import Key
from tests.broker.forwarding.multicast.crowds import ALL, Crowd, asked_of
from tests.broker.forwarding.pairs import ANSWERED, MODELS, end
from tests.fakes import Frame, World, address, addressed, cancelled, completed, error, fragments, moved


def test_only_matching_routes_get_it_and_the_caller_too_if_it_is_one() -> None:
    world = World()
    one = world.service("orders", 1, region="eu")
    two = world.service("orders", 2, region="us")
    both = world.service("orders", 3, region="eu")
    raw = both.request(REQUEST_FNF, 1, address(MULTICAST, service="orders", region="eu"))
    assert (one.received(), two.received(), both.received()) == ([moved(raw, 2)], [], [moved(raw, 2)])
    assert world.left_over() == []


@pytest.mark.parametrize("how", ["cancel", "loss"])
@pytest.mark.parametrize("kind", ANSWERED)
def test_a_cancel_or_the_loss_of_the_caller_cancels_all(kind: int, how: str) -> None:
    crowd = Crowd()
    crowd.open(kind)
    end(crowd.caller, how)
    assert crowd.received() == [[cancelled(2)]] * 3
    assert crowd.world.left_over() == []


@pytest.mark.parametrize("kind", MODELS)
def test_routes_that_join_later_get_nothing(kind: int) -> None:
    crowd = Crowd(1)
    crowd.open(kind)
    late = crowd.world.service("orders", 9)
    crowd.caller.send(frames.encode_payload(1, NEXT, b"more"))
    assert late.received() == []


@pytest.mark.parametrize("kind", MODELS)
def test_each_route_gets_metadata_that_it_can_read(kind: int) -> None:
    world = World()
    composite_route = world.service("orders", 1)
    plain_route = world.service("orders", 2, metadata_mime=MIME_TYPE)
    caller = world.caller()
    raw = caller.request(kind, 1, ALL, b"hi", 10)
    assert composite_route.received() == [asked_of(raw, 5)]
    assert plain_route.received() == [Frame(frames.encode_request(kind, 2, b"hi", ALL, 5))]


@pytest.mark.parametrize("kind", MODELS)
def test_fragments_of_the_request_reach_all(kind: int) -> None:
    metadata = addressed(ALL)
    for cut in (5, 40, len(metadata) - 1, len(metadata) + 3):
        crowd = Crowd()
        pieces = fragments(kind, 1, metadata, b"0123456789", [cut, len(metadata) + 5])
        crowd.caller.send(*pieces)
        assert crowd.received() == [[asked_of(pieces[0], 2), *[moved(raw, 2) for raw in pieces[1:]]]] * 3
        assert (1 in crowd.caller.peer.streams) == (kind != REQUEST_FNF)


def test_a_request_may_end_with_a_frame_that_only_completes_it() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL, flags=FOLLOWS)
    last = frames.encode_payload(1, COMPLETE)
    crowd.caller.send(last)
    assert crowd.received() == [[moved(last, 2)]] * 2
    for service in crowd.services:
        service.answer(2, b"", COMPLETE)
    assert crowd.caller.received() == [completed(1)]
    assert crowd.world.left_over() == []


@pytest.mark.parametrize("kind", MODELS)
def test_a_fragmented_request_is_gathered_whole_when_one_route_reads_another_mime_type(kind: int) -> None:
    world = World()
    composite_route = world.service("orders", 1)
    plain_route = world.service("orders", 2, metadata_mime=MIME_TYPE)
    caller = world.caller()
    metadata = addressed(ALL)
    pieces = fragments(kind, 1, metadata, b"data", [10, len(metadata) - 1])
    caller.send(*pieces)
    assert composite_route.received() == [Frame(frames.encode_request(kind, 2, b"data", metadata, 4))]
    assert plain_route.received() == [Frame(frames.encode_request(kind, 2, b"data", ALL, 4))]


# fire_and_forget


@pytest.mark.parametrize("on_leave", ["ignore", "error"])
def test_a_route_that_refuses_the_fragments_of_a_fire_and_forget_or_leaves_gets_no_more_of_them(on_leave: str) -> None:
    """The others get them."""
    crowd = Crowd(3, CoreSettings(multicast_on_leave=on_leave))
    pieces = fragments(REQUEST_FNF, 1, addressed(ALL), b"0123456789", [90, 92])
    crowd.caller.send(pieces[0])
    crowd.services[0].fail(2, 0x201, "too long")
    crowd.services[1].lose()
    crowd.caller.send(*pieces[1:])
    assert crowd.caller.received() == []
    assert crowd.received() == [[moved(pieces[0], 2)], [moved(pieces[0], 2)], [moved(raw, 2) for raw in pieces]]
    assert crowd.world.left_over() == []


def test_a_fire_and_forget_whose_routes_are_all_lost_ends() -> None:
    crowd = Crowd(2)
    crowd.caller.send(fragments(REQUEST_FNF, 1, addressed(ALL), b"0123456789", [90])[0])
    for service in crowd.services:
        service.lose()
    assert crowd.caller.received() == []
    assert crowd.world.left_over() == []


# Deadlines (D-41)


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_deadline_ends_the_call_at_the_caller_and_at_all_routes(kind: int) -> None:
    crowd = Crowd()
    crowd.caller.request(kind, 1, address(MULTICAST, hints=[(Key.text("deadline_ms"), "1500")], service="orders"))
    crowd.received()
    crowd.services[1].lose()
    crowd.world.advance(1.4)
    assert crowd.caller.received() == []
    crowd.world.advance(0.1)
    text = "deadline: 2 routes have not ended the request within 1.500 s"
    assert crowd.caller.received() == [error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)], [], [cancelled(2)]]
    assert crowd.world.left_over() == []


@pytest.mark.parametrize("kind", MODELS)
def test_a_call_that_has_ended_has_no_deadline_any_more(kind: int) -> None:
    crowd = Crowd(1)
    raw_address = address(MULTICAST, hints=[(Key.text("deadline_ms"), "1500")], service="orders")
    crowd.caller.request(kind, 1, raw_address, flags=COMPLETE if kind == REQUEST_CHANNEL else 0)
    crowd.services[0].answer(2, b"x")
    assert crowd.world.core.engine.timers.take_due(1e9) is None
    assert crowd.world.left_over() == []
