"""Whatever a broker sends, right, half right or at random, to a client at work in both roles: nothing hangs or is left.

python -m tests.client_sdk.defects.test_fuzz FIRST_SEED SECONDS      # longer, by hand
"""

import asyncio
import logging
import random
import sys
import time
from typing import Final

import pytest

from client_sdk import Client, ClientError, address
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, content, payload
from tests.client_sdk.raw_broker import RawBroker, RawPeer, at_work
from tests.client_sdk.samples import items_of

SEEDS: Final = 25  # in the suite; each about a tenth of a second
FRAMES: Final = 300  # of one seed
TO: Final = address("x")
OUR_KINDS: Final = (frames.RESPONSE, frames.FNF, frames.STREAM, frames.CHANNEL)
STREAM_KINDS: Final = (
    *OUR_KINDS,
    frames.REQUEST_N,
    frames.CANCEL,
    frames.PAYLOAD,
    frames.PAYLOAD,
    frames.PAYLOAD,
    frames.PAYLOAD,
    frames.ERROR,
)
ENTRY: Final = b"\xfe\x00\x00\x05\x04name"  # a route


class Wild:
    """Frames by chance. A stream id that is spared is never used."""

    def __init__(self, seed: int, spared: set[int]) -> None:
        self._rng = random.Random(seed)
        self._spared = spared
        self.may_end = False  # a frame was among them that ends the connection

    def frames(self, live: list[int]) -> list[Frame | bytes]:
        """A few; `live`: streams that are open."""
        rng = self._rng
        draw = rng.random()
        if draw < 0.0005:
            self.may_end = True
            return [rng.randbytes(rng.randrange(6))]
        if draw < 0.06:
            return [self._zero()]
        if draw < 0.14:
            return [self._random()]
        if draw < 0.24:
            return self._pieces(self._id(live))
        return [self._likely(self._id(live))]

    def _id(self, live: list[int]) -> int:
        rng = self._rng
        while True:
            some = rng.choice([*live, rng.randrange(1, 60), 2 * rng.randrange(1, 60), 0x7FFFFFFF])
            if some not in self._spared:
                return some

    def _zero(self) -> Frame:
        """Of the connection itself."""
        rng = self._rng
        kind = rng.choice([frames.KEEPALIVE, frames.KEEPALIVE, frames.PUSH, 1, 2, 13, 14, 63, frames.ERROR])
        if kind == frames.ERROR:
            if rng.random() < 0.9:
                return Frame(0, frames.ERROR, 0, rng.randbytes(rng.randrange(4)))  # no code: says nothing
            self.may_end = True
            return Frame(0, frames.ERROR, 0, rng.choice([0x101, 0x102, 0x003, 0, 0x301]).to_bytes(4) + b"word: text")
        body = bytes(8) + rng.randbytes(rng.randrange(4)) if kind == frames.KEEPALIVE else self._bytes()
        if kind == frames.PUSH:
            body = rng.choice([ENTRY, ENTRY + body, b"\x00x" + len(body).to_bytes(3) + body])
        return Frame(0, kind, rng.choice([0, 0x80, frames.METADATA, 0x3FF]), body)

    def _random(self) -> Frame:
        """A header that can be, and anything behind it."""
        rng = self._rng
        kind = rng.randrange(64)
        stream_id = self._id([])
        return Frame(stream_id, kind, rng.randrange(0x400), rng.randbytes(rng.randrange(30)))

    def _likely(self, stream_id: int) -> Frame:
        """A frame as it should be, now and then with a byte less or a flag more."""
        rng = self._rng
        kind = rng.choice(STREAM_KINDS)
        metadata = rng.choice([None, None, b"", ENTRY, self._bytes()])
        flags = 0 if metadata is None or kind in (frames.REQUEST_N, frames.CANCEL, frames.ERROR) else frames.METADATA
        if kind == frames.REQUEST_N:
            body = rng.choice([0, 1, 2, 100, 0x7FFFFFFF, 0xFFFFFFFF]).to_bytes(4)
        elif kind == frames.CANCEL:
            body = b""
        elif kind == frames.ERROR:
            body = rng.choice([0, 0x201, 0x202, 0x203, 0x204, 0x301, 0xFFFFFFFF]).to_bytes(4) + self._bytes()
        else:
            n = rng.choice([0, 1, 5, 0x7FFFFFFF]) if kind in (frames.STREAM, frames.CHANNEL) else None
            body = content(rng.choice([b"", b"1", b"3", b"wait", self._bytes()]), metadata, n)
            if kind == frames.PAYLOAD:
                flags |= rng.choice(
                    [
                        0,
                        frames.NEXT,
                        frames.NEXT,
                        frames.LAST,
                        frames.COMPLETE,
                        frames.FOLLOWS | frames.NEXT,
                        frames.FOLLOWS | frames.LAST,
                    ]
                )
            elif kind == frames.CHANNEL:
                flags |= rng.choice([0, 0, frames.COMPLETE])
        if rng.random() < 0.05:
            body = body[: rng.randrange(len(body) + 1)]
        if rng.random() < 0.05:
            flags ^= 1 << rng.randrange(10)
        return Frame(stream_id, kind, flags, body)

    def _pieces(self, stream_id: int) -> list[Frame | bytes]:
        """A request or payload in pieces, the last of which may be missing."""
        rng = self._rng
        kind = rng.choice([*OUR_KINDS, frames.PAYLOAD, frames.PAYLOAD])
        n = 3 if kind in (frames.STREAM, frames.CHANNEL) else None
        pieces: list[Frame | bytes] = [
            Frame(stream_id, kind, frames.FOLLOWS | frames.NEXT * (kind == frames.PAYLOAD), content(b"1", None, n))
        ]
        for _ in range(rng.randrange(4)):
            pieces.append(payload(stream_id, self._bytes(), flags=frames.FOLLOWS | rng.choice([0, frames.NEXT])))
        if rng.random() < 0.8:
            pieces.append(payload(stream_id, b"", flags=rng.choice([0, frames.NEXT, frames.LAST, frames.COMPLETE])))
        return pieces

    def _bytes(self) -> bytes:
        return self._rng.randbytes(self._rng.choice([0, 1, 7, 40]))


