"""Unicast, every interaction model, frame by frame: what is passed on, what is ignored, what ends a request."""

from __future__ import annotations

import pytest

from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from tests.broker.forwarding.pairs import ANSWERED, MODELS, TRANSPORTS, Pair
from tests.fakes import World, address, addressed, cancelled, error, fragments, moved, raw_frame

LOST_TEXT = "route-lost: the connection of orders went away before the request ended"
CODES = [0x201, 0x202, 0x203, 0x204, 0x301, 0xFFFFFFFE, 0xFFFFFFFF, 0]


def ext(stream_id: int, flags: int) -> bytes:
    return raw_frame(frames.EXT, flags, b"\x00\x00\x00\x07rest", stream_id)


# The way there and back


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("caller_framed", "service_framed"), TRANSPORTS)
def test_a_request_arrives_with_its_stream_id_rewritten_and_nothing_else(
    kind: int, caller_framed: bool, service_framed: bool
) -> None:
    pair = Pair(caller_framed, service_framed)
    raw = pair.caller.request(kind, 1, address(service="orders"), b"\x00payload\xff", 5)
    assert pair.received() == ([], [moved(raw, 2)])


@pytest.mark.parametrize("kind", MODELS)
def test_flags_that_nobody_knows_are_passed_on(kind: int) -> None:
    pair = Pair()
    raw = pair.caller.request(kind, 1, address(service="orders"), b"x", 5, flags=frames.IGNORE | 0x1F)
    assert pair.received() == ([], [moved(raw, 2)])


@pytest.mark.parametrize("kind", ANSWERED)
@pytest.mark.parametrize(("caller_framed", "service_framed"), TRANSPORTS)
def test_an_answer_comes_back_with_its_stream_id_rewritten_and_nothing_else(
    kind: int, caller_framed: bool, service_framed: bool
) -> None:
    pair = Pair(caller_framed, service_framed)
    pair.open(kind)
    raw = frames.encode_payload(2, NEXT | COMPLETE | 0x1F, b"\x00answer", b"metadata of the answer")
    pair.service.send(raw)
    assert pair.received() == ([moved(raw, 1)], [])


@pytest.mark.parametrize("kind", ANSWERED)
@pytest.mark.parametrize("code", CODES)
def test_an_error_of_the_route_comes_back_with_its_code_and_ends_the_request(kind: int, code: int) -> None:
    pair = Pair()
    pair.open(kind)
    raw = frames.encode_error(2, code, "no: because")
    pair.service.send(raw)
    assert pair.received() == ([moved(raw, 1)], [])
    assert not pair.is_open
    assert pair.world.left_over() == []


def test_requests_of_two_callers_do_not_meet() -> None:
    pair = Pair()
    other = pair.world.caller()
    pair.open(REQUEST_RESPONSE)
    other.request(REQUEST_RESPONSE, 1, address(service="orders"), b"theirs")
    pair.service.answer(4, b"for the other")
    pair.service.answer(2, b"for the first")
    assert pair.caller.one() == moved(frames.encode_payload(2, NEXT | COMPLETE, b"for the first"), 1)
    assert other.one() == moved(frames.encode_payload(4, NEXT | COMPLETE, b"for the other"), 1)


def test_a_connection_may_call_itself() -> None:
    world = World()
    both = world.service("orders", 1)
    raw = both.request(REQUEST_RESPONSE, 1, address(service="orders"), b"me")
    assert both.received() == [moved(raw, 2)]
    both.answer(2, b"myself")
    assert both.received() == [moved(frames.encode_payload(2, NEXT | COMPLETE, b"myself"), 1)]
    assert world.left_over() == []


# request_response


@pytest.mark.parametrize("flags", [NEXT, NEXT | COMPLETE, COMPLETE, 0, frames.FOLLOWS | COMPLETE])
def test_an_answer_ends_a_request_response_even_without_complete(flags: int) -> None:
    """Protocol: if a PAYLOAD … is received that does not have a COMPLETE flag set, … MUST assume it is set."""
    pair = Pair()
    pair.open(REQUEST_RESPONSE)
    pair.service.answer(2, b"", flags)
    assert pair.caller.one() == moved(frames.encode_payload(2, flags, b""), 1)
    assert not pair.is_open
    assert pair.world.left_over() == []


