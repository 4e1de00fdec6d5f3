"""Rows 25 and 26: payloads that no frame holds, or that are cut on demand: in pieces, in order, with their end."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from client_sdk import Payload, Service, address, connect
from client_sdk.testing import local_broker
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, credit, payload, request
from tests.client_sdk.raw_broker import RawBroker, RawPeer, serving
from tests.client_sdk.samples import gives, items_of, yields_of

MIB = 1 << 20
BIG = 20 * MIB
MOST = 60 * MIB  # of one payload
TO = address("x")


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes whose order can be seen, the same for the same seed."""
    return random.Random(seed).randbytes(size)


class Whole:
    """Payloads put together again from the frames of one stream, in plain arithmetic."""

    def __init__(self, sent: list[Frame]) -> None:
        self.payloads: list[tuple[bytes | None, bytes]] = []
        self.is_complete = False
        metadata: bytes | None = None
        data = b""
        for frame in sent:
            assert len(frame.encode()) <= frames.MAX_FRAME
            if frame.kind not in (frames.PAYLOAD, frames.RESPONSE, frames.FNF, frames.STREAM, frames.CHANNEL):
                continue
            assert not self.is_complete, "a payload behind the end"
            if frame.metadata is not None:
                assert data == b"", "metadata behind data"
                metadata = (metadata or b"") + frame.metadata
            data += frame.data
            if frame.flags & frames.FOLLOWS and not (frame.kind == frames.PAYLOAD and frame.flags & frames.COMPLETE):
                continue
            if frame.kind != frames.PAYLOAD or frame.flags & frames.NEXT:
                self.payloads.append((metadata, data))
            self.is_complete = bool(frame.flags & frames.COMPLETE)
            metadata, data = None, b""
        assert data == b"", "a payload without its end"


async def until_whole(peer: RawPeer, stream_id: int, count: int) -> Whole:
    """Waits until so many payloads of a stream are there."""
    async with asyncio.timeout(10):
        while True:
            last = [each for each in peer.on(stream_id) if each.kind != frames.REQUEST_N]
            ends = [each for each in last if not each.flags & frames.FOLLOWS]
            if len(ends) >= count:
                return Whole(last)
            await asyncio.sleep(0.005)


async def test_twenty_mebibytes_are_asked_and_answered(raw: RawBroker) -> None:
    """Row 26, as the one who asks."""
    data = pattern(BIG)
    async with serving(raw) as (client, peer):
        call = asyncio.create_task(client.request_response(TO, data))
        await peer.expect(frames.RESPONSE)
        [asked] = peer.of(frames.RESPONSE)
        whole = await until_whole(peer, asked.stream_id, 1)
        assert whole.payloads[0][1] == data
        assert whole.payloads[0][0]
        middle = 7 * MIB
        peer.send(
            payload(asked.stream_id, data[:middle], flags=frames.FOLLOWS | frames.NEXT),
            payload(asked.stream_id, data[middle:], flags=frames.LAST),
        )
        assert (await call).data == data


async def test_twenty_mebibytes_are_answered_and_streamed(raw: RawBroker) -> None:
    """Row 26, as the one who answers: two streams at a time, each in its order."""
    service = Service("s")
    service.request_response()(gives(lambda data: pattern(BIG, data[0])))
    service.request_stream()(yields_of(lambda _: [pattern(BIG, 1), b"small", pattern(frames.MAX_FRAME, 2)]))

    async with serving(raw, service) as (_, peer):
        peer.send(request(2, frames.STREAM, n=9), request(4, frames.STREAM, n=9), request(6, frames.RESPONSE, b"\3"))
        for stream_id in (2, 4):
            whole = await until_whole(peer, stream_id, 4)
            assert [data for _, data in whole.payloads] == [pattern(BIG, 1), b"small", pattern(frames.MAX_FRAME, 2)]
            assert whole.is_complete
        whole = await until_whole(peer, 6, 1)
        assert whole.payloads == [(None, pattern(BIG, 3))]
        await peer.assert_alive()


