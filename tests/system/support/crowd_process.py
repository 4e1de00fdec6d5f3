"""Services and callers in processes of their own, so that a test can kill or stop them under load.

    python -m tests.system.support.crowd_process service URL NAME NUMBER
    python -m tests.system.support.crowd_process caller URL NAME LIFETIME_MS

A service answers a request with `NUMBER:` and its data; `streams` is answered with how many streams it has open. A
stream gets as many items as it has credit for, and never ends. A caller keeps requests and streams on the way, and
never ends either. Both say `joined` once the broker knows them, a caller once its first answers are there.
"""

import asyncio
import contextlib
import sys

from rsocket_wire.rsocket import frames
from tests.system.support.wires import Closed, Wire

STREAMS = b"streams"
IN_FLIGHT = 4  # requests of a caller, and as many streams
CREDIT_N = 8  # items, granted again when they have come


async def serve(url: str, name: str, number: int) -> None:
    """Answers until the broker or somebody else ends it."""
    wire = await Wire.service(url, name, number)
    print("joined", flush=True)
    streams: set[int] = set()

    def give(stream_id: int, n: int) -> None:
        wire.send(*(frames.encode_payload(stream_id, frames.NEXT, b"item") for _ in range(n)))

    while True:
        frame = await wire.next()
        if frame.kind == frames.REQUEST_RESPONSE:
            data = str(len(streams)).encode() if frame.data == STREAMS else frame.data
            wire.answer(frame, b"%d:%b" % (number, data))
        elif frame.kind == frames.REQUEST_STREAM:
            streams.add(frame.stream_id)
            give(frame.stream_id, frame.n)
        elif frame.kind == frames.REQUEST_N and frame.stream_id in streams:
            give(frame.stream_id, frame.n)
        elif frame.kind == frames.CANCEL:
            streams.discard(frame.stream_id)


async def call(url: str, name: str, lifetime_ms: int) -> None:
    """Asks for more as soon as something has come, and answers the broker's pings."""
    wire = await Wire.caller(url, lifetime_ms=lifetime_ms)
    streams = {wire.request(name, kind=frames.REQUEST_STREAM, n=CREDIT_N): CREDIT_N for _ in range(IN_FLIGHT)}
    for _ in range(IN_FLIGHT):
        wire.request(name)
    answers = 0
    while True:
        frame = await wire.next()
        if frame.kind == frames.KEEPALIVE:
            wire.send(frames.encode_keepalive(b"", respond=False))
        elif frame.stream_id in streams and frame.kind == frames.PAYLOAD:
            streams[frame.stream_id] -= 1
            if not streams[frame.stream_id]:
                streams[frame.stream_id] = CREDIT_N
                wire.send(frames.encode_request_n(frame.stream_id, CREDIT_N))
        else:
            wire.request(name)
            answers += 1
            if answers == IN_FLIGHT:
                print("joined", flush=True)


if __name__ == "__main__":
    role = serve if sys.argv[1] == "service" else call
    with contextlib.suppress(Closed):
        asyncio.run(role(sys.argv[2], sys.argv[3], int(sys.argv[4])))
