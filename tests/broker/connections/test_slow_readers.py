"""A peer that reads slowly: what waits for it, what is held back, what ends when it is too much."""

import pytest

from broker.connections.back_pressure import SENT_BYTES
from broker.core import CoreSettings
from broker.forwarding.outbound import LANE_COST, PIECE_BYTES, WAITING_COST
from broker.forwarding.peer import MAX_HELD_CREDIT
from rsocket_wire.errors import CANCELED, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MULTICAST
from tests.broker.forwarding.interbroker.test_shared_links import Way
from tests.fakes import Frame, Wire, World, address, addressed, cancelled, framed, orders

ORDERS = address(service="orders")
ALL_ORDERS = address(MULTICAST, service="orders")
LIMIT = 100_000


def made(limit: int = LIMIT) -> tuple[World, Wire, Wire]:
    return orders(CoreSettings(max_pending_bytes=limit))


def kinds(frames: list[Frame]) -> list[tuple[int, int]]:
    return [(frame.kind, frame.stream_id) for frame in frames]


@pytest.mark.parametrize("is_framed", [True, False])
def test_all_that_waited_is_written_once_the_peer_reads_again(is_framed: bool) -> None:
    world = World()
    service, caller = world.service("orders", 1, framed=is_framed), world.caller(is_framed)
    caller.request(REQUEST_STREAM, 1, ORDERS, n=1000)
    caller.block()
    for number in range(100):
        service.answer(2, b"item %d" % number, NEXT)
    assert caller.received() == []
    caller.unblock()
    assert [frame.data for frame in caller.received()] == [b"item %d" % number for number in range(100)]
    assert (caller.peer.pending_bytes, caller.peer.is_congested) == (0, False)


@pytest.mark.parametrize("raw_address", [ORDERS, ALL_ORDERS])
@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_credit_that_a_congested_caller_gives_is_held_back(kind: int, raw_address: bytes) -> None:
    """Its services stop by themselves: it has not read what it has asked for before."""
    _, service, caller = made()
    caller.request(kind, 1, raw_address, n=1)
    service.answer(2, b"first", NEXT)
    service.received()
    caller.block()
    for _ in range(3):
        caller.ask(1, 2)
    assert service.received() == []
    caller.unblock()
    asked_n = sum(frame.n for frame in service.received() if frame.kind == frames.REQUEST_N)
    assert asked_n == 6 if raw_address == ORDERS else asked_n > 0  # a multicast has windows of its own


def test_credit_that_a_congested_service_gives_is_held_back() -> None:
    _, service, caller = made()
    caller.request(REQUEST_CHANNEL, 1, ORDERS)
    service.block()
    service.ask(2, 3)
    service.ask(2, frames.MAX_N)
    assert caller.received() == []
    service.unblock()
    assert [(frame.kind, frame.n) for frame in caller.received()] == [(frames.REQUEST_N, frames.MAX_N)]


def test_credit_of_a_stream_that_has_ended_is_given_to_no_other() -> None:
    _, service, caller = made()
    caller.request(REQUEST_STREAM, 1, ORDERS)
    caller.block()
    caller.ask(1, 5)
    caller.cancel(1)
    caller.request(REQUEST_STREAM, 1, ORDERS, n=1)
    caller.unblock()
    assert kinds(service.received()) == [(REQUEST_STREAM, 2), (frames.CANCEL, 2), (REQUEST_STREAM, 4)]


def test_credit_that_is_held_back_is_bounded_by_the_open_streams() -> None:
    _, _, caller = made()
    caller.block()
    for number in range(3 * MAX_HELD_CREDIT):
        caller.request(REQUEST_STREAM, 1 + 2 * number, ORDERS)
        caller.ask(1 + 2 * number, 5)
        caller.cancel(1 + 2 * number)
    assert len(caller.peer.held_credit) <= MAX_HELD_CREDIT


def test_nothing_of_a_stream_is_written_that_the_caller_has_cancelled() -> None:
    _, service, caller = made()
    caller.request(REQUEST_STREAM, 1, ORDERS, n=1000)
    caller.block()
    for _ in range(10):
        service.answer(2, bytes(100), NEXT)
    caller.cancel(1)
    assert caller.peer.pending_bytes == 0
    caller.unblock()
    assert caller.received() == []


