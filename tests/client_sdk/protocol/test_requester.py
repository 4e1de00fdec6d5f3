"""Requests of ours: what is sent for them, what ends them, and what the reader gets."""

import pytest

from client_sdk.protocol.stream import BROKEN, LATE
from rsocket_wire.rsocket.frames import MAX_N
from tests.client_sdk import frames
from tests.client_sdk.frames import content
from tests.client_sdk.protocol.far import C, F, Far, Frame, M, N, error, frame


@pytest.mark.parametrize("is_framed", [True, False])
def test_each_model_has_its_frame(is_framed: bool) -> None:
    far = Far(is_framed=is_framed)
    far.ask(b"data", b"meta")
    far.ask(b"data")
    far.ask(b"", b"")
    far.machine.fire_and_forget(b"data", b"meta")
    far.machine.request_items(frames.STREAM, None, b"data", b"meta", 7, 0.0)
    far.machine.request_items(frames.CHANNEL, None, b"data", None, MAX_N, 0.0)
    far.machine.metadata_push(b"push")
    assert far.take() == [
        (frames.RESPONSE, 1, M, content(b"data", b"meta")),
        (frames.RESPONSE, 3, 0, b"data"),
        (frames.RESPONSE, 5, M, content(metadata=b"")),
        (frames.FNF, 7, M, content(b"data", b"meta")),
        (frames.STREAM, 9, M, content(b"data", b"meta", 7)),
        (frames.CHANNEL, 11, 0, MAX_N.to_bytes(4) + b"data"),
        (frames.PUSH, 0, M, b"push"),
    ]
    assert far.machine.unsent_bytes == 0


def test_ids_wrap_around_those_in_use() -> None:
    far = Far()
    first = far.ask()
    far.machine.streams._next_id = 0x7FFFFFFF
    assert [first.id, *(far.ask().id for _ in range(3))] == [1, 0x7FFFFFFF, 3, 5]


@pytest.mark.parametrize("flags", [N, C, N | C, 0])
def test_any_payload_without_fragments_ends_a_request_response(flags: int) -> None:
    far = Far()
    stream = far.ask()
    far.send(frame(1, frames.PAYLOAD, flags, b"x"))
    assert (stream.is_over, stream.data) == (True, b"x")


def test_granted_credit_is_sent_and_counts() -> None:
    far = Far()
    stream = far.ask_items(1)
    far.take()
    far.send(frame(1, frames.PAYLOAD, N, b"0"))
    far.machine.streams.grant(stream, 2)
    far.send(frame(1, frames.PAYLOAD, N, b"1"), frame(1, frames.PAYLOAD, N | C, b"2"))
    assert far.take() == [(frames.REQUEST_N, 1, 0, (2).to_bytes(4))]
    assert (len(stream.items), stream.is_over, stream.failure) == (3, True, None)
    far.machine.streams.grant(stream, 5)
    assert far.take() == []


def test_news_tell_each_stream_once_until_they_are_taken() -> None:
    far = Far()
    one, two = far.ask_items(), far.ask_items()
    far.send(frame(1, frames.PAYLOAD, N, b"a"), frame(3, frames.PAYLOAD, N, b"b"), frame(1, frames.PAYLOAD, N, b"c"))
    assert far.news() == [one, two]
    assert far.news() == []
    far.send(frame(1, frames.PAYLOAD, C))
    assert far.news() == [one]


def test_cancel_is_sent_once_and_only_for_what_lives() -> None:
    far = Far()
    stream = far.ask_items()
    far.take()
    far.machine.streams.cancel(stream)
    far.machine.streams.cancel(stream)
    assert far.take() == [(frames.CANCEL, 1, 0, b"")]
    far.send(frame(1, frames.PAYLOAD, N, b"late"), error(1, 0x201, "late"), frame(1, frames.REQUEST_N, 0, b"\0\0\0\1"))
    assert far.news() == []


# Channels: the table in `exchanges`.


