"""Requests of the other side: which are told, which refused, and what ends them."""

from client_sdk.protocol.settings import Settings
from tests.client_sdk import frames
from tests.client_sdk.frames import content
from tests.client_sdk.protocol.far import C, Far, M, N, frame

N2 = (2).to_bytes(4)


def test_a_request_is_told_and_its_answer_ends_it() -> None:
    far = Far()
    far.send(frame(2, frames.RESPONSE, M, content(b"data", b"meta")))
    [stream] = far.news()
    assert (stream.is_new, stream.kind, stream.data, stream.metadata) == (True, frames.RESPONSE, b"data", b"meta")
    far.machine.streams.answer(stream, b"answer", b"more")
    far.machine.streams.answer(stream, b"again", None)
    assert far.take() == [(frames.PAYLOAD, 2, M | N | C, content(b"answer", b"more"))]
    assert (stream.is_over, far.machine.open_streams_n) == (True, 0)


def test_items_use_credit_and_end_with_complete() -> None:
    far = Far()
    far.send(frame(2, frames.STREAM, 0, N2 + b"data"))
    [stream] = far.news()
    assert stream.credit_n == 2
    for _ in range(2):
        assert far.machine.streams.send_item(stream, b"x", None)
    assert stream.credit_n == 0
    far.send(frame(2, frames.REQUEST_N, 0, N2))
    assert (far.news(), stream.credit_n) == ([stream], 2)
    far.machine.streams.complete(stream)
    assert far.take() == [(frames.PAYLOAD, 2, N, b"x")] * 2 + [(frames.PAYLOAD, 2, C, b"")]
    assert stream.is_over


def test_a_cancel_ends_a_stream_and_what_is_sent_for_it_later_is_dropped() -> None:
    far = Far()
    far.send(frame(2, frames.STREAM, 0, N2))
    [stream] = far.news()
    far.send(frame(2, frames.CANCEL))
    assert far.news() == [stream]
    assert (stream.is_stopped, stream.is_over) == (True, True)
    assert not far.machine.streams.send_item(stream, b"x", None)
    far.machine.streams.complete(stream)
    far.machine.streams.fail(stream, 0x201, "x")
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
    far.machine.streams.grant(stream, 1)
    far.send(frame(2, frames.PAYLOAD, N, b"second"))
    assert stream.items == [(b"second", None)]
    far.send(frame(2, frames.PAYLOAD, N, b"unasked"))
    assert [(kind, body[:4]) for kind, _, _, body in far.take()] == [
        (frames.REQUEST_N, (1).to_bytes(4)),
        (frames.ERROR, (0x204).to_bytes(4)),
    ]
    assert stream.is_over


def test_a_handler_that_reads_no_more_may_still_send() -> None:
    far = Far()
    far.send(frame(2, frames.CHANNEL, 0, N2))
    [stream] = far.news()
    far.machine.streams.cancel(stream)
    assert (stream.in_open, stream.out_open) == (False, True)
    far.send(frame(2, frames.PAYLOAD, N, b"ignored"))
    assert far.machine.streams.send_item(stream, b"x", None)
    far.machine.streams.complete(stream)
    assert far.take() == [(frames.CANCEL, 2, 0, b""), (frames.PAYLOAD, 2, N, b"x"), (frames.PAYLOAD, 2, C, b"")]
    assert (stream.items, stream.is_over) == ([], True)


# What is refused, and what ignored


def test_without_a_service_every_request_is_refused() -> None:
    far = Far(serves=False)
    far.send(frame(2, frames.RESPONSE), frame(4, frames.FNF), frame(6, frames.STREAM, 0, N2))
    word = (0x204).to_bytes(4) + b"no-handler: "
    assert [(kind, id, body[: len(word)]) for kind, id, _, body in far.take()] == [
        (frames.ERROR, 2, word),
        (frames.ERROR, 6, word),
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
