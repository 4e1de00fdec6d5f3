"""Deadlines that callers set (D-41): what is not over by then ends on both sides."""

import pytest

from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.wire.frames import MULTICAST
from tests.broker.forwarding.pairs import ANSWERED
from tests.broker.forwarding.waiting import DEADLINE, IN_VAIN, waiting_world
from tests.fakes import World, address, addressed, cancelled, error, orders


def in_time(milliseconds: str) -> bytes:
    return address(hints=[(DEADLINE, milliseconds)], service="orders")


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_deadline_that_passes_ends_the_request_on_both_sides(kind: int) -> None:
    world, service, caller = orders()
    caller.request(kind, 1, in_time("1500"))
    service.received()
    world.advance(1.499)
    assert (caller.received(), service.received()) == ([], [])
    world.advance(0.001)
    text = "deadline: orders has not ended the request within 1.500 s"
    assert caller.received() == [error(1, 0x203, text)]
    assert service.received() == [cancelled(2)]
    assert not world.left_over()
    service.answer(2, b"late")
    assert caller.received() == []


def test_a_route_that_has_completed_its_half_leaves_only_the_callers_to_cancel() -> None:
    world, service, caller = orders()
    caller.request(REQUEST_CHANNEL, 1, in_time("1500"))
    service.send(frames.encode_payload(2, COMPLETE))
    service.received()
    caller.received()
    world.advance(1.5)
    assert (caller.received(), service.received()) == ([cancelled(1)], [cancelled(2)])
    assert not world.left_over()


def test_routes_that_have_all_completed_leave_only_the_callers_half_to_cancel() -> None:
    world = World()
    services, caller = [world.service("orders", number) for number in (1, 2)], world.caller()
    caller.request(REQUEST_CHANNEL, 1, address(MULTICAST, [(DEADLINE, "1500")], service="orders"))
    for service in services:
        service.send(frames.encode_payload(2, COMPLETE))
    caller.received()
    world.advance(1.5)
    assert caller.received() == [cancelled(1)]
    assert not world.left_over()


def test_a_fire_and_forget_in_fragments_gets_no_error_when_its_deadline_passes() -> None:
    world, service, caller = orders()
    caller.send(frames.encode_request(REQUEST_FNF, 1, b"x", addressed(in_time("1000")), 0, frames.FOLLOWS))
    world.advance(60)
    caller.send(frames.encode_payload(1, NEXT, b"y"))
    assert caller.received() == []
    assert [frame.data for frame in service.received()] == [b"x", b"y"]


def test_an_answer_in_time_is_the_end_of_the_deadline() -> None:
    world, service, caller = orders()
    caller.request(REQUEST_RESPONSE, 1, in_time("1000"))
    service.received()
    world.advance(0.999)
    service.answer(2, b"just in time")
    world.advance(100 / 1000)
    assert [frame.data for frame in caller.received()] == [b"just in time"]
    assert service.received() == []
    assert world.core.engine.timers.take_due(1e9) is None


def test_a_deadline_of_nothing_is_over_at_once() -> None:
    _, service, caller = orders()
    caller.request(REQUEST_RESPONSE, 1, in_time("0"))
    assert caller.received() == [error(1, REJECTED, "deadline: the deadline had passed when the request arrived")]
    assert service.received() == []


@pytest.mark.parametrize("value", ["", "-5", "1.5", "soon", "٣", "99999999999"])
def test_a_deadline_that_is_no_number_of_milliseconds_is_ignored(value: str) -> None:
    world, service, caller = orders()
    caller.request(REQUEST_RESPONSE, 1, in_time(value))
    assert len(service.received()) == 1
    world.advance(60)
    assert caller.received() == []


@pytest.mark.parametrize(
    ("milliseconds", "wait_s", "text"),
    [("700", 0.7, "deadline: no route has service=orders, after 0.7 s of waiting"), ("60000", 5.0, IN_VAIN)],
)
def test_a_deadline_shortens_the_wait_for_a_route_and_does_not_lengthen_it(
    milliseconds: str, wait_s: float, text: str
) -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, in_time(milliseconds))
    world.advance(wait_s)
    assert caller.received() == [error(1, REJECTED, text)]


def test_the_time_of_waiting_counts() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, in_time("3000"))
    world.advance(2)
    service = world.service("orders", 1)
    service.received()
    world.advance(0.999)
    assert service.received() == []
    world.advance(0.001)
    assert service.received() == [cancelled(2)]
    assert [frame.code for frame in caller.received()] == [0x203]