def test_a_channel_ends_when_both_halves_have() -> None:
    far = Far()
    stream = far.ask_items(kind=frames.CHANNEL)
    far.take()
    far.machine.streams.complete(stream)
    assert (far.take(), stream.is_over) == ([(frames.PAYLOAD, 1, C, b"")], False)
    far.send(frame(1, frames.PAYLOAD, C))
    assert stream.is_over


def test_a_channel_whose_other_half_ends_first_goes_on_sending() -> None:
    far = Far()
    stream = far.ask_items(kind=frames.CHANNEL)
    far.take()
    far.send(frame(1, frames.REQUEST_N, 0, (2).to_bytes(4)), frame(1, frames.PAYLOAD, C))
    assert (stream.credit_n, stream.in_open, stream.is_over) == (2, False, False)
    assert far.machine.streams.send_item(stream, b"x", b"m")
    far.machine.streams.complete(stream)
    assert far.take() == [(frames.PAYLOAD, 1, N | M, content(b"x", b"m")), (frames.PAYLOAD, 1, C, b"")]
    assert (stream.is_over, stream.credit_n) == (True, 1)


def test_a_cancel_stops_our_half_of_a_channel_and_no_request_response() -> None:
    far = Far()
    channel, question = far.ask_items(kind=frames.CHANNEL), far.ask()
    far.send(frame(1, frames.CANCEL), frame(3, frames.CANCEL))
    assert (channel.is_stopped, channel.is_over, question.is_over) == (True, False, False)
    assert not far.machine.streams.send_item(channel, b"x", None)
    far.send(frame(1, frames.PAYLOAD, N, b"still"), frame(1, frames.PAYLOAD, C))
    assert (channel.items, channel.is_over) == ([(b"still", None)], True)


def test_credit_does_not_grow_beyond_31_bits() -> None:
    far = Far()
    stream = far.ask_items(kind=frames.CHANNEL)
    far.send(*[frame(1, frames.REQUEST_N, 0, MAX_N.to_bytes(4))] * 2)
    assert stream.credit_n == MAX_N


# Deadlines


def test_a_deadline_ends_the_call_with_a_cancel_and_later_ones_live_on() -> None:
    far = Far()
    late, early, none = far.ask(deadline=103.0), far.ask_items(deadline=101.5), far.ask()
    far.take()
    assert far.machine.next_deadline() == 101.5
    far.pass_time(2)
    assert far.take() == [(frames.CANCEL, 3, 0, b"")]
    assert far.news() == [early]
    assert early.failure is not None
    assert early.failure.kind == LATE
    far.pass_time(2)
    assert (late.is_over, none.is_over) == (True, False)


def test_calls_that_have_ended_in_time_do_not_pile_up() -> None:
    far = Far()
    for number in range(20_000):
        far.ask(deadline=1000.0)
        far.send(frame(2 * number + 1, frames.PAYLOAD, N | C))
        far.take()
    far.news()
    assert len(far.machine._deadlines._heap) <= 1024
    assert far.machine.next_deadline() < 1000.0


# Frames that contradict themselves, and loss


@pytest.mark.parametrize(
    ("broken", "answer"),
    [
        (frame(1, frames.PAYLOAD, M | N, b"\0\0\xffmeta"), [(frames.CANCEL, 1, 0, b"")]),
        (frame(1, frames.PAYLOAD, M | N | F, b"\0\0\xffmeta"), [(frames.CANCEL, 1, 0, b"")]),
        (frame(1, frames.REQUEST_N, 0, b"\0"), [(frames.CANCEL, 1, 0, b"")]),
        (frame(1, frames.ERROR, 0, b"\0\0"), []),  # the other side has ended it already
    ],
)
def test_a_broken_frame_ends_its_stream_on_both_sides_and_no_other(broken: bytes, answer: list[Frame]) -> None:
    far = Far()
    hurt, other = far.ask(), far.ask()
    far.take()
    far.send(broken)
    assert far.take() == answer
    assert hurt.failure is not None
    assert (hurt.failure.kind, other.is_over, far.machine.is_over) == (BROKEN, False, False)