async def test_an_answer_that_nobody_would_gather_is_refused_to_its_caller_alone(raw: RawBroker) -> None:
    """Row 26: nothing of it is sent."""
    service = Service("s")
    service.request_response()(gives(lambda data: data if data else bytes(MOST + 1)))

    async with serving(raw, service) as (_, peer):
        refused = await peer.call(2, b"")
        assert (refused.kind, refused.code) == (frames.ERROR, 0x204)
        assert refused.body[4:].startswith(b"too-large: ")
        assert (await peer.call(4)).data == b"alive"


@pytest.mark.parametrize("fragment_bytes", [64, 1000])
async def test_payloads_that_are_cut_on_demand_keep_their_order_and_their_end(
    raw: RawBroker, fragment_bytes: int
) -> None:
    """Row 25, as the one who answers: A, B and C of one stream do not mix, whatever other streams do."""
    service = Service("s")

    @service.request_stream()
    async def items(data: bytes) -> AsyncIterator[Payload]:
        for number in range(20):
            yield Payload(pattern(number * 37, number), pattern(300, number) if number % 3 == 0 else None)

    async with serving(raw, service, fragment_bytes=fragment_bytes) as (_, peer):
        peer.send(*[request(2 + 2 * number, frames.STREAM, n=frames.MAX_N) for number in range(5)])
        wanted = [
            (pattern(300, number) if number % 3 == 0 else None, pattern(number * 37, number)) for number in range(20)
        ]
        for number in range(5):
            whole = await until_whole(peer, 2 + 2 * number, 21)
            assert whole.payloads == wanted
            assert whole.is_complete
        assert max(len(each.encode()) for each in peer.of(frames.PAYLOAD)) <= fragment_bytes


@pytest.mark.parametrize("fragment_bytes", [64, 1000])
async def test_a_channel_that_is_cut_on_demand_keeps_its_first_item_and_its_end(
    raw: RawBroker, fragment_bytes: int
) -> None:
    """Row 25, as the one who asks."""
    sent = [pattern(number * 500, number) for number in range(1, 6)]
    async with serving(raw, None, fragment_bytes=fragment_bytes) as (client, peer):
        reading = asyncio.ensure_future(anext(client.request_channel(TO, items_of(*sent), initial_n=3)))
        await peer.expect(frames.CHANNEL)
        [asked] = peer.of(frames.CHANNEL)
        assert asked.n == 3
        peer.send(credit(asked.stream_id, frames.MAX_N))
        whole = await until_whole(peer, asked.stream_id, 6)
        assert [data for _, data in whole.payloads] == sent
        assert whole.is_complete
        peer.send(payload(asked.stream_id, b"done", flags=frames.LAST))
        assert (await reading).data == b"done"
        assert max(len(each.encode()) for each in peer.on(asked.stream_id)) <= fragment_bytes


async def test_a_payload_that_is_cancelled_in_the_middle_stops_there(raw: RawBroker) -> None:
    """Row 25: what has not left does not leave; the next one is whole."""
    async with serving(raw) as (client, peer):
        peer.stop_reading()
        call = asyncio.create_task(client.request_response(TO, bytes(50 * MIB)))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        peer.read_on()
        [cancel] = await peer.expect(frames.CANCEL)
        assert peer.on(cancel.stream_id)[-1].kind == frames.CANCEL
        after = asyncio.create_task(client.request_response(TO, b"after"))
        asked = (await peer.expect(frames.RESPONSE, 2))[-1]
        peer.send(payload(asked.stream_id, b"fine", flags=frames.LAST))
        assert (await after).data == b"fine"


async def test_twenty_mebibytes_pass_the_real_broker_both_ways() -> None:
    """Row 26: end to end."""
    service = Service("turn")
    service.request_response()(gives(lambda data: data[::-1]))

    data = pattern(BIG)
    async with local_broker() as url, connect(url, service=service), connect(url) as client:
        answer = await client.request_response(address("turn"), data, timeout_s=12)
        assert answer.data == data[::-1]
