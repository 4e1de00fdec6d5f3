"""Multicast streams: merged items, the credit ledger, branches that leave, and the bounds."""

from __future__ import annotations

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import CANCEL, COMPLETE, FOLLOWS, MAX_N, NEXT, REQUEST_CHANNEL, REQUEST_STREAM
from tests.broker.forwarding.multicast.crowds import ALL, HEAD_BYTES, Crowd, asked_of, items
from tests.broker.forwarding.pairs import ANSWERED, TRANSPORTS
from tests.fakes import Frame, World, addressed, asked, cancelled, completed, error, fragments, moved

# request_stream


def test_streams_are_merged_and_completed_once() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM)
    one, two = crowd.services
    one.answer(2, b"1", NEXT)
    two.answer(2, b"2", NEXT)
    two.answer(2, b"3", NEXT | COMPLETE)
    one.answer(2, b"4", NEXT)
    assert crowd.caller.received() == items(b"1", b"2", b"3", b"4")
    one.answer(2, b"", COMPLETE)
    assert crowd.caller.received() == [completed(1)]
    assert crowd.world.left_over() == []
    assert all(frame.kind != CANCEL for frames in crowd.received() for frame in frames)


@pytest.mark.parametrize("flags", [COMPLETE, NEXT | COMPLETE])
def test_a_stream_of_empty_streams_completes(flags: int) -> None:
    crowd = Crowd(3)
    crowd.open(REQUEST_STREAM)
    for service in crowd.services:
        service.answer(2, b"", flags)
    expected = items(b"", b"", b"") if flags & NEXT else []
    assert crowd.caller.received() == [*expected, completed(1)]
    assert crowd.world.left_over() == []


def test_metadata_of_items_passes() -> None:
    crowd = Crowd(1)
    crowd.open(REQUEST_STREAM)
    raw = frames.encode_payload(2, NEXT, b"data", b"metadata")
    crowd.services[0].send(raw)
    assert crowd.caller.received() == [moved(raw, 1)]


def test_an_error_of_one_stream_cancels_all() -> None:
    """Specification: an error message will cancel all streams."""
    crowd = Crowd()
    crowd.open(REQUEST_STREAM)
    crowd.services[0].answer(2, b"", COMPLETE)
    raw = frames.encode_error(2, 0x301, "no")
    crowd.services[1].send(raw)
    assert crowd.caller.received() == [moved(raw, 1)]
    assert crowd.received() == [[], [], [cancelled(2)]]
    assert crowd.world.left_over() == []


def test_nothing_is_asked_of_a_branch_that_the_caller_did_not_ask_for() -> None:
    crowd = Crowd(3)
    raw = crowd.caller.request(REQUEST_STREAM, 1, ALL, b"hi", 2)
    assert crowd.received() == [[asked_of(raw, 1)]] * 3
    for service in crowd.services:
        service.answer(2, b"a", NEXT)
    assert crowd.caller.received() == items(b"a", b"a")
    assert crowd.received() == [[asked(2, 1)], [], []]  # one item was still wanted when the first had come
    crowd.services[0].answer(2, b"a", NEXT)
    assert crowd.caller.received() == []
    assert crowd.received() == [[], [], []]


def test_a_branch_is_asked_for_no_more_than_the_prefetch() -> None:
    crowd = Crowd(2, CoreSettings(multicast_prefetch_n=4))
    raw = crowd.caller.request(REQUEST_STREAM, 1, ALL, b"hi", 1000)
    first = frames.encode_request(REQUEST_STREAM, 2, b"hi", addressed(ALL), 4)
    assert len(first) == len(raw)
    assert crowd.received() == [[moved(first, 2)]] * 2
    one = crowd.services[0]
    one.answer(2, b"1", NEXT)
    assert one.received() == []
    one.answer(2, b"2", NEXT)
    assert one.received() == [asked(2, 2)]


def test_items_that_nobody_asked_for_wait_and_come_with_the_credit() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM, n=1)
    for number, service in enumerate(crowd.services):
        service.answer(2, b"%d" % number, NEXT | COMPLETE)
    assert crowd.caller.received() == items(b"0")
    crowd.caller.ask(1, 5)
    assert crowd.caller.received() == [*items(b"1"), completed(1)]
    assert crowd.world.left_over() == []


