"""Unicast, every interaction model, frame by frame: what is passed on, what is ignored, what ends a request."""

import pytest

from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from tests.broker.forwarding.pairs import ANSWERED, MODELS, TRANSPORTS, Pair, end
from tests.fakes import World, address, addressed, cancelled, error, fragments, moved, raw_frame

ORDERS = address(service="orders")
CUT = addressed(ORDERS), b"0123456789", [90, 93]
LOST_TEXT = "route-lost: the connection of orders went away before the request ended"


def ext(stream_id: int, flags: int) -> bytes:
    return raw_frame(frames.EXT, flags, b"\x00\x00\x00\x07rest", stream_id)


# The way there and back


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("caller_framed", "service_framed"), TRANSPORTS)
def test_a_request_arrives_with_its_stream_id_rewritten_and_nothing_else(
    kind: int, caller_framed: bool, service_framed: bool
) -> None:
    """And so does its answer; flags that nobody knows are passed on."""
    pair = Pair(caller_framed, service_framed)
    raw = pair.caller.request(kind, 1, ORDERS, b"\x00payload\xff", 5, frames.IGNORE | 0x1F)
    assert pair.received() == ([], [moved(raw, 2)])
    answer = frames.encode_payload(2, NEXT | COMPLETE | 0x1F, b"\x00answer", b"metadata of the answer")
    pair.service.send(answer)
    assert pair.received() == ([] if kind == REQUEST_FNF else [moved(answer, 1)], [])


def test_a_connection_may_call_itself() -> None:
    world = World()
    both = world.service("orders", 1)
    raw = both.request(REQUEST_RESPONSE, 1, ORDERS, b"me")
    assert both.received() == [moved(raw, 2)]
    both.answer(2, b"myself")
    assert both.received() == [moved(frames.encode_payload(2, NEXT | COMPLETE, b"myself"), 1)]
    assert world.left_over() == []


# request_response


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        *[(REQUEST_RESPONSE, flags) for flags in (NEXT, NEXT | COMPLETE, COMPLETE, 0, frames.FOLLOWS | COMPLETE)],
        (REQUEST_STREAM, NEXT | frames.FOLLOWS | COMPLETE),
    ],
)
def test_an_answer_ends_a_request_response_even_without_complete(kind: int, flags: int) -> None:
    """Protocol: if a PAYLOAD … is received that does not have a COMPLETE flag set, … MUST assume it is set; and: A
    PAYLOAD with both F and C flags set, implicitly ignores the F flag."""
    pair = Pair()
    pair.open(kind)
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


def any_frames(stream_id: int) -> list[bytes]:
    """What one end of a stream may say."""
    return [
        frames.encode_payload(stream_id, NEXT | COMPLETE, b"late"),
        frames.encode_error(stream_id, 0x201, "late"),
        frames.encode_request_n(stream_id, 4),
        frames.encode_cancel(stream_id),
    ]


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("kind", ANSWERED)
@pytest.mark.parametrize("ended_by", ["caller", "route"])
def test_late_frames_are_ignored(ended_by: str, kind: int, place: int) -> None:
    """Of the one who has not heard of the end yet."""
    pair = Pair()
    pair.open(kind)
    if ended_by == "caller":
        pair.caller.cancel(1)
    else:
        pair.service.fail(2, 0x201, "no")
    pair.received()
    late, stream_id = (pair.service, 2) if ended_by == "caller" else (pair.caller, 1)
    late.send(any_frames(stream_id)[place])
    assert (pair.received(), late.is_closed) == (([], []), False)


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_request_on_a_stream_id_in_use_is_ignored(kind: int) -> None:
    pair = Pair()
    pair.open(kind)
    for again in MODELS:
        pair.caller.request(again, 1, ORDERS, b"again")
    assert pair.received() == ([], [])
    assert pair.is_open


@pytest.mark.parametrize("kind", MODELS)
def test_a_request_with_an_even_id_or_on_stream_0_is_ignored(kind: int) -> None:
    pair = Pair()
    pair.caller.request(kind, 2, ORDERS)
    pair.caller.request(kind, 0, ORDERS)
    assert pair.received() == ([], [])
    assert pair.world.core.engine.ignored == 2
    assert not pair.caller.is_closed


@pytest.mark.parametrize("how", ["cancel", "loss"])
@pytest.mark.parametrize("kind", MODELS)
def test_a_cancel_or_the_loss_of_the_caller_reaches_the_route_and_ends_the_request(kind: int, how: str) -> None:
    """Of a fire-and-forget while its fragments come."""
    pair = Pair()
    pair.open(kind, flags=frames.FOLLOWS if kind == REQUEST_FNF else 0)
    end(pair.caller, how)
    assert pair.received() == ([], [cancelled(2)])
    assert pair.world.left_over() == []


