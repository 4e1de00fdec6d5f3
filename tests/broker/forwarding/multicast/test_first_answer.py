"""Request/response to all: the first branch that answers at all is the answer (D-13)."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, FOLLOWS, NEXT, REQUEST_RESPONSE
from tests.broker.forwarding.multicast.crowds import Crowd, items
from tests.fakes import Frame, cancelled, error, moved


def test_the_first_fragment_decides_which_answer_wins() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    pieces = [frames.encode_payload(2, NEXT | FOLLOWS, b"one "), frames.encode_payload(2, NEXT | FOLLOWS, b"two ")]
    crowd.services[0].send(pieces[0])
    assert crowd.received() == [[], [cancelled(2)], [cancelled(2)]]
    crowd.services[1].answer(2, b"whole")
    crowd.services[0].send(pieces[1])
    last = frames.encode_payload(2, NEXT | COMPLETE, b"three")
    crowd.services[0].send(last)
    assert crowd.caller.received() == [moved(raw, 1) for raw in [*pieces, last]]
    assert crowd.received() == [[], [], []]
    assert crowd.world.left_over() == []


def test_an_error_in_the_middle_of_the_winning_answer_reaches_the_caller() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    crowd.services[0].answer(2, b"one ", NEXT | FOLLOWS)
    crowd.services[0].fail(2, 0x201, "broken")
    assert crowd.caller.received()[1:] == [error(1, 0x201, "broken")]
    assert crowd.world.left_over() == []


def test_an_answer_without_complete_ends_the_request() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    crowd.services[0].answer(2, b"x", NEXT)
    assert crowd.caller.received() == items(b"x")
    assert crowd.world.left_over() == []


def test_frames_that_are_no_answer_do_not_decide() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    crowd.services[0].send(frames.encode_request_n(2, 3), frames.encode_cancel(2))
    crowd.caller.send(
        frames.encode_request_n(1, 3), frames.encode_payload(1, NEXT, b"x"), frames.encode_error(1, 0x201, "no")
    )
    assert crowd.caller.received() == []
    assert crowd.received() == [[], [], []]


def test_a_winner_that_is_lost_in_the_middle_of_its_answer_ends_the_request() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    crowd.services[0].answer(2, b"one ", NEXT | FOLLOWS)
    crowd.services[0].lose()
    text = "route-lost: all routes were lost before one of them answered"
    assert crowd.caller.received() == [
        Frame(frames.encode_payload(1, NEXT | FOLLOWS, b"one ")),
        error(1, CANCELED, text),
    ]
    assert crowd.received() == [[], [cancelled(2)], [cancelled(2)]]
    assert crowd.world.left_over() == []


@pytest.mark.parametrize("on_leave", ["ignore", "error"])
def test_a_route_that_leaves_a_request_response_leaves_the_answer_to_the_others(on_leave: str) -> None:
    """D-14, for the model that it says nothing about."""
    crowd = Crowd(2, CoreSettings(multicast_on_leave=on_leave))
    crowd.open(REQUEST_RESPONSE)
    crowd.services[0].lose()
    crowd.services[1].answer(2, b"x")
    assert crowd.caller.received() == [Frame(frames.encode_payload(1, NEXT | COMPLETE, b"x"))]
    assert crowd.world.left_over() == []