async def read(client: Client, model: str) -> None:
    """One call to its end, whatever that is."""
    if model == "response":
        await client.request_response(TO, b"x")
    elif model == "stream":
        async for _ in client.request_stream(TO, b"x", initial_n=3):
            pass
    elif model == "channel":
        async for _ in client.request_channel(TO, items_of(*[b"x"] * 5), initial_n=3):
            pass
    else:
        await client.fire_and_forget(TO, b"x")
        await client.metadata_push(TO, b"x")


async def harass(raw: RawBroker, seed: int) -> str:
    """One connection under fire; how it ended. AssertionError when it was not as it should be."""
    async with at_work(raw) as (everything, client, peer):
        assert isinstance(peer, RawPeer)
        kept = asyncio.create_task(client.request_response(TO, b"kept"))
        [asked] = await peer.expect(frames.RESPONSE)
        wild = Wild(seed, {asked.stream_id})
        calls = [asyncio.create_task(read(client, model)) for model in ("response", "stream", "channel", "note") * 3]
        await peer.expect(frames.CHANNEL, 3)
        live = [each.stream_id for each in peer.frames if each.kind in OUR_KINDS and each.stream_id != asked.stream_id]
        seen = 0
        for number in range(FRAMES):
            if peer.gone.is_set():
                break
            peer.send(*wild.frames(live))
            if number % 25 == 0:
                await asyncio.sleep(0.001)
                live = live[-30:] + [each.stream_id for each in peer.frames[seen:] if each.stream_id][-10:]
                live = [each for each in live if each != asked.stream_id]
                seen = len(peer.frames)
                calls += [asyncio.create_task(read(client, "stream"))]
        if wild.may_end:
            ended = "ended"
            peer.abort()
        else:
            await peer.assert_alive()
            assert not kept.done()
            peer.send(payload(asked.stream_id, b"undisturbed", flags=frames.LAST))
            assert (await asyncio.wait_for(kept, 5)).data == b"undisturbed"
            ended = "alive"
            peer.abort()
        ends = await asyncio.wait_for(asyncio.gather(*calls, kept, return_exceptions=True), 10)
        wrong = [each for each in ends if isinstance(each, BaseException) and not isinstance(each, ClientError)]
        assert wrong == []
        await client.wait_connected(timeout_s=5)
        assert (await raw.peers[-1].call(2)).data == b"alive"
    assert everything.running == 0
    return ended


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_wild_broker(raw: RawBroker, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """All calls end, those that nobody touched are answered, and the next connection works."""
    with caplog.at_level(logging.CRITICAL, "client_sdk"):  # what pushes and handlers say is another test's
        await harass(raw, seed)


async def by_hand(first: int, seconds: float) -> None:
    """Seed after seed, each with a broker of its own."""
    end_at = time.monotonic() + seconds
    seed, ends = first, {"alive": 0, "ended": 0}
    before = asyncio.all_tasks()
    while time.monotonic() < end_at:
        raw = await RawBroker().start()
        try:
            ends[await asyncio.wait_for(harass(raw, seed), 30)] += 1
        except BaseException:
            print(f"seed {seed}")
            raise
        await raw.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before, f"seed {seed}: {asyncio.all_tasks() - before}"
        seed += 1
    print(f"seeds {first}..{seed - 1}: {ends}")


if __name__ == "__main__":
    logging.getLogger("client_sdk").setLevel(logging.CRITICAL)
    asyncio.run(by_hand(int(sys.argv[1]), float(sys.argv[2])))
