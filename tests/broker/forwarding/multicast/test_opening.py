"""How a multicast begins: the first frames of its branches, in one turn or in several."""

import pytest

from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM
from tests.broker.forwarding.multicast.crowds import ALL, ROUTES_N, Wide
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import addressed


@pytest.mark.parametrize("kind", MODELS)
def test_so_many_routes_get_a_multicast_in_a_turn_and_the_others_in_the_next_ones(kind: int) -> None:
    routes_n = MAX_BRANCHES_PER_TURN + ROUTES_N
    wide = Wide(routes_n)
    wide.ask(kind)
    seen = [wide.asked_n()]
    while wide.core.has_work():
        wide.turn()
        seen.append(wide.asked_n())
    assert seen[:4] == [0, MAX_BRANCHES_PER_TURN, 2 * MAX_BRANCHES_PER_TURN, routes_n]
    assert {len(service.frames) for service in wide.services} == {1}
    wide.caller.lose()
    assert wide.world.left_over() == []


@pytest.mark.parametrize("kind", MODELS)
def test_as_many_as_a_turn_has_room_for_get_it_at_once(kind: int) -> None:
    wide = Wide(MAX_BRANCHES_PER_TURN)
    wide.ask(kind)
    assert wide.asked_n() == MAX_BRANCHES_PER_TURN


def test_what_the_caller_sends_behind_it_stays_behind_it() -> None:
    wide = Wide()
    metadata = addressed(ALL)
    pieces = [
        frames.encode_request(REQUEST_CHANNEL, 1, b"a", metadata, 8, frames.FOLLOWS),
        frames.encode_payload(1, NEXT | frames.FOLLOWS, b"b"),
        frames.encode_payload(1, NEXT | COMPLETE, b"c"),
    ]
    wide.send(wide.caller, *pieces)
    while wide.is_left or wide.core.has_work():
        wide.turn()
    assert {b"".join(frame.data for frame in service.frames) for service in wide.services} == {b"abc"}


def test_a_call_that_is_cancelled_meanwhile_is_not_begun_at_the_others() -> None:
    wide = Wide()
    wide.ask(REQUEST_STREAM)
    wide.turn()
    wide.caller.lose()  # its CANCEL would wait for its turn
    asked = [service.received() for service in wide.services]
    assert [[frame.kind for frame in pieces] for pieces in asked if pieces] == [
        [REQUEST_STREAM, frames.CANCEL]
    ] * MAX_BRANCHES_PER_TURN
    assert wide.world.left_over() == []


def test_routes_that_leave_before_their_turn_are_left_out() -> None:
    wide = Wide()
    wide.ask(REQUEST_RESPONSE)
    wide.turn()
    for service in wide.services:
        service.lose()
    wide.finish()
    wide.carry()
    assert [frame.text.partition(":")[0] for frame in wide.caller.received()] == ["route-lost"]
    assert wide.world.left_over() == []


def test_a_push_to_many_goes_on_in_the_next_turns() -> None:
    wide = Wide()
    wide.send(wide.caller, frames.encode_metadata_push(addressed(ALL)))
    wide.turn()
    assert wide.asked_n() == MAX_BRANCHES_PER_TURN
    wide.finish()
    assert {tuple(frame.kind for frame in service.frames) for service in wide.services} == {(frames.METADATA_PUSH,)}