USELESS = {
    "items of the caller of a request_response": (REQUEST_RESPONSE, any_frames(1)[0]),
    "an ERROR of the caller of a request_response": (REQUEST_RESPONSE, any_frames(1)[1]),
    "credit for a request_response": (REQUEST_RESPONSE, any_frames(1)[2]),
    "an EXT of the caller that may not be ignored": (REQUEST_RESPONSE, ext(1, 0)),
    "items of the caller of a stream": (REQUEST_STREAM, any_frames(1)[0]),
    "an ERROR of the caller of a stream": (REQUEST_STREAM, any_frames(1)[1]),
    "a REQUEST_N of 0": (REQUEST_STREAM, frames.encode_request_n(1, 0)),
    "a REQUEST_N of 0 in a channel": (REQUEST_CHANNEL, frames.encode_request_n(1, 0)),
    "a REQUEST_N with three of four bytes": (REQUEST_STREAM, frames.encode_request_n(1, 5)[:9]),
    "a REQUEST_N without its credit": (REQUEST_CHANNEL, frames.encode_request_n(1, 5)[:6]),
    "credit of the route of a request_response": (REQUEST_RESPONSE, any_frames(2)[2]),
    "a CANCEL of the route of a request_response": (REQUEST_RESPONSE, any_frames(2)[3]),
    "credit of the route of a stream": (REQUEST_STREAM, any_frames(2)[2]),
    "a CANCEL of the route of a stream": (REQUEST_STREAM, any_frames(2)[3]),
    "an EXT of the route that may not be ignored": (REQUEST_STREAM, ext(2, 0)),
}


@pytest.mark.parametrize("name", USELESS)
def test_frames_that_their_sender_has_no_right_to_or_no_use_for_are_ignored(name: str) -> None:
    kind, useless = USELESS[name]
    pair = Pair()
    pair.open(kind)
    (pair.caller if useless[3] == 1 else pair.service).send(useless)
    assert pair.received() == ([], [])
    assert pair.is_open


# fire_and_forget


def test_a_fire_and_forget_leaves_nothing_behind_and_has_no_answer() -> None:
    pair = Pair()
    pair.open(REQUEST_FNF)
    assert pair.world.left_over() == []
    pair.service.send(*any_frames(2))
    assert pair.received() == ([], [])


def test_a_fragmented_fire_and_forget_ends_with_its_last_fragment() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_FNF, 1, *CUT)
    pair.caller.send(*pieces[:2])
    assert pair.is_open
    pair.caller.send(pieces[2])
    assert pair.received() == ([], [moved(raw, 2) for raw in pieces])
    assert pair.world.left_over() == []


@pytest.mark.parametrize("what", ["other frames", "ERROR", "loss"])
def test_nothing_comes_back_in_the_middle_of_a_fire_and_forget(what: str) -> None:
    pair = Pair()
    pieces = fragments(REQUEST_FNF, 1, *CUT)
    pair.caller.send(pieces[0])
    if what == "other frames":
        pair.service.send(ext(2, frames.IGNORE), frames.encode_request_n(2, 3), frames.encode_payload(2, NEXT, b"x"))
        pair.service.cancel(2)
        assert pair.is_open
    elif what == "ERROR":
        pair.service.fail(2, 0x201, "stop")
    else:
        pair.service.lose()
    passed_n = 3 if what == "other frames" else 1
    pair.caller.send(*pieces[1:])
    assert pair.received() == ([], [moved(raw, 2) for raw in pieces[:passed_n]])
    assert pair.world.left_over() == []


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


@pytest.mark.parametrize("cuts", [[], [90, 93]])
def test_a_channel_whose_first_item_is_the_only_one_completes_with_its_last_fragment(cuts: list[int]) -> None:
    pair = Pair()
    pieces = fragments(REQUEST_CHANNEL, 1, addressed(ORDERS), b"0123456789", cuts, flags=COMPLETE)
    pair.caller.send(*pieces, HALVES["P"])
    pair.service.send(HALVES["c"])
    assert pair.received() == ([moved(HALVES["c"], 1)], [moved(raw, 2) for raw in pieces])
    assert not pair.is_open


def test_a_channel_whose_first_item_is_cut_goes_on_behind_it() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_CHANNEL, 1, *CUT)
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
        both.request(ANSWERED[number % 3], number * 2 + 1, ORDERS)
    both.lose()
    assert world.left_over() == []
    assert world.core.take_writes() == []


def test_a_connection_that_calls_itself_and_is_ended_gets_one_frame() -> None:
    world = World()
    both = world.service("orders", 1)
    for number in range(4):
        both.request(ANSWERED[number % 3], number * 2 + 1, ORDERS)
    both.received()
    world.core.end(both.peer, "closed-by-operator", "enough", world.now)
    world.pump()
    assert both.received() == [error(0, 0x102, "closed-by-operator: enough")]
    assert world.left_over() == []


# Fragments


@pytest.mark.parametrize("kind", MODELS)
def test_a_cancel_in_the_middle_of_the_fragments_ends_the_request(kind: int) -> None:
    pair = Pair()
    pieces = fragments(kind, 1, addressed(ORDERS), bytes(100), [90, 120])
    pair.caller.send(pieces[0], frames.encode_cancel(1), *pieces[1:])
    assert pair.received() == ([], [moved(pieces[0], 2), cancelled(2)])
    assert pair.world.left_over() == []


def test_a_route_may_answer_before_the_last_fragment_of_the_request() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_RESPONSE, 1, addressed(ORDERS), bytes(100), [90, 120])
    pair.caller.send(pieces[0])
    pair.service.fail(2, 0x202, "too long")
    pair.caller.send(*pieces[1:])
    assert pair.received() == ([error(1, 0x202, "too long")], [moved(pieces[0], 2)])
    assert pair.world.left_over() == []


def test_a_whole_frame_of_the_largest_size_passes() -> None:
    pair = Pair()
    metadata = addressed(ORDERS)
    head = len(frames.encode_request(REQUEST_RESPONSE, 1, b"", metadata))
    raw = pair.caller.request(REQUEST_RESPONSE, 1, ORDERS, bytes(0xFFFFFF - head))
    assert len(raw) == 0xFFFFFF
    assert pair.received() == ([], [moved(raw, 2)])
