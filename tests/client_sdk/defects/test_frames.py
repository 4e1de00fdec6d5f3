"""Rows 3 to 8, 11 and 32 to 34: frames that others drop, cut, mistake or hang at."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from client_sdk import ClientError, ConnectionLost, Payload, Service
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, credit, error, payload, request
from tests.client_sdk.raw_broker import MODELS, Everything, RawBroker, ask, at_work, serving
from tests.client_sdk.samples import gives, yields_of

CUT = b"\xff\xff\xff" + b"abc"  # declares 16 MiB of metadata, and has 3 bytes


@pytest.mark.parametrize(
    "code", [0x0, 0x101, 0x201, 0x202, 0x203, 0x204, 0x205, 0x301, 0x12345, 0xFFFFFFFE, 0xFFFFFFFF]
)
async def test_an_error_of_the_caller_with_any_code_ends_the_handler(raw: RawBroker, code: int) -> None:
    """Row 3, as the one who answers a channel."""
    service, ended = Service("s"), asyncio.get_running_loop().create_future()

    @service.request_channel()
    async def read(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        try:
            async for _ in payloads:
                yield b"got"
        except BaseException as reason:
            ended.set_result(reason)
            raise

    async with serving(raw, service) as (_, peer):
        peer.send(request(2, frames.CHANNEL, b"1", n=9))
        await peer.expect(frames.PAYLOAD)
        peer.send(error(2, code, "boom"))
        assert isinstance(await ended, (ClientError, asyncio.CancelledError))
        await peer.assert_alive()


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe", "wörd: ünicode".encode(), b": ", b"x" * 100_000, b"a\nb: c", b"no-route: "]
)
async def test_an_error_with_any_text_ends_the_call(raw: RawBroker, text: bytes) -> None:
    """Row 3: the text may be anything, too."""
    async with serving(raw) as (client, peer):
        call, asked = await ask(client, peer)
        peer.send(Frame(asked.stream_id, frames.ERROR, 0, (0x202).to_bytes(4) + text))
        with pytest.raises(ClientError) as caught:
            await call
        assert caught.value.code == 0x202


class Sent(NamedTuple):
    """Frames of a broker, the ERRORs that it gets for them (stream, code), and the calls of handlers."""

    frames: tuple[Frame, ...]
    told: tuple[tuple[int, int], ...] = ()
    calls: tuple[tuple[str, bytes], ...] = ()


REFUSED = ((2, 0x204),)
REST = (payload(2, b"more", flags=frames.FOLLOWS | frames.NEXT), payload(2, b"last"))
SETUP = Frame(0, frames.SETUP, 0, (9).to_bytes(2) + (9).to_bytes(2) + bytes(8) + b"\x01m\x01d")
OPENING = (frames.RESPONSE, frames.FNF, frames.STREAM, frames.CHANNEL)
UNSERVED = {
    "metadata beyond the frame": Sent((Frame(2, frames.RESPONSE, frames.METADATA, CUT), *REST), REFUSED),
    "metadata beyond the first piece": Sent(
        (Frame(2, frames.RESPONSE, frames.METADATA | frames.FOLLOWS, CUT), *REST), REFUSED
    ),
    "metadata beyond the next piece": Sent(
        (
            request(2, frames.RESPONSE, b"some", flags=frames.FOLLOWS),
            Frame(2, frames.PAYLOAD, frames.METADATA | frames.NEXT, CUT),
            credit(2, 5),
            payload(2, b"rest"),
        ),
        REFUSED,
    ),
    "credit of a stream cut": Sent((Frame(2, frames.STREAM, 0, b"\0\0\0"), *REST), REFUSED),
    "a stream without credit": Sent((Frame(2, frames.STREAM), *REST), REFUSED),
    "metadata of a channel cut": Sent((Frame(2, frames.CHANNEL, frames.METADATA, b"\0\0\0\1" + CUT), *REST), REFUSED),
    "credit of a channel cut": Sent((Frame(2, frames.CHANNEL, 0, b"\0"), *REST), REFUSED),
    "metadata beyond a request without an answer": Sent((Frame(2, frames.FNF, frames.METADATA, CUT),)),
    "ids of the wrong side": Sent(tuple(request(id, kind, b"1") for kind in OPENING for id in (0, 7))),
    "a second request on an open stream": Sent(
        (request(2, frames.RESPONSE, b"wait"), request(2, frames.RESPONSE, b"again"), request(2, frames.STREAM, b"1")),
        calls=(("request_response", b"wait"),),
    ),
    "a request in pieces, cancelled": Sent(
        (request(2, frames.RESPONSE, b"a", flags=frames.FOLLOWS), Frame(2, frames.CANCEL), payload(2, b"b"))
    ),
    "a setup, twice": Sent((SETUP, SETUP)),
}


@pytest.mark.parametrize("sent", UNSERVED)
async def test_what_is_no_request_is_answered_where_it_may_be_and_no_handler_sees_it(raw: RawBroker, sent: str) -> None:
    """Rows 2, 4, 5, 8, 25 and 30, as the one who answers: a refusal would end the first request on an open stream."""
    what, told, calls = UNSERVED[sent]
    async with at_work(raw) as (everything, client, peer):
        peer.send(*what)
        assert (await peer.call(4)).data == b"alive"
        assert [(each.stream_id, each.code) for each in peer.of(frames.ERROR)] == [*told]
        assert {each.stream_id for each in peer.frames} == {0, 4, *(stream_id for stream_id, _ in told)}
        assert everything.calls == [*calls, ("request_response", b"alive")]
        assert client.is_connected


@pytest.mark.parametrize("junk", [b"", bytes(2), b"abc", b"\xff" * 5])
async def test_what_is_no_frame_ends_the_connection_with_one_line_in_the_log(
    raw: RawBroker, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 4: whoever cannot frame is not listened to; a thousand of them are one line."""
    with caplog.at_level(logging.DEBUG, "client_sdk"):
        async with serving(raw) as (client, peer):
            call, _ = await ask(client, peer)
            peer.send(*[junk] * 1000)
            with pytest.raises(ConnectionLost, match="bad-frame"):
                await call
            await peer.assert_gone()
            assert [(each.stream_id, each.code) for each in peer.of(frames.ERROR)] == [(0, 0x101)]
            await client.wait_connected(timeout_s=5)
    lost = [each for each in caplog.records if "lost" in each.getMessage() or each.levelno >= logging.WARNING]
    assert len(lost) == 1, [each.getMessage() for each in lost]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("kind", [0, 1, frames.LEASE, frames.RESUME, frames.RESUME_OK, 15, 62, frames.EXT])
