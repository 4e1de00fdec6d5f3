"""A service answers a caller: request/response through the broker.

python examples/ping_pong.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import sys
import time

from client_sdk import NoRoute, Service, address, connect
from client_sdk.testing import local_broker

ping = Service("ping", tags={"region": "eu"})


@ping.request_response("pong")
async def pong(data: bytes) -> bytes:
    return b"pong " + data


async def main(url: str) -> None:
    async with connect(url, service=ping), connect(url) as client:
        to = address("ping", region="eu")
        for number in range(3):
            began_at = time.perf_counter()
            answer = await client.request_response(to, b"%d" % number, route="pong", timeout_s=5)
            took_us = (time.perf_counter() - began_at) * 1e6
            print(f"ping {number} -> {answer.data!r} in {took_us:.0f} µs")
            assert answer.data == b"pong %d" % number

        try:
            await client.request_response(address("ping", region="mars"), timeout_s=5)
        except NoRoute as error:
            print(f"nobody is on mars: {error}")
        else:
            raise AssertionError("somebody is on mars")


async def run() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url:
        await main(url)


if __name__ == "__main__":
    asyncio.run(run())
