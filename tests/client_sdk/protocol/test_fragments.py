"""Payloads in pieces, both ways: whole when they arrive, never mixed, fair to others, bounded."""

import pytest

from client_sdk.protocol.fragments import PIECE_BYTES, Outgoing
from client_sdk.protocol.settings import MAX_BACKLOG_BYTES, Settings
from client_sdk.protocol.stream import Stream
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES
from tests.client_sdk import frames
from tests.client_sdk.frames import content
from tests.client_sdk.protocol.far import C, F, Far, M, N, frame

SMALL = Settings(fragment_bytes=64)
N9 = (9).to_bytes(4)


def test_metadata_goes_first_and_complete_stands_on_the_last_piece_only() -> None:
    far = Far(SMALL)
    far.machine.request_items(frames.CHANNEL, None, b"d" * 60, b"m" * 60, 9, 0.0)
    assert far.take() == [
        (frames.CHANNEL, 1, M | F, N9 + content(metadata=b"m" * 51)),
        (frames.PAYLOAD, 1, M | F | N, content(b"d" * 46, b"m" * 9)),
        (frames.PAYLOAD, 1, N, b"d" * 14),
    ]
    far.send(frame(2, frames.RESPONSE))
    [stream] = far.news()
    far.machine.streams.answer(stream, b"d" * 70, None)
    assert far.take() == [(frames.PAYLOAD, 2, F | N, b"d" * 58), (frames.PAYLOAD, 2, N | C, b"d" * 12)]


@pytest.mark.parametrize("metadata_n", [None, 0, 1, 54, 55, 56, 57, 58, 200])
@pytest.mark.parametrize("data_n", [0, 1, 57, 58, 59, 200])
def test_pieces_are_as_long_as_they_may_be_and_come_together_again(metadata_n: int | None, data_n: int) -> None:
    metadata = None if metadata_n is None else bytes(range(256))[:metadata_n]
    data = bytes(range(256))[:data_n]
    outgoing = Outgoing(2, frames.PAYLOAD, N | C, 0, metadata, data)
    far = Far()
    stream = far.machine.request_items(frames.CHANNEL, None, b"", None, 1, 0.0)
    far.take()
    is_last, raws = False, []
    while not is_last:
        raw, is_last = outgoing.next_frame(64)
        raws.append((1).to_bytes(4) + raw[4:])
    assert max(map(len, raws)) <= 64
    assert all(len(raw) > 60 for raw in raws[:-1])
    far.send(*raws)
    assert stream.items == [(data, metadata)]
    assert (stream.in_open, far.machine.gathered_bytes) == (False, 0)


def test_streams_take_turns_with_their_pieces_and_small_frames_do_not_wait() -> None:
    far = Far(SMALL)
    for letter in (b"A", b"B", b"C"):
        far.ask(letter * 150)
    assert [id for _, id, _, _ in far.take(room_bytes=190)] == [1, 3, 5]
    far.machine.fire_and_forget(b"small", None)
    far.send(frame(0, frames.KEEPALIVE, 0x80, bytes(8) + b"ping"))
    assert [(kind, id) for kind, id, _, _ in far.take(room_bytes=64)] == [
        (frames.KEEPALIVE, 0),
        (frames.FNF, 7),
        (frames.PAYLOAD, 1),
    ]
    assert far.machine.unsent_bytes > 0
    assert [id for _, id, _, _ in far.take()] == [3, 5, 1, 3, 5]
    assert far.machine.unsent_bytes == 0


def test_what_no_frame_can_hold_is_cut_and_what_just_fits_is_not() -> None:
    far = Far(is_framed=True)
    most = MAX_FRAME_BYTES - 6
    far.machine.fire_and_forget(bytes(most), None)
    [raw] = far.take_raw()
    assert (len(raw), far.machine.unsent_bytes) == (MAX_FRAME_BYTES, 0)
    far.machine.fire_and_forget(bytes(most + 1), None)
    assert [len(raw) for raw in far.take_raw()] == [MAX_FRAME_BYTES, 7]


def test_a_call_that_is_cancelled_before_its_first_piece_was_never_made() -> None:
    far = Far(SMALL)
    stream = far.ask(b"x" * 100)
    far.machine.streams.cancel(stream)
    assert (far.take(), far.machine.unsent_bytes) == ([], 0)


def test_a_caller_that_cancels_gets_no_more_pieces_of_its_answer() -> None:
    far = Far(SMALL)
    far.send(frame(2, frames.RESPONSE))
    [stream] = far.news()
    far.machine.streams.answer(stream, b"x" * 500, None)
    far.take(room_bytes=1)
    far.send(frame(2, frames.CANCEL))
    assert (far.take(), far.machine.unsent_bytes) == ([], 0)


def test_credit_may_overtake_pieces_and_an_error_ends_them() -> None:
    far = Far(SMALL)
    channel = far.ask_items(kind=frames.CHANNEL)
    far.take()
    channel.credit_n = 1
    far.machine.streams.send_item(channel, b"x" * 200, None)
    far.machine.streams.grant(channel, 3)
    assert [kind for kind, *_ in far.take(room_bytes=1)] == [frames.REQUEST_N, frames.PAYLOAD]
    far.machine.streams.fail(channel, 0x201, "x")
    assert [kind for kind, *_ in far.take()] == [frames.ERROR]


# Arriving


def test_unfinished_requests_have_a_bound_and_only_the_one_that_wants_more_is_refused() -> None:
    far = Far(Settings(max_gathered_bytes=2 * PIECE_BYTES + 10))
    far.send(frame(2, frames.RESPONSE, F, b"12345"), frame(4, frames.RESPONSE, F, b"12345"))
    assert far.take() == []
    far.send(frame(6, frames.FNF, F, b"1"), frame(8, frames.RESPONSE, F, b"1"))
    assert [(kind, id, body[4:13]) for kind, id, _, body in far.take()] == [(frames.ERROR, 8, b"too-large")]
    far.send(frame(2, frames.PAYLOAD, N | F, b""))
    assert [id for _, id, _, _ in far.take()] == [2]
    far.send(frame(4, frames.PAYLOAD, N, b""))
    assert [stream.id for stream in far.news()] == [4]
    assert (far.machine.gathered_bytes, far.machine.is_over) == (0, False)


def test_what_waits_is_counted_whatever_it_is() -> None:
    far = Far(SMALL, is_framed=True)
    channel = far.ask_items(kind=frames.CHANNEL)
    channel.credit_n = 9
    streams: list[Stream] = [far.ask(b"x" * 1000, b"m" * 300) for _ in range(5)]
    far.machine.streams.send_item(channel, b"y" * 300, b"")
    far.machine.streams.cancel(streams[2])
    while far.machine.unsent_bytes:
        assert far.take(room_bytes=100)
        if streams[0].backlog is None and not streams[0].is_over:
            far.machine.streams.cancel(streams[0])
    assert far.take() == []


def test_payloads_in_pieces_let_others_pass_until_too_much_of_them_waits() -> None:
    far = Far(Settings(fragment_bytes=1 << 16))
    far.ask(bytes(MAX_BACKLOG_BYTES - 100))
    assert not far.machine.is_full
    far.ask(bytes(1 << 17))
    assert far.machine.is_full
    for _ in range(4):
        far.take(room_bytes=1 << 16)
    assert not far.machine.is_full