@pytest.mark.parametrize("stream_id", [0, 1, 2, 8, 9])
@pytest.mark.parametrize("flags", [0, frames.IGNORE])
async def test_a_frame_that_means_nothing_disturbs_nobody(
    raw: RawBroker, kind: int, stream_id: int, flags: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows 4 and 6: EXT is 0x3F, and neither it nor any unknown kind breaks what runs, in either role."""
    async with at_work(raw) as (everything, client, peer):
        call, _ = await ask(client, peer)  # on stream 1
        peer.send(request(2, frames.RESPONSE, b"wait"))
        peer.send(*[Frame(stream_id, kind, flags, b"\0\0\0\1rest")] * 100)
        assert (await peer.call(4)).data == b"alive"
        peer.send(payload(1, b"fine", flags=frames.LAST))
        assert (await call).data == b"fine"
        assert everything.running == 1
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_credit_of_nothing_grants_nothing(raw: RawBroker) -> None:
    """Row 11: 0 is forbidden on the wire; who says it gets no item, and is served when more is asked for."""
    async with serving(raw, Everything().service) as (_, peer):
        peer.send(request(2, frames.STREAM, b"3", n=0), credit(2, 0))
        await peer.assert_alive()
        assert peer.of(frames.PAYLOAD) == []
        peer.send(credit(2, 2))
        items = await peer.expect(frames.PAYLOAD, 2)
        assert [each.data for each in items] == [b"0", b"1"]
        await peer.assert_alive()
        assert len(peer.of(frames.PAYLOAD)) == 2


@pytest.mark.parametrize("n", [frames.MAX_N, 0x80000001, 0xFFFFFFFF])
@pytest.mark.parametrize("kind", [frames.STREAM, frames.CHANNEL])
async def test_credit_has_31_bits_and_more_of_it_is_not_too_much(raw: RawBroker, kind: int, n: int) -> None:
    """Row 11: the highest bit is not part of the number, and sums beyond 31 bits are no error."""
    async with serving(raw, Everything().service) as (_, peer):
        peer.send(request(2, kind, b"1", n=n, flags=frames.COMPLETE if kind == frames.CHANNEL else 0))
        peer.send(credit(2, frames.MAX_N), credit(2, 0xFFFFFFFF))
        await peer.expect(frames.PAYLOAD, 2)
        assert [(each.data, each.flags) for each in peer.of(frames.PAYLOAD)] in (
            [(b"0", frames.NEXT), (b"", frames.COMPLETE)],
            [(b"1", frames.NEXT), (b"", frames.COMPLETE)],
        )


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        *((frames.STREAM, Frame(2, frames.REQUEST_N, 0, bytes(size))) for size in (0, 1, 3)),
        (frames.CHANNEL, Frame(2, frames.PAYLOAD, frames.METADATA | frames.NEXT, CUT)),
    ],
    ids=["no credit", "1 byte of credit", "3 bytes of credit", "an item"],
)
async def test_a_frame_that_is_cut_off_ends_its_stream_and_no_other(raw: RawBroker, kind: int, broken: Frame) -> None:
    """Rows 4 and 11."""
    async with serving(raw, Everything().service) as (_, peer):
        peer.send(request(2, kind, b"5", n=1))
        await peer.expect(frames.PAYLOAD)
        peer.send(broken)
        [answer] = await peer.expect(frames.ERROR)
        assert (answer.stream_id, answer.code) == (2, 0x204)
        assert (await peer.call(4)).data == b"alive"


@pytest.mark.parametrize("metadata", [None, b"", b"meta"])
async def test_metadata_that_is_empty_is_not_absent(raw: RawBroker, metadata: bytes | None) -> None:
    """Row 32, both ways and in both roles; row 33: what arrives are bytes, which can be keys."""
    service = Service("s")
    service.request_response()(gives(lambda data: Payload(data, metadata)))
    service.request_stream()(yields_of(lambda data: [Payload(data, metadata)]))

    async with serving(raw, service) as (client, peer):
        assert await peer.call(2, b"1") == payload(2, b"1", metadata=metadata, flags=frames.LAST)
        peer.send(request(4, frames.STREAM, b"2", n=2))
        assert (await peer.expect(frames.PAYLOAD, 1, stream_id=4))[0] == payload(4, b"2", metadata=metadata)
        for model in MODELS:
            call, asked = await ask(client, peer, model)
            peer.send(payload(asked.stream_id, b"3", metadata=metadata, flags=frames.LAST))
            got = await call
            assert (got.data, got.metadata) == (b"3", metadata)
            assert (type(got.data), type(got.metadata)) == (bytes, type(metadata))
            assert hash((got.data, got.metadata)) == hash((b"3", metadata))


async def test_what_a_handler_gets_are_bytes(raw: RawBroker) -> None:
    """Row 33, as the one who answers: also of fragments, of channels and of pushes."""
    seen: list[object] = []
    service = Service("s")

    @service.request_response()
    async def answer(data: bytes) -> bytes:
        seen.append(data)
        return data

    service.metadata_push()(gives(seen.append))

    @service.request_channel()
    async def echo(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        async for each in payloads:
            seen.extend([each.data, each.metadata])
            yield b""

    async with serving(raw, service) as (_, peer):
        peer.send(request(2, frames.RESPONSE, b"a", flags=frames.FOLLOWS), payload(2, b"b", flags=frames.NEXT))
        await peer.expect(frames.PAYLOAD)
        peer.send(request(4, frames.CHANNEL, b"c", metadata=b"d", n=9, flags=frames.COMPLETE))
        await peer.expect(frames.PAYLOAD, 3)
        assert seen == [b"ab", b"c", b"d"]
        assert [type(each) for each in seen] == [bytes] * 3


async def test_a_stream_id_that_is_used_again_at_once_is_a_new_request(raw: RawBroker) -> None:
    """Row 34: what older requesters do; the one who answers has forgotten the stream with its last frame."""
    async with serving(raw, Everything().service) as (_, peer):
        for number in range(100):
            assert await peer.call(2, b"%d" % number) == Frame(2, frames.PAYLOAD, frames.LAST, b"%d" % number)
        peer.send(request(2, frames.STREAM, b"1", n=9))
        assert [each.data for each in (await peer.expect(frames.PAYLOAD, 102))[-2:]] == [b"0", b""]
        peer.send(request(2, frames.CHANNEL, b"1", n=9), Frame(2, frames.CANCEL), request(2, frames.RESPONSE, b"last"))
        assert (await peer.expect(frames.PAYLOAD, 103))[-1].data == b"last"