def test_an_answer_in_fragments_ends_the_request_with_the_last() -> None:
    pair = Pair()
    pair.open(REQUEST_RESPONSE)
    pieces = [
        frames.encode_payload(2, NEXT | frames.FOLLOWS, b"", b"metadata"),
        frames.encode_payload(2, NEXT | frames.FOLLOWS, b"one"),
        frames.encode_payload(2, frames.FOLLOWS, b"two"),
    ]
    pair.service.send(*pieces)
    assert pair.is_open
    last = frames.encode_payload(2, NEXT | COMPLETE, b"three")
    pair.service.send(last)
    assert pair.received() == ([moved(raw, 1) for raw in [*pieces, last]], [])
    assert not pair.is_open


@pytest.mark.parametrize(
    "late",
    [
        frames.encode_payload(2, NEXT | COMPLETE, b"late"),
        frames.encode_error(2, 0x201, "late"),
        frames.encode_request_n(2, 4),
        frames.encode_cancel(2),
    ],
)
@pytest.mark.parametrize("kind", ANSWERED)
def test_late_frames_of_the_route_are_ignored(kind: int, late: bytes) -> None:
    pair = Pair()
    pair.open(kind)
    pair.caller.cancel(1)
    assert pair.service.received() == [cancelled(2)]
    pair.service.send(late)
    assert pair.received() == ([], [])
    assert not pair.service.is_closed


@pytest.mark.parametrize(
    "late",
    [
        frames.encode_payload(1, NEXT | COMPLETE, b"late"),
        frames.encode_error(1, 0x201, "late"),
        frames.encode_request_n(1, 4),
        frames.encode_cancel(1),
    ],
)
@pytest.mark.parametrize("kind", ANSWERED)
def test_late_frames_of_the_caller_are_ignored(kind: int, late: bytes) -> None:
    pair = Pair()
    pair.open(kind)
    pair.service.fail(2, 0x201, "no")
    pair.received()
    pair.caller.send(late)
    assert pair.received() == ([], [])
    assert not pair.caller.is_closed


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_request_on_a_stream_id_in_use_is_ignored(kind: int) -> None:
    pair = Pair()
    pair.open(kind)
    for again in MODELS:
        pair.caller.request(again, 1, address(service="orders"), b"again")
    assert pair.received() == ([], [])
    assert pair.is_open


@pytest.mark.parametrize("kind", MODELS)
def test_a_request_with_an_even_id_or_on_stream_0_is_ignored(kind: int) -> None:
    pair = Pair()
    pair.caller.request(kind, 2, address(service="orders"))
    pair.caller.request(kind, 0, address(service="orders"))
    assert pair.received() == ([], [])
    assert pair.world.core.engine.ignored == 2
    assert not pair.caller.is_closed


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_cancel_of_the_caller_reaches_the_route_and_ends_the_request(kind: int) -> None:
    pair = Pair()
    pair.open(kind)
    pair.caller.cancel(1)
    assert pair.received() == ([], [cancelled(2)])
    assert not pair.is_open
    assert pair.world.left_over() == []


@pytest.mark.parametrize(
    "stray",
    [
        frames.encode_payload(1, NEXT | COMPLETE, b"more"),
        frames.encode_error(1, 0x201, "mine"),
        frames.encode_request_n(1, 4),
        ext(1, 0),
    ],
)
def test_frames_that_a_caller_of_request_response_has_no_use_for_are_ignored(stray: bytes) -> None:
    pair = Pair()
    pair.open(REQUEST_RESPONSE)
    pair.caller.send(stray)
    assert pair.received() == ([], [])
    assert pair.is_open


@pytest.mark.parametrize("kind", [REQUEST_RESPONSE, REQUEST_STREAM])
@pytest.mark.parametrize("stray", [frames.encode_request_n(2, 4), frames.encode_cancel(2), ext(2, 0)])
def test_frames_that_a_route_has_no_right_to_are_ignored(kind: int, stray: bytes) -> None:
    pair = Pair()
    pair.open(kind)
    pair.service.send(stray)
    assert pair.received() == ([], [])
    assert pair.is_open


@pytest.mark.parametrize("kind", ANSWERED)
def test_an_extension_that_may_be_ignored_is_passed_on_both_ways(kind: int) -> None:
    pair = Pair()
    pair.open(kind)
    pair.caller.send(ext(1, frames.IGNORE))
    pair.service.send(ext(2, frames.IGNORE | frames.METADATA))
    assert pair.received() == ([moved(ext(2, frames.IGNORE | frames.METADATA), 1)], [moved(ext(1, frames.IGNORE), 2)])


