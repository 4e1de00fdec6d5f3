"""Rows 25 to 27: messages in pieces, pieces that nobody wants, and frames as long as 24 bits can say."""

import asyncio
import tracemalloc

import pytest

from client_sdk import Client, ClientError, Service, address
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, error, payload, request
from tests.client_sdk.raw_broker import MODELS, Everything, RawBroker, RawPeer, ask, at_work, serving
from tests.client_sdk.samples import gives, yields

MIB = 1 << 20
TO = address("x")
MOST_GATHERED = 64 * MIB  # of unfinished pieces, on one connection
MORE = frames.FOLLOWS | frames.NEXT


async def test_payloads_in_pieces_arrive_whole_and_in_order_beside_others(raw: RawBroker) -> None:
    """Row 25: two on one stream one after the other, those of another stream between their pieces."""
    async with serving(raw) as (client, peer):
        one, two = (client.request_stream(TO, initial_n=8) for _ in range(2))
        reading = [asyncio.ensure_future(anext(each)) for each in (one, two)]
        first, second = [each.stream_id for each in await peer.expect(frames.STREAM, 2)]
        peer.send(
            payload(first, b"A1", flags=MORE),
            payload(second, b"a1", flags=MORE),
            payload(first, b"A2", flags=MORE),
            payload(second, b"a2"),
            payload(first, b"A3"),
            payload(second, b"b1", flags=MORE),
            payload(first, b"B1", flags=MORE),
            payload(first, b"B2", flags=0),  # whether the rest says N again is left open
            payload(second, b"b2", flags=frames.FOLLOWS | frames.COMPLETE),  # C counts, and F does not
            payload(first, b"C", flags=frames.LAST),
        )
        got = [[(await each).data] for each in reading]
        for items, stream in zip(got, (one, two), strict=True):
            items += [each.data async for each in stream]
        assert got == [[b"A1A2A3", b"B1B2", b"C"], [b"a1a2", b"b1b2"]]


@pytest.mark.parametrize("model", MODELS)
async def test_metadata_in_pieces_comes_before_data_and_whole(raw: RawBroker, model: str) -> None:
    """Row 25, as the one who asked: empty pieces, too."""
    async with serving(raw) as (client, peer):
        call, asked = await ask(client, peer, model)
        number = asked.stream_id
        peer.send(
            payload(number, metadata=b"me", flags=MORE),
            payload(number, metadata=b"", flags=MORE),
            payload(number, metadata=b"ta", flags=MORE),
            payload(number, b"da", metadata=b"!", flags=MORE),
            payload(number, b"", flags=MORE),
            payload(number, b"ta", flags=frames.LAST),
        )
        got = await call
        assert (got.data, got.metadata) == (b"data", b"meta!")


@pytest.mark.parametrize("complete_in", ["first", "last", "both", "own frame"])
async def test_a_channel_in_pieces_keeps_its_complete_and_its_credit(raw: RawBroker, complete_in: str) -> None:
    """Row 25, as the one who answers."""
    async with serving(raw, Everything().service) as (_, peer):
        first = frames.COMPLETE if complete_in in ("first", "both") else 0
        last = frames.COMPLETE if complete_in in ("last", "both") else 0
        peer.send(
            request(2, frames.CHANNEL, b"on", n=7, flags=frames.FOLLOWS | first),
            payload(2, b"e", flags=frames.NEXT | last),
        )
        if complete_in == "own frame":
            peer.send(payload(2, flags=frames.COMPLETE))
        answers = await peer.expect(frames.PAYLOAD, 2)
        assert [(each.data, each.flags) for each in answers] == [(b"one", frames.NEXT), (b"", frames.COMPLETE)]
        assert peer.of(frames.CANCEL) + peer.of(frames.ERROR) == []


@pytest.mark.parametrize("kind", [frames.RESPONSE, frames.FNF, frames.STREAM])
async def test_a_request_in_a_thousand_pieces_is_one_request(raw: RawBroker, kind: int) -> None:
    """Row 25, as the one who answers: pieces of one byte, with other requests between them."""
    async with at_work(raw) as (everything, _, peer):
        text = b"0" * 999 + b"3"
        peer.send(request(2, kind, text[:1], n=9, flags=frames.FOLLOWS))
        for at in range(1, 999):
            peer.send(payload(2, text[at : at + 1], flags=MORE))
        assert (await peer.call(4, b"between")).data == b"between"
        peer.send(payload(2, text[999:]))
        assert (await peer.call(6, b"behind")).data == b"behind"
        asked = [data for _, data in everything.calls if data not in (b"between", b"behind")]
        assert asked == [text]


