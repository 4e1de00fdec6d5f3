"""Requests of the other side: which are told, which refused, and what ends them."""

import pytest

from client_sdk.protocol.settings import Settings
from tests.client_sdk import frames
from tests.client_sdk.protocol.far import C, F, Far, M, N, frame, said, with_metadata

N2 = (2).to_bytes(4)


def test_a_request_is_told_and_its_answer_ends_it() -> None:
    far = Far()
    far.send(frame(2, frames.RESPONSE, M, with_metadata(b"meta", b"data")))
    [stream] = far.news()
    assert (stream.is_new, stream.kind, stream.data, stream.metadata) == (True, frames.RESPONSE, b"data", b"meta")
    far.machine.answer(stream, b"answer", b"more")
    far.machine.answer(stream, b"again", None)
    assert far.take() == [(frames.PAYLOAD, 2, M | N | C, with_metadata(b"more", b"answer"))]
    assert (stream.is_over, far.machine.open_streams_n) == (True, 0)


def test_a_failed_handler_is_one_error() -> None:
    far = Far()
    far.send(frame(2, frames.RESPONSE))
    [stream] = far.news()
    far.machine.fail(stream, 0x301, "out-of-stock: 3 left")
    assert far.take() == [(frames.ERROR, 2, 0, (0x301).to_bytes(4) + b"out-of-stock: 3 left")]


def test_items_use_credit_and_end_with_complete() -> None:
    far = Far()
    far.send(frame(2, frames.STREAM, 0, N2 + b"data"))
    [stream] = far.news()
    assert stream.credit_n == 2
    for _ in range(2):
        assert far.machine.send_item(stream, b"x", None)
    assert stream.credit_n == 0
    far.send(frame(2, frames.REQUEST_N, 0, N2))
    assert (far.news(), stream.credit_n) == ([stream], 2)
    far.machine.complete(stream)
    assert far.take() == [(frames.PAYLOAD, 2, N, b"x")] * 2 + [(frames.PAYLOAD, 2, C, b"")]
    assert stream.is_over


def test_a_cancel_ends_a_stream_and_what_is_sent_for_it_later_is_dropped() -> None:
    far = Far()
    far.send(frame(2, frames.STREAM, 0, N2))
    [stream] = far.news()
    far.send(frame(2, frames.CANCEL))
    assert far.news() == [stream]
    assert (stream.is_stopped, stream.is_over) == (True, True)
    assert not far.machine.send_item(stream, b"x", None)
    far.machine.complete(stream)
    far.machine.fail(stream, 0x201, "x")
    assert far.take() == []


def test_a_fire_and_forget_and_a_metadata_push_have_no_stream() -> None:
    far = Far()
    far.send(
        frame(2, frames.FNF, 0, b"x"), frame(0, frames.PUSH, M, b"push"), frame(0, frames.PUSH, 0, b"without the flag")
    )
    assert [(stream.kind, stream.data, stream.metadata) for stream in far.news()] == [
        (frames.FNF, b"x", None),
        (frames.PUSH, b"", b"push"),
        (frames.PUSH, b"", b"without the flag"),
    ]
    assert (far.machine.open_streams_n, far.machine.handlers_n) == (0, 3)


# Channels


def test_a_channel_takes_items_that_were_asked_for_only() -> None:
    far = Far()
    far.send(frame(2, frames.CHANNEL, 0, N2 + b"first"))
    [stream] = far.news()
    assert (stream.data, stream.in_open, stream.credit_n) == (b"first", True, 2)
    far.machine.grant(stream, 1)
    far.send(frame(2, frames.PAYLOAD, N, b"second"))
    assert stream.items == [(b"second", None)]
    far.send(frame(2, frames.PAYLOAD, N, b"unasked"))
    assert [(kind, body[:4]) for kind, _, _, body in far.take()] == [
        (frames.REQUEST_N, (1).to_bytes(4)),
        (frames.ERROR, (0x204).to_bytes(4)),
    ]
    assert stream.is_over


def test_a_channel_with_complete_in_its_request_has_one_item() -> None:
    far = Far()
    far.send(frame(2, frames.CHANNEL, C, N2 + b"only"))
    [stream] = far.news()
    assert (stream.in_open, stream.out_open) == (False, True)