@pytest.mark.parametrize("raw_address", [ORDERS, ALL_ORDERS])
def test_beyond_the_limit_the_request_for_which_most_waits_ends_and_the_connection_stays(raw_address: bytes) -> None:
    world, service, caller = made()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    caller.request(REQUEST_STREAM, 3, raw_address, n=1000)
    service.received()
    caller.block()
    service.answer(2, b"little", NEXT | COMPLETE)
    for _ in range(LIMIT // 30_000 + 1):
        service.answer(4, bytes(30_000), NEXT)
    assert service.received() == [cancelled(4)]
    caller.unblock()
    answer, ended = sorted(caller.received(), key=lambda frame: frame.stream_id)
    assert answer == Frame(frames.encode_payload(1, NEXT | COMPLETE, b"little"))
    assert (ended.kind, ended.stream_id, ended.code) == (frames.ERROR, 3, CANCELED)
    limit = f"the limit is {LIMIT} (limits.max_pending_bytes); this request has most of them"
    assert ended.text.startswith("over-limit: ")
    assert ended.text.endswith(limit)
    assert (caller.is_closed, world.left_over()) == (False, [])


def test_at_the_limit_nothing_ends() -> None:
    _, service, caller = made()
    caller.request(REQUEST_STREAM, 1, ORDERS, n=1000)
    service.received()
    caller.block()
    cost = len(frames.encode_payload(1, NEXT, b"")) + WAITING_COST
    service.answer(2, bytes(LIMIT // 2 - cost - LANE_COST), NEXT)
    service.answer(2, bytes(LIMIT - LIMIT // 2 - cost), NEXT)
    assert service.received() == []
    service.answer(2, b"", NEXT)
    assert service.received() == [cancelled(2)]


def test_an_answer_that_came_whole_is_ended_for_its_caller_when_it_holds_most() -> None:
    """Its stream has ended at the broker; the caller must not wait for the rest."""
    _, service, caller = made()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    caller.request(REQUEST_RESPONSE, 3, ORDERS)
    caller.block()
    service.answer(2, bytes(60_000), NEXT | frames.FOLLOWS)
    service.answer(2, bytes(30_000), NEXT | COMPLETE)
    service.answer(4, bytes(20_000), NEXT | COMPLETE)
    caller.unblock()
    assert sorted(kinds(caller.received())) == [(frames.PAYLOAD, 3), (frames.ERROR, 1)]


def test_a_request_that_its_route_has_not_seen_may_be_sent_again() -> None:
    """REJECTED says that nothing was processed."""
    world, service, caller = made()
    service.block()
    service.peer.paused_callers.clear()
    other = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS, bytes(60_000))
    for number in range((LIMIT + SENT_BYTES) // 16_000_000 + 1):
        other.request(REQUEST_RESPONSE, 1 + 2 * number, ORDERS, bytes(16_000_000))
    [ended] = other.received()
    assert (ended.kind, ended.code, ended.text[:12]) == (frames.ERROR, REJECTED, "over-limit: ")
    service.unblock()
    assert frames.CANCEL not in [frame.kind for frame in service.received()]
    assert caller.received() == []


def test_answers_of_many_callers_may_wait_for_a_link_that_is_slow_for_a_moment() -> None:
    """None of the callers is slow: half of what may wait in all may wait for the link, and no more."""
    piece, half = 10_000_000, 85_000_000
    assert half > LIMIT + SENT_BYTES
    way = Way(2, max_pending_bytes=LIMIT, max_buffered_bytes=2 * half)
    callers = [way.caller() for _ in range(10)]
    numbers = [frame.stream_id for caller in callers for frame in way.ask(caller, 1)]
    way.net.link("b2", "b1").block()
    for number in numbers:
        way.service.answer(number, bytes(piece), NEXT | COMPLETE)
    way.net.link("b2", "b1").unblock()
    way.net.pump()
    received = [frame for caller in callers for frame in caller.received()]
    assert [frame.kind for frame in received].count(frames.PAYLOAD) == 8
    said = {(frame.code, frame.text.split(" bytes ")[1]) for frame in received if frame.kind == frames.ERROR}
    option = f"the limit is {half} (half of limits.max_buffered_bytes)"
    assert said == {(CANCELED, f"wait for the broker b1, {option}; this request has most of them")}


def test_a_link_has_no_less_room_than_a_connection_whose_callers_wait() -> None:
    """Where half of all is less."""
    way = Way(2, max_pending_bytes=LIMIT, max_buffered_bytes=2 * (LIMIT + SENT_BYTES))
    callers = [way.caller() for _ in range(5)]
    numbers = [frame.stream_id for caller in callers for frame in way.ask(caller, 1)]
    link = way.net.link("b2", "b1")
    link.block()
    for number in numbers:
        way.service.answer(number, bytes(15_000_000), NEXT | COMPLETE)
    link.unblock()
    way.net.pump()
    [ended] = [frame for caller in callers for frame in caller.received() if frame.kind == frames.ERROR]
    option = f"the limit is {LIMIT} (limits.max_pending_bytes), and {SENT_BYTES} for what callers had sent already"
    assert option in ended.text


def test_a_fire_and_forget_that_finds_no_room_is_counted() -> None:
    world, service, caller = made()
    service.block()
    for number in range((LIMIT + SENT_BYTES) // 16_000_000 + 1):
        caller.request(REQUEST_FNF, 1 + 2 * number, ORDERS, bytes(16_000_000))
    assert world.core.engine.drops.total_n == 1
    assert not service.is_closed


def test_beyond_the_limit_of_all_the_request_for_which_most_waits_ends() -> None:
    world = World(CoreSettings(max_buffered_bytes=LIMIT))
    service = world.service("orders", 1)
    callers = [world.caller() for _ in range(3)]
    for caller, size in zip(callers, (30_000, 50_000, 10_000), strict=True):
        caller.request(REQUEST_STREAM, 1, ORDERS, n=10)
        caller.block()
        service.answer(service.received()[-1].stream_id, bytes(size), NEXT)
    service.answer(2, bytes(15_000), NEXT)
    for caller in callers:
        caller.unblock()
    assert [[frame.kind for frame in caller.received()] for caller in callers] == [
        [frames.PAYLOAD] * 2,
        [frames.ERROR],
        [frames.PAYLOAD],
    ]
    assert [caller.is_closed for caller in callers] == [False] * 3


def test_who_does_not_read_the_errors_for_what_it_sends_is_not_read_from() -> None:
    """There is no request to end for them, and an ERROR frees no room for another."""
    world, _, caller = made()
    caller.block()
    sent_n = 0
    while not caller.is_paused:
        caller.request(REQUEST_RESPONSE, 2 * sent_n + 1, address(service="nobody"))
        sent_n += 1
    queued = world.core.lifecycle.back_pressure.outbound
    assert LIMIT < queued.used_bytes < LIMIT + 10_000
    caller.unblock()
    assert [frame.kind for frame in caller.received()] == [frames.ERROR] * sent_n
    assert (caller.is_paused, caller.is_closed, queued.used_bytes) == (False, False, 0)


def test_frames_that_have_begun_do_not_end_their_connections_at_the_limit_of_all() -> None:
    world = World(CoreSettings(max_buffered_bytes=10 << 20))
    service = world.service("orders", 1)
    callers = [world.caller() for _ in range(3)]
    for caller in callers:
        caller.request(REQUEST_STREAM, 1, ORDERS, n=100)
    ids = [frame.stream_id for frame in service.received()]
    for caller, stream_id, size in zip(callers, ids, (6 << 20, 4 << 20, 0), strict=True):
        world.core.receive(service.peer, framed(frames.encode_payload(stream_id, NEXT, bytes(size))), world.now)
        world.core.take_writes()
        assert caller.peer.take_output(PIECE_BYTES)
        caller.block()
    for _ in range(50):
        service.answer(ids[2], bytes(30_000), NEXT)
    callers[2].unblock()
    assert [frame.kind for frame in callers[2].received()] == [frames.ERROR]
    assert [caller.is_closed for caller in callers] == [False] * 3


def test_when_no_request_can_end_the_connection_for_which_most_waits_does() -> None:
    world = World(CoreSettings(max_buffered_bytes=LIMIT))
    greedy, modest = world.caller(), world.caller()
    for caller in (greedy, modest):
        caller.block()
    modest.request(REQUEST_RESPONSE, 1, address(service="nobody"))
    sent_n = 0
    while not greedy.peer.is_ending:
        greedy.request(REQUEST_RESPONSE, 2 * sent_n + 1, address(service="nobody"))
        sent_n += 1
    assert sent_n > 100
    greedy.unblock()
    [ended] = greedy.received()
    assert (ended.stream_id, ended.text[:12]) == (0, "over-limit: ")
    modest.unblock()
    assert (kinds(modest.received()), modest.is_closed) == ([(frames.ERROR, 1)], False)


def test_nothing_is_written_behind_the_half_of_a_frame_whose_rest_was_dropped() -> None:
    world, service, caller = made()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    world.core.receive(
        service.peer, framed(frames.encode_payload(2, NEXT | COMPLETE, bytes(2 * PIECE_BYTES))), world.now
    )
    world.core.take_writes()
    assert caller.peer.take_output(PIECE_BYTES)
    caller.block()
    caller.peer.drop_output()
    world.core.lifecycle.end_slow(caller.peer, "over-limit", "too much", world.now)
    assert caller.peer.pending_bytes == 0


def test_pushes_that_find_no_room_are_dropped_and_counted_and_the_service_stays() -> None:
    world, service, _ = made()
    service.block()
    for number in range((LIMIT + SENT_BYTES) // 16_000_000 + 3):
        world.caller().push(addressed(ORDERS, ("x/y", b"%d" % number + bytes(16_000_000))))
    assert (world.core.engine.drops.total_n, service.is_closed) == (3, False)
    service.unblock()
    numbers = [frame.raw[-16_000_001:-16_000_000] for frame in service.received()]
    assert numbers == [b"3", b"4", b"5", b"6"]  # the newest


def test_a_route_hears_of_the_end_of_a_request_whose_last_frames_find_no_room() -> None:
    """The CANCEL was among them."""
    world = World(CoreSettings(max_buffered_bytes=300_000))
    service, caller, other = world.service("orders", 1), world.caller(), world.caller()
    caller.request(REQUEST_CHANNEL, 1, ORDERS)
    service.ask(2, 10)
    service.received()
    service.block()
    items = [framed(frames.encode_payload(1, NEXT, bytes(50_000)))] * 3
    world.core.receive(caller.peer, b"".join(items) + framed(frames.encode_cancel(1)), world.now)
    for number in range(5):
        raw = frames.encode_request(REQUEST_RESPONSE, 2 * number + 1, bytes(40_000), addressed(ORDERS), 0)
        world.core.receive(other.peer, framed(raw), world.now)
    assert world.core.engine.drops.total_n == 0
    service.unblock()
    assert kinds(service.received()).count((frames.CANCEL, 2)) == 1


def test_a_large_frame_ends_nobody_who_reads_it_while_something_else_is_written() -> None:
    """A KEEPALIVE of a service that still reads a frame of 9 MB is answered, and behind it."""
    _, service, caller = made(8 << 20)
    caller.request(REQUEST_RESPONSE, 1, ORDERS, bytes(9_000_000))
    service.block()
    service.send(frames.encode_keepalive(b"", respond=True))
    caller.send(frames.encode_keepalive(b"", respond=True))
    assert not service.is_closed
    service.unblock()
    assert [frame.name for frame in service.received()] == ["REQUEST_RESPONSE", "KEEPALIVE"]


def test_the_reason_of_an_end_does_not_wait_behind_what_nobody_wants_any_more() -> None:
    world, service, caller = made()
    caller.request(REQUEST_STREAM, 1, ORDERS, n=1000)
    caller.block()
    for _ in range(10):
        service.answer(2, bytes(1000), NEXT)
    world.core.end(caller.peer, "closed-by-operator", "enough", world.now)
    world.pump()
    assert [frame.text for frame in caller.received()] == ["closed-by-operator: enough"]
    assert service.received()[-1].kind == frames.CANCEL


def test_a_session_knows_what_was_written_and_not_what_waited() -> None:
    """The positions of resumption are those of the frames as the client gets them."""
    world = World()
    service = world.service("orders", 1)
    caller = world.caller(token=b"token")
    caller.request(REQUEST_STREAM, 1, ORDERS, n=1000)
    caller.block()
    for number in range(3):
        service.answer(2, b"%d" % number, NEXT)
    session = caller.peer.session
    assert session is not None
    assert session.sent_position == 0
    caller.unblock()
    items = caller.received()
    assert session.sent_position == sum(len(frame.raw) for frame in items)
    caller.block()
    service.answer(2, b"3", NEXT)
    caller.lose()
    again = world.connect()
    again.send(frames.Resume(b"token", session.sent_position - len(items[0].raw), 0).encode())
    assert [frame.data for frame in again.received() if frame.kind == frames.PAYLOAD] == [b"3"]