# fire_and_forget


def test_a_fire_and_forget_leaves_nothing_behind() -> None:
    pair = Pair()
    pair.open(REQUEST_FNF)
    assert not pair.is_open
    assert pair.world.left_over() == []


def test_answers_to_a_fire_and_forget_are_ignored() -> None:
    pair = Pair()
    pair.open(REQUEST_FNF)
    pair.service.send(frames.encode_payload(2, NEXT | COMPLETE, b"why"), frames.encode_error(2, 0x201, "no"))
    assert pair.received() == ([], [])


def test_a_fragmented_fire_and_forget_ends_with_its_last_fragment() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_FNF, 1, addressed(address(service="orders")), b"0123456789", [90, 93])
    pair.caller.send(*pieces[:2])
    assert pair.is_open
    pair.caller.send(pieces[2])
    assert pair.received() == ([], [moved(raw, 2) for raw in pieces])
    assert pair.world.left_over() == []


def test_nothing_comes_back_in_the_middle_of_a_fire_and_forget() -> None:
    pair = Pair()
    pair.caller.send(fragments(REQUEST_FNF, 1, addressed(address(service="orders")), b"0123456789", [90])[0])
    pair.service.received()
    pair.service.send(
        ext(2, frames.IGNORE),
        frames.encode_request_n(2, 3),
        frames.encode_payload(2, NEXT, b"x"),
        frames.encode_cancel(2),
    )
    assert pair.received() == ([], [])
    assert pair.is_open


def test_an_error_of_the_route_in_the_middle_of_a_fire_and_forget_is_not_told_to_the_caller() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_FNF, 1, addressed(address(service="orders")), b"0123456789", [90, 93])
    pair.caller.send(pieces[0])
    pair.service.received()
    pair.service.send(frames.encode_payload(2, NEXT, b"what"), frames.encode_error(2, 0x201, "stop"))
    pair.caller.send(*pieces[1:])
    assert pair.received() == ([], [])
    assert pair.world.left_over() == []


def test_a_route_lost_in_the_middle_of_a_fire_and_forget_is_not_told_to_the_caller() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_FNF, 1, addressed(address(service="orders")), b"0123456789", [90, 93])
    pair.caller.send(pieces[0])
    pair.service.lose()
    pair.caller.send(*pieces[1:])
    assert pair.caller.received() == []
    assert pair.world.left_over() == []


# request_stream


def test_items_and_credit_of_a_stream_pass_until_it_completes() -> None:
    pair = Pair()
    pair.open(REQUEST_STREAM, n=2)
    items = [
        frames.encode_payload(2, NEXT, b"1"),
        frames.encode_payload(2, NEXT | frames.FOLLOWS, b"2"),
        frames.encode_payload(2, 0, b"2"),
    ]
    pair.service.send(*items)
    more = [frames.encode_request_n(1, 1), frames.encode_request_n(1, frames.MAX_N)]
    pair.caller.send(*more)
    end = frames.encode_payload(2, COMPLETE)
    pair.service.send(end)
    assert pair.received() == ([moved(raw, 1) for raw in [*items, end]], [moved(raw, 2) for raw in more])
    assert not pair.is_open
    assert pair.world.left_over() == []


def test_complete_ends_a_stream_even_with_follows() -> None:
    """Protocol: A PAYLOAD with both F and C flags set, implicitly ignores the F flag."""
    pair = Pair()
    pair.open(REQUEST_STREAM)
    pair.service.answer(2, b"last", NEXT | frames.FOLLOWS | COMPLETE)
    assert pair.caller.one() == moved(frames.encode_payload(2, NEXT | frames.FOLLOWS | COMPLETE, b"last"), 1)
    assert not pair.is_open


@pytest.mark.parametrize(
    "bad", [frames.encode_request_n(1, 0), frames.encode_request_n(1, 5)[:9], frames.encode_request_n(1, 5)[:6]]
)
@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_a_request_n_of_0_or_without_its_credit_is_ignored(kind: int, bad: bytes) -> None:
    pair = Pair()
    pair.open(kind)
    pair.caller.send(bad)
    assert pair.received() == ([], [])
    assert pair.is_open