def test_waiting_items_of_all_branches_come_in_turns() -> None:
    crowd = Crowd(3)
    crowd.open(REQUEST_STREAM, n=6)
    one, two, three = crowd.services
    for number in range(6):  # each answer of it widens its window
        one.answer(2, b"a%d" % number, NEXT)
    for service, name in ((three, b"c"), (two, b"b")):
        service.answer(2, name + b"1", NEXT)
        service.answer(2, name + b"2", NEXT)
    assert [frame.data for frame in crowd.caller.received()] == [b"a%d" % number for number in range(6)]
    crowd.caller.ask(1, 10)
    assert [frame.data for frame in crowd.caller.received()] == [b"c1", b"b1", b"c2", b"b2"]


def test_credit_is_spent_item_by_item() -> None:
    crowd = Crowd(3)
    crowd.open(REQUEST_STREAM, n=1)
    for service in crowd.services:
        service.answer(2, b"x", NEXT)
    for _ in range(3):
        assert len(crowd.caller.received()) == 1
        crowd.caller.ask(1, 1)


def test_credit_beyond_31_bits_is_not_lost() -> None:
    crowd = Crowd(1)
    crowd.open(REQUEST_STREAM, n=MAX_N)
    crowd.caller.ask(1, MAX_N)
    for number in range(100):
        crowd.services[0].answer(2, b"%d" % number, NEXT)
    assert len(crowd.caller.received()) == 100


@pytest.mark.parametrize("bad", [frames.encode_request_n(1, 0), frames.encode_request_n(1, 7)[:8]])
def test_credit_of_0_is_ignored(bad: bytes) -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM, n=1)
    for service in crowd.services:
        service.answer(2, b"x", NEXT)
    crowd.caller.send(bad)
    assert len(crowd.caller.received()) == 1


def test_fragments_of_two_items_never_mix() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM)
    one, two = crowd.services
    pieces = [frames.encode_payload(2, NEXT | FOLLOWS, b"1a", b"meta"), frames.encode_payload(2, FOLLOWS, b"1b")]
    one.send(*pieces)
    two.answer(2, b"2a", NEXT | FOLLOWS)
    two.answer(2, b"2b", NEXT | COMPLETE)
    last = frames.encode_payload(2, 0, b"1c")
    one.send(last)
    assert crowd.caller.received() == [
        Frame(frames.encode_payload(1, NEXT | FOLLOWS, b"2a")),
        *items(b"2b"),
        *[moved(raw, 1) for raw in [*pieces, last]],
    ]


def test_a_fragmented_item_costs_one_credit() -> None:
    crowd = Crowd(1)
    crowd.open(REQUEST_STREAM, n=2)
    one = crowd.services[0]
    for text in (b"1", b"2"):
        one.answer(2, text, NEXT | FOLLOWS)
        one.answer(2, text, NEXT)
    assert [frame.data for frame in crowd.caller.received()] == [b"1", b"1", b"2", b"2"]
    crowd.caller.ask(1, 3)
    assert one.received() == [asked(2, 3)]


def test_complete_with_follows_ends_the_item_and_the_branch() -> None:
    crowd = Crowd(1)
    crowd.open(REQUEST_STREAM)
    crowd.services[0].answer(2, b"x", NEXT | FOLLOWS | COMPLETE)
    assert crowd.caller.received() == [*items(b"x"), completed(1)]


def test_a_completion_ends_an_item_in_fragments() -> None:
    crowd = Crowd(1)
    crowd.open(REQUEST_STREAM)
    crowd.services[0].answer(2, b"x", NEXT | FOLLOWS)
    crowd.services[0].answer(2, b"", COMPLETE)
    assert crowd.caller.received() == [Frame(frames.encode_payload(1, NEXT | FOLLOWS, b"x")), *items(b""), completed(1)]


def test_a_payload_that_is_neither_item_nor_completion_is_ignored() -> None:
    crowd = Crowd(1)
    crowd.open(REQUEST_STREAM)
    crowd.services[0].answer(2, b"", 0)
    assert crowd.caller.received() == []


def test_frames_behind_the_completion_of_a_branch_are_ignored() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM, n=1)
    one = crowd.services[0]
    crowd.services[1].answer(2, b"1", NEXT)
    one.answer(2, b"2", NEXT | COMPLETE)  # waits for credit, so the branch is still known
    one.answer(2, b"3", NEXT | COMPLETE)
    one.fail(2, 0x201, "late")
    one.send(frames.encode_cancel(2), frames.encode_request_n(2, 3))
    assert crowd.caller.received() == items(b"1")
    assert crowd.received() == [[], []]
    crowd.caller.ask(1, 1)
    assert crowd.caller.received() == items(b"2")