def test_a_handler_that_ends_before_its_caller_cancels_the_rest() -> None:
    far = Far()
    far.send(frame(2, frames.CHANNEL, 0, N2))
    [stream] = far.news()
    far.machine.complete(stream)
    assert far.take() == [(frames.PAYLOAD, 2, C, b""), (frames.CANCEL, 2, 0, b"")]
    assert said(stream) == (0x203, "canceled: the handler has ended")


def test_a_handler_that_reads_no_more_may_still_send() -> None:
    far = Far()
    far.send(frame(2, frames.CHANNEL, 0, N2))
    [stream] = far.news()
    far.machine.cancel(stream)
    assert (stream.in_open, stream.out_open) == (False, True)
    far.send(frame(2, frames.PAYLOAD, N, b"ignored"))
    assert far.machine.send_item(stream, b"x", None)
    far.machine.complete(stream)
    assert far.take() == [(frames.CANCEL, 2, 0, b""), (frames.PAYLOAD, 2, N, b"x"), (frames.PAYLOAD, 2, C, b"")]
    assert (stream.items, stream.is_over) == ([], True)


# What is refused, and what ignored


def test_without_a_service_every_request_is_refused() -> None:
    far = Far(serves=False)
    far.send(frame(2, frames.RESPONSE), frame(4, frames.FNF), frame(6, frames.STREAM, 0, N2))
    assert [(kind, id, body[:4]) for kind, id, _, body in far.take()] == [
        (frames.ERROR, 2, (0x204).to_bytes(4)),
        (frames.ERROR, 6, (0x204).to_bytes(4)),
    ]
    assert far.news() == []


def test_one_handler_too_many_is_refused_until_one_has_ended() -> None:
    far = Far(Settings(max_handlers=2))
    far.send(
        *(
            frame(id, kind)
            for id, kind in ((2, frames.RESPONSE), (4, frames.FNF), (6, frames.RESPONSE), (8, frames.FNF))
        )
    )
    assert [stream.id for stream in far.news()] == [2, 4]
    assert [(kind, id, body[4:14]) for kind, id, _, body in far.take()] == [(frames.ERROR, 6, b"over-limit")]
    far.send(frame(0, frames.PUSH, M, b"dropped"))
    assert far.news() == []
    far.machine.handlers_n -= 1
    far.send(frame(10, frames.RESPONSE))
    assert [stream.id for stream in far.news()] == [10]


@pytest.mark.parametrize("kind", [frames.RESPONSE, frames.FNF, frames.STREAM, frames.CHANNEL])
def test_ids_that_a_server_may_not_use_are_ignored(kind: int) -> None:
    far = Far()
    body = N2 if kind in (frames.STREAM, frames.CHANNEL) else b""
    far.send(frame(3, kind, 0, body), frame(2, frames.RESPONSE), frame(2, kind, 0, body))
    assert [(stream.id, stream.kind) for stream in far.news()] == [(2, frames.RESPONSE)]
    assert far.take() == []


def test_late_frames_of_streams_that_nobody_knows_are_ignored() -> None:
    far = Far()
    far.send(*(frame(6, kind, flags, b"\0\0\0\1") for kind in range(8, 64) for flags in (0, N, F | N)))
    assert (far.take(), far.news(), far.machine.gathered_bytes, far.machine.is_over) == ([], [], 0, False)


@pytest.mark.parametrize(
    ("kind", "body"),
    [(frames.RESPONSE, b"\0\0\xffmeta"), (frames.STREAM, N2 + b"\0\0\xffmeta"), (frames.CHANNEL, b"\0")],
)
def test_a_broken_request_is_answered_and_its_fragments_are_ignored(kind: int, body: bytes) -> None:
    far = Far()
    far.send(
        frame(2, kind, M | F, body), frame(2, frames.PAYLOAD, F | N, b"more"), frame(2, frames.PAYLOAD, N, b"last")
    )
    [(answer, id, _, text)] = far.take()
    assert (answer, id, text[:16]) == (frames.ERROR, 2, (0x204).to_bytes(4) + b"bad-request:")
    assert (far.news(), far.machine.gathered_bytes) == ([], 0)
