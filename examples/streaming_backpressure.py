"""A slow consumer and a fast producer: the producer sends only what the consumer has requested.

python examples/streaming_backpressure.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from client_sdk import Request, Service, address, connect
from client_sdk.testing import local_broker

WINDOW_N = 4  # items that may be under way
sensor = Service("sensor")
made = 0


@sensor.request_stream("readings")
async def readings(request: Request) -> AsyncIterator[bytes]:
    """Could go on for ever, as fast as it is let."""
    global made
    while True:
        made += 1
        yield b"reading %d" % made


async def main(url: str) -> None:
    async with connect(url, service=sensor), connect(url) as client:
        taken = 0
        to = address("sensor")
        stream = client.request_stream(to, route="readings", returns=bytes, initial_n=WINDOW_N, timeout_s=10)
        async with stream:
            async for item in stream:
                taken += 1
                await asyncio.sleep(0.02)  # the consumer works
                print(f"taken {taken:2}, made {made:2}: {item.decode()}")
                # The window, and the one that a producer prepares to see whether there is an end.
                assert made <= taken + WINDOW_N + 1
                if taken == 12:
                    break
        print(f"left the loop: the producer stopped at {made}, it was cancelled")


async def run() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url:
        await main(url)


if __name__ == "__main__":
    asyncio.run(run())
