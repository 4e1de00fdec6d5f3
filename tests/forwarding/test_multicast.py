"""Multicast by the four rules of the specification, its credit ledger, and its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core import CoreSettings
from broker.errors import CANCELED, REJECTED
from broker.rsocket.frames import (
    CANCEL,
    COMPLETE,
    ERROR,
    FOLLOWS,
    MAX_N,
    NEXT,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_N,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    encode_cancel,
    encode_error,
    encode_payload,
    encode_request,
    encode_request_n,
)
from broker.wire.frames import MIME_TYPE, MULTICAST
from tests.fakes import (
    Frame,
    Wire,
    World,
    address,
    addressed,
    asked,
    cancelled,
    completed,
    error,
    fragments,
    moved,
)
from tests.forwarding.pairs import ANSWERED, MODELS, TRANSPORTS

ALL = address(MULTICAST, service="orders")
MIXED = [True, False, True, False]


class Crowd:
    """One caller and some services; at each service the request is stream 2."""

    def __init__(self, size: int = 3, settings: CoreSettings | None = None, framed: bool = True) -> None:
        self.world = World(settings)
        self.services = [self.world.service("orders", number + 1, framed=MIXED[number % 4]) for number in range(size)]
        self.caller = self.world.caller(framed)

    def open(self, kind: int, n: int = 8, flags: int = 0) -> bytes:
        """Sends the request on stream 1 and takes it from the services; the frame that was sent."""
        raw = self.caller.request(kind, 1, ALL, b"hi", n, flags)
        for service in self.services:
            service.received()
        return raw

    def received(self) -> list[list[Frame]]:
        """What arrived at each service."""
        return [service.received() for service in self.services]


def items(*texts: bytes, stream_id: int = 1) -> list[Frame]:
    return [Frame(encode_payload(stream_id, NEXT, text)) for text in texts]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("framed", [True, False])
def test_all_routes_get_the_request_with_its_id_rewritten(kind: int, framed: bool) -> None:
    crowd = Crowd(framed=framed)
    raw = crowd.caller.request(kind, 1, ALL, b"hi", 5)
    assert crowd.received() == [[moved(raw, 2)]] * 3


def test_only_matching_routes_get_it_and_the_caller_too_if_it_is_one() -> None:
    world = World()
    one = world.service("orders", 1, region="eu")
    two = world.service("orders", 2, region="us")
    both = world.service("orders", 3, region="eu")
    raw = both.request(REQUEST_FNF, 1, address(MULTICAST, service="orders", region="eu"))
    assert (one.received(), two.received(), both.received()) == ([moved(raw, 2)], [], [moved(raw, 2)])
    assert world.left_over() == []


@pytest.mark.parametrize("kind", ANSWERED)
def test_without_a_route_it_is_rejected(kind: int) -> None:
    caller = World().caller()
    caller.request(kind, 1, ALL)
    assert caller.received() == [error(1, REJECTED, "no-route: no route has service=orders")]


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_cancel_of_the_caller_cancels_all(kind: int) -> None:
    crowd = Crowd()
    crowd.open(kind)
    crowd.caller.cancel(1)
    assert crowd.received() == [[cancelled(2)]] * 3
    assert crowd.world.left_over() == []


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_lost_caller_cancels_all(kind: int) -> None:
    crowd = Crowd()
    crowd.open(kind)
    crowd.caller.lose()
    assert crowd.received() == [[cancelled(2)]] * 3
    assert crowd.world.left_over() == []


@pytest.mark.parametrize("kind", MODELS)
def test_routes_that_join_later_get_nothing(kind: int) -> None:
    crowd = Crowd(1)
    crowd.open(kind)
    late = crowd.world.service("orders", 9)
    crowd.caller.send(encode_payload(1, NEXT, b"more"))
    assert late.received() == []


@pytest.mark.parametrize("kind", MODELS)
def test_each_route_gets_metadata_that_it_can_read(kind: int) -> None:
    world = World()
    composite_route = world.service("orders", 1)
    plain_route = world.service("orders", 2, metadata_mime=MIME_TYPE)
    caller = world.caller()
    raw = caller.request(kind, 1, ALL, b"hi", 5)
    assert composite_route.received() == [moved(raw, 2)]
    assert plain_route.received() == [moved(encode_request(kind, 2, b"hi", ALL, 5), 2)]


@pytest.mark.parametrize("kind", MODELS)
def test_fragments_of_the_request_reach_all(kind: int) -> None:
    metadata = addressed(ALL)
    for cut in (5, 40, len(metadata) - 1, len(metadata) + 3):
        crowd = Crowd()
        pieces = fragments(kind, 1, metadata, b"0123456789", [cut, len(metadata) + 5])
        crowd.caller.send(*pieces)
        assert crowd.received() == [[moved(raw, 2) for raw in pieces]] * 3
        assert (1 in crowd.caller.peer.streams) == (kind != REQUEST_FNF)


@pytest.mark.parametrize("kind", MODELS)
def test_a_fragmented_request_is_gathered_whole_when_one_route_reads_another_mime_type(kind: int) -> None:
    world = World()
    composite_route = world.service("orders", 1)
    plain_route = world.service("orders", 2, metadata_mime=MIME_TYPE)
    caller = world.caller()
    metadata = addressed(ALL)
    pieces = fragments(kind, 1, metadata, b"data", [10, len(metadata) - 1])
    caller.send(*pieces)
    assert composite_route.received() == [moved(encode_request(kind, 2, b"data", metadata, 8), 2)]
    assert plain_route.received() == [moved(encode_request(kind, 2, b"data", ALL, 8), 2)]


# fire_and_forget


def test_a_fire_and_forget_to_all_leaves_nothing_behind() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_FNF)
    assert crowd.world.left_over() == []
    crowd.services[0].fail(2, 0x201, "no")
    crowd.services[1].answer(2, b"why")
    assert crowd.caller.received() == []
    assert crowd.received() == [[], [], []]


def test_a_route_that_refuses_the_fragments_of_a_fire_and_forget_gets_no_more_of_them() -> None:
    crowd = Crowd()
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


# request_response: "The broker will only reply to client with the FIRST message that returns. This includes an error."


def test_the_first_answer_wins_and_the_others_are_cancelled() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    raw = encode_payload(2, NEXT | COMPLETE, b"first", b"metadata")
    crowd.services[1].send(raw)
    assert crowd.caller.received() == [moved(raw, 1)]
    assert crowd.received() == [[cancelled(2)], [], [cancelled(2)]]
    crowd.services[0].answer(2, b"second")
    crowd.services[2].fail(2, 0x201, "third")
    assert crowd.caller.received() == []
    assert crowd.world.left_over() == []


@pytest.mark.parametrize("code", [0x201, 0x202, 0x301])
def test_an_error_is_an_answer(code: int) -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    raw = encode_error(2, code, "no")
    crowd.services[2].send(raw)
    assert crowd.caller.received() == [moved(raw, 1)]
    assert crowd.received() == [[cancelled(2)], [cancelled(2)], []]
    assert crowd.world.left_over() == []


def test_the_first_fragment_decides_which_answer_wins() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    pieces = [encode_payload(2, NEXT | FOLLOWS, b"one "), encode_payload(2, NEXT | FOLLOWS, b"two ")]
    crowd.services[0].send(pieces[0])
    assert crowd.received() == [[], [cancelled(2)], [cancelled(2)]]
    crowd.services[1].answer(2, b"whole")
    crowd.services[0].send(pieces[1])
    last = encode_payload(2, NEXT | COMPLETE, b"three")
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


def test_routes_that_are_lost_leave_the_answer_to_the_others() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    crowd.services[0].lose()
    crowd.services[2].lose()
    assert crowd.caller.received() == []
    crowd.services[1].answer(2, b"x")
    assert crowd.caller.received() == [Frame(encode_payload(1, NEXT | COMPLETE, b"x"))]
    assert crowd.world.left_over() == []


def test_when_all_routes_are_lost_the_caller_is_told() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    for service in crowd.services:
        service.lose()
    text = "route-lost: every route that could have answered went away before one did"
    assert crowd.caller.received() == [error(1, CANCELED, text)]
    assert crowd.world.left_over() == []


def test_frames_that_are_no_answer_do_not_decide() -> None:
    crowd = Crowd()
    crowd.open(REQUEST_RESPONSE)
    crowd.services[0].send(encode_request_n(2, 3), encode_cancel(2))
    crowd.caller.send(encode_request_n(1, 3), encode_payload(1, NEXT, b"x"), encode_error(1, 0x201, "no"))
    assert crowd.caller.received() == []
    assert crowd.received() == [[], [], []]


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
    raw = encode_payload(2, NEXT, b"data", b"metadata")
    crowd.services[0].send(raw)
    assert crowd.caller.received() == [moved(raw, 1)]


def test_an_error_of_one_stream_cancels_all() -> None:
    """Specification: an error message will cancel all streams."""
    crowd = Crowd()
    crowd.open(REQUEST_STREAM)
    crowd.services[0].answer(2, b"", COMPLETE)
    raw = encode_error(2, 0x301, "no")
    crowd.services[1].send(raw)
    assert crowd.caller.received() == [moved(raw, 1)]
    assert crowd.received() == [[], [], [cancelled(2)]]
    assert crowd.world.left_over() == []


def test_no_branch_is_asked_for_more_than_the_caller_asked() -> None:
    crowd = Crowd(3)
    raw = crowd.caller.request(REQUEST_STREAM, 1, ALL, b"hi", 2)
    assert crowd.received() == [[moved(raw, 2)]] * 3
    for service in crowd.services:
        service.answer(2, b"a", NEXT)
    assert crowd.caller.received() == items(b"a", b"a")
    assert [frame for frames in crowd.received() for frame in frames] == []


def test_a_branch_is_asked_for_no_more_than_the_prefetch() -> None:
    crowd = Crowd(2, CoreSettings(multicast_prefetch_n=4))
    raw = crowd.caller.request(REQUEST_STREAM, 1, ALL, b"hi", 1000)
    first = encode_request(REQUEST_STREAM, 2, b"hi", addressed(ALL), 4)
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
    crowd.open(REQUEST_STREAM, n=2)
    for service, name in zip(crowd.services, b"abc", strict=True):
        service.answer(2, b"%c1" % name, NEXT)
        service.answer(2, b"%c2" % name, NEXT)
    assert [frame.data for frame in crowd.caller.received()] == [b"a1", b"a2"]
    crowd.caller.ask(1, 10)
    assert [frame.data for frame in crowd.caller.received()] == [b"b1", b"c1", b"b2", b"c2"]


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


@pytest.mark.parametrize("bad", [encode_request_n(1, 0), encode_request_n(1, 7)[:8]])
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
    pieces = [encode_payload(2, NEXT | FOLLOWS, b"1a", b"meta"), encode_payload(2, FOLLOWS, b"1b")]
    one.send(*pieces)
    two.answer(2, b"2a", NEXT | FOLLOWS)
    two.answer(2, b"2b", NEXT | COMPLETE)
    last = encode_payload(2, 0, b"1c")
    one.send(last)
    assert crowd.caller.received() == [
        Frame(encode_payload(1, NEXT | FOLLOWS, b"2a")),
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
    assert crowd.caller.received() == [Frame(encode_payload(1, NEXT | FOLLOWS, b"x")), *items(b""), completed(1)]


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
    one.send(encode_cancel(2), encode_request_n(2, 3))
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
    crowd = Crowd(2, CoreSettings(multicast_buffer_bytes=100))
    crowd.open(REQUEST_STREAM, n=1)
    one, two = crowd.services
    one.answer(2, bytes(10), NEXT)
    two.answer(2, bytes(98), NEXT)  # 100 bytes with its type and flags
    assert len(crowd.caller.received()) == 1
    crowd.caller.ask(1, 1)
    two.answer(2, bytes(99), NEXT)
    assert len(crowd.caller.received()) == 1
    crowd = Crowd(2, CoreSettings(multicast_buffer_bytes=100))
    crowd.open(REQUEST_STREAM, n=1)
    crowd.services[0].answer(2, bytes(10), NEXT)
    crowd.services[1].answer(2, bytes(99), NEXT | COMPLETE)
    text = "over-limit: more than 100 bytes of items wait that the caller did not ask for"
    assert crowd.caller.received()[1:] == [error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)], []]
    assert crowd.world.left_over() == []


def test_an_item_in_endless_fragments_is_bounded() -> None:
    crowd = Crowd(2, CoreSettings(multicast_buffer_bytes=100))
    crowd.open(REQUEST_STREAM)
    crowd.services[0].answer(2, bytes(98), NEXT | FOLLOWS)
    crowd.services[0].answer(2, bytes(98), NEXT | FOLLOWS)
    assert crowd.caller.received() == []
    crowd.services[0].answer(2, bytes(1), NEXT | FOLLOWS)
    text = "over-limit: a single item of orders is over 100 bytes"
    assert crowd.caller.received() == [error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)], [cancelled(2)]]
    assert crowd.world.left_over() == []


def test_bytes_of_a_branch_that_left_wait_no_more() -> None:
    crowd = Crowd(3, CoreSettings(multicast_buffer_bytes=100))
    crowd.open(REQUEST_STREAM, n=1)
    crowd.services[0].answer(2, b"", NEXT)
    crowd.services[1].answer(2, bytes(60), NEXT | FOLLOWS)
    crowd.services[1].lose()
    crowd.services[2].answer(2, bytes(60), NEXT)
    assert crowd.caller.received() == items(b"")


# request_channel


def test_items_of_the_caller_reach_all_and_its_completion_too() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL)
    for service in crowd.services:
        service.ask(2, 10)
    crowd.caller.received()
    sent = [
        encode_payload(1, NEXT, b"item", b"metadata"),
        encode_payload(1, NEXT | FOLLOWS, b"it"),
        encode_payload(1, NEXT, b"em"),
        encode_payload(1, COMPLETE),
    ]
    crowd.caller.send(*sent, encode_payload(1, NEXT, b"too late"))
    assert crowd.received() == [[moved(raw, 2) for raw in sent]] * 2
    for service in crowd.services:
        service.answer(2, b"bye")
    assert crowd.caller.received() == [*items(b"bye", b"bye"), completed(1)]
    assert crowd.received() == [[], []]
    assert crowd.world.left_over() == []


def test_the_caller_may_send_as_much_as_the_slowest_branch_asked_for() -> None:
    crowd = Crowd(3)
    crowd.open(REQUEST_CHANNEL)
    one, two, three = crowd.services
    one.ask(2, 10)
    two.ask(2, 3)
    assert crowd.caller.received() == []
    three.ask(2, 5)
    assert crowd.caller.received() == [asked(1, 3)]
    two.ask(2, 1)
    assert crowd.caller.received() == [asked(1, 1)]
    two.ask(2, MAX_N)
    assert crowd.caller.received() == [asked(1, 1)]
    three.ask(2, 100)
    assert crowd.caller.received() == [asked(1, 5)]


def test_a_branch_that_listens_no_more_slows_nobody() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL)
    crowd.services[0].ask(2, 10)
    crowd.services[1].cancel(2)
    assert crowd.caller.received() == [asked(1, 10)]
    raw = encode_payload(1, NEXT, b"item")
    crowd.caller.send(raw)
    assert crowd.received() == [[moved(raw, 2)], []]
    crowd.services[1].answer(2, b"still talking", NEXT)
    assert crowd.caller.received() == items(b"still talking")


def test_a_branch_that_leaves_slows_nobody() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL)
    crowd.services[0].ask(2, 10)
    crowd.services[1].lose()
    assert crowd.caller.received() == [asked(1, 10)]


def test_more_credit_than_31_bits_is_granted_in_several_frames_and_never_forgotten() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL)
    one, two = crowd.services
    for _ in range(2):
        one.ask(2, MAX_N)
    two.ask(2, MAX_N)
    assert crowd.caller.received() == [asked(1, MAX_N)]
    two.ask(2, 7)
    assert crowd.caller.received() == [asked(1, 7)]
    two.cancel(2)
    assert crowd.caller.received() == [asked(1, MAX_N - 7)]


def test_when_nobody_listens_the_caller_is_asked_to_stop_once() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL)
    for service in crowd.services:
        service.cancel(2)
    assert crowd.caller.received() == [cancelled(1)]
    crowd.caller.send(encode_payload(1, NEXT | COMPLETE, b"nobody hears"))
    assert crowd.received() == [[], []]
    for service in crowd.services:
        service.answer(2, b"", COMPLETE)
    assert crowd.caller.received() == [completed(1)]
    assert crowd.world.left_over() == []


def test_a_channel_ends_when_the_branches_completed_and_then_the_caller() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL)
    for service in crowd.services:
        service.answer(2, b"", COMPLETE)
    assert crowd.caller.received() == [completed(1)]
    raw = encode_payload(1, COMPLETE)
    crowd.caller.send(raw)
    assert crowd.received() == [[moved(raw, 2)]] * 2
    assert crowd.world.left_over() == []


def test_a_channel_whose_first_frame_completes_ends_with_its_branches() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL, flags=COMPLETE)
    for service in crowd.services:
        service.answer(2, b"bye")
    assert crowd.caller.received() == [*items(b"bye", b"bye"), completed(1)]
    assert crowd.received() == [[], []]
    assert crowd.world.left_over() == []


def test_a_channel_of_one_item_in_fragments_ends_with_its_branches() -> None:
    crowd = Crowd(2)
    pieces = fragments(REQUEST_CHANNEL, 1, addressed(ALL), b"0123456789", [90, 92], flags=COMPLETE)
    crowd.caller.send(*pieces)
    for service in crowd.services:
        service.answer(2, b"bye")
    assert crowd.caller.received() == [*items(b"bye", b"bye"), completed(1)]
    assert crowd.received() == [[moved(raw, 2) for raw in pieces]] * 2
    assert crowd.world.left_over() == []


def test_an_error_of_the_caller_reaches_all_that_listen_and_ends_all() -> None:
    crowd = Crowd(4)
    crowd.open(REQUEST_CHANNEL)
    crowd.services[1].cancel(2)
    crowd.services[2].answer(2, b"", COMPLETE)
    crowd.services[3].lose()
    raw = encode_error(1, 0x201, "of the caller")
    crowd.caller.send(raw)
    assert crowd.received() == [[moved(raw, 2)], [cancelled(2)], [moved(raw, 2)], []]
    assert crowd.caller.received() == []
    assert crowd.world.left_over() == []


def test_an_error_of_the_caller_reaches_no_branch_whose_connection_is_gone() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL, n=1)
    for service in crowd.services:
        service.answer(2, b"x", NEXT)
    crowd.services[1].lose()  # its item still waits
    raw = encode_error(1, 0x201, "of the caller")
    crowd.caller.send(raw)
    assert crowd.received() == [[moved(raw, 2)], []]
    assert crowd.world.core.take_writes() == []
    assert crowd.world.left_over() == []


def test_an_error_of_a_branch_cancels_all() -> None:
    crowd = Crowd(3)
    crowd.open(REQUEST_CHANNEL)
    crowd.services[2].answer(2, b"", COMPLETE)  # its other half is open
    crowd.services[0].fail(2, 0x201, "no")
    assert crowd.caller.received() == [error(1, 0x201, "no")]
    assert crowd.received() == [[], [cancelled(2)], [cancelled(2)]]
    assert crowd.world.left_over() == []


def test_an_error_of_a_branch_behind_its_completion_ends_its_other_half_only() -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL)
    crowd.services[0].answer(2, b"", COMPLETE)
    crowd.services[0].fail(2, 0x201, "late")
    crowd.services[1].ask(2, 4)
    assert crowd.caller.received() == [asked(1, 4)]
    crowd.services[1].answer(2, b"", COMPLETE)
    crowd.services[1].fail(2, 0x201, "late")
    assert crowd.caller.received() == [completed(1), cancelled(1)]
    assert crowd.world.left_over() == []


def test_a_route_lost_behind_the_last_item_is_no_second_end() -> None:
    crowd = Crowd(1, CoreSettings(multicast_on_leave="error"))
    crowd.open(REQUEST_CHANNEL)
    crowd.services[0].answer(2, b"", COMPLETE)
    crowd.services[0].lose()
    assert crowd.caller.received() == [completed(1), cancelled(1)]
    assert crowd.world.left_over() == []


def test_a_cancel_of_the_caller_ends_the_open_halves_only() -> None:
    crowd = Crowd(3)
    crowd.open(REQUEST_CHANNEL)
    crowd.services[0].answer(2, b"", COMPLETE)
    crowd.services[1].cancel(2)
    crowd.services[2].cancel(2)
    crowd.services[2].answer(2, b"", COMPLETE)
    crowd.caller.cancel(1)
    assert crowd.received() == [[cancelled(2)], [cancelled(2)], []]
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


# Any interleaving

BRANCHES = 3
# What ends a request is rare, or most requests would end before anything has happened.
DEEDS = ["item"] * 8 + ["piece"] * 5 + ["ask"] * 4 + ["say", "grant"] * 2 + ["complete"] * 2 + ["lose", "deaf"]
ENDS = ["fail", "cancel", "leave"]
STEPS = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 11), st.integers(0, 3)), min_size=5, max_size=60)
LAST_STEPS = st.lists(st.tuples(st.sampled_from(DEEDS + ENDS), st.integers(0, 11), st.integers(0, 3)), max_size=10)


class Model:
    """What a well-behaved caller and well-behaved branches may do, and what the caller must see of it."""

    def __init__(self, kind: int, n: int, prefetch_n: int, on_leave: str) -> None:
        self.world = World(CoreSettings(multicast_prefetch_n=prefetch_n, multicast_on_leave=on_leave))
        self.services = [self.world.service("orders", number + 1) for number in range(BRANCHES)]
        self.caller = self.world.caller()
        self.kind = kind
        self.asked_n = n
        self.sent: list[list[bytes]] = [[] for _ in range(BRANCHES)]  # whole items, by branch
        self.partial = [b""] * BRANCHES
        self.credit = [0] * BRANCHES
        self.talks = [True] * BRANCHES
        self.listens = [kind == REQUEST_CHANNEL] * BRANCHES
        self.is_gone = [False] * BRANCHES
        self.granted_n = [0] * BRANCHES
        self.may_send_n = 0
        self.said = 0
        self.heard = [0] * BRANCHES
        self.talks_caller = kind == REQUEST_CHANNEL
        self.is_over = False  # the caller has its end, or ended it
        self.got: list[bytes] = []
        self.got_partial = b""
        self.got_owner = -1
        self.count = 0
        self.caller.request(kind, 1, ALL, b"hi", n)
        self.look()

    def look(self) -> None:
        """Takes what arrived, and checks everything that must always hold."""
        for index, service in enumerate(self.services):
            for frame in service.received():
                assert not self.is_gone[index]
                if frame.kind in (REQUEST_STREAM, REQUEST_CHANNEL, REQUEST_N):
                    assert self.talks[index] or frame.kind == REQUEST_N
                    self.credit[index] += frame.n
                elif frame.kind == PAYLOAD:
                    assert self.listens[index], "items only for those that listen"
                    if frame.flags & COMPLETE:
                        self.listens[index] = False
                    else:
                        self.heard[index] += 1
                        assert self.heard[index] <= self.granted_n[index]
                elif frame.kind == CANCEL:
                    assert self.talks[index] or self.listens[index], "a stream that ended is not cancelled"
                    self.talks[index] = self.listens[index] = False
                elif frame.kind == ERROR:
                    self.talks[index] = self.listens[index] = False
        for frame in self.caller.received():
            assert not self.is_over, f"{frame} behind the end"
            if frame.kind == PAYLOAD and frame.flags & NEXT:
                owner = frame.data[0] - ord("a")
                assert self.got_owner in (-1, owner), "fragments of two items are mixed"
                self.got_partial += frame.data
                if frame.flags & FOLLOWS:
                    self.got_owner = owner
                else:
                    self.got.append(self.got_partial)
                    self.got_partial = b""
                    self.got_owner = -1
                    assert len(self.got) <= self.asked_n, "more than the caller asked for"
                    mine = [item for item in self.got if item[:1] == frame.data[:1]]
                    assert self.sent[owner][: len(mine)] == mine, "items of a branch keep their order"
                assert not frame.flags & COMPLETE
            elif frame.kind == PAYLOAD:
                assert frame == completed(1)
                assert not any(self.talks)
                self.answered = True
                if self.kind == REQUEST_STREAM or not self.talks_caller:
                    self.is_over = True
            elif frame.kind == REQUEST_N:
                assert self.talks_caller
                self.may_send_n += frame.n
                assert all(
                    self.may_send_n <= granted
                    for granted, listens in zip(self.granted_n, self.listens, strict=True)
                    if listens
                )
            elif frame.kind == CANCEL:
                assert self.talks_caller
                assert not any(self.listens)
                self.talks_caller = False
                if self.answered:
                    self.is_over = True
            else:
                assert frame.kind == ERROR
                self.is_over = True

    answered = False

    def step(self, what: str, index: int, more: int) -> None:
        service: Wire = self.services[index % BRANCHES]
        can_talk = what != "ask" and self.talks[index] and not self.is_gone[index]
        if what == "ask" and not self.is_over and not self.answered:
            self.asked_n += index
            self.caller.ask(1, index)
        elif what == "item" and can_talk and self.credit[index] > 0 and not self.partial[index]:
            for _ in range(min(more + 1, self.credit[index])):
                self.item(index, NEXT)
        elif what == "piece" and can_talk and self.credit[index] > 0:
            text = b"%c%d;" % (ord("a") + index, self.count)
            self.count += 1
            self.partial[index] += text
            is_last = more > 1
            if is_last:
                self.sent[index].append(self.partial[index])
                self.partial[index] = b""
                self.credit[index] -= 1
            service.answer(2, text, NEXT if is_last else NEXT | FOLLOWS)
        elif what == "complete" and can_talk and not self.partial[index]:
            self.talks[index] = False
            if more and self.credit[index]:
                self.item(index, NEXT | COMPLETE)
            else:
                service.answer(2, b"", COMPLETE)
        elif what == "fail" and can_talk:
            self.talks[index] = self.listens[index] = False
            service.fail(2, 0x201, "no")
        elif what == "lose" and not self.is_gone[index]:
            self.is_gone[index] = True
            self.talks[index] = self.listens[index] = False
            service.lose()
        elif what == "deaf" and self.listens[index]:
            self.listens[index] = False
            service.cancel(2)
        elif what == "grant" and self.listens[index]:
            self.granted_n[index] += more + 1
            service.ask(2, more + 1)
        elif what == "say" and self.talks_caller and not self.is_over:
            if index == 2:
                self.talks_caller = False
                if self.answered:
                    self.is_over = True
                self.caller.send(encode_payload(1, COMPLETE))
            elif self.said < self.may_send_n:
                self.said += 1
                self.caller.send(encode_payload(1, NEXT, b"said"))
        elif what == "cancel" and not self.is_over:
            self.is_over = True
            self.caller.cancel(1)
        elif what == "leave" and not self.caller.is_lost:
            self.is_over = True
            self.caller.lose()

    def item(self, index: int, flags: int) -> None:
        text = b"%c%d;" % (ord("a") + index, self.count)
        self.count += 1
        self.sent[index].append(text)
        self.credit[index] -= 1
        self.services[index].answer(2, text, flags)

    def finish(self) -> None:
        """Everybody completes, and the caller asks for all: then it has all, and nothing is left."""
        for index in range(BRANCHES):
            if self.partial[index]:
                self.step("piece", index, 2)
                self.look()
            self.step("complete", index, 0)
            self.look()
            self.step("deaf", index, 0)
            self.look()
        self.step("ask", 1000, 0)
        self.look()
        self.step("say", 2, 0)
        self.look()
        assert self.is_over
        assert self.world.left_over() == []


@pytest.mark.parametrize("on_leave", ["ignore", "error"])
@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
@settings(max_examples=150, deadline=None)
@given(steps=STEPS, last_steps=LAST_STEPS, n=st.integers(1, 5), prefetch_n=st.sampled_from([1, 2, 3, 32]))
def test_a_merge_keeps_its_promises_whatever_happens(
    kind: int,
    on_leave: str,
    steps: list[tuple[str, int, int]],
    last_steps: list[tuple[str, int, int]],
    n: int,
    prefetch_n: int,
) -> None:
    """Never more than asked for, fragments never mixed, one end, nothing behind it, nothing left."""
    model = Model(kind, n, prefetch_n, on_leave)
    for what, number, more in [*steps, *last_steps]:
        model.step(what, number % 4 + 1 if what == "ask" else number % BRANCHES, more)
        model.look()
    model.finish()


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, BRANCHES - 1), st.integers(0, 3)), max_size=80),
    n=st.integers(1, 5),
)
def test_no_branch_starves_while_the_caller_wants_items(steps: list[tuple[int, int]], n: int) -> None:
    """Whoever is asked and answers is asked again: with endless credit every branch gets all of its items through."""
    model = Model(REQUEST_STREAM, n, 4, "ignore")
    model.step("ask", 10_000, 0)
    model.look()
    for index, more in steps:
        assert model.credit[index] > 0
        model.step("item", index, more)
        model.look()
    assert sum(len(items) for items in model.sent) == len(model.got)
    model.finish()