def test_fragments_of_the_request_do_not_reach_a_branch_that_has_completed() -> None:
    crowd = Crowd(2)
    pieces = fragments(REQUEST_STREAM, 1, addressed(ALL), b"0123456789", [90, 92], n=1)
    crowd.caller.send(pieces[0])
    for service in crowd.services:
        service.received()
        service.answer(2, b"x", NEXT | COMPLETE)  # the second one's item waits
    crowd.caller.send(*pieces[1:])
    assert crowd.received() == [[], []]
    crowd.caller.ask(1, 1)
    assert crowd.caller.received() == [*items(b"x", b"x"), completed(1)]
    assert crowd.received() == [[], []]
    assert crowd.world.left_over() == []


def test_a_branch_that_sends_more_than_it_was_asked_for_counts_as_gone() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM, n=1)
    one, two = crowd.services
    two.answer(2, b"wanted", NEXT)
    one.answer(2, b"waits", NEXT)
    one.answer(2, b"too much", NEXT)
    assert crowd.received() == [[cancelled(2)], []]
    one.answer(2, b"late", NEXT | COMPLETE)
    crowd.caller.ask(1, 10)
    two.answer(2, b"", COMPLETE)
    assert crowd.caller.received() == [*items(b"wanted", b"waits"), completed(1)]
    assert crowd.world.left_over() == []


def test_a_branch_that_sends_too_much_ends_the_stream_where_leaving_does() -> None:
    crowd = Crowd(2, CoreSettings(multicast_on_leave="error"))
    crowd.open(REQUEST_STREAM, n=1)
    crowd.services[0].answer(2, b"1", NEXT)
    crowd.services[0].answer(2, b"2", NEXT)
    text = "route-lost: a route of orders sent more items than it was asked for"
    assert crowd.caller.received() == [*items(b"1"), error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)], [cancelled(2)]]
    assert crowd.world.left_over() == []


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_a_branch_that_sends_too_much_with_its_last_item_has_ended_by_itself(kind: int) -> None:
    crowd = Crowd(1)
    crowd.open(kind, n=1, flags=COMPLETE if kind == REQUEST_CHANNEL else 0)
    crowd.services[0].answer(2, b"1", NEXT)
    crowd.services[0].answer(2, b"2", NEXT | COMPLETE)
    assert crowd.caller.received() == [*items(b"1"), completed(1)]
    assert crowd.received() == [[]]
    assert crowd.world.left_over() == []


# D-14: a branch that leaves


def test_a_branch_that_leaves_counts_as_complete() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM, n=1)
    crowd.services[1].answer(2, b"whole", NEXT)
    crowd.services[0].answer(2, b"waits", NEXT)
    crowd.services[0].answer(2, b"never whole", NEXT | FOLLOWS)
    crowd.services[0].lose()
    crowd.services[1].answer(2, b"", COMPLETE)
    crowd.caller.ask(1, 9)
    assert crowd.caller.received() == [*items(b"whole", b"waits"), completed(1)]
    assert crowd.world.left_over() == []


def test_the_last_branch_that_leaves_completes_the_stream() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM)
    for service in crowd.services:
        service.lose()
    assert crowd.caller.received() == [completed(1)]
    assert crowd.world.left_over() == []


def test_a_branch_that_leaves_ends_the_stream_when_it_is_set_so() -> None:
    crowd = Crowd(3, CoreSettings(multicast_on_leave="error"))
    crowd.open(REQUEST_STREAM)
    crowd.services[1].lose()
    text = "route-lost: a connection of orders went away in the middle of the multicast"
    assert crowd.caller.received() == [error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)], [], [cancelled(2)]]
    assert crowd.world.left_over() == []


def test_a_branch_that_leaves_behind_its_completion_is_not_missed() -> None:
    crowd = Crowd(2, CoreSettings(multicast_on_leave="error"))
    crowd.open(REQUEST_STREAM, n=1)
    crowd.services[1].answer(2, b"1", NEXT)
    crowd.services[0].answer(2, b"2", NEXT | COMPLETE)
    crowd.services[0].lose()
    crowd.services[1].answer(2, b"", COMPLETE)
    crowd.caller.ask(1, 1)
    assert crowd.caller.received() == [*items(b"1", b"2"), completed(1)]
    assert crowd.world.left_over() == []