def test_payloads_of_the_caller_of_a_stream_are_ignored() -> None:
    pair = Pair()
    pair.open(REQUEST_STREAM)
    pair.caller.send(frames.encode_payload(1, NEXT, b"no"), frames.encode_error(1, 0x201, "no"))
    assert pair.received() == ([], [])
    assert pair.is_open


# request_channel: both halves, in every order

HALVES = {
    "C": frames.encode_payload(1, COMPLETE),  # the caller completes
    "X": frames.encode_cancel(1),  # the caller cancels
    "E": frames.encode_error(1, 0x201, "of the caller"),
    "c": frames.encode_payload(2, NEXT | COMPLETE, b"last"),  # the route completes
    "x": frames.encode_cancel(2),  # the route wants no more
    "e": frames.encode_error(2, 0x301, "of the route"),
    "P": frames.encode_payload(1, NEXT, b"item of the caller"),
    "p": frames.encode_payload(2, NEXT, b"item of the route"),
    "N": frames.encode_request_n(1, 3),
    "n": frames.encode_request_n(2, 3),
}


@pytest.mark.parametrize(
    ("sent", "passed", "is_open"),
    [
        ("nPpN", "nPpN", True),
        ("Cp", "Cp", True),
        ("Cpc", "Cpc", False),
        ("cP", "cP", True),
        ("cPC", "cPC", False),
        ("xp", "xp", True),
        ("xpc", "xpc", False),
        ("cx", "cx", False),
        ("CPP", "C", True),  # "MUST NOT send any additional PAYLOAD frames after sending a frame with the C bit set"
        ("cp", "c", True),
        ("xP", "x", True),
        ("xC", "x", True),
        ("xx", "x", True),
        ("Cx", "C", True),
        ("xCc", "xc", False),
        ("Ccp", "Cc", False),
        ("X", "X", False),
        ("CX", "CX", False),
        ("cX", "cX", False),
        ("xX", "xX", False),
        ("Xpc", "X", False),
        ("E", "E", False),
        ("Ep", "E", False),
        ("cE", "cE", False),
        ("e", "e", False),
        ("eP", "e", False),
        ("Ce", "Ce", False),
        ("xe", "xe", False),
        ("cNn", "cNn", True),
    ],
)
def test_the_halves_of_a_channel_end_as_the_protocol_says(sent: str, passed: str, is_open: bool) -> None:
    """Upper case: the caller; lower case: the route. What is not in `passed` is ignored."""
    pair = Pair()
    pair.open(REQUEST_CHANNEL)
    for step in sent:
        (pair.caller if step.isupper() else pair.service).send(HALVES[step])
    to_caller = [moved(HALVES[step], 1) for step in passed if step.islower()]
    to_service = [moved(HALVES[step], 2) for step in passed if step.isupper()]
    assert pair.received() == (to_caller, to_service)
    assert pair.is_open == is_open
    if not is_open:
        assert pair.world.left_over() == []


def test_a_channel_whose_first_frame_completes_ends_with_the_route() -> None:
    pair = Pair()
    pair.open(REQUEST_CHANNEL, flags=COMPLETE)
    pair.caller.send(HALVES["P"])
    pair.service.send(HALVES["c"])
    assert pair.received() == ([moved(HALVES["c"], 1)], [])
    assert not pair.is_open


def test_a_channel_whose_first_item_is_cut_and_the_only_one_completes_with_its_last_fragment() -> None:
    pair = Pair()
    pieces = fragments(
        REQUEST_CHANNEL, 1, addressed(address(service="orders")), b"0123456789", [90, 93], flags=COMPLETE
    )
    pair.caller.send(*pieces)
    pair.caller.send(HALVES["P"])
    pair.service.send(HALVES["c"])
    assert pair.received() == ([moved(HALVES["c"], 1)], [moved(raw, 2) for raw in pieces])
    assert not pair.is_open


def test_a_channel_whose_first_item_is_cut_goes_on_behind_it() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_CHANNEL, 1, addressed(address(service="orders")), b"0123456789", [90, 93])
    item = [
        frames.encode_payload(1, NEXT | frames.FOLLOWS, b"it"),
        frames.encode_payload(1, NEXT, b"em"),
        frames.encode_payload(1, COMPLETE),
    ]
    pair.caller.send(*pieces, *item)
    assert pair.received() == ([], [moved(raw, 2) for raw in [*pieces, *item]])
    assert pair.is_open