async def test_an_error_or_a_cancel_between_pieces_forgets_them(raw: RawBroker) -> None:
    """Row 27: as often as one likes, far beyond what may be gathered at a time."""
    everything = Everything()
    piece = bytes(8 * MIB)
    async with serving(raw, everything.service) as (client, peer):
        for number in range(2 * MOST_GATHERED // len(piece)):
            peer.send(
                request(2 + 2 * number, frames.RESPONSE, piece, flags=frames.FOLLOWS),
                Frame(2 + 2 * number, frames.CANCEL),
            )
            await peer.assert_alive()
        for _ in range(2 * MOST_GATHERED // len(piece)):
            call, asked = await ask(client, peer)
            peer.send(payload(asked.stream_id, piece, flags=MORE), error(asked.stream_id, 0x201, "boom"))
            with pytest.raises(ClientError, match="boom"):
                await call
        assert everything.calls == []
        assert len(raw.peers) == 1


async def test_pieces_of_no_stream_are_not_kept(raw: RawBroker) -> None:
    """Row 27: neither of streams that never were, nor of those that are over; measured."""
    async with serving(raw, Everything().service) as (client, peer):
        with pytest.raises(TimeoutError):
            await client.request_response(TO, timeout_s=0.01)
        [asked] = await peer.expect(frames.RESPONSE)
        piece = bytes(64 << 10)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(1000):
                stream_id = (asked.stream_id, 100 + 2 * number, 101 + 2 * number)[number % 3]
                peer.send(payload(stream_id, piece, flags=MORE))
                if number % 20 == 0:
                    await peer.assert_alive()
            await peer.assert_alive()
            kept = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert kept < 4 * MIB, f"{kept} bytes are kept of 64 MiB that nobody wanted"
        assert len(raw.peers) == 1


@pytest.mark.parametrize("role", ["requester", "responder"])
async def test_pieces_without_an_end_end_what_they_belong_to(raw: RawBroker, role: str) -> None:
    """Row 27: on one stream or on many; what is kept has a bound, and calls work afterwards."""
    async with at_work(raw) as (everything, client, peer):
        call, asked = await ask(client, peer)
        piece = bytes(8 * MIB)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(2 * MOST_GATHERED // len(piece)):
                if role == "requester":
                    peer.send(payload(asked.stream_id, piece, flags=MORE))
                else:
                    peer.send(request(2 + 2 * number, frames.RESPONSE, piece, flags=frames.FOLLOWS))
                await peer.assert_alive()
            if role == "requester":
                with pytest.raises(ClientError, match="too-large"):
                    await call
            await client.wait_connected(timeout_s=5)
            kept = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert kept < MOST_GATHERED + 8 * len(piece), f"{kept} bytes are kept"
        assert everything.calls == []
        assert (await raw.peers[-1].call(1000)).data == b"alive"
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


@pytest.mark.slow
async def test_pieces_without_content_have_a_bound_too(raw: RawBroker) -> None:
    """Row 27: a million empty ones cost memory all the same."""
    async with serving(raw) as (client, peer):
        call, asked = await ask(client, peer)
        empty = payload(asked.stream_id, flags=MORE).encode()
        pieces = (len(empty).to_bytes(3) + empty) * 20_000
        for _ in range(50):
            if peer.gone.is_set():
                break
            peer.write([pieces])
            await asyncio.sleep(0.01)
        with pytest.raises(ClientError, match="too-large"):
            await call
        await client.wait_connected(timeout_s=5)


@pytest.mark.parametrize("model", MODELS)
async def test_the_longest_frame_arrives(raw: RawBroker, model: str) -> None:
    """Row 26, as the one who asked: 16 777 215 bytes, and the next frame is read where it begins."""
    async with serving(raw) as (client, peer):
        call, asked = await ask(client, peer, model)
        data = bytes(frames.MAX_FRAME - 6)
        longest = payload(asked.stream_id, data, flags=frames.LAST)
        assert len(longest.encode()) == frames.MAX_FRAME
        peer.send(longest)
        assert (await call).data == data
        await peer.assert_alive()


async def test_the_longest_request_arrives(raw: RawBroker) -> None:
    """Row 26, as the one who answers: with metadata, and an answer of the same length."""
    service = Service("s")
    service.request_response()(gives(lambda data: data[:3:-1]))

    async with serving(raw, service) as (_, peer):
        data = bytes(frames.MAX_FRAME - 6 - 3 - 1) + b"z"
        longest = request(2, frames.RESPONSE, data, metadata=b"")
        assert len(longest.encode()) == frames.MAX_FRAME
        peer.send(longest)
        [answer] = await peer.expect(frames.PAYLOAD)
        assert answer.data[:1] == b"z"
        assert len(answer.data) == len(data) - 4
        await peer.assert_alive()


async def test_the_longest_payload_that_a_frame_holds_is_sent_in_one(raw: RawBroker) -> None:
    """Row 26: in each model, in both roles; no length wraps."""
    service = Service("s")
    data = bytes(frames.MAX_FRAME - 13)
    service.request_response()(gives(lambda _: data))
    service.request_stream()(yields(data))

    async with serving(raw, service) as (client, peer):
        room = frames.MAX_FRAME - 13 - len((await head_of(client, peer)) or b"")
        call = asyncio.create_task(client.request_response(TO, bytes(room)))
        asked = (await peer.expect(frames.RESPONSE, 2))[-1]
        assert len(asked.data) == room
        call.cancel()
        peer.send(request(2, frames.RESPONSE), request(4, frames.STREAM, n=2))
        answers = await peer.expect(frames.PAYLOAD, 3)
        assert [len(each.data) for each in answers if each.flags & frames.NEXT] == [len(data)] * 2
        await peer.assert_alive()
        await asyncio.gather(call, return_exceptions=True)


async def head_of(client: Client, peer: RawPeer) -> bytes | None:
    """The metadata that a call to TO has."""
    call, asked = await ask(client, peer, to=TO)
    peer.send(payload(asked.stream_id, flags=frames.LAST))
    await call
    return asked.metadata
