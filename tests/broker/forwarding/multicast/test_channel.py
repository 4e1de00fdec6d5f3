"""Multicast channels: the caller's items go to every branch that listens, at the pace of the slowest (D-14)."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, encode_error, encode_payload
from tests.broker.forwarding.multicast.crowds import ALL, HEAD_BYTES, Crowd, asked_of, items
from tests.broker.forwarding.pairs import end
from tests.fakes import addressed, asked, cancelled, completed, error, fragments, moved


@pytest.mark.parametrize("cuts", [[], [90, 92]])
def test_a_channel_of_one_item_ends_with_its_branches(cuts: list[int]) -> None:
    crowd = Crowd(2)
    pieces = fragments(REQUEST_CHANNEL, 1, addressed(ALL), b"0123456789", cuts, flags=COMPLETE)
    crowd.caller.send(*pieces)
    for service in crowd.services:
        service.answer(2, b"bye")
    assert crowd.caller.received() == [*items(b"bye", b"bye"), completed(1)]
    assert crowd.received() == [[asked_of(pieces[0], 4), *[moved(raw, 2) for raw in pieces[1:]]]] * 2
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


# What the caller sends beyond its grant


def said(*texts: bytes) -> list[bytes]:
    """Items of the caller."""
    return [encode_payload(1, NEXT, text) for text in texts]


@pytest.mark.parametrize("how", ["cancel", "loss", "error"])
def test_held_items_are_forgotten_when_the_caller_ends_the_call(how: str) -> None:
    crowd = Crowd(2)
    crowd.open(REQUEST_CHANNEL)
    crowd.caller.send(*said(b"1", b"2"))
    end(crowd.caller, how)
    assert crowd.received() == [[error(2, 0x201, "of the caller") if how == "error" else cancelled(2)]] * 2
    assert crowd.world.left_over() == []


def test_items_that_are_held_are_bounded_in_bytes() -> None:
    limit = 2 * HEAD_BYTES + 10
    crowd = Crowd(2, CoreSettings(multicast_buffer_bytes=limit))
    crowd.open(REQUEST_CHANNEL)
    crowd.caller.send(*said(bytes(5), bytes(5)))
    assert crowd.caller.peer.merging_bytes == limit
    assert crowd.caller.received() == []
    crowd.caller.send(encode_payload(1, COMPLETE))
    text = f"over-limit: more than {limit} bytes of items wait for REQUEST_N of a route "
    text += "(limits.multicast_buffer_bytes)"
    assert crowd.caller.received() == [error(1, CANCELED, text)]
    assert crowd.received() == [[cancelled(2)]] * 2
    assert crowd.world.left_over() == []


def test_too_much_that_is_held_after_all_have_completed_cancels_only_the_callers_half() -> None:
    crowd = Crowd(2, CoreSettings(multicast_buffer_bytes=1000))
    crowd.open(REQUEST_CHANNEL)
    for service in crowd.services:
        service.send(encode_payload(2, COMPLETE))
    assert crowd.caller.received() == [completed(1)]
    crowd.caller.send(encode_payload(1, NEXT, bytes(2000)))
    assert crowd.caller.received() == [cancelled(1)]
    assert crowd.received() == [[cancelled(2)]] * 2
    assert crowd.world.left_over() == []