# Losses


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_lost_caller_cancels_its_requests(kind: int) -> None:
    pair = Pair()
    pair.open(kind)
    pair.caller.lose()
    assert pair.service.received() == [cancelled(2)]
    assert pair.world.left_over() == []


def test_a_caller_lost_in_the_middle_of_a_fire_and_forget_cancels_it() -> None:
    pair = Pair()
    pair.caller.send(fragments(REQUEST_FNF, 1, addressed(address(service="orders")), b"0123456789", [90])[0])
    pair.service.received()
    pair.caller.lose()
    assert pair.service.received() == [cancelled(2)]
    assert pair.world.left_over() == []


@pytest.mark.parametrize("kind", ANSWERED)
def test_the_caller_of_a_lost_route_is_told(kind: int) -> None:
    pair = Pair()
    pair.open(kind)
    pair.service.lose()
    assert pair.caller.received() == [error(1, CANCELED, LOST_TEXT)]
    assert pair.world.left_over() == []


def test_a_route_lost_behind_its_last_item_asks_the_caller_to_stop() -> None:
    """The route's half of the channel has ended, so its loss is no ERROR: that would end the stream a second time."""
    pair = Pair()
    pair.open(REQUEST_CHANNEL)
    pair.service.send(HALVES["c"])
    pair.service.lose()
    assert pair.caller.received() == [moved(HALVES["c"], 1), cancelled(1)]
    assert pair.world.left_over() == []


def test_a_connection_that_calls_itself_and_is_lost_leaves_nothing() -> None:
    world = World()
    both = world.service("orders", 1)
    for number in range(4):
        both.request(ANSWERED[number % 3], number * 2 + 1, address(service="orders"))
    both.lose()
    assert world.left_over() == []
    assert world.core.take_writes() == []


def test_a_connection_that_calls_itself_and_is_ended_gets_one_frame() -> None:
    world = World()
    both = world.service("orders", 1)
    for number in range(4):
        both.request(ANSWERED[number % 3], number * 2 + 1, address(service="orders"))
    both.received()
    world.core.end(both.peer, "closed-by-operator", "enough", world.now)
    world.pump()
    assert both.received() == [error(0, 0x102, "closed-by-operator: enough")]
    assert world.left_over() == []


# Fragments


@pytest.mark.parametrize("kind", MODELS)
def test_fragments_of_a_request_pass_as_they_are(kind: int) -> None:
    pair = Pair()
    metadata = addressed(address(service="orders"), ("text/plain", b"more metadata"))
    pieces = fragments(kind, 1, metadata, bytes(100), [len(metadata) - 5, len(metadata) + 10, len(metadata) + 50])
    pair.caller.send(*pieces)
    assert pair.received() == ([], [moved(raw, 2) for raw in pieces])
    assert pair.is_open == (kind != REQUEST_FNF)


@pytest.mark.parametrize("kind", MODELS)
def test_a_cancel_in_the_middle_of_the_fragments_ends_the_request(kind: int) -> None:
    pair = Pair()
    pieces = fragments(kind, 1, addressed(address(service="orders")), bytes(100), [90, 120])
    pair.caller.send(pieces[0], frames.encode_cancel(1), *pieces[1:])
    assert pair.received() == ([], [moved(pieces[0], 2), cancelled(2)])
    assert pair.world.left_over() == []


def test_a_route_may_answer_before_the_last_fragment_of_the_request() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_RESPONSE, 1, addressed(address(service="orders")), bytes(100), [90, 120])
    pair.caller.send(pieces[0])
    pair.service.fail(2, 0x202, "too long")
    pair.caller.send(*pieces[1:])
    assert pair.received() == ([error(1, 0x202, "too long")], [moved(pieces[0], 2)])
    assert pair.world.left_over() == []


def test_a_whole_frame_of_the_largest_size_passes() -> None:
    pair = Pair()
    metadata = addressed(address(service="orders"))
    head = len(frames.encode_request(REQUEST_RESPONSE, 1, b"", metadata))
    raw = pair.caller.request(REQUEST_RESPONSE, 1, address(service="orders"), bytes(0xFFFFFF - head))
    assert len(raw) == 0xFFFFFF
    assert pair.received() == ([], [moved(raw, 2)])
