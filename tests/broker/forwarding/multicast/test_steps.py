"""A multicast to more routes than a turn has room for: what is done when, and that others go on."""

import pytest

from broker.core import CoreSettings
from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN, STEP_BRANCHES
from broker.forwarding.outbound import LARGE_BYTES
from rsocket_wire.errors import CANCELED, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from tests.broker.forwarding.multicast.crowds import ALL, ROUTES_N, Wide
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import address, addressed, framed


def test_others_are_served_while_a_multicast_goes_on() -> None:
    wide = Wide()
    other = wide.world.caller()
    wide.ask(REQUEST_STREAM)
    wide.turn()
    wide.send(other, frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(address(service="carts")), 0))
    assert len(wide.other.received()) == 1
    assert 0 < wide.asked_n() < ROUTES_N


def test_two_callers_take_turns() -> None:
    wide = Wide()
    second = wide.world.caller()
    wide.ask(REQUEST_FNF)
    data = frames.encode_request(REQUEST_FNF, 1, b"second", addressed(ALL), 0)
    wide.core.receive(second.peer, framed(data), wide.world.now)
    wide.turn()
    counts = [
        len([one for one in wide.services if any(frame.data == text for frame in one.frames)])
        for text in (b"hi", b"second")
    ]
    assert counts == [MAX_BRANCHES_PER_TURN // 2] * 2
    assert MAX_BRANCHES_PER_TURN // 2 % STEP_BRANCHES == 0


def test_a_cancel_reaches_all_branches_and_none_twice() -> None:
    wide = Wide()
    wide.ask(REQUEST_STREAM)
    wide.finish()
    wide.send(wide.caller, frames.encode_cancel(1))
    wide.send(wide.services[-1], frames.encode_payload(2, NEXT | COMPLETE, b"too late"))
    wide.finish()
    assert {tuple(frame.kind for frame in service.received()) for service in wide.services} == {
        (REQUEST_STREAM, frames.CANCEL)
    }
    assert wide.caller.received() == []
    assert wide.world.left_over() == []


def test_an_answer_that_comes_before_all_were_asked_is_the_answer() -> None:
    wide = Wide()
    wide.ask(REQUEST_RESPONSE)
    wide.turn()
    wide.send(wide.services[0], frames.encode_payload(2, NEXT | COMPLETE, b"first"))
    wide.finish()
    assert [frame.data for frame in wide.caller.received()] == [b"first"]
    kinds = [tuple(frame.kind for frame in service.received()) for service in wide.services]
    assert kinds == [(REQUEST_RESPONSE,)] + [(REQUEST_RESPONSE, frames.CANCEL)] * (MAX_BRANCHES_PER_TURN - 1) + [()] * (
        ROUTES_N - MAX_BRANCHES_PER_TURN
    )
    assert wide.world.left_over() == []


def test_a_stream_is_complete_when_all_are_and_not_when_those_are_that_were_asked() -> None:
    wide = Wide()
    wide.ask(REQUEST_STREAM)
    wide.turn()
    for service in wide.services:
        if service.frames:
            wide.send(service, frames.encode_payload(2, COMPLETE))
    assert wide.caller.received() == []
    wide.finish()
    for service in wide.services:
        if 2 in service.peer.streams:
            wide.send(service, frames.encode_payload(2, COMPLETE))
    assert [frame.flags & COMPLETE for frame in wide.caller.received()] == [COMPLETE]
    assert wide.world.left_over() == []


def test_items_of_a_channel_wait_for_those_that_were_asked_last() -> None:
    wide = Wide()
    wide.ask(REQUEST_CHANNEL)
    wide.turn()
    for service in wide.services:
        if service.frames:
            wide.send(service, frames.encode_request_n(2, 5))
    wide.finish()
    assert wide.caller.received() == []
    for service in wide.services[MAX_BRANCHES_PER_TURN:]:
        wide.send(service, frames.encode_request_n(2, 5))
    assert [frame.n for frame in wide.caller.received()] == [5]


def with_waiting(kind: int = REQUEST_STREAM, routes_n: int = ROUTES_N) -> tuple[Wide, list[int]]:
    """All services have sent an item, and the caller has asked for one; stream ids at the services."""
    wide = Wide(routes_n)
    wide.ask(kind, n=1)
    wide.world.pump()
    ids = [service.received()[-1].stream_id for service in wide.services]
    for service, stream_id in zip(wide.services, ids, strict=True):
        wide.send(service, frames.encode_payload(stream_id, NEXT, b"item"))
    assert len(wide.caller.received()) == 1
    return wide, ids


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_items_of_many_that_wait_for_credit_are_passed_on_a_part_in_each_turn(kind: int) -> None:
    routes_n = MAX_BRANCHES_PER_TURN + ROUTES_N
    wide, _ = with_waiting(kind, routes_n)
    wide.send(wide.caller, frames.encode_request_n(1, 4 * routes_n), frames.encode_request_n(1, 1))
    seen = [len(wide.caller.received())]
    while wide.core.has_work():
        wide.turn()
        seen.append(len(wide.caller.received()))
    rest_n = routes_n - 1 - 2 * MAX_BRANCHES_PER_TURN
    assert [passed_n for passed_n in seen if passed_n] == [MAX_BRANCHES_PER_TURN, MAX_BRANCHES_PER_TURN, rest_n]
    assert all(service.received() for service in wide.services)  # and each is asked for more
    wide.caller.lose()
    assert wide.world.left_over() == []


def test_as_many_as_a_turn_has_room_for_are_passed_on_at_once() -> None:
    """The one that has sent what the caller had asked for is asked for more."""
    wide, _ = with_waiting()
    wide.send(wide.caller, frames.encode_request_n(1, MAX_BRANCHES_PER_TURN - 1))
    assert (len(wide.caller.received()), wide.core.has_work()) == (MAX_BRANCHES_PER_TURN - 1, False)
    assert len(wide.services[0].received()) == 1


def test_items_that_come_while_others_are_passed_on_stay_in_order() -> None:
    wide = Wide()
    wide.ask(REQUEST_STREAM, n=2 * ROUTES_N)
    wide.world.pump()
    ids = [service.received()[-1].stream_id for service in wide.services]
    last, last_id = wide.services[-1], ids[-1]
    for _ in range(3):  # two that the caller has asked for, one that waits
        for service, stream_id in zip(wide.services[:-1], ids[:-1], strict=True):
            wide.send(service, frames.encode_payload(stream_id, NEXT, b"item"))
    wide.send(last, frames.encode_payload(last_id, NEXT, b"first"))
    assert len(wide.caller.received()) == 2 * ROUTES_N
    wide.send(wide.caller, frames.encode_request_n(1, 4 * ROUTES_N))
    wide.turn()
    wide.send(last, frames.encode_payload(last_id, NEXT | COMPLETE, b"second"))
    wide.finish()
    data = [frame.data for frame in wide.caller.received()]
    assert len(data) == 3 * (ROUTES_N - 1) + 2 - 2 * ROUTES_N
    assert [each for each in data if each != b"item"] == [b"first", b"second"]


@pytest.mark.parametrize("end", ["cancel", "lose", "fail"])
def test_a_stream_may_end_while_credit_is_given(end: str) -> None:
    wide, ids = with_waiting()
    wide.send(wide.caller, frames.encode_request_n(1, 4 * ROUTES_N), frames.encode_cancel(1))
    wide.turn()
    if end == "lose":
        wide.caller.lose()
    elif end == "fail":
        wide.services[0].fail(ids[0], CANCELED, "")
    wide.finish()
    assert wide.world.left_over() == []


@pytest.mark.parametrize("kind", MODELS)
def test_the_content_of_a_large_frame_is_held_once(kind: int) -> None:
    wide = Wide(20)
    for service in wide.services:
        service.block()
    wide.send(wide.caller, frames.encode_request(kind, 1, bytes(LARGE_BYTES), addressed(ALL), 8))
    held = set()
    for service in wide.services:
        service.peer.set_blocked(False)
        held |= {id(piece.obj) for piece in service.peer.take_output() if isinstance(piece, memoryview)}
    assert len(held) == 1


@pytest.mark.parametrize("kind", MODELS)
def test_what_would_hold_too_much_at_all_branches_is_refused(kind: int) -> None:
    raw = frames.encode_request(kind, 1, bytes(1000), addressed(ALL), 8)
    for limit in (20 * len(raw), 20 * len(raw) - 1):
        wide = Wide(20, CoreSettings(max_buffered_bytes=limit))
        for service in wide.services[1:]:
            service.block()
        wide.send(wide.caller, raw)
        is_refused = limit < 20 * len(raw)
        assert wide.asked_n() == (0 if is_refused else 1)
        text = f"over-limit: {len(raw)} bytes to 20 routes are {20 * len(raw)} bytes, the limit is {limit}"
        told = [(frame.code, frame.text) for frame in wide.caller.received() if frame.kind == frames.ERROR]
        has_answer = is_refused and kind != REQUEST_FNF
        assert told == ([(REJECTED, f"{text} (limits.max_buffered_bytes)")] if has_answer else [])


@pytest.mark.parametrize("kind", MODELS)
def test_a_multicast_to_more_routes_than_the_limit_is_refused(kind: int) -> None:
    for limit in (20, 19):
        wide = Wide(20, CoreSettings(max_multicast_routes=limit))
        wide.ask(kind)
        is_refused = limit < 20
        assert wide.asked_n() == (0 if is_refused else 20)
        text = "over-limit: 20 routes match, a multicast may reach 19 (limits.max_multicast_routes)"
        told = [(frame.code, frame.text) for frame in wide.caller.received() if frame.kind == frames.ERROR]
        assert told == ([(REJECTED, text)] if is_refused and kind != REQUEST_FNF else [])


def test_a_fragment_that_would_hold_too_much_ends_the_call() -> None:
    wide = Wide(20, CoreSettings(max_buffered_bytes=20_000))
    wide.ask(REQUEST_RESPONSE, frames.FOLLOWS)
    wide.send(wide.caller, frames.encode_payload(1, NEXT | frames.FOLLOWS, bytes(1000)))
    assert [(frame.code, frame.text[:11]) for frame in wide.caller.received()] == [(CANCELED, "over-limit:")]
    assert {service.received()[-1].kind for service in wide.services} == {frames.CANCEL}
    assert wide.world.left_over() == []
