"""Multicast streams: merged items, the credit ledger, branches that leave, and the bounds."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_STREAM
from tests.broker.forwarding.multicast.crowds import ALL, HEAD_BYTES, Crowd, items
from tests.broker.forwarding.pairs import ANSWERED, TRANSPORTS
from tests.fakes import Frame, World, addressed, cancelled, completed, error, fragments, moved

# request_stream


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


@pytest.mark.parametrize(
    ("flags", "passed"),
    [
        ([COMPLETE], [COMPLETE]),
        ([NEXT | COMPLETE], [NEXT, COMPLETE]),
        ([NEXT | FOLLOWS | COMPLETE], [NEXT, COMPLETE]),
        ([NEXT | FOLLOWS, COMPLETE], [NEXT | FOLLOWS, NEXT, COMPLETE]),
        ([0], []),
    ],
    ids=["without an item", "with its only item", "with FOLLOWS", "in an item in fragments", "neither"],
)
def test_what_the_last_branch_that_completes_gives_the_caller(flags: list[int], passed: list[int]) -> None:
    """Each item, and one completion behind all."""
    crowd = Crowd(2)
    crowd.open(REQUEST_STREAM)
    crowd.services[1].answer(2, b"", COMPLETE)
    for each in flags:
        crowd.services[0].answer(2, b"", each)
    assert crowd.caller.received() == [Frame(frames.encode_payload(1, each)) for each in passed]
    assert bool(crowd.world.left_over()) == (passed == [])


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
    text = "route-lost: a route of orders sent more items than REQUEST_N allowed"
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
    text = f"over-limit: more than {HEAD_BYTES + 100} bytes of items wait for REQUEST_N of the caller "
    text += "(limits.multicast_buffer_bytes)"
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
    text = f"over-limit: more than {2 * limit} bytes of incomplete items are held "
    text += "(limits.multicast_buffer_bytes)"
    assert crowd.caller.received() == [error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)], [cancelled(2)]]
    assert crowd.world.left_over() == []


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
    text = f"over-limit: more than {limit} bytes of items wait for REQUEST_N of the caller "
    text += "(limits.multicast_buffer_bytes)"
    assert crowd.caller.received()[-1] == error(3, CANCELED, text)
    crowd.caller.cancel(1)
    assert crowd.caller.peer.merging_bytes == 0