# The bound on what waits


def test_items_that_wait_are_bounded_in_bytes() -> None:
    settings = CoreSettings(multicast_buffer_bytes=HEAD_BYTES + 100)
    crowd = Crowd(2, settings)
    crowd.open(REQUEST_STREAM, n=1)
    crowd.services[0].answer(2, bytes(10), NEXT)
    crowd.services[1].answer(2, bytes(100), NEXT)
    assert crowd.caller.peer.merging_bytes == HEAD_BYTES + 100
    assert len(crowd.caller.received()) == 1
    crowd.caller.ask(1, 1)
    assert len(crowd.caller.received()) == 1
    crowd = Crowd(2, settings)
    crowd.open(REQUEST_STREAM, n=1)
    crowd.services[0].answer(2, bytes(10), NEXT)
    crowd.services[1].answer(2, bytes(101), NEXT | COMPLETE)
    text = f"over-limit: more than {HEAD_BYTES + 100} bytes of items wait that the caller did not ask "
    text += "for (limits.multicast_buffer_bytes)"
    assert crowd.caller.received()[1:] == [error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)], []]
    assert crowd.world.left_over() == []


def test_an_item_in_endless_fragments_is_bounded() -> None:
    limit = HEAD_BYTES + 100
    crowd = Crowd(2, CoreSettings(multicast_buffer_bytes=limit))
    crowd.open(REQUEST_STREAM)
    crowd.services[0].answer(2, bytes(100), NEXT | FOLLOWS)
    crowd.services[0].answer(2, bytes(100), NEXT | FOLLOWS)
    assert crowd.caller.received() == []
    crowd.services[0].answer(2, b"", NEXT | FOLLOWS)  # empty ones cost something too
    text = f"over-limit: more than {2 * limit} bytes of items that are not whole yet are held "
    text += "(limits.multicast_buffer_bytes)"
    assert crowd.caller.received() == [error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)], [cancelled(2)]]
    assert crowd.world.left_over() == []


def test_bytes_of_a_branch_that_left_wait_no_more() -> None:
    crowd = Crowd(3, CoreSettings(multicast_buffer_bytes=HEAD_BYTES + 100))
    crowd.open(REQUEST_STREAM, n=1)
    crowd.services[0].answer(2, b"", NEXT)
    crowd.services[1].answer(2, bytes(60), NEXT | FOLLOWS)
    crowd.services[1].lose()
    crowd.services[2].answer(2, bytes(60), NEXT)
    assert crowd.caller.received() == items(b"")


def test_a_connection_in_its_own_multicast_leaves_nothing_when_it_is_lost() -> None:
    for kind in ANSWERED:
        world = World()
        wires = [world.service("orders", number) for number in (1, 2)]
        wires[0].request(kind, 1, ALL)
        wires[0].lose()
        assert wires[1].received()[1:] == [cancelled(2)]
        assert world.left_over() == []


@pytest.mark.parametrize(("caller_framed", "service_framed"), TRANSPORTS)
def test_merged_items_cross_transports(caller_framed: bool, service_framed: bool) -> None:
    world = World()
    service = world.service("orders", 1, framed=service_framed)
    caller = world.caller(caller_framed)
    raw = caller.request(REQUEST_STREAM, 1, ALL, n=3)
    assert service.received() == [moved(raw, 2)]
    service.answer(2, b"x", NEXT | COMPLETE)
    assert caller.received() == [*items(b"x"), completed(1)]


def test_what_waits_in_all_multicast_streams_of_a_caller_is_bounded_together() -> None:
    limit = HEAD_BYTES + 100
    crowd = Crowd(2, CoreSettings(multicast_buffer_bytes=limit))
    for number in range(2):
        crowd.caller.request(REQUEST_STREAM, 1 + 2 * number, ALL, n=1)
    for number in range(2):
        crowd.services[0].answer(2 + 2 * number, b"", NEXT)
        crowd.services[1].answer(2 + 2 * number, bytes(60), NEXT)
    text = f"over-limit: more than {limit} bytes of items wait that the caller did not ask for "
    text += "(limits.multicast_buffer_bytes)"
    assert crowd.caller.received()[-1] == error(3, CANCELED, text)
    crowd.caller.cancel(1)
    assert crowd.caller.peer.merging_bytes == 0
